"""How `bayes` learns: parts of the baskets teach the weights, all of them give the evidence.

Where times are known and the last fifth of the baskets holds enough strong pairs, it judges what came before: what
shoppers buy every week must not judge itself. Otherwise one half judges the other, both ways round. k is counted in
expected times together and the signs are logarithms of lifts, so that both mean the same for a part as for all.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.data.baskets import Baskets
from neatrec.data.randomness import children
from neatrec.data.splits import moment_of_share, uniform_of_ids
from neatrec.models.bayes.calibration import QUERIES, UNLEARNED, WINNERS, Calibration, Winners, calibrate
from neatrec.models.bayes.counting import counted, recounted
from neatrec.models.bayes.features import SIGNS, PairFeatures, Surroundings
from neatrec.models.bayes.prior import Weights
from neatrec.models.bayes.prior_tuning import Practice, allowed, best_strength, practise, search
from neatrec.models.bayes.ranker import HINTS, Ranking
from neatrec.models.bayes.ranker_training import Judge, exercise, learn_ranking
from neatrec.models.bayes.rows import rank_rows
from neatrec.models.bayes.scoring import log_priors
from neatrec.models.bayes.significance import SURE_HINTS, SURENESS, sure_exercise
from neatrec.models.counts import PairCounts
from neatrec.models.run import Run
from neatrec.models.tuned_lift import MIN_STRONG_PAIRS, strong_pairs

LATER = 0.8
"""Baskets from here on judge, by time."""
ENOUGH = 1_000
"""With fewer strong pairs in the last fifth, halves teach more than the right order in time does."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Lessons:
    """What was learned, and how well it did on strong pairs that it was not learned from."""

    weights: Weights
    ranking: Ranking | None
    calibration: Calibration
    strong_pairs: int
    with_prior: float
    """Weighted hits and gains of strong pairs under the prior; 0 when there were too few to learn from."""
    without: float
    """The same of shrunk lift, its strength learned the same way."""
    ranked: float = 0.0
    """Hits and gains of surely strong pairs under the ranking; 0 when there were too few to learn from."""
    lifted: float = 0.0
    """The same of the posterior lift."""
    sure: Ranking | None = None
    """What `bayes-sure` ranks by; None: G^2."""
    sure_ranked: float = 0.0
    """Hits and gains of pairs dependent beyond doubt under it; 0 when there were too few to learn from."""
    sure_g2: float = 0.0
    """The same of G^2."""

    def to_dict(self) -> dict[str, Any]:
        weights = self.weights
        signs = {} if weights.signs is None else dict(zip(SIGNS, weights.signs.round(6).tolist(), strict=True))
        judged = {"bayes": self.with_prior, "shrunk_lift": self.without}
        hints, sure = _named(HINTS, self.ranking), _named(SURE_HINTS, self.sure)
        return {
            "prior": "signs" if signs else "none: shrunk lift",
            "k": round(weights.k, 6),
            "near": round(weights.near, 6),
            "weights": signs,
            "ranks_by": "odds of a surely strong pair" if hints else "posterior lift",
            "ranking": hints,
            "posterior": {name: round(value, 6) for name, value in vars(self.calibration).items()},
            "strong_pairs": self.strong_pairs,
            "validation": {name: round(x, 6) for name, x in judged.items() if self.strong_pairs >= MIN_STRONG_PAIRS},
            "validation_of_ranking": {"odds": round(self.ranked, 6), "posterior_lift": round(self.lifted, 6)},
            "sure_ranks_by": "odds of a dependence beyond doubt" if sure else "G^2",
            "sure_ranking": sure,
            "validation_of_sure_ranking": {"odds": round(self.sure_ranked, 6), "g2": round(self.sure_g2, 6)},
        }

    def to_array(self) -> npt.NDArray[np.float64]:
        gains = self.with_prior, self.without, self.ranked, self.lifted, self.sure_ranked, self.sure_g2
        return np.array([self.strong_pairs, *gains])

    @classmethod
    def from_array(
        cls,
        weights: Weights,
        ranking: Ranking | None,
        sure: Ranking | None,
        calibration: Calibration,
        values: npt.NDArray[np.float64],
    ) -> Lessons:
        """What `to_array` and the four learned parts came from; older bundles have five numbers."""
        pairs, *gains = values.tolist()
        gains += [0.0] * (6 - len(gains))
        found = cls(weights, ranking, calibration, int(pairs), *gains[:4])
        return replace(found, sure=sure, sure_ranked=gains[4], sure_g2=gains[5])


def _named(hints: Sequence[str], ranking: Ranking | None) -> dict[str, float]:
    return {} if ranking is None else dict(zip(hints, ranking.weights.round(6).tolist(), strict=True))


def learn(
    shards: Iterable[Baskets], parameters: Any, around: Surroundings, run: Run, block: int
) -> tuple[PairFeatures, Lessons]:
    """The evidence of all baskets, and what its parts taught."""
    counting = parameters.counting()
    ordered = all(shard.ordered for shard in shards)
    spawned = children(run.rng, 12)
    rngs, sure_rngs = iter(spawned[:10]), iter(spawned[10:])

    def evidence_of(baskets: Iterable[Baskets], judges: bool = True) -> PairFeatures:
        return PairFeatures.of(
            baskets,
            counting,
            around,
            rank=parameters.rank,
            min_pair_count=parameters.min_pair_count,
            ordered=ordered,
            rng=next(rngs),
            most=parameters.max_pairs,
            judges=judges,
            threads=run.threads,
        )

    category = counting.category_of(next(iter(shards)).catalog)
    folds = list(folds_of(shards, evidence_of, parameters, ordered, run.threads))
    lessons = _lessons(folds, category, parameters, ordered, rngs, sure_rngs, block)
    folds.clear()  # with their counts, before those of all baskets are made
    return evidence_of(shards, judges=False), lessons


def _lessons(
    folds: Sequence[tuple[PairFeatures, Judge]],
    category: npt.NDArray[np.int32],
    parameters: Any,
    ordered: bool,
    rngs: Iterator[np.random.Generator],
    sure_rngs: Iterator[np.random.Generator],
    block: int,
) -> Lessons:
    """What one part of the baskets teaches about another."""
    lift = parameters.strong_lift
    parts = [practise(one, judge.counts, category, lift, next(rngs), block) for one, judge in folds]
    lessons = _taught([part for part in parts if part is not None], ordered, folds[0][0])
    parts.clear()
    if lessons.weights.signs is not None:
        exercises = [exercise(one, judge, lessons.weights, category, lift, next(rngs), block) for one, judge in folds]
        ranking, ranked, lifted = learn_ranking(exercises)
        lessons = replace(lessons, ranking=ranking, ranked=ranked, lifted=lifted)
        sure = [sure_exercise(one, judge, lessons.weights, next(sure_rngs)) for one, judge in folds]
        ranking, ranked, lifted = learn_ranking(sure, against=SURENESS, model="bayes-sure", by="G^2")
        lessons = replace(lessons, sure=ranking, sure_ranked=ranked, sure_g2=lifted)
    if lessons.strong_pairs >= MIN_STRONG_PAIRS:
        winners = [_winners_of(fold, category, lessons, next(rngs), block) for fold in folds]
        calibration = calibrate(Winners.joined(winners), signs=lessons.weights.signs is not None)
        lessons = replace(lessons, calibration=calibration)
    return lessons


def folds_of(
    shards: Iterable[Baskets], evidence_of: Any, parameters: Any, ordered: bool, threads: int | None
) -> Iterator[tuple[PairFeatures, Judge]]:
    """PairFeatures to rank by and counts to judge by."""
    counting, earlier = parameters.counting(), _before(shards, LATER)

    def judge(baskets: list[Baskets], counts: PairCounts, directed: Any) -> Judge:
        return Judge(counts, directed, None if counts.least == 1 else partial(recounted, baskets, counting, threads))

    if earlier is not None:
        later = _part(shards, earlier, False)
        found = counted(later, counting, ordered=ordered, most=parameters.max_pairs, threads=threads)
        if len(strong_pairs(found.counts, parameters.strong_lift)[0]) >= ENOUGH:
            yield evidence_of(_part(shards, earlier, True)), judge(later, found.counts, found.directed)
            return
        del found, later
    # a hash and not the digits of the id: ids of a part may all be even
    hashed = [uniform_of_ids(shard.ids, "practice") < 0.5 for shard in shards]
    half = _before(shards, 0.5) or hashed
    first, second = (_part(shards, half, part) for part in (True, False))
    one, other = evidence_of(first), evidence_of(second)
    yield one, judge(second, other.counts, other.directed)
    yield other, judge(first, one.counts, one.directed)


def _before(shards: Iterable[Baskets], share: float) -> list[npt.NDArray[np.bool_]] | None:
    """Which baskets of each shard are of the earliest `share`; None where times are unknown or all the same."""
    times = [shard.times for shard in shards if shard.times is not None]
    if len(times) < sum(1 for _ in shards) or np.ptp(np.concatenate(times)) == 0:
        return None
    moment = moment_of_share(np.concatenate(times), share)
    return [of_shard < moment for of_shard in times]


def _part(shards: Iterable[Baskets], masks: list[npt.NDArray[np.bool_]], which: bool) -> list[Baskets]:
    return [shard.select(mask == which) for shard, mask in zip(shards, masks, strict=True)]


def _taught(practice: Sequence[Practice], ordered: bool, evidence: PairFeatures) -> Lessons:
    """What strong pairs taught about the prior."""
    pairs = sum(len(part.strong) for part in practice)
    if pairs < MIN_STRONG_PAIRS:
        log.warning("only %d strong pairs in the validation baskets: bayes is shrunk lift with k = 1", pairs)
        return Lessons(Weights(1.0, 0.0, None), None, UNLEARNED, pairs, 0.0, 0.0)
    whole, signs = Practice.joined(practice), evidence.signs_there
    with_prior, without = _cross_checked(whole, signs, near=ordered)
    helps = with_prior > without
    weights = search(whole, signs, near=ordered)[0] if helps else best_strength(whole)[0]
    if not helps:
        log.warning("priors do not help on validation baskets: bayes is shrunk lift with k = %g", weights.k)
    log.info("strong pairs: %d, gain with the prior %.4f, shrunk lift %.4f", pairs, with_prior, without)
    return Lessons(weights, None, UNLEARNED, pairs, with_prior, without)


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
    fold: tuple[PairFeatures, Judge],
    category: npt.NDArray[np.int32],
    lessons: Lessons,
    rng: np.random.Generator,
    block: int,
) -> Winners:
    """The pairs that would be recommended by the first evidence, and their later counts."""
    evidence, judge = fold
    share = evidence.counts.total / max(evidence.counts.records, 1)
    size = min(QUERIES, int((share > 0).sum()))
    chosen = np.sort(rng.choice(len(share), size, replace=False, p=share)) if size else np.zeros(0, dtype=np.int64)
    queries = chosen.astype(np.int32)
    found = [_best_of_block(evidence, category, queries[i : i + block], lessons) for i in range(0, size, block)]
    query, item = (np.concatenate(part) for part in zip(*found, strict=True))
    return _winners(evidence, judge, lessons, query, item)


def _ranks_by(lessons: Lessons) -> tuple[Weights, Ranking | None]:
    return lessons.weights, lessons.ranking


def _best_of_block(
    evidence: PairFeatures, category: npt.NDArray[np.int32], queries: npt.NDArray[np.int32], lessons: Lessons
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Query and item of the best-ranked pairs."""
    ranked = rank_rows(evidence, *_ranks_by(lessons), queries)
    score = np.where(allowed(evidence, category, queries), ranked, -np.inf)
    most = min(WINNERS, score.shape[1])
    items = np.argpartition(-score, most - 1, axis=1)[:, :most]
    places = np.arange(len(queries))[:, None]
    real = np.isfinite(score[places, items])
    return queries[np.broadcast_to(places, items.shape)[real]], items[real].astype(np.int32)


def _winners(
    evidence: PairFeatures,
    judge: Judge,
    lessons: Lessons,
    query: npt.NDArray[np.int32],
    item: npt.NDArray[np.int32],
) -> Winners:
    counts, later = evidence.counts, judge.counts
    # a rare pair must not look like one never seen
    later_count = later.of_pairs(query, item) if judge.recount is None else judge.recount(query, item)
    return Winners(
        count=counts.of_pairs(query, item).astype(np.float64),
        expected=counts.expected(counts.total[query], counts.total[item]),
        log_prior=log_priors(evidence, lessons.weights, query, item),
        later_count=later_count.astype(np.float64),
        later_expected=later.expected(later.total[query], later.total[item]),
    )
