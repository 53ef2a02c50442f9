"""`torchrun -m neatrec train`: two processes over gloo, a killed process, Spark's TorchDistributor."""

import json
import os
import pickle
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from helpers.kernel_cases import assert_equal_arrays
from helpers.thread_process_group import run_processes
from neatrec.bundle import load_bundle, read_manifest
from neatrec.io import SourceOptions
from neatrec.models.base import Model
from neatrec.models.embeddings.synchronize import Synchronizer
from neatrec.training.streaming import StreamOptions
from neatrec.training.train import ModelChoice, TrainOptions, train_bundle

pytestmark = pytest.mark.skipif(
    find_spec("torch") is None, reason="needs torch, several gigabytes: pip install 'neatrec[distributed]'"
)
KILLED_PROCESS = Path(__file__).parents[1] / "helpers" / "killed_process.py"
SOURCE = "supermarket:baskets=500,items=60"
FIT = ["--model", "neat", "--set", "dim=8", "--set", "epochs=5", "--reproducible", "--threads", "1", "--no-index"]
SYNC_EVERY = 30


def python(*arguments: object, **env: object) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, **{name: str(value) for name, value in env.items()}}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=500, check=False, env=environ)


def torchrun(processes: int, *arguments: object, **env: object) -> subprocess.CompletedProcess[str]:
    return python("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", processes, *arguments, **env)


STREAMING = StreamOptions(SOURCE, SourceOptions(), at_least=8)
CHOICE = ModelChoice(model="neat", settings=("dim=8", "epochs=5"))
OPTIONS = TrainOptions(threads=1, reproducible=True, index=False, sync_every=SYNC_EVERY)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """The model of two undisturbed processes, by threads in place of processes."""
    out = tmp_path_factory.mktemp("expected") / "bundle"
    run_processes(2, lambda group: train_bundle(STREAMING, out, CHOICE, OPTIONS, Synchronizer(group, SYNC_EVERY)))
    return load_bundle(out)


def test_two_processes_write_one_bundle(expected: Model, tmp_path: Path) -> None:
    out = tmp_path / "bundle"
    done = torchrun(2, "-m", "neatrec", "train", SOURCE, "--out", out, *FIT, "--sync-every", SYNC_EVERY, "--json", "-v")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["content_hash"] == read_manifest(out).content_hash  # one report, of the first
    assert done.stderr.count("epoch 5 of 5") == 1
    assert_equal_arrays(load_bundle(out), expected)
    assert [file.name for file in tmp_path.iterdir()] == ["bundle"]


def test_one_process_has_the_bits_of_training_without_a_launcher(tmp_path: Path) -> None:
    launched = torchrun(1, "-m", "neatrec", "train", SOURCE, "--out", tmp_path / "launched", *FIT)
    plain = python("-m", "neatrec", "train", SOURCE, "--out", tmp_path / "plain", *FIT)
    assert (launched.returncode, plain.returncode) == (0, 0), launched.stderr + plain.stderr
    assert_equal_arrays(load_bundle(tmp_path / "launched"), load_bundle(tmp_path / "plain"))


def test_a_killed_process_ends_the_training_and_resume_comes_to_the_same_bits(expected: Model, tmp_path: Path) -> None:
    out = tmp_path / "bundle"
    train = ["train", SOURCE, "--out", out, *FIT, "--sync-every", SYNC_EVERY]
    killed = torchrun(2, KILLED_PROCESS, *train, KILL_FILE=tmp_path / "killed")
    assert killed.returncode != 0
    assert re.search(r"rank\s*:\s*1 ", killed.stderr), killed.stderr
    assert "Signal 9 (SIGKILL)" in killed.stderr
    assert (tmp_path / "bundle.checkpoint").is_dir()
    assert not out.exists()
    resumed = torchrun(2, "-m", "neatrec", *train, "--resume", "-v")
    assert resumed.returncode == 0, resumed.stderr
    assert "resuming after 2 of 5 epochs" in resumed.stderr
    assert_equal_arrays(load_bundle(out), expected)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bundle", "killed"]


def test_a_launcher_that_restarts_with_resume_comes_to_the_same_bits(expected: Model, tmp_path: Path) -> None:
    train = ["train", SOURCE, "--out", tmp_path / "bundle", *FIT, "--sync-every", SYNC_EVERY, "--resume", "-v"]
    env = {"KILL_FILE": tmp_path / "killed", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": 1}  # a new store per restart
    done = torchrun(2, "--max-restarts", 1, KILLED_PROCESS, *train, **env)
    assert done.returncode == 0, done.stderr
    assert "resuming after 2 of 5 epochs" in done.stderr
    assert_equal_arrays(load_bundle(tmp_path / "bundle"), expected)


def test_an_unreadable_source_is_reported_once_and_leaves_no_file(tmp_path: Path) -> None:
    done = torchrun(2, "-m", "neatrec", "train", "nowhere", "--out", tmp_path / "bundle", *FIT)
    assert done.returncode != 0
    assert done.stderr.count("there is no file or folder nowhere. Check the path.") == 1
    assert not any(tmp_path.iterdir())


SPARK = """
import pickle, sys
from pathlib import Path
from neatrec.cooccurrence.spark import connect
from neatrec.training.distributed import train_on_spark

connect("local[2]")
streaming, choice, options = pickle.loads(bytes.fromhex(sys.argv[1]))
print(train_on_spark(streaming, Path(sys.argv[2]), choice, options, processes=2, local=True)["model"])
"""


@pytest.mark.skipif(find_spec("pyspark") is None, reason="needs PySpark: pip install 'neatrec[spark]'")
def test_spark_comes_to_the_same_bits(expected: Model, tmp_path: Path) -> None:
    fit = pickle.dumps((STREAMING, CHOICE, OPTIONS)).hex()
    done = python("-c", SPARK, fit, tmp_path / "bundle", PYSPARK_PYTHON=sys.executable)
    if "needs Java" in done.stderr:
        pytest.skip(f"needs Java: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "neat"
    assert_equal_arrays(load_bundle(tmp_path / "bundle"), expected)
