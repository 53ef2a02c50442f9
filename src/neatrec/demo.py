"""`neatrec demo`: the main task on a simulated supermarket, whose complements are known."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from neatrec.check.run import CheckResult, check_baskets
from neatrec.labels import Labels, make_labels
from neatrec.labels.record import TruthScore, score_against
from neatrec.leaderboard.run import Leaderboard, LeaderboardOptions
from neatrec.models import Run, make_model
from neatrec.report.make import make_report
from neatrec.serving import Evidence, PairTable, save_indexed
from neatrec.serving.pair_list import PairList
from neatrec.simulator import Supermarket, supermarket
from neatrec.training.train import DEFAULT_MODEL

log = logging.getLogger(__name__)

STRATA = ("basket_size", "month", "store")
MODELS = ("pop", "popco", "shrunk-lift", "llr", DEFAULT_MODEL)
STEPS = (
    "simulating a supermarket: planted complements, popular noise, December and store traps",
    "checking the baskets",
    "labels within baskets of one size, month and store",
    "training models on one half of the baskets, evaluating them on the other",
    f"training {DEFAULT_MODEL} on all baskets",
)


class Trap(NamedTuple):
    """A pair that its season alone brings together."""

    query: int
    item: int
    evidence: Evidence


@dataclass(frozen=True, eq=False)
class Demo:
    """Results of the demo, for whoever prints them."""

    market: Supermarket
    checked: CheckResult
    labels: Labels
    """The calibrated protocol within basket size, month and store."""
    score: TruthScore
    """Of these labels, against the planted complements."""
    board: Leaderboard
    """Models trained on one half of the baskets and evaluated on the other."""
    report: Path
    bundle: Path

    def first_pairs(self, count: int) -> list[tuple[int, int, Evidence]]:
        """The pairs with most orders beyond chance: two codes, and their evidence in the bundle."""
        pairs = PairList(PairTable.open(self.bundle))
        return pairs.evidence(pairs.orders["beyond"][:count])

    def caught(self) -> Trap | None:
        """The seasonal pair with the highest overall lift, which a count would have recommended."""
        table, truth = PairTable.open(self.bundle), self.market.truth
        pairs = zip(truth.trap_query.tolist(), truth.trap_item.tolist(), strict=True)
        traps = [
            Trap(one, other, table.evidence(one, other)) for one, other in pairs if one < other
        ]
        seasonal = [trap for trap in traps if trap.evidence.grade == "seasonal"]
        return max(seasonal, key=lambda trap: trap.evidence.overall_lift, default=None)

    def to_json(self) -> dict[str, Any]:
        """The numbers of the demo."""
        return {
            "check": self.checked.to_json(),
            "labels": {
                **self.labels.to_json(),
                "precision": self.score.precision,
                "recall": self.score.recall,
            },
            "leaderboard": self.board.to_json(),
            "report": str(self.report),
            "bundle": str(self.bundle),
        }


def run_demo(out: Path, *, seed: int = 0) -> Demo:
    """Make a supermarket, check and label it, compare models, write report and bundle to `out`."""
    steps = iter(enumerate(STEPS))

    def begin() -> None:
        number, step = next(steps)
        log.info("%s", step, extra={"done": number, "total": len(STEPS)})

    begin()
    market = supermarket(seed=seed)
    baskets = market.baskets
    begin()
    checked = check_baskets(baskets)
    begin()
    labels = make_labels(baskets, protocol="calibrated", levels=(0.05,), strata=STRATA)
    score = score_against(market.truth, labels.query, labels.item, directed=True)
    begin()
    board = make_report(baskets, out / "report", MODELS, LeaderboardOptions(seed=seed))
    begin()
    model = make_model(DEFAULT_MODEL, strata=",".join(STRATA[1:])).fit(baskets, Run(rng=seed))
    save_indexed(model, out / "bundle", baskets, strata=STRATA, seed=seed)
    page = out / "report" / "index.html"
    return Demo(market, checked, labels, score, board, page, out / "bundle")
