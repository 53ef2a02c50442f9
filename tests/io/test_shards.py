"""Shards on disk hold what `read_baskets` gives, whatever the order of the rows, and damage is refused by name."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.small_instacart import write_instacart
from neatrec.data.baskets import Baskets
from neatrec.errors import BundleError, ParameterError, ResourceError
from neatrec.io import SourceOptions, read_baskets
from neatrec.io.shards import ShardFolder, cut_shards, open_shards

COLUMNS: dict[str, Any] = {
    "basket": "order",
    "item": "sku",
    "user": "who",
    "position": "place",
    "time": "day",
    "category": ("aisle",),
    "attributes": ("shop",),
}


def orders(baskets: int, seed: int) -> pa.Table:
    """Lines of `baskets` baskets in no order at all, some of them twice."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, baskets)
    basket = np.repeat(np.arange(baskets), sizes)
    item = rng.integers(0, 12, len(basket))
    table = pa.table(
        {
            "order": [f"b{b}" for b in basket],
            "sku": [f"i{i}" for i in item],
            "who": [f"u{b % 5}" if b % 7 else None for b in basket],
            "place": rng.integers(0, 9, len(basket)),
            "day": [f"2024-01-{1 + b % 28:02d}" for b in basket],
            "aisle": [f"a{i % 3}" for i in item],
            "shop": [f"s{b % 2}" for b in basket],
        }
    )
    return table.take(rng.permutation(len(table)))


def written(table: pa.Table, folder: Path, files: int, kind: str) -> Path:
    folder.mkdir()
    for number in range(files):
        part = table.slice(number * len(table) // files, (number + 1) * len(table) // files)
        if len(part):
            file = folder / f"{number}.{kind}"
            pq.write_table(part, file) if kind == "parquet" else pacsv.write_csv(part, file)
    return folder


def assert_same_baskets(shards: ShardFolder, whole: Baskets) -> None:
    assert shards.ordered == whole.ordered
    assert shards.dropped == whole.dropped
    assert shards.catalog.hash == whole.catalog.hash
    done = 0
    for shard in shards:
        expected = whole.select(np.arange(done, done + len(shard)))
        np.testing.assert_array_equal(shard.items, expected.items)
        np.testing.assert_array_equal(shard.offsets, expected.offsets)
        assert shard.ids.equals(expected.ids)
        for one, other in ((shard, expected), (expected, shard)):
            assert (one.users is None) == (other.users is None)
        if shard.users is not None and expected.users is not None:
            assert shard.user_ids.take(pa.array(shard.users)).equals(expected.user_ids.take(pa.array(expected.users)))
        np.testing.assert_array_equal(shard.times, expected.times)
        for name, attribute in expected.attributes.items():
            ours = shard.attributes[name]
            assert [ours.names[c] for c in ours.codes] == [attribute.names[c] for c in attribute.codes]
        done += len(shard)
    assert (done, shards.lines) == (len(whole), whole.lines)


@given(
    baskets=st.integers(1, 40),
    seed=st.integers(0, 99),
    files=st.integers(1, 3),
    kind=st.sampled_from(["csv", "parquet"]),
    shard_lines=st.sampled_from([1, 7, 1000]),
)
@settings(max_examples=12)
def test_shards_are_the_baskets_in_pieces(baskets, seed, files, kind: str, shard_lines: int, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("shards")
    source = str(written(orders(baskets, seed), folder / "orders", files, kind))
    options = SourceOptions(**COLUMNS)
    shards = cut_shards(source, options, folder / "cut", shard_lines=shard_lines)
    assert_same_baskets(shards, read_baskets(source, options))
    assert sorted(file.name for file in (folder / "cut").iterdir()) == [
        "catalog.parquet",
        *(f"shard-{n:06d}.parquet" for n in range(len(shards))),
        "shards.json",
    ]
    if shard_lines == 1:
        assert [baskets for baskets, _ in shards.sizes] == [1] * len(shards)


def test_without_positions_users_and_times(tmp_path: Path) -> None:
    source = str(written(orders(30, 1).select(["order", "sku"]), tmp_path / "orders", 2, "csv"))
    assert_same_baskets(cut_shards(source, SourceOptions(), tmp_path / "cut", shard_lines=9), read_baskets(source))


def test_the_instacart_layout_is_cut_too(tmp_path: Path) -> None:
    source = str(write_instacart(tmp_path / "data"))
    shards = cut_shards(source, SourceOptions(), tmp_path / "cut", shard_lines=500)
    assert len(shards) > 1
    assert_same_baskets(shards, read_baskets(source))


def test_what_is_in_memory_is_cut_by_lines(tmp_path: Path) -> None:
    source = "supermarket:baskets=300,items=60"
    shards = cut_shards(source, SourceOptions(), tmp_path / "cut", shard_lines=700)
    assert len(shards) > 2
    assert max(lines for _, lines in shards.sizes) < 1000
    assert_same_baskets(shards, read_baskets(source))


@pytest.fixture
def shards(tmp_path: Path) -> ShardFolder:
    return cut_shards("supermarket:baskets=100,items=60", SourceOptions(), tmp_path / "cut", shard_lines=300)


def test_shards_are_a_sequence_that_is_read_anew(shards: ShardFolder) -> None:
    assert shards[0].hash == next(iter(shards)).hash
    assert shards[-1].hash == list(shards)[-1].hash
    with pytest.raises(IndexError):
        shards[len(shards)]


def test_another_process_finds_them(shards: ShardFolder) -> None:
    found = open_shards(shards.folder)
    assert [shard.hash for shard in found] == [shard.hash for shard in shards]
    assert found.sizes == shards.sizes


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"cannot read the shards in .*nowhere.* All processes must see the folder"):
        open_shards(tmp_path / "nowhere")


def test_shards_of_another_format_are_refused(shards: ShardFolder) -> None:
    about = shards.folder / "shards.json"
    about.write_text(about.read_text().replace('"format": 1', '"format": 9'))
    with pytest.raises(BundleError, match="has shards of format 9, not 1"):
        open_shards(shards.folder)


@pytest.mark.parametrize("damage", ["cut", "byte", "gone"])
def test_a_damaged_shard_is_refused_by_name(shards: ShardFolder, damage: str) -> None:
    file = shards.folder / "shard-000001.parquet"
    content = bytearray(file.read_bytes())
    if damage == "cut":
        file.write_bytes(content[: len(content) // 2])
    elif damage == "byte":
        content[len(content) // 3] ^= 0xFF
        file.write_bytes(content)
    else:
        file.unlink()
    with pytest.raises(BundleError, match=r"cannot read the shard .*shard-000001\.parquet: .*Run the command again"):
        list(shards)


def test_another_shard_under_the_name_is_refused(shards: ShardFolder) -> None:
    last = shards.folder / f"shard-{len(shards) - 1:06d}.parquet"
    (shards.folder / "shard-000000.parquet").write_bytes(last.read_bytes())
    with pytest.raises(BundleError, match=r"shard-000000\.parquet is not the one that was written"):
        shards[0]


def test_a_shard_has_lines(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="`shard_lines` must be a whole number of at least 1, got 0"):
        cut_shards("supermarket", SourceOptions(), tmp_path / "cut", shard_lines=0)


def test_a_place_that_takes_no_shards_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match=r"cannot write shards into .*file/cut: .* Free some space on the disk"):
        cut_shards("supermarket:baskets=50,items=60", SourceOptions(), tmp_path / "file" / "cut")
