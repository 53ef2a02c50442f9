"""The paper's tables about data and labels, and the study of both label protocols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neatrec.cooccurrence import Counts, count
from neatrec.cooccurrence.expected_counts import fit_expected
from neatrec.data.baskets import Baskets
from neatrec.evaluation.metrics import hit_rate, ndcg
from neatrec.labels import Labels, make_labels, shuffle_null
from neatrec.labels.config import LabelConfig
from neatrec.statistics import chi_squared, chi_squared_threshold
from reproduction.data import PaperData
from reproduction.tables import EXACT, NO_PRIOR, WALMART, Table, compared, paper_numbers

MIN_COUNT = 5
"""The fewest records of a pair that the paper tests."""
BIN_WIDTH = 100
"""Of the histograms of chi-squared."""
WITHIN = 0.0005
"""Chi-squared values count as exact within this share of the printed one."""
Floats = npt.NDArray[np.float64]


class TestedPairs(NamedTuple):
    """Every pair of different aisles in the order of the cart, as the paper tests it."""

    counts: Counts
    expected: Floats
    """F_q F_v / N, F counting the records with the item in either position."""
    statistic: Floats
    """Chi-squared; 0 for pairs seen less than five times."""

    def at(self, level: float, *, positive: bool) -> npt.NDArray[np.int64]:
        """Indices of the pairs of one sign whose chi-squared passes at `level`."""
        passing = self.statistic > chi_squared_threshold(level)
        return np.flatnonzero(passing & ((self.counts.count > self.expected) == positive))


def tested_pairs(baskets: Baskets, labels: Labels) -> TestedPairs:
    """The pairs of the baskets that the paper `labels` come from."""
    counts = count(baskets, LabelConfig.of(labels).counting)
    total = counts.margins.first + counts.margins.second
    query, item, n = total[counts.query], total[counts.item], counts.margins.records
    statistic = np.where(counts.count >= MIN_COUNT, chi_squared(counts.count, query, item, n), 0.0)
    return TestedPairs(counts, query.astype(np.float64) * item / n, statistic)


def label_tables(data: PaperData, journey: PaperData | None, null_rounds: int) -> list[Table]:
    """Every table of the paper about data and labels, then the study of both protocols."""
    baskets = data.evaluated
    labels = make_labels(baskets, protocol="paper")
    calibrated = make_labels(baskets, protocol="calibrated")
    pairs = tested_pairs(baskets, labels)
    return [
        dataset_table(data),
        label_count_table(labels, journey),
        *department_tables(labels, pairs),
        case_pairs_table("positive_pairs", pairs),
        case_pairs_table("negative_pairs", pairs),
        top_items_table(data),
        pop_table(labels),
        protocol_table(baskets, [labels, calibrated], null_rounds),
        overlap_table(labels, calibrated),
        negatives_table(labels, pairs),
        consistency_table(labels, pairs),
    ]


def dataset_table(data: PaperData) -> Table:
    """Table III."""
    printed, ours = paper_numbers()["dataset"], {"INS-E": _sizes(data.evaluated), "INS-T": {}}
    if data.same_split:
        ours["INS-T"] = _sizes(data.train)
    ours["INS-T"]["categories"] = len(data.evaluated.catalog.category_names[-1])
    rows = []
    for column, name in enumerate(printed["columns"]):
        for quantity in ("transactions", "items", "categories", "users"):
            there = printed[quantity][column]
            here = ours.get(name, {}).get(quantity)
            missing = NO_PRIOR if name in ours else WALMART
            if there is not None:
                mark = missing if here is None else compared([here], [there])
                rows.append((name, quantity, there, here, mark))
    columns = ("data", "quantity", "paper", "ours", "mark")
    return Table("datasets", "Data sets (the paper's Table III)", columns, rows)


def _sizes(baskets: Baskets) -> dict[str, int]:
    users = 0 if baskets.users is None else len(np.unique(baskets.users))
    sold = int((baskets.item_counts > 0).sum())
    return {"transactions": len(baskets), "items": sold, "users": users}


def label_count_table(labels: Labels, journey: PaperData | None) -> Table:
    """Table IV, with the labels of Complete Journey where they are made."""
    printed = paper_numbers()["label_counts"]
    rows: list[tuple[Any, ...]] = []
    for level, there in printed["INS-E"].items():
        here = int(labels.at(float(level)).sum())
        rows.append(("INS-E", f"p = {level}", there, here, compared([here], [there])))
    rows += [("WMT-E", f"p = {key}", n, None, WALMART) for key, n in printed["WMT-E"].items()]
    if journey is not None and journey.labels is not None:
        mark = f"comparable ({journey.split})"
        counts = journey.labels.label_counts.items()
        rows += [(journey.title, f"p = {key}", None, n, mark) for key, n in counts]
    columns = ("data", "level", "paper", "ours", "mark")
    return Table("label-counts", "Labels (the paper's Table IV)", columns, rows)


def department_tables(labels: Labels, pairs: TestedPairs) -> tuple[Table, Table]:
    """Table V: shares of all pairs and of the labels by the query's department, and last row."""
    printed = paper_numbers()["departments"]
    names = labels.catalog.category_names[labels.catalog.levels.index("department")]
    department = labels.catalog.category_of("department")
    queries = [
        pairs.counts.query,
        *(labels.query[labels.at(float(p))] for p in printed["columns"][1:]),
    ]
    counts = [np.bincount(department[each], minlength=len(names)) for each in queries]
    percent = {
        name: [100 * float(each[code] / max(each.sum(), 1)) for each in counts]
        for code, name in enumerate(names)
    }
    rows: list[tuple[Any, ...]] = []
    for name, there in printed["rows"].items():
        here = percent.get(name, [0.0] * 4)
        mark = compared(here[1:], there[1:], digits=3)
        if abs(here[0] - there[0]) > 0.0015:
            mark = f"differs: {here[0]:.3f} here, {there[0]} in the paper"
        cells = [value for pair in zip(there, here, strict=True) for value in pair]
        rows.append((name, *cells, mark))
    titles = ("all pairs", "p = 0.05", "p = 0.01", "p = 0.001")
    columns = [f"{title}, {whose}" for title in titles for whose in ("paper", "ours")]
    caption = "Labels by the query's department, percent (the paper's Table V)"
    sums = []
    for title, there, each in zip(titles, printed["sum"], counts, strict=True):
        total = int(each.sum())
        mark = compared([total], [there])
        if title == "all pairs" and mark != EXACT:
            why = "most likely pairs with items that the prior orders never have, which are dropped"
            mark = f"comparable ({total - there:+,}: {why})"
        sums.append((title, there, total, mark))
    last_row = "Pairs and labels (last row of the paper's Table V)"
    return (
        Table("departments", caption, ("department", *columns, "mark"), rows),
        Table("department-sums", last_row, ("sum of", "paper", "ours", "mark"), sums),
    )


def case_pairs_table(key: str, pairs: TestedPairs) -> Table:
    """Table VI (`positive_pairs`) or VII (`negative_pairs`): the paper's example pairs, by name."""
    printed = paper_numbers()[key]
    counts = pairs.counts
    names = np.array([counts.catalog.name(c).lower() for c in range(len(counts.catalog))])
    rows: list[tuple[Any, ...]] = []
    for pair in printed["rows"]:
        queries, items = (np.flatnonzero(names == pair[side].lower()) for side in ("query", "item"))
        named = np.isin(counts.query, queries) & np.isin(counts.item, items)
        indices = np.flatnonzero(named & (pairs.statistic > 0))
        shown = pair.get("query_printed", pair["query"]), pair.get("item_printed", pair["item"])
        if not len(indices):
            mark = "not checkable here, because the pair is not in these orders"
            rows.append((*shown, pair["chi_squared"], None, None, mark))
            continue
        best = indices[np.argmax(counts.count[indices])]
        chi = float(pairs.statistic[best])
        mark = compared([chi], [pair["chi_squared"]], share=WITHIN)
        if mark == EXACT and "note" in pair:
            mark = f"exact, for {pair['item']}: {pair['note']}"
        rows.append((*shown, pair["chi_squared"], chi, int(counts.count[best]), mark))
    sign = key.split("_")[0].capitalize()
    caption = f"{sign}ly dependent pairs (the paper's Table {printed['table']})"
    columns = ("query", "item", "chi-squared, paper", "ours", "together", "mark")
    return Table(key.replace("_", "-"), caption, columns, rows)


def top_items_table(data: PaperData) -> Table:
    """Table VIII beside the items bought most in the training orders, or in all orders."""
    baskets = data.train if data.same_split else data.evaluated
    order = np.argsort(-baskets.item_counts, kind="stable")
    rows = []
    for rank, there in enumerate(paper_numbers()["top20"]["items"]):
        here = baskets.catalog.name(order[rank])
        mark = EXACT if here == there else f"differs: {here} here, {there} in the paper"
        rows.append((rank + 1, there, here, mark if data.same_split else NO_PRIOR))
    caption = "Most popular items (the paper's Table VIII)"
    return Table("top-20", caption, ("rank", "paper", "ours", "mark"), rows)


def pop_table(labels: Labels) -> Table:
    """Pop's 15 HR and 15 NDCG: the paper's list of popular items, unfiltered, for these labels."""
    numbers = paper_numbers()
    rank_of = {name: rank for rank, name in enumerate(numbers["top20"]["items"])}
    by_code = np.array(
        [rank_of.get(labels.catalog.name(c), -1) for c in range(len(labels.catalog))]
    )
    rows = []
    for level, printed in numbers["metrics"]["INS"].items():
        there = printed["models"]["pop"]
        ranks = by_code[labels.item[labels.at(float(level))]]
        hit, higher = (ranks >= 0).astype(np.int64), np.maximum(ranks, 0)
        for k, *paper in zip(numbers["settings"]["k"], there["hr"], there["ndcg"], strict=True):
            ours = [float(metric(higher, hit, k).mean()) for metric in (hit_rate, ndcg)]
            cells = paper[0], ours[0], paper[1], ours[1]
            rows.append((f"p = {level}", k, *cells, compared(ours, paper, digits=4)))
    columns = ("level", "k", "HR, paper", "HR, ours", "NDCG, paper", "NDCG, ours", "mark")
    caption = "Pop on the labels of the train orders (the paper's Tables IX to XI)"
    return Table("pop", caption, columns, rows)


def protocol_table(baskets: Baskets, protocols: Sequence[Labels], null_rounds: int) -> Table:
    """Labels of both protocols, how they cluster on queries, and how many chance alone makes."""
    rows = []
    for labels in protocols:
        null = shuffle_null(baskets, labels, null_rounds) if null_rounds else None
        for level in labels.levels:
            of_query = np.bincount(labels.query[labels.at(level)])
            cells = int(of_query.sum()), np.count_nonzero(of_query), int(of_query.max(initial=0))
            mean = None if null is None else float(np.mean(null.labels[level]))
            rate = None if null is None else null.fdr[level]
            name = f"{labels.level_kind} = {level:g}"
            rows.append((labels.protocol, name, *cells, mean, rate))
    counts = ("labels", "queries", "most of one query", "labels by chance", "false-discovery rate")
    columns = ("protocol", "level", *counts)
    return Table("protocols", "Labels by both protocols, and by chance", columns, rows)


def overlap_table(labels: Labels, calibrated: Labels) -> Table:
    """Labels that both protocols have, and one alone."""
    rows = []
    for level in labels.levels:
        paper, ours = (
            (each.query.astype(np.int64) << 32 | each.item)[each.at(level)]
            for each in (labels, calibrated)
        )
        both = len(np.intersect1d(paper, ours, assume_unique=True))
        rows.append((f"{level:g}", both, len(paper) - both, len(ours) - both))
    columns = ("level", "both", "paper only", "calibrated only")
    return Table("overlap", "Labels of both protocols", columns, rows)


def negatives_table(labels: Labels, pairs: TestedPairs) -> Table:
    """Pairs the paper calls negatively dependent, and those of them bought together too often."""
    rows, counts = [], pairs.counts
    chance = [fit_expected(counts.margins, kind) for kind in ("product", "quasi")]
    expected = [each.of(counts.query, counts.item) for each in chance]
    for level in labels.levels:
        negative = pairs.at(level, positive=False)
        above = [int((counts.count > each)[negative].sum()) for each in expected]
        rows.append((f"p = {level:g}", len(negative), *above))
    columns = ("level", "negative pairs", "lift above 1", "lift above 1, quasi-independence")
    caption = (
        "Negatively dependent pairs (paper) that are bought together more often than by chance"
    )
    return Table("negatives", caption, columns, rows)


def consistency_table(labels: Labels, pairs: TestedPairs) -> Table:
    """The paper's Figure 2, whose bars carry no numbers: dependent pairs by chi-squared."""
    rows = []
    for level in labels.levels:
        for sign in ("positive", "negative"):
            statistic = pairs.statistic[pairs.at(level, positive=sign == "positive")]
            bins = np.bincount(
                np.minimum(statistic // BIN_WIDTH, 10).astype(np.int64), minlength=11
            )
            shares = (bins / max(bins.sum(), 1)).tolist()
            rows.append((f"p = {level:g}", sign, len(statistic), *shares))
    bins_from = [f"from {BIN_WIDTH * number}" for number in range(11)]
    caption = "Shares of dependent pairs by chi-squared (the paper's Figure 2)"
    return Table("consistency", caption, ("level", "sign", "pairs", *bins_from), rows)
