"""The answer in words: which model is best, by how much, how sure."""

from __future__ import annotations

from neatrec.evaluation.summary import LevelResult, ModelSummary, PairedTest
from neatrec.report.boards import LeaderboardTables, best_first, main_metric
from neatrec.report.show import show_number, show_p, show_share

SURE = 0.05
"""Below this Holm-corrected p a difference is called beyond chance."""


def verdict(board: LeaderboardTables) -> tuple[str, ...]:
    """A few sentences: the best model, the next one, the best of the paper's where that is another."""
    result, about = board.first, board.about
    ranked = best_first(result)
    if not ranked or not result.summary.labels:
        return ("There are no labels to compare models by: too few baskets, or nothing in them goes together.",)
    first = ranked[0]
    sentences = [_leads(result, first)]
    if len(ranked) > 1:
        sentences.append("Next is " + _against(result, first, ranked[1]))
    papers = [s for s in ranked if about[s.name].kind == "paper"]
    if about[first.name].kind != "paper" and papers and papers[0] is not ranked[1]:
        sentences.append("Of the paper's own models the best here is " + _against(result, first, papers[0]))
    return tuple(sentences)


def _leads(result: LevelResult, first: ModelSummary) -> str:
    metric = main_metric(result)
    k = metric.removeprefix("hr@")
    ceiling = result.ceiling.get(int(k))
    possible = "" if ceiling is None else f"; the best possible is {show_share(ceiling, 1)}"
    return (
        f"{first.name} ranks best: it puts {_share(first, metric)} of {result.summary.labels:,} held-out labels "
        f"among its first {k} answers{possible}."
    )


def _share(standing: ModelSummary, metric: str) -> str:
    low, high = show_share(standing.low[metric], 1), show_share(standing.high[metric], 1)
    return f"{show_share(standing.mean[metric], 1)} (95 % interval {low.removesuffix(' %')} to {high})"


def _against(result: LevelResult, first: ModelSummary, other: ModelSummary) -> str:
    metric = main_metric(result)
    test = _test_between(result, first.name, other.name, metric)
    text = f"{other.name} with {_share(other, metric)}"
    if test is None:
        return text + "."
    sure = "beyond chance" if test.p_holm < SURE else "not beyond chance"
    points = show_number(100 * test.difference, 1)
    return f"{text}, {points} points less: {sure} (p {_p(test.p_holm)} after Holm's correction)."


def _p(value: float) -> str:
    text = show_p(value)
    return text if text.startswith("<") else f"= {text}"


def _test_between(result: LevelResult, one: str, other: str, metric: str) -> PairedTest | None:
    return next((t for t in result.summary.tests if {t.better, t.worse} == {one, other} and t.metric == metric), None)
