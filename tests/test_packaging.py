"""Pins agree, and the wheel carries what it needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_uv_and_pip_read_the_same_pins() -> None:
    constraints = [line for line in (ROOT / "constraints.txt").read_text().split("\n") if line.strip()]
    assert constraints == PYPROJECT["tool"]["uv"]["constraint-dependencies"]
    assert all("==" in line for line in constraints)


def test_uv_run_finds_versions_for_a_checkout(tmp_path: Path) -> None:
    """`uv run` resolves all extras together before it does anything: two that exclude each other must say so."""
    (tmp_path / "src" / "neatrec").mkdir(parents=True)
    for file in ("pyproject.toml", "README.md", "src/neatrec/_version.py"):
        shutil.copy(ROOT / file, tmp_path / file)
    (tmp_path / "src" / "neatrec" / "__init__.py").touch()
    uv("lock", "--python", sys.executable, "--project", str(tmp_path))
    assert (tmp_path / "uv.lock").exists()


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
    """The wheel and what it says it needs, nothing else: no checkout, no tools of ours."""
    python = tmp_path / "env" / "bin" / "python"
    uv("venv", "--python", sys.executable, str(tmp_path / "env"))
    uv("pip", "install", "--python", str(python), "--constraint", str(ROOT / "constraints.txt"), str(wheel))
    done = subprocess.run(
        [str(python.with_name("neatrec")), "demo", "--out", str(tmp_path / "demo")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "NEATREC_CACHE": str(tmp_path / "cache")},
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "calibrated" in done.stdout
    assert (tmp_path / "demo" / "report" / "index.html").is_file()


def uv(*arguments: str) -> None:
    """Run the uv that `make setup` put beside the checkout."""
    tools = ROOT / ".tools"
    assert (tools / "uv").is_dir(), "run `make setup` first: the test installs the wheel with the uv in .tools"
    environment = {**os.environ, "PYTHONPATH": str(tools)}
    subprocess.run([sys.executable, "-m", "uv", "--quiet", *arguments], check=True, env=environment, timeout=600)
