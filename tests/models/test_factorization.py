"""`cf` and `bprmf` are the `implicit` library, and nothing around it changes the numbers."""

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from helpers.toyshop import toy_baskets
from neatrec.data import Baskets
from neatrec.errors import DivergedError
from neatrec.models import Run, make_model
from neatrec.models.factorization import purchases

SETTINGS = {"cf": {"dim": 10, "epochs": 4}, "bprmf": {"dim": 10, "epochs": 20}}


def called_directly(name: str, matrix: sparse.csr_matrix, seed: int) -> object:
    """The library as its own users call it."""
    from implicit.cpu.als import AlternatingLeastSquares
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    kind = {"cf": AlternatingLeastSquares, "bprmf": BayesianPersonalizedRanking}[name]
    with threadpool_limits(1, "blas"):
        model = kind(
            factors=10, iterations=SETTINGS[name]["epochs"], num_threads=1, random_state=seed
        )
        model.fit(matrix, show_progress=False)
    return model


def by_hand(baskets: Baskets, *, users: bool) -> sparse.csr_matrix:
    """Users (or baskets) by items, written into a dense table line by line."""
    names: dict[str, int] = {}
    table = np.zeros((len(baskets), len(baskets.catalog)), dtype=np.float32)
    for basket in range(len(baskets)):
        row = (
            names.setdefault(baskets.user_ids[baskets.users[basket]].as_py(), len(names))
            if users
            else basket
        )
        for line in range(baskets.offsets[basket], baskets.offsets[basket + 1]):
            table[row, baskets.items[line]] += 1
    return sparse.csr_matrix(table[: len(names)] if users else table)


@pytest.mark.parametrize("users", [True, False])
@pytest.mark.parametrize("name", ["cf", "bprmf"])
def test_equal_to_calling_the_library_directly(name: str, users: bool) -> None:
    baskets = toy_baskets(300, users=users)
    model = make_model(name, preset="paper", **SETTINGS[name]).fit(baskets, Run(rng=11, threads=1))
    matrix, _ = purchases(baskets)
    peer = called_directly(name, matrix, seed=11)
    assert np.array_equal(model.vectors, peer.item_factors)
    if users:
        assert np.array_equal(model.arrays(users=True)["user_vectors"], peer.user_factors)
    bought = np.flatnonzero(baskets.item_counts)
    with threadpool_limits(1, "blas"):
        ids, similar = peer.similar_items(bought, N=5)
    for query, row, scores in zip(bought, ids, similar, strict=True):
        np.testing.assert_allclose(model.score(np.full(5, query), row), scores, atol=1e-5)


@pytest.mark.parametrize("users", [True, False])
def test_the_matrix_counts_purchases(users: bool) -> None:
    baskets = toy_baskets(120, users=users)
    matrix, ids = purchases(baskets)
    plain = by_hand(baskets, users=users).toarray()
    assert (ids is not None) == users
    assert sorted(map(tuple, matrix.toarray())) == sorted(map(tuple, plain))
    assert matrix.sum() == baskets.lines


def test_numbers_that_run_away_name_the_setting_to_change(monkeypatch: pytest.MonkeyPatch) -> None:
    from implicit.cpu.als import AlternatingLeastSquares
    from implicit.recommender_base import ModelFitError

    def fail(*_: object, **__: object) -> None:
        raise ModelFitError("NaN encountered in factors")

    monkeypatch.setattr(AlternatingLeastSquares, "fit", fail)
    with pytest.raises(
        DivergedError, match=r"'cf' diverged: NaN encountered.*Raise `regularization`"
    ):
        make_model("cf").fit(toy_baskets())
