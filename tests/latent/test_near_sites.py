"""Sweeps that go as far as one factor tells, against plain ones."""

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from gpclass.inference import Variational
from gpclass.inference.ep import EP, RULE
from gpclass.latent import dense_gaussian, neighbour_gaussian
from gpclass.latent.near_sites import Response
from gpclass.latent.neighbours import Neighbours
from gpclass.latent.sites import Start
from gpclass.likelihoods import Probit
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import SiteFactor


def problem(n=120, weights=None):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2))
    y = np.where(rng.random(n) < ndtr(2.0 * np.sin(2 * X[:, 0]) + X[:, 1]), 1.0, -1.0)
    return Problem.of(X, y, ConstantKernel(4.0) * RBF(1.0), Probit(), weights)


def plain(monkeypatch):
    monkeypatch.setattr(dense_gaussian, "RESPONSIVE", 10**9)


def responsive(monkeypatch):
    monkeypatch.setattr(dense_gaussian, "RESPONSIVE", 1)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_fixed_point_is_that_of_plain_sweeps_in_fewer_of_them(monkeypatch, weighted):
    weights = np.random.default_rng(1).integers(1, 4, 120).astype(float) if weighted else None
    here = problem(weights=weights)
    there = here.at(here.theta + np.array([0.3, -0.2]))
    plain(monkeypatch)
    start = Start(RULE, EP(tol=1e-9).sites(here).held, n=here.n)
    slow = EP(tol=1e-6).sites(there, start)
    responsive(monkeypatch)
    fast = EP(tol=1e-6).sites(there, start)
    assert fast.converged
    assert fast.sweeps < 0.6 * slow.sweeps
    assert np.allclose(fast.held[0].kept[:2], slow.held[0].kept[:2], rtol=1e-6)
    assert abs(fast.value - slow.value) < 1e-9


def test_a_cold_start_far_away_converges(monkeypatch):
    responsive(monkeypatch)
    far = problem().at(np.log([300.0, 0.3]))
    fast = EP(tol=1e-6).sites(far)
    plain(monkeypatch)
    assert fast.converged
    assert abs(fast.value - EP(tol=1e-6).sites(far).value) < 1e-8


def test_rough_variances_and_slopes_have_three_digits(monkeypatch):
    at = problem()
    plain(monkeypatch)
    exact = EP(tol=1e-8)(at, np.random.default_rng(0), gradient=True)
    responsive(monkeypatch)
    rough = EP(tol=1e-3)(at, np.random.default_rng(0), start=exact.start, gradient=True)
    assert rough.gaussian.rough
    assert not EP(tol=1e-5)(at, np.random.default_rng(0)).gaussian.rough
    assert np.allclose(rough.gaussian.covariance, exact.gaussian.covariance, rtol=1e-3)
    assert np.allclose(rough.evidence.gradient, exact.evidence.gradient, atol=1e-3)
    assert abs(rough.evidence.log_z - exact.evidence.log_z) < 1e-8  # stationary in sites and marginals


def test_marginals_respond_to_first_order():
    """The error falls with the square of the change; that of marginals which stay falls with the change itself."""
    at = problem()
    found = EP(tol=1e-8).sites(at)
    q, shard = found.gaussian, found.held[0]
    sites, inverse = shard.kept[:2], q.factor.site.rough_B_inverse
    response = Response(inverse, q.t, q.mean[0], q.covariance[:, 0, 0], 1.0)
    direction = np.random.default_rng(2).uniform(-1.0, 1.0, sites.shape) * sites
    errors, stays = [], []
    for size in (0.1, 0.01):
        moved = at.prior.given((shard.with_values(sites + size * direction),), RULE)
        mean = q.mean[0]
        for _ in range(20):
            mean, variance = response.marginals(size * direction, mean)
        assert np.allclose(mean, moved.mean[0], atol=1e-5)
        errors.append(np.abs(variance - moved.covariance[:, 0, 0]).max())
        stays.append(np.abs(q.covariance - moved.covariance).max())
    assert errors[1] < 0.03 * errors[0]
    assert stays[1] > 0.05 * stays[0]


def test_sites_of_other_rows_are_a_start(monkeypatch):
    responsive(monkeypatch)
    whole = problem(300)
    part = whole.subset(np.arange(100))
    start = EP(tol=1e-3)(part, np.random.default_rng(0)).start
    cold, warm = EP(tol=1e-4).sites(whole), EP(tol=1e-4).sites(whole, start.light.at(part))
    assert warm.sweeps < cold.sweeps
    assert abs(warm.value - cold.value) < 1e-6


@pytest.mark.parametrize("tol", [1e-3, 0.02])
def test_rules_without_a_response_sweep_as_before(monkeypatch, tol):
    plain(monkeypatch)
    slow = Variational(tol=tol)(problem(), np.random.default_rng(0), gradient=True)
    responsive(monkeypatch)
    fast = Variational(tol=tol)(problem(), np.random.default_rng(0), gradient=True)
    assert fast.report.iterations == slow.report.iterations
    assert fast.evidence.log_z == slow.evidence.log_z
    np.testing.assert_array_equal(fast.evidence.gradient, slow.evidence.gradient)


def test_a_sweep_that_did_not_go_ahead_is_not_counted_as_one_that_did(monkeypatch):
    responsive(monkeypatch)
    ahead = EP(tol=1e-6).sites(problem())
    monkeypatch.setattr(dense_gaussian, "settled", lambda response, old, new, update: new)
    refused = EP(tol=1e-6).sites(problem())
    assert refused.converged
    assert refused.sweeps > ahead.sweeps
    assert not refused.ahead
    plain(monkeypatch)
    assert refused.change <= 1e-6
    assert abs(refused.value - EP(tol=1e-6).sites(problem()).value) < 1e-9


@pytest.mark.parametrize(("variance", "rough"), [(10.0, True), (1e6, False)])
def test_slopes_of_large_variances_have_all_digits(variance, rough):
    """In single precision their trace with a derivative of the covariance would be wrong."""
    X = np.random.default_rng(0).standard_normal((300, 2))
    K = variance * RBF(2.0)(X)
    site = SiteFactor(K, np.ones(300))
    exact, quick = (float(np.sum(part * K)) for part in (SiteFactor(K, np.ones(300)).inverse, site.rough_inverse))
    assert abs(quick - exact) < 1e-2
    assert ("rough_B_inverse" in vars(site)) == rough
    root = site.root
    single = float(np.sum(site.rough_B_inverse.T * root * root[:, None] * K))
    assert (abs(single - exact) > 1e-2) != rough


def with_neighbours(k, n=400, weights=None):
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(n, 2))
    y = np.where(rng.random(n) < ndtr(2.0 * np.sin(9 * X[:, 0]) + X[:, 1]), 1.0, -1.0)
    kernel = ConstantKernel(4.0) * Matern(0.2, nu=1.5)
    return Problem.of(X, y, kernel, Probit(), weights, None, Neighbours(k)).placed(rng)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("warm", [False, True])
def test_with_neighbours_the_fixed_point_is_that_of_plain_sweeps_in_fewer_of_them(monkeypatch, weighted, warm):
    weights = np.random.default_rng(1).integers(1, 4, 400).astype(float) if weighted else None
    here = with_neighbours(10, weights=weights)
    there = here.at(here.theta + np.array([0.3, -0.2]))
    monkeypatch.setattr(neighbour_gaussian, "RESPONSIVE", 10**9)
    start = Start(RULE, EP(tol=1e-9).sites(here).held, n=here.n) if warm else None
    slow = EP(tol=1e-7).sites(there, start)
    monkeypatch.setattr(neighbour_gaussian, "RESPONSIVE", 1)
    fast = EP(tol=1e-7).sites(there, start)
    assert fast.converged
    assert fast.sweeps < 0.8 * slow.sweeps
    assert np.allclose(fast.held[0].kept[:2], slow.held[0].kept[:2], rtol=1e-6, atol=1e-7)
    assert abs(fast.value - slow.value) < 1e-8


def test_the_sparse_response_is_that_of_the_gaussian_if_all_pairs_are_known():
    """Marginals after a small change of the sites, to first order; with few neighbours the variances are not."""
    rng, errors = np.random.default_rng(3), {}
    for k in (99, 5):
        at = with_neighbours(k, n=100)
        held = EP(tol=1e-6).sites(at).held
        before = at.prior.given(held, RULE)
        change = 1e-5 * rng.standard_normal((2, at.n))
        values = held[0].kept.copy()
        values[:2] += change
        after = at.prior.given((held[0].with_values(values),), RULE)
        mean, variance = before.response(1.0).marginals(change, after.mean_f[:, 0])
        assert np.allclose(mean, after.mean_f[:, 0], atol=1e-9)
        moved = after.covariance[:, 0, 0] - before.covariance[:, 0, 0]
        errors[k] = np.linalg.norm(variance - after.covariance[:, 0, 0]) / np.linalg.norm(moved)
    assert errors[99] < 1e-3 < errors[5] < 0.5
