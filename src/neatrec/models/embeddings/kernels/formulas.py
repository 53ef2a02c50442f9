"""The losses of the embedding models and their gradients, in plain NumPy.

Vectors of several items stand in rows: (dim,) for the query or user, (partners, dim) and
(negatives, dim) for the rest. A log-variance is a vector of length 1: the same in every dimension.
Each loss is summed over the pairs of the query with its partners; each pair has all the negatives.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class Gaussians(NamedTuple):
    """One Gaussian, or several in rows: mean (..., dim), log_variance (..., 1)."""

    mean: Array
    log_variance: Array


def sigmoid(x: Array) -> Array:
    """1 / (1 + e^-x), without overflow."""
    return np.exp(-np.logaddexp(0, -x))


def log_expected_likelihood(a: Gaussians, b: Gaussians) -> Array:
    """The log expected likelihood, below equation 2 of the paper; several Gaussians broadcast.

    log E(a, b) = -1/2 log det(S) - dim/2 log 2 pi - 1/2 z' S^-1 z with z = mean_a - mean_b and
    S = variance_a + variance_b.
    """
    z = a.mean - b.mean
    variance = np.broadcast_to(np.exp(a.log_variance) + np.exp(b.log_variance), z.shape)
    likelihood: Array = -0.5 * (np.log(variance) + np.log(2 * np.pi) + z * z / variance).sum(
        axis=-1
    )
    return likelihood


def likelihood_gradients(a: Gaussians, b: Gaussians) -> tuple[Gaussians, Gaussians]:
    """The gradients of log E(a, b) with respect to a and to b."""
    z = a.mean - b.mean
    variance = np.exp(a.log_variance) + np.exp(b.log_variance)
    by_variance = 0.5 * (z * z / variance**2 - 1 / variance).sum(axis=-1, keepdims=True)
    by_mean = -z / variance
    return (
        Gaussians(by_mean, by_variance * np.exp(a.log_variance)),
        Gaussians(-by_mean, by_variance * np.exp(b.log_variance)),
    )


def hinges(query: Gaussians, partners: Gaussians, negatives: Gaussians, margin: float) -> Array:
    """The hinges margin - log E(q, v) + log E(q, v'), shape (partners, negatives)."""
    near = log_expected_likelihood(query, partners)
    far = log_expected_likelihood(query, negatives)
    return margin - near[:, None] + far[None, :]


def max_margin(query: Gaussians, partners: Gaussians, negatives: Gaussians, margin: float) -> float:
    """Equation 2 of the paper: sum over v, v' of max(0, margin - log E(q, v) + log E(q, v'))."""
    return float(np.maximum(hinges(query, partners, negatives, margin), 0).sum())


def max_margin_gradients(
    query: Gaussians, partners: Gaussians, negatives: Gaussians, margin: float
) -> tuple[Gaussians, Gaussians, Gaussians]:
    """The gradients of `max_margin` with respect to the query, the partners and the negatives."""
    active = hinges(query, partners, negatives, margin) > 0
    # active hinges of each partner and of each negative
    near, far = active.sum(axis=1)[:, None], active.sum(axis=0)[:, None]
    query_near, partner = likelihood_gradients(query, partners)
    query_far, negative = likelihood_gradients(query, negatives)
    return (
        Gaussians(
            *(
                ((far * f).sum(axis=0) - (near * n).sum(axis=0))
                for f, n in zip(query_far, query_near, strict=True)
            )
        ),
        Gaussians(*(-near * part for part in partner)),
        Gaussians(*(far * part for part in negative)),
    )


def skip_gram(query: Array, partners: Array, negatives: Array) -> float:
    """Sum over v of [-log sigmoid(f_q . g_v) - sum over v' of log sigmoid(-f_q . g_v')]."""
    near, far = partners @ query, negatives @ query
    return float(np.logaddexp(0, -near).sum() + len(partners) * np.logaddexp(0, far).sum())


def skip_gram_gradients(
    query: Array, partners: Array, negatives: Array
) -> tuple[Array, Array, Array]:
    """The gradients of `skip_gram` with respect to the query, the partners and the negatives."""
    near = sigmoid(partners @ query) - 1  # (partners,)
    far = len(partners) * sigmoid(negatives @ query)  # (negatives,)
    return near @ partners + far @ negatives, np.outer(near, query), np.outer(far, query)


class Triple(NamedTuple):
    """A query, its partners, a user and the negatives of each, or the gradients of all these."""

    query: Array  # f_q, (dim,)
    partners: Array  # g_v, (partners, dim)
    user: Array  # h_u, (dim,)
    other_queries: Array  # f_q', (negatives, dim)
    other_partners: Array  # g_v', (negatives, dim)
    other_users: Array  # h_u', (negatives, dim)


def cohesion(query: Array, partner: Array, user: Array) -> Array:
    """s(q, v, u) = f_q . g_v + f_q . h_u + g_v . h_u; rows broadcast."""
    s: Array = (query * partner + query * user + partner * user).sum(axis=-1)
    return s


def _cohesions(t: Triple) -> tuple[Array, Array, Array, Array]:
    """Of the true triples (partners,), and of those with negatives, (partners, negatives) each."""
    near = cohesion(t.query, t.partners, t.user)
    other_partner = np.broadcast_to(
        cohesion(t.query, t.other_partners, t.user), (len(t.partners), len(t.other_partners))
    )
    other_query = cohesion(t.other_queries[None], t.partners[:, None], t.user)
    other_user = cohesion(t.query, t.partners[:, None], t.other_users[None])
    return near, other_partner, other_query, other_user


def triplets(t: Triple) -> float:
    """Negative sampling of s on each of the three, summed over v.

    3 [-log sigmoid(s(q, v, u))] and, summed over the negatives,
    -log sigmoid(-s(q, v', u)) - log sigmoid(-s(q', v, u)) - log sigmoid(-s(q, v, u')).
    """
    near, *far = _cohesions(t)
    return float(3 * np.logaddexp(0, -near).sum() + sum(np.logaddexp(0, s).sum() for s in far))


def triplets_gradients(t: Triple) -> Triple:
    """The gradients of `triplets` with respect to everything in it."""
    near, other_partner, other_query, other_user = _cohesions(t)
    p = 3 * (sigmoid(near) - 1)  # (partners,)
    a = sigmoid(other_partner).sum(axis=0)  # (negatives,)
    b, c = sigmoid(other_query), sigmoid(other_user)  # (partners, negatives)
    pairs = p + c.sum(axis=1)  # weight of f_q . g_v, (partners,)
    return Triple(
        query=pairs @ t.partners
        + p.sum() * t.user
        + a @ t.other_partners
        + a.sum() * t.user
        + c.sum(axis=0) @ t.other_users,
        partners=np.outer(pairs, t.query)
        + np.outer(p + b.sum(axis=1), t.user)
        + b @ t.other_queries
        + c @ t.other_users,
        user=(p.sum() + a.sum()) * t.query
        + (p + b.sum(axis=1)) @ t.partners
        + a @ t.other_partners
        + b.sum(axis=0) @ t.other_queries,
        other_queries=b.T @ t.partners + np.outer(b.sum(axis=0), t.user),
        other_partners=np.outer(a, t.query + t.user),
        other_users=np.outer(c.sum(axis=0), t.query) + c.T @ t.partners,
    )


def ranking(user: Array, better: Array, worse: Array, logistic: bool) -> Array:
    """Equations 3 and 4 of the paper: 1 - sigmoid(theta_u . (mu - mu')); rows broadcast.

    Where `logistic`: -log sigmoid(theta_u . (mu - mu')).
    """
    x = ((better - worse) * user).sum(axis=-1)
    return np.logaddexp(0, -x) if logistic else 1 - sigmoid(x)


def ranking_weight(user: Array, better: Array, worse: Array, logistic: bool) -> Array:
    """Minus the derivative of `ranking` by theta_u . (mu - mu')."""
    s = sigmoid(((better - worse) * user).sum(axis=-1))
    return 1 - s if logistic else s * (1 - s)
