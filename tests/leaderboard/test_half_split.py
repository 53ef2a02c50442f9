"""The half-split of the Instacart orders: the published counts, ceilings and hit rates, to the digits."""

from typing import Any

import pytest

from neatrec.data.baskets import Baskets
from neatrec.data.splits import half
from neatrec.leaderboard.run import LeaderboardOptions, run_leaderboard
from neatrec.models import make_model

pytestmark = pytest.mark.real

# docs/explanation/labels.md; HR@1, HR@5, HR@10, HR@20, NDCG@10 in the candidate set of 200 at p = 0.05
PUBLISHED = {
    "popco": (0.024, 0.103, 0.176, 0.274, 0.087),
    "popco-window": (0.038, 0.130, 0.204, 0.300, 0.109),
    "llr": (0.092, 0.218, 0.296, 0.388, 0.182),
    "shrunk-lift": (0.104, 0.256, 0.334, 0.427, 0.208),
}
OPTIONS = LeaderboardOptions(protocol="paper", rounds=1_000, queries=200, carts=0)
CEILING = {"1": 0.259, "3": 0.413, "5": 0.477, "10": 0.549, "20": 0.613}
CATALOGUE_CEILING = {"1": 0.351, "5": 0.692, "10": 0.814, "20": 0.901}


@pytest.fixture(scope="module")
def answer(instacart: Baskets) -> dict[str, Any]:
    split = half(instacart)
    models = {name: name for name in PUBLISHED} | {"popco-window": make_model("popco", window=5)}
    leaderboard = run_leaderboard(split.train, split.test, models, OPTIONS)
    return leaderboard.to_json()


def result_of(answer: dict[str, Any], level: float, candidates: str) -> dict[str, Any]:
    return next(r for r in answer["results"] if r["level"] == level and r["candidates"] == candidates)


def test_labels_and_queries_are_those_of_the_protocol(answer: dict[str, Any]) -> None:
    counts = [result_of(answer, level, "top200")["labels"] for level in (0.05, 0.01, 0.001)]
    assert counts == [2_708, 2_035, 1_565]
    assert result_of(answer, 0.05, "top200")["queries"] == 950


def test_ceilings_are_those_of_the_protocol(answer: dict[str, Any]) -> None:
    assert result_of(answer, 0.05, "top200")["ceiling"] == pytest.approx(CEILING, abs=0.001)
    without = result_of(answer, 0.05, "catalogue")["ceiling"]
    assert {k: without[k] for k in CATALOGUE_CEILING} == pytest.approx(CATALOGUE_CEILING, abs=0.001)


@pytest.mark.parametrize("name", PUBLISHED)
def test_hit_rates_are_those_of_the_protocol(answer: dict[str, Any], name: str) -> None:
    line = next(line for line in answer["models"] if line["name"] == name)
    found = (*(line["hr"][k] for k in ("1", "5", "10", "20")), line["ndcg"]["10"])
    assert found == pytest.approx(PUBLISHED[name], abs=0.002)
    low, high = line["ci"]["hr"]["10"]
    assert low < line["hr"]["10"] < high


def test_a_one_line_statistic_beats_co_purchase_counts_beyond_doubt(answer: dict[str, Any]) -> None:
    tests = result_of(answer, 0.05, "top200")["tests"]
    test = next(t for t in tests if (t["better"], t["worse"], t["metric"]) == ("shrunk-lift", "popco", "hr@10"))
    assert test["ci"][0] > 0.1
    assert test["p_holm"] < 0.001
