"""Every gradient against finite differences, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from neatrec.models.embeddings.kernels import formulas
from neatrec.models.embeddings.kernels.formulas import Gaussians, Triple

DIMS = [1, 3, 7]


def numerical_gradient(loss: Callable[[np.ndarray], float], at: np.ndarray) -> np.ndarray:
    """Central differences of fourth order."""
    out, h = np.zeros(at.size), 1e-3
    for place in range(at.size):
        step = np.zeros(at.size)
        step[place] = h
        step = step.reshape(at.shape)
        out[place] = (
            8 * (loss(at + step) - loss(at - step)) - (loss(at + 2 * step) - loss(at - 2 * step))
        ) / (12 * h)
    return out.reshape(at.shape)


def assert_gradients(
    loss: Callable[..., Any], parts: Sequence[np.ndarray], found: Sequence[np.ndarray]
) -> None:
    """`found` are the derivatives of loss(*parts) by each part."""
    for number, gradient in enumerate(found):

        def of_part(x: np.ndarray, number: int = number) -> float:
            return float(
                loss(*(x if place == number else part for place, part in enumerate(parts)))
            )

        wanted = numerical_gradient(of_part, parts[number])
        assert np.abs(gradient - wanted).max() <= 1e-6 * max(np.abs(wanted).max(), 1e-3)


def gaussians(rng: np.random.Generator, shape: tuple[int, ...]) -> Gaussians:
    return Gaussians(rng.normal(size=shape), rng.normal(size=(*shape[:-1], 1)) * 0.5)


def paired(*parts: np.ndarray) -> list[Gaussians]:
    """Means and log-variances in turn."""
    return [Gaussians(*parts[place : place + 2]) for place in range(0, len(parts), 2)]


@pytest.mark.parametrize("dim", DIMS)
def test_likelihood_gradients_agree_with_finite_differences(dim: int) -> None:
    rng = np.random.default_rng(dim)
    a, b = gaussians(rng, (dim,)), gaussians(rng, (dim,))
    by_a, by_b = formulas.likelihood_gradients(a, b)
    assert_gradients(
        lambda *x: formulas.log_expected_likelihood(*paired(*x)), [*a, *b], [*by_a, *by_b]
    )


def test_log_expected_likelihood_is_the_density_of_the_difference_at_zero() -> None:
    rng = np.random.default_rng(0)
    a, b = gaussians(rng, (4,)), gaussians(rng, (4,))
    covariance = np.eye(4) * (np.exp(a.log_variance) + np.exp(b.log_variance))
    wanted = multivariate_normal(a.mean - b.mean, covariance).logpdf(np.zeros(4))
    assert formulas.log_expected_likelihood(a, b) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("dim", DIMS)
def test_max_margin_gradients_agree_with_finite_differences(dim: int) -> None:
    rng = np.random.default_rng(dim + 10)
    parts = [gaussians(rng, shape) for shape in ((dim,), (3, dim), (4, dim))]
    heights = np.sort(formulas.hinges(*parts, 0.0).ravel())
    margin = float(
        -(heights[5] + heights[6]) / 2
    )  # half of the hinges are active, and none is at its kink
    assert np.abs(formulas.hinges(*parts, margin)).min() > 1e-2, (
        "a hinge at its kink has no derivative: another seed"
    )
    flat, found = (
        [*one, *two, *three]
        for one, two, three in (parts, formulas.max_margin_gradients(*parts, margin))
    )
    assert_gradients(lambda *x: formulas.max_margin(*paired(*x), margin), flat, found)


@pytest.mark.parametrize("dim", DIMS)
def test_skip_gram_and_triplet_gradients_agree_with_finite_differences(dim: int) -> None:
    rng = np.random.default_rng(dim)
    parts = [rng.normal(size=shape) for shape in ((dim,), (3, dim), (4, dim))]
    assert_gradients(formulas.skip_gram, parts, formulas.skip_gram_gradients(*parts))
    shapes = ((dim,), (3, dim), (dim,), (4, dim), (4, dim), (4, dim))
    t = Triple(*(rng.normal(size=shape) * 0.7 for shape in shapes))
    assert_gradients(lambda *x: formulas.triplets(Triple(*x)), t, formulas.triplets_gradients(t))


@pytest.mark.parametrize("logistic", [False, True])
@pytest.mark.parametrize("dim", DIMS)
def test_ranking_weights_agree_with_finite_differences(dim: int, logistic: bool) -> None:
    user, better, worse = np.random.default_rng(dim).normal(size=(3, dim))
    weight = formulas.ranking_weight(user, better, worse, logistic)
    found = [-weight * (better - worse), -weight * user, weight * user]
    assert_gradients(lambda *x: formulas.ranking(*x, logistic), [user, better, worse], found)
