"""Ranks equal a plain count of who scores higher and who scores the same; NaN and wrong shapes are refused by name."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import plain_evaluation as plain
from helpers.evaluation_data import TableModel, candidates_of, random_baskets, scores_of
from neatrec.errors import DivergedError, ParameterError
from neatrec.evaluation.candidates import candidate_set, catalogue, partners
from neatrec.evaluation.ranks import LabelQueries, LabelRanks, rank_labels

VALUES = np.array([-np.inf, -1.0, 0.0, 0.5, 0.5, 1.0, 2.0])


def questions(seed: int, dtype: str = "float64"):
    """Baskets, label records and a table of scores full of ties."""
    rng = np.random.default_rng(seed)
    baskets = random_baskets(rng, baskets=20)
    items = len(baskets.catalog)
    pairs = np.argwhere(rng.random((items, items)) < 0.2)
    return (
        baskets,
        LabelQueries.from_pairs(pairs[:, 0], pairs[:, 1]),
        rng.choice(VALUES, (items, items)).astype(dtype),
    )


def check(
    label_ranks: LabelRanks,
    queries: LabelQueries,
    table: np.ndarray,
    candidates: dict[int, list[int]],
    top: int,
) -> None:
    for i, (q, v) in enumerate(zip(queries.query.tolist(), queries.item.tolist(), strict=True)):
        ranks = plain.possible_ranks(scores_of(table, q, candidates[q]), v)
        assert label_ranks.equal[i] == len(ranks)
        if ranks:
            assert label_ranks.higher[i] == ranks[0] - 1
    for row, q in enumerate(queries.queries.tolist()):
        assert label_ranks.best[row].tolist() == plain.best(scores_of(table, q, candidates[q]), top)


@settings(max_examples=40)
@given(st.integers(0, 100_000), st.sampled_from(["float32", "float64"]), st.integers(0, 5))
def test_catalogue_ranks_equal_the_plain_count(seed: int, dtype: str, top: int) -> None:
    baskets, queries, table = questions(seed, dtype)
    label_ranks = rank_labels(
        TableModel(table), catalogue(baskets, queries.queries), queries, top=top
    )
    check(
        label_ranks,
        queries,
        table,
        {q: candidates_of(baskets, q) for q in queries.queries.tolist()},
        top,
    )


@settings(max_examples=40)
@given(st.integers(0, 100_000), st.integers(1, 8), st.integers(0, 5))
def test_candidate_set_ranks_equal_the_plain_count(seed: int, size: int, top: int) -> None:
    baskets, queries, table = questions(seed)
    sets = candidate_set(partners(baskets, queries.queries), queries.queries, size)
    inside = {
        q: sets.items[sets.offsets[r] : sets.offsets[r + 1]].tolist()
        for r, q in enumerate(queries.queries)
    }
    check(rank_labels(TableModel(table), sets, queries, top=top), queries, table, inside, top)


def test_blocks_do_not_change_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    baskets, queries, table = questions(3)
    for candidates in (
        catalogue(baskets, queries.queries),
        candidate_set(partners(baskets, queries.queries), queries.queries, 5),
    ):
        whole = rank_labels(TableModel(table), candidates, queries)
        with monkeypatch.context() as patch:
            patch.setitem(rank_labels.__globals__, "BLOCK_SCORES", 13)
            parts = rank_labels(TableModel(table), candidates, queries)
        assert parts.higher.tolist() == whole.higher.tolist()
        assert parts.equal.tolist() == whole.equal.tolist()
        assert parts.best.tolist() == whole.best.tolist()


@pytest.mark.parametrize("set_name", ["catalogue", "candidates"])
def test_a_nan_is_an_error_that_names_the_model_and_the_pair(set_name: str) -> None:
    baskets, queries, table = questions(5)
    candidates = {
        "catalogue": catalogue(baskets, queries.queries),
        "candidates": candidate_set(partners(baskets, queries.queries), queries.queries, 5),
    }[set_name]
    query = int(queries.queries[1])
    inside = [v for v in range(len(table)) if candidates.holds(np.array([query]), np.array([v]))[0]]
    table[query, inside[0]] = np.nan
    with pytest.raises(
        DivergedError,
        match=rf"model 'broken' gives .* \(NaN\) to item code {inside[0]} .* code {query}",
    ):
        rank_labels(TableModel(table, "broken"), candidates, queries)


def test_a_model_without_a_name_is_ranked_and_called_by_its_class() -> None:
    baskets, queries, table = questions(4)

    class Nameless:
        def score_all(self, codes: np.ndarray) -> np.ndarray:
            return table[codes]

    candidates = catalogue(baskets, queries.queries)
    found = rank_labels(Nameless(), candidates, queries)
    assert np.array_equal(found.best, rank_labels(TableModel(table), candidates, queries).best)
    table[:] = np.nan
    with pytest.raises(DivergedError, match="model 'Nameless' gives"):
        rank_labels(Nameless(), candidates, queries)


def test_what_does_not_fit_together_is_refused() -> None:
    baskets, queries, table = questions(6)
    wide = TableModel(np.hstack([table, table]), "wide")
    with pytest.raises(ParameterError, match="model 'wide' must give scores of shape"):
        rank_labels(wide, catalogue(baskets, queries.queries), queries)
    with pytest.raises(
        ParameterError, match="`candidates` must be made for the queries of the label records"
    ):
        rank_labels(TableModel(table), catalogue(baskets, queries.queries[1:]), queries)
    with pytest.raises(ParameterError, match="label records must be sorted by query, then item"):
        LabelQueries.from_pairs([2, 1], [0, 0])
