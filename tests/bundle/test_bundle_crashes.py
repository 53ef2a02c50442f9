"""Kills, full disks and read-only folders: the bundle is the old one or the new one, whole, and never lost."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from helpers import crash_worker
from helpers.crash_worker import PHASES, model_of
from helpers.full_disk import no_file_larger_than
from helpers.killing import Worker, kill_in, started
from neatrec.bundle import bundle_lock, load_bundle, read_manifest, save_bundle
from neatrec.errors import ResourceError
from neatrec.models import Model

ROUNDS = 20
EVERY = np.arange(22)


def save(version: int, bundle: Path) -> None:
    save_bundle(model_of(version), bundle, seed=0, notes={"version": version})


def version_in(bundle: Path) -> int:
    """The version that loads from `bundle`, checked against the model that was saved under this number."""
    model, version = load_bundle(bundle), int(read_manifest(bundle).notes["version"])
    assert np.array_equal(model.score_all(EVERY), model_of(version).score_all(EVERY))
    return version


def names_beside(bundle: Path) -> list[str]:
    return sorted(file.name for file in bundle.parent.iterdir())


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with started(crash_worker.__file__) as process:
        yield process


@pytest.mark.parametrize("way", ["exchange", "renames"])
def test_kill_minus_nine_in_every_phase(worker: Worker, tmp_path: Path, way: str) -> None:
    bundle = tmp_path / "bundle"
    save(1, bundle)
    rng = np.random.default_rng(20)
    landed: Counter[str] = Counter()
    known = 1
    while sum(landed.values()) < ROUNDS or len(landed) < len(PHASES):
        assert sum(landed.values()) < 20 * ROUNDS, f"some phases were never hit: {landed}"
        target = min(PHASES, key=lambda phase: (landed[phase], PHASES.index(phase)))
        phase, last = kill_in(worker, f"{bundle}\t{known}\t{way}", target, rng.uniform(0, 0.008))
        landed[phase] += 1
        found = version_in(bundle)
        assert known <= found <= last, f"killed in {phase}"
        known = found
        with bundle_lock(bundle):  # the dead run holds it no more
            pass
    assert landed.keys() == set(PHASES)
    save(known + 1, bundle)
    assert version_in(bundle) == known + 1
    assert names_beside(bundle) == ["bundle"]


def test_readers_see_one_whole_version_while_it_is_replaced(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    models: dict[int, Model] = {version: model_of(version) for version in range(1, 5)}
    save(1, bundle)
    stop = threading.Event()

    def keep_writing() -> None:
        version = 1
        while not stop.is_set():
            version = version % 4 + 1
            save_bundle(models[version], bundle, seed=0, notes={"version": version})
            time.sleep(0.005)

    writer = threading.Thread(target=keep_writing)
    writer.start()
    seen: Counter[int] = Counter()
    try:
        start = time.monotonic()
        while (spent := time.monotonic() - start) < 2 or len(seen) < 2:
            assert spent < 120, f"one version in two minutes: {seen}"
            scores = load_bundle(bundle).score_all(EVERY)
            (version,) = [
                v for v, model in models.items() if np.array_equal(model.score_all(EVERY), scores)
            ]
            seen[version] += 1
    finally:
        stop.set()
        writer.join()


@pytest.mark.parametrize("space", [150, 600, 1500, 4000])
def test_a_full_disk_leaves_the_old_bundle(tmp_path: Path, space: int) -> None:
    """With more and more space the arrays, the items and the manifest are the first that do not fit."""
    bundle = tmp_path / "bundle"
    save(1, bundle)
    new = model_of(2)
    with (
        no_file_larger_than(space),
        pytest.raises(ResourceError, match=r"cannot write the bundle .*bundle: .*Free some space"),
    ):
        save_bundle(new, bundle, seed=0, notes={"version": 2, "padding": "x" * 5000})
    assert version_in(bundle) == 1
    assert names_beside(bundle) == ["bundle"]
