"""Hit rate, NDCG and reciprocal rank equal their plain definitions, ties included."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from helpers import plain_evaluation as plain
from neatrec.errors import ParameterError
from neatrec.evaluation.metrics import (
    ceiling,
    check_ks,
    hit_rate,
    metric_names,
    metric_values,
    ndcg,
    reciprocal_rank,
)

# few distinct values, so that ties are the rule
score_lists = st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, -1.0]), min_size=1, max_size=40)


def counts_of(scores: list[float], own: float) -> tuple[np.ndarray, np.ndarray]:
    return np.array([sum(s > own for s in scores)]), np.array([sum(s == own for s in scores)])


@given(score_lists, st.integers(1, 45), st.data())
def test_metrics_are_the_mean_over_all_ranks_a_tie_allows(
    scores: list[float], k: int, data: st.DataObject
) -> None:
    item = data.draw(st.integers(0, len(scores) - 1))
    by_item = dict(enumerate(scores))
    higher, equal = counts_of(scores, scores[item])
    assert hit_rate(higher, equal, k)[0] == pytest.approx(
        plain.hit_rate(by_item, item, k), abs=1e-12
    )
    assert ndcg(higher, equal, k)[0] == pytest.approx(plain.ndcg(by_item, item, k), abs=1e-12)
    assert reciprocal_rank(higher, equal)[0] == pytest.approx(
        plain.reciprocal_rank(by_item, item), abs=1e-12
    )


@given(
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=2, max_size=30),
    st.integers(1, 30),
    st.data(),
)
def test_ndcg_equals_scikit_learn_with_ties(
    scores: list[float], k: int, data: st.DataObject
) -> None:
    """With one relevant item the ideal gain is 1, and scikit-learn averages over ties as we do."""
    item = data.draw(st.integers(0, len(scores) - 1))
    relevant = np.zeros((1, len(scores)))
    relevant[0, item] = 1.0
    higher, equal = counts_of(scores, scores[item])
    assert ndcg(higher, equal, k)[0] == pytest.approx(
        ndcg_score(relevant, np.array([scores]), k=k), abs=1e-9
    )


def test_a_label_that_is_no_candidate_is_a_miss_in_every_metric() -> None:
    assert metric_values(np.array([0]), np.array([0])).tolist() == [[0.0] * len(metric_names())]


def test_deep_ranks_keep_their_precision() -> None:
    deep = reciprocal_rank(np.array([40_000, 40_000]), np.array([1, 3]))
    assert deep == pytest.approx(
        [1 / 40_001, np.mean([1 / 40_001, 1 / 40_002, 1 / 40_003])], rel=1e-9
    )


@given(
    st.dictionaries(st.integers(0, 5), st.sets(st.integers(0, 9), min_size=1), min_size=1),
    st.sets(st.integers(0, 9)),
    st.integers(1, 12),
)
def test_the_ceiling_counts_at_most_k_reachable_labels_a_query(
    labels, candidates: set[int], k: int
) -> None:
    row = np.array([q for q, items in labels.items() for _ in items])
    inside = np.array([item in candidates for items in labels.values() for item in items])
    wanted = plain.ceiling(
        {q: sorted(items) for q, items in labels.items()}, {q: list(candidates) for q in labels}, k
    )
    assert ceiling(row, inside, (k,))[k] == pytest.approx(wanted)


@pytest.mark.parametrize("bad", [(), (0,), (5, 1), (1, 1), (1.5,), (True,)])
def test_list_lengths_that_make_no_sense_are_refused(bad: tuple[int, ...]) -> None:
    with pytest.raises(ParameterError, match="`ks` must be list lengths of at least 1, ascending"):
        check_ks(bad)
