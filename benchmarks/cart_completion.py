"""Carts completed by each model on the half-split of the Instacart orders.

    NEATREC_DATA=FOLDER python -m benchmarks.cart_completion   # 5,000 test carts

One item of a test basket of at least four items is hidden that shares no category with the rest,
and looked for among the first ten answers for the rest, over the whole catalogue. Beside it stands
the held-out lift of the answers, and the paired difference to `ease`. Naive Bayes (log popularity
plus the sum of log shrunk lifts, k = 5) is a plain reference.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.half_split import orders
from benchmarks.harness import argument_parser, commit, save, table
from neatrec.cooccurrence import CountOptions
from neatrec.cooccurrence.counting import CountBook
from neatrec.data.baskets import Baskets
from neatrec.data.splits import half
from neatrec.evaluation.intervals import interval, resampled_means
from neatrec.evaluation.label_free import (
    Codes,
    HiddenItems,
    answer_hidden,
    cart_completion,
    completion_gains,
    leave_one_out,
)
from neatrec.models import make_model, rank_carts
from neatrec.models.counts import PairCounts

K = 10
CARTS = 5_000
MODELS = ("ease", "odds", "naive-bayes", "pop", "popco", "shrunk-lift-tuned", "cf")
PACKAGES = ("numpy", "scipy", "numba")


class NaiveBayes:
    """log n_v + the sum over the cart of log((C + 5) / (E + 5)), in plain NumPy."""

    def __init__(self, train: Baskets) -> None:
        self.counts = PairCounts.of(CountBook(train), CountOptions(directed=False))
        self.totals, self.index = np.unique(self.counts.total, return_inverse=True)
        self.bought, self.category = train.item_counts, train.catalog.category_of()

    def rank_carts(self, carts: tuple[Codes, ...], k: int) -> list[Codes]:
        return [self._answer(cart, k) for cart in carts]

    def _answer(self, cart: Codes, k: int) -> Codes:
        counts, score = self.counts, np.log(np.maximum(self.bought, 1))
        for query in cart.tolist():
            score -= np.log1p(counts.expected(counts.total[query], self.totals) / 5.0)[self.index]
            items, times = counts.row(query)
            score[items] += np.log1p(times / 5.0)
        score[(self.bought == 0) | np.isin(self.category, self.category[cart])] = -np.inf
        score[cart] = -np.inf
        best = np.argpartition(-score, k)[:k]
        return best[np.argsort(-score[best])].astype(np.int32)


def answers_of(train: Baskets, hidden: HiddenItems) -> Iterator[tuple[str, Codes, dict[str, Any]]]:
    """Name, answers and cost of each model."""
    for name in MODELS:
        began = time.process_time()
        model: Any = NaiveBayes(train) if name == "naive-bayes" else make_model(name).fit(train)
        fitted = time.process_time()
        answers = answer_hidden(getattr(model, "rank_carts", partial(rank_carts, model)), hidden)
        cost = {
            "fit_cpu_s": fitted - began,
            "answer_cpu_ms": 1000 * (time.process_time() - fitted) / len(hidden),
        }
        yield name, answers, {key: round(value, 3) for key, value in cost.items()}


def claim(carts: int) -> None:
    """Every model once on the test carts."""
    commit()  # better refused now than when all is measured
    split = half(orders())
    hidden = leave_one_out(split.train, split.test, carts=carts, smallest=3)
    gains, rows = {}, []
    for name, answers, cost in answers_of(split.train, hidden):
        row = cart_completion(answers, hidden, rounds=1_000)
        gains[name] = completion_gains(answers, hidden, (K,))
        measures = {
            f"{measure}@10": [row[f"cart_{measure}@{K}{end}"] for end in ("", "_low", "_high")]
            for measure in ("hr", "ndcg", "lift")
        }
        less = {"less_ease": difference(gains[name], gains["ease"])}  # the first of MODELS
        scores = {key: rounded(value) for key, value in measures.items()}
        rows.append({"model": name, **scores, **less, **cost})
        print(shown(rows), flush=True)
        save("cart_completion", {"carts": len(hidden), "models": rows}, (*PACKAGES, "implicit"))


def difference(one: np.ndarray, other: np.ndarray) -> dict[str, list[float]]:
    """HR@10 and NDCG@10 less those of another model, with an interval over carts."""
    low, high = interval(resampled_means(one - other, np.ones(len(one))))
    mean = (one - other).mean(axis=0)
    return {
        name: rounded((mean[i], low[i], high[i])) for i, name in enumerate(("hr@10", "ndcg@10"))
    }


def rounded(values: Any) -> list[float]:
    return [round(float(value), 4) for value in values]


def shown(rows: list[dict[str, Any]]) -> str:
    heads = ["hr@10", "ndcg@10", "lift@10"]
    lines = [["model", *heads, "HR less ease", "NDCG less ease", "ms per cart"]]
    for row in rows:
        less = [f"{low:+.4f} to {high:+.4f}" for _, low, high in row["less_ease"].values()]
        scores = [f"{row[head][0]:.4f}" for head in heads]
        lines.append([row["model"], *scores, *less, f"{row['answer_cpu_ms']:.2f}"])
    return table(lines)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--carts", type=int, default=CARTS)
    claim(parser.parse_args().carts)


if __name__ == "__main__":
    main()
