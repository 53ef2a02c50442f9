"""How `bayes` learns: parts of the baskets teach the weights, all of them give the evidence.

Where times are known and the last fifth of the baskets holds enough strong pairs, it judges what came before: what
shoppers buy every week must not judge itself. Otherwise one half judges the other, both ways round. k is counted in
expected times together and the signs are logarithms of lifts, so that both mean the same for a part as for all.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.baskets import Baskets
from neatrec.models.bayes.calibration import QUERIES, UNLEARNED, WINNERS, Calibration, Winners, calibrate
from neatrec.models.bayes.evidence import SIGNS, Evidence, Surroundings
from neatrec.models.bayes.practice import Practice, allowed, best_strength, practise, search
from neatrec.models.bayes.prior import Weights
from neatrec.models.counts import PairCounts
from neatrec.models.run import Run
from neatrec.models.tuned import FEWEST, strong_pairs
from neatrec.randomness import children
from neatrec.splits import moment_of_share, uniform_of_ids

LATER = 0.8
"""Baskets from here on judge, by time."""
ENOUGH = 1_000
"""With fewer strong pairs in the last fifth, halves teach more than the right order in time does."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Lessons:
    """What was learned, and how well it did on strong pairs that it was not learned from."""

    weights: Weights
    calibration: Calibration
    strong_pairs: int
    with_prior: float
    """Weighted hits and gains of strong pairs under the prior; 0 when there were too few to learn from."""
    without: float
    """The same of shrunk lift, its strength learned the same way."""

    def to_dict(self) -> dict[str, Any]:
        weights = self.weights
        signs = {} if weights.signs is None else dict(zip(SIGNS, weights.signs.round(6).tolist(), strict=True))
        judged = {"bayes": self.with_prior, "shrunk_lift": self.without}
        return {
            "prior": "signs" if signs else "none: shrunk lift",
            "k": round(weights.k, 6),
            "near": round(weights.near, 6),
            "weights": signs,
            "posterior": {name: round(value, 6) for name, value in vars(self.calibration).items()},
            "strong_pairs": self.strong_pairs,
            "validation": {name: round(x, 6) for name, x in judged.items() if self.strong_pairs >= FEWEST},
        }

    def to_array(self) -> npt.NDArray[np.float64]:
        return np.array([self.strong_pairs, self.with_prior, self.without])

    @classmethod
    def from_array(cls, weights: Weights, calibration: Calibration, values: npt.NDArray[np.float64]) -> Lessons:
        pairs, with_prior, without = values.tolist()
        return cls(weights, calibration, int(pairs), with_prior, without)


def learn(
    shards: Iterable[Baskets], parameters: Any, around: Surroundings, run: Run, block: int
) -> tuple[Evidence, Lessons]:
    """The evidence of all baskets, and what its parts taught."""
    counting = parameters.counting()
    ordered = all(shard.ordered for shard in shards)
    rngs = iter(children(run.rng, 8))

    def evidence_of(baskets: Iterable[Baskets]) -> Evidence:
        return Evidence.of(
            baskets,
            counting,
            around,
            rank=parameters.rank,
            fewest=parameters.fewest,
            ordered=ordered,
            rng=next(rngs),
            threads=run.threads,
        )

    category = counting.category_of(next(iter(shards)).catalog)
    folds = list(_folds(shards, evidence_of, parameters, run.threads))
    parts = [practise(one, judge, category, parameters.strong_lift, next(rngs), block) for one, judge in folds]
    practice = [part for part in parts if part is not None]
    lessons = _taught(
        practice, [_winners_of(fold, category, next(rngs), block) for fold in folds], ordered, folds[0][0]
    )
    return evidence_of(shards), lessons


def _folds(
    shards: Iterable[Baskets], evidence_of: Any, parameters: Any, threads: int | None
) -> Iterator[tuple[Evidence, PairCounts]]:
    """Evidence to rank by and counts to judge by."""
    earlier = _before(shards, LATER)
    if earlier is not None:
        judge = PairCounts.of(_part(shards, earlier, False), parameters.counting(), threads)
        if len(strong_pairs(judge, parameters.strong_lift)[0]) >= ENOUGH:
            yield evidence_of(_part(shards, earlier, True)), judge
            return
    # a hash and not the digits of the id: ids of a part may all be even
    hashed = [uniform_of_ids(shard.ids, "practice") < 0.5 for shard in shards]
    half = _before(shards, 0.5) or hashed
    one, other = (evidence_of(_part(shards, half, part)) for part in (True, False))
    yield one, other.counts
    yield other, one.counts


def _before(shards: Iterable[Baskets], share: float) -> list[npt.NDArray[np.bool_]] | None:
    """Which baskets of each shard are of the earliest `share`; None where times are unknown or all the same."""
    times = [shard.times for shard in shards if shard.times is not None]
    if len(times) < sum(1 for _ in shards) or np.ptp(np.concatenate(times)) == 0:
        return None
    moment = moment_of_share(np.concatenate(times), share)
    return [of_shard < moment for of_shard in times]


def _part(shards: Iterable[Baskets], masks: list[npt.NDArray[np.bool_]], which: bool) -> list[Baskets]:
    return [shard.select(mask == which) for shard, mask in zip(shards, masks, strict=True)]


def _taught(practice: Sequence[Practice], winners: Sequence[Any], ordered: bool, evidence: Evidence) -> Lessons:
    pairs = sum(len(part.strong) for part in practice)
    if pairs < FEWEST:
        log.warning("only %d strong pairs in the validation baskets: bayes is shrunk lift with k = 1", pairs)
        return Lessons(Weights(1.0, 0.0, None), UNLEARNED, pairs, 0.0, 0.0)
    whole = Practice.joined(practice)
    signs = evidence.signs_there
    with_prior, without = _cross_checked(whole, signs, near=ordered)
    helps = with_prior > without
    weights = search(whole, signs, near=ordered)[0] if helps else best_strength(whole)[0]
    if not helps:
        log.warning("priors do not help on validation baskets: bayes is shrunk lift with k = %g", weights.k)
    log.info("strong pairs: %d, gain with the prior %.4f, shrunk lift %.4f", pairs, with_prior, without)
    calibration = calibrate(Winners.joined([make(weights) for make in winners]), signs=helps)
    return Lessons(weights, calibration, pairs, with_prior, without)


def _cross_checked(practice: Practice, signs: npt.NDArray[np.bool_], *, near: bool) -> tuple[float, float]:
    """How well prior and shrunk lift do on queries that they were not learned from: two halves, both ways round."""
    half = np.arange(practice.queries) % 2 == 0
    gained = np.zeros(2)
    for learned, judge in ((half, ~half), (~half, half)):
        lesson, exam = practice.of_queries(learned), practice.of_queries(judge)
        chosen = search(lesson, signs, near=near)[0], best_strength(lesson)[0]
        gained += [exam.weight.sum() * exam.value(weights) for weights in chosen]
    with_prior, without = gained / practice.weight.sum()
    return float(with_prior), float(without)


def _winners_of(
    fold: tuple[Evidence, PairCounts], category: npt.NDArray[np.int32], rng: np.random.Generator, block: int
) -> Any:
    """Gives, for weights, the pairs that they would recommend by the first evidence, and their later counts."""
    evidence, later = fold
    share = evidence.counts.total / max(evidence.counts.records, 1)
    size = min(QUERIES, int((share > 0).sum()))
    queries = np.sort(rng.choice(len(share), size, replace=False, p=share)) if size else np.zeros(0, dtype=np.int64)

    def winners(weights: Weights) -> Winners:
        found = [
            _block_winners(evidence, later, category, queries[i : i + block], weights) for i in range(0, size, block)
        ]
        return Winners.joined(found)

    return winners


def _block_winners(
    evidence: Evidence, later: PairCounts, category: npt.NDArray[np.int32], queries: npt.NDArray[Any], weights: Weights
) -> Winners:
    rows = evidence.rows(queries)
    score = np.where(allowed(evidence, category, queries), weights.score(rows), -np.inf)
    most = min(WINNERS, score.shape[1])
    items = np.argpartition(-score, most - 1, axis=1)[:, :most]
    places = np.arange(len(queries))[:, None]
    real = np.isfinite(score[places, items])
    row, item = np.broadcast_to(places, items.shape)[real], items[real]
    return Winners(
        count=rows.count[row, item].astype(np.float64),
        expected=rows.expected[row, item].astype(np.float64),
        log_prior=weights.log_prior(rows.signs[row, item]).astype(np.float64),
        later_count=later.of_pairs(queries[row].astype(np.int32), item.astype(np.int32)).astype(np.float64),
        later_expected=later.expected(later.total[queries[row]], later.total[item]),
    )
