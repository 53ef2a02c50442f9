"""The folder of a state holds the old counts or the new ones, and says what is wrong with it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from state_crash import NEW
from state_days import Bought, read

from neatrec.copurchase import Counting
from neatrec.copurchase.state import append, open_state
from neatrec.copurchase.state import folder as disk
from neatrec.errors import BundleError, NeatrecError, ParameterError

SHOP = [Bought("1", "ann", ("a", "e")), Bought("2", "bob", ("a", "e", "f"))]
COUNTING = Counting(min_basket=2, category_level="category")


def everything(block, _):
    return np.ones(len(block), dtype=bool)


def made(folder: Path) -> None:
    append(folder, read(SHOP, ordered=True, users=True), COUNTING)


def totals(folder: Path) -> tuple[int, int]:
    state = open_state(folder)
    assert state is not None
    return state.about["baskets"], state.count(everything).margins.records


def test_a_killed_run_leaves_the_old_state_or_the_new_one(tmp_path: Path) -> None:
    moments = {"first sync": (2, 3), "replace": (2, 3), "sweep": (4, 6)}
    script = Path(__file__).parent / "state_crash.py"
    runs = {}
    for moment in moments:
        made(tmp_path / moment)
        runs[moment] = subprocess.Popen([sys.executable, script, tmp_path / moment, moment])
    for moment, expected in moments.items():
        assert runs[moment].wait(timeout=300) == -signal.SIGKILL
        assert totals(tmp_path / moment) == expected, moment
        state, added = append(tmp_path / moment, read([*SHOP, *NEW], ordered=True, users=True), COUNTING)
        assert (added.total, state.count(everything).margins.records) == (4, 6)
        if moment != "sweep":
            assert added.baskets == 2
            named = {"state.json", "lock", *state.about["files"]}
            assert {file.name for file in (tmp_path / moment).iterdir()} == named


def test_one_run_at_a_time(tmp_path: Path) -> None:
    made(tmp_path)
    with disk.locked(tmp_path), pytest.raises(BundleError, match=r"is being written by another run\. Wait for it"):
        append(tmp_path, read(NEW, ordered=True, users=True), COUNTING)
    append(tmp_path, read(NEW, ordered=True, users=True), COUNTING)


def test_a_state_of_another_format_is_refused(tmp_path: Path) -> None:
    made(tmp_path)
    about = json.loads((tmp_path / "state.json").read_text())
    about["format"] = 99
    (tmp_path / "state.json").write_text(json.dumps(about))
    with pytest.raises(BundleError, match=r"is a state of format 99, this version keeps format 1\. Make a new"):
        open_state(tmp_path)


@pytest.mark.parametrize("kind", ["items", "margins", "users", "segments", "pairs"])
def test_one_flipped_byte_is_found_and_named(tmp_path: Path, kind: str) -> None:
    made(tmp_path)
    state = open_state(tmp_path)
    assert state is not None
    named = state.about[kind]
    name = named if isinstance(named, str) else named[0]
    data = bytearray((tmp_path / name).read_bytes())
    data[30] ^= 0xFF  # in the first page, behind its header's first fields
    for place in range(60, 90):
        data[place] ^= 0x5A
    (tmp_path / name).write_bytes(bytes(data))

    def use() -> None:
        damaged = open_state(tmp_path)
        assert damaged is not None
        damaged.count(everything)
        damaged.baskets()

    with pytest.raises(BundleError, match=f"{name} of the state is damaged"):
        use()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda text: text[:-20], "state.json of the state is damaged"),
        (lambda text: text.replace('"baskets": 2', '"baskets": 3'), "its hash differs"),
        (lambda _: "[]", "not the description of a state"),
    ],
)
def test_a_damaged_description_is_refused(tmp_path: Path, change, sentence: str) -> None:
    made(tmp_path)
    (tmp_path / "state.json").write_text(change((tmp_path / "state.json").read_text()))
    with pytest.raises(BundleError, match=sentence):
        open_state(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    made(tmp_path)
    (tmp_path / "pairs-1.parquet").unlink()
    with pytest.raises(BundleError, match=r"pairs-1\.parquet of the state is damaged: it is missing or cut off"):
        open_state(tmp_path)


def test_somebody_elses_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("mine")
    with pytest.raises(ParameterError, match="`state` must be a new folder or an older state"):
        made(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["letters.txt"]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(NeatrecError, match="`state` must be a folder"):
        made(tmp_path / "state")


def test_there_is_no_state_before_the_first_day(tmp_path: Path) -> None:
    assert open_state(tmp_path / "none") is None
