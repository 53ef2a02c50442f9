"""How many labels each protocol makes of the Instacart train orders, and how many of shuffled
orders.

    python -m benchmarks.label_counts [--rounds 3]

Written to results/label_counts.json; docs/explanation/labels.md shows it. Needs NEATREC_DATA.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import argument_parser, data_folder, save, table
from neatrec.io import read_baskets
from neatrec.labels import Labels, make_labels, shuffle_null

VARIANTS: dict[str, dict[str, Any]] = {
    "`paper`": {"protocol": "paper"},
    "`calibrated`": {"protocol": "calibrated"},
    '`calibrated`, `expected="product"`': {"protocol": "calibrated", "expected": "product"},
    '`calibrated`, `strata=("basket_size",)`': {
        "protocol": "calibrated",
        "strata": ("basket_size",),
    },
}
NULLS = {
    "`paper`": ("`paper`", "none"),
    "`paper`, within size and position": ("`paper`", "size+position"),
    "`calibrated`": ("`calibrated`", "none"),
}


def shared(first: Labels, second: Labels, level: float) -> int:
    """Labels that both have at a level."""
    pairs = [labels.query.astype(np.int64) << 32 | labels.item for labels in (first, second)]
    return len(np.intersect1d(pairs[0][first.at(level)], pairs[1][second.at(level)]))


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    baskets = read_baskets(str(data_folder("instacart", [])))
    made = {name: make_labels(baskets, **options) for name, options in VARIANTS.items()}
    levels = made["`paper`"].levels
    counts = {
        name: [int(labels.at(level).sum()) for level in levels] for name, labels in made.items()
    }
    counts["in both"] = [shared(made["`paper`"], made["`calibrated`"], level) for level in levels]
    chance = {}
    for name, (labels, within) in NULLS.items():
        null = shuffle_null(baskets, made[labels], rounds, within=within)
        chance[name] = [
            {"labels": [int(n) for n in null.labels[x]], "fdr": null.fdr[x]} for x in levels
        ]
    rows = [
        ["labels", *map(str, levels)],
        *([name, *map(str, found)] for name, found in counts.items()),
    ]
    rows += [
        [f"by chance, {name}", *(str(part["labels"]) for part in found)]
        for name, found in chance.items()
    ]
    print(table(rows))
    save(
        "label_counts",
        {"levels": levels, "labels": counts, "by chance": chance},
        ("numpy", "scipy"),
    )


if __name__ == "__main__":
    main()
