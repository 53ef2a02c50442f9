"""Does a half-life help where complements change, does it harm where they do not, and do tests stay calibrated?

    python -m benchmarks.recency [--only PART ...] [--save]

changing: simulated shops whose complements all change in the middle of the year, tested on the last 30 days: on their
labels, and on all complements of the second half of the year, which the simulator knows. journey: Complete Journey,
weeks 43 on. Half-lives are chosen on the end of the training baskets, a period as long as the test (journey: also on 30
days): HR@10 among all items over calibrated labels at 0.05 (journey, whose months give none: 200 candidates, the
paper's labels); the choice is then compared with none, with the interval of the ratio, resampling queries.
copies: in how many copies weights are counted (1: baskets are drawn at random), on the validation days of that shop.
null: labels by chance of shuffled baskets, by half-life.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.bayes_validation import K, sums_by_query
from benchmarks.harness import save, table
from neatrec.cooccurrence import recency
from neatrec.cooccurrence.recency import DAY
from neatrec.data.baskets import Baskets
from neatrec.evaluation.intervals import interval, resampled_means
from neatrec.evaluation.ranks import rank_labels
from neatrec.evaluation.task import build_task
from neatrec.labels import LabelOptions, make_labels
from neatrec.labels.make import run_labels
from neatrec.models import Model, Run, make_model
from neatrec.reproduction.data import read_complete_journey
from neatrec.simulator import PlantedTruth, supermarket

LEVEL = 0.05
HALF_LIVES = (None, 45.0, 90.0, 180.0)
NULL_HALF_LIVES = (None, 14.0, 30.0, 90.0, 365.0)
SEEDS = (301, 302, 303)
STATISTIC = "shrunk-lift-tuned"
MODELS = ("bayes", STATISTIC, "llr")
BASKETS, ITEMS = 120_000, 1_000
ROUNDS = 5
Shop = tuple[Baskets, Baskets, PlantedTruth | None]


def last_days(baskets: Baskets, days: int = 30) -> tuple[Baskets, Baskets]:
    """Before and in the last days."""
    times = np.asarray(baskets.times)
    late = times >= times.max() - days * DAY
    return baskets.select(~late), baskets.select(late)


def hits(
    train: Baskets,
    test: Baskets,
    model: str,
    half_lives: Sequence[float | None],
    protocol: str = "calibrated",
    truth: PlantedTruth | None = None,
) -> dict[Any, Any]:
    """Of each half-life, and of each candidate set, hits, gains and labels by query, shape (queries, 3); with a `truth`
    also hits of what really goes together, labelled or not."""
    labels = make_labels(test, protocol=protocol, levels=(LEVEL,))
    task = build_task(train, test, labels, queries=0, carts=0)
    among: dict[str, Any] = {"top200": task.candidate_set, "catalogue": task.catalogue}
    if protocol == "paper":  # whose labels are too many to rank every item for
        del among["catalogue"]
    found = {}
    for half_life in half_lives:
        fitted = make_model(model, {"half_life": half_life, "strata": "month"}).fit(train, Run(rng=0))
        ranks = {name: rank_labels(fitted, candidates, task.label_queries) for name, candidates in among.items()}
        found[half_life] = {name: sums_by_query(of, task, LEVEL) for name, of in ranks.items()}
        if truth is not None:
            found[half_life]["planted"] = planted_hits(fitted, truth)
    return found


def planted_hits(model: Model, truth: PlantedTruth) -> Any:
    """Planted complements among the first ten answers, of each item that has some; the columns of `hits`."""
    query, item = np.concatenate([truth.query, truth.item]), np.concatenate([truth.item, truth.query])
    partners: dict[int, set[int]] = {}
    for one, other in zip(query.tolist(), item.tolist(), strict=True):
        partners.setdefault(one, set()).add(other)
    answers = model.rank_carts([np.array([one], np.int32) for one in partners], K)
    rows = zip(answers, partners.values(), strict=True)
    return np.array([(len(others & set(codes.tolist())), 0.0, len(others)) for codes, others in rows])


def rate(sums: Any) -> float:
    return round(float(sums[:, 0].sum() / sums[:, 2].sum()), 4)


def chosen(train: Baskets, days: int, model: str, protocol: str) -> tuple[float | None, dict[str, float]]:
    """The half-life with the highest HR@10 on the last days of the training baskets, and that of all."""
    found = hits(*last_days(train, days), model, HALF_LIVES, protocol)
    rates = {half_life: rate(of.get("catalogue", of["top200"])) for half_life, of in found.items()}
    return max(rates, key=lambda half_life: rates[half_life]), {str(name): value for name, value in rates.items()}


def compare(shops: Iterable[Shop], model: str, protocol: str = "calibrated", days: int | None = None) -> dict[str, Any]:
    """The half-life chosen on the last days before the test (None: as many as the test has) beside none, on the test
    baskets of all shops together."""
    how: list[dict[str, Any]] = []
    found: dict[str, list[Any]] = {}
    for train, test, truth in shops:
        length = round(float(np.ptp(np.asarray(test.times))) / DAY) if days is None else days
        best, rates = chosen(train, length, model, protocol)
        how.append({"validation_days": length, "chosen_days": best, "validation": rates})
        of = hits(train, test, model, tuple(dict.fromkeys((None, best))), protocol, truth)
        for name, none in of[None].items():
            found.setdefault(name, []).append(np.concatenate([none, of[best][name]], axis=1))
    out: dict[str, Any] = {"model": model, "protocol": protocol, "choices": how}
    for name, parts in found.items():
        none, one = np.split(np.concatenate(parts), 2, axis=1)
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
        if name == "planted":
            out[name]["ceiling"] = round(float(np.minimum(none[:, 2], K).sum() / none[:, 2].sum()), 4)
    return out


def changing_shops() -> Iterator[Shop]:
    for seed in SEEDS:
        market = supermarket(BASKETS, ITEMS, changes=1, seed=seed)
        yield *last_days(market.baskets), market.truth


def changing() -> list[dict[str, Any]]:
    return [compare(changing_shops(), model) for model in MODELS]


def journey() -> list[dict[str, Any]]:
    data = read_complete_journey((LEVEL,))
    return [compare([(data.train, data.test, None)], model, "paper", days) for model in MODELS for days in (None, 30)]


def copies() -> list[dict[str, Any]]:
    train, _ = last_days(supermarket(BASKETS, ITEMS, changes=1, seed=SEEDS[0]).baskets)
    out, in_use = [], recency.COPIES
    for number in (1, in_use, 2 * in_use):
        recency.COPIES = number
        found = hits(*last_days(train), STATISTIC, (90.0,))
        out.append({"copies": number, **{f"{days:g}d": rate(of["catalogue"]) for days, of in found.items()}})
    recency.COPIES = in_use
    return out


def null() -> list[dict[str, Any]]:
    baskets, out = supermarket(20_000, 300, seed=SEEDS[0]).baskets, []
    for half_life in NULL_HALF_LIVES:
        run = run_labels(baskets, LabelOptions(levels=(LEVEL, 0.01), half_life=half_life), null_rounds=ROUNDS)
        assert run.null is not None
        chance = {f"by_chance_{level:g}": float(np.mean(run.null.labels[level])) for level in run.labels.levels}
        rates = {f"fdr_{level:g}": round(run.null.fdr[level], 5) for level in run.labels.levels}
        out.append({"half_life_days": half_life, "labels": len(run.labels), **chance, **rates})
    return out


PARTS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "changing": changing,
    "null": null,
    "copies": copies,
    "journey": journey,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--save", action="store_true")
    asked = parser.parse_args()
    results = {}
    for name in asked.only:
        results[name] = PARTS[name]()
        keys = list(results[name][0])
        print(f"\n{name}\n{table([keys, *([str(row[key]) for key in keys] for row in results[name])])}", flush=True)
        if asked.save:
            record = {"file": f"recency-{name}", "options": f"--only {name} --save"}
            save("recency", {name: results[name]}, ("numpy", "numba", "scipy"), **record)


if __name__ == "__main__":
    main()
