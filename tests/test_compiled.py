"""Compiled code is kept between starts, is never stale, and computes the same bits wherever it
comes from."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("blocked", "reason"), [(True, "Not a directory|File exists"), (False, "File too large")]
)
def test_a_cache_that_cannot_be_written_fails_no_run(
    tmp_path: Path, blocked: bool, reason: str
) -> None:
    """A file in the place of its folder, and a full disk."""
    cache = tmp_path / "cache"
    if blocked:
        cache.write_text("not a folder")
    code = (
        "import logging, resource, sys; logging.basicConfig(level=logging.INFO)\n"
        "sys.dont_write_bytecode = True\n"
        "from neatrec.simulator import supermarket\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "print(len(supermarket(baskets=300, items=60, seed=1).baskets))"
    )
    done = run(code, cache)
    assert done.stdout.strip() == "300"
    assert "compiled code is not kept" in done.stderr
    assert re.search(reason, done.stderr)
    assert not list(tmp_path.rglob("*.nbc"))
