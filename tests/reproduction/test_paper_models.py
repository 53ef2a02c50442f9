"""The paper's studies of models: three items, one dimension, the margin, the ablation, the comparison tables."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from helpers.small_report import small_result
from neatrec.evaluation.summary import LevelResult, PairedTest, Summary
from neatrec.leaderboard.report import leaderboard_tables
from neatrec.report.leaderboard_tables import LeaderboardTables
from neatrec.reproduction.model_tables import (
    CaseStudy,
    MarginStudy,
    PaperComparison,
    ablation_table,
    case_study,
    case_study_table,
    comparison_table,
    concept_figures,
    margin_figures,
    margin_table,
    margin_text,
)
from neatrec.reproduction.published import paper_numbers

NAMES = ("Whole Milk", "Cereal", "Organic Tortilla Chips")


@pytest.fixture(scope="module")
def leaderboard() -> LeaderboardTables:
    return leaderboard_tables(small_result(protocol="paper"))


def study_of_three(dim: int = 4) -> CaseStudy:
    means = np.zeros((5, dim))
    means[0, 0], means[1, :2], means[2, 1] = 2.0, 1.0, 3.0
    log_variance = np.array([0.5, 0.1, -0.2, 0.0, 0.0])
    return case_study(NAMES, [0, 1, 2], np.array([30, 10, 12, 0, 0]), means, log_variance, "neat")


def test_the_case_study_has_cosines_and_determinants_of_spherical_gaussians() -> None:
    study = study_of_three()
    assert study.cosines == pytest.approx((2**-0.5, 0.0))
    assert study.log_determinants == pytest.approx((2.0, 0.4, -0.8))
    assert study.purchases == (30, 10, 12)


def test_ratios_of_determinants_are_compared_with_the_papers_30_and_547_times() -> None:
    table = case_study_table(paper_numbers(), study_of_three(), has_prior=False)
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["determinant of Whole Milk over that of Cereal"] == (
        "30 times", f"{np.exp(1.6):.3g} times", "comparable (other split)",
    )  # fmt: skip
    assert rows["determinant of Whole Milk over that of Organic Tortilla Chips"][0] == "547 times"
    assert rows["purchases of Whole Milk in training"] == (
        "35,633", "30", "not checkable here, because order_products__prior is not in the folder",
    )  # fmt: skip
    assert rows["cosine of Whole Milk and Cereal"][2] == "comparable (as in the paper)"


def test_with_the_prior_orders_purchases_are_checked() -> None:
    study = study_of_three()._replace(purchases=(35633, 12184, 1))
    marks = [row[-1] for row in case_study_table(paper_numbers(), study, has_prior=True).rows if "purchases" in row[0]]
    assert marks == ["exact", "exact", "differs: 1 here, 13,776 in the paper"]


def test_a_cosine_order_other_than_the_papers_is_said() -> None:
    study = study_of_three()._replace(cosines=(0.1, 0.2))
    assert (
        case_study_table(paper_numbers(), study, has_prior=True).rows[0][-1] == "comparable (other than in the paper)"
    )


def test_the_concept_figure_tells_the_densities_at_zero() -> None:
    items, apart = concept_figures(NAMES, np.array([0.0, 0.5, 1.0]), np.array([1.0, 0.5, 0.25]))
    assert "Whole Milk: mean 0.000, variance 1.0000; Cereal: mean 0.500, variance 0.5000" in items.alt
    at_zero = np.exp(-(1.0**2) / (2 * 1.25)) / np.sqrt(2 * np.pi * 1.25)
    assert (
        f"Whole Milk - Organic Tortilla Chips: mean -1.000, variance 1.2500, density at zero (A) {at_zero:.3f}"
        in apart.alt
    )


def margins(values: list[float]) -> MarginStudy:
    keys = [f"{metric}@{k}" for metric in ("hr", "ndcg") for k in (5, 10, 20)]
    return MarginStudy("Instacart", (0.1, 0.2, 0.5, 1.0, 2.0), {0.05: dict.fromkeys(keys, values)}, 1)


def test_the_margin_study_has_a_figure_for_each_level_and_metric_and_all_numbers() -> None:
    study = margins([0.1, 0.2, 0.3, 0.25, 0.2])
    assert [figure.name for figure in margin_figures(study)] == [
        "margin-instacart-hr-0.05",
        "margin-instacart-ndcg-0.05",
    ]
    table = margin_table(study)
    assert [row[1] for row in table.rows] == [0.1, 0.2, 0.5, 1.0, 2.0]
    assert table.rows[2][2:8] == (0.3,) * 6
    assert table.notes == ("One training for each margin.",)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([0.1, 0.2, 0.3, 0.3, 0.4], "highest at 2; as in the paper, a larger margin is better here."),
        ([0.4, 0.3, 0.2, 0.2, 0.1], "highest at 0.1; other than in the paper, a larger margin is not better here."),
    ],
)
def test_the_margin_study_says_whether_the_papers_finding_holds(values: list[float], says: str) -> None:
    assert margin_text(margins(values)).endswith(says)


def test_the_papers_row_is_followed_by_ours(leaderboard: LeaderboardTables) -> None:
    table = comparison_table(
        paper_numbers(), leaderboard, leaderboard.first, PaperComparison("INS", False, "other split")
    )
    lines = [(row[0], row[1], row[-1]) for row in table.rows]
    assert lines[:4] == [
        ("pop", "paper", "cited"),
        ("pop", "here", "comparable (other split)"),
        ("popco", "paper", "cited"),
        ("popco", "here", "comparable (other split)"),
    ]
    assert ("neat", "paper", "not checkable here, because it was not trained here") in lines
    assert ("shrunk-lift", "here", "ours alone: the paper has no such row") in lines
    assert re.search(r"Table IX.*; here: \d+ labels of \d+ queries", table.caption)


def test_on_the_papers_own_split_equal_digits_are_exact(leaderboard: LeaderboardTables) -> None:
    paper: Any = {
        "metrics": {"INS": {"0.05": {"table": "IX", "models": {"lift": {"hr": {}, "ndcg": {}}}}}},
        "settings": {"k": [10]},
    }
    mean = leaderboard.first.summary.by_name("lift").mean
    printed = paper["metrics"]["INS"]["0.05"]["models"]["lift"]
    printed["hr"]["10"], printed["ndcg"]["10"] = round(mean["hr@10"], 4), round(mean["ndcg@10"], 4)
    for same_split, mark in ((True, "exact"), (False, "comparable (why)")):
        table = comparison_table(paper, leaderboard, leaderboard.first, PaperComparison("INS", same_split, "why"))
        assert table.rows[1][-1] == mark


def with_ablation(result: LevelResult) -> LevelResult:
    """Two of the models under the names of the ablation."""
    names = {"lift": "neat", "llr": "neat-bpr"}
    models = tuple(replace(s, name=names.get(s.name, s.name)) for s in result.summary.models)
    test = PairedTest("neat", "neat-bpr", "hr@10", 0.02, -0.01, 0.05, 0.2, 0.4)
    return replace(result, summary=Summary(result.summary.labels, result.summary.queries, models, (test,)))


def test_the_ablation_gives_the_difference_with_its_interval(leaderboard: LeaderboardTables) -> None:
    renamed = replace(leaderboard, results=(with_ablation(leaderboard.first),))
    [row] = ablation_table(paper_numbers(), [(renamed, PaperComparison("INS", False, "other split"))]).rows
    assert row[:5] == ("Instacart", "p = 0.05", "HR@10", 0.1574, 0.1628)
    assert row[7] == (-0.02, -0.05, 0.01)
    assert row[-1] == "comparable (other split)"


def test_an_ablation_without_both_models_is_empty(leaderboard: LeaderboardTables) -> None:
    assert ablation_table(paper_numbers(), [(leaderboard, PaperComparison("INS", False, "other split"))]).rows == ()
