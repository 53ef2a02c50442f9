"""What cannot be counted is refused with a sentence that says what to do."""

import logging
import re

import numpy as np
import pytest

from neatrec.cooccurrence import CountOptions, FilteredPairs, PairFilter, count, forecast, margins, memory
from neatrec.cooccurrence import counting as counter
from neatrec.cooccurrence.resources import as_bytes, expected_pairs, thread_count
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog
from neatrec.errors import ParameterError, ResourceError
from neatrec.memory import available_memory, container_memory, total_memory

ORDERED = Baskets.from_lists(["abc", "ab"])
UNORDERED = Baskets.from_lists(["abc", "ab"], ordered=False)
CATEGORIES = Baskets.from_lists(["ab"], catalog=Catalog.from_ids("ab", categories=["x", "y"]))


@pytest.mark.parametrize(
    ("baskets", "counting", "message"),
    [
        (UNORDERED, {}, "`directed` must be False for baskets without cart order. Count with dir"),
        (UNORDERED, {"directed": False, "window": 5}, "`window` must be None for baskets without cart order, got 5."),
        (ORDERED, {"once_per_customer": True}, "`once_per_customer` must be False for baskets without users. Name the"),
        (CATEGORIES, {"category_level": "categry"}, "must be one of category, got 'categry'. Did you mean 'category'"),
        ([ORDERED, Baskets.from_lists(["xy"])], {}, "shards must share one catalogue, got two that differ"),
        ([ORDERED, UNORDERED], {}, "shards must agree on whether cart order and users are known"),
        ([], {}, r"`baskets` must be Baskets or shards of them, got \[\]"),
        ([["a"], ["b"]], {}, r"`baskets` must be Baskets or shards of them, got \['list'\]"),
        (iter([ORDERED]), {}, "a stream that can be iterated more than once"),
    ],
)
def test_baskets_that_cannot_be_counted_so_are_refused(baskets, counting, message) -> None:
    for count_or_margins in (count, margins):
        with pytest.raises(ParameterError, match=message):
            count_or_margins(baskets, CountOptions(**counting))


WRONG_SIZE = "`memory_limit` must be a number of bytes or a size such as"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"engine": "dsk"}, "`engine` must be one of auto, memory, disk, spark, got 'dsk'. Did you mean"),
        ({"threads": 0}, "`threads` must be None or a whole number from 1 to 1024, got 0"),
        *(({"memory_limit": wrong}, WRONG_SIZE) for wrong in ("2 potatoes", "-1GB", 0, "0MB", True, "3iB")),
        (
            {"keep": FilteredPairs(lambda _: PairFilter(expected=(np.ones(1), np.ones(1))))},
            r"`expected` must be two vectors of 3 items, got \(1,\)",
        ),
    ],
)
def test_ways_of_counting_are_checked(how, message) -> None:
    with pytest.raises(ParameterError, match=message):
        count(ORDERED, **how)


@pytest.mark.parametrize("engine", ["memory", "disk", "auto"])
def test_a_giant_basket_with_all_pairs_is_refused_by_name(engine: str) -> None:
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
        "more than `max_basket_pairs` = 200,000,000. Raise --max-basket-pairs, set a window, or leave the basket out"
    )
    with pytest.raises(ResourceError, match=re.escape(wanted)):
        count(giant, CountOptions(), engine=engine)
    with pytest.raises(ResourceError, match="which make 999,499,500 pairs"):
        count(giant, CountOptions(window=1000, directed=False), engine=engine)


def test_the_cap_can_be_moved() -> None:
    with pytest.raises(ResourceError, match="has 3 lines, which make 3 pairs, more than `max_basket_pairs` = 2"):
        count(ORDERED, CountOptions(max_basket_pairs=2))
    assert len(count(ORDERED, CountOptions(max_basket_pairs=3))) == 3


@pytest.mark.parametrize("engine", ["memory", "disk"])
def test_keep_must_give_a_mask(engine: str) -> None:
    with pytest.raises(ParameterError, match=r"`keep` must return a boolean mask of the block's 3 pairs, got int64 of"):
        count(ORDERED, keep=lambda block, _: block.count, engine=engine)
    with pytest.raises(ParameterError, match=r"got bool of shape \(1,\)"):
        count(ORDERED, keep=lambda block, _: np.ones(1, dtype=bool), engine=engine)


def test_a_stated_limit_is_kept_by_refusing() -> None:
    with pytest.raises(
        ResourceError,
        match=r"of 100 B. Raise `memory_limit`, pass `keep`, or use engine=\"disk\", which counts band by band",
    ):
        count(ORDERED, engine="memory", memory_limit="100B")


def test_what_would_overflow_a_counter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_COUNT", 5)
    twice = Baskets.from_lists(["aabb"] * 3)  # a stands in 3 baskets, twice in each: Σ n² = 12
    for engine in ("memory", "disk"):
        with pytest.raises(ResourceError, match=r"up to 12 records, more than can be counted \(5\). Count a part"):
            count(twice, engine=engine)
    apart = Baskets.from_lists(["abcdefg"])  # 21 pairs, but no pair more than once
    assert len(count(apart, engine="memory")) == 21


def test_auto_takes_memory_where_it_fits_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "neatrec.cooccurrence")
    count(ORDERED)
    assert "counting with the memory engine (chosen by size)" in caplog.text
    caplog.clear()
    count(ORDERED, engine="memory")
    assert "counting with the memory engine (requested)" in caplog.text


def test_auto_goes_to_disk_where_memory_is_short(caplog: pytest.LogCaptureFixture, monkeypatch) -> None:
    caplog.set_level(logging.INFO, "neatrec.cooccurrence")
    monkeypatch.setattr(counter, "bytes_needed", lambda *_, **__: 2**50)
    assert len(count(ORDERED)) == 3
    assert "counting with the disk engine (chosen by size): needs about 1024.0 TiB in memory" in caplog.text


def test_sizes_are_read_and_written() -> None:
    assert [as_bytes(size) for size in ("1.5GiB", "2 kb", "7", 9)] == [3 * 2**29, 2000, 7, 9]
    assert thread_count(3) == 3
    assert thread_count(None) >= 1
    assert 2**20 < available_memory() <= total_memory()


def test_a_containers_limit_is_seen(tmp_path) -> None:
    assert container_memory(tmp_path) == (2**63, 0)
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("100\n")
    assert container_memory(tmp_path) == (2**63, 0)
    (tmp_path / "memory.max").write_text("1000\n")
    assert container_memory(tmp_path) == (1000, 100)


def test_the_forecast_of_unique_pairs_is_near_the_truth() -> None:
    rng = np.random.default_rng(5)
    popularity = 1 / np.arange(1, 401)
    lists = [rng.choice(400, 6, replace=False, p=popularity / popularity.sum()) for _ in range(3000)]
    baskets = Baskets(
        Catalog.from_ids([str(i) for i in range(400)]),
        np.concatenate(lists),
        np.arange(0, 18001, 6),
        [str(i) for i in range(3000)],
        ordered=True,
    )
    for counting in (CountOptions(), CountOptions(directed=False), CountOptions(window=2)):
        guess, found = forecast(baskets, counting), count(baskets, counting)
        assert guess.records == found.margins.records
        assert found.margins.pairs == pytest.approx(guess.pairs, rel=0.1)
        everything = forecast(baskets, counting, keep_all=True)
        assert guess.bytes < everything.bytes
        assert 0 < guess.seconds < everything.seconds


def test_nothing_bought_is_forecast_as_nothing() -> None:
    assert expected_pairs(np.zeros(3, dtype=np.int64), 0, directed=True) == 0
    assert forecast(Baskets.from_lists([["a"]])).records == 0
