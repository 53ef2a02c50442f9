"""Label protocols against the truth of the simulated supermarket."""

from __future__ import annotations

from typing import Any

from benchmarks.harness import save, table
from neatrec.labels import make_labels
from neatrec.simulator import TRAP_NAMES, supermarket


def labels_against_truth() -> list[list[Any]]:
    market = supermarket()
    truth = market.truth
    scores = ["labels", "right", "precision", "recall"]
    rows: list[list[Any]] = [
        ["protocol", "strata", "level", *scores, *TRAP_NAMES, "other mistakes"]
    ]
    every = ("basket_size", "month", "store")
    within = [(), *((one,) for one in every), every]
    for protocol, strata in [("paper", ()), *(("calibrated", some) for some in within)]:
        labels = make_labels(market.baskets, protocol=protocol, strata=strata)
        for level in labels.levels if len(strata) != 1 else labels.levels[:1]:
            chosen = labels.at(level)
            query, item = labels.query[chosen], labels.item[chosen]
            right = int(truth.is_complement(query, item).sum())
            traps = [int(truth.is_trap(query, item, trap).sum()) for trap in TRAP_NAMES]
            shares = [f"{right / len(query):.3f}", f"{right / len(truth.query):.3f}"]
            counts = [*traps, len(query) - right - sum(traps)]
            rows.append(
                [protocol, ", ".join(strata) or "none", level, len(query), right, *shares, *counts]
            )
    return rows


def main() -> None:
    rows = labels_against_truth()
    print(table([[str(cell) for cell in row] for row in rows]))
    save("simulator_fidelity", {"rows": rows}, ("numpy", "numba"), file="simulator_labels")


if __name__ == "__main__":
    main()
