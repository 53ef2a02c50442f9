"""A new bundle takes over while requests go on; a bad one does not."""

import gc
import os
import shutil
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from helpers.service_bundle import write_bundle
from neatrec.errors import NeatrecError
from neatrec.release import PublishLimits, publish
from neatrec.service.app import make_app
from neatrec.service.metrics import Metrics
from neatrec.service.settings import ServiceSettings
from neatrec.service.watcher import BundleWatcher
from neatrec.serving import PairTable


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Bundles of three nights."""
    folder = tmp_path_factory.mktemp("nights")
    return [write_bundle(folder / f"night-{seed}", seed=seed) for seed in (1, 2, 3)]


def flip(store: Path, bundle: Path) -> None:
    """`current` names another bundle, in one step, as `publish` does it."""
    link = store / ".next"
    link.symlink_to(bundle)
    os.replace(link, store / "current")


def damaged_copy(bundle: Path, folder: Path, number: int = 0) -> Path:
    """A copy with one flipped byte in one of its files."""
    copy = folder / f"damaged-{number}"
    shutil.copytree(bundle, copy)
    files = sorted(file for file in copy.rglob("*") if file.is_file())
    file = files[number % len(files)]
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    return copy


@pytest.mark.parametrize("number", range(6))
def test_a_damaged_bundle_is_refused_and_the_old_one_stays(
    versions: list[Path], tmp_path, number: int, caplog
) -> None:
    flip(tmp_path, versions[0])
    metrics = Metrics()
    watcher = BundleWatcher(ServiceSettings(tmp_path), metrics)
    before = watcher.snapshot
    flip(tmp_path, damaged_copy(versions[1], tmp_path, number))
    assert not watcher.check()
    assert watcher.snapshot.bundle is before.bundle
    assert b"neatrec_refused_bundles_total 1.0" in metrics.text()
    assert b"neatrec_refusing_bundle 1.0" in metrics.text()
    assert "refused, the old one stays" in caplog.text
    flip(tmp_path, versions[2])
    assert watcher.check()
    assert watcher.snapshot.refusal is None


@pytest.fixture
def store(versions: list[Path], tmp_path: Path) -> Path:
    """A store of two versions."""
    for bundle in versions[:2]:
        publish(bundle, tmp_path / "store", PublishLimits(coverage_fall=1, top10_changed=1))
    return tmp_path / "store"


def overwrite(file: Path, content: bytes) -> None:
    """In place, as `cp` does it: not a new file."""
    with file.open("r+b") as stream:
        stream.truncate(len(content))
        stream.write(content)


def test_a_start_falls_back_to_the_newest_version_that_verifies(
    store: Path, versions: list[Path], caplog
) -> None:
    file = store / "current" / "table" / "answers.arrow"
    good = file.read_bytes()
    overwrite(file, good[:100])
    watcher = BundleWatcher(ServiceSettings(store), Metrics())
    asking = TestClient(make_app(watcher.settings, watcher))
    older, live = (PairTable.open(bundle).version for bundle in versions[:2])
    ready = asking.get("/readyz").json()
    assert (ready["status"], ready["bundle"]) == ("ok", older)
    assert "is damaged: it has 100 bytes" in ready["refusal"]
    assert "neatrec_refusing_bundle 1.0" in asking.get("/metrics").text
    lines = [
        line for line in caplog.messages if "the live bundle is refused, serving version 1-" in line
    ]
    assert len(lines) == 1
    overwrite(file, good)
    assert watcher.check()
    assert asking.get("/readyz").json() == {"status": "ok", "bundle": live}
    assert "neatrec_refusing_bundle 0.0" in asking.get("/metrics").text


def test_a_store_without_any_good_version_is_a_sentence(store: Path) -> None:
    for version in (store / "versions").glob("*-*"):
        overwrite(version / "items.parquet", b"")
    with pytest.raises(
        NeatrecError, match=r"no version of .*store can be served: .*items.parquet is damaged"
    ) as found:
        BundleWatcher(ServiceSettings(store), Metrics())
    assert found.value.exit_code == 1


@pytest.mark.parametrize("name", ["table/answers.arrow", "table/pairs.arrow", "arrays.safetensors"])
@pytest.mark.parametrize("content", [b"", b"noise" * 9999], ids=["truncated", "noise"])
def test_files_changed_in_place_change_no_answer(versions, tmp_path, name, content: bytes) -> None:
    bundle = Path(shutil.copytree(versions[0], tmp_path / "bundle"))
    watcher = BundleWatcher(ServiceSettings(bundle), Metrics())
    asking = TestClient(make_app(watcher.settings, watcher))
    paths = [f"/v1/complements?item={item}&min_evidence=guess" for item in (100, 305)]
    before = [asking.get(path).json() for path in paths]
    overwrite(bundle / name, content)
    assert not watcher.check()
    assert "is damaged" in str(watcher.snapshot.refusal)
    assert [asking.get(path).json() for path in paths] == before


def test_an_old_bundle_is_let_go_although_its_pages_were_looked_at(
    versions: list[Path], tmp_path: Path
) -> None:
    flip(tmp_path, versions[0])
    watcher = BundleWatcher(ServiceSettings(tmp_path), Metrics())
    asking = TestClient(make_app(watcher.settings, watcher))
    old = []
    for number in range(4):
        for path in ("/item?id=100", "/cart?item=100&item=101"):
            assert asking.get(path, headers={"accept": "text/html"}).status_code == 200
        old.append(weakref.ref(watcher.snapshot.bundle))
        flip(tmp_path, versions[(number + 1) % 3])
        assert watcher.check()
    gc.collect()
    assert [bundle() for bundle in old] == [None] * 4


def test_swaps_under_load_fail_no_request_and_mix_no_versions(versions, tmp_path, running) -> None:
    store = tmp_path / "store"
    store.mkdir()
    flip(store, versions[0])
    settings = ServiceSettings(store, interval=0.02)
    metrics = Metrics()
    watcher = BundleWatcher(settings, metrics)
    url = running(make_app(settings, watcher))
    paths = ["/v1/complements?item=100&k=50&min_evidence=guess", "/v1/complements?item=101"]
    expected = {PairTable.open(bundle).version: said(bundle, paths) for bundle in versions}
    stop, wrong, seen = threading.Event(), [], set()

    def ask() -> None:
        with httpx.Client(base_url=url, timeout=60) as asking:
            while not stop.is_set():
                for path in paths:
                    answer = asking.get(path)
                    body = answer.json()
                    seen.add(body.get("bundle"))
                    if (
                        answer.status_code != 200
                        or body["complements"] != expected[body["bundle"]][path]
                    ):
                        wrong.append((answer.status_code, path))

    askers = [threading.Thread(target=ask) for _ in range(3)]
    for asker in askers:
        asker.start()
    try:
        for number in range(9):
            before = watcher.snapshot
            flip(store, versions[(number + 1) % 3])
            wait_until(lambda before=before: watcher.snapshot is not before)
            # the callers have met it before the next one comes
            wait_until(lambda: watcher.snapshot.bundle.version in seen)
            if number % 3 == 0:
                flip(store, damaged_copy(versions[number % 3], tmp_path, number))
                wait_until(lambda number=number: refused(metrics) == number // 3 + 1)
    finally:
        stop.set()
        for asker in askers:
            asker.join()
    assert not wrong
    assert seen == set(expected)
    assert refused(metrics) == 3
    assert b"neatrec_bundle_swaps_total 9.0" in metrics.text()


def said(bundle: Path, paths: list[str]) -> dict[str, Any]:
    """Answers of a server with one bundle only."""
    asking = TestClient(make_app(ServiceSettings(bundle)))
    return {path: asking.get(path).json()["complements"] for path in paths}


def refused(metrics: Metrics) -> int:
    return int(metrics.refused._value.get())


def wait_until(true: Callable[[], bool]) -> None:
    paused = threading.Event()
    for _ in range(2000):
        if true():
            return
        paused.wait(0.02)
    raise AssertionError("waited in vain")
