"""`odds`: pairs ranked by the odds that other baskets show them as strong or as dependent ones."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse, special

from neatrec.data.baskets import Baskets
from neatrec.data.randomness import as_generator
from neatrec.models.arrays import ArraySpec, matrix_specs
from neatrec.models.base import Codes, Model, Scores
from neatrec.models.carts import CartRegression
from neatrec.models.counts import PairCounts, StrataParameters, matrix_arrays, restored_matrix
from neatrec.models.odds.features import CURVE, FEATURES, CatalogFeatures, PairFeatures
from neatrec.models.odds.fit import (
    STARTS,
    Outcome,
    Pairs,
    design_of,
    learn,
    log_odds,
    parts_of,
)
from neatrec.models.odds.stand_ins import STAND_INS, expanded, stand_ins
from neatrec.models.parameters import ModelParameters, parameter
from neatrec.models.run import Run

Floats = npt.NDArray[np.float64]

GOALS = {"balanced": (2.0, 1.0), "lift": (1.0, 0.0), "evidence": (0.0, 1.0)}
"""Weights of the probabilities of a strong and of a dependent pair."""
BLOCK = 500_000
"""Pairs whose features are in memory at a time."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OddsParameters(StrataParameters):
    rank: int = parameter(128, "Dimensions of the low-rank vectors.", low=1)
    max_pairs: int = parameter(
        100_000_000, "Pairs kept; the rarest beyond are left out, for memory.", low=1
    )
    goal: str = parameter(
        "balanced",
        "High lifts first (lift), certain pairs first (evidence), or both (balanced).",
        choices=GOALS,
    )
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {goal: {"goal": goal} for goal in GOALS}


class Odds(Model):
    """score = w P(strong) + P(dependent), with w = 2, or by one of the two alone.

    Strong: other baskets show the pair at least five times, query first, significantly above four
    times chance. Dependent: they show it more often than chance explains. See `fit`.
    """

    name: ClassVar[str] = "odds"
    kind: ClassVar[str] = "hybrid"
    description: ClassVar[str] = (
        "The odds that other baskets show a pair as strong or dependent, learned on halves."
    )
    Parameters: ClassVar[type[ModelParameters]] = OddsParameters
    min_score: ClassVar[float] = 0.0
    scores_unseen_items: ClassVar[bool] = True
    features: PairFeatures
    regressions: dict[str, Floats]
    """Weights by outcome: strong, dependent."""
    learned: dict[str, Any]
    """What the fit found, by outcome; see `learn`."""
    mixture: sparse.csr_matrix
    """Shares of the items whose scores are averaged for each query; see `stand_ins`."""
    is_mixed: npt.NDArray[np.bool_]

    def check_run(self, run: Run) -> None:
        """Device gpu is accepted: the fit runs on the CPU all the same, and logs it."""
        super().check_run(replace(run, device="cpu"))

    def _fit(self, baskets: Baskets, run: Run) -> None:
        if run.device == "gpu":
            log.info("fitting %s on the CPU: it has no GPU kernels", self.name)
        catalog = CatalogFeatures.of(self.catalog)
        counting = replace(self.parameters.counting(), max_pairs=self.parameters.max_pairs)
        strata = self.parameters.strata_names
        rng = as_generator(run.rng)

        def features_of(counts: PairCounts) -> PairFeatures:
            return PairFeatures.of(counts, catalog, self.parameters.rank, rng)

        pairs = []
        for learned, shown in parts_of(baskets):
            part, held_out = baskets.select(learned), baskets.select(shown)
            counts = PairCounts.of(part, counting, strata=strata, book=run.book_of(part))
            outcome = Outcome.of(run.book_of(held_out), counting, strata)
            pairs.append(Pairs.of(features_of(counts), outcome, rng))
        self.regressions, self.learned = learn(Pairs.joined(pairs))
        counts = PairCounts.of(baskets, counting, strata=strata, book=run.book_of(baskets))
        if counts.least > 1:
            log.info("pairs seen fewer than %d times are left out, for memory", counts.least)
        self._set_features(features_of(counts))

    def _set_features(self, features: PairFeatures) -> None:
        self.features = features
        self.cart_ranking = CartRegression(features.counts, self.item_count.astype(np.float64))
        self.mixture = stand_ins(self.item_count, *features.catalog)
        self.is_mixed = self.mixture.diagonal() < 1

    # ---- scoring

    def _score(self, queries: Codes, items: Codes) -> Scores:
        rare = np.flatnonzero(self.is_mixed[queries])
        scores = np.empty(len(queries))
        usual = np.delete(np.arange(len(queries)), rare)
        scores[usual] = self._own_scores(queries[usual], items[usual])
        for first in range(0, len(rare), BLOCK // STAND_INS):
            part = rare[first : first + BLOCK // STAND_INS]
            pair, query, share = expanded(self.mixture, queries[part])
            item = items[part][pair]
            score = np.where(query == item, 0.0, self._own_scores(query, item)) * share
            scores[part] = np.bincount(pair, weights=score, minlength=len(part))
        return scores

    def _score_all(self, queries: Codes) -> Scores:
        size = len(self.catalog)
        every = np.arange(size, dtype=np.int32)
        scores = self._score(np.repeat(queries, size), np.tile(every, len(queries)))
        return scores.reshape(len(queries), size)

    def _own_scores(self, queries: Codes, items: Codes) -> Scores:
        """Without stand-ins; pairs of a query adjoin where they are sorted."""
        order = np.argsort(queries, kind="stable")
        out = np.zeros(len(queries))
        for first in range(0, len(order), BLOCK):
            part = order[first : first + BLOCK]
            columns, count, expected = self.features.columns(queries[part], items[part])
            design = design_of(columns, count, expected)
            for name, weight in zip(STARTS, GOALS[self.parameters.goal], strict=True):
                start = STARTS[name](count, expected)
                odds = log_odds(self.regressions[name], design, start)
                out[part] += weight * special.expit(odds)
        return out

    # ---- saving

    def item_vectors(self) -> npt.NDArray[np.float32]:
        """Low-rank vectors of the log-lifts, shape (items, rank)."""
        return self.features.vectors

    def fit_info(self) -> dict[str, Any]:
        """What was learned, by outcome."""
        return self.learned

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        features = self.features
        arrays = matrix_arrays("pair", features.counts.matrix)
        arrays |= {"pair_total": features.counts.total}
        arrays |= matrix_arrays("neighbours", features.neighbours, "")
        if features.catalog.names is not None:
            arrays |= matrix_arrays("names", features.catalog.names, "")
        arrays |= {"vectors": features.vectors, "signs": features.signs}
        arrays |= {"category": features.catalog.category}
        arrays |= {f"odds_{name}": weights for name, weights in self.regressions.items()}
        learned = json.dumps(self.learned).encode()
        return {**arrays, "learned": np.frombuffer(learned, dtype=np.uint8)}

    @classmethod
    def array_specs(cls) -> Mapping[str, ArraySpec]:
        names = {
            name: spec._replace(required=False)
            for name, spec in matrix_specs("names", "", kind="f").items()
        }
        return {
            **matrix_specs("pair"),
            "pair_total": ArraySpec("i", low=0),
            **matrix_specs("neighbours", "", kind="f"),
            **names,
            "vectors": ArraySpec("f", ("items", "rank")),
            "signs": ArraySpec("f", ("rank",)),
            "category": ArraySpec("i", low=-1),
            **{f"odds_{name}": ArraySpec("f", ("features",)) for name in STARTS},
        }

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        size = len(self.catalog)
        names = restored_matrix(arrays, "names", size, "") if "names_start" in arrays else None
        features = PairFeatures(
            PairCounts(restored_matrix(arrays, "pair", size), arrays["pair_total"]),
            CatalogFeatures(arrays["category"], names),
            arrays["vectors"],
            arrays["signs"],
            restored_matrix(arrays, "neighbours", size, ""),
        )
        self.regressions = {name: arrays[f"odds_{name}"] for name in STARTS}
        for name, weights in self.regressions.items():
            if len(weights) != 2 + len(FEATURES) + len(CURVE):
                raise ValueError(f"`odds_{name}` must have a weight per feature")
        self.learned = json.loads(arrays["learned"].tobytes())
        self._set_features(features)
