"""Sections: which models are named, which queries are shown, that no table of the audit is lost."""

import re
from dataclasses import replace

import numpy as np
import pytest

from helpers.small_report import INJECTIONS, small_baskets, small_result
from neatrec.data.baskets import Baskets
from neatrec.data.splits import half
from neatrec.evaluation.ranks import LabelQueries
from neatrec.labels.audit import audit_labels
from neatrec.leaderboard.report import find_pairs, leaderboard_tables
from neatrec.leaderboard.run import LeaderboardResult
from neatrec.report.attachment import comparable
from neatrec.report.audit_report import audit_section, audit_tables
from neatrec.report.leaderboard_tables import LeaderboardTables, ModelFacts, all_tables, conclusion
from neatrec.report.model_sections import (
    chosen_queries,
    examples_section,
    highlighted_models,
    label_free_section,
    variance_section,
)
from neatrec.report.page import ExampleList, FigureRow, Page, Paragraph, SummaryCard
from neatrec.report.summary import pairs_section, recommended_goal, summary_section
from neatrec.report.verify import differences, plain_json


@pytest.fixture(scope="module")
def result() -> LeaderboardResult:
    return small_result()


@pytest.fixture(scope="module")
def leaderboard(result: LeaderboardResult) -> LeaderboardTables:
    return leaderboard_tables(result)


def test_every_table_of_the_audit_is_in_the_page_or_a_file() -> None:
    audit = audit_labels(half(small_baskets()).test, null_rounds=1)
    section, files_only = audit_section(audit)
    shown = [table.name for table in Page("", (), (section,)).tables()]
    assert sorted([*shown, *(table.name for table in files_only)]) == sorted(t.name for t in audit_tables(audit))


def test_parts_that_stand_elsewhere_can_be_left_out() -> None:
    audit = audit_labels(half(small_baskets()).test, null_rounds=0)
    section, _ = audit_section(audit, without=("Consistency",))
    figures = [f.name for block in section.blocks if isinstance(block, FigureRow) for f in block.figures]
    assert figures == ["coverage"]


def test_the_best_of_each_kind_is_named(leaderboard: LeaderboardTables) -> None:
    named = highlighted_models(leaderboard, 2)
    assert {leaderboard.facts[name].kind for name in named} == {"paper", "statistic"}
    assert highlighted_models(leaderboard) == [
        s.name for s in sorted(leaderboard.first.summary.models, key=lambda s: (-s.mean["hr@10"], s.name))
    ]


def test_a_board_of_its_own_name_has_files_of_its_own(leaderboard: LeaderboardTables) -> None:
    other = replace(leaderboard, name="journey")
    assert not all_tables(leaderboard).keys() & all_tables(other).keys()


def test_differences_are_found_wherever_they_are() -> None:
    one = {"a": [1.0, {"b": None}], "c": "x", "d": True}
    assert list(differences(one, {"a": [1.0 + 1e-12, {"b": None}], "c": "x", "d": True})) == []
    assert list(differences(one, {"a": [1.1, {"b": 0.0}], "c": "y", "d": 1, "e": 5})) == [
        (("a", "0"), 1.0, 1.1),
        (("a", "1", "b"), None, 0.0),
        (("c",), "x", "y"),
        (("e",), None, 5),
    ]


def test_what_is_no_number_is_null_in_json() -> None:
    assert plain_json({0.05: (np.float64("nan"), np.int64(3))}) == {"0.05": [None, 3]}


def with_tests(leaderboard: LeaderboardTables, low: float) -> LeaderboardTables:
    """The same leaderboard, where every paired interval begins at `low`."""
    summary = leaderboard.first.summary
    tests = tuple(replace(test, low=low) for test in summary.tests)
    return replace(leaderboard, results=(replace(leaderboard.first, summary=replace(summary, tests=tests)),))


def test_the_conclusion_names_the_best_model_and_the_difference(leaderboard: LeaderboardTables) -> None:
    first, second, *more = conclusion(with_tests(leaderboard, 0.01))
    best, runner_up = highlighted_models(leaderboard)[:2]
    assert first.startswith(f"{best} ranks best: it puts ")
    assert second.startswith(f"Next is {runner_up} with ")
    assert f"{best} is better than {runner_up} by " in second
    assert "paired 95 % interval 1.0 to " in second
    assert len(more) <= 1


def test_a_difference_whose_interval_holds_0_is_a_tie(leaderboard: LeaderboardTables) -> None:
    first, second, *_ = conclusion(with_tests(leaderboard, 0.0))
    best, runner_up = highlighted_models(leaderboard)[:2]
    assert first.startswith(f"{best} ties with {runner_up}")
    assert "ranks best" not in first
    assert f"{best} ties with {runner_up} (difference " in second
    section = summary_section(with_tests(leaderboard, 0.0), None, None, ())
    [card] = [block for block in section.blocks if isinstance(block, SummaryCard)]
    assert re.search(r"The best statistic, (\S+): .* popco ties with \1 \(", card.tiles[0].note)


def test_the_recommended_goal_is_the_one_whose_weaker_measure_is_best() -> None:
    rows = [
        {"name": "bayes balanced", "lift_gain": 1.1, "evidence_gain": 1.1},
        {"name": "bayes lift", "lift_gain": 1.3, "evidence_gain": 0.7},
        {"name": "bayes evidence", "lift_gain": 0.8, "evidence_gain": 1.2},
        {"name": "llr", "lift_gain": 0.5, "evidence_gain": 1.0},
        {"name": "shrunk-lift", "lift_gain": 1.0, "evidence_gain": 0.6},
    ]
    goals = {"balanced": {}, "lift": {}, "evidence": {}}
    goal, why = recommended_goal({"goals": goals, "comparison": rows})
    assert goal == "balanced"
    assert "1.10x by high-lift pairs and 1.10x by certain pairs" in why
    no_evidence = [{**row, "evidence_gain": None} for row in rows]
    assert recommended_goal({"goals": goals, "comparison": no_evidence})[0] == "lift"
    assert recommended_goal({"goals": goals, "comparison": []}) == (
        "balanced",
        "The default: there are too few pairs in held-out training baskets to compare goals.",
    )


def test_baskets_without_a_pair_above_chance_get_a_summary_all_the_same() -> None:
    found = find_pairs(Baskets.from_lists([["tea", "milk"], ["tea", "bread"], ["milk", "bread"]] * 40))
    assert (found.certain, found.likely, found.sales) == (0, 0, 0.0)
    assert pairs_section(found).blocks == (Paragraph("No pair is bought together more often than by chance."),)


def test_the_conclusion_on_no_labels_says_so(leaderboard: LeaderboardTables) -> None:
    summary = replace(leaderboard.first.summary, labels=0)
    empty = replace(leaderboard, results=(replace(leaderboard.first, summary=summary),))
    assert conclusion(empty) == ("There are no labels to compare models by: too few baskets, or no pair above chance.",)


def test_the_conclusion_on_one_model_compares_it_with_nothing(leaderboard: LeaderboardTables) -> None:
    for model in leaderboard.first.summary.models:
        summary = replace(leaderboard.first.summary, models=(model,), tests=())
        alone = replace(leaderboard, results=(replace(leaderboard.first, summary=summary),))
        assert len(conclusion(alone)) == 1


def test_example_queries_go_from_popular_to_rare() -> None:
    query = np.repeat(np.arange(30), 2)
    label_queries = LabelQueries.from_pairs(query, np.tile([40, 41], 30))
    purchases = np.zeros(50, dtype=np.int64)
    purchases[:30] = np.arange(30) * 10
    rows = chosen_queries(label_queries, purchases, 4)
    bought = purchases[label_queries.queries[rows]]
    assert rows == chosen_queries(label_queries, purchases, 4)
    assert bought[0] == 290
    assert bought[-1] == 0
    assert (np.diff(bought) < 0).all()


def test_the_examples_tick_labels_and_leave_gaps_out(result: LeaderboardResult) -> None:
    task = result.task
    best = np.full((len(task.label_queries.queries), 20), -1, dtype=np.int32)
    best[:, 0] = task.label_queries.item[task.label_queries.offsets[:-1]]
    section = examples_section(task.label_queries, {"mine": best}, task.labels.catalog, task.purchases)
    examples = next(block for block in section.blocks if isinstance(block, ExampleList))
    assert all(len(answers) == 1 and answers[0][1] for query in examples.queries for _, answers in query.answers)
    assert {query.name for query in examples.queries} & set(INJECTIONS)


def test_without_label_free_measures_there_is_no_section_for_them(result: LeaderboardResult) -> None:
    assert label_free_section(replace(result.evaluation, held_out={}, completion={})) is None
    assert label_free_section(result.evaluation) is not None


def test_the_variance_section_leaves_out_what_was_never_bought() -> None:
    purchases = np.array([0, 1, 10, 100, 1000])
    section = variance_section(purchases, np.array([9.0, 0, 1, 2, 3]), "neat")
    [figures] = [block for block in section.blocks if isinstance(block, FigureRow)]
    assert "4 items" in figures.figures[0].caption
    assert figures.figures[0].caption.endswith("purchases: 1.00.")


def test_facts_of_a_model_that_are_not_known_are_dashes(leaderboard: LeaderboardTables) -> None:
    unknown = replace(leaderboard, facts={name: ModelFacts("paper", None, None) for name in leaderboard.facts})
    table = all_tables(unknown)["costs"]
    assert {row[3] for row in table.text_rows()} == {"–"}


def test_attachments_written_before_candidate_sets_were_renamed_stay_comparable() -> None:
    old, new, other = ({"leaderboard": {"candidates": name}} for name in ("recall200", "top200", "catalogue"))
    assert comparable(old, new) is comparable(new, old) is None
    assert "candidates top200 against catalogue" in str(comparable(old, other))
