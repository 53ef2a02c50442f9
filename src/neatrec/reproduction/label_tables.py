"""The paper's tables about data and labels, with the published numbers and ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.evaluation.metrics import hit_rate, ndcg
from neatrec.labels.audit import Audit
from neatrec.labels.paper import DependentPairs
from neatrec.labels.record import Labels, level_key
from neatrec.report.table import ReportTable, number, share, text
from neatrec.reproduction.published import MARK, NO_PRIOR, WALMART, comparable, exact_or_differs, not_checkable

Paper = Mapping[str, Any]
IN_PLACE = "comparable (Complete Journey in place of the Walmart data)"
WITHIN = 0.0005
"""Chi-squared values count as exact within this share of the printed one."""


@dataclass(frozen=True)
class PaperDataSet:
    """Sizes of one data set; None where unknown."""

    transactions: int | None
    items: int | None
    categories: int | None
    users: int | None


def dataset_table(paper: Paper, ours: Mapping[str, PaperDataSet], journey: Mapping[str, PaperDataSet]) -> ReportTable:
    """Table III. `ours` by the paper's names INS-T and INS-E; `journey` (training, test) in place of Walmart's."""
    printed = paper["dataset"]
    rows: list[tuple[Any, ...]] = []
    for place, name in enumerate(printed["columns"]):
        for what in ("transactions", "items", "categories", "users"):
            there = printed[what][place]
            if there is None:
                continue
            here = getattr(ours[name], what) if name in ours else None
            mark = WALMART if name not in ours else NO_PRIOR if here is None else exact_or_differs([here], [there])
            rows.append((name, what, there, here, mark))
    for name, found in journey.items():
        for what in ("transactions", "items", "categories", "users"):
            rows.append((name, what, None, getattr(found, what), IN_PLACE))
    columns = (text("data", "Data set"), text("quantity"), number("paper"), number("ours", "Here"), MARK)
    return ReportTable("paper-datasets", f"Data sets (the paper's Table {printed['table']})", columns, tuple(rows))


def label_count_table(paper: Paper, labels: Labels, journey: Labels | None) -> ReportTable:
    """Table IV, with the labels of Complete Journey where there are some."""
    printed = paper["label_counts"]
    rows: list[tuple[Any, ...]] = []
    for level, there in printed["INS-E"].items():
        here = _count(labels, level)
        mark = not_checkable(f"no labels were made at {level}") if here is None else exact_or_differs([here], [there])
        rows.append(("INS-E", f"p = {level}", there, here, mark))
    rows += [("WMT-E", f"p = {level}", there, None, WALMART) for level, there in printed["WMT-E"].items()]
    if journey is not None:
        rows += [
            ("Complete Journey", f"p = {key}", None, count, IN_PLACE) for key, count in journey.label_counts.items()
        ]
    columns = (text("data", "Data set"), text("level"), number("paper"), number("ours", "Here"), MARK)
    return ReportTable("paper-label-counts", f"Labels (the paper's Table {printed['table']})", columns, tuple(rows))


def _count(labels: Labels, level: str) -> int | None:
    return labels.label_counts.get(level_key(float(level)))


def department_table(paper: Paper, audit: Audit) -> ReportTable:
    """Table V: shares of all pairs and of the labels by the department of the query."""
    printed = paper["departments"]
    levels = [float(level) for level in printed["columns"][1:]]
    here = {row.name: row for row in audit.coverage}
    columns = [text("department")]
    for title in ("All pairs", *(f"p = {level:g}" for level in levels)):
        columns += [share(f"{title}, paper", f"{title}, paper", 3), share(f"{title}, here", "Here", 3)]
    rows: list[tuple[Any, ...]] = []
    for name, there in printed["rows"].items():
        row = here.get(name)
        ours = [None] * 4 if row is None else [row.of_pairs, *(row.of_labels.get(("paper", level)) for level in levels)]
        percent = [None if value is None else 100 * value for value in ours]
        mark = exact_or_differs(percent[1:], there[1:], digits=3)
        if mark == "exact" and (percent[0] is None or abs(percent[0] - there[0]) > 0.0015):
            mark = exact_or_differs(percent[:1], there[:1], digits=3)
        cells = [value for pair in zip([value / 100 for value in there], ours, strict=True) for value in pair]
        rows.append((name, *cells, mark))
    notes = ("Exact: the labels' shares to three decimals, the share of all pairs within 0.0015 points.",)
    caption = f"Labels by department of the query (the paper's Table {printed['table']})"
    return ReportTable("paper-departments", caption, (*columns, MARK), tuple(rows), notes)


def department_sums_table(paper: Paper, audit: Audit) -> ReportTable:
    """The last row of Table V: how many pairs and labels the shares are of."""
    printed = paper["departments"]
    ours = [audit.paper.pairs, *(_count(audit.paper, level) for level in printed["columns"][1:])]
    rows = []
    for name, there, here in zip(printed["columns"], printed["sum"], ours, strict=True):
        mark = exact_or_differs([here], [there])
        if name == "total" and mark != "exact":
            more = f"{abs(int(here or 0) - there):,} {'more' if int(here or 0) > there else 'fewer'}"
            mark = comparable(
                f"{more}: most likely pairs with items that the prior orders never have, which are dropped"
            )
        rows.append(("unique pairs" if name == "total" else f"labels at p = {name}", there, here, mark))
    columns = (text("what", "Sum of"), number("paper"), number("ours", "Here"), MARK)
    caption = f"What the shares are of (last row of the paper's Table {printed['table']})"
    return ReportTable("paper-department-sums", caption, columns, tuple(rows))


def case_pairs_table(paper: Paper, key: str, dependent: DependentPairs) -> ReportTable:
    """Table VI (`positive_pairs`) or VII (`negative_pairs`): the paper's example pairs, found by name."""
    printed = paper[key]
    codes = _codes_by_name(dependent)
    rows: list[tuple[Any, ...]] = []
    for pair in printed["rows"]:
        found = _find(dependent, codes, pair["query"], pair["item"])
        names = pair.get("query_printed", pair["query"]), pair.get("item_printed", pair["item"])
        if found is None:
            rows.append((*names, pair["chi_squared"], None, None, not_checkable(_why_not(codes, pair))))
            continue
        chi_squared = float(dependent.statistic[found])
        mark = exact_or_differs([chi_squared], [pair["chi_squared"]], share=WITHIN)
        if mark == "exact" and "note" in pair:
            mark = f"exact, for {pair['item']}: {pair['note']}"
        rows.append((*names, pair["chi_squared"], chi_squared, int(dependent.pairs.count[found]), mark))
    columns = (
        text("query"),
        text("item"),
        number("paper", "Chi-squared, paper", 3),
        number("ours", "Here", 3),
        number("count", "Together"),
        MARK,
    )
    sign = "Positively" if key.startswith("positive") else "Negatively"
    notes = (f"Exact: within {100 * WITHIN:g} % of the printed value.",)
    caption = f"{sign} dependent pairs (the paper's Table {printed['table']})"
    return ReportTable(f"paper-{key.replace('_', '-')}", caption, columns, tuple(rows), notes)


def _codes_by_name(dependent: DependentPairs) -> dict[str, list[int]]:
    catalog = dependent.pairs.catalog
    out: dict[str, list[int]] = {}
    for code in range(len(catalog)):
        out.setdefault(catalog.name(code).casefold(), []).append(code)
    return out


def _find(dependent: DependentPairs, codes: Mapping[str, Sequence[int]], query: str, item: str) -> int | None:
    """The position of the pair of these names that is bought together most often."""
    pairs = dependent.pairs
    named = np.isin(pairs.query, codes.get(query.casefold(), [])) & np.isin(pairs.item, codes.get(item.casefold(), []))
    places = np.flatnonzero(named)
    return int(places[np.argmax(pairs.count[places])]) if len(places) else None


def _why_not(codes: Mapping[str, Sequence[int]], pair: Mapping[str, Any]) -> str:
    for name in (pair["query"], pair["item"]):
        if name.casefold() not in codes:
            return f"no product is called {name}"
    return "the pair does not pass the test in these orders"


def top_items_table(paper: Paper, ours: Sequence[str], *, has_prior: bool) -> ReportTable:
    """Table VIII and the list computed from the orders at hand."""
    printed = paper["top20"]
    rows = []
    for place, there in enumerate(printed["items"]):
        here = ours[place] if place < len(ours) else None
        same = "exact" if here == there else f"differs: {here} here, {there} in the paper"
        rows.append((place + 1, there, here, same if has_prior else NO_PRIOR))
    columns = (number("rank"), text("paper"), text("ours", "Here"), MARK)
    of = "prior orders" if has_prior else "train orders, which have another one"
    caption = f"Most popular items (the paper's Table {printed['table']}); here: of the {of}"
    return ReportTable("paper-top-20", caption, columns, tuple(rows))


def pop_table(paper: Paper, labels: Labels) -> ReportTable:
    """Pop's 15 HR and 15 NDCG values: the paper's own list of popular items, unfiltered, without a candidate set."""
    ranks = _places_in_list(labels, paper["top20"]["items"])
    rows = []
    for level, printed in paper["metrics"]["INS"].items():
        there = printed["models"]["pop"]
        chosen = ranks[labels.at(float(level))] if float(level) in labels.levels else ranks[:0]
        found = (chosen >= 0).astype(np.int64)
        higher = np.maximum(chosen, 0)
        for k in (int(key) for key in there["hr"]):
            values = [float(metric(higher, found, k).mean()) if len(chosen) else None for metric in (hit_rate, ndcg)]
            printed_values = [there["hr"][str(k)], there["ndcg"][str(k)]]
            mark = exact_or_differs(values, printed_values, digits=4)
            rows.append((f"p = {level}", k, printed_values[0], values[0], printed_values[1], values[1], mark))
    columns = (
        text("level"),
        number("k"),
        number("hr_paper", "HR, paper", 4),
        number("hr_ours", "Here", 4),
        number("ndcg_paper", "NDCG, paper", 4),
        number("ndcg_ours", "Here", 4),
        MARK,
    )
    notes = ("The paper's list of popular items replaces the prior orders; the labels are those of the train orders.",)
    return ReportTable(
        "paper-pop", "Pop on the labels of the train orders (the paper's Tables IX to XI)", columns, tuple(rows), notes
    )


def _places_in_list(labels: Labels, names: Sequence[str]) -> npt.NDArray[np.int64]:
    """The place of each label's item in a list of names, from 0; -1 where it is not in it, shape (labels,)."""
    catalog = labels.catalog
    place = {name: number for number, name in enumerate(names)}
    found = {code: place.get(catalog.name(code), -1) for code in np.unique(labels.item).tolist()}
    return np.array([found[code] for code in labels.item.tolist()], dtype=np.int64)
