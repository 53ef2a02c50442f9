"""What every serving table must pass, wherever it was made."""

import numpy as np

from neatrec.models.base import Model
from neatrec.serving.topk import TopK


def assert_holds_what_recommend_names(found: TopK, model: Model, k: int) -> None:
    """A product of many rows rounds its last bits otherwise than that of one: only equals may change places."""
    for query in range(len(model.catalog)):
        row = slice(found.start[query], found.start[query + 1])
        wanted = model.rank(query, k)
        assert len(found.item[row]) == len(wanted)
        np.testing.assert_allclose(found.score[row], wanted.scores, rtol=1e-5, atol=1e-6)
        own = model.score(np.full(len(wanted), query), found.item[row])
        np.testing.assert_allclose(own, wanted.scores, rtol=1e-5, atol=1e-6)
        assert len(set(found.item[row].tolist())) == len(wanted)
