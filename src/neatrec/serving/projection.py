"""The map: a place in the plane for each item."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import svds

from neatrec.models.base import Model
from neatrec.serving.pairs import PairTable

PSEUDO = 3.0
"""Added to counts seen and expected, so that rare pairs do not pull the map apart."""

Positions = npt.NDArray[np.float32]


def map_items(model: Model, pairs: PairTable) -> Positions | None:
    """The two directions in which the items differ most, shape (items, 2), the items' spread scaled to 1.

    Of the model's vectors, brought to length 1; where it has none, of the log-lifts of the pairs. None for fewer than
    three bought items. The same input gives the same map, NaN for items that no basket holds.
    """
    bought = np.flatnonzero(model.item_count > 0)
    vectors = model.item_vectors()
    rows: Any = _log_lifts(pairs)[bought] if vectors is None else _directions(vectors[bought])
    if min(rows.shape) < 3:
        return None
    places = np.full((len(model.item_count), 2), np.nan, dtype=np.float32)
    places[bought] = _two_directions(rows)
    return places


def _two_directions(rows: Any) -> npt.NDArray[np.float64]:
    """The first two principal components of `rows` (items, any), each with a spread of 1 where it has any."""
    middle = np.asarray(rows.mean(axis=0)).ravel()
    if sparse.issparse(rows):
        # centring would fill the matrix: the first direction, common to all items, is left out instead
        left, values, _ = svds(rows, k=min(3, min(rows.shape) - 1), v0=np.ones(min(rows.shape)), solver="arpack")
        order = np.argsort(-values)[1:3]
        places = left[:, order] * values[order]
    else:
        centred = rows - middle
        _, directions = np.linalg.eigh(centred.T @ centred)
        places = centred @ directions[:, :-3:-1]
    places = np.pad(places, ((0, 0), (0, 2 - places.shape[1])))
    # a direction has no sign: the item that is farthest out is put on the right, or on top
    farthest = places[np.argmax(np.abs(places), axis=0), np.arange(2)]
    spread = places.std(axis=0)
    return places * np.where(farthest < 0, -1.0, 1.0) / np.where(spread > 0, spread, 1.0)


def _directions(vectors: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    rows = vectors.astype(np.float64)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1.0)


def _log_lifts(pairs: PairTable) -> sparse.csr_matrix:
    """log((C + 3) / (E + 3)) of the pairs above chance, symmetric, shape (items, items)."""
    query = np.repeat(np.arange(len(pairs.start) - 1), np.diff(pairs.start))
    expected = pairs.query_factor[query] * pairs.item_factor[pairs.item]
    value = np.maximum(np.log((pairs.times + PSEUDO) / (expected + PSEUDO)), 0.0)
    size = len(pairs.start) - 1
    upper = sparse.csr_matrix((value, pairs.item, pairs.start), shape=(size, size))
    return (upper + upper.T).tocsr()
