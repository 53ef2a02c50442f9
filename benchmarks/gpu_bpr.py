"""BPR of `implicit` on a GPU: the triples (a user, an item it has, one it has not) that it learns from in a second.

Needs implicit with its GPU part (`pip install implicit rmm-cu13`).
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy import sparse

from neatrec.data.baskets import Baskets

ITERATIONS = 6
DIM = 100


def implicit_speeds(baskets: Baskets) -> list[dict[str, Any]]:
    """Millions of triples a second, with and without a look whether the user has the other item too."""
    try:
        from implicit.gpu.bpr import BayesianPersonalizedRanking
    except ImportError as error:
        return [{"what": f"left out: {error}"}]
    bought = _matrix(baskets)
    rows = []
    for verify in (True, False):
        ends = [time.perf_counter()]
        model = BayesianPersonalizedRanking(
            factors=DIM, iterations=ITERATIONS, verify_negative_samples=verify, random_state=0
        )
        model.fit(bought, show_progress=False, callback=lambda *_, ends=ends: ends.append(time.perf_counter()))
        seconds = float(np.median(np.diff(ends)[1:]))
        rows.append(
            {
                "what": f"implicit BPR, {'verified' if verify else 'unverified'} negatives",
                "users": bought.shape[0],
                "million_triples_an_epoch": round(bought.nnz / 1e6, 3),
                "seconds_an_epoch": round(seconds, 4),
                "million_triples_a_second": round(bought.nnz / seconds / 1e6, 1),
            }
        )
        print(rows[-1], flush=True)
    return rows


def _matrix(baskets: Baskets) -> sparse.csr_matrix:
    """Which user has bought which item; a basket is a user where users are unknown."""
    owner = np.arange(len(baskets)) if baskets.users is None else baskets.users
    rows = np.repeat(owner, baskets.sizes)
    shape = (int(owner.max()) + 1, len(baskets.catalog))
    bought = sparse.csr_matrix((np.ones(len(rows), dtype=np.float32), (rows, baskets.items)), shape=shape)
    bought.sum_duplicates()
    bought.data[:] = 1
    return bought
