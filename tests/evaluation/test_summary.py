"""Means, means by query, seeds, tests and slices from ranks."""

import numpy as np
import pytest

from neatrec.evaluation import LabelQueries, LabelRanks, compare_models
from neatrec.evaluation.summary import ITEMS_AND_SEEDS, SAME_FOR_ALL_SEEDS

QUERIES = LabelQueries.from_pairs([0, 0, 0, 1, 2, 2], [5, 6, 7, 5, 6, 7])


def label_ranks(*higher: int) -> LabelRanks:
    ranks = np.array(higher, dtype=np.int32)
    return LabelRanks(ranks, np.ones_like(ranks), np.full((3, 1), -1, dtype=np.int32))


PERFECT = label_ranks(0, 0, 0, 0, 0, 0)
HOPELESS = label_ranks(50, 50, 50, 50, 50, 50)
FIRST_QUERY_ONLY = label_ranks(0, 0, 0, 50, 50, 50)


def test_means_are_over_records_or_over_queries() -> None:
    [row], tests = compare_models({"m": [FIRST_QUERY_ONLY]}, QUERIES)
    assert (row["labels"], row["queries"], tests) == (6, 3, [])
    assert row["hr@10"] == pytest.approx(3 / 6)
    assert row["hr@10_by_query"] == pytest.approx(1 / 3)
    assert row["mrr"] == pytest.approx((3 + 3 / 51) / 6)


def test_several_trainings_are_averaged_and_their_spread_is_given() -> None:
    [row], _ = compare_models({"m": [PERFECT, HOPELESS]}, QUERIES)
    assert (row["seeds"], row["intervals_cover"]) == (2, ITEMS_AND_SEEDS)
    assert row["hr@10"] == pytest.approx(0.5)
    assert row["hr@10_sd"] == pytest.approx(np.std([0, 1], ddof=1))
    # a quarter of variance between the two trainings: nearly nothing is excluded
    assert row["hr@10_low"] < 0.1
    assert row["hr@10_high"] > 0.9
    [same], _ = compare_models({"m": [FIRST_QUERY_ONLY, FIRST_QUERY_ONLY]}, QUERIES)
    assert (same["intervals_cover"], same["hr@10_sd"]) == (SAME_FOR_ALL_SEEDS, 0.0)


def test_each_pair_of_models_is_tested_with_the_better_one_first() -> None:
    models = {"bad": [HOPELESS], "good": [PERFECT], "middling": [FIRST_QUERY_ONLY]}
    tests = [test for test in compare_models(models, QUERIES)[1] if test["metric"] == "hr@10"]
    pairs = [(test["better"], test["worse"]) for test in tests]
    assert pairs == [("good", "bad"), ("middling", "bad"), ("good", "middling")]
    first = tests[0]
    # all six labels differ, but they share six items: one difference of 1 is not beyond doubt
    assert first["difference"] == first["difference_high"] == pytest.approx(1.0)
    assert 0 < first["difference_low"] < 0.8
    assert first["p_holm"] == pytest.approx(min(3 * first["p"], 1.0))
