"""Ranks equal a plain count of higher and equal scores; errors name the model."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import plain_evaluation as plain
from helpers.evaluation_data import TableModel, candidates_of, random_baskets
from neatrec.data import Baskets
from neatrec.errors import DivergedError, ParameterError
from neatrec.evaluation import LabelQueries, rank_labels
from neatrec.evaluation.candidates import Candidates, candidate_set, catalogue, partners

VALUES = np.array([-np.inf, -1.0, 0.0, 0.5, 0.5, 1.0, 2.0])


def questions(seed: int, dtype: str = "float64") -> tuple[Baskets, LabelQueries, np.ndarray]:
    """Baskets, label records and a table of scores with many ties."""
    rng = np.random.default_rng(seed)
    baskets = random_baskets(rng, baskets=20)
    items = len(baskets.catalog)
    pairs = np.argwhere(rng.random((items, items)) < 0.2)
    table = rng.choice(VALUES, (items, items)).astype(dtype)
    return baskets, LabelQueries.from_pairs(pairs[:, 0], pairs[:, 1]), table


def both_sets(baskets: Baskets, queries: np.ndarray, size: int = 5) -> tuple[Candidates, ...]:
    return (catalogue(baskets, queries), candidate_set(partners(baskets, queries), queries, size))


@settings(max_examples=40)
@given(
    st.integers(0, 100_000),
    st.sampled_from(["float32", "float64"]),
    st.integers(1, 8),
    st.integers(0, 5),
)
def test_ranks_equal_the_plain_count(seed: int, dtype: str, size: int, top: int) -> None:
    baskets, labels, table = questions(seed, dtype)
    everything, few = both_sets(baskets, labels.queries, size)
    for candidates in (everything, few):
        ranks = rank_labels(TableModel(table), candidates, labels, top=top)
        for row, q in enumerate(labels.queries.tolist()):
            items = candidates_of(baskets, q)
            if candidates is few:
                items = few.items[few.offsets[row] : few.offsets[row + 1]].tolist()
            scores = {item: float(table[q, item]) for item in items}
            assert ranks.best[row].tolist() == plain.best(scores, top)
            for label in range(labels.offsets[row], labels.offsets[row + 1]):
                possible = plain.possible_ranks(scores, int(labels.item[label]))
                assert ranks.equal[label] == len(possible)
                assert not possible or ranks.higher[label] == possible[0] - 1


def test_blocks_do_not_change_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    baskets, labels, table = questions(3)
    for candidates in both_sets(baskets, labels.queries):
        at_once = rank_labels(TableModel(table), candidates, labels)
        with monkeypatch.context() as patch:
            patch.setitem(rank_labels.__globals__, "BLOCK_SCORES", 13)
            blocks = rank_labels(TableModel(table), candidates, labels)
        for name in ("higher", "equal", "best"):
            assert np.array_equal(getattr(at_once, name), getattr(blocks, name))


@pytest.mark.parametrize("which", [0, 1], ids=["catalogue", "candidates"])
def test_a_nan_is_an_error_that_names_the_model_and_the_pair(which: int) -> None:
    baskets, labels, table = questions(5)
    candidates = both_sets(baskets, labels.queries)[which]
    query = int(labels.queries[1])
    item = rank_labels(TableModel(table), candidates, labels).best[1, 0]
    table[query, item] = np.nan
    message = rf"model 'broken' gives .* \(NaN\) to item code {item} .* code {query}"
    with pytest.raises(DivergedError, match=message):
        rank_labels(TableModel(table, "broken"), candidates, labels)


def test_scores_of_another_shape_are_refused_by_the_name_of_the_class() -> None:
    baskets, labels, table = questions(6)

    class Nameless:
        def score_all(self, codes: np.ndarray) -> np.ndarray:
            return np.hstack([table, table])[codes]

    with pytest.raises(ParameterError, match="model 'Nameless' must give scores of shape"):
        rank_labels(Nameless(), catalogue(baskets, labels.queries), labels)
