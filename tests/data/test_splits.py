"""Splits: who trains, who tests, and that nobody does both."""

from datetime import date, datetime

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from neatrec.data import (
    Baskets,
    Catalog,
    at_random,
    by_time,
    half,
    refuse_overlap,
    split_baskets,
    string_array,
)
from neatrec.errors import LeakError, ParameterError

CATALOG = Catalog.from_ids(["tea"])


def one_line_each(ids: list[str], times: list[int] | None = None) -> Baskets:
    """A basket with one line for each id."""
    return Baskets(
        catalog=CATALOG,
        items=np.zeros(len(ids), dtype=np.int32),
        offsets=np.arange(len(ids) + 1),
        ids=string_array(ids),
        ordered=True,
        times=None if times is None else np.array(times, dtype=np.int64),
    )


def ids_of(baskets: Baskets) -> list[str]:
    return [str(i) for i in baskets.ids.to_pylist()]


def test_half_trains_on_even_and_tests_on_odd_ids() -> None:
    split = half(
        one_line_each(["1", "2", "10", "007", "123456789012345678901234567890", "-4", "-5"])
    )
    assert ids_of(split.train) == ["2", "10", "123456789012345678901234567890", "-4"]
    assert ids_of(split.test) == ["1", "007", "-5"]


def test_half_takes_other_ids_by_a_hash_that_never_changes() -> None:
    split = half(one_line_each([f"order-{i}" for i in range(12)]))
    # written down once: another hash would silently change every published split
    assert ids_of(split.train) == [
        "order-1",
        "order-3",
        "order-4",
        "order-5",
        "order-8",
        "order-10",
        "order-11",
    ]
    sides = half(one_line_each([f"b{i}" for i in range(4000)]))
    assert abs(len(sides.train) - 2000) < 150


def test_random_depends_on_the_seed_and_the_id_only() -> None:
    baskets = one_line_each([str(i) for i in range(3000)])
    share = at_random(baskets, share=0.7, seed=1)
    assert 0.67 < len(share.train) / 3000 < 0.73
    backwards = at_random(baskets.select(np.arange(3000)[::-1]), share=0.7, seed=1)
    assert set(ids_of(backwards.train)) == set(ids_of(share.train))
    assert ids_of(at_random(baskets, share=0.7, seed=2).train) != ids_of(share.train)
    assert share.options == {"share": 0.7, "seed": 1}


def test_time_cuts_at_a_moment() -> None:
    day = 86_400_000_000
    baskets = one_line_each(["a", "b", "c"], times=[0, day, 2 * day])
    for cut in (
        "1970-01-02",
        date(1970, 1, 2),
        datetime(1970, 1, 2),
        "1970-01-02T00:00:00+00:00",
        day,
    ):
        split = by_time(baskets, cut=cut)
        assert ids_of(split.train) == ["a"]
        assert ids_of(split.test) == ["b", "c"]
    assert split.options["cut"].startswith("1970-01-02")


@given(st.lists(st.integers(0, 20), min_size=2, max_size=60), st.floats(0.05, 0.95))
def test_time_share_keeps_baskets_of_one_moment_together(times: list[int], share: float) -> None:
    baskets = one_line_each([str(i) for i in range(len(times))], times=times)
    assume(len(set(times)) > 1)
    split = by_time(baskets, share=share)
    assert split.train.times.max() < split.test.times.min()


def test_shared_baskets_are_refused_by_name() -> None:
    baskets = one_line_each(["a", "b", "c"])
    refuse_overlap(baskets.select(np.array([0])), baskets.select(np.array([1, 2])))
    with pytest.raises(LeakError, match=r"share 1 basket, 'b' for one. Split the baskets"):
        refuse_overlap(baskets.select(np.array([0, 1])), baskets.select(np.array([1, 2])))


def test_bad_splits_are_refused_with_a_sentence() -> None:
    baskets = one_line_each(["2", "4"], times=[5, 5])
    with pytest.raises(ParameterError, match="half split leaves no test baskets"):
        half(baskets)
    with pytest.raises(
        ParameterError,
        match=r"`split` must be one of half, time, random, got 'halves'. Did you mean",
    ):
        split_baskets(baskets, "halves")
    with pytest.raises(ParameterError, match=r"`share` must be a number between 0 and 1, got 1.5"):
        at_random(baskets, share=1.5)
    with pytest.raises(
        ParameterError, match=r"needs the times of the baskets. Name the time column"
    ):
        by_time(one_line_each(["1", "2"]))
    with pytest.raises(
        ParameterError, match="`cut` must be a date or time such as 2017-05-31, got 'May'"
    ):
        by_time(baskets, cut="May")
    with pytest.raises(ParameterError, match="given without `share`"):
        by_time(baskets, cut="2017-05-31", share=0.5)


@pytest.mark.real
def test_the_instacart_half_split_has_the_published_sizes(instacart: Baskets) -> None:
    split = half(instacart)
    assert (len(split.train), len(split.test)) == (65_529, 65_680)
