"""Every gradient against finite differences, in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

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
        out[place] = (8 * (loss(at + step) - loss(at - step)) - (loss(at + 2 * step) - loss(at - 2 * step))) / (12 * h)
    return out.reshape(at.shape)


def relative_error(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-3))


def gaussians(rng: np.random.Generator, shape: tuple[int, ...]) -> Gaussians:
    return Gaussians(rng.normal(size=shape), rng.normal(size=(*shape[:-1], 1)) * 0.5)


@pytest.mark.parametrize("dim", DIMS)
def test_likelihood_gradients_agree_with_finite_differences(dim: int) -> None:
    rng = np.random.default_rng(dim)
    a, b = gaussians(rng, (dim,)), gaussians(rng, (dim,))
    by_a, by_b = formulas.likelihood_gradients(a, b)

    def loss(**change: np.ndarray) -> float:
        left = Gaussians(change.get("a_mean", a.mean), change.get("a_log", a.log_variance))
        right = Gaussians(change.get("b_mean", b.mean), change.get("b_log", b.log_variance))
        return float(formulas.log_expected_likelihood(left, right))

    for name, at, found in (
        ("a_mean", a.mean, by_a.mean),
        ("a_log", a.log_variance, by_a.log_variance),
        ("b_mean", b.mean, by_b.mean),
        ("b_log", b.log_variance, by_b.log_variance),
    ):
        assert relative_error(found, numerical_gradient(lambda x, n=name: loss(**{n: x}), at)) <= 1e-6


def test_log_expected_likelihood_is_the_density_of_the_difference_at_zero() -> None:
    from scipy.stats import multivariate_normal

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
    margin = float(-(heights[5] + heights[6]) / 2)  # half of the hinges are active, and none is at its kink
    assert np.abs(formulas.hinges(*parts, margin)).min() > 1e-2, "a hinge at its kink has no derivative: another seed"
    found = formulas.max_margin_gradients(*parts, margin)
    for number, part in enumerate(parts):
        for field in (0, 1):

            def loss(x: np.ndarray, number: int = number, field: int = field) -> float:
                changed = list(parts)
                both = list(changed[number])
                both[field] = x
                changed[number] = Gaussians(*both)
                return formulas.max_margin(*changed, margin)

            wanted = numerical_gradient(loss, part[field])
            assert relative_error(found[number][field], wanted) <= 1e-6
    active = formulas.active_hinges(*parts, margin)
    assert 0 < active.sum() < active.size


@pytest.mark.parametrize("dim", DIMS)
def test_skip_gram_gradients_agree_with_finite_differences(dim: int) -> None:
    rng = np.random.default_rng(dim)
    parts = [rng.normal(size=shape) for shape in ((dim,), (3, dim), (4, dim))]
    for number, found in enumerate(formulas.skip_gram_gradients(*parts)):

        def loss(x: np.ndarray, number: int = number) -> float:
            return formulas.skip_gram(*(x if place == number else part for place, part in enumerate(parts)))

        assert relative_error(found, numerical_gradient(loss, parts[number])) <= 1e-6


@pytest.mark.parametrize("dim", DIMS)
def test_triplet_gradients_agree_with_finite_differences(dim: int) -> None:
    rng = np.random.default_rng(dim)
    shapes = ((dim,), (3, dim), (dim,), (4, dim), (4, dim), (4, dim))
    t = Triple(*(rng.normal(size=shape) * 0.7 for shape in shapes))
    for field, found in formulas.triplets_gradients(t)._asdict().items():

        def loss(x: np.ndarray, field: str = field) -> float:
            return formulas.triplets(t._replace(**{field: x}))

        assert relative_error(found, numerical_gradient(loss, getattr(t, field))) <= 1e-6


@pytest.mark.parametrize("logistic", [False, True])
@pytest.mark.parametrize("dim", DIMS)
def test_ranking_weights_agree_with_finite_differences(dim: int, logistic: bool) -> None:
    rng = np.random.default_rng(dim)
    user, better, worse = rng.normal(size=(3, dim))
    weight = formulas.ranking_weight(user, better, worse, logistic)
    for at, found, place in (
        (user, -weight * (better - worse), 0),
        (better, -weight * user, 1),
        (worse, weight * user, 2),
    ):

        def loss(x: np.ndarray, place: int = place) -> float:
            parts = [user, better, worse]
            parts[place] = x
            return float(formulas.ranking(*parts, logistic))

        assert relative_error(found, numerical_gradient(loss, at)) <= 1e-6


def test_sigmoid_does_not_overflow() -> None:
    with np.errstate(all="raise", under="ignore"):
        assert formulas.sigmoid(np.array([-1e3, 0.0, 1e3])).tolist() == [0.0, 0.5, 1.0]
