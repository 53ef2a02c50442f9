"""The engines keep to their means: giant baskets, little memory, light imports, plain SQL."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
import weakref
from collections.abc import Iterator
from importlib import import_module
from importlib.resources import files

import numpy as np
import pytest

from neatrec.cooccurrence import CountOptions, count
from neatrec.cooccurrence import duckdb as duckdb_engine
from neatrec.cooccurrence.sql import statement
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog, string_array
from neatrec.errors import MissingDependencyError, ResourceError

STATEMENTS = sorted(
    f.name.removesuffix(".sql") for f in files("neatrec.cooccurrence.sql").iterdir() if f.name.endswith(".sql")
)

GIANT = """
import re, sys, time
import numpy as np
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog, string_array
from neatrec.cooccurrence import CountOptions, count
lines, items = 1_000_000, 20_000
code = np.random.default_rng(1).zipf(1.3, lines) % items
catalog = Catalog.from_ids([str(i) for i in range(items)])
giant = Baskets(catalog, code, np.array([0, lines]), string_array(["till"]), ordered=True)
count(Baskets.from_lists(["abc"]), CountOptions(window=1))  # compiled before the clock starts
start = time.process_time()
pairs = count(giant, CountOptions(window=5), engine=sys.argv[1], memory_limit="700MiB")
# not ru_maxrss: across fork and exec it starts at the size of the process that runs the tests
peak = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]
print(pairs.margins.records, time.process_time() - start, peak)
"""


def make_shop(baskets: int, items: int, size: int, users: int | None = None) -> Baskets:
    rng = np.random.default_rng(7)
    code = np.minimum((items ** rng.random(baskets * size)).astype(int), items - 1)
    return Baskets(
        Catalog.from_ids([str(i) for i in range(items)]),
        rng.permutation(items)[code],
        np.arange(0, baskets * size + 1, size),
        string_array([str(i) for i in range(baskets)]),
        ordered=True,
        users=None if users is None else rng.integers(0, users, baskets),
        user_ids=None if users is None else string_array([str(i) for i in range(users)]),
    )


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_a_basket_of_a_million_lines_within_a_window_takes_seconds_and_little_memory(engine: str) -> None:
    done = subprocess.run([sys.executable, "-c", GIANT, engine], capture_output=True, text=True, check=True)
    records, seconds, peak = done.stdout.split()
    assert 3_000_000 < int(records) < 5_000_000
    assert float(seconds) < 20
    assert int(peak) < 2**20  # KiB: 1 GiB of the whole process


def test_duckdb_counts_what_does_not_fit_in_its_memory() -> None:
    baskets = make_shop(20_000, 30_000, 12, users=5_000)
    spilled = count(
        baskets, CountOptions(), keep=lambda block, _: block.count > 1, engine="duckdb", memory_limit="200MB"
    )
    memory = count(baskets, CountOptions(), keep=lambda block, _: block.count > 1, engine="memory")
    assert spilled.margins.pairs == memory.margins.pairs > 500_000
    for name in ("query", "item", "count", "reverse", "customers"):
        np.testing.assert_array_equal(getattr(spilled, name), getattr(memory, name), err_msg=name)


def test_pairs_that_do_not_fit_are_refused_with_their_size() -> None:
    wanted = r"1,000,000,000 pairs need 22\.4 GiB, more than the memory limit of 1\.0 GiB\. Pass `keep`"
    with pytest.raises(ResourceError, match=wanted):
        duckdb_engine._all_pairs(None, 10**9, CountOptions(), customers=False, memory_limit=2**30)


def test_too_little_memory_for_duckdb_is_reported_as_our_error() -> None:
    baskets = make_shop(3000, 20_000, 30)
    with pytest.raises(
        ResourceError,
        match=r"DuckDB cannot count these baskets within 1 MiB: .*\. Raise `memory_limit` to 1\.0 GiB, or use",
    ):
        count(
            baskets,
            CountOptions(),
            keep=lambda block, _: block.count > 9,
            engine="duckdb",
            memory_limit="1MiB",
            threads=2,
        )
    # what the sentence names is enough
    count(
        baskets, CountOptions(), keep=lambda block, _: block.count > 9, engine="duckdb", memory_limit="1GiB", threads=2
    )


def test_a_disk_that_cannot_be_written_is_reported_as_our_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb

    def full(*_: object) -> None:
        raise duckdb.IOException("No space left on device")

    monkeypatch.setattr(duckdb_engine, "_count_pairs", full)
    with pytest.raises(ResourceError, match=r"DuckDB cannot write to .*No space left on device\. Set TMPDIR"):
        count(make_shop(2, 5, 2), CountOptions(), engine="duckdb")


def test_the_memory_engine_does_without_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    baskets = make_shop(5, 10, 4)
    assert count(baskets, CountOptions(), engine="memory").margins.records > 0
    with pytest.raises(MissingDependencyError, match=r"the duckdb engine needs duckdb\. pip install duckdb"):
        count(baskets, CountOptions(), engine="duckdb")


def test_nothing_is_left_on_disk(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    count(make_shop(5, 10, 4), CountOptions(), engine="duckdb")
    assert list(tmp_path.iterdir()) == []


def test_importing_the_room_loads_neither_numba_nor_duckdb() -> None:
    code = "import sys, neatrec.cooccurrence; print({'numba', 'duckdb', 'pandas', 'polars'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("name", STATEMENTS)
def test_each_sql_file_is_one_plain_statement(name: str) -> None:
    """In the subset that DuckDB and Spark both run: no casts by ::, no list or struct, no function outside the list."""
    text = statement(name)
    assert text.startswith("-- ")
    code = re.sub(r"--[^\n]*", "", text).strip()
    assert code.startswith("SELECT")
    assert ";" not in code
    assert not re.search(r"::|\[|\{|\"|`|\?|\$|'", code)
    called = {word.upper() for word in re.findall(r"(\w+)\s*\(", code)}
    # AS (, FROM ( and JOIN ( open subqueries
    assert called <= {"COUNT", "SUM", "CAST", "ROW_NUMBER", "OVER", "AS", "FROM", "JOIN"}


def test_the_sql_files_are_those_the_engine_uses() -> None:
    source = (files("neatrec.cooccurrence.sql") / "__init__.py").read_text()
    assert [name for name in STATEMENTS if f'"{name}"' not in source and f"'{name}'" not in source] == []


class Shards:
    """Shards made again at each pass, watching how many are held at once."""

    def __init__(self, whole: Baskets, parts: int) -> None:
        self.whole, self.parts = whole, parts
        self.held: weakref.WeakSet[Baskets] = weakref.WeakSet()
        self.most = 0

    def __iter__(self) -> Iterator[Baskets]:
        for part in np.array_split(np.arange(len(self.whole)), self.parts):
            shard = self.whole.select(part)
            self.held.add(shard)
            self.most = max(self.most, len(self.held))
            yield shard


def test_baskets_handed_over_in_parts_are_counted_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_engine, "BASKETS_PER_BATCH", 7)
    whole = make_shop(40, 15, 5, users=7)
    shards = [whole.select(np.arange(11)), whole.select(np.arange(11, 40))]
    found, expected = (
        count(shards, CountOptions(window=2), engine="duckdb"),
        count(whole, CountOptions(window=2), engine="memory"),
    )
    for name in ("query", "item", "count", "reverse", "customers"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


def test_duckdb_holds_one_shard_at_a_time() -> None:
    whole = make_shop(40, 15, 5, users=7)
    shards = Shards(whole, 8)
    found = count(shards, CountOptions(), engine="duckdb")
    assert found.margins.records == count(whole, CountOptions(), engine="memory").margins.records
    assert shards.most <= 2  # one at hand while the next is made


@pytest.mark.parametrize("name", ["counting", "counts", "count_input", "pair_filter", "resources", "sql"])
def test_examples_in_docstrings_run(name: str) -> None:
    assert doctest.testmod(import_module(f"neatrec.cooccurrence.{name}")).failed == 0
