"""Does the default ranking lose to a simple statistic anywhere? Shops of many kinds, both
protocols.

    NEATREC_DATA=FOLDER python -m benchmarks.no_regret [--only NAME ...] [--save]

For each shop the default is compared with the statistic that is best on its test labels: HR@10 and
NDCG@10 at 0.05 among 200 candidates, by both protocols, over all baskets. A loss is a paired 95 %
interval of the difference, resampling queries, below zero; of so many comparisons some lie there by
chance. Simulated shops have seeds that nothing was developed on. Markdown comes out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from reproduction.data import JOURNEY_WEEKS, read_complete_journey

from benchmarks.half_split import orders
from benchmarks.harness import argument_parser, save
from benchmarks.odds_claim import PROTOCOLS, board, fitted
from neatrec.data.baskets import Baskets
from neatrec.data.splits import half, split_baskets
from neatrec.simulator import supermarket

LEVEL = 0.05
SMALL = 3_000
Parts = tuple[Baskets, Baskets]


def simulated(
    baskets: int, items: int, seed: int, change: Callable[[Baskets], Baskets] | None = None
) -> Parts:
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
    return replace(
        baskets,
        items=baskets.items[kept],
        offsets=np.concatenate([[0], np.cumsum(kept)])[baskets.offsets],
    )


def joined(baskets: Baskets, size: int = 80) -> Baskets:
    """Baskets that follow each other, joined until they hold `size` different items."""
    items: list[int] = []
    offsets, first, cart = [0], [0], dict[int, None]()
    for number in range(len(baskets)):
        cart |= dict.fromkeys(
            baskets.items[baskets.offsets[number] : baskets.offsets[number + 1]].tolist()
        )
        if len(cart) >= size:
            items += cart
            offsets.append(len(items))
            first.append(number + 1)
            cart = {}
    some = baskets.select(np.array(first[:-1]))
    return replace(
        some, items=np.array(items), offsets=np.array(offsets), users=None, user_ids=None
    )


@cache
def journey() -> Parts:
    found = read_complete_journey((LEVEL,))
    return found.train, found.test


def small_journey() -> Parts:
    """Of Complete Journey as many baskets as a small shop has, split at the same week."""
    train, test = journey()
    share = SMALL / (len(train) + len(test))
    rng = np.random.default_rng(1)
    chosen = [
        part.select(np.sort(rng.permutation(len(part))[: round(share * len(part))]))
        for part in (train, test)
    ]
    return chosen[0], chosen[1]


def half_of_instacart() -> Parts:
    split = half(orders())
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


def compare(train: Baskets, test: Baskets) -> list[dict[str, Any]]:
    """The default beside the statistics by each protocol, over all baskets."""
    # the protocols' five lines per basket would leave no label where baskets are shorter
    min_basket = min(5, max(2, int(np.median(test.sizes)) - 1))
    models = {name: model for name, model in fitted(train).items() if "@" not in name}
    return [
        {"protocol": protocol, **board(models, train, test, protocol, min_basket)}
        for protocol in PROTOCOLS
    ]


def show(name: str, found: list[dict[str, Any]]) -> None:
    for one in found:
        if not one["labels"]:
            print(f"| {name} | {one['protocol']} | 0 | | | | | |", flush=True)
            continue
        means, best = one["hr@10, ndcg@10"], one["best"]
        numbers = [f"{hr:.3f} / {gain:.3f}" for hr, gain in (means["odds"], means[best])]
        ends = [f"{low:+.3f} to {high:+.3f}" for low, high in one["less_best"]["odds"]]
        cells = (one["protocol"], one["labels"], numbers[0], best, numbers[1], *ends)
        print(f"| {name} | {' | '.join(map(str, cells))} |", flush=True)


def main() -> int:
    parser = argument_parser(__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=list(SHOPS), metavar="NAME", help=", ".join(SHOPS)
    )
    parser.add_argument(
        "--save", action="store_true", help="keep the record under benchmarks/results"
    )
    asked = parser.parse_args()
    print("| shop | protocol | labels | odds | best statistic | its numbers | HR | NDCG |")
    print("|---" * 8 + "|")
    record = {}
    for name in asked.only or SHOPS:
        record[name] = compare(*SHOPS[name]())
        show(name, record[name])
        if asked.save:  # after each shop: it takes long
            save("no_regret", record, ("numpy", "scipy", "numba"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
