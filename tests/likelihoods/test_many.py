"""Likelihoods of many classes as inferences use them: averages, rests integrated out, and their slopes."""

from itertools import product

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import log_softmax

from gpclass.likelihoods import MultinomialProbit, Softmax
from gpclass.likelihoods.utilities import largest_slopes, log_largest
from gpclass.model.rows import Labels

Y = np.array([0, 1, 2, 1, 0, 2])


def normal_grid(C, nodes):
    """A product of Gauss-Hermite rules: points (C, N) and weights (N,)."""
    x, w = hermegauss(nodes)
    w = w / w.sum()
    return np.array(list(product(x, repeat=C))).T, np.prod(list(product(w, repeat=C)), axis=1)


def by_differences(function, g, eps):
    """First and second derivatives of log ℓ by each latent value, (C, r, M) each."""
    first, second = np.empty_like(g), np.empty_like(g)
    middle = function(g)
    for c in range(len(g)):
        move = np.zeros_like(g)
        move[c] = eps
        up, down = function(g + move), function(g - move)
        first[c], second[c] = (up - down) / (2 * eps), (up - 2 * middle + down) / eps**2
    return first, second


@pytest.mark.parametrize("spread", [0.5, 2.0, 6.0])
@pytest.mark.parametrize("uneven", [0.0, 0.5])
@pytest.mark.parametrize("C", [2, 3, 5])
def test_slopes_of_the_largest_utility(C, spread, uneven):
    rng = np.random.default_rng(C)
    m, s = spread * rng.standard_normal((30, C)), np.exp(uneven * rng.standard_normal((30, C)))
    y = rng.integers(C, size=30)

    def log_p(g):  # (C, 30, 1)
        return log_largest(g[:, :, 0].T, s)[np.arange(30), y][:, None]

    first, second = largest_slopes(m, s, y)
    d1, d2 = by_differences(log_p, np.ascontiguousarray(m.T)[:, :, None], 1e-4)
    d1, bend = d1[:, :, 0].T, (d2 + d1**2)[:, :, 0].T
    np.testing.assert_allclose(first, d1, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(second, bend, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("power", [1.0, 0.6])
def test_softmax_with_its_rest_integrated_out(power):
    """The average is over 32 fixed points: good to 1e-3 for a rest below 1, and to a tenth of a nat at 2."""
    rng = np.random.default_rng(0)
    g, rest = rng.normal(0, 2, (3, 6, 4)), np.outer([1.0, 0.5, 0.2], [0.0, 0.01, 0.1, 0.5, 1.0, 2.0])
    labels = Labels(Y, 1.0, 1.0 if power == 1.0 else np.full(6, power))
    z, w = normal_grid(3, 24)
    f = g[..., None] + np.sqrt(rest)[:, :, None, None] * z[:, None, None, :]
    p = log_softmax(f, axis=0)[Y, np.arange(6)]
    truth = np.log(np.exp(power * p) @ w)
    found = Softmax().smear(labels, g, rest)
    np.testing.assert_allclose(found[0], truth[0], atol=1e-12)  # no rest
    np.testing.assert_allclose(found[:4], truth[:4], atol=1e-3)
    np.testing.assert_allclose(found, truth, atol=0.1)
    no_rest = Softmax().smear(labels, g, np.zeros_like(rest))
    assert np.abs(no_rest - truth).max() > 0.1  # the rest is seen


@pytest.mark.parametrize(("likelihood", "power"), [(Softmax(), 1.0), (Softmax(), 0.6), (MultinomialProbit(), 1.0)])
@pytest.mark.parametrize("rest", [0.0, 0.7])
def test_slopes_with_the_rest_integrated_out(likelihood, power, rest):
    rng = np.random.default_rng(0)
    g, lam = rng.normal(0, 2, (3, 6, 4)), rest * rng.uniform(0.3, 1.0, (3, 6))
    labels = Labels(Y, 1.0, 1.0 if power == 1.0 else np.full(6, power))
    first, bend = likelihood.smear_slopes(labels, g, lam)
    fine = log_largest_of(labels, lam) if likelihood.name == "multinomial-probit" else None
    d1, d2 = by_differences(fine or (lambda x: likelihood.smear(labels, x, lam)), g, 1e-4)
    np.testing.assert_allclose(first, d1, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(bend, d2 + d1**2, rtol=1e-4, atol=1e-4)


def log_largest_of(labels, lam):
    """The multinomial probit's log ℓ on the fine grid, whose differences are smooth."""

    def found(g):
        C, r, M = g.shape
        sds = np.repeat(np.sqrt(1.0 + lam).T, M, axis=0)
        each = log_largest(g.reshape(C, -1).T, sds).reshape(r, M, C)
        return each[np.arange(r), :, labels.y]

    return found


def test_multinomial_probit_with_its_rest_integrated_out():
    rng = np.random.default_rng(0)
    g, rest = rng.normal(0, 2, (3, 6, 4)), rng.uniform(0.0, 2.0, (3, 6))
    np.testing.assert_allclose(
        np.exp(MultinomialProbit().smear(Labels(Y), g, rest)),
        np.exp(log_largest_of(Labels(Y), rest)(g)),
        atol=1e-5,
    )


@pytest.mark.parametrize(("sd", "room"), [(0.3, 3e-4), (1.0, 5e-3), (3.0, 1.5e-2)])
def test_softmax_averages_over_a_gaussian(sd, room):
    rng = np.random.default_rng(0)
    mean, root = rng.standard_normal((3, 6)), sd * rng.standard_normal((6, 3, 3))
    cov = root @ root.transpose(0, 2, 1)
    z, w = normal_grid(3, 40)
    found = Softmax().average(Y, mean, cov)
    for i in range(6):
        log_pi = log_softmax(mean[:, i, None] + np.linalg.cholesky(cov[i]) @ z, axis=0)
        pi = np.exp(log_pi)
        assert found.value[i] == pytest.approx(w @ log_pi[Y[i]], abs=room)
        np.testing.assert_allclose(found.slope[:, i], (np.arange(3) == Y[i]) - pi @ w, atol=room)
        np.testing.assert_allclose(found.W[i], np.diag(pi @ w) - (pi * w) @ pi.T, atol=room)
    np.testing.assert_allclose(found.W.sum(axis=1), 0.0, atol=1e-12)  # blind to a shift of all classes
    assert np.linalg.eigvalsh(found.W).min() > -1e-12


@pytest.mark.parametrize("C", [3, 6])
def test_third_derivatives_of_softmax(C):
    rng = np.random.default_rng(0)
    f, A = rng.standard_normal((C, 4)), rng.standard_normal((4, C, C))
    cov, y, eps = A @ A.transpose(0, 2, 1), np.arange(4) % C, 1e-5

    def half_trace(f):  # ½ tr(cov ∂² log p)
        pi = np.exp(log_softmax(f, axis=0))
        own = np.einsum("icc,ci->i", cov, pi) - np.einsum("iab,ai,bi->i", cov, pi, pi)
        return -0.5 * own

    found = Softmax().third(y, f, cov)
    for c in range(C):
        move = np.zeros_like(f)
        move[c] = eps
        np.testing.assert_allclose(found[c], (half_trace(f + move) - half_trace(f - move)) / (2 * eps), atol=1e-8)
