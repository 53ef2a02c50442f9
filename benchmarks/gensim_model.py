"""Peers of the embedding models under our contract: gensim's skip-gram, `popco` in a window."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neatrec.data.baskets import Baskets
from neatrec.data.catalog import UNKNOWN
from neatrec.data.splits import as_generator
from neatrec.models import Run
from neatrec.models.counts import PairCounts
from neatrec.models.parameters import ModelParameters, parameter
from neatrec.models.statistics import PopCo
from neatrec.models.vectors import CosineModel

DIM, WINDOW = 100, 5
Codes = npt.NDArray[np.int32]


@dataclass(frozen=True)
class GensimParameters(ModelParameters):
    epochs: int = parameter(20, "Passes over the pairs.", low=1)
    window: int = parameter(5, "Items at most this many places apart make a pair.", low=1)
    negatives: int = parameter(5, "Items drawn to compare a pair with.", low=1)
    negative_exponent: float = parameter(0.75, "Negatives are drawn by frequency to this power.")
    learning_rate: float = parameter(0.025, "gensim's own step; it falls to .0001.", above=0.0)


class Gensim(CosineModel):
    """Skip-gram on sentences of two items: the pairs that item2vec sees."""

    name: ClassVar[str] = "gensim"
    kind: ClassVar[str] = "paper"
    description: ClassVar[str] = "gensim's skip-gram; cosine of input vectors."
    Parameters: ClassVar[type[ModelParameters]] = GensimParameters

    def _fit(self, baskets: Baskets, run: Run) -> None:
        from gensim.models import Word2Vec

        p = self.parameters
        one, other = pairs_within(baskets, p.window)
        rng = as_generator(run.rng)
        order = rng.permutation(len(one))
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as corpus:
            corpus.writelines(f"{a} {b}\n" for a, b in zip(one[order], other[order], strict=True))
            corpus.flush()
            found = Word2Vec(
                corpus_file=corpus.name,
                vector_size=DIM,
                sg=1,
                negative=p.negatives,
                window=1,
                sample=0,
                shrink_windows=False,
                ns_exponent=p.negative_exponent,
                alpha=p.learning_rate,
                min_count=1,
                epochs=p.epochs,
                workers=run.thread_count,
                seed=int(rng.integers(2**31)),
            ).wv
        vectors = np.zeros((len(self.catalog), DIM), dtype=np.float32)
        vectors[[int(word) for word in found.index_to_key]] = found.vectors
        self._restore({"vectors": vectors})


class PopCoWithin(PopCo):
    """`popco` of the pairs that lie at most `WINDOW` lines apart in the cart."""

    def _fit(self, baskets: Baskets, run: Run) -> None:
        size, pairs = len(baskets.catalog), pairs_within(baskets, WINDOW)
        ones = np.ones(len(pairs[0]), dtype=np.int64)
        one_way = sparse.csr_matrix((ones, pairs), shape=(size, size))
        matrix = sparse.csr_matrix(one_way + one_way.T)
        self.counts = PairCounts(matrix, np.asarray(matrix.sum(axis=1)).ravel())


def pairs_within(baskets: Baskets, window: int) -> tuple[Codes, Codes]:
    """The pairs of other categories within the window, each once, shape (pairs,) each."""
    basket = np.repeat(np.arange(len(baskets)), np.diff(baskets.offsets))
    category = baskets.catalog.category_of()
    one, other = [], []
    for k in range(1, window + 1):
        a, b = baskets.items[:-k], baskets.items[k:]
        apart = (category[a] != category[b]) | (category[a] == UNKNOWN)
        kept = (basket[:-k] == basket[k:]) & apart
        one.append(a[kept])
        other.append(b[kept])
    return np.concatenate(one), np.concatenate(other)
