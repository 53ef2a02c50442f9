"""The records of counting refuse what they cannot mean, and answer for single queries."""

from typing import Any

import numpy as np
import pytest

from neatrec.cooccurrence import CooccurrenceCounts, CountOptions, Margins, PairBlock, PairFilter
from neatrec.data.catalog import Catalog
from neatrec.errors import ParameterError

CATALOG = Catalog.from_ids("abc")


def make_margins(items: int = 3) -> Margins:
    return Margins(np.ones(items), np.ones(items), 3, 3, 1, np.full(items, -1))


def make(query: list[int], item: list[int], **more: Any) -> CooccurrenceCounts:
    return CooccurrenceCounts(
        CATALOG, CountOptions(), more.pop("margins", make_margins()), query, item, np.ones(len(query)), **more
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"window": 0}, "`window` must be None or a whole number of at least 1, got 0"),
        ({"window": 2.0}, "`window` must be None or a whole number of at least 1, got 2.0"),
        ({"min_basket": 0}, "`min_basket` must be a whole number of at least 1, got 0"),
        ({"min_basket": True}, "`min_basket` must be a whole number of at least 1, got True"),
        ({"max_basket_pairs": -1}, "`max_basket_pairs` must be a whole number of at least 1, got -1"),
        ({"directed": 1}, "`directed` must be True or False, got 1"),
        ({"once_per_customer": "yes"}, "`once_per_customer` must be True or False, got 'yes'"),
        ({"category_level": 3}, "`category_level` must be a level's name, 'deepest' or None, got 3"),
    ],
)
def test_a_counting_says_what_is_wrong_with_it(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        CountOptions(**wrong)
    assert str(caught.value) == message


UNSORTED = "pairs must be unique and sorted by query, then item"


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: make([1, 0], [0, 1]), UNSORTED),
        (lambda: make([0, 0], [2, 1]), UNSORTED),
        (lambda: make([0, 0], [1, 1]), UNSORTED),
        (lambda: make([0], [3]), r"`item` must be codes of the catalogue \(0 to 2\)"),
        (lambda: make([-1], [0]), r"`query` must be codes of the catalogue \(0 to 2\)"),
        (lambda: make([0], [1], reverse=np.zeros(2)), r"`reverse` must be as long as `query` \(1\), got 2"),
        (lambda: make([0], [1], margins=make_margins(2)), "`margins` must cover the 3 items of the catalogue"),
        (lambda: Margins(np.ones(2), np.ones(3), 1, 1, 1, np.ones(2)), "must have one value for each item"),
        (lambda: PairFilter(min_count=0), "`min_count` must be at least 1, got 0"),
        (lambda: PairFilter(spread=(np.ones(3), np.ones(3))), "`spread` of a filter must come with `expected`"),
    ],
)
def test_records_that_cannot_be_meant_are_refused(made, message) -> None:
    with pytest.raises(ParameterError, match=message):
        made()


def test_the_pairs_of_one_query_are_one_slice() -> None:
    pairs = make([0, 0, 2], [1, 2, 0])
    assert pairs.indptr.tolist() == [0, 2, 2, 3]
    assert pairs.item[pairs.row(0)].tolist() == [1, 2]
    assert pairs.item[pairs.row(1)].tolist() == []
    assert pairs.item[pairs.row(2)].tolist() == [0]


def test_records_cannot_be_changed_afterwards() -> None:
    pairs = make([0], [1])
    for array in (pairs.query, pairs.count, pairs.margins.first):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7


def test_a_result_says_what_it_holds() -> None:
    assert repr(make([0, 0, 2], [1, 2, 0])) == "<CooccurrenceCounts 3 directed pairs of 3 records>"
    assert repr(make([0], [1]).symmetric()) == "<CooccurrenceCounts 2 symmetric pairs of 6 records>"


def test_a_screen_can_be_pearsons_chi_squared() -> None:
    """On a full 2x2 table: the formula of `PairFilter`'s docstring against the textbook."""
    records = 1000.0
    margin = np.array([100.0, 250.0, 30.0])
    query, item = np.array([0, 0, 1], dtype=np.int32), np.array([1, 2, 2], dtype=np.int32)
    counts = np.array([60, 4, 8], dtype=np.int64)
    f, g = margin[query], margin[item]
    excess = counts - f * g / records
    statistic = excess**2 * records**3 / (f * (records - f) * g * (records - g))
    for x in (0.5, 3.84, 50.0, 90.0):
        rate = margin / np.sqrt(records)
        spread = np.sqrt(x) * margin * (records - margin) / records**1.5
        passed = PairFilter(expected=(rate, rate), spread=(spread, spread)).passes(PairBlock(query, item, counts))
        assert passed.tolist() == ((statistic >= x) & (excess >= 0)).tolist()
