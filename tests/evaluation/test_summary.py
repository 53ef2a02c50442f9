"""Means, macro means, seeds, tests and slices from ranks."""

import numpy as np
import pytest

from neatrec.data import Catalog
from neatrec.evaluation.ranks import LabelQueries, LabelRanks
from neatrec.evaluation.slices import by_category, by_decile, slicings
from neatrec.evaluation.summary import (
    ITEMS_AND_SEEDS,
    SAME_FOR_ALL_SEEDS,
    summarize_ranks,
    summarize_slices,
)

QUERIES = LabelQueries.from_pairs([0, 0, 0, 1, 2, 2], [5, 6, 7, 5, 6, 7])


def label_ranks(*higher: int, equal: int = 1) -> LabelRanks:
    nothing = np.full((3, 1), -1, dtype=np.int32)
    return LabelRanks(
        np.array(higher, dtype=np.int32), np.full(len(higher), equal, dtype=np.int32), nothing
    )


PERFECT = label_ranks(0, 0, 0, 0, 0, 0)
HOPELESS = label_ranks(50, 50, 50, 50, 50, 50)
FIRST_QUERY_ONLY = label_ranks(0, 0, 0, 50, 50, 50)


def test_means_are_over_records_and_macro_means_over_queries() -> None:
    line = summarize_ranks({"m": [FIRST_QUERY_ONLY]}, QUERIES).by_name("m")
    assert line.mean["hr@10"] == pytest.approx(3 / 6)
    assert line.macro["hr@10"] == pytest.approx(1 / 3)
    assert line.mean["mrr"] == pytest.approx((3 + 3 / 51) / 6)


def test_several_trainings_are_averaged_and_their_spread_is_given() -> None:
    line = summarize_ranks({"m": [PERFECT, HOPELESS]}, QUERIES).by_name("m")
    assert (line.seeds, line.variance) == (2, ITEMS_AND_SEEDS)
    assert line.mean["hr@10"] == pytest.approx(0.5)
    assert line.seed_sd["hr@10"] == pytest.approx(np.std([0, 1], ddof=1))
    # a quarter of variance between the two trainings: nearly nothing is excluded
    assert line.low["hr@10"] < 0.1
    assert line.high["hr@10"] > 0.9
    same = summarize_ranks({"m": [FIRST_QUERY_ONLY, FIRST_QUERY_ONLY]}, QUERIES).by_name("m")
    assert (same.variance, same.seed_sd["hr@10"]) == (SAME_FOR_ALL_SEEDS, 0.0)


def test_a_line_does_not_depend_on_the_other_models() -> None:
    rng = np.random.default_rng(0)
    runs = {
        name: [label_ranks(*rng.integers(0, 30, 6)) for _ in range(n)]
        for name, n in (("a", 1), ("b", 3), ("c", 1))
    }
    together = summarize_ranks(runs, QUERIES)
    for name in runs:
        assert summarize_ranks({name: runs[name]}, QUERIES).by_name(name) == together.by_name(name)


def test_each_pair_of_models_is_tested_with_the_better_one_first() -> None:
    found = summarize_ranks(
        {"bad": [HOPELESS], "good": [PERFECT], "middling": [FIRST_QUERY_ONLY]}, QUERIES
    ).tests
    assert [(t.better, t.worse) for t in found if t.metric == "hr@10"] == [
        ("good", "bad"),
        ("middling", "bad"),
        ("good", "middling"),
    ]
    best = found[0]
    # all six labels differ, but they share six items: one difference of 1 is not beyond doubt
    assert best.difference == best.high == pytest.approx(1.0)
    assert 0 < best.low < 0.8
    assert best.p_holm == pytest.approx(min(3 * best.p, 1.0))


def test_no_label_gives_no_number_and_no_test() -> None:
    nothing = LabelQueries.from_pairs([], [])
    summary = summarize_ranks({"a": [label_ranks()], "b": [label_ranks()]}, nothing)
    assert (summary.labels, summary.queries, summary.tests) == (0, 0, ())
    line = summary.by_name("a")
    assert np.isnan(
        [line.mean["hr@10"], line.low["hr@10"], line.high["hr@10"], line.macro["hr@10"]]
    ).all()


def test_deciles_are_about_equally_large_and_named_by_their_bounds() -> None:
    cut = by_decile("query popularity", np.arange(100))
    assert len(cut.names) == 10
    assert np.bincount(cut.code).tolist() == pytest.approx([10] * 10, abs=1)
    assert cut.names[0].startswith("0-")
    assert cut.names[-1].endswith("-99")
    ties = by_decile("item popularity", np.array([3] * 50 + [9]))
    assert (ties.names, ties.code.tolist()) == (("3", "9"), [0] * 50 + [1])


def test_categories_are_those_of_the_query_at_the_shallowest_level() -> None:
    catalog = Catalog.from_ids(
        [str(i) for i in range(8)], categories=["tea", None, "tea", *["other"] * 5]
    )
    cut = by_category(QUERIES, catalog)
    assert [cut.names[code] for code in cut.code] == ["tea"] * 3 + ["unknown"] + ["tea"] * 2
    assert by_category(QUERIES, Catalog.from_ids([str(i) for i in range(8)])).names == ("all",)


def test_slices_add_up_to_the_whole() -> None:
    catalog = Catalog.from_ids(
        [str(i) for i in range(8)], categories=["tea", "milk", "tea", *["other"] * 5]
    )
    everything = np.ones(6, dtype=bool)
    cuts = slicings(
        QUERIES, catalog, np.arange(8) * 10, np.array([0, 1, 2, 3, 9, 9]), {0.05: everything}
    )
    found = summarize_slices({"m": [FIRST_QUERY_ONLY]}, QUERIES, cuts, everything)
    for by in {each.by for each in found}:
        parts = [each.summary for each in found if each.by == by]
        assert sum(part.labels for part in parts) == 6
        hits = sum(part.labels * part.by_name("m").mean["hr@10"] for part in parts)
        assert hits == pytest.approx(3)
    assert {each.by for each in found} == {
        "query popularity",
        "item popularity",
        "category",
        "label strength",
        "times seen in training",
    }
