"""`bayes`: the lift of each pair has a prior made of all that is known about its items; the posterior ranks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse, special

from neatrec.data.baskets import Baskets
from neatrec.errors import must_be
from neatrec.models.base import Codes, Model, Scores
from neatrec.models.bayes.calibration import Calibration
from neatrec.models.bayes.features import PairFeatures, Surroundings
from neatrec.models.bayes.fit import Lessons, learn
from neatrec.models.bayes.order import Order
from neatrec.models.bayes.prior import Weights
from neatrec.models.bayes.ranker import Ranking, rank_pairs
from neatrec.models.bayes.rows import rank_rows
from neatrec.models.bayes.scoring import log_priors
from neatrec.models.bayes.screen import CoarseScorer
from neatrec.models.bayes.significance import sure_pairs_odds, sure_rows_odds, without_sureness
from neatrec.models.counts import CountParameters, PairCounts
from neatrec.models.parallel import MIN_PAIRS_PER_THREAD, one_blas_thread, parallel_slices
from neatrec.models.parameters import ModelParameters, parameter
from neatrec.models.run import Run
from neatrec.models.statistics import LLR

log = logging.getLogger(__name__)

BLOCK_NUMBERS = 4_000_000
"""Queries are answered in blocks of about this many pairs: some 150 MB."""


@dataclass(frozen=True)
class BayesParameters(CountParameters):
    rank: int = parameter(128, "Factors of the low-rank part of the prior.", low=1)
    min_pair_count: int = parameter(2, "Pairs seen fewer times are left out of the low-rank part.", low=1)
    strong_lift: float = parameter(4.0, "A held-out pair teaches when its lift is at least this.", low=1.0)
    max_pairs: int = parameter(100_000_000, "Of more different pairs the rarest are left out, for memory.", low=1)


@dataclass(frozen=True)
class Posterior:
    """What is known about the lift of pairs: float64 arrays of one length."""

    mean: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]


class Bayes(Model):
    """Lifts drawn towards what everything else says, ranked by how surely new baskets will show them.

    The posterior lift is (C + k m) / (E + k): counts, drawn towards a prior mean m by k expected times together. m is
    made of signs: a low-rank reconstruction of the log-lifts, the counts of items of like names, the lift of the two
    categories, that of the names' words, and how often the item is bought. Weights and k are those that bring most
    strong pairs of held-out training baskets among the first ten. Where they do not beat shrunk lift there, m is 0 and
    the model is shrunk lift. The score is the odds that a pair turns out surely strong in other baskets (`Ranking`), or
    the posterior lift where the odds do not rank held-out baskets better.
    """

    name: ClassVar[str] = "bayes"
    kind: ClassVar[str] = "hybrid"
    description: ClassVar[str] = "Lift drawn towards what like items, names, categories and low-rank structure predict."
    Parameters: ClassVar[type[ModelParameters]] = BayesParameters
    min_score: ClassVar[float] = 0.0
    evidence: PairFeatures
    weights: Weights
    ranking: Ranking | None
    calibration: Calibration
    lessons: Lessons

    def check_run(self, run: Run, *, validation: bool = False) -> None:
        """Device gpu is accepted: the fit runs on the CPU all the same, and logs it."""
        super().check_run(replace(run, device="cpu"), validation=validation)

    def _fit(self, shards: Iterable[Baskets], run: Run) -> None:
        if run.device == "gpu":
            log.info("fitting %s on the CPU: it has no GPU kernels", self.name)
        around = Surroundings.of(self.catalog)
        with one_blas_thread():  # rows have threads of their own: more would wait for each other
            self.evidence, self.lessons = learn(shards, self.parameters, around, run, self._block)
        self._take(self.lessons)

    def _take(self, lessons: Lessons) -> None:
        self.lessons, self.weights = lessons, lessons.weights
        self.ranking, self.calibration = lessons.ranking, lessons.calibration
        # shrunk lift has nothing to say about an item that was never bought
        self.scores_unseen_items = lessons.weights.signs is not None  # type: ignore[misc]

    @property
    def _block(self) -> int:
        return max(1, BLOCK_NUMBERS // max(len(self.catalog), 1))

    def _score_all(self, queries: Codes) -> Scores:
        out = np.empty((len(queries), len(self.catalog)), dtype=np.float32)
        for first in range(0, len(queries), self._block):
            part = slice(first, first + self._block)
            rank_rows(self.evidence, self.weights, self.ranking, queries[part], out[part])
        return out

    def _score(self, queries: Codes, items: Codes) -> Scores:
        return _in_parts(queries, items, lambda *pairs: rank_pairs(self.evidence, self.weights, self.ranking, *pairs))

    @property
    def has_screen(self) -> bool:
        """Whether `screen` helps to find the best: shrunk lift has few scores above 0 to look at."""
        return self.weights.signs is not None

    def screen(self, codes: Codes) -> CoarseScorer:
        """Near logarithms of the scores with the items `codes`, ascending, for those who look for the best of them."""
        return CoarseScorer(self.evidence, self.weights, self.ranking, codes)

    def posterior(self, queries: npt.ArrayLike, items: npt.ArrayLike, level: float = 0.95) -> Posterior:
        """Mean and central credible interval of each pair's lift: codes in, as for `score`.

        The prior is calibrated on pairs that would be recommended, so that the mean is what new baskets will show.
        """
        if not 0 < level < 1:
            raise must_be("level", "between 0 and 1", level)
        shape, rate = self.posterior_gamma(queries, items)
        tail = (1.0 - level) / 2.0
        low, high = (special.gammaincinv(shape, share) / rate for share in (tail, 1.0 - tail))
        return Posterior(shape / rate, low, high)

    def posterior_gamma(
        self, queries: npt.ArrayLike, items: npt.ArrayLike
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Shape and rate of the gamma distribution of each pair's lift: codes in, as for `score`."""
        queries, items = self._codes("queries", queries), self._codes("items", items)
        if len(queries) != len(items):
            raise must_be("items", f"as long as `queries` ({len(queries)})", len(items))
        counts = self.evidence.counts
        return self.calibration.shape_and_rate(
            counts.of_pairs(queries, items),
            counts.expected(counts.total[queries], counts.total[items]),
            log_priors(self.evidence, self.weights, queries, items),
        )

    def item_vectors(self) -> npt.NDArray[np.float32] | None:
        """Low-rank factors scaled by the root of their values, shape (items, rank)."""
        return self.evidence.vectors * np.sqrt(np.abs(self.evidence.values))

    def _unseen_note(self, code: int) -> str:
        note = super()._unseen_note(code)
        return f"{note}: what is known comes from its name and category" if self.scores_unseen_items else note

    def fit_info(self) -> dict[str, Any]:
        counts, most = self.evidence.counts, self.parameters.max_pairs
        pairs = {"kept": counts.matrix.nnz // 2, "most": most, "left_out_below": counts.least}
        return {**self.lessons.to_dict(), "pairs": pairs}

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        evidence = self.evidence
        arrays = {
            **_pairs("pair", evidence.counts.matrix),
            "vectors": evidence.vectors,
            "values": evidence.values,
            "word_vectors": evidence.word_vectors,
            "word_values": evidence.word_values,
            "category": evidence.category,
            "category_lift": evidence.category_lift,
            **_pairs("company", evidence.company),
            **evidence.order.arrays(),
            "weights": self.weights.to_array(),
            "ranking": _ranking_array(self.ranking),
            "sure_ranking": _ranking_array(self.lessons.sure),
            "calibration": self.calibration.to_array(),
            "lessons": self.lessons.to_array(),
        }
        if evidence.near is not None:
            arrays |= _pairs("near", evidence.near.matrix)
        if evidence.counts.least > 1:
            arrays |= {"least": np.array([evidence.counts.least]), "pair_total": evidence.counts.total}
            arrays |= {} if evidence.near is None else {"near_total": evidence.near.total}
        if evidence.like is not None:
            arrays |= _pairs("like", evidence.like)
        return arrays

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        size = len(self.catalog)
        near = _counts("near", arrays, size) if "near_start" in arrays else None
        like = _matrix("like", arrays, size) if "like_start" in arrays else None
        counts = _counts("pair", arrays, size)
        company = _matrix("company", arrays, size)
        self.evidence = PairFeatures(counts, near, arrays, arrays["category"], like, company, Order.from_arrays(arrays))
        learned = (
            Weights.from_array(arrays["weights"]),
            Ranking.from_array(arrays["ranking"]),
            Ranking.from_array(arrays.get("sure_ranking", np.zeros(0))),
            Calibration.from_array(arrays["calibration"]),
        )
        self._take(Lessons.from_array(*learned, arrays["lessons"]))


class BayesSure(Bayes):
    """What `bayes` learned, ranked by the odds that other baskets show a dependence beyond doubt, whatever its lift.

    Where these odds do not rank held-out baskets better than G^2 does, G^2 ranks.
    """

    name: ClassVar[str] = "bayes-sure"
    shares_fit_with: ClassVar[str] = "bayes"
    description: ClassVar[str] = "The evidence of bayes, ranked by significance: how unlikely a pair is by chance."

    def _score(self, queries: Codes, items: Codes) -> Scores:
        sure = self.lessons.sure
        if sure is None:
            return self._g2()._score(queries, items)
        return _in_parts(queries, items, lambda *pairs: sure_pairs_odds(self.evidence, self.weights, sure, *pairs))

    def _score_all(self, queries: Codes) -> Scores:
        if self.lessons.sure is None:
            return self._g2()._score_all(queries)
        out = np.empty((len(queries), len(self.catalog)), dtype=np.float32)
        for first in range(0, len(queries), self._block):
            part = slice(first, first + self._block)
            sure_rows_odds(self.evidence, self.weights, self.lessons.sure, queries[part], out[part])
        return out

    @property
    def has_screen(self) -> bool:
        return self.lessons.sure is not None

    def screen(self, codes: Codes) -> CoarseScorer:
        if self.lessons.sure is None:
            raise ValueError("G^2 ranks, and needs no screen")
        usual, sureness = without_sureness(self.lessons.sure)
        return CoarseScorer(self.evidence, self.weights, usual, codes, sureness)

    def _g2(self) -> LLR:
        model = LLR()
        model.counts = self.evidence.counts
        return model


def _in_parts(queries: Codes, items: Codes, score: Callable[[Codes, Codes], npt.NDArray[np.float32]]) -> Scores:
    """What `score` gives the pairs, (pairs,), which are shared out among the cores."""
    out = np.empty(len(queries), dtype=np.float32)

    def work(part: slice) -> None:
        out[part] = score(queries[part], items[part])

    parallel_slices(len(queries), work, min_rows=MIN_PAIRS_PER_THREAD)
    return out


def _ranking_array(ranking: Ranking | None) -> npt.NDArray[np.float64]:
    return np.zeros(0) if ranking is None else ranking.to_array()


def _pairs(name: str, matrix: sparse.csr_matrix) -> dict[str, npt.NDArray[Any]]:
    return {
        f"{name}_start": matrix.indptr.astype(np.int64),
        f"{name}_item": matrix.indices.astype(np.int32),
        f"{name}_count": matrix.data,
    }


def _counts(name: str, arrays: Mapping[str, npt.NDArray[Any]], size: int) -> PairCounts:
    """Totals stand among the arrays only where pairs were left out."""
    least = int(arrays["least"][0]) if "least" in arrays else 1
    total = arrays[f"{name}_total"].astype(np.int64) if "least" in arrays else None
    return PairCounts(_matrix(name, arrays, size), total, least)


def _matrix(name: str, arrays: Mapping[str, npt.NDArray[Any]], size: int) -> sparse.csr_matrix:
    parts = (arrays[f"{name}_count"], arrays[f"{name}_item"], arrays[f"{name}_start"])
    matrix = sparse.csr_matrix(parts, shape=(size, size))
    matrix.check_format(full_check=True)
    return matrix
