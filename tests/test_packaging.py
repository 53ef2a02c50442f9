"""Pins agree, and the wheel carries what it needs."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from neatrec.errors import EXTRAS

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def packages_of(extra: str) -> list[str]:
    packages: list[str] = PYPROJECT["project"]["optional-dependencies"][extra]
    return packages


def name_of(requirement: str) -> str:
    return re.split(r"[<>=\[]", requirement)[0].lower().replace("_", "-")


def test_every_dependency_is_pinned() -> None:
    pinned = {
        line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().split()
    }
    extras = (line for extra in EXTRAS for line in packages_of(extra))
    assert {name_of(each) for each in (*PYPROJECT["project"]["dependencies"], *extras)} <= pinned


def test_what_an_extra_must_bring_is_in_the_extra() -> None:
    for extra, modules in EXTRAS.items():
        brought = {name_of(package).replace("-", "_") for package in packages_of(extra)}
        assert set(modules) <= brought
    assert packages_of("all") == [f"neatrec[{','.join(EXTRAS)}]"]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    words = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_its_data_files(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    for file in (ROOT / "src" / "neatrec").rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            assert file.relative_to(ROOT / "src").as_posix() in inside
    assert any(not name.endswith(".py") for name in inside)


PINNED = ("--constraint", str(ROOT / "constraints.txt"))


def installed(
    target: str, folder: Path, cache: Path, versions: Sequence[str] = PINNED
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`neatrec` of an empty environment with `target` and what it says it needs: no checkout, no
    tools of ours."""
    python = folder / "env" / "bin" / "python"
    uv("venv", "--python", sys.executable, str(folder / "env"))
    uv("pip", "install", "--python", str(python), *versions, target)

    def neatrec(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(python.with_name("neatrec")), *words],
            capture_output=True,
            text=True,
            cwd=folder,
            env={**os.environ, "NEATREC_CACHE": str(cache)},
            timeout=600,
        )

    return neatrec


def test_a_bare_install_trains_and_answers_and_names_the_extra_it_lacks(
    wheel: Path, tmp_path: Path
) -> None:
    neatrec = installed(str(wheel), tmp_path, tmp_path / "cache")
    train = ("train", "supermarket:baskets=1000,items=100", "--model")
    for words in ((*train, "shrunk-lift", "--out", "bundle"), ("recommend", "bundle", "1000")):
        done = neatrec(*words)
        assert done.returncode == 0, done.stderr
    for words, extra in (
        (("serve", "bundle"), "serve"),
        (("demo",), "report"),
        ((*train, "cf", "--out", "other"), "als"),
    ):
        done = neatrec(*words)
        assert done.returncode == 2
        assert f"pip install 'neatrec[{extra}]'" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("resolution", ["pinned", "lowest-direct", "highest"])
def test_the_wheel_with_all_extras_runs_the_demo(
    wheel: Path, tmp_path: Path, resolution: str
) -> None:
    free = ("--no-config", "--resolution", resolution)
    versions = PINNED if resolution == "pinned" else free
    neatrec = installed(f"{wheel}[all]", tmp_path, tmp_path / "cache", versions)
    for words in (("demo", "--out", "demo"), ("show", "demo/bundle"), ("serve", "no-such-bundle")):
        done = neatrec(*words)
        assert done.returncode == (2 if words[0] == "serve" else 0), done.stderr
    assert "there is no file or folder no-such-bundle" in done.stderr


def uv(*arguments: str) -> None:
    """Run the uv that `make setup` put beside the checkout."""
    tools = ROOT / ".tools"
    assert (tools / "uv").is_dir(), (
        "run `make setup` first: the test installs the wheel with the uv in .tools"
    )
    environment = {**os.environ, "PYTHONPATH": str(tools)}
    subprocess.run(
        [sys.executable, "-m", "uv", "--quiet", *arguments],
        check=True,
        env=environment,
        timeout=600,
    )
