"""Items hidden from the training baskets, but for a few lines, and what models answer to labels that ask for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.bayes_validation import Floats
from neatrec.data.baskets import Baskets
from neatrec.data.splits import Split, uniform_of_ids
from neatrec.evaluation.intervals import interval, resampled_means
from neatrec.evaluation.metrics import hit_rate, ndcg
from neatrec.evaluation.ranks import rank_labels
from neatrec.evaluation.task import EvaluationTask, build_task
from neatrec.labels import make_labels
from neatrec.models import Model, Run, make_model

HIDDEN = 0.1
"""Share of the items with at least `OFTEN` purchases that are hidden."""
OFTEN = 50
KEPT = (0, 3, 10)
BEST_SELLERS, FIRST = 20, 100
"""Best sellers of a category that vote, and how many answers each gives."""


class Votes:
    """What a shop does about a new item without a model of it: its category's best sellers vote, by their sales."""

    name = "votes of the category"

    def __init__(self, model: Model) -> None:
        self.model, self.category = model, model.catalog.category_of()
        self.of_category: dict[int, Floats] = {}

    def score(self, queries: Any, items: Any) -> Floats:
        return np.array([self._votes(int(self.category[q]))[v] for q, v in zip(queries, items, strict=True)])

    def score_all(self, queries: Any) -> Floats:
        return np.stack([self._votes(int(code)) for code in self.category[queries]])

    def _votes(self, category: int) -> Floats:
        if category not in self.of_category:
            votes = np.zeros(len(self.category))
            sales = np.where(self.category == category, self.model.item_count, 0)
            for seller in np.argsort(-sales, kind="stable")[:BEST_SELLERS]:
                if sales[seller]:
                    votes[self.model.recommend(int(seller), FIRST).codes] += sales[seller]
            self.of_category[category] = votes
        return self.of_category[category]


def cold(split: Split) -> Iterator[dict[str, Any]]:
    """A record for each number of lines kept, as it comes: HR@10 and NDCG@10 at .05 on the whole catalogue."""
    chosen = uniform_of_ids(split.train.catalog.ids, "cold") < HIDDEN
    chosen &= split.train.item_counts >= OFTEN
    labels = make_labels(split.test, protocol="paper", levels=(0.05,))
    for kept in KEPT:
        yield _record(without(split.train, chosen, kept), split.test, labels, chosen, kept)


def _record(train: Baskets, test: Baskets, labels: Any, chosen: npt.NDArray[np.bool_], kept: int) -> dict[str, Any]:
    task = build_task(train, test, labels, queries=0, carts=0)
    tuned = make_model("shrunk-lift-tuned").fit(train, Run(rng=0))
    models = {"bayes": make_model("bayes").fit(train, Run(rng=0)), tuned.name: tuned, Votes.name: Votes(tuned)}
    asked = chosen[task.label_queries.queries]
    sums = {name: _by_query(model, task)[asked] for name, model in models.items()}
    count = sums["bayes"][:, 2]
    found: dict[str, Any] = {"kept": kept, "labels": int(count.sum()), "queries": len(count)}
    for name, values in sums.items():
        low, high = interval(resampled_means(sums["bayes"][:, :2] - values[:, :2], count))
        hr, gain = values[:, :2].sum(axis=0) / count.sum()
        ends = [[round(float(low[k]), 4), round(float(high[k]), 4)] for k in (0, 1)]
        found[name] = {"hr@10": round(float(hr), 4), "ndcg@10": round(float(gain), 4), "bayes_more_by": ends}
    return found


def _by_query(model: Any, task: EvaluationTask) -> Floats:
    """Sums of hits and gains over the labels of each query, and how many labels, (queries, 3)."""
    ranks = rank_labels(model, task.catalogue, task.label_queries)
    hits, gains = (metric(ranks.higher, ranks.equal, 10) for metric in (hit_rate, ndcg))
    sums: Floats = np.add.reduceat(np.stack([hits, gains, np.ones(len(hits))], axis=1), task.label_queries.offsets[:-1])
    return sums


def without(baskets: Baskets, hidden: npt.NDArray[np.bool_], kept: int) -> Baskets:
    """The baskets with only the first `kept` lines of each hidden item."""
    order = np.argsort(baskets.items, kind="stable")
    codes = baskets.items[order]
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order)) - np.searchsorted(codes, codes)
    stays = ~hidden[baskets.items] | (place < kept)
    ends = np.concatenate([[0], np.cumsum(stays)])
    return replace(baskets, items=baskets.items[stays], offsets=ends[baskets.offsets])


def show(record: dict[str, Any]) -> None:
    for name, found in record.items():
        if isinstance(found, dict):
            asked = f"{record['labels']} labels of {record['queries']} queries, {record['kept']} lines kept"
            print(
                f"| {asked} | {name} | {found['hr@10']:.3f} / {found['ndcg@10']:.3f} | {found['bayes_more_by']} |",
                flush=True,
            )
