"""`bayes`: each pair's lift has a prior made of everything known about its items; learned odds rank the pairs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neatrec.data.baskets import Baskets
from neatrec.models.base import Codes, Model, Scores, require_shapes
from neatrec.models.bayes.cold_start import StandIns
from neatrec.models.bayes.features import PRIOR_FEATURES, RANKER_FEATURES, CatalogFeatures, PairFeatures
from neatrec.models.bayes.fit import FitSummary, fit_bayes
from neatrec.models.bayes.old_bundles import upgraded
from neatrec.models.bayes.ranker import BY_LIFT, GOALS, STATISTIC_MODELS
from neatrec.models.bayes.scoring import BLOCK_SCORES, Matrix, PairScorer, gather_partners
from neatrec.models.counts import CountModel, PairCounts, StrataParameters, matrix_arrays, restored_matrix
from neatrec.models.parameters import ModelParameters, parameter
from neatrec.models.run import Run
from neatrec.statistics.blas import one_blas_thread

DENSE = {
    "vectors": ("items", "rank"),
    "values": ("rank",),
    "category": ("items",),
    "category_lift": ("categories", "categories"),
    "category_order": ("categories", "categories"),
}
"""Fields of PairFeatures that a bundle keeps as they are, and their shapes."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BayesParameters(StrataParameters):
    rank: int = parameter(128, "Factors of the low-rank part of the prior.", low=1)
    min_pair_count: int = parameter(2, "Pairs seen fewer times are left out of the low-rank part.", low=1)
    strong_lift: float = parameter(4.0, "Held-out pairs are positive from this lift on.", low=1.0)
    max_pairs: int = parameter(100_000_000, "Of more different pairs the rarest are dropped, for memory.", low=1)
    goal: str = parameter(
        GOALS[0], "Rank high lifts first (lift), certain pairs (evidence), or both (balanced).", choices=GOALS
    )
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {goal: {"goal": goal} for goal in GOALS}
    legacy_defaults: ClassVar[Mapping[str, Any]] = {"goal": "lift"}


class StatisticScorer(NamedTuple):
    """A statistic that ranks for a goal, as a scorer of one ranking."""

    model: CountModel

    def rows(self, queries: Codes) -> Scores:
        return self.model._score_all(queries)[None]

    def pairs(self, queries: Codes, items: Codes) -> Scores:
        return self.model._score(queries, items)[None]


class Bayes(Model):
    """Posterior lifts, ranked by the odds that new baskets show the pair: one fit, a ranking per goal.

    The posterior lift is (C + k m) / (E + k): counts, shrunk towards a prior mean m that is worth k expected times
    together. log m is a weighted sum of PRIOR_FEATURES; weights and k are those that rank most strong pairs of held-out
    training baskets among the first ten. Where they do not beat shrunk lift there, m is 0 and statistics rank.
    The score is the odds by RANKER_FEATURES of a significant high-lift pair (goal `lift`), of a dependent pair however
    small its lift (`evidence`), or the larger of two such odds (`balanced`); or a statistic, where no odds rank
    held-out baskets better.
    """

    name: ClassVar[str] = "bayes"
    kind: ClassVar[str] = "hybrid"
    description: ClassVar[str] = (
        "Lift shrunk towards what similar items, names, categories and low-rank structure predict."
    )
    Parameters: ClassVar[type[ModelParameters]] = BayesParameters
    min_score: ClassVar[float] = 0.0
    uses_vectors: ClassVar[bool] = True
    goals: ClassVar[tuple[str, ...]] = GOALS
    features: PairFeatures
    summary: FitSummary
    stand_ins: StandIns
    scorer: PairScorer | None
    """None without prior: then statistics rank."""
    own: PairScorer | StatisticScorer
    """Scores by the goal, without stand-ins."""

    def check_run(self, run: Run, *, validation: bool = False) -> None:
        """Device gpu is accepted: the fit runs on the CPU all the same, and logs it."""
        super().check_run(replace(run, device="cpu"), validation=validation)

    def _fit(self, shards: Iterable[Baskets], run: Run) -> None:
        if run.device == "gpu":
            log.info("fitting %s on the CPU: it has no GPU kernels", self.name)
        with one_blas_thread():  # rows have threads of their own
            catalog = CatalogFeatures.of(self.catalog)
            found = fit_bayes(shards, self.parameters, catalog, run)
        self.stand_ins = StandIns.of(self.item_count, catalog.category, catalog.similar, run.vectors)
        self._set_fit(*found)

    def _set_fit(self, features: PairFeatures, summary: FitSummary) -> None:
        self.features, self.summary = features, summary
        self.scorer = None if summary.prior.weights is None else PairScorer(features, summary.prior)
        self.cart_ranking = None
        if summary.cart is not None:
            category = self.parameters.counting().category_of(self.catalog)
            self.cart_ranking = summary.cart.ranking(features.counts, self.item_count, category)
        self._set_goal(self.parameters.goal)

    def _set_goal(self, goal: str) -> None:
        (self.own,) = self._scorers((goal,)).values()
        by_statistic = isinstance(self.own, StatisticScorer)
        self.reason = self.own.model.reason if by_statistic else Model.reason  # type: ignore[misc,union-attr]
        # statistics have no score for an item that was never bought, unless others stand in for it
        self.scores_unseen_items = not by_statistic or bool(self.stand_ins.new.any())  # type: ignore[misc]

    def _scorers(self, goals: Sequence[str]) -> dict[tuple[str, ...], PairScorer | StatisticScorer]:
        """What scores for the goals: each statistic for its own, one scorer for all others."""
        rankings = {goal: self.summary.rankings[goal] for goal in goals}
        by_odds = tuple(goal for goal, ranking in rankings.items() if ranking.name not in STATISTIC_MODELS)
        out: dict[tuple[str, ...], PairScorer | StatisticScorer] = {
            (goal,): StatisticScorer(rankings[goal].statistic(self.features.counts))
            for goal in goals
            if goal not in by_odds
        }
        if by_odds and self.scorer is None:
            raise ValueError(f"goal {by_odds[0]} ranks by {rankings[by_odds[0]].name}, and there is no prior")
        if by_odds and self.scorer is not None:
            out[by_odds] = self.scorer.with_rankings([rankings[goal].rankers or (BY_LIFT,) for goal in by_odds])
        return out

    def with_goal(self, goal: str) -> Self:
        """The same fit, ranking by another goal; arrays are shared."""
        other = copy(self)
        other.parameters = replace(self.parameters, goal=goal)
        other._set_goal(goal)
        return other

    def fit_key(self) -> tuple[str, dict[str, Any]]:
        """One fit serves all goals."""
        return self.name, {name: value for name, value in self.parameters.to_dict().items() if name != "goal"}

    def _score_all(self, queries: Codes) -> Scores:
        stand_ins, block = self.stand_ins, max(1, BLOCK_SCORES // max(len(self.catalog), 1))
        parts = [queries[first : first + block] for first in range(0, max(len(queries), 1), block)]
        return np.concatenate([stand_ins.rows(self.own.rows(stand_ins.asked(part))[0], part) for part in parts])

    def _score(self, queries: Codes, items: Codes) -> Scores:
        scores: Scores = self.stand_ins.pairs(self.own.pairs, queries, items)[0]
        return scores

    def score_goals(self, queries: npt.ArrayLike) -> dict[str, Scores]:
        """`score_all` by each goal: the features of all odds are computed once. Call it in blocks."""
        codes = self._codes("queries", queries)
        asked = self.stand_ins.asked(codes)
        return self._by_goal(lambda scorer: [self.stand_ins.rows(rows, codes) for rows in scorer.rows(asked)])

    def score_pairs_by_goal(self, queries: Codes, items: Codes) -> dict[str, Scores]:
        """`score` by each goal: the features of all odds are computed once."""
        return self._by_goal(lambda scorer: self.stand_ins.pairs(scorer.pairs, queries, items))

    def _by_goal(self, scores: Callable[[PairScorer | StatisticScorer], Iterable[Scores]]) -> dict[str, Scores]:
        """The scores of each goal, from those of each scorer for its goals."""
        scorers = self._scorers(GOALS).items()
        found = dict(chain.from_iterable(zip(goals, scores(scorer), strict=True) for goals, scorer in scorers))
        return {goal: self._without_nan(found[goal]) for goal in GOALS}

    def related_items(self, queries: Codes) -> tuple[npt.NDArray[np.int64], Codes]:
        """Items bought with each query or with items like it, (start, items): where its best are mostly found."""
        features, mixture = self.features, self.stand_ins.most_similar(queries)
        near = features.neighbours if features.similar is None else features.neighbours + features.similar
        few = sparse.diags(self.stand_ins.mixed[queries].astype(np.float32))  # their stand-ins are like them already
        alike, counts = Matrix.of(few @ mixture + (mixture - few @ mixture) @ near), Matrix.of(features.counts.matrix)
        start = np.zeros(len(queries) + 1, dtype=np.int64)
        for _ in range(2):  # counted, then filled
            items = np.empty(start[-1], dtype=np.int32)
            gather_partners(alike, counts, np.full(len(self.catalog), -1, dtype=np.int32), start, items)
        return start, items

    def item_vectors(self) -> npt.NDArray[np.float32] | None:
        """Low-rank factors scaled by the root of their values, shape (items, rank)."""
        return self.features.scaled

    @property
    def new_items(self) -> npt.NDArray[np.bool_]:
        """Items that nobody bought and for which similar ones, or their category, stand in, shape (items,)."""
        return self.stand_ins.new

    def _unseen_note(self, code: int) -> str:
        note = super()._unseen_note(code)
        return f"{note}: what is known comes from its name and category" if self.scores_unseen_items else note

    def fit_info(self) -> dict[str, Any]:
        counts = self.features.counts
        pairs = {"kept": counts.matrix.nnz // 2, "max": self.parameters.max_pairs, "dropped_below": counts.least}
        return {**self.summary.to_dict(), "pairs": pairs}

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        features = self.features
        arrays = {name: getattr(features, name) for name in DENSE} | self.summary.to_arrays()
        near = None if features.near is None else features.near.matrix
        matrices = {"pair": features.counts.matrix, "near": near}
        matrices |= {"similar": features.similar, "neighbours": features.neighbours}
        matrices |= {"stand_ins": self.stand_ins.weights if self.stand_ins.weights.nnz else None}
        for name, matrix in matrices.items():
            arrays |= {} if matrix is None else matrix_arrays(name, matrix)
        if features.counts.least > 1 or self.parameters.strata:
            arrays |= {"least": np.array([features.counts.least]), "pair_total": features.counts.total}
            arrays |= {} if features.near is None else {"near_total": features.near.total}
        return arrays

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        arrays = upgraded(arrays)
        counts, near = (self._counts(name, arrays) for name in ("pair", "near"))
        similar, neighbours = (self._matrix(name, arrays) for name in ("similar", "neighbours"))
        if counts is None or neighbours is None:
            raise KeyError("pair_start and neighbours_start")
        require_shapes(arrays, DENSE, len(self.catalog))
        category, names = arrays["category"], len(arrays["category_lift"]) - 1
        if category.dtype.kind != "i" or not -1 <= category.min() <= category.max() < names:
            raise ValueError(f"`category` must hold codes from -1 to {names - 1}")
        features = PairFeatures(
            counts=counts, near=near, similar=similar, neighbours=neighbours, **{name: arrays[name] for name in DENSE}
        )
        weights, known = self._matrix("stand_ins", arrays), (self.item_count, features.category)
        self.stand_ins = StandIns.of(*known) if weights is None else StandIns(weights, *known)
        summary = FitSummary.from_arrays(arrays)
        rankers = [ranker for ranking in summary.rankings.values() for ranker in ranking.rankers]
        if summary.prior.weights is not None and len(summary.prior.weights) != len(PRIOR_FEATURES):
            raise ValueError(f"`prior` must have {len(PRIOR_FEATURES)} weights, got {len(summary.prior.weights)}")
        if any(ranker.weights.shape != (len(RANKER_FEATURES),) for ranker in rankers):
            raise ValueError(f"a ranker must have {len(RANKER_FEATURES)} weights")
        self._set_fit(features, summary)

    def _counts(self, name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> PairCounts | None:
        """Totals stand among the arrays only where pairs were dropped or counts lowered."""
        matrix, least = self._matrix(name, arrays), int(arrays.get("least", np.ones(1))[0])
        return None if matrix is None else PairCounts.restored(matrix, arrays.get(f"{name}_total"), least)

    def _matrix(self, name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> sparse.csr_matrix | None:
        return restored_matrix(arrays, name, len(self.catalog)) if f"{name}_start" in arrays else None
