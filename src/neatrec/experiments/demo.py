"""`neatrec demo`: the main job on a simulated supermarket, whose right answer is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neatrec.experiments.check import CheckResult, check
from neatrec.labels import Labels, make_labels
from neatrec.labels.audit import Audit, audit_labels
from neatrec.labels.truth import Score, score_against
from neatrec.report.audit_report import write_audit
from neatrec.sources.supermarket import Supermarket, supermarket

STRATA = ("basket_size", "month", "store")


@dataclass(frozen=True, eq=False)
class Demo:
    """What the demo found, for whoever prints it."""

    market: Supermarket
    checked: CheckResult
    plain: Audit
    """Both protocols over all baskets."""
    stratified: Labels
    """The calibrated protocol within basket size, month and store: the season's and the single store's traps caught."""
    stratified_score: Score
    report: Path

    def to_json(self) -> dict[str, Any]:
        """The numbers of the demo."""
        return {
            "check": self.checked.to_json(),
            "audit": self.plain.to_json(),
            "stratified": {
                **self.stratified.to_json(),
                "precision": self.stratified_score.precision,
                "recall": self.stratified_score.recall,
            },
            "report": str(self.report),
        }


def run_demo(out: Path, *, seed: int = 0, say: Callable[[str], None] = print) -> Demo:
    """Make a supermarket, check it, label it by both protocols, write the study into `out`."""
    say("simulating a supermarket: planted complements, popular noise, a December trap, a one-store trap")
    market = supermarket(seed=seed)
    say("looking the baskets over")
    checked = check(market.baskets)
    say("labels by both protocols, and how many of them chance alone would make")
    plain = audit_labels(market.baskets, truth=market.truth, null_rounds=2, seed=seed)
    say("the same within baskets of one size, month and store")
    stratified = make_labels(market.baskets, "calibrated", (0.05,), strata=STRATA)
    score = score_against(market.truth, stratified.query, stratified.item, directed=True)
    write_audit(plain, out)
    return Demo(market, checked, plain, stratified, score, out / "audit.txt")
