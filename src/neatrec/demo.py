"""`neatrec demo`: the main task on a simulated supermarket, whose complements are known."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from neatrec.leaderboard import Leaderboard, LeaderboardOptions
from neatrec.models import Run, make_model
from neatrec.report.make import PAGE, make_report
from neatrec.serving import Evidence, PairTable, save_indexed
from neatrec.serving.pair_list import PairList
from neatrec.simulator import Supermarket, supermarket
from neatrec.training.train import DEFAULT_MODEL

log = logging.getLogger(__name__)

STRATA = ("basket_size", "month", "store")
MODELS = ("pop", "popco", "shrunk-lift", "llr", DEFAULT_MODEL)
STEPS = (
    "simulating a supermarket: planted complements, popular noise, December and store traps",
    "training models on one half of the baskets, evaluating them on the other",
    f"training {DEFAULT_MODEL} on all baskets",
)


@dataclass(frozen=True, eq=False)
class Demo:
    """Results of the demo, for whoever prints them."""

    market: Supermarket
    board: Leaderboard
    """Models trained on one half of the baskets and evaluated on the other."""
    report: Path
    bundle: Path
    table: PairTable
    """That of the bundle."""

    def first_pairs(self, count: int) -> list[tuple[int, int, Evidence]]:
        """The pairs with most orders beyond chance: two codes, and their evidence."""
        pairs = PairList(self.table)
        return pairs.evidence(pairs.orders["beyond"][:count])

    def planted(self) -> float:
        """The share of the pairs with evidence that were planted."""
        pairs, truth = self.table.pairs, self.market.truth
        one, other = pairs.one[pairs.evident], pairs.other[pairs.evident]
        is_planted = truth.is_complement(one, other) | truth.is_complement(other, one)
        return float(np.mean(is_planted))

    def seasonal_trap(self) -> tuple[int, int, Evidence] | None:
        """The pair of a season with the highest overall lift, which a count would recommend."""
        truth = self.market.truth
        pairs = zip(truth.trap_query.tolist(), truth.trap_item.tolist(), strict=True)
        traps = [(a, b, self.table.evidence(a, b)) for a, b in pairs if a < b]
        seasonal = [trap for trap in traps if trap[2].grade == "seasonal"]
        return max(seasonal, key=lambda trap: trap[2].overall_lift, default=None)

    def to_json(self) -> dict[str, Any]:
        """The numbers of the demo."""
        return {
            "coverage": self.table.coverage(),
            "planted": self.planted(),
            "leaderboard": self.board.to_json(),
            "report": str(self.report),
            "bundle": str(self.bundle),
        }


def run_demo(out: Path, *, seed: int = 0) -> Demo:
    """Make a supermarket, compare models, write report and bundle to `out`."""
    report, bundle = out / "report", out / "bundle"
    _log_step(0)
    market = supermarket(seed=seed)
    _log_step(1)
    board = make_report(market.baskets, report, MODELS, LeaderboardOptions(seed=seed))
    _log_step(2)
    model = make_model(DEFAULT_MODEL, strata=",".join(STRATA[1:]))
    model.fit(market.baskets, Run(rng=seed))
    save_indexed(model, bundle, market.baskets, strata=STRATA, seed=seed)
    return Demo(market, board, report / PAGE, bundle, PairTable.open(bundle))


def _log_step(number: int) -> None:
    log.info("%s", STEPS[number], extra={"done": number, "total": len(STEPS)})
