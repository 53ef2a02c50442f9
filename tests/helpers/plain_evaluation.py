"""The metrics in plain Python, slow and obvious: the reference for the fast code."""

import math
from collections.abc import Mapping, Sequence


def possible_ranks(scores: Mapping[int, float], item: int) -> list[int]:
    """The ranks that `item` may have when ties are broken at random; none when it is no
    candidate."""
    if item not in scores:
        return []
    higher = sum(score > scores[item] for score in scores.values())
    equal = sum(score == scores[item] for score in scores.values())
    return [higher + 1 + tied for tied in range(equal)]


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def hit_rate(scores: Mapping[int, float], item: int, k: int) -> float:
    return mean([float(rank <= k) for rank in possible_ranks(scores, item)])


def ndcg(scores: Mapping[int, float], item: int, k: int) -> float:
    return mean(
        [1 / math.log2(1 + rank) if rank <= k else 0.0 for rank in possible_ranks(scores, item)]
    )


def reciprocal_rank(scores: Mapping[int, float], item: int) -> float:
    return mean([1 / rank for rank in possible_ranks(scores, item)])


def best(scores: Mapping[int, float], top: int) -> list[int]:
    """The best items, equal scores by ascending item, filled up with -1."""
    ordered = sorted(scores, key=lambda item: (-scores[item], item))[:top]
    return ordered + [-1] * (top - len(ordered))
