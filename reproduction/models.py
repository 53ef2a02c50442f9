"""The paper's tables and figures of models: Tables IX to XIV, the margin, the case study."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from neatrec.data.baskets import Baskets
from neatrec.evaluation.metrics import hit_rate, ndcg
from neatrec.evaluation.ranks import rank_labels
from neatrec.leaderboard import Leaderboard
from neatrec.models import Run, make_model
from reproduction.data import PaperData
from reproduction.tables import EXACT, NO_PRIOR, WALMART, Table, compared, paper_numbers

Floats = npt.NDArray[np.float64]


def comparison_tables(data: PaperData, result: Leaderboard) -> list[Table]:
    """Tables IX to XIV: each line of the paper with ours below it, then our other models."""
    numbers = paper_numbers()
    keys = [f"{metric}@{k}" for metric in ("hr", "ndcg") for k in numbers["settings"]["k"]]
    tables = []
    for level, printed in numbers["metrics"][data.key].items():
        ours = candidate_set_results(result, float(level))
        rows: list[tuple[Any, ...]] = []
        for name, there in printed["models"].items():
            cited = [*there["hr"], *there["ndcg"]]
            trained = [each for each in (name, f"{name}@paper") if each in ours]
            mark = "cited" if trained else "not checkable here, because it was not trained"
            rows.append((name, "paper", *cited, WALMART if data.key == "WMT" else mark))
            for each in trained:
                here = [ours[each][key] for key in keys]
                same = data.same_split and compared(here, cited, digits=4) == EXACT
                rows.append((each, "ours", *here, EXACT if same else f"comparable ({data.split})"))
        others = [name for name in ours if name.removesuffix("@paper") not in printed["models"]]
        for name in sorted(others, key=lambda each: -ours[each]["hr@10"]):
            rows.append((name, "ours", *(ours[name][key] for key in keys), "ours alone"))
        columns = ("model", "whose", *(key.upper() for key in keys), "mark")
        caption = f"{data.title}, p = {level} (the paper's Table {printed['table']})"
        tables.append(Table(f"metrics-{data.key.lower()}-{level}", caption, columns, rows))
    return tables


def candidate_set_results(result: Leaderboard, level: float) -> dict[str, dict[str, Any]]:
    """Model -> metric -> mean over the labels of a level, on the candidate set."""
    names = level, result.task.candidate_set.name
    rows = result.to_arrow().to_pylist()
    return {row["model"]: row for row in rows if (row["level"], row["candidates"]) == names}


def margin_table(data: PaperData, result: Leaderboard) -> Table:
    """NEAT trained with each margin: the paper's Figures 3 and 4, which carry no numbers."""
    study, task = paper_numbers()["margin_study"], result.task
    selected = task.labels.at(task.labels.levels[0])
    mark = "comparable (the paper's figure carries no numbers)"
    rows = []
    for margin in study["margins"]:
        model = make_model("neat", margin=margin).fit(data.train, Run(rng=0))
        ranks = rank_labels(model, task.candidate_set, task.label_queries)
        higher, equal = ranks.higher[selected], ranks.equal[selected]
        cells = [float(hit_rate(higher, equal, k).mean()) for k in study["k"]]
        cells += [float(ndcg(higher, equal, k).mean()) for k in study["k"]]
        rows.append((margin, *cells, mark))
    columns = [f"{metric}@{k}" for metric in ("HR", "NDCG") for k in study["k"]]
    caption = f"NEAT by margin, {data.title} (the paper's Figures 3 and 4)"
    return Table(f"margin-{data.key.lower()}", caption, ("margin", *columns, "mark"), rows)


def case_study_table(data: PaperData) -> Table:
    """Three items in a trained NEAT: cosines, purchases, ratios of determinants."""
    printed = paper_numbers()["case_study"]
    purchases, codes = data.train.item_counts, _case_codes(data.train)
    vectors, log_variance = _gaussians(data.train)
    unit = vectors[codes] / np.linalg.norm(vectors[codes], axis=1, keepdims=True)
    # spherical: the same variance in each dimension
    ratios = np.exp(vectors.shape[1] * (log_variance[codes[0]] - log_variance[codes[1:]]))
    first, *others = [item["name"] for item in printed["items"]]
    mark = f"comparable ({data.split})"
    rows: list[tuple[Any, ...]] = []
    for name, size, cosine in zip(others, ("larger", "smaller"), unit[1:] @ unit[0], strict=True):
        rows.append((f"cosine of {first} and {name}", size, float(cosine), mark))
    for item, here in zip(printed["items"], purchases[codes].tolist(), strict=True):
        bought = compared([here], [item["purchases"]]) if data.same_split else NO_PRIOR
        rows.append((f"purchases of {item['name']}", item["purchases"], here, bought))
    for name, ratio, there in zip(others, ratios, printed["determinant_ratio"], strict=True):
        rows.append((f"determinant of {first} over {name}", there, float(ratio), mark))
    sold = purchases > 0
    correlation = float(np.corrcoef(log_variance[sold], np.log(purchases[sold]))[0, 1])
    rows.append(("correlation of log-variance and log purchases", None, correlation, "ours alone"))
    columns = ("quantity", "paper", "ours", "mark")
    return Table("case-study", "Case study: three items as distributions", columns, rows)


def _case_codes(train: Baskets) -> list[int]:
    items = paper_numbers()["case_study"]["items"]
    return [train.catalog.code_of[item["product_id"]] for item in items]


def _gaussians(train: Baskets, **settings: Any) -> tuple[Floats, Floats]:
    """Means (items, dim) and log-variances (items,) of a NEAT trained on the baskets."""
    arrays = make_model("neat", settings).fit(train, Run(rng=0)).arrays()
    return arrays["vectors"].astype(np.float64), arrays["log_variance"].astype(np.float64)


def draw_margin(table: Table, file: Path) -> None:
    """HR and NDCG against the margin."""
    margins, *columns = zip(*table.rows, strict=True)
    curves = [
        (name, margins, each) for name, each in zip(table.columns[1:-1], columns, strict=False)
    ]
    _draw(file, "margin", table.caption, curves)


def draw_concept(data: PaperData, file: Path) -> None:
    """The paper's Figure 1, a sketch there: densities of three items in a NEAT of one dimension."""
    means, log_variance = _gaussians(data.train, dim=1)
    codes = _case_codes(data.train)
    deviation = np.exp(log_variance[codes] / 2)
    x = np.linspace(
        (means[codes, 0] - 4 * deviation).min(), (means[codes, 0] + 4 * deviation).max(), 400
    )
    curves = [
        (data.train.catalog.name(code), x, norm.pdf(x, means[code, 0], sd))
        for code, sd in zip(codes, deviation, strict=True)
    ]
    _draw(file, "embedding of one dimension", "Three items as Gaussians", curves)


def draw_consistency(table: Table, file: Path) -> None:
    """The paper's Figure 2."""
    bins = range(0, 1100, 100)
    curves = [(f"{row[1]}, {row[0]}", bins, row[3:]) for row in table.rows]
    _draw(file, "chi-squared", table.caption, curves)


def _draw(file: Path, x: str, title: str, curves: Sequence[tuple[str, Any, Any]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for name, places, values in curves:
        axes.plot(places, values, marker="o" if len(places) < 20 else None, label=name)
    axes.set(xlabel=x, title=title)
    axes.legend()
    figure.savefig(file)
