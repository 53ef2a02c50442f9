"""Counting keeps to its means: giant baskets, bands of a task, light imports."""

import subprocess
import sys

import numpy as np
import pytest

from neatrec.cooccurrence import CountOptions
from neatrec.cooccurrence.count_input import CountInput
from neatrec.cooccurrence.layout import Band
from neatrec.cooccurrence.spark.engine import cut_bands, lines_of_band
from neatrec.data import Baskets

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
pairs = count(giant, CountOptions(window=5))
# not ru_maxrss: across fork and exec it starts at the size of the process that runs the tests
peak = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]
print(pairs.margins.records, time.process_time() - start, peak)
"""


def test_a_basket_of_a_million_lines_within_a_window_takes_seconds_and_little_memory() -> None:
    done = subprocess.run([sys.executable, "-c", GIANT], capture_output=True, text=True, check=True)
    records, seconds, peak = done.stdout.split()
    assert 3_000_000 < int(records) < 5_000_000
    assert float(seconds) < 20
    assert int(peak) < 2**20  # KiB: 1 GiB of the whole process


@pytest.mark.parametrize(
    ("window", "wanted"),
    [
        (None, ["abc", "ca", "cabbbbc"]),
        (2, ["abcdd", "cad", "cabbbbc"]),
    ],
)
def test_a_band_gets_only_the_lines_that_it_needs(window: int | None, wanted: list[str]) -> None:
    """Lines of lower rank where c stands, in a window all lines: a is the most popular, then b, c and d."""
    baskets = Baskets.from_lists(["abcdd", "abd", "cad", "cabbbbc"])
    source = CountInput.of(baskets, CountOptions(window=window))
    part = lines_of_band(source, Band(np.arange(4, dtype=np.int32), 2, 3))
    letters = "".join("abcd"[code] for code in part.items)
    found = [
        letters[end - size : end]
        for size, end in zip(part.sizes, np.cumsum(part.sizes), strict=True)
    ]
    assert found == wanted


def test_bands_are_of_about_equal_work() -> None:
    lines = np.random.default_rng(0).zipf(1.2, 3000) % 10_000
    bands = cut_bands(lines, 9 * lines, at_least=8, max_lines=10**9)
    assert [band.first for band in bands] == [0, *(band.last for band in bands[:-1])]
    assert (len(bands), bands[-1].last) == (8, np.count_nonzero(lines))
    small = cut_bands(lines, 9 * lines, at_least=1, max_lines=int(lines.sum()))
    assert 5 <= len(small) <= 10


def test_importing_the_package_loads_neither_numba_nor_duckdb() -> None:
    code = "import sys, neatrec.cooccurrence; print({'numba', 'duckdb', 'pandas', 'polars'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
