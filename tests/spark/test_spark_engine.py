"""Spark gives what the memory engine gives: pairs, margins, labels, chance and candidate sets."""

import os
import signal
from typing import Any

import numpy as np
import pytest

from helpers.counting_reference import assert_equal
from neatrec.cooccurrence import CountBook, CountOptions, Engine, count
from neatrec.data import Baskets, Catalog, ExpectedLimit
from neatrec.errors import ResourceError
from neatrec.labels import make_labels
from neatrec.models import Run, make_model
from neatrec.simulator import supermarket

pytestmark = pytest.mark.usefixtures("spark")
SPARK = Engine("spark")


def awkward() -> Baskets:
    """Ids that are no ASCII, ties everywhere, one item in every basket, one long basket, baskets of one."""
    words = ["naïve", "😀", "O'Neil; DROP", "", "ß", "漢字", "a\tb", '"', "ﬀ", "zz"]
    rng = np.random.default_rng(1)
    contents = [
        ["😀", *rng.permutation([w for w in words if w != "😀"])[: size % 6]] for size in range(40)
    ]
    contents += [["ß"], list(rng.permutation(words))]
    catalog = Catalog.from_ids(
        sorted(words), categories=[None if n % 4 == 0 else f"ç{n % 3}" for n in range(len(words))]
    )
    return Baskets.from_lists(
        contents, users=[f"ü{n % 7}" for n in range(len(contents))], catalog=catalog
    )


@pytest.mark.parametrize(
    "counting",
    [
        CountOptions(once_per_customer=True),
        CountOptions(once_per_customer=True, directed=False),
        CountOptions(directed=False),
        CountOptions(directed=False, forward=True, max_pairs=20),
        CountOptions(min_basket=3),
    ],
)
def test_awkward_baskets_are_counted_alike(counting: CountOptions) -> None:
    assert_equal(*(count(awkward(), counting, engine) for engine in (SPARK, Engine())))


def test_baskets_without_users_and_with_nothing_to_count() -> None:
    baskets = Baskets.from_lists([["a"], ["b"], ["a", "b"]])
    found = count(baskets, CountOptions(), SPARK)
    assert (found.count.tolist(), found.columns.get("customers")) == ([1], None)
    nothing = count(baskets, CountOptions(min_basket=3), SPARK)
    assert (len(nothing), nothing.margins.records, nothing.margins.baskets) == (0, 0, 0)


@pytest.fixture(scope="module")
def shop() -> Baskets:
    return supermarket(baskets=2500, items=120, seed=2).baskets


@pytest.mark.parametrize("protocol", ["calibrated", "paper"])
def test_labels_have_the_same_hash(shop: Baskets, protocol: str) -> None:
    found, expected = (
        make_labels(shop, protocol=protocol, engine=engine) for engine in (SPARK, Engine())
    )
    assert len(expected) > 10
    assert found.hash == expected.hash
    assert found.table().equals(expected.table())
    assert found.to_json() == expected.to_json()


@pytest.mark.parametrize("name", ["shrunk-lift-tuned", "odds"])
def test_models_are_the_same_to_the_bit(shop: Baskets, name: str) -> None:
    some = shop.select(np.arange(700))
    models = []
    for engine in (Engine(), SPARK):
        run = Run(rng=1, threads=2, book=CountBook(some, engine))
        models.append(make_model(name).fit(some, run).arrays())
    for found in models[1:]:
        assert found.keys() == models[0].keys()
        for key, values in found.items():
            np.testing.assert_array_equal(values, models[0][key], err_msg=key)


def test_a_lost_worker_is_reported_in_a_sentence_and_the_next_count_works(shop: Baskets) -> None:
    driver = os.getpid()

    class Killing:  # here, so that it is sent to the workers by value
        """Ends the worker which asks for expected counts, as the system does when memory runs out."""

        def of(self, query: Any, item: Any, count: Any) -> Any:
            if os.getpid() != driver:
                os.kill(os.getpid(), signal.SIGKILL)
            return np.zeros(len(query))

    options = CountOptions(limit=ExpectedLimit(Killing(), np.zeros(1)))
    with pytest.raises(ResourceError, match=r"a Spark worker was lost on the way.*memoryOverhead"):
        count(shop, options, SPARK)
    assert count(shop, CountOptions(), SPARK).margins.pairs > 0
