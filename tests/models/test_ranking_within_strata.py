"""Models that compare counts with expected ones do not put a pair first that a month or a store explains."""

from pathlib import Path

import numpy as np
import pytest

from helpers.dated_shop import dated_shop
from neatrec.bundle import load_bundle, save_bundle
from neatrec.errors import ParameterError
from neatrec.models import Run, make_model
from neatrec.models.odds import Odds

STRATA = "basket_size,month,store"
STATISTICS = ("lift", "shrunk-lift", "llr", "shrunk-lift-tuned")


@pytest.mark.parametrize("name", [*STATISTICS, "odds"])
def test_a_pair_explained_by_its_season_scores_like_chance(name: str, tmp_path: Path) -> None:
    baskets = dated_shop()
    candy, wreath, rice, bun, sausage, pen = (
        baskets.catalog.code_of[item]
        for item in ("candy", "wreath", "rice", "bun", "sausage", "pen")
    )
    seasonal = {}
    for strata in (None, STRATA):
        model = make_model(name, strata=strata).fit(baskets, Run(threads=1))
        seasonal[strata], by_chance = model.score([candy, candy], [wreath, rice])
        assert np.greater(*model.score([bun, bun], [sausage, pen]))
        save_bundle(model, tmp_path / "bundle", seed=0)
        loaded = load_bundle(tmp_path / "bundle")
        np.testing.assert_array_equal(loaded.score_all([0, 4]), model.score_all([0, 4]))
    assert seasonal[None] > 3 * by_chance
    assert seasonal[STRATA] < 1.2 * by_chance
    lowered = model.features.counts if isinstance(model, Odds) else model.counts
    lift = lowered.of_pairs(np.array([candy]), np.array([wreath])) / lowered.expected(
        lowered.total[[candy]], lowered.total[[wreath]]
    )
    assert 0.8 < lift[0] < 1.3


def test_strata_of_a_model_are_checked() -> None:
    with pytest.raises(
        ParameterError, match="`strata` must be one of basket_size, month, store, got 'shop'"
    ):
        make_model("lift", strata="shop").fit(dated_shop(), Run(threads=1))
