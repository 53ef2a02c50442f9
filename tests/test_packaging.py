"""Pins agree, and the wheel carries what it needs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_uv_and_pip_read_the_same_pins() -> None:
    constraints = [line for line in (ROOT / "constraints.txt").read_text().split("\n") if line.strip()]
    assert constraints == PYPROJECT["tool"]["uv"]["constraint-dependencies"]
    assert all("==" in line for line in constraints)


def test_every_core_dependency_is_pinned_and_says_why() -> None:
    pinned = {
        re.split("==", line)[0].lower().replace("_", "-") for line in (ROOT / "constraints.txt").read_text().split()
    }
    text = (ROOT / "pyproject.toml").read_text()
    for requirement in PYPROJECT["project"]["dependencies"]:
        name = re.split(r"[<>=\[]", requirement)[0].lower().replace("_", "-")
        assert name in pinned
        line = next(line for line in text.split("\n") if f'"{requirement}"' in line)
        assert "#" in line, f"{name} needs a line saying why it is there"


def test_the_version_is_a_literal() -> None:
    text = (ROOT / "src/neatrec/_version.py").read_text()
    assert re.fullmatch(r'__version__ = "\d+\.\d+\.\d+"\n', text)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)],
        check=True,
        capture_output=True,
    )
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_its_sql_and_data_files(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    for file in (ROOT / "src" / "neatrec").rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            assert file.relative_to(ROOT / "src").as_posix() in inside
    assert any(name.endswith(".sql") for name in inside)


def test_the_wheel_runs_the_demo_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    """A new environment that sees this one's libraries but not this checkout."""
    venv.create(tmp_path / "env", with_pip=False)
    home = tmp_path / "env" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(home)
    libraries = next(Path(p) for p in sys.path if p.endswith("site-packages"))
    for entry in libraries.iterdir():
        if "neatrec" not in entry.name and not entry.name.endswith(".pth") and not (home / entry.name).exists():
            (home / entry.name).symlink_to(entry)
    done = subprocess.run(
        [str(tmp_path / "env" / "bin" / "python"), "-m", "neatrec", "demo", "--out", str(tmp_path / "demo")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "NEATREC_CACHE": str(tmp_path / "cache")},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "calibrated" in done.stdout
