"""Records name the machine, the versions and the commit; real data comes from NEATREC_DATA."""

import json
import platform
import subprocess
from pathlib import Path

import numpy as np
import pytest

from benchmarks import harness

RUN = {"wall": 2.0, "cpu": 1.0, "peak_mib": 5.0, "before_mib": 4.0, "answer": 7}


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=tester", "-c", "user.email=tester@example.org"]
    return subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one commit with a folder of records; the harness takes it for its own."""
    git(tmp_path, "init", "--quiet")
    (tmp_path / "code.py").write_text("x = 1\n")
    git(tmp_path, "add", "code.py")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    monkeypatch.delenv("NEATREC_COMMIT", raising=False)
    monkeypatch.setattr(harness, "ROOT", tmp_path)
    monkeypatch.setattr(harness, "RESULTS", tmp_path / "results")
    return tmp_path


def test_a_record_names_the_machine_and_not_its_owner(checkout: Path) -> None:
    path = harness.save(
        "some", {"a table": [harness.summary("a job", [RUN, {**RUN, "cpu": 3.0}])]}, ["numpy", "no-such"]
    )
    record = json.loads(path.read_text())
    assert record["results"]["a table"][0]["cpu"] == {"median": 2.0, "min": 1.0, "max": 3.0}
    assert record["versions"]["numpy"] == np.__version__
    assert record["versions"]["no-such"] == "not installed"
    assert record["machine"]["cores"] >= 1
    for private in (platform.node(), str(checkout), str(Path.home())):
        assert private not in path.read_text()


def test_a_record_carries_its_commit_and_a_changed_tree_is_refused(checkout: Path) -> None:
    head = git(checkout, "rev-parse", "HEAD").strip()
    assert head.startswith(json.loads(harness.save("first", {}, []).read_text())["commit"])
    assert head.startswith(json.loads(harness.save("second", {}, []).read_text())["commit"])  # records may be new
    (checkout / "code.py").write_text("x = 2\n")
    with pytest.raises(SystemExit, match=r"commit these changes first\.\n M code\.py"):
        harness.save("third", {}, [])
    assert not (checkout / "results" / "third.json").exists()


def test_a_copy_without_git_needs_the_commit_by_name(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout / ".git").rename(checkout / "no.git")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(checkout.parent))
    with pytest.raises(SystemExit, match="set NEATREC_COMMIT"):
        harness.save("first", {}, [])
    monkeypatch.setenv("NEATREC_COMMIT", "abc1234")
    assert json.loads(harness.save("first", {}, []).read_text())["commit"] == "abc1234"


@pytest.mark.parametrize("file", sorted(harness.RESULTS.glob("*.json")), ids=lambda file: file.stem)
def test_every_record_says_what_it_measured_and_where_it_came_from(file: Path) -> None:
    record = json.loads(file.read_text())
    assert record["results"]
    assert record["command"].startswith(f"python -m benchmarks.{record['benchmark']}")
    assert record["commit"] != "unknown" or record["recorded_in"], "a record names its commit, or the one it came with"


def test_missing_data_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEATREC_DATA", raising=False)
    with pytest.raises(SystemExit, match="set NEATREC_DATA to the folder that holds instacart/"):
        harness.data_folder("instacart", [])
    monkeypatch.setenv("NEATREC_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match=r"needs orders\.parquet in instacart/ under NEATREC_DATA: set NEATREC_DATA"):
        harness.data_folder("instacart", ["orders.parquet"])


def test_a_job_is_measured_in_a_process_of_its_own() -> None:
    run = harness.measure("benchmarks.harness", "machine_as_job")
    assert run["answer"] == harness.machine()
    assert 0 <= run["cpu"] < 5
    assert 0 < run["wall"] < 60
    assert run["peak_mib"] >= run["before_mib"] > 1
    with pytest.raises(SystemExit, match="no_such_job failed:"):
        harness.measure("benchmarks.harness", "no_such_job")
