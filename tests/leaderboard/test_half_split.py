"""The half-split of the Instacart orders: the published counts, ceilings and hit rates, to the digits."""

from typing import Any

import pytest

from neatrec import LeaderboardOptions, run_leaderboard
from neatrec.data import Baskets, half
from neatrec.leaderboard import Leaderboard

pytestmark = pytest.mark.real

# docs/explanation/evaluation.md; HR@1, HR@5, HR@10, HR@20, NDCG@10 in the candidate set of 200 at p = 0.05
PUBLISHED = {
    "popco": (0.024, 0.103, 0.176, 0.274, 0.087),
    "llr": (0.092, 0.218, 0.296, 0.388, 0.182),
    "shrunk-lift": (0.104, 0.256, 0.334, 0.427, 0.208),
}
OPTIONS = LeaderboardOptions(protocol="paper", rounds=1_000, queries=200, carts=0)
CEILING = {"1": 0.259, "3": 0.413, "5": 0.477, "10": 0.549, "20": 0.613}
CATALOGUE_CEILING = {"1": 0.351, "5": 0.692, "10": 0.814, "20": 0.901}


@pytest.fixture(scope="module")
def leaderboard(instacart: Baskets) -> Leaderboard:
    split = half(instacart)
    return run_leaderboard(split.train, split.test, list(PUBLISHED), OPTIONS)


def rows_of(leaderboard: Leaderboard, level: float, candidates: str) -> dict[str, dict[str, Any]]:
    return {
        row["model"]: row
        for row in leaderboard.to_arrow().to_pylist()
        if (row["level"], row["candidates"]) == (level, candidates)
    }


def test_labels_and_queries_are_those_of_the_protocol(leaderboard: Leaderboard) -> None:
    rows = [rows_of(leaderboard, level, "top200")["llr"] for level in (0.05, 0.01, 0.001)]
    assert [row["labels"] for row in rows] == [2_708, 2_035, 1_565]
    assert rows[0]["queries"] == 950


def test_ceilings_are_those_of_the_protocol(leaderboard: Leaderboard) -> None:
    for candidates, ceilings in (("top200", CEILING), ("catalogue", CATALOGUE_CEILING)):
        row = rows_of(leaderboard, 0.05, candidates)["llr"]
        found = {k: row[f"best_possible_hr@{k}"] for k in ceilings}
        assert found == pytest.approx(ceilings, abs=0.001)


@pytest.mark.parametrize("name", PUBLISHED)
def test_hit_rates_are_those_of_the_protocol(leaderboard: Leaderboard, name: str) -> None:
    row = rows_of(leaderboard, 0.05, "top200")[name]
    found = (*(row[f"hr@{k}"] for k in (1, 5, 10, 20)), row["ndcg@10"])
    assert found == pytest.approx(PUBLISHED[name], abs=0.002)
    assert row["hr@10_low"] < row["hr@10"] < row["hr@10_high"]


def test_a_one_line_statistic_beats_co_purchase_counts_beyond_doubt(
    leaderboard: Leaderboard,
) -> None:
    row = rows_of(leaderboard, 0.05, "top200")["popco"]
    assert row["best_statistic"] == "shrunk-lift"
    assert row["over_statistic_high"] < -0.1
    assert row["over_statistic_p"] < 0.001
