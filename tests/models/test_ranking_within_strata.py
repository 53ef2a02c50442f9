"""Models that compare counts with expected ones do not put a pair first that a month or a store explains."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.dated_shop import dated_shop
from neatrec.bundle import load_bundle, save_bundle
from neatrec.cooccurrence import CountOptions, count
from neatrec.cooccurrence.expected_counts import StratifiedExpected
from neatrec.cooccurrence.strata import stratum_column
from neatrec.errors import ParameterError
from neatrec.models import Run, make_model
from neatrec.models.bayes import Bayes
from neatrec.models.bayes.counting import FeatureOptions
from neatrec.models.counts import PairCounts

STRATA = "basket_size,month,store"
STATISTICS = ("lift", "shrunk-lift", "llr", "shrunk-lift-tuned")


@pytest.mark.parametrize("name", [*STATISTICS, "bayes"])
def test_a_pair_explained_by_its_season_scores_like_chance(name: str, tmp_path: Path) -> None:
    baskets = dated_shop()
    candy, wreath, rice, bun, sausage, pen = (
        baskets.catalog.code_of[item] for item in ("candy", "wreath", "rice", "bun", "sausage", "pen")
    )
    seasonal = {}
    for strata in (None, STRATA):
        model = make_model(name, strata=strata).fit(baskets, Run(threads=1))
        seasonal[strata], by_chance = model.score([candy, candy], [wreath, rice])
        assert np.greater(*model.score([bun, bun], [sausage, pen]))
        save_bundle(model, tmp_path / "bundle", baskets_hash="0", seed=0)
        loaded = load_bundle(tmp_path / "bundle")
        np.testing.assert_array_equal(loaded.score_all([0, 4]), model.score_all([0, 4]))
    assert seasonal[None] > 3 * by_chance
    assert seasonal[STRATA] < 1.2 * by_chance
    lowered = model.features.counts if isinstance(model, Bayes) else model.counts
    lift = lowered.of_pairs(np.array([candy]), np.array([wreath])) / lowered.expected(
        lowered.total[[candy]], lowered.total[[wreath]]
    )
    assert 0.8 < lift[0] < 1.3


def test_lowered_counts_are_those_of_the_definition() -> None:
    """C times E over all baskets / E within months, rounded, where that is below 1; totals stay."""
    baskets, options = dated_shop(), CountOptions(directed=False)
    plain, lowered = PairCounts.of(baskets, options), PairCounts.of(baskets, options, strata=("month",))
    months, size = stratum_column(baskets, "month"), len(baskets.catalog)
    within = np.zeros((size, size))
    for month in range(12):
        part = PairCounts.of(baskets.select(months == month), options)
        within += np.outer(part.total, part.total) / part.records
    overall = np.outer(plain.total, plain.total) / plain.records
    wanted = np.rint(plain.matrix.toarray() * np.minimum(overall / within, 1.0))
    np.testing.assert_array_equal(lowered.matrix.toarray(), wanted)
    np.testing.assert_array_equal(lowered.total, plain.total)
    assert lowered.matrix.nnz == np.count_nonzero(wanted)


@pytest.mark.parametrize("ordered", [True, False])
def test_the_counts_of_bayes_are_lowered_alike(ordered: bool) -> None:
    baskets, options = replace(dated_shop(), ordered=ordered), CountOptions(directed=False)
    found = FeatureOptions(options, ordered, strata=("month", "store")).count(baskets)
    wanted = PairCounts.of(baskets, options, strata=("month", "store"))
    difference = abs(found.counts.matrix - wanted.matrix)
    assert difference.max() <= (1 if ordered else 0)  # both orders of a pair are rounded
    np.testing.assert_array_equal(found.counts.total, wanted.total)


def test_groups_of_strata_multiply() -> None:
    baskets, options = dated_shop(), CountOptions(directed=False)
    pairs = count(baskets, options)
    both = StratifiedExpected.fit(baskets, ("basket_size", "month"), options, "product")
    size, month = (StratifiedExpected.fit(baskets, (name,), options, "product") for name in ("basket_size", "month"))
    overall = both.overall.of(pairs.query, pairs.item)
    wanted = size.of(pairs.query, pairs.item) * month.of(pairs.query, pairs.item) / overall
    np.testing.assert_allclose(both.of(pairs.query, pairs.item), wanted, rtol=1e-12)


def test_strata_of_a_model_are_checked() -> None:
    with pytest.raises(ParameterError, match="`strata` must be one of basket_size, month, store, got 'shop'"):
        make_model("lift", strata="shop").fit(dated_shop(), Run(threads=1))
