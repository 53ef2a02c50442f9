"""The engines keep to their means: giant baskets, little memory, light imports."""

import subprocess
import sys
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

from neatrec.cooccurrence import (
    CountOptions,
    FilteredPairs,
    PairBlock,
    PairFilter,
    count,
    count_parts,
    counting_engine,
    disk,
)
from neatrec.cooccurrence.bands import cut_bands, lines_of_band
from neatrec.cooccurrence.count_input import flat_input, summarize
from neatrec.cooccurrence.count_kernels import find_pairs
from neatrec.cooccurrence.layout import Band
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog, string_array
from neatrec.errors import ResourceError

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


@pytest.mark.parametrize("engine", ["memory", "disk"])
def test_a_basket_of_a_million_lines_within_a_window_takes_seconds_and_little_memory(engine: str) -> None:
    done = subprocess.run([sys.executable, "-c", GIANT, engine], capture_output=True, text=True, check=True)
    records, seconds, peak = done.stdout.split()
    assert 3_000_000 < int(records) < 5_000_000
    assert float(seconds) < 20
    assert int(peak) < 2**20  # KiB: 1 GiB of the whole process


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


def test_the_disk_engine_counts_what_does_not_fit_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "LEAST_BANDS", 7)
    monkeypatch.setattr(disk, "LINES_PER_PART", 50_000)
    baskets = make_shop(20_000, 30_000, 12, users=5_000)
    shards = Shards(baskets, 8)
    found, memory = (
        count(given, CountOptions(), keep=lambda block, _: block.count > 1, engine=engine)
        for given, engine in ((shards, "disk"), (baskets, "memory"))
    )
    assert found.margins.pairs == memory.margins.pairs > 500_000
    for name in ("query", "item", "count", "reverse", "customers"):
        np.testing.assert_array_equal(getattr(found, name), getattr(memory, name), err_msg=name)
    assert shards.most <= 2  # one at hand while the next is made


@pytest.mark.parametrize("engine", ["memory", "disk"])
@pytest.mark.parametrize("users", [None, 300])
def test_parts_of_a_count_are_the_count(monkeypatch: pytest.MonkeyPatch, engine: str, users: int | None) -> None:
    monkeypatch.setattr(disk, "LEAST_BANDS", 7)
    monkeypatch.setattr(disk, "LINES_PER_PART", 5_000)
    baskets = make_shop(2_000, 3_000, 12, users=users)
    counting, keep = CountOptions(directed=False), FilteredPairs(lambda _: PairFilter(min_count=2))
    whole = count(baskets, counting, keep=keep)
    ways = count(baskets, keep=lambda block, _: block.query < block.item)
    with counting_engine(engine):
        margins, parts = count_parts(baskets, counting, keep=keep, order=True)
        found = [part for part in parts if len(part.pairs)]
    assert len(found) == (7 if engine == "disk" else 1)
    assert margins.records == whole.margins.records
    assert sum(part.seen for part in found) == whole.margins.pairs
    pairs = PairBlock.joined([part.pairs for part in found])
    for name in ("query", "item", "count", "customers"):
        np.testing.assert_array_equal(getattr(pairs, name), getattr(whole, name), err_msg=name)
    place = find_pairs(ways.indptr, ways.item, whole.query, whole.item)
    forward = np.where(place < 0, 0, ways.count[np.maximum(place, 0)])
    np.testing.assert_array_equal(np.concatenate([part.forward for part in found]), forward)


@pytest.mark.parametrize(
    ("window", "wanted"),
    [(None, ["abc", "ca", "cabbbbc"]), (1, ["bcd", "ca", "ca", "bc"]), (2, ["abcdd", "cad", "cab", "bbc"])],
)
def test_a_band_gets_only_the_lines_that_it_needs(window: int | None, wanted: list[str]) -> None:
    """Lines of lower rank where c stands, or those near it: a is the most popular, then b, c and d."""
    summary = summarize(Baskets.from_lists(["abcdd", "abd", "cad", "cabbbbc"]), CountOptions(window=window))
    part = lines_of_band(flat_input(summary), Band(np.arange(4, dtype=np.int32), 2, 3))
    letters = "".join("abcd"[code] for code in part.items)
    found = [letters[end - size : end] for size, end in zip(part.sizes, np.cumsum(part.sizes), strict=True)]
    assert found == wanted


def test_bands_are_of_about_equal_work() -> None:
    lines = np.random.default_rng(0).zipf(1.2, 3000) % 10_000
    for window in (False, True):
        bands = cut_bands(lines, 9 * lines, at_least=8, most_lines=10**9, window=window)
        assert [band.first for band in bands] == [0, *(band.last for band in bands[:-1])]
        assert (len(bands), bands[-1].last) == (8, np.count_nonzero(lines))
        small = cut_bands(lines, 9 * lines, at_least=1, most_lines=int(lines.sum()), window=window)
        assert 5 <= len(small) <= 10


def test_pairs_that_do_not_fit_are_refused_with_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "BYTES_IN_FLIGHT", 0)
    monkeypatch.setattr(disk, "BYTES_PER_PART", 0)
    wanted = r"pairs and more need .* MiB, more than the memory limit of 4.0 MiB\. Pass `keep`"
    with pytest.raises(ResourceError, match=wanted):
        count(make_shop(2_000, 3_000, 20), CountOptions(), engine="disk", memory_limit="4MiB", threads=1)


def test_a_limit_that_is_too_small_is_refused_with_one_that_is_enough() -> None:
    baskets = make_shop(3000, 20_000, 30)
    few = {"keep": lambda block, _: block.count > 9, "engine": "disk", "threads": 2}
    with pytest.raises(
        ResourceError, match=r"20,000 items needs at least 3\d\d.\d MiB, more than the memory limit of 1.0 MiB"
    ):
        count(baskets, CountOptions(), memory_limit="1MiB", **few)
    count(baskets, CountOptions(), memory_limit="400MiB", **few)


def test_importing_the_package_loads_neither_numba_nor_duckdb() -> None:
    code = "import sys, neatrec.cooccurrence; print({'numba', 'duckdb', 'pandas', 'polars'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
