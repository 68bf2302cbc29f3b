"""Averages of links over Gaussian latents of several classes, against dense quadrature and long sampling."""

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp, softmax
from scipy.stats import norm

from gpclass.likelihoods import Logit, Probit
from gpclass.likelihoods.averages import log_probit_average, log_softmax_average
from gpclass.likelihoods.many import MultinomialProbit, Softmax
from gpclass.likelihoods.utilities import log_largest
from tests.normal import box_probability


def gaussians(N, C, sd, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((N, C, C)) * sd / np.sqrt(2 * C)
    return rng.standard_normal((N, C)) * 0.6 * sd, A @ A.transpose(0, 2, 1) + 0.25 * sd**2 * np.eye(C)


@pytest.mark.parametrize(("C", "spread", "uneven"), [(3, 1, 0.0), (3, 6, 0.0), (6, 3, 0.5), (10, 1, 0.0), (4, 30, 0.3)])
def test_largest_utility_against_a_fine_grid(C, spread, uneven):
    rng = np.random.default_rng(C)
    m, s = spread * rng.standard_normal((20, C)), np.exp(uneven * rng.standard_normal((20, C)))
    found, quick = log_largest(m, s), log_largest(m, s, fine=False)
    for i in range(20):
        t = np.linspace(m[i].min() - 12 * s[i].max(), m[i].max() + 12 * s[i].max(), 20001)[:, None]
        below = norm.logcdf(t, m[i], s[i])
        truth = logsumexp(below.sum(axis=1, keepdims=True) - below + norm.logpdf(t, m[i], s[i]), axis=0)
        truth += np.log(t[1] - t[0])
        seen = truth > -350
        np.testing.assert_allclose(found[i][seen], truth[seen], atol=1e-8)
        np.testing.assert_allclose(np.exp(quick[i]), np.exp(truth), atol=5e-6)


@pytest.mark.parametrize(("sd", "tolerance"), [(1.0, 1e-8), (3.0, 1e-8), (10.0, 2e-5)])
def test_softmax_average_of_three_classes(sd, tolerance):
    mu, sigma = gaussians(8, 3, sd)
    z = np.linspace(-7.5, 7.5, 700)
    w = np.exp(-0.5 * z**2)
    w /= w.sum()
    for m, S, found in zip(mu, sigma, np.exp(log_softmax_average(mu, sigma)), strict=True):
        A = np.array([[1.0, 0, -1], [0, 1.0, -1]])
        values, vectors = np.linalg.eigh(A @ S @ A.T)
        grid = np.stack(np.meshgrid(z, z, indexing="ij"))
        f = (A @ m)[:, None, None] + np.einsum("ab,bij->aij", vectors * np.sqrt(values), grid)
        f = np.concatenate([f, np.zeros_like(f[:1])])
        truth = np.einsum("cij,i,j->c", softmax(f, axis=0), w, w)
        np.testing.assert_allclose(found, truth, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize(("C", "sd", "tolerance"), [(4, 1.0, 2e-4), (6, 3.0, 6e-4), (5, 10.0, 2e-3)])
def test_softmax_average_of_more_classes(C, sd, tolerance):
    mu, sigma = gaussians(4, C, sd)
    rng = np.random.default_rng(5)
    found = np.exp(log_softmax_average(mu, sigma))
    for m, S, p in zip(mu, sigma, found, strict=True):
        z = rng.standard_normal((400_000, C))
        draws = softmax(m + np.vstack([z, -z]) @ np.linalg.cholesky(S).T, axis=1)
        error = draws.std(axis=0) / np.sqrt(len(draws))
        assert np.all(np.abs(p - draws.mean(axis=0)) < tolerance + 4 * error)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


@pytest.mark.parametrize(("C", "tolerance"), [(3, 1e-6), (4, 1e-4), (6, 2e-4)])
def test_probit_average_is_an_orthant(C, tolerance):
    mu, sigma = gaussians(6, C, 2.0)
    found = np.exp(log_probit_average(mu, sigma))
    for m, S, p in zip(mu, sigma + np.eye(C), found, strict=True):
        for c in range(C):
            A = np.delete(np.eye(C), c, axis=0)
            A[:, c] = -1.0  # u_b - u_c < 0
            truth = box_probability(A @ S @ A.T, -np.inf, 0.0, A @ m, nodes=20)
            assert p[c] == pytest.approx(truth, abs=tolerance)


def test_independent_utilities_take_either_path():
    mu, sigma = gaussians(6, 4, 2.0)
    alone = sigma * np.eye(4)
    nearly = alone + 1e-9
    np.testing.assert_allclose(np.exp(log_probit_average(mu, alone)), np.exp(log_probit_average(mu, nearly)), atol=1e-4)


@pytest.mark.parametrize("average", [log_softmax_average, log_probit_average])
@pytest.mark.parametrize("C", [3, 5])
def test_averages_ignore_the_names_of_classes(average, C):
    mu, sigma = gaussians(5, C, 2.0)
    turn = np.random.default_rng(2).permutation(C)
    np.testing.assert_allclose(
        average(mu[:, turn], sigma[:, turn][:, :, turn]), average(mu, sigma)[:, turn], atol=1e-10
    )
    same = average(np.zeros((1, C)), 3.0 * np.eye(C)[None] + 1.0)
    np.testing.assert_allclose(np.exp(same), 1 / C, atol=1e-8)


@pytest.mark.parametrize("average", [log_softmax_average, log_probit_average])
@pytest.mark.parametrize("C", [2, 3, 4])
def test_averages_ignore_a_common_shift(average, C):
    """A common shift of all latents, certain or not, is nothing."""
    mu, sigma = gaussians(5, C, 1.5)
    np.testing.assert_allclose(np.exp(average(mu + 3.0, sigma + 2.0)), np.exp(average(mu, sigma)), atol=1e-4)


@pytest.mark.parametrize("likelihood", [Softmax(), MultinomialProbit()])
def test_no_variance_is_the_link_itself(likelihood):
    mu, _ = gaussians(5, 4, 2.0)
    found = likelihood.log_averaged(mu[None], np.zeros((1, 5, 4, 4)))[0]
    np.testing.assert_allclose(np.exp(found), np.exp(likelihood.log_classes(mu)), atol=1e-5)
    if likelihood.name == "softmax":
        np.testing.assert_allclose(likelihood.log_classes(mu), log_softmax(mu, axis=1))


def test_mixture_of_many_components_takes_few_nodes_each():
    rng = np.random.default_rng(0)
    means = rng.standard_normal((200, 3, 4))
    covariance = np.broadcast_to(0.8 * np.eye(4), (1, 3, 4, 4))
    quick = np.exp(Softmax().log_averaged(means, covariance)).mean(axis=0)
    each = [np.exp(log_softmax_average(m, covariance[0])) for m in means]
    np.testing.assert_allclose(quick, np.mean(each, axis=0), atol=2e-3)


@pytest.mark.parametrize("likelihood", [Probit(1.3), Logit(0.7), MultinomialProbit()], ids=["probit", "logit", "many"])
def test_rough_averages_are_right_to_six_digits(likelihood):
    """For errors of averages over draws; few draws, so that the others are in double precision."""
    rng = np.random.default_rng(0)
    L = 3 if likelihood.many else 1
    means, var = rng.normal(0, 3, (200, 4, L)), rng.uniform(0.1, 5, (1, 4, L))
    covariances = var[..., None] * np.eye(L)
    fine = likelihood.log_averaged(means, covariances) if likelihood.many else likelihood.log_predictive(means, var)[0]
    np.testing.assert_allclose(likelihood.rough_average(means, covariances), np.exp(fine), atol=3e-6)
