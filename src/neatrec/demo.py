"""`neatrec demo`: the main task on a simulated supermarket, whose right answer is known."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from neatrec.check.run import CheckResult, check_baskets
from neatrec.errors import require_extra
from neatrec.labels import Labels, make_labels
from neatrec.labels.audit import Audit, audit_labels
from neatrec.labels.record import TruthScore, score_against
from neatrec.leaderboard.report import make_report
from neatrec.leaderboard.run import LeaderboardOptions, LeaderboardResult
from neatrec.models import Model, Run, make_model
from neatrec.report.attachment import read_report
from neatrec.serving import PairEvidence, QueryResult, ServingTable, recommend, save_indexed
from neatrec.simulator import Supermarket, supermarket
from neatrec.training.train import DEFAULT_MODEL

log = logging.getLogger(__name__)

STRATA = ("basket_size", "month", "store")
STATISTICS = ("pop", "popco", "lift", "shrunk-lift", "llr")
EPOCHS = {"neat": 40, "item2vec": 20}
"""Fewer than the models use by default, so that the demo ends soon."""
QUERIES = 3
"""Items whose recommendations are shown."""


class Trap(NamedTuple):
    """A pair that is bought together for another reason than the one item going with the other."""

    query: int
    item: int
    evidence: PairEvidence


@dataclass(frozen=True, eq=False)
class Demo:
    """What the demo found, for whoever prints it."""

    market: Supermarket
    checked: CheckResult
    plain: Audit
    """Both protocols over all baskets."""
    stratified: Labels
    """The calibrated protocol within basket size, month and store: the season's and the single store's traps caught."""
    stratified_score: TruthScore
    board: LeaderboardResult
    """Every model, trained on one half of the baskets and evaluated on the other."""
    model: Model
    """The default model, trained on all baskets."""
    report: Path
    bundle: Path

    def planted(self) -> dict[str, float]:
        """Of what each model names first in the whole catalogue, the share that was planted, best model first."""
        queries, shares = self.board.task.label_queries.queries, {}
        for name, runs in self.board.trainings.items():
            first = runs[0].ranks.label_ranks[self.board.task.catalogue.name].best[:, 0]
            answered = first >= 0
            right = self.market.truth.is_complement(queries[answered], first[answered])
            shares[name] = float(right.mean()) if len(right) else 0.0
        return dict(sorted(shares.items(), key=lambda each: -each[1]))

    def queries(self) -> list[int]:
        """Items to show recommendations for: those of the strongest pairs."""
        labels = self.stratified
        return list(dict.fromkeys(int(labels.query[i]) for i in labels.strongest(len(labels))))[:QUERIES]

    def strongest(self, count: int) -> list[tuple[int, PairEvidence]]:
        """The strongest labels within strata: their place, and the evidence that the bundle serves for the pair."""
        labels, index = self.stratified, ServingTable.open(self.bundle)
        places = labels.strongest(count).tolist()
        return [(i, index.evidence(int(labels.query[i]), int(labels.item[i]))) for i in places]

    def caught(self) -> Trap | None:
        """Of the pairs that only their season brings together, the one with the highest lift overall: what a count of
        all baskets would have recommended; None where no such pair was seen."""
        index, truth = ServingTable.open(self.bundle), self.market.truth
        pairs = zip(truth.trap_query.tolist(), truth.trap_item.tolist(), strict=True)
        found = [Trap(query, item, index.evidence(query, item)) for query, item in pairs if query < item]
        seasonal = [trap for trap in found if trap.evidence.grade == "seasonal"]
        return max(seasonal, key=lambda trap: trap.evidence.overall_lift, default=None)

    def recommendations(self) -> list[tuple[int, QueryResult]]:
        """What goes with each of them, with evidence: (item, answers)."""
        index = ServingTable.open(self.bundle)
        return [(query, recommend(index, index.catalog.id(query), 3)) for query in self.queries()]

    def to_json(self) -> dict[str, Any]:
        """The numbers of the demo."""
        catalog = self.market.baskets.catalog
        return {
            "check": self.checked.to_json(),
            "audit": self.plain.to_json(),
            "stratified": {
                **self.stratified.to_json(),
                "precision": self.stratified_score.precision,
                "recall": self.stratified_score.recall,
            },
            "leaderboard": self.board.to_json(),
            "planted": self.planted(),
            "recommendations": [
                {"item": catalog.id(query), "recommendations": [line.to_dict() for line in asked.answers]}
                for query, asked in self.recommendations()
            ],
            "report": str(self.report),
            "bundle": str(self.bundle),
        }


def run_demo(out: Path, *, seed: int = 0) -> Demo:
    """Make a supermarket, check it, label it, train and compare models, write report and bundle into `out`."""
    require_extra("report", "the demo")
    steps = iter(enumerate(STEPS))

    def begin() -> None:
        number, step = next(steps)
        log.info("%s", step, extra={"done": number, "total": len(STEPS)})

    begin()
    market = supermarket(seed=seed)
    baskets, truth = market.baskets, market.truth
    begin()
    checked = check_baskets(baskets)
    begin()
    plain = audit_labels(baskets, truth=truth, null_rounds=2, seed=seed, strata=())
    begin()
    stratified = make_labels(baskets, protocol="calibrated", levels=(0.05,), strata=STRATA)
    score = score_against(truth, stratified.query, stratified.item, directed=True)
    begin()
    options = LeaderboardOptions(seed=seed)
    board = make_report(baskets, out / "report", _model_specs(), options, truth=truth, null_rounds=1)
    begin()
    model = make_model(DEFAULT_MODEL, strata=",".join(STRATA[1:])).fit(baskets, Run(rng=seed))
    attached = read_report(out / "report")
    save_indexed(model, out / "bundle", baskets, strata=STRATA, seed=seed, attachment=attached)
    return Demo(market, checked, plain, stratified, score, board, model, out / "report" / "index.html", out / "bundle")


STEPS = (
    "simulating a supermarket: planted complements, popular noise, a December trap, a one-store trap",
    "checking the baskets",
    "labels by both protocols, and how many of them chance alone would make",
    "the same within baskets of one size, month and store",
    "training models on one half of the baskets, evaluating them on the other",
    f"training {DEFAULT_MODEL} on all baskets",
)


def _model_specs() -> dict[str, str | Model]:
    untuned = {name: name for name in (*STATISTICS, DEFAULT_MODEL)}
    return {**untuned, **{name: make_model(name, epochs=n) for name, n in EPOCHS.items()}}
