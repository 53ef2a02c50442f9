"""Do the lifts of labels and answers come true? Estimates from some baskets against counts of
others.

    NEATREC_DATA=FOLDER python -m benchmarks.lift_coverage [PART...] [--save]

Covered means: the count of the other baskets lies in the central 95 % of what the estimate predicts
for it, which has the uncertainty of the lift and the new count's own variation. What is expected by
chance in the other baskets comes from the items' margins there, and those of a rare item, which are
noise, from the margins of both parts. `simulator` compares with the lifts of thirty times as many
baskets of the same shop, as good as known. Markdown comes out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from reproduction.data import JOURNEY_PURCHASES, JOURNEY_WEEKS, only_items, with_one_unknown

from benchmarks.half_split import orders
from benchmarks.harness import argument_parser, save, table
from neatrec.cooccurrence import CountOptions, Margins, count
from neatrec.cooccurrence.counting import CountBook
from neatrec.cooccurrence.expected_counts import fit_expected
from neatrec.cooccurrence.lift_prior import LEAST_COUNT, lift_prior
from neatrec.data.baskets import Baskets
from neatrec.data.splits import half, split_baskets
from neatrec.io import read_baskets
from neatrec.labels import LabelOptions, make_labels
from neatrec.models import Run, make_model, rank_carts
from neatrec.serving import EvidenceTable
from neatrec.simulator import supermarket
from neatrec.statistics import LiftPrior, exact_estimate, quasi_independence

QUERIES, FIRST = 5_000, 10
MODELS = ("shrunk-lift-tuned", "odds")
MOST = 10**9
COUNT_BINS = {
    "2-4": (2, 4),
    "5-9": (5, 9),
    "10-29": (10, 29),
    "30+": (30, MOST),
    "2 and more": (2, MOST),
}
SIMULATED, MANY = 30_000, 900_000
MANY_LINES = 200
"""How much popularity changes is measured on items with at least this many lines."""

Codes = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Estimated:
    """Pairs of one kind with the counts they were estimated from."""

    kind: str
    query: Codes
    item: Codes
    times: Floats
    expected: Floats
    prior: LiftPrior
    counting: CountOptions
    margins: Margins


def estimated(train: Baskets, models: tuple[str, ...]) -> Iterator[Estimated]:
    """The labels of the baskets, and the first ten answers of models to items drawn at random."""
    config = LabelOptions(levels=(0.05,)).resolve(train)
    labels = make_labels(train, levels=(0.05,))
    book = CountBook(train)
    repeated = book.count("all", replace(config.counting, min_count=LEAST_COUNT))
    prior = lift_prior(repeated, book, config.expected)
    if len(labels) and prior is not None:
        once = np.flatnonzero(config.directed | (labels.query < labels.item))
        query, item = labels.query[once], labels.item[once]
        times, margins = labels.count[once].astype(np.float64), repeated.margins
        fit = fit_expected(margins, config.expected)
        expected = fit.of(query, item)
        yield Estimated("labels", query, item, times, expected, prior, config.counting, margins)
    pairs = EvidenceTable.of(train)
    assert pairs.prior is not None
    counting = CountOptions(
        directed=False, category_level=None, once_per_customer=pairs.by_customer
    )
    margins = book.margins("all", counting)
    bought = np.flatnonzero(train.item_counts > 0).astype(np.int32)
    queries = np.random.default_rng(0).permutation(bought)[:QUERIES]
    for name in models:
        model = make_model(name).fit(train, Run(rng=0))
        answers = rank_carts(model, queries[:, None], FIRST)
        query = np.repeat(queries, [len(codes) for codes in answers])
        item = np.concatenate(answers)
        both = np.sort(np.stack([query, item], axis=1), axis=1)
        # items that answer each other are one pair
        smaller, larger = np.unique(both, axis=0).T.copy()
        found = pairs.of_pairs(smaller, larger)
        times = found["customers" if pairs.by_customer else "count"].astype(np.float64)
        expected = pairs.query_factor[smaller] * pairs.item_factor[larger]
        yield Estimated(
            f"answers of {name}", smaller, larger, times, expected, pairs.prior, counting, margins
        )


def rows_of(data: str, part: Estimated, train: Baskets, test: Baskets) -> Iterator[dict[str, Any]]:
    """By count: how many pairs, how many are covered, and the times promised and come."""
    later = count(test, part.counting)
    came = later.values("count", part.query, part.item).astype(np.float64)
    ratio = _margin_ratio(part, later.margins, (train.item_counts, test.item_counts))
    known = (ratio > 0) & (part.expected > 0)
    for seen, (low, high) in COUNT_BINS.items():
        chosen = np.flatnonzero(known & (part.times >= low) & (part.times <= high))
        if not len(chosen):
            continue
        times, expected, new = part.times[chosen], part.expected[chosen], came[chosen]
        chance = expected * ratio[chosen]
        found, raw = part.prior.estimate(times, expected), exact_estimate(times, expected)
        yield {
            "data": data,
            "pairs": part.kind,
            "seen": seen,
            "number": len(chosen),
            "covered": round(float(part.prior.covers(times, expected, new, chance).mean()), 3),
            "came / estimated": round(float(new.sum() / (found.lift * chance).sum()), 3),
            "came / counted": round(float(new.sum() / (raw.lift * chance).sum()), 3),
            "half check": round(part.prior.coverage, 3),
            "drift": round(part.prior.drift, 4),
        }


def _margin_ratio(part: Estimated, later: Margins, lines: tuple[Counts, Counts]) -> Floats:
    """Of each pair: what is expected in the later baskets over what was in these; `lines` of each
    item in both.

    An item's margins in the later baskets are an estimate, and so are the earlier ones: each counts
    by its precision, where the earlier ones are off by what popularity changes, too.
    """
    first = quasi_independence(part.margins.first, part.margins.second, part.margins.category)
    second = quasi_independence(later.first, later.second, later.category)
    before, after = (np.maximum(number, 0.5).astype(np.float64) for number in lines)
    grown = after.sum() / before.sum()
    many = before >= MANY_LINES
    likely = grown * before[many]
    change = max(
        0.0, float((((after[many] - likely) ** 2 - likely * (1 + grown)) / likely**2).mean())
    )
    weight = (1 / before + change) / (1 / before + change + 1 / (grown * before))
    out = np.ones(len(part.query))
    for factor, new, code in (
        (first.query, second.query, part.query),
        (first.item, second.item, part.item),
    ):
        pooled = weight * new + (1 - weight) * factor * (new.sum() / factor.sum())
        out *= np.divide(
            pooled[code], factor[code], out=np.zeros(len(code)), where=factor[code] > 0
        )
    return out


def journey() -> Baskets:
    baskets = read_baskets("complete-journey")
    baskets = only_items(baskets, baskets.item_counts >= JOURNEY_PURCHASES)
    return replace(baskets, catalog=with_one_unknown(baskets.catalog))


def of_customers(baskets: Baskets, seed: int) -> tuple[Baskets, Baskets]:
    """Halves that share no customer."""
    assert baskets.users is not None
    chosen = (np.random.default_rng(seed).random(int(baskets.users.max()) + 1) < 0.5)[baskets.users]
    return baskets.select(chosen), baskets.select(~chosen)


def by_weeks(baskets: Baskets) -> tuple[Baskets, Baskets]:
    week = baskets.attributes["week"]
    early = np.array([int(name) for name in week.names])[week.codes] <= JOURNEY_WEEKS
    return baskets.select(early), baskets.select(~early)


def parts() -> dict[str, Callable[[], tuple[Baskets, Baskets, tuple[str, ...]]]]:
    def of_orders(seed: int) -> tuple[Baskets, Baskets, tuple[str, ...]]:
        split = split_baskets(orders(), "random", seed=seed) if seed else half(orders())
        return split.train, split.test, MODELS[: 1 if seed else None]

    def simulated(seed: int) -> tuple[Baskets, Baskets, tuple[str, ...]]:
        shops = (
            supermarket(baskets=size, items=1_000, seed=seed).baskets for size in (SIMULATED, MANY)
        )
        return (*shops, MODELS)  # type: ignore[return-value]

    return {
        "instacart": lambda: of_orders(0),
        **{f"instacart-{seed}": lambda seed=seed: of_orders(seed) for seed in (1, 2)},
        **{
            f"journey-{seed}": lambda seed=seed: (*of_customers(journey(), seed), MODELS[:1])
            for seed in (1, 2)
        },
        "journey-time": lambda: (*by_weeks(journey()), MODELS[:1]),
        **{f"simulator-{seed}": lambda seed=seed: simulated(seed) for seed in (0, 5)},
    }


def main() -> int:
    parser = argument_parser(__doc__)
    known = parts()
    parser.add_argument(
        "parts", nargs="*", choices=[*known, []], metavar="PART", help=", ".join(known)
    )
    parser.add_argument(
        "--save", action="store_true", help="keep a record of each part under benchmarks/results"
    )
    asked = parser.parse_args()
    for name in asked.parts or known:
        train, test, models = known[name]()
        rows = [
            row for part in estimated(train, models) for row in rows_of(name, part, train, test)
        ]
        cells = [[str(value) for value in row.values()] for row in rows]
        print(table([list(rows[0]), *cells]), flush=True)
        if asked.save:
            file, options = f"lift_coverage_{name.replace('-', '_')}", f"{name} --save"
            packages = ("numpy", "scipy", "numba")
            save("lift_coverage", {"rows": rows}, packages, file=file, options=options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
