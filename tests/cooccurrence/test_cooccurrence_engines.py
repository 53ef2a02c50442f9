"""Counting keeps to its means: what a task of Spark needs, light imports."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.counting_reference import as_dict
from neatrec.cooccurrence import CountOptions, count
from neatrec.cooccurrence.layout import BasketLines
from neatrec.cooccurrence.spark.engine import count_band, cut_bands, merged
from neatrec.data import Baskets


@pytest.mark.parametrize("directed", [False, True])
def test_bands_of_rows_hold_all_pairs_each_once(directed: bool) -> None:
    rng, options = np.random.default_rng(0), CountOptions(directed=directed, category_level=None)
    baskets = Baskets.from_lists([[str(x) for x in rng.zipf(1.5, 8) % 40] for _ in range(200)])
    lines, group = BasketLines.of(baskets, np.arange(200)), np.arange(len(baskets.catalog))
    bands = cut_bands(baskets.item_counts, 200, at_least=8, max_lines=10**9)
    assert [band.first for band in bands] == [0, *(band.last for band in bands[:-1])]
    assert bands[-1].last == len(baskets.catalog)
    assert 4 <= len(bands) <= 8
    assert 1 < len(cut_bands(baskets.item_counts, 200, at_least=1, max_lines=500)) <= 20
    two = cut_bands(baskets.item_counts, 200, at_least=2, max_lines=10**9)
    for most in (None, 200, 172, 169, 30):  # of 172 and 169, directed, one band alone has more
        limited = replace(options, max_pairs=most)
        results = [count_band(lines, group, limited, band) for band in (two if most else bands)]
        columns = merged(results, limited).columns(len(group), customers=False)
        keys = zip(columns["query"].tolist(), columns["item"].tolist(), strict=True)
        pairs = {
            key: (times, None) for key, times in zip(keys, columns["count"].tolist(), strict=True)
        }
        assert pairs == as_dict(count(baskets, limited))
