"""Compiled code is kept between starts, is never stale, and computes the same bits wherever it
comes from."""

import os
import subprocess
import sys
from pathlib import Path

HELPER = (
    "from neatrec.compiled import compiled\n\n\n@compiled\ndef helper(x):\n    return x + {step}\n"
)
KERNEL = (
    "from neatrec.compiled import compiled\nfrom neatrec.somewhere.helper import helper\n\n\n"
    "@compiled\ndef kernel(x):\n    return helper(x) * 10\n"
)


def run(code: str, cache: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`code` in a new interpreter that keeps compiled code in `cache`."""
    variables = {**os.environ, **environment, "NEATREC_CACHE": str(cache)}
    return subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True
    )


def run_kernel(source: Path, cache: Path) -> tuple[int, int]:
    """The kernel's answer in a new interpreter, and how many compiled files the cache then
    holds."""
    code = "from neatrec.somewhere.kernel import kernel; print(kernel(1))"
    done = run(code, cache, PYTHONPATH=str(source))
    return int(done.stdout), len(list(cache.rglob("*.nbc")))


def test_a_changed_helper_in_another_file_is_noticed(tmp_path: Path) -> None:
    original = Path(__file__).parents[1] / "src" / "neatrec"
    package = tmp_path / "src" / "neatrec"
    folder = package / "somewhere"
    folder.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "compiled.py").write_text((original / "compiled.py").read_text())
    (folder / "__init__.py").touch()
    (folder / "kernel.py").write_text(KERNEL)
    (folder / "helper.py").write_text(HELPER.format(step=1))
    cache = tmp_path / "cache"
    assert run_kernel(tmp_path / "src", cache) == (20, 2)
    assert run_kernel(tmp_path / "src", cache) == (20, 2)
    (folder / "helper.py").write_text(HELPER.format(step=2))
    assert run_kernel(tmp_path / "src", cache) == (30, 4)


def test_a_cache_folder_that_cannot_be_written_is_not_used(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    code = (
        "import logging; logging.basicConfig(level=logging.INFO)\n"
        "import numba; before = numba.config.CACHE_DIR\n"
        "from neatrec import compiled as c\n"
        "print(c._usable_folder(c.PACKAGE / 'compiled.py'))\n"
        "assert numba.config.CACHE_DIR == before"
    )
    done = run(code, blocked)
    assert done.stdout.strip() == "None"
    assert "compiled code is not kept" in done.stderr


def test_a_full_disk_under_the_cache_fails_no_run(tmp_path: Path) -> None:
    code = (
        "import logging, resource, sys; logging.basicConfig(level=logging.INFO)\n"
        "sys.dont_write_bytecode = True\n"
        "from neatrec.simulator import supermarket\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "print(len(supermarket(baskets=300, items=60, seed=1).baskets))"
    )
    done = run(code, tmp_path)
    assert done.stdout.strip() == "300"
    assert done.stderr.count("compiled code is not kept in") == 1
    assert "File too large" in done.stderr
    assert not list(tmp_path.rglob("*.nbc"))


def test_machine_code_gives_the_same_bits_compiled_and_from_the_cache(tmp_path: Path) -> None:
    """Of a function that is called a process runs the copy it loaded first: see `RELAXED`."""
    code = (
        "from neatrec.data.baskets import Baskets\nfrom neatrec.models import Run, make_model\n"
        "lists = [[f'{k}.{n % (7 + 2 * k)}' for k in range(2 + n % 9)] for n in range(400)]\n"
        "baskets = Baskets.from_lists(lists)\n"
        "run = Run(rng=1, threads=1, reproducible=True, device='cpu')\n"
        "arrays = make_model('neat', {'dim': 8, 'epochs': 3}).fit(baskets, run).arrays()\n"
        "print({name: array.tobytes().hex() for name, array in arrays.items()})"
    )
    compiled_here = run(code, tmp_path).stdout
    kept = len(list(tmp_path.rglob("*.nbc")))
    assert run(code, tmp_path).stdout == compiled_here
    assert len(list(tmp_path.rglob("*.nbc"))) == kept > 0
