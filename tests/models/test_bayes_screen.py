"""The screen of `bayes`: nearly the logarithms of its scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.bayes_cases import toy_bayes
from helpers.toyshop import toy_baskets
from neatrec.models import Run, make_model
from neatrec.models.bayes import Bayes
from neatrec.models.bayes.screen import CoarseScorer, fast_log


@pytest.mark.parametrize("name", ["bayes", "bayes-sure"])
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rows_are_logarithms_of_the_scores(name: str, ordered: bool, seed: int) -> None:
    model = toy_bayes(seed, ordered=ordered, name=name)
    sold = np.flatnonzero(model.item_count > 0).astype(np.int32)
    # all items ask, also the one that nobody bought
    every = np.arange(len(model.catalog), dtype=np.int32)
    assert len(sold) < len(every)
    found = model.screen(sold).rows(every)
    np.testing.assert_allclose(found, np.log(model.score_all(every)[:, sold].astype(np.float64)), atol=2e-5)


def test_without_a_ranking_the_posterior_lift_is_screened() -> None:
    model = toy_bayes(3, ranked=False)
    sold = np.flatnonzero(model.item_count > 0).astype(np.int32)
    some = np.array([5, 1], dtype=np.int32)
    np.testing.assert_allclose(model.screen(sold).rows(some), np.log(model.score_all(some)[:, sold]), atol=1e-5)


def test_scores_that_are_cut_off_are_cut_off_here_too() -> None:
    model = toy_bayes(4)
    assert model.ranking is not None
    model.ranking.weights[0] *= 100.0
    sold = np.flatnonzero(model.item_count > 0).astype(np.int32)
    rows = model.screen(sold).rows(sold)
    assert rows.max() == 60.0
    assert rows.min() == -60.0
    np.testing.assert_allclose(rows, np.log(model.score_all(sold)[:, sold].astype(np.float64)), atol=1e-3)


def test_shrunk_lift_and_g2_have_no_screen() -> None:
    plain, sure = (make_model(name).fit(toy_baskets(60)) for name in ("bayes", "bayes-sure"))
    for model in (plain, sure):
        assert isinstance(model, Bayes)
        assert not model.has_screen
    with pytest.raises(ValueError, match="shrunk lift has nothing to screen"):
        plain.screen(np.arange(3, dtype=np.int32))  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="needs no screen"):
        sure.screen(np.arange(3, dtype=np.int32))  # type: ignore[attr-defined]


def test_a_screen_of_some_items_has_their_columns() -> None:
    model = toy_bayes(5)
    sold = np.flatnonzero(model.item_count > 0).astype(np.int32)
    screen = model.screen(sold)
    assert isinstance(screen, CoarseScorer)
    assert screen.rows(sold[:4]).shape == (4, len(sold))
    assert screen.rows(sold[:0]).shape == (0, len(sold))


@settings(max_examples=200, deadline=None)
@given(st.floats(2.0**-100, 2.0**100, width=32))
def test_the_fast_logarithm_is_a_logarithm(value: float) -> None:
    assert fast_log(np.float32(value)) == pytest.approx(
        float(np.log(np.float64(np.float32(value)))), abs=2e-7, rel=3e-7
    )


def test_device_gpu_fits_on_the_cpu_and_logs_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="neatrec"):
        fitted = make_model("bayes").fit(toy_baskets(60), Run(device="gpu"))
    assert "fitting bayes on the CPU: it has no GPU kernels" in caplog.text
    plain = make_model("bayes").fit(toy_baskets(60), Run(device="cpu"))
    np.testing.assert_array_equal(fitted.score_all([1, 2]), plain.score_all([1, 2]))


@pytest.mark.parametrize("name", ["bayes", "bayes-sure"])
def test_items_never_bought_may_be_screened_too(name: str) -> None:
    model = toy_bayes(4, name=name)
    every = np.arange(len(model.catalog), dtype=np.int32)
    assert (model.item_count == 0).any()
    exact = np.log(model.score_all(every))
    np.testing.assert_allclose(model.screen(every).rows(every), exact, atol=2e-5)


def test_a_screen_without_items_that_were_bought_is_refused() -> None:
    model = toy_bayes(4)
    bought = np.flatnonzero(model.evidence.counts.total > 0).astype(np.int32)
    with pytest.raises(ValueError, match="`codes` must hold every item that was bought with another"):
        model.screen(bought[1:])
