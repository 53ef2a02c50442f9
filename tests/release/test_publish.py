"""Every night: a bundle goes live inside the gate, whole or not at all, and back."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.toyshop import toy_baskets
from neatrec.bundle.versions import bundle_in
from neatrec.data import Baskets
from neatrec.errors import BundleError, GateError, ParameterError, ResourceError
from neatrec.models import Run, make_model
from neatrec.release import BundleDiff, BundleStore, PublishLimits, compare, publish, rollback
from neatrec.release import store as publish_store
from neatrec.serving import PairTable, save_indexed

OPEN = PublishLimits(
    rows_fall=1, rows_rise=100, items_fall=1, items_rise=100, coverage_fall=1, top10_changed=1
)


def new_bundle(path: Path, baskets: Baskets | None = None, model: str = "shrunk-lift") -> Path:
    baskets = toy_baskets() if baskets is None else baskets
    save_indexed(make_model(model).fit(baskets, Run(threads=1)), path, baskets, seed=0, k=12)
    return path


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Bundles of ten nights, each of a few more baskets than the one before."""
    folder = tmp_path_factory.mktemp("nights")
    return [new_bundle(folder / f"night{n}", toy_baskets(500 + 10 * n)) for n in range(10)]


def published(store: Path, bundles: list[Path]) -> Path:
    for bundle in bundles:
        publish(bundle, store, OPEN)
    return store


def version_of(bundle: Path) -> str:
    return PairTable.open(bundle).version


def test_the_first_publish_has_no_limits(nights: list[Path], tmp_path: Path) -> None:
    answer = publish(nights[0], tmp_path / "store", PublishLimits(top10_changed=0))
    assert (answer["published"], answer["live"], answer["difference"]) == (True, 1, None)
    assert version_of(tmp_path / "store" / "current") == version_of(nights[0]) == answer["version"]
    assert os.readlink(tmp_path / "store" / "current") == f"versions/1-{answer['version'][:12]}"
    again = publish(nights[0], tmp_path / "store")
    assert (again["published"], again["live"], again["kept"]) == (False, 1, [1])


def test_the_last_seven_are_kept(nights: list[Path], tmp_path: Path) -> None:
    store = tmp_path / "store"
    for bundle in nights:
        answer = publish(bundle, store, OPEN)
    assert answer["kept"] == [4, 5, 6, 7, 8, 9, 10]
    assert version_of(bundle_in(store)) == version_of(nights[-1])
    rollback(store, to=4)
    BundleStore(store).prune(keep=1)
    assert [version.number for version in BundleStore(store).versions()] == [4, 10]  # 4 is live


def test_rollback_skips_versions_that_were_rolled_back(nights: list[Path], tmp_path: Path) -> None:
    store = published(tmp_path / "store", nights[:3])
    assert rollback(store)["live"] == 2
    assert version_of(store / "current") == version_of(nights[1])
    assert publish(nights[3], store, OPEN)["live"] == 4
    assert rollback(store)["live"] == 2
    assert rollback(store)["live"] == 1
    with pytest.raises(BundleError, match="holds no version older than the live one"):
        rollback(store)
    assert rollback(store, to=3)["live"] == 3
    with pytest.raises(ParameterError, match="`to` must be one of the versions 1, 2, 3, 4, got 9"):
        rollback(store, to=9)
    with pytest.raises(ParameterError, match="a store that `neatrec publish` made"):
        rollback(tmp_path / "nowhere")


def test_violated_limits_are_all_reported_and_the_live_version_stays(
    nights: list[Path], tmp_path: Path
) -> None:
    store = tmp_path / "store"
    publish(nights[0], store)
    half = new_bundle(tmp_path / "half", toy_baskets(60))
    (store / "gate.toml").write_text("top10_changed = 0.05\n")
    with pytest.raises(GateError, match=r"the limits come from .*gate\.toml") as refused:
        publish(half, store)
    assert "training lines fell from" in refused.value.message
    with pytest.raises(GateError, match=r"these are the default limits: set others in gate\.toml"):
        publish(half, store, PublishLimits())
    assert refused.value.exit_code == 3
    assert version_of(store / "current") == version_of(nights[0])
    assert [version.number for version in BundleStore(store).versions()] == [1]
    (store / "gate.toml").write_text(
        "rows_fall = 1\ntop10_changed = 1\ncoverage_fall = 1\nitems_fall = 1\n"
    )
    assert publish(half, store)["live"] == 2


SAME = BundleDiff(("a", "b"), (100, 100), (100, 100), (0.5, 0.5), 0.0, 0, 0, ())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rows": (100, 79)}, "training lines fell from 100 to 79 (rows_fall = 0.2)"),
        ({"rows": (100, 201)}, "training lines rose from 100 to 201 (rows_rise = 1)"),
        ({"items": (100, 89)}, "bought items fell from 100 to 89 (items_fall = 0.1)"),
        ({"items": (100, 201)}, "bought items rose from 100 to 201 (items_rise = 1)"),
        (
            {"coverage": (0.5, 0.44)},
            "sales with evidence fell from 50.0% to 44.0% (coverage_fall = 0.05)",
        ),
        ({"rows": (100, 80), "items": (100, 90), "top10_changed": 0.5}, None),
        ({"top10_changed": 0.51}, "51.0% of the top ten answers changed (top10_changed = 0.5)"),
    ],
)
def test_each_violated_limit_is_reported(change: dict[str, object], reason: str | None) -> None:
    found = PublishLimits().violations(replace(SAME, **change))
    assert found == ([] if reason is None else [reason])


def test_a_difference_names_what_changed_most(tmp_path: Path) -> None:
    old = PairTable.open(new_bundle(tmp_path / "old"))
    new = PairTable.open(new_bundle(tmp_path / "new", toy_baskets(60, seed=7)))
    assert compare(old, old).top10_changed == 0
    assert compare(old, old).changes == ()
    found = compare(old, new, listed=3)
    assert 0 < found.top10_changed <= 1
    assert 0 < len(found.changes) <= 3
    weight = [change.sales * change.changed for change in found.changes]
    assert weight == sorted(weight, reverse=True)
    json.dumps(found.to_json(), allow_nan=False)


def test_a_bundle_that_was_rolled_back_is_not_published_again(
    nights: list[Path], tmp_path: Path
) -> None:
    store = published(tmp_path / "store", nights[:2])
    assert rollback(store)["live"] == 1
    with pytest.raises(
        GateError,
        match=r"this bundle was rolled back as version 2\. Publish another one, or `neatrec",
    ):
        publish(nights[1], store)
    assert BundleStore(store).current().number == 1
    assert rollback(store, to=2)["live"] == 2
    assert publish(nights[0], store)["published"]


def test_a_folder_that_is_no_store_is_refused(nights: list[Path], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "current").write_text("x")
    publish(nights[0], tmp_path / "gone")
    shutil.rmtree(BundleStore(tmp_path / "gone").versions()[0].folder)
    for store, kind, message in (
        (tmp_path / "file", ParameterError, "`store` must be a folder"),
        (nights[1], ParameterError, "which holds bundles; this is one"),
        (tmp_path / "odd", BundleError, "is not a link of a store"),
        (tmp_path / "gone", BundleError, "links to a missing live version"),
    ):
        with pytest.raises(kind, match=message):
            publish(nights[0], store)


def test_a_damaged_live_version_does_not_prevent_a_publish(
    nights: list[Path], tmp_path: Path, caplog
) -> None:
    """The new one is measured against the newest version that is whole, and the answer says which was damaged."""
    store = published(tmp_path / "store", nights[:3])
    damage(BundleStore(store).versions()[2].folder)
    with pytest.raises(GateError, match="training lines rose from"):
        publish(nights[3], store, PublishLimits(rows_rise=0, top10_changed=1))
    assert "version 3 (live) is damaged" in caplog.text
    answer = publish(nights[3], store, OPEN)
    assert (answer["live"], answer["damaged"], answer["compared_with"]) == (4, [3], 2)
    assert answer["difference"]["versions"][0] == version_of(nights[1])
    assert publish(nights[4], store, OPEN)["damaged"] == []


def damage(bundle: Path) -> None:
    """One bit of the table is another."""
    file = bundle / "table" / "answers.arrow"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_a_full_disk_leaves_the_live_version(nights: list[Path], tmp_path, monkeypatch) -> None:
    store = tmp_path / "store"
    publish(nights[0], store)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(publish_store.shutil, "copyfile", refuse)
    with pytest.raises(ResourceError, match=r"cannot write the store .*No space left") as refused:
        publish(nights[1], store, OPEN)
    assert "The live one is untouched" in str(refused.value)
    monkeypatch.undo()
    assert version_of(store / "current") == version_of(nights[0])
    assert sorted(entry.name for entry in (store / "versions").iterdir()) == [
        BundleStore(store).versions()[0].folder.name
    ]


WORKER = """
import sys, time
from neatrec.bundle import folder as place
from neatrec.bundle import store as bundle_store
from neatrec.release import store as publish_store
from neatrec.release import publish
from neatrec.release import PublishLimits

def slow(module, name):
    real = getattr(module, name)
    def call(*words, **options):
        print(name, flush=True)
        time.sleep(0.003)
        return real(*words, **options)
    setattr(module, name, call)

for module, name in ((publish_store, "sync_file"), (publish_store, "sync_folder"), (bundle_store, "sync_file"),
                     (place, "sync_folder"), (publish_store, "verify_files"), (publish_store, "remove"),
                     (publish_store.os, "rename")):
    slow(module, name)
publish_store.BundleStore.prune.__defaults__ = (2,)
OPEN = PublishLimits(rows_fall=1, rows_rise=100, items_fall=1, items_rise=100, coverage_fall=1, top10_changed=1)
print("ready", flush=True)
store, *bundles = sys.argv[1:]
number = 0
while True:
    number += 1
    publish(bundles[number % len(bundles)], store, OPEN)
"""


def test_a_kill_at_any_moment_leaves_a_complete_live_version(
    nights: list[Path], tmp_path: Path
) -> None:
    """kill -9 some steps later each time; the live bundle opens, and the next publish cleans up."""
    complete = {version_of(bundle) for bundle in nights[:4]}
    live = published(tmp_path / "store", nights[:2])
    rollback(live)
    for steps in (1, 8, 15, 30, 45):
        command = [sys.executable, "-c", WORKER, str(live), *map(str, nights[2:4])]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert worker.stdout.readline() == "ready\n"
        assert all(worker.stdout.readline() for _ in range(steps))
        worker.send_signal(signal.SIGKILL)
        worker.wait(timeout=60)
        worker.stdout.close()
        assert PairTable.open(bundle_in(live), verify=True).version in complete
    (live / "versions" / ".gone-1-0123456789ab").mkdir()
    assert publish(nights[5], live, OPEN)["published"]
    stored = BundleStore(live).versions()
    expected = {path.name for version in stored for path in (version.folder, version.mark)}
    assert {path.name for path in (live / "versions").iterdir()} <= expected
