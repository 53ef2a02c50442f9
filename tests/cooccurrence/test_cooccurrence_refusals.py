"""Baskets that cannot be counted are refused, with the next step."""

import re

import numpy as np
import pytest

from neatrec.cooccurrence import CountOptions, Engine, count, counting, margins
from neatrec.data import Baskets, Catalog
from neatrec.errors import ParameterError, ResourceError
from neatrec.memory import container_memory

ORDERED = Baskets.from_lists(["abc", "ab"])
UNORDERED = Baskets.from_lists(["abc", "ab"], ordered=False)
CATEGORIES = Baskets.from_lists(["ab"], catalog=Catalog.from_ids("ab", categories=["x", "y"]))


@pytest.mark.parametrize(
    ("baskets", "counting", "message"),
    [
        (UNORDERED, {}, "`directed` must be False for baskets without cart order. Count with dir"),
        (UNORDERED, {"directed": False, "forward": True}, "`forward` must be False for baskets wi"),
        (ORDERED, {"once_per_customer": True}, "`once_per_customer` must be False for baskets wi"),
        (CATEGORIES, {"category_level": "categry"}, "got 'categry'. Did you mean 'category'"),
        ([["a"], ["b"]], {}, "`baskets` must be Baskets, got 'list'"),
    ],
)
def test_baskets_that_cannot_be_counted_so_are_refused(baskets, counting, message) -> None:
    for count_or_margins in (count, margins):
        with pytest.raises(ParameterError, match=message):
            count_or_margins(baskets, CountOptions(**counting))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"name": "memry"}, "`engine` must be one of memory, spark, got 'memry'. Did you mean"),
        ({"threads": 0}, "`threads` must be None or an integer from 1 to 1,024, got 0"),
    ],
)
def test_ways_of_counting_are_checked(how, message) -> None:
    with pytest.raises(ParameterError, match=message):
        Engine(**how)


def test_a_giant_basket_with_all_pairs_is_refused_by_name() -> None:
    lines = 1_000_000
    catalog = Catalog.from_ids([str(i) for i in range(1000)])
    giant = Baskets(
        catalog,
        np.arange(3 + lines) % 1000,
        [0, 3, 3 + lines],
        ["small", "till\x1b[2J"],
        ordered=True,
    )
    wanted = (
        r"basket 'till\x1b[2J' has 1,000,000 lines, which make 499,999,500,000 pairs, "
        "more than `max_basket_pairs` = 200,000,000. Leave the basket out"
    )
    with pytest.raises(ResourceError, match=re.escape(wanted)):
        count(giant, CountOptions())


def test_what_would_overflow_a_counter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MAX_COUNT", 5)
    twice = Baskets.from_lists(["aabb"] * 3)  # a stands in 3 baskets, twice in each: Σ n² = 12
    with pytest.raises(
        ResourceError, match=r"up to 12 records, more than can be counted \(5\). Count a part"
    ):
        count(twice)
    apart = Baskets.from_lists(["abcdefg"])  # 21 pairs, but no pair more than once
    assert len(count(apart)) == 21


def test_a_containers_limit_is_seen(tmp_path) -> None:
    assert container_memory(tmp_path) == (2**63, 0)
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("100\n")
    assert container_memory(tmp_path) == (2**63, 0)
    (tmp_path / "memory.max").write_text("1000\n")
    assert container_memory(tmp_path) == (1000, 100)


def test_a_count_that_does_not_fit_in_memory_is_refused_with_its_need(monkeypatch) -> None:
    monkeypatch.setattr(counting, "available_memory", lambda: 100)
    wanted = (
        r"counting pairs needs about .*B of memory, 100 B are free\. Count on .* --engine spark"
    )
    with pytest.raises(ResourceError, match=wanted):
        count(ORDERED)
