"""Hit rate, NDCG and reciprocal rank equal their plain definitions, ties included."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from helpers import plain_evaluation as plain
from neatrec.evaluation.metrics import KS, ceiling, hit_rate, ndcg, reciprocal_rank

# few distinct values, so that ties are the rule
score_lists = st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, -1.0]), min_size=2, max_size=40)


@given(score_lists, st.integers(1, 45), st.data())
def test_metrics_are_the_mean_over_all_ranks_a_tie_allows(
    scores: list[float], k: int, data: st.DataObject
) -> None:
    item = data.draw(st.integers(0, len(scores) - 1))
    by_item, own = dict(enumerate(scores)), scores[item]
    counts = np.array([sum(s > own for s in scores)]), np.array([sum(s == own for s in scores)])
    for ours, reference in (
        (hit_rate(*counts, k), plain.hit_rate(by_item, item, k)),
        (ndcg(*counts, k), plain.ndcg(by_item, item, k)),
        (reciprocal_rank(*counts), plain.reciprocal_rank(by_item, item)),
    ):
        assert ours[0] == pytest.approx(reference, abs=1e-12)
    # with one relevant item the ideal gain is 1, and scikit-learn averages over ties too
    relevant = np.zeros((1, len(scores)))
    relevant[0, item] = 1.0
    if k <= len(scores):
        theirs = ndcg_score(relevant, np.array([scores]), k=k)
        assert ndcg(*counts, k)[0] == pytest.approx(theirs, abs=1e-9)


@given(
    st.dictionaries(st.integers(0, 5), st.sets(st.integers(0, 9), min_size=1), min_size=1),
    st.sets(st.integers(0, 9)),
    st.sampled_from(KS),
)
def test_the_ceiling_counts_at_most_k_reachable_labels_a_query(
    labels: dict[int, set[int]], candidates: set[int], k: int
) -> None:
    row = np.array([q for q, items in labels.items() for _ in items])
    inside = np.array([item in candidates for items in labels.values() for item in items])
    reachable = sum(min(len(items & candidates), k) for items in labels.values())
    assert ceiling(row, inside)[k] == pytest.approx(reachable / len(row))
