"""`neatrec train --stream`: the same model from shards on disk, and nothing left beside the bundle."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.full_disk import no_file_larger_than
from helpers.kernel_cases import assert_equal_arrays
from neatrec.bundle import load_bundle, read_manifest
from neatrec.cli.main import exit_code_of
from neatrec.data.splits import validation_split
from neatrec.io import SourceOptions, read_baskets
from neatrec.io.shards import write_shards
from neatrec.models import Run, make_model
from neatrec.training.streaming import validation_parts

COLUMNS = ["--basket", "order", "--item", "sku", "--user", "who", "--position", "place", "--category", "aisle"]
FIT = ["--set", "dim=8", "--set", "epochs=3", "--reproducible", "--threads", "1", "--quiet"]
OPTIONS = SourceOptions(basket="order", item="sku", user="who", position="place", category=("aisle",))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three Parquet files over which baskets are scattered row by row."""
    baskets = read_baskets("supermarket:baskets=600,items=60")
    position = np.arange(baskets.lines) - np.repeat(baskets.offsets[:-1], baskets.sizes)
    assert baskets.users is not None
    table = pa.table(
        {
            "order": baskets.ids.take(pa.array(baskets.basket_of_line)),
            "sku": baskets.catalog.ids.take(pa.array(baskets.items)),
            "who": np.repeat(baskets.users, baskets.sizes),
            "place": position,
            "aisle": [f"aisle {code}" for code in baskets.catalog.category_of(None)[baskets.items]],
        }
    )
    table = table.take(np.random.default_rng(1).permutation(len(table)))
    folder = tmp_path_factory.mktemp("orders")
    for number in range(3):
        pq.write_table(table.slice(number * len(table) // 3, len(table) // 3 + 1), folder / f"{number}.parquet")
    return folder


@pytest.mark.parametrize("name", ["neat", "triple2vec"])
def test_a_streamed_fit_has_the_bits_of_one_in_memory_over_the_same_shards(name: str, source: Path, tmp_path) -> None:
    out = tmp_path / "bundle"
    words = ["train", str(source), *COLUMNS, "--out", str(out), "--model", name, *FIT, "--stream", "--no-index"]
    assert exit_code_of([*words, "--shard-lines", "1000"]) == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bundle"]
    whole = read_baskets(str(source), OPTIONS)
    shard_of = (whole.offsets[1:] - 1) // 1000
    shards = [whole.select(np.flatnonzero(shard_of == number)) for number in np.unique(shard_of)]
    assert len(shards) > 3
    expected = make_model(name, dim=8, epochs=3).fit(shards, Run(rng=0, threads=1, reproducible=True))
    assert_equal_arrays(load_bundle(out), expected, users=False)  # a bundle keeps none


def test_without_a_model_a_stream_trains_the_default_one_by_any_engine(source: Path, tmp_path: Path) -> None:
    words = ["train", str(source), *COLUMNS, "--stream", "--shard-lines", "1000", "--no-index", "--seed", "0"]
    for engine in ("memory", "disk"):
        assert exit_code_of([*words, "--out", str(tmp_path / engine), "--engine", engine]) == 0
    manifests = [read_manifest(tmp_path / engine) for engine in ("memory", "disk")]
    assert {manifest.model for manifest in manifests} == {"bayes"}
    assert_equal_arrays(load_bundle(tmp_path / "memory"), load_bundle(tmp_path / "disk"))


def test_one_shard_is_the_fit_without_a_stream(source: Path, tmp_path: Path) -> None:
    words = ["train", str(source), *COLUMNS, "--model", "neat", *FIT, "--out"]
    assert exit_code_of([*words, str(tmp_path / "streamed"), "--stream"]) == 0
    assert exit_code_of([*words, str(tmp_path / "whole")]) == 0
    assert_equal_arrays(load_bundle(tmp_path / "streamed"), load_bundle(tmp_path / "whole"))
    one, other = (read_manifest(tmp_path / name) for name in ("streamed", "whole"))
    assert one.notes["topk"] == other.notes["topk"]  # the serving table is counted over the stream too


def test_validation_baskets_are_kept_out_of_each_shard(source: Path, tmp_path: Path) -> None:
    whole = read_baskets(str(source), OPTIONS)
    shards = write_shards(whole, tmp_path, shard_lines=500)
    parts = validation_parts(shards, 0.2, 3)
    expected = validation_split(whole, 0.2, 3)
    for part, wanted in zip(parts, expected, strict=True):
        assert [id for shard in part for id in shard.ids.to_pylist()] == wanted.ids.to_pylist()
        assert (len(part), len(part[1])) == (len(shards), len(list(part)[1]))
    out = tmp_path / "bundle"
    words = ["train", str(source), *COLUMNS, "--out", str(out), "--model", "neat", *FIT, "--stream", "--no-index"]
    assert exit_code_of([*words, "--shard-lines", "1000", "--validation", "0.2"]) == 0
    assert 0 < read_manifest(out).lines < whole.lines


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--shard-lines", "100"], "`--shard-lines` must be given with --stream"),
        (["--memory-limit", "1GiB"], "`--memory-limit` must be given with --stream or --engine"),
        (["--engine", "dsk"], "Did you mean 'disk'?"),
        (["--spark-master", "local"], "`--spark-master` must be given with --engine spark"),
        (["--stream", "--memory-limit", "much"], "`--memory-limit` must be a size such as 2GiB, got 'much'"),
    ],
)
def test_options_of_the_stream_are_checked(options: list[str], sentence: str, source: Path, tmp_path, capsys) -> None:
    assert exit_code_of(["train", str(source), "--out", str(tmp_path / "bundle"), *options]) == 2
    assert sentence in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_a_disk_without_room_for_shards_leaves_the_older_bundle_and_nothing_else(source, tmp_path, capsys) -> None:
    out = tmp_path / "bundle"
    words = ["train", str(source), *COLUMNS, "--out", str(out), "--model", "pop", "--no-index", "--quiet"]
    assert exit_code_of(words) == 0
    before = read_manifest(out).content_hash
    with no_file_larger_than(4000):
        assert exit_code_of([*words, "--stream"]) == 2
    said = capsys.readouterr().err
    assert "cannot write shards into" in said
    assert "Free some space on the disk" in said
    assert read_manifest(out).content_hash == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bundle"]


def test_a_disk_without_room_for_the_spill_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = 400_000
    basket = np.random.default_rng(1).integers(0, lines // 8, lines)
    table = pa.table({"order": [f"a basket of some length {b}" for b in basket], "sku": np.arange(lines) % 97})
    pq.write_table(table, tmp_path / "orders.parquet")
    words = ["train", str(tmp_path / "orders.parquet"), "--out", str(tmp_path / "bundle"), "--model", "pop", "-q"]
    with no_file_larger_than(1 << 18):
        assert exit_code_of([*words, "--stream", "--memory-limit", "16MiB"]) == 2
    said = capsys.readouterr().err
    assert "needs more memory or temporary disk than there is" in said
    assert f"Free some space in {tmp_path / 'bundle.shards'}" in said
    assert sorted(file.name for file in tmp_path.iterdir()) == ["orders.parquet"]


def test_a_folder_of_somebody_else_is_not_removed(source: Path, tmp_path: Path, capsys) -> None:
    mine = tmp_path / "bundle.shards" / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("dear")
    words = ["train", str(source), *COLUMNS, "--out", str(tmp_path / "bundle"), "--model", "pop", "--stream", "-q"]
    assert exit_code_of(words) == 2
    assert "bundle.shards is in the way: it was not written by neatrec" in capsys.readouterr().err
    assert mine.read_text() == "dear"
    mine.unlink()
    assert exit_code_of(words) == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bundle"]


def test_a_damaged_file_leaves_the_older_bundle_and_nothing_else(source: Path, tmp_path: Path, capsys) -> None:
    broken = tmp_path / "orders"
    broken.mkdir()
    for file in source.iterdir():
        content = file.read_bytes()
        (broken / file.name).write_bytes(content if file.name != "1.parquet" else content[: len(content) // 2])
    out = tmp_path / "bundle"
    assert exit_code_of(["train", str(source), *COLUMNS, "--out", str(out), "--model", "pop", "-q"]) == 0
    before = read_manifest(out).content_hash
    assert exit_code_of(["train", str(broken), *COLUMNS, "--out", str(out), "--model", "pop", "--stream"]) == 2
    assert "1.parquet is no whole Parquet file" in capsys.readouterr().err
    assert read_manifest(out).content_hash == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bundle", "orders"]
