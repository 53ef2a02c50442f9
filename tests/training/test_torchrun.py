"""`torchrun -m neatrec train`: two processes over gloo, a death among them, Spark's launcher."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from helpers.thread_process_group import ThreadTeam, all_at_once
from neatrec.bundle import load_bundle, read_manifest
from neatrec.io import SourceOptions
from neatrec.models.base import Model
from neatrec.models.embeddings.synchronize import Together
from neatrec.training.streaming import StreamOptions
from neatrec.training.train import ModelChoice, train_bundle

pytestmark = pytest.mark.skipif(
    find_spec("torch") is None, reason="needs torch, several gigabytes: pip install 'neatrec[distributed]'"
)
HELPERS = Path(__file__).parents[1] / "helpers"
SOURCE = "supermarket:baskets=500,items=60"
FIT = ["--model", "neat", "--set", "dim=8", "--set", "epochs=5", "--reproducible", "--threads", "1", "--no-index"]
EVERY = 30


def torchrun(
    processes: int, *words: object, options: tuple[str, ...] = ("--standalone",), **env: object
) -> subprocess.CompletedProcess[str]:
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes), *options]
    return subprocess.run(
        [sys.executable, *launcher, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        env={**os.environ, **{name: str(value) for name, value in env.items()}},
    )


@pytest.fixture
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the processes of mortal.py keep their notes."""
    return tmp_path_factory.mktemp("notes")


def assert_same(one: Model, other: Model) -> None:
    a, b = one.arrays(), other.arrays()
    assert a.keys() == b.keys()
    for name, array in a.items():
        np.testing.assert_array_equal(array, b[name], err_msg=name)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """What two processes come to that nobody disturbs, by threads in place of processes."""
    out = tmp_path_factory.mktemp("whole") / "bundle"
    streaming = StreamOptions(SOURCE, SourceOptions(), at_least=8)
    plan = ModelChoice(model="neat", settings=("dim=8", "epochs=5"))

    def work(team: ThreadTeam) -> None:
        train_bundle(streaming, out, plan, threads=1, reproducible=True, index=False, together=Together(team, EVERY))

    all_at_once(2, work)
    return load_bundle(out)


def test_two_processes_write_one_bundle(whole: Model, tmp_path: Path) -> None:
    out = tmp_path / "bundle"
    done = torchrun(2, "-m", "neatrec", "train", SOURCE, "--out", out, *FIT, "--combine-every", EVERY, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["content_hash"] == read_manifest(out).content_hash  # one answer, from the first
    assert done.stderr.count("epoch 5 of 5") == 1
    assert_same(load_bundle(out), whole)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bundle"]


@pytest.mark.parametrize("processes", [2, 3])
def test_changed_rows_alone_come_to_the_sum_of_whole_tables(processes: int, tmp_path: Path) -> None:
    """Of two numbers to the bit; in which order gloo adds up three depends on where they lie in what is sent."""
    path = os.pathsep.join(folder for folder in sys.path if folder)
    done = torchrun(processes, HELPERS / "synchronizing_process.py", tmp_path, PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    by_rows, whole = (
        [np.load(tmp_path / f"{kind}-{rank}.npy") for rank in range(processes)] for kind in ("Together", "Everything")
    )
    assert len({table.tobytes() for table in by_rows}) == 1
    assert by_rows[0].any()
    if processes == 2:
        assert by_rows[0].tobytes() == whole[0].tobytes()
    np.testing.assert_allclose(by_rows[0], whole[0], rtol=0, atol=1e-5)


def test_one_process_has_the_bits_of_a_plain_training(tmp_path: Path) -> None:
    done = torchrun(1, "-m", "neatrec", "train", SOURCE, "--out", tmp_path / "one", *FIT)
    assert done.returncode == 0, done.stderr
    plain = subprocess.run(
        [sys.executable, "-m", "neatrec", "train", SOURCE, "--out", tmp_path / "plain", *FIT],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert plain.returncode == 0, plain.stderr
    assert_same(load_bundle(tmp_path / "one"), load_bundle(tmp_path / "plain"))


def test_a_killed_process_ends_the_job_which_names_it_and_leaves_a_checkpoint(
    whole: Model, tmp_path: Path, notes: Path
) -> None:
    out = tmp_path / "bundle"
    words = ["train", SOURCE, "--out", out, *FIT, "--combine-every", EVERY]
    done = torchrun(2, HELPERS / "killed_process.py", *words, MORTAL_NOTES=notes)
    assert done.returncode != 0
    assert re.search(r"rank\s*:\s*1 ", done.stderr), done.stderr
    assert "Signal 9 (SIGKILL)" in done.stderr
    assert (tmp_path / "bundle.checkpoint").is_dir()
    assert not out.exists()
    again = torchrun(2, "-m", "neatrec", *words, "--resume")
    assert again.returncode == 0, again.stderr
    assert "going on after 2 of 5 epochs" in again.stderr
    assert_same(load_bundle(out), whole)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bundle"]


def test_a_death_ends_a_job_whose_other_process_would_never_end(tmp_path: Path, notes: Path) -> None:
    words = ["train", SOURCE, "--out", tmp_path / "bundle", *FIT, "--combine-every", EVERY]
    done = torchrun(2, HELPERS / "killed_process.py", *words, MORTAL_NOTES=notes, MORTAL_HELD="always")
    assert done.returncode != 0
    assert re.search(r"rank\s*:\s*1 ", done.stderr), done.stderr
    assert "Signal 9 (SIGKILL)" in done.stderr


def test_a_job_that_is_started_again_goes_on_by_itself(whole: Model, tmp_path: Path, notes: Path) -> None:
    out = tmp_path / "bundle"
    words = ["train", SOURCE, "--out", out, *FIT, "--combine-every", EVERY]
    options = ("--standalone", "--max-restarts", "1")
    done = torchrun(2, HELPERS / "killed_process.py", *words, options=options, MORTAL_NOTES=notes)
    assert done.returncode == 0, done.stderr
    assert "going on after 2 of 5 epochs" in done.stderr
    assert_same(load_bundle(out), whole)


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port: int = place.getsockname()[1]
        return port


def test_machines_that_count_restarts_differently_go_on_together(whole: Model, tmp_path: Path, notes: Path) -> None:
    """Two launchers, as on two machines: the one whose process was held counts no restart."""
    out = tmp_path / "bundle"
    words = ["train", SOURCE, "--out", out, *FIT, "--combine-every", EVERY]
    meeting = ("--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{free_port()}", "--rdzv-id", "job")
    options = ("--nnodes", "2", "--max-restarts", "1", *meeting)

    def machine(_: int) -> subprocess.CompletedProcess[str]:
        return torchrun(
            1, HELPERS / "killed_process.py", *words, options=options, MORTAL_NOTES=notes, MORTAL_HELD="asked"
        )

    with ThreadPoolExecutor(2) as machines:
        ends = list(machines.map(machine, range(2)))
    said = "".join(done.stderr for done in ends)
    assert [done.returncode for done in ends] == [0, 0], said
    assert [(notes / f"restarts-{rank}").read_text() for rank in range(2)] == ["0", "1"]
    assert said.count("going on after 2 of 5 epochs") == 1
    assert_same(load_bundle(out), whole)


def test_bad_input_is_said_once_and_leaves_nothing(tmp_path: Path) -> None:
    done = torchrun(2, "-m", "neatrec", "train", "nowhere", "--out", tmp_path / "bundle", *FIT)
    assert done.returncode != 0
    assert done.stderr.count("there is no file or folder nowhere. Check the path.") == 1
    assert not any(tmp_path.iterdir())


SPARK = """
import json, sys
from pathlib import Path
from neatrec.cooccurrence.spark import connect
from neatrec.training.streaming import StreamOptions
from neatrec.training.train import ModelChoice
from neatrec.training.distributed import train_on_spark
from neatrec.io import SourceOptions

connect("local[2]")
streaming = StreamOptions(sys.argv[1], SourceOptions(), at_least=8)
plan = ModelChoice(model="neat", settings=("dim=8", "epochs=5"))
how = {"threads": 1, "reproducible": True, "index": False, "every": int(sys.argv[3])}
answer = train_on_spark(streaming, Path(sys.argv[2]), plan, processes=2, local=True, **how)
print(json.dumps(answer))
"""


@pytest.mark.skipif(find_spec("pyspark") is None, reason="needs PySpark: pip install 'neatrec[spark]'")
def test_sparks_launcher_runs_the_same_function(whole: Model, tmp_path: Path) -> None:
    out = tmp_path / "bundle"
    done = subprocess.run(
        [sys.executable, "-c", SPARK, SOURCE, str(out), str(EVERY)],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    if "needs Java" in done.stderr:
        pytest.skip(f"needs Java: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["model"] == "neat"
    assert_same(load_bundle(out), whole)
