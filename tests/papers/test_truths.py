"""The known truths against brute force, so that the samplers can be held to them."""

import itertools

import numpy as np
import pytest
from papers import truths
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm

from tests.normal import box_probability, log_orthant


def test_latent_integral_against_quadrature():
    slopes = np.array([0.3, -1.2, 2.0, 0.0, 5.0])
    by_quad = quad(lambda u: norm.pdf(u) * np.prod(ndtr(slopes * u)), -12, 12, epsabs=1e-14, limit=400)[0]
    assert truths.log_latent_integral(slopes) == pytest.approx(np.log(by_quad), abs=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 7, 100, 3000])
def test_equicorrelated_half(n):
    # slope 1 everywhere: ∫ φ Φ^n = 1/(n + 1)
    assert truths.log_latent_integral(np.ones(n)) == pytest.approx(-np.log(n + 1), abs=1e-11)
    assert truths.equicorrelated_log_probability(n) == pytest.approx(-np.log(n + 1), abs=1e-14)


def test_product_correlation_against_nested_quadrature():
    d = np.array([0.9, -0.5, 0.3, 0.7])
    p = box_probability(truths.product_correlation(d), 0.0, np.inf)
    assert truths.product_correlation_log_probability(d) == pytest.approx(np.log(p), abs=1e-11)


@pytest.mark.parametrize(("n", "error"), [(1, 1e-14), (2, 1e-13), (4, 1e-12), (6, 1e-8), (8, 1e-4), (10, 2e-3)])
def test_quadrature_around_the_mode(n, error):
    """What other tests call truth beyond closed forms, and how far it can be trusted."""
    d = np.random.default_rng(0).uniform(-0.8, 0.8, n)
    truth = truths.product_correlation_log_probability(d)
    assert log_orthant(truths.product_correlation(d)) == pytest.approx(truth, abs=error)


def test_product_correlation_with_a_perfect_one():
    # d = 1: the latent itself must be positive
    assert truths.product_correlation_log_probability(np.array([1.0, 0.0])) == pytest.approx(np.log(0.25), abs=1e-9)


@pytest.mark.parametrize("gap", [1e-2, 1e-5, 1e-9, 1e-13])
def test_steep_slopes_are_resolved(gap):
    d = np.array([1 - gap, 0.5, -0.3])
    truth = truths.small_orthant_probability(truths.product_correlation(d))
    assert truths.product_correlation_log_probability(d) == pytest.approx(np.log(truth), abs=1e-10)


@pytest.mark.slow
def test_far_below_the_smallest_float():
    d = truths.product_problem(5000, np.random.default_rng(0))
    log_p = truths.product_correlation_log_probability(d)
    assert -np.inf < log_p < -1000 * np.log(10)


@pytest.mark.parametrize("seed", range(3))
def test_small_orthants_against_nested_quadrature(seed):
    A = np.random.default_rng(seed).standard_normal((3, 3))
    C = A @ A.T
    for n in (1, 2, 3):
        p = box_probability(C[:n, :n], -np.inf, 0.0, nodes=200)
        assert truths.small_orthant_probability(C[:n, :n]) == pytest.approx(p, abs=1e-11)
    with pytest.raises(ValueError, match="three"):
        truths.small_orthant_probability(np.eye(4))


def test_linear_kernel_sums_to_one_over_labels():
    x = np.array([0.4, -1.0, 2.0, 0.1, 0.9])
    labels = [np.array(y) for y in itertools.product([-1.0, 1.0], repeat=5)]
    assert sum(np.exp(truths.linear_kernel_log_evidence(x, y)) for y in labels) == pytest.approx(1, abs=1e-12)


def test_predictions_are_ratios_of_evidence():
    x, y, x_new, _ = truths.LINEAR_PROBLEMS[1].draw(np.random.default_rng(0))
    p = truths.linear_kernel_probability(x, y, x_new[:3])
    for i in range(3):
        joint = truths.linear_kernel_log_evidence(np.append(x, x_new[i]), np.append(y, 1.0))
        assert p[i] == pytest.approx(np.exp(joint - truths.linear_kernel_log_evidence(x, y)), rel=1e-9)


def test_constant_kernel_limits():
    y = np.array([1.0, 1.0, -1.0])
    assert truths.constant_kernel_log_evidence(y, 1e-12) == pytest.approx(-3 * np.log(2), abs=1e-5)
    assert truths.constant_kernel_probability(y, 1e-12) == pytest.approx(0.5, abs=1e-5)
    cov = truths.probit_orthant(np.full((3, 3), 2.0), y)
    assert truths.constant_kernel_log_evidence(y, 2.0) == pytest.approx(
        np.log(truths.small_orthant_probability(cov)), abs=1e-10
    )
    assert truths.coincident_probability(2.0) == pytest.approx(
        truths.constant_kernel_probability(np.array([1.0]), 2.0), abs=1e-10
    )


def test_problems_are_those_of_the_paper():
    x, y, x_new, y_new = truths.LINEAR_PROBLEMS[3].draw(np.random.default_rng(0))
    assert (len(x), len(x_new), (y > 0).sum(), (y_new > 0).sum()) == (400, 200, 200, 100)
    assert abs(x[y > 0].mean() - 1.5) < 4 * 0.75 / np.sqrt(200)
    assert not np.array_equal(y, np.sort(y))  # shuffled
