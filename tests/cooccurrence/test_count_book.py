"""A book of counts makes each count once, of parts that are known by name."""

import numpy as np
import pytest

from neatrec.cooccurrence import PARTS, CountBook, CountOptions, count
from neatrec.data import Baskets
from neatrec.errors import ParameterError
from neatrec.models import Run, make_model
from neatrec.serving import EvidenceTable
from neatrec.simulator import supermarket

UNDIRECTED = CountOptions(directed=False)


@pytest.fixture(scope="module")
def shop() -> Baskets:
    return supermarket(baskets=1_500, items=100, seed=3).baskets


def test_a_count_is_made_once(shop: Baskets) -> None:
    book = CountBook(shop)
    first = book.count("all", UNDIRECTED)
    assert book.count("all", UNDIRECTED) is first
    assert book.margins("all", UNDIRECTED) is first.margins
    assert book.passes == ["all"]
    np.testing.assert_array_equal(first.count, count(shop, UNDIRECTED).count)


def test_parts_are_all_the_baskets_each_once(shop: Baskets) -> None:
    book = CountBook(shop)
    for one, other in (("half A", "half B"), ("early", "late")):
        ids = [*book.part(one).ids.to_pylist(), *book.part(other).ids.to_pylist()]
        assert sorted(ids) == sorted(shop.ids.to_pylist())
        assert 0.2 < len(book.part(one)) / len(shop) < 0.8
    assert book.part("early").times.max() < book.part("late").times.min()
    halves = [set(book.part(half).users.tolist()) for half in ("half A", "half B")]
    assert not halves[0] & halves[1]
    with pytest.raises(ParameterError, match="`part` must be one of all, half A"):
        book.part("half a")


def test_a_training_takes_at_most_six_passes(shop: Baskets) -> None:
    """Of a shop whose customers return and whose orders have times: the most that there are."""
    book = CountBook(shop)
    make_model("shrunk-lift").fit(shop, Run(book=book))
    EvidenceTable.of(shop, book=book)
    assert len(book.passes) <= 6
    assert set(book.passes) <= set(PARTS)
