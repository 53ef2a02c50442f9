"""Does the default of `bayes` lose to a simple statistic anywhere? Shops of many kinds, both protocols.

    NEATREC_DATA=FOLDER python -m benchmarks.no_regret [--only NAME ...] [--save]

For each shop the default goal is compared with lift, shrunk lift of every strength that `shrunk-lift-tuned` tries,
`shrunk-lift-tuned` itself, llr, jaccard and the co-purchase count: HR@10 and NDCG@10 over the labels of the test
baskets at 0.05, by both protocols, on 200 candidates; with calibrated labels all rank within month and store where
baskets have them, as `leaderboard` lets them. A loss is a paired 95 % interval of the difference,
resampling queries, that lies below zero; of so many comparisons some lie there by chance. Simulated shops have seeds
that nothing was developed on. Markdown comes out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from benchmarks.bayes_validation import sums_by_query
from benchmarks.half_split import orders
from benchmarks.harness import save
from neatrec.cooccurrence.strata import SIZE, usable_strata
from neatrec.data.baskets import Baskets
from neatrec.data.splits import half, split_baskets
from neatrec.evaluation.intervals import interval, resampled_means
from neatrec.evaluation.ranks import rank_labels
from neatrec.evaluation.task import build_task
from neatrec.labels import make_labels
from neatrec.models import Model, Run, make_model
from neatrec.models.bayes import GOALS
from neatrec.models.bayes.ranker import STATISTICS
from neatrec.reproduction.data import JOURNEY_WEEKS, read_complete_journey
from neatrec.simulator import supermarket
from neatrec.training.train import ranked_within

LEVEL = 0.05
SMALL = 3_000
Parts = tuple[Baskets, Baskets]


def simulated(baskets: int, items: int, seed: int, change: Callable[[Baskets], Baskets] | None = None) -> Parts:
    whole = supermarket(baskets=baskets, items=items, seed=seed).baskets
    split = split_baskets(whole if change is None else change(whole), "random", seed=seed)
    return split.train, split.test


def without(*columns: str) -> Callable[[Baskets], Baskets]:
    """The baskets with a catalogue that knows no names, or no categories."""
    empty: dict[str, dict[str, Any]] = {
        "names": {"names": None},
        "categories": {"levels": (), "categories": None, "category_names": ()},
    }
    fields = {key: value for column in columns for key, value in empty[column].items()}
    return lambda baskets: replace(baskets, catalog=replace(baskets.catalog, **fields))


def first_lines(baskets: Baskets, size: int = 3) -> Baskets:
    """The first lines of each basket."""
    kept = np.arange(baskets.lines) - baskets.offsets[baskets.basket_of_line] < size
    return replace(baskets, items=baskets.items[kept], offsets=np.concatenate([[0], np.cumsum(kept)])[baskets.offsets])


def joined(baskets: Baskets, size: int = 80) -> Baskets:
    """Baskets that follow each other, joined until they hold `size` different items."""
    items: list[int] = []
    offsets, first, cart = [0], [0], dict[int, None]()
    for number in range(len(baskets)):
        cart |= dict.fromkeys(baskets.items[baskets.offsets[number] : baskets.offsets[number + 1]].tolist())
        if len(cart) >= size:
            items += cart
            offsets.append(len(items))
            first.append(number + 1)
            cart = {}
    some = baskets.select(np.array(first[:-1]))
    return replace(some, items=np.array(items), offsets=np.array(offsets), users=None, user_ids=None)


@cache
def journey() -> Parts:
    found = read_complete_journey((LEVEL,))
    return found.train, found.test


def small_journey() -> Parts:
    """Of Complete Journey as many baskets as a small shop has, split at the same week."""
    train, test = journey()
    share = SMALL / (len(train) + len(test))
    rng = np.random.default_rng(1)
    chosen = [part.select(np.sort(rng.permutation(len(part))[: round(share * len(part))])) for part in (train, test)]
    return chosen[0], chosen[1]


def half_of_instacart() -> Parts:
    split = half(orders(None))
    return split.train, split.test


SHOPS: dict[str, Callable[[], Parts]] = {
    "simulated, 5,000 baskets": lambda: simulated(5_000, 1_000, 701),
    "simulated, 20,000 baskets": lambda: simulated(20_000, 3_000, 702),
    "simulated, 100,000 baskets": lambda: simulated(100_000, 5_000, 703),
    "simulated, no categories": lambda: simulated(40_000, 2_000, 704, without("categories")),
    "simulated, no names": lambda: simulated(40_000, 2_000, 705, without("names")),
    "simulated, baskets of 3 lines": lambda: simulated(60_000, 1_000, 706, first_lines),
    "simulated, baskets of 80 lines": lambda: simulated(60_000, 2_000, 707, joined),
    "simulated, 200 items": lambda: simulated(20_000, 200, 708),
    "simulated, 50,000 items": lambda: simulated(60_000, 50_000, 709),
    "Instacart, half-split": half_of_instacart,
    f"Complete Journey, week {JOURNEY_WEEKS}": journey,
    f"Complete Journey, {SMALL:,} baskets": small_journey,
}


def fitted(train: Baskets, strata: tuple[str, ...]) -> dict[str, Model]:
    """The default and the statistics, within the strata that `leaderboard` would give them."""
    settings = {"bayes": ("bayes", {})} | {one.title: (one.name, one.settings()) for one in STATISTICS}
    settings["shrunk-lift-tuned"] = "shrunk-lift-tuned", {}
    made = {title: make_model(name, given) for title, (name, given) in settings.items()}
    return {
        title: type(one)(ranked_within(one.parameters, strata)).fit(train, Run(rng=0)) for title, one in made.items()
    }


def compare(train: Baskets, test: Baskets) -> dict[str, Any]:
    """What the default does beside each statistic: paper labels over all baskets, calibrated labels within strata."""
    strata = {"paper": (), "calibrated": usable_strata([train], None)[0]}
    out: dict[str, Any] = {"boards": []}
    # the protocols' five lines per basket would leave no label where baskets are shorter
    min_basket = min(5, max(2, int(np.median(test.sizes)) - 1))
    models: dict[str, Model] = {}
    for protocol in ("paper", "calibrated"):
        if not models or set(strata[protocol]) - {SIZE}:
            models = fitted(train, strata[protocol])
        info = models["bayes"].fit_info()["goals"][GOALS[0]]
        default = {key: value for key, value in info.items() if key != "weights"}
        labels = make_labels(test, protocol=protocol, levels=(LEVEL,), min_basket=min_basket)
        if not len(labels):
            out["boards"].append({"protocol": protocol, "default": default, "labels": 0})
            continue
        task = build_task(train, test, labels, queries=0, carts=0)
        sums = {
            name: sums_by_query(rank_labels(model, task.candidate_set, task.label_queries), task, LEVEL)
            for name, model in models.items()
        }
        out["boards"].append({"protocol": protocol, "default": default, **board(sums)})
    return out


def board(sums: dict[str, Any]) -> dict[str, Any]:
    """`sums`: hits, gains and labels of each query by model, (queries, 3)."""
    count, mine = sums["bayes"][:, 2], sums["bayes"][:, :2]
    means = {name: (of[:, :2].sum(axis=0) / count.sum()).round(4).tolist() for name, of in sums.items()}
    others = [name for name in sums if name != "bayes"]
    best = max(others, key=lambda name: sum(means[name]))
    ends = {name: interval(resampled_means(mine - sums[name][:, :2], count)) for name in others}
    return {
        "labels": int(count.sum()),
        "best": best,
        "bayes": means["bayes"],
        "best_statistic": means[best],
        "difference": [[round(float(end[m]), 4) for end in ends[best]] for m in (0, 1)],
        "losses": [name for name in others if (ends[name][1] < 0).any()],
    }


def show(name: str, found: dict[str, Any]) -> None:
    for one in found["boards"]:
        if not one["labels"]:
            print(f"| {name} | {one['protocol']} | 0 | | | | | | |", flush=True)
            continue
        numbers = [f"{hr:.3f} / {gain:.3f}" for hr, gain in (one["bayes"], one["best_statistic"])]
        ends = [f"{low:+.3f} to {high:+.3f}" for low, high in one["difference"]]
        cells = (one["protocol"], one["labels"], numbers[0], one["best"], numbers[1], *ends)
        print(f"| {name} | " + " | ".join(str(cell) for cell in cells) + f" | {', '.join(one['losses'])} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(SHOPS), metavar="NAME", help=", ".join(SHOPS))
    parser.add_argument("--save", action="store_true", help="keep the record under benchmarks/results")
    asked = parser.parse_args()
    print("| shop | protocol | labels | bayes | best statistic | its numbers | HR | NDCG | losses |")
    print("|---" * 9 + "|")
    record = {}
    for name in asked.only or SHOPS:
        record[name] = compare(*SHOPS[name]())
        show(name, record[name])
        if asked.save:  # after each shop: it takes long
            save("no_regret", record, ("numpy", "scipy", "numba"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
