"""`kill -9` while an embedding model trains, writes checkpoints and saves: nothing is lost, nothing loads wrong."""

import shutil
from collections import Counter
from pathlib import Path

import numpy as np

from helpers import training_crash_worker
from helpers.killing import kill_in, started
from helpers.training_crash_worker import PHASES, model_of
from neatrec.bundle import BundleLock, load_bundle, read_manifest, save_bundle
from neatrec.models.base import Model

ROUNDS = 20


def assert_is_version(model: Model, version: int) -> None:
    wanted = model_of(version).arrays()
    for name, array in model.arrays().items():
        np.testing.assert_array_equal(array, wanted[name], err_msg=f"{name} of version {version}")


def version_in(bundle: Path) -> int:
    """The version that loads from `bundle`, checked against the model that belongs to it."""
    model, version = load_bundle(bundle), int(read_manifest(bundle).notes["version"])
    assert_is_version(model, version)
    return version


def test_kill_minus_nine_in_training_and_its_checkpoints(tmp_path: Path) -> None:
    bundle, copy = tmp_path / "bundle", tmp_path / "copy"
    save_bundle(model_of(1), bundle, baskets_hash="1", seed=1, notes={"version": 1})
    rng = np.random.default_rng(21)
    landed: Counter[str] = Counter()
    known, resumed = 1, 0
    with started(training_crash_worker.__file__) as worker:
        while sum(landed.values()) < ROUNDS or len(landed) < len(PHASES):
            assert sum(landed.values()) < 5 * ROUNDS, f"some phases were never hit: {landed}"
            target = min(PHASES, key=lambda phase: (landed[phase], PHASES.index(phase)))
            phase, last = kill_in(worker, f"{bundle}\t{known}\tresume", target, rng.uniform(0, 0.008))
            landed[phase] += 1
            found = version_in(bundle)
            assert known <= found <= last <= found + 1, f"killed in {phase}"
            known = found
            with BundleLock(bundle) as lock:  # the dead run holds it no more
                if lock.checkpoints.exists():
                    resumed += 1
                    shutil.copytree(lock.checkpoints, copy)
                    assert_is_version(model_of(last, checkpoints=copy, resume=True), last)
                    shutil.rmtree(copy)
                if found == last:
                    lock.remove_checkpoints()
    assert landed.keys() == set(PHASES)
    assert resumed >= ROUNDS // 4, "too few of the kills left a checkpoint for this to say anything"
