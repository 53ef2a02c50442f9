"""Carts completed by each model on the half-split of the Instacart orders, and what an answer costs.

    NEATREC_DATA=FOLDER python -m benchmarks.cart_completion            # 5,000 test carts, every model of MODELS
    NEATREC_DATA=FOLDER python -m benchmarks.cart_completion --tune     # settings of ease, inside the training half
    python -m benchmarks.cart_completion --speed                        # 20-item carts of a simulated shop

One item of a test basket of at least four items is hidden that shares no category with the rest, and looked for among
the first ten answers for the rest, over the whole catalogue. Beside it stands the held-out lift of the answers, and the
paired difference to `ease`. Naive Bayes (log popularity plus the sum of log shrunk lifts, k = 5) is a plain reference.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.half_split import orders
from benchmarks.harness import commit, save, table
from neatrec.cooccurrence import CountOptions
from neatrec.data.baskets import Baskets
from neatrec.data.splits import half, uniform_of_ids
from neatrec.evaluation.cart_completion import (
    Codes,
    HiddenItems,
    answer_hidden,
    completion,
    completion_gains,
    leave_one_out,
)
from neatrec.evaluation.intervals import interval, resampled_means
from neatrec.models import make_model
from neatrec.models.counts import PairCounts
from neatrec.serving.build import save_indexed
from neatrec.serving.query import recommend
from neatrec.serving.table import ServingTable

K = 10
CARTS = 5_000
MODELS = ("ease", "bayes", "naive-bayes", "pop", "popco", "shrunk-lift-tuned", "cf")
EASE_TRIALS = ((20, 500.0), (10, 200.0), (10, 500.0), (10, 1000.0), (5, 200.0), (5, 500.0), (5, 1000.0), (2, 500.0))
"""`min_count` and `regularization`."""
PACKAGES = ("numpy", "scipy", "numba")


class NaiveBayes:
    """log n_v + the sum over the cart of log((C + 5) / (E + 5)), in plain NumPy."""

    def __init__(self, train: Baskets) -> None:
        self.counts = PairCounts.of([train], CountOptions(directed=False))
        self.bought, self.category = train.item_counts, train.catalog.category_of()

    def rank_carts(self, carts: tuple[Codes, ...], k: int) -> list[Codes]:
        return [self._answer(cart, k) for cart in carts]

    def _answer(self, cart: Codes, k: int) -> Codes:
        counts, score = self.counts, np.log(np.maximum(self.bought, 1))
        totals, place = counts.totals
        for query in cart.tolist():
            score -= np.log1p(counts.expected(counts.total[query], totals) / 5.0)[place]
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
        answers = answer_hidden(model, hidden, k=K)
        cost = {"fit_cpu_s": fitted - began, "answer_cpu_ms": 1000 * (time.process_time() - fitted) / len(hidden)}
        learned = model.fit_info().get("cart") if name == "bayes" else None
        yield name, answers, {**{key: round(value, 3) for key, value in cost.items()}, "settings": learned}
        print(name, cost, flush=True)


def claim(carts: int) -> None:
    """Every model once on the test carts."""
    commit()  # better refused now than when all is measured
    split = half(orders(None))
    hidden = leave_one_out(split.train, split.test, carts=carts, smallest=3)
    gains, rows = {}, []
    for name, answers, cost in answers_of(split.train, hidden):
        found = completion(answers, hidden, ks=(K,))
        gains[name] = completion_gains(answers, hidden, (K,))
        measures = {"hr@10": found.hr[K], "ndcg@10": found.ndcg[K], "lift@10": found.lift[K]}
        less = {"less_ease": difference(gains[name], gains["ease"])}  # the first of MODELS
        rows.append({"model": name, **{key: rounded(value) for key, value in measures.items()}, **less, **cost})
        print(shown(rows), flush=True)
        save("cart_completion", {"carts": len(hidden), "models": rows}, (*PACKAGES, "implicit"))


def difference(one: np.ndarray, other: np.ndarray) -> dict[str, list[float]]:
    """HR@10 and NDCG@10 less those of another model, with an interval over carts."""
    low, high = interval(resampled_means(one - other, np.ones(len(one))))
    mean = (one - other).mean(axis=0)
    return {name: rounded((mean[i], low[i], high[i])) for i, name in enumerate(("hr@10", "ndcg@10"))}


def rounded(values: Any) -> list[float]:
    return [round(float(value), 4) for value in values]


def shown(rows: list[dict[str, Any]]) -> str:
    heads = ["hr@10", "ndcg@10", "lift@10"]
    lines = [["model", *heads, "HR less ease", "NDCG less ease", "ms per cart"]]
    for row in rows:
        less = [f"{low:+.4f} to {high:+.4f}" for _, low, high in row["less_ease"].values()]
        lines.append([row["model"], *(f"{row[head][0]:.4f}" for head in heads), *less, f"{row['answer_cpu_ms']:.2f}"])
    return table(lines)


def tune() -> None:
    """Settings of `ease` on carts of the training half: 85 % of its baskets train, the others are completed."""
    train = half(orders(None)).train
    earlier = uniform_of_ids(train.ids, "cart completion") < 0.85
    first, later = train.select(earlier), train.select(~earlier)
    hidden = leave_one_out(first, later, carts=CARTS, smallest=3)
    rows = []
    for min_count, regularization in EASE_TRIALS:
        model = make_model("ease", min_count=min_count, regularization=regularization).fit(first)
        found = completion(answer_hidden(model, hidden, k=K), hidden, ks=(K,))
        settings = {"min_count": min_count, "regularization": regularization, "items": model.fit_info()["items"]}
        rows.append({**settings, "hr@10": rounded(found.hr[K]), "ndcg@10": rounded(found.ndcg[K])})
        print(rows[-1], flush=True)
    save("cart_completion", {"carts": len(hidden), "trials": rows}, PACKAGES, file="cart_tuning", options="--tune")


def speed(items: int = 50_000, size: int = 20, count: int = 200) -> None:
    """CPU milliseconds for carts of `size` of `items` items: `rank`, `rank_carts` per cart, and `recommend` by an open
    bundle, which adds the evidence."""
    from neatrec.simulator import supermarket

    commit()
    baskets = supermarket(baskets=60_000, items=items, seed=0).baskets
    bought = np.flatnonzero(baskets.item_counts)
    rng = np.random.default_rng(0)
    share = baskets.item_counts[bought] / baskets.item_counts.sum()
    carts = [rng.choice(bought, size, replace=False, p=share).astype(np.int32) for _ in range(count)]
    rows = []
    for name in ("ease", "bayes"):
        model = make_model(name, **({"min_count": 20} if name == "ease" else {})).fit(baskets)
        with TemporaryDirectory() as folder:
            # the table is not asked for carts: the approximate one of `bayes` compares fewer items
            save_indexed(model, Path(folder) / "bundle", baskets, seed=0, k=10, ann=name == "bayes")
            index = ServingTable.open(Path(folder) / "bundle")
        row: dict[str, Any] = {"model": name}
        for what, answer in {"rank": model.rank, "recommend": partial(recommend, index)}.items():
            codes = [cart.tolist() for cart in carts]
            answer(codes[0])  # compiles, and reads the model
            row[f"{what}_ms"] = round(float(np.median([_cpu_ms(answer, cart) for cart in codes])), 3)
        model.rank_carts(carts[:2])  # compiles
        row["rank_carts_ms"] = round(_cpu_ms(model.rank_carts, carts) / len(carts), 3)
        rows.append(row)
        print(row, flush=True)
    found = {"items": items, "cart": size, "models": rows}
    save("cart_completion", found, PACKAGES, file="cart_speed", options="--speed")


def _cpu_ms(work: Callable[[Any], Any], argument: Any) -> float:
    began = time.process_time()
    work(argument)
    return 1000 * (time.process_time() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--carts", type=int, default=CARTS)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--speed", action="store_true")
    options = parser.parse_args()
    if options.tune:
        tune()
    elif options.speed:
        speed()
    else:
        claim(options.carts)


if __name__ == "__main__":
    main()
