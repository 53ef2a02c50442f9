"""What a GPU does of a fit: the low-rank part, who keeps like company, the best-ranked pairs, the search for weights.

The numbers are those of the CPU but for rounding. CountOptions, words, hints and the regression stay on the CPU.
"""

from __future__ import annotations

import logging
from contextlib import nullcontext
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neatrec.cooccurrence.count_input import removal_codes
from neatrec.errors import must_be
from neatrec.models.bayes import lowrank
from neatrec.models.bayes.features import PairFeatures
from neatrec.models.bayes.gpu_screen import SOURCES, GpuScreen
from neatrec.models.bayes.lowrank import COMPANY, Factors
from neatrec.models.bayes.names import NEIGHBOURS
from neatrec.models.bayes.prior import FARTHEST, Weights
from neatrec.models.bayes.prior_tuning import COLUMNS, Practice
from neatrec.models.bayes.ranker import Ranking
from neatrec.models.bayes.screen import CoarseScorer
from neatrec.models.embeddings.kernels.dispatch import able
from neatrec.models.embeddings.kernels.gpu import compiled_module, cupy, memory_for
from neatrec.models.parallel import at_most
from neatrec.models.run import Run
from neatrec.models.tuned_lift import FIRST

Codes = npt.NDArray[np.int32]
BLOCK_SCORES = 2**24
"""Scores sorted at a time; there are ten arrays of so many numbers: 700 MB."""
log = logging.getLogger(__name__)


def device_of(run: Run) -> str:
    """`cpu` or `gpu` for a fit: `auto` is a GPU that can do what was asked, and the log says which and why not.

    Asked for by name, a GPU that is not there or cannot do it is an error.
    """
    device, refused = _device(run)
    if refused is not None:
        log.info("learning on the CPU: %s", refused)
    else:
        log.info("learning on the %s", device.upper())
    return device


def device_for(run: Run) -> str:
    """Where a fit would be done, without a word and without looking for a GPU that is asked for by name."""
    return run.device if run.device != "auto" else _device(run)[0]


def refuse_device(run: Run) -> None:
    """Raise what keeps a fit from the GPU that is asked for by name."""
    _device(run)


def _device(run: Run) -> tuple[str, str | None]:
    """(`cpu` or `gpu`, what keeps `auto` from the GPU)."""

    def require_gpu() -> None:
        if run.reproducible:
            raise must_be("reproducible", "false on device gpu, which rounds otherwise", True, hint="Use device cpu.")
        cupy()
        compiled_module(SOURCES, ())

    return able(run.device, require_gpu)


def factors(matrix: Any, rank: int, rng: np.random.Generator) -> tuple[Factors, Factors]:
    """`lowrank.factors` on a GPU; vectors may have the other sign."""
    return lowrank.factors(matrix, rank, rng, subspace=_subspace)


def _subspace(matrix: Any, basis: Factors, rank: int) -> tuple[Factors, Factors]:
    cp = cupy()
    with memory_for(8 * matrix.size + 5 * basis.nbytes, "the low-rank part of the prior"):
        there = import_module("cupyx.scipy.sparse").csr_matrix if sparse.issparse(matrix) else cp.asarray
        vectors, values = lowrank.subspace(there(matrix), cp.asarray(basis), rank, cp)
        return vectors.get(), values.get()


def like_company(unit: Factors, category: npt.NDArray[np.int32]) -> sparse.csr_matrix:
    """`lowrank.like_company` on a GPU."""
    cp = cupy()
    with memory_for(unit.nbytes, "the low-rank vectors"):
        vectors = cp.asarray(unit)
    with at_most(1):  # there is one GPU to wait for
        return lowrank.like_company(unit, category, near=lambda rows, members: _nearest(cp, vectors, rows, members))


def _nearest(cp: Any, vectors: Any, rows: npt.NDArray[np.int64], members: npt.NDArray[np.int64]) -> Any:
    """`names.nearest` of the rows' vectors."""
    mine, others = cp.asarray(rows), cp.asarray(members)
    cosine = vectors[mine] @ vectors[others].T
    cosine[mine[:, None] == others] = 1.0
    least = cp.full(len(rows), COMPANY, dtype=np.float32)
    if len(members) > NEIGHBOURS:
        least = cp.maximum(least, cp.partition(cosine, len(members) - NEIGHBOURS, axis=1)[:, -NEIGHBOURS])
    row, column = cp.nonzero(cosine >= least[:, None])
    return rows[row.get()], members[column.get()], cosine[row, column].get() ** 2


def best_pairs(
    evidence: PairFeatures, weights: Weights, ranking: Ranking | None, category: Codes, queries: Codes, most: int
) -> tuple[Codes, Codes]:
    """Query and item of the `most` best-ranked pairs of each query, queries ascending; of other categories only."""
    cp, group = cupy(), removal_codes(category)
    sold = np.flatnonzero(evidence.counts.total > 0).astype(np.int32)
    screen = GpuScreen(CoarseScorer(evidence, weights, ranking, sold))
    most, size = min(most, len(sold)), max(1, BLOCK_SCORES // max(len(sold), 1))
    sold_group = cp.asarray(group[sold])
    asked, items = [], []
    with memory_for(40 * size * len(sold), "a block of scores"):
        for first in range(0, len(queries), size):
            some = queries[first : first + size].astype(np.int32)
            scores = screen.rows(some)
            scores[cp.asarray(group[some])[:, None] == sold_group] = -np.inf
            best = cp.argpartition(scores, len(sold) - most, axis=1)[:, len(sold) - most :]
            real = cp.isfinite(cp.take_along_axis(scores, best, axis=1)).get()
            asked.append(np.repeat(some, real.sum(axis=1)))
            items.append(sold[best.get()[real]])
    return np.concatenate(asked), np.concatenate(items)


class PracticeThere:
    """A `Practice` whose pairs lie on a GPU: the search for weights asks it for many values."""

    def __init__(self, practice: Practice, xp: Any = None) -> None:
        self.xp = cupy() if xp is None else xp
        sizes = np.diff(practice.start)
        query = np.searchsorted(practice.start, practice.strong, side="right") - 1
        longest = np.arange(sizes.max(initial=0))
        inside = longest < sizes[query][:, None]  # (strong pairs, longest)
        places = np.where(inside, practice.start[query][:, None] + longest, practice.strong[:, None])
        bytes_there = sum(getattr(practice, name).nbytes for name in COLUMNS) + places.nbytes
        with nullcontext() if xp is not None else memory_for(2 * bytes_there, "what the weights are learned from"):
            # a query's shorter list is filled with the strong pair itself, which is not above itself
            self.rivals, self.strong = self.xp.asarray(places), self.xp.asarray(practice.strong)
            self.weight = self.xp.asarray(practice.weight / practice.weight.sum())
            self.columns = {name: self.xp.asarray(getattr(practice, name)) for name in COLUMNS}

    def value(self, weights: Weights) -> float:
        """That of the practice, but for rounding."""
        xp, score = self.xp, self._score(weights)
        higher = (score[self.rivals] > score[self.strong][:, None]).sum(axis=1)
        gain = xp.where(higher < FIRST, 1.0 + 1.0 / xp.log2(2.0 + higher), 0.0)
        return float((self.weight * gain).sum())

    def _score(self, weights: Weights) -> Any:
        """`Weights.score`."""
        xp, near, k = self.xp, np.float32(weights.near), np.float32(weights.k)
        count, expected, near_count, near_expected, signs = (self.columns[name] for name in COLUMNS)
        above = count + (near_count - count) * near
        below = expected + (near_expected - expected) * near + k
        if weights.signs is not None:
            log_mean = xp.clip(signs @ xp.asarray(weights.signs.astype(np.float32)), -FARTHEST, FARTHEST)
            above += xp.exp(log_mean) * k
        return above / below
