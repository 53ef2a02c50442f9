"""Calibrated labels of simulated supermarkets by the strata in use, and by every combination of size, month and store.

    python -m benchmarks.label_strata [--save]

Precision and recall against the planted complements of four shops. `as many`: the strongest labels by the strata in
use, as many as the combinations give, so that both are compared at one number of labels.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from benchmarks.harness import save, table
from neatrec.cooccurrence import count
from neatrec.cooccurrence.expected_counts import fit_strata
from neatrec.cooccurrence.strata import strata_of, stratum_margins
from neatrec.labels import LabelOptions
from neatrec.labels.calibrated import CalibratedTest
from neatrec.labels.record import score_against
from neatrec.simulator import Supermarket, supermarket

SEEDS = (0, 1, 2, 3)
LEVEL = 0.05
WAYS = {"crossed": "combinations", "default": "in use", "as many": "as many in use"}


def labels_of(market: Supermarket) -> dict[str, dict[str, float]]:
    """By each of WAYS the number of labels, precision and recall."""
    baskets = market.baskets
    config = LabelOptions(levels=(LEVEL,)).resolve(baskets)
    cells = stratum_margins(baskets, strata_of(baskets, config.strata or ()), config.counting)
    category = config.counting.category_of(baskets.catalog)
    crossed = CalibratedTest(
        config.levels,
        directed=config.directed,
        fit=lambda _: fit_strata(cells, category, config.expected, directed=config.directed),
    )
    tests = {
        "default": config.test_pairs(baskets, {}),
        "crossed": (crossed, crossed.test(count(baskets, config.counting, keep=crossed))),
    }
    found = {}
    for name, (tester, tested) in tests.items():
        labels = np.flatnonzero(tester.passes(tested, tester.thresholds(tested, config.levels)[LEVEL]))
        found[name] = tested.pairs, labels[np.argsort(tested.p[labels], kind="stable")]
    pairs, labels = found["default"]
    found["as many"] = pairs, labels[: len(found["crossed"][1])]
    scores = {}
    for name, (pairs, chosen) in found.items():
        score = score_against(market.truth, pairs.query[chosen], pairs.item[chosen], directed=True)
        scores[name] = {"labels": len(chosen), "precision": round(score.precision, 4), "recall": round(score.recall, 4)}
    return scores


def rows_of(shops: dict[str, Any]) -> list[list[str]]:
    rows = [["seed", *(f"{name}: {what}" for name in WAYS.values() for what in ("labels", "precision", "recall"))]]
    for seed, found in shops.items():
        each = (found[way] for way in WAYS)
        cells = ([f"{one['labels']:,}", f"{one['precision']:.3f}", f"{one['recall']:.3f}"] for one in each)
        rows.append([seed, *(cell for part in cells for cell in part)])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", action="store_true", help="write results/label_strata.json")
    asked = parser.parse_args()
    shops = {str(seed): labels_of(supermarket(seed=seed)) for seed in SEEDS}
    print(table(rows_of(shops)))
    if asked.save:
        save("label_strata", {"shops": shops}, ("numpy", "scipy", "numba"), options="--save")


if __name__ == "__main__":
    main()
