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
from neatrec.data.splits import as_generator
from neatrec.models.base import ArraySpec, Codes, Model, Scores, matrix_specs
from neatrec.models.carts import CartRegression, same_category_pairs
from neatrec.models.counts import PairCounts, StrataParameters, matrix_arrays, restored_matrix
from neatrec.models.odds.features import WORDS, CatalogFeatures, PairFeatures
from neatrec.models.odds.fit import STARTS, Outcome, Pairs, learn, parts_of
from neatrec.models.odds.similarity import stand_ins
from neatrec.models.parameters import ModelParameters, parameter
from neatrec.models.run import Run

Floats = npt.NDArray[np.float64]

GOALS = {"balanced": (2.0, 1.0), "lift": (1.0, 0.0), "evidence": (0.0, 1.0)}
"""Weights of the probabilities of a strong and of a dependent pair."""
BLOCK = 100_000
"""Pairs whose features are in memory at a time."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OddsParameters(StrataParameters):
    """Parameters of `odds`."""

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
    cart_ranking: CartRegression
    features: PairFeatures
    regressions: dict[str, Floats]
    """Weights by outcome: level, factor of the start, features."""
    learned: dict[str, Any]
    """The learned weights, by outcome; see `learn`."""
    mixture: sparse.csr_matrix
    """Shares of the items whose scores are averaged for each query; see `stand_ins`."""

    def _fit(self, baskets: Baskets, run: Run) -> None:
        rng, strata = as_generator(run.rng), self.parameters.strata_names
        counting = replace(self.parameters.counting(), max_pairs=self.parameters.max_pairs)
        given = counting, strata, CatalogFeatures.of(self.catalog), self.parameters.rank, rng
        pairs = []
        for part, (described, shown) in enumerate(parts_of(baskets)):
            features = PairFeatures.of(run.book_of(baskets.select(described)), *given)
            outcome = Outcome.of(run.book_of(baskets.select(shown)), counting, strata)
            pairs.append(Pairs.of(part, features, outcome, rng))
        columns = zip(*pairs, strict=True)
        self.regressions, self.learned = learn(Pairs(*(np.concatenate(c) for c in columns)))
        book = run.book_of(baskets)
        features = PairFeatures.of(book, *given)
        if features.counts.least > 1:
            log.info("pairs seen fewer than %d times are left out", features.counts.least)
        category = counting.category_of(self.catalog)
        self._set_features(features, same_category_pairs(book, category))

    def _set_features(self, features: PairFeatures, same_category: sparse.csr_matrix) -> None:
        self.features = features
        bought = self.item_count.astype(np.float64)
        self.cart_ranking = CartRegression(features.counts, same_category, bought)
        self.mixture = stand_ins(self.item_count, *features.catalog)

    # ---- scoring

    def _score(self, queries: Codes, items: Codes) -> Scores:
        scores = np.zeros(len(queries))
        for first in range(0, len(queries), BLOCK):
            part = slice(first, first + BLOCK)
            shares = self.mixture[queries[part]]
            pair = np.repeat(np.arange(shares.shape[0]), np.diff(shares.indptr))
            query, item = shares.indices.astype(np.int32), items[part][pair]
            own = np.where(query == item, 0.0, self._own_scores(query, item))
            scores[part] = np.bincount(pair, own * shares.data, minlength=shares.shape[0])
        return scores

    def _score_all(self, queries: Codes) -> Scores:
        size = len(self.catalog)
        every = np.arange(size, dtype=np.int32)
        scores = self._score(np.repeat(queries, size), np.tile(every, len(queries)))
        return scores.reshape(len(queries), size)

    def _own_scores(self, queries: Codes, items: Codes) -> Scores:
        """Without stand-ins."""
        order = np.argsort(queries, kind="stable")
        design, count, expected = self.features.design(queries[order], items[order])
        out = np.zeros(len(queries))
        for (name, start), goal in zip(STARTS.items(), GOALS[self.parameters.goal], strict=True):
            level, factor, *rest = self.regressions[name]
            odds = level + factor * start(count, expected) + design @ rest
            out[order] += goal * special.expit(odds)
        return out

    # ---- saving

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        of, learned = self.features, json.dumps(self.learned).encode()
        return {
            **matrix_arrays("pair", of.counts.matrix),
            "pair_total": of.counts.total,
            **matrix_arrays("same_category", self.cart_ranking.same_category),
            **matrix_arrays("neighbours", of.neighbours, ""),
            **matrix_arrays("names", of.catalog.names, ""),
            "vectors": of.vectors,
            "signs": of.signs,
            "category": of.catalog.category,
            "category_order": of.category_order,
            **{f"odds_{name}": weights for name, weights in self.regressions.items()},
            "learned": np.frombuffer(learned, dtype=np.uint8),
        }

    @classmethod
    def array_specs(cls) -> Mapping[str, ArraySpec]:
        """The arrays of a bundle."""
        return {
            **matrix_specs("pair"),
            "pair_total": ArraySpec("i", low=0),
            **matrix_specs("same_category"),
            **matrix_specs("neighbours", "", kind="f"),
            **matrix_specs("names", "", kind="f"),
            "vectors": ArraySpec("f", ("items", "rank")),
            "signs": ArraySpec("f", ("rank",)),
            "category_order": ArraySpec("f", ("categories", "categories")),
            "category": ArraySpec("i", low=-1, high="categories"),
            **{f"odds_{name}": ArraySpec("f", ("features",)) for name in STARTS},
        }

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        size = len(self.catalog)
        self.regressions = {name: arrays[f"odds_{name}"] for name in STARTS}
        if len(arrays["odds_strong"]) != 2 + len(WORDS):
            raise ValueError("`odds_strong` must have a weight per feature")
        self.learned = json.loads(arrays["learned"].tobytes())
        features = PairFeatures(
            PairCounts(restored_matrix(arrays, "pair", size), arrays["pair_total"]),
            CatalogFeatures(arrays["category"], restored_matrix(arrays, "names", size, "")),
            arrays["vectors"],
            arrays["signs"],
            restored_matrix(arrays, "neighbours", size, ""),
            arrays["category_order"],
        )
        self._set_features(features, restored_matrix(arrays, "same_category", size))
