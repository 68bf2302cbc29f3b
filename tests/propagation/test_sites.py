"""Block-sequential EP against EP that updates one site at a time on the whole covariance."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtr
from sklearn.gaussian_process.kernels import RBF

from gpclass.inference import EP
from gpclass.likelihoods import get_likelihood
from gpclass.model.problem import Problem
from gpclass.numerics.special import hazard_terms, hazard_terms_scalar
from gpclass.propagation import expectation_propagation
from gpclass.propagation.matching import match_copies
from gpclass.propagation.sites import Prior, Sites, log_site_mass


@dataclass(frozen=True)
class HalfLine:
    """1(v > 0)."""

    def tilted(self, mean, var):
        s = np.sqrt(var)
        h, _, tau, _ = hazard_terms(mean / s)
        return log_ndtr(mean / s), mean + s * h, var * tau

    def tilted_one(self, i, mean, var):
        s = var**0.5
        log_z, h, _, tau = hazard_terms_scalar(mean / s)
        return log_z, mean + s * h, var * tau


@dataclass(frozen=True)
class Probit:
    """Φ(y f)."""

    y: np.ndarray

    def tilted(self, mean, var):
        s = np.sqrt(1 + var)
        h, _, tau, _ = hazard_terms(self.y * mean / s)
        return log_ndtr(self.y * mean / s), mean + self.y * var / s * h, var * (1 + var * tau) / (1 + var)

    def tilted_one(self, i, mean, var):
        s = (1 + var) ** 0.5
        log_z, h, _, tau = hazard_terms_scalar(self.y[i] * mean / s)
        return log_z, mean + self.y[i] * var / s * h, var * (1 + var * tau) / (1 + var)


def one_at_a_time(K, factors, prior_mean=0.0, sweeps=60):
    """The slow and obvious EP: a rank-one update of the whole covariance a site, log Z at the end."""
    n = len(K)
    T, h, P, mu = np.zeros(n), np.zeros(n), K.copy(), np.zeros(n) + prior_mean
    m0 = mu.copy()
    for _ in range(sweeps):
        for i in range(n):
            precision, shift = 1 / P[i, i] - T[i], mu[i] / P[i, i] - h[i]
            _, mean, var = factors.tilted_one(i, shift / precision, 1 / precision)
            T[i], h[i] = 1 / var - precision, mean / var - shift
            P = K - K @ np.linalg.solve(K + np.diag(1 / np.maximum(T, 1e-12)), K)
            mu = m0 + P @ (h - T * m0)
    precision = 1 / np.diag(P) - T
    mean, var = (mu / np.diag(P) - h) / precision, 1 / precision
    shift = h - T * m0
    log_sites = (
        -0.5 * np.linalg.slogdet(np.eye(n) + T[:, None] * K)[1]
        + 0.5 * shift @ P @ shift + h @ m0 - 0.5 * T @ m0**2
    )  # fmt: skip
    terms = factors.tilted(mean, var)[0] - log_site_mass(mean, var, T, h)
    return T, h, float(log_sites + terms.sum())


def problem(n, variance=20.0, length=0.255, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2)) if d == 2 else rng.standard_normal((n, d))
    square = ((X[:, None] - X[None]) ** 2).sum(-1)
    K = variance * np.exp(-0.5 * square / length**2)
    f = np.linalg.cholesky(K + 1e-6 * np.eye(n)) @ rng.standard_normal(n)
    y = np.where(rng.random(n) < ndtr(f - np.median(f)), 1.0, -1.0)
    return K, y


def orthant(K, y):
    return y[:, None] * (K + np.eye(len(y))) * y


@pytest.mark.parametrize("block", [1, 7, 16, 64])
@pytest.mark.parametrize("space", ["f", "v"])
def test_equals_one_at_a_time(block, space):
    K, y = problem(30, variance=5.0, length=0.4)
    A, factors = (K, Probit(y)) if space == "f" else (orthant(K, y), HalfLine())
    T, h, log_z = one_at_a_time(A, factors, sweeps=25)
    got = expectation_propagation(A, factors, block=block, tol=1e-10)
    assert got.converged
    assert got.log_z == pytest.approx(log_z, abs=1e-8)
    np.testing.assert_allclose(got.sites.precision, T, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(got.sites.shift, h, rtol=1e-6, atol=1e-9)


def test_prior_mean():
    K, y = problem(12, variance=3.0, length=0.5)
    m0 = np.linspace(-1, 2, 12)
    T, _, log_z = one_at_a_time(K, Probit(y), prior_mean=m0, sweeps=30)
    got = expectation_propagation(K, Probit(y), prior_mean=m0, block=5, tol=1e-10)
    assert got.log_z == pytest.approx(log_z, abs=1e-8)
    np.testing.assert_allclose(got.sites.precision, T, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("d", "variance", "length"), [(2, 20.0, 0.255), (8, 50.0, 1.5)])
@pytest.mark.parametrize("space", ["f", "v"])
def test_hard_cases_converge_within_ten_sweeps(d, variance, length, space):
    K, y = problem(1000, variance, length, d, seed=1)
    A, factors = (K, Probit(y)) if space == "f" else (orthant(K, y), HalfLine())
    got = expectation_propagation(A, factors, max_sweeps=10, tol=1e-6)
    assert got.converged
    assert got.change <= 1e-6


def test_both_spaces_have_one_evidence():
    K, y = problem(150)
    in_f = expectation_propagation(K, Probit(y), tol=1e-9)
    in_v = expectation_propagation(orthant(K, y), HalfLine(), tol=1e-9)
    assert in_f.log_z == pytest.approx(in_v.log_z, abs=1e-7)


def test_one_site_is_exact():
    var = 2.5
    got = expectation_propagation(np.array([[var]]), Probit(np.array([-1.0])), prior_mean=np.array([0.7]))
    truth = quad(lambda f: ndtr(-f) * np.exp(-0.5 * (f - 0.7) ** 2 / var) / np.sqrt(2 * np.pi * var), -20, 20)
    assert got.log_z == pytest.approx(np.log(truth[0]), abs=1e-9)


def test_whole_weights_are_repeated_rows():
    K, y = problem(40, variance=4.0, length=0.4, seed=3)
    w = np.random.default_rng(0).integers(0, 5, 40)
    rows = np.repeat(np.arange(40), w)
    weighted = expectation_propagation(K, Probit(y), copies=w.astype(float), block=16, tol=1e-11)
    repeated = expectation_propagation(K[np.ix_(rows, rows)], Probit(y[rows]), block=16, tol=1e-11)
    assert weighted.converged
    assert repeated.converged
    assert weighted.log_z == pytest.approx(repeated.log_z, abs=1e-8)
    first = np.searchsorted(rows, np.flatnonzero(w))
    np.testing.assert_allclose(weighted.mean[w > 0], repeated.mean[first], atol=1e-7)
    # one copy's share of the site
    copies = (weighted.sites.precision / np.maximum(w, 1))[w > 0]
    np.testing.assert_allclose(copies, repeated.sites.precision[first], rtol=1e-6)
    assert not weighted.sites.precision[w == 0].any()


@pytest.mark.parametrize(("w", "variance"), [(2.0, 30.0), (30.0, 1.0), (300.0, 30.0), (1e5, 100.0)])
def test_many_copies_converge(w, variance):
    K, y = problem(30, variance=variance, length=0.3, seed=5)
    y[::7] *= -1  # contradictions
    got = expectation_propagation(K, Probit(y), copies=np.full(30, w))
    assert got.converged
    assert np.isfinite(got.log_z)
    assert (got.sites.precision >= 0).all()


def test_no_weight_leaves_the_prior():
    K, y = problem(10)
    got = expectation_propagation(K, Probit(y), copies=np.zeros(10))
    assert got.log_z == 0
    np.testing.assert_array_equal(got.covariance, K)


def test_singular_and_vanishing_covariance():
    x = np.r_[0.0, 0.0, np.linspace(-1, 2, 20)]  # rank one, two points with no variance at all
    y = np.where(np.arange(22) % 3, 1.0, -1.0)
    got = expectation_propagation(np.outer(x, x), Probit(y), block=8)
    wider = expectation_propagation(orthant(np.outer(x, x), y), HalfLine(), block=8)
    assert got.converged
    assert np.isfinite(got.covariance).all()
    assert got.log_z == pytest.approx(wider.log_z, abs=1e-6)


@pytest.mark.slow
def test_warm_start():
    K, y = problem(200)
    cold = expectation_propagation(K, Probit(y))
    again = expectation_propagation(K, Probit(y), start=cold.sites)
    near = expectation_propagation(1.0001 * K, Probit(y), start=cold.sites)
    fresh = expectation_propagation(1.0001 * K, Probit(y))
    assert again.sweeps == 1
    assert near.sweeps <= 4 < fresh.sweeps
    assert near.log_z == pytest.approx(fresh.log_z, abs=1e-7)


def test_gives_up_honestly():
    K, y = problem(60)
    got = expectation_propagation(K, Probit(y), max_sweeps=1)
    assert not got.converged
    assert got.change > 1e-6
    assert got.sweeps == 1


def test_far_tails_and_wild_scales_stay_finite():
    K, y = problem(40)
    for scale in (1e-12, 1e-3, 1e6, 1e12):
        got = expectation_propagation(scale * K, Probit(y))
        assert np.isfinite(got.log_z)
        assert np.isfinite(got.mean).all()
    far = expectation_propagation(np.eye(5), HalfLine(), prior_mean=np.full(5, -60.0))
    assert far.log_z == pytest.approx(5 * log_ndtr(-60.0), rel=1e-10)


def test_the_gaussian_of_sites_is_the_dense_formula():
    K = problem(25, variance=2.0)[0] + 0.1 * np.eye(25)
    rng = np.random.default_rng(1)
    sites = Sites(np.r_[0.0, 1e-9, 1e3, rng.random(22)], rng.standard_normal(25))
    m0 = rng.standard_normal(25)
    q = Prior(K, m0).gaussian(sites)
    mean, P, log_sites = q.mean, q.covariance, q.log_sites
    inverse = np.linalg.inv(K)
    dense = np.linalg.inv(inverse + np.diag(sites.precision))
    np.testing.assert_allclose(P, dense, atol=1e-12)
    np.testing.assert_allclose(mean, dense @ (inverse @ m0 + sites.shift), atol=1e-10)
    shift = sites.shift - sites.precision * m0
    log_det = np.linalg.slogdet(np.eye(25) + sites.precision[:, None] * K)[1]
    by_hand = -0.5 * log_det + 0.5 * shift @ dense @ shift + sites.shift @ m0 - 0.5 * sites.precision @ m0**2
    assert log_sites == pytest.approx(by_hand, abs=1e-8)


@pytest.mark.parametrize("name", ["probit", "logit"])
@pytest.mark.parametrize("copies", [100.0, 1e4, 1e6])
def test_many_copies_that_repel_their_fixed_point_are_found_soon(name, copies):
    likelihood, calls = get_likelihood(name), []

    def tilted_one(k, mean, var):
        calls.append(var)
        return likelihood.tilted_scalar(1.0, mean, var)

    site = match_copies(tilted_one, 0, copies, 0.01, 0.0, 0.0, 0.0)
    assert site is not None
    calls.clear()
    again = match_copies(tilted_one, 0, copies, 0.01, 0.0, *site)
    assert len(calls) < 40
    assert again == pytest.approx(site, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "weight"), [("probit", 1e4), ("logit", 1e4), ("logit", 1e6)])
def test_heavy_rows_that_are_nearly_independent_converge(name, weight):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 2))
    y = np.where(rng.random(20) < 0.5, 1.0, -1.0)
    problem = Problem.of(X, y, 100.0 * RBF(0.2), get_likelihood(name), np.full(20, weight))
    assert EP(max_sweeps=20)(problem).report.converged
