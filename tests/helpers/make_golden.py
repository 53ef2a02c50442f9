"""Writes the golden bundles of the present format: `PYTHONPATH=tests python -m helpers.make_golden NAME...`.

They are written once for each format version and never again: that they still load is the point.
"""

import json
import sys
from pathlib import Path

from helpers.toyshop import toy_baskets
from neatrec.bundle import save_bundle
from neatrec.bundle.manifest import FORMAT
from neatrec.models import Run, make_model

GOLDEN = Path(__file__).parents[1] / "bundle" / f"golden-v{FORMAT}"
QUERIES = ("Tea", "Pasta", ["Bread", "Soap"])


def main(names: list[str]) -> None:
    baskets = toy_baskets(200)
    for name in names:
        settings = {"dim": 4, "epochs": 3} if hasattr(make_model(name).parameters, "dim") else {}
        model = make_model(name, settings).fit(baskets, Run(rng=1, device="cpu", threads=1, reproducible=True))
        folder = GOLDEN / name
        save_bundle(model, folder, baskets_hash=baskets.hash, seed=1, keep_users=name == "cf")
        answers = [model.rank(query, 4).to_dict()["recommendations"] for query in QUERIES]
        short = [[[line["id"], line["score"]] for line in answer] for answer in answers]
        (GOLDEN / f"{name}.answers.json").write_text(json.dumps(short, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
