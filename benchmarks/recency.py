"""Does a half-life help where complements change, does it harm where they do not, and do tests stay calibrated?

    python -m benchmarks.recency [--only PART ...] [--model NAME] [--save]

changing: a simulated shop whose complements change in the middle of the year, tested on the last 30 days. journey:
Complete Journey, weeks 43 on. Half-lives are chosen on the end of the training baskets, a period as long as the test:
HR@10 among all items over calibrated labels at 0.05 (journey, whose months give none: 200 candidates, the paper's
labels); the choice is then compared with none, on the labels of the test baskets, with the interval of the ratio,
resampling queries.
copies: in how many copies weights are counted (1: baskets are drawn at random), on the validation days of that shop.
null: labels by chance of shuffled baskets, by half-life.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.bayes_validation import sums_by_query
from benchmarks.harness import save, table
from neatrec.cooccurrence import recency
from neatrec.cooccurrence.recency import DAY
from neatrec.data.baskets import Baskets
from neatrec.evaluation.intervals import interval, resampled_means
from neatrec.evaluation.ranks import rank_labels
from neatrec.evaluation.task import build_task
from neatrec.labels import LabelOptions, make_labels
from neatrec.labels.make import run_labels
from neatrec.models import Run, make_model
from neatrec.reproduction.data import read_complete_journey
from neatrec.simulator import supermarket

LEVEL = 0.05
HALF_LIVES = (None, 45.0, 90.0, 180.0)
NULL_HALF_LIVES = (None, 14.0, 30.0, 90.0, 365.0)
SEEDS = (301,)
BASKETS, ITEMS = 120_000, 1_000
ROUNDS = 5
Parts = tuple[Baskets, Baskets]


def last_days(baskets: Baskets, days: int = 30) -> Parts:
    """Before and in the last days."""
    times = np.asarray(baskets.times)
    late = times >= times.max() - days * DAY
    return baskets.select(~late), baskets.select(late)


def hits(
    train: Baskets, test: Baskets, model: str, half_lives: tuple[float | None, ...], protocol: str = "calibrated"
) -> dict[Any, Any]:
    """Of each half-life, and of each candidate set, hits, gains and labels by query, shape (queries, 3)."""
    labels = make_labels(test, protocol=protocol, levels=(LEVEL,))
    task = build_task(train, test, labels, queries=0, carts=0)
    among = {"top200": task.candidate_set, "catalogue": task.catalogue}
    if protocol == "paper":  # whose labels are too many to rank every item for
        del among["catalogue"]
    found = {}
    for half_life in half_lives:
        fitted = make_model(model, {"half_life": half_life, "strata": "month"}).fit(train, Run(rng=0))
        ranks = {name: rank_labels(fitted, candidates, task.label_queries) for name, candidates in among.items()}
        found[half_life] = {name: sums_by_query(of, task, LEVEL) for name, of in ranks.items()}
    return found


def rate(sums: Any) -> float:
    return round(float(sums[:, 0].sum() / sums[:, 2].sum()), 4)


def chosen(train: Baskets, days: int, model: str, protocol: str) -> tuple[float | None, dict[str, float]]:
    """The half-life with the highest HR@10 on the last days of the training baskets, and that of all."""
    found = hits(*last_days(train, days), model, HALF_LIVES, protocol)
    rates = {half_life: rate(of.get("catalogue", of["top200"])) for half_life, of in found.items()}
    return max(rates, key=lambda half_life: rates[half_life]), {str(name): value for name, value in rates.items()}


def compare(train: Baskets, test: Baskets, model: str, protocol: str = "calibrated") -> dict[str, Any]:
    """The half-life chosen on validation beside none, on the test baskets."""
    days = round(float(np.ptp(test.times)) / DAY)
    best, rates = chosen(train, days, model, protocol)
    out: dict[str, Any] = {
        "model": model,
        "protocol": protocol,
        "validation_days": days,
        "chosen_days": best,
        "validation": rates,
    }
    found = hits(train, test, model, tuple(dict.fromkeys((None, best))), protocol)
    for name, none in found[None].items():
        one = found[best][name]
        both = resampled_means(np.stack([none[:, 0], one[:, 0]], axis=1), none[:, 2])
        low, high = interval(both[:, 1:] / both[:, :1])
        out[name] = {
            "labels": int(none[:, 2].sum()),
            "none": rate(none),
            "weighted": rate(one),
            "ratio": round(rate(one) / rate(none), 3),
            "low": round(float(low[0]), 3),
            "high": round(float(high[0]), 3),
        }
    return out


def changing(model: str) -> list[dict[str, Any]]:
    shops = (supermarket(BASKETS, ITEMS, changes=1, seed=seed).baskets for seed in SEEDS)
    return [{"seed": seed, **compare(*last_days(shop), model)} for seed, shop in zip(SEEDS, shops, strict=True)]


def journey(model: str) -> list[dict[str, Any]]:
    data = read_complete_journey((LEVEL,))
    return [compare(data.train, data.test, model, "paper")]


def copies(model: str) -> list[dict[str, Any]]:
    train, _ = last_days(supermarket(BASKETS, ITEMS, changes=1, seed=SEEDS[0]).baskets)
    out, in_use = [], recency.COPIES
    for number in (1, in_use, 2 * in_use):
        recency.COPIES = number
        found = hits(*last_days(train), model, (90.0,))
        out.append({"copies": number, **{f"{days:g}d": rate(of["catalogue"]) for days, of in found.items()}})
    recency.COPIES = in_use
    return out


def null(_: str) -> list[dict[str, Any]]:
    baskets, out = supermarket(20_000, 300, seed=SEEDS[0]).baskets, []
    for half_life in NULL_HALF_LIVES:
        run = run_labels(baskets, LabelOptions(levels=(LEVEL, 0.01), half_life=half_life), null_rounds=ROUNDS)
        assert run.null is not None
        chance = {f"by_chance_{level:g}": float(np.mean(run.null.labels[level])) for level in run.labels.levels}
        rates = {f"fdr_{level:g}": round(run.null.fdr[level], 5) for level in run.labels.levels}
        out.append({"half_life_days": half_life, "labels": len(run.labels), **chance, **rates})
    return out


PARTS: dict[str, Callable[[str], list[dict[str, Any]]]] = {
    "changing": changing,
    "null": null,
    "copies": copies,
    "journey": journey,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--model", default="shrunk-lift-tuned")
    parser.add_argument("--save", action="store_true")
    asked = parser.parse_args()
    results = {}
    for name in asked.only:
        results[name] = PARTS[name](asked.model)
        keys = list(results[name][0])
        print(f"\n{name}\n{table([keys, *([str(row[key]) for key in keys] for row in results[name])])}", flush=True)
        if asked.save:
            record = {"file": f"recency-{name}", "options": f"--only {name} --save"}
            save("recency", {name: results[name]}, ("numpy", "numba", "scipy"), **record)


if __name__ == "__main__":
    main()
