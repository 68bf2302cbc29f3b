"""Samplers and importance sampling for softmax: against dense algebra, quadrature, each other, and Laplace."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.linalg import block_diag
from scipy.special import log_softmax
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, Matern

from gpclass.inference import Annealed, EllipticalSlice, Gibbs, Importance, Laplace, LatentHMC
from gpclass.inference.around import target_around
from gpclass.inference.elliptical_step import elliptical_step
from gpclass.inference.gibbs import latent_scan, precisions_of
from gpclass.inference.hmc import hmc_step
from gpclass.inference.particles import Particles
from gpclass.inference.posteriors import WhiteDraws
from gpclass.latent.centred import centred
from gpclass.likelihoods import MultinomialProbit, Softmax
from gpclass.likelihoods.averages import log_softmax_average
from gpclass.model.problem import Problem
from gpclass.predict.many import many_proba
from tests.inference.test_many_laplace import OWN, WEIGHTS, kernels_of, problem

SOFTMAX_AROUND = ["prior", "laplace", "variational"]
KERNELS = [None, CompoundKernel(OWN)]
WEIGHTED = [Importance, Annealed]
CHAINS = [EllipticalSlice, LatentHMC]


def dense(target):
    """Mean and covariance of q from the sites alone, and the prior's covariance, all of dimension C n."""
    task = target.problem
    K = block_diag(*task.prior.covariances)
    if target.sites is None:
        return np.zeros(len(K)), K, K
    D, n, C = target.sites.D, task.n, task.n_classes
    W = np.zeros((C, n, C, n))
    for i in range(n):
        W[:, i, :, i] = np.diag(D[:, i]) - np.outer(D[:, i], D[:, i]) / D[:, i].sum()
    W = W.reshape(C * n, C * n)
    covariance = np.linalg.solve(np.eye(C * n) + K @ W, K)
    return covariance @ target.sites.b.ravel(), 0.5 * (covariance + covariance.T), K


def quadrature(task, X_new):
    """log p(y) and the probabilities at X_new for two points and three classes, over the two differences a point."""
    x, w = hermegauss(18)
    w = w / w.sum()
    z = np.stack(np.meshgrid(*[x] * 4, indexing="ij"), -1).reshape(-1, 4)
    mass = np.prod(np.stack(np.meshgrid(*[w] * 4, indexing="ij"), -1).reshape(-1, 4), axis=1)
    both = np.vstack([task.X, X_new])
    K = [k(both) for k in kernels_of(task)]
    S = np.block([[K[a] * (a == b) + K[2] for b in range(2)] for a in range(2)])  # f_a − f_2, class by class
    size = len(both)
    seen = np.array([0, 1, size, size + 1])
    L = np.linalg.cholesky(S[np.ix_(seen, seen)])
    g = (z @ L.T).reshape(-1, 2, 2)  # (N, class, point)
    log_pi = log_softmax(np.concatenate([g, np.zeros((len(g), 1, 2))], axis=1), axis=1)
    mass = mass * np.exp(task.weighted(log_pi[:, task.y, np.arange(2)]).sum(axis=1))
    new = np.setdiff1d(np.arange(2 * size), seen)
    V = np.linalg.solve(L, S[np.ix_(seen, new)])
    proba = []
    for k in range(len(X_new)):
        pair = [k, len(X_new) + k]
        rest = S[np.ix_(new[pair], new[pair])] - V[:, pair].T @ V[:, pair]
        means = np.concatenate([z @ V[:, pair], np.zeros((len(z), 1))], axis=1)
        covariance = np.zeros((3, 3))
        covariance[:2, :2] = rest
        few = mass > 1e-5 * mass.max()
        each = log_softmax_average(means[few], np.broadcast_to(covariance, (few.sum(), 3, 3)))
        proba.append(mass[few] @ np.exp(each) / mass[few].sum())
    return np.log(mass.sum()), np.array(proba)


# ---- coordinates ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("around", SOFTMAX_AROUND)
def test_coordinates_are_those_of_the_gaussian(kernel, around):
    task = problem(kernel=kernel, weights=WEIGHTS)
    target = target_around(task, around, power=0.9)
    mean, covariance, K = dense(target)
    A = target.spread(np.eye(target.dimension)).T
    np.testing.assert_allclose(A @ A.T, covariance, atol=1e-10)
    np.testing.assert_allclose(target.m, mean, atol=1e-8)
    rng = np.random.default_rng(0)
    xi = rng.standard_normal((3, target.dimension))
    f = target.latents(xi)
    log_lik = (WEIGHTS * log_softmax(f.reshape(3, 3, -1), axis=1)[:, task.y, np.arange(task.n)]).sum(axis=1)
    ratio = log_lik + multivariate_normal(np.zeros(len(K)), K, allow_singular=True).logpdf(f)
    ratio -= multivariate_normal(mean, covariance, allow_singular=True).logpdf(f)
    np.testing.assert_allclose(np.diff(target.log_ratio(f)), np.diff(ratio), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("around", SOFTMAX_AROUND)
def test_slopes_and_prior_coordinates(kernel, around):
    task = problem(n=8, kernel=kernel, weights=WEIGHTS[:8])
    target = target_around(task, around)
    rng = np.random.default_rng(0)
    xi = rng.standard_normal((3, target.dimension))
    f = target.latents(xi)
    eta = target.prior_coordinates(xi)
    posterior = WhiteDraws(target.problem, eta, np.full(3, 1 / 3), np.zeros(3, dtype=int), None, None, target.roots)
    np.testing.assert_allclose(posterior.f.reshape(3, -1), f, atol=1e-10)
    some = np.array([0, 9, 23])
    np.testing.assert_allclose(target.some_latents(eta, some), f[:, some], atol=1e-10)
    np.testing.assert_allclose(target.latents(target.from_prior_coordinates(eta, rng)), f, atol=1e-9)
    r, slope = target.log_ratio_and_slope(f)
    np.testing.assert_allclose(r, target.log_ratio(f), rtol=1e-12)
    for j in range(target.dimension):
        step = np.zeros(target.dimension)
        step[j] = 1e-5
        rise = target.log_ratio(target.latents(xi + step)) - target.log_ratio(target.latents(xi - step))
        np.testing.assert_allclose(slope[:, j], rise / 2e-5, rtol=1e-5, atol=1e-7)


def test_what_the_labels_tie_together_is_drawn_given_f():
    """ξ drawn, f kept, ζ drawn again: ξ must be standard normal still; without the draw its variance is too small."""
    target = target_around(problem(n=6), "laplace")
    rng = np.random.default_rng(0)
    xi = rng.standard_normal((20_000, target.dimension))
    again = target.from_prior_coordinates(target.prior_coordinates(xi), rng)
    np.testing.assert_allclose(target.latents(again[:5]), target.latents(xi[:5]), atol=1e-9)
    gaps = again.T @ again / len(xi) - np.eye(target.dimension)
    assert np.abs(gaps).max() < 5 * np.sqrt(2 / len(xi))
    mean_only = target.from_prior_coordinates(target.prior_coordinates(xi))
    assert np.abs(mean_only.T @ mean_only / len(xi) - np.eye(target.dimension)).max() > 0.1


@pytest.mark.slow
def test_the_moved_gaussian_has_the_posterior_mean():
    task = problem(kernel=20.0 * RBF(1.5))
    laplace = Laplace()(task).gaussian
    moved = centred(task.prior, laplace)
    alpha, D = moved.alpha, moved.D
    assert np.all(D > 0)
    draws = LatentHMC(draws=500)(task, np.random.default_rng(0)).f
    truth, sd = draws.mean(axis=0), draws.std(axis=0)
    before = np.sqrt(np.mean(((laplace.mean - truth) / sd) ** 2))
    after = np.sqrt(np.mean(((task.prior.product(alpha) - truth) / sd) ** 2))
    assert after < 0.4 * before


# ---- against quadrature --------------------------------------------------------------------------------


def small(kernel=None, weights=None):
    X = np.array([[0.0, 0.0], [0.7, 0.4]])
    kernel = 6.0 * RBF(1.0) if kernel is None else kernel
    return Problem.of(X, np.array([0, 2]), kernel, Softmax(), weights, n_classes=3)


NEW = np.array([[0.3, 0.1], [1.5, -0.5]])
TWO = CompoundKernel([5.0 * RBF(0.8), 2.0 * RBF(1.5), 3.0 * Matern(1.0, nu=1.5)])


TASKS = {"one": small(), "own": small(TWO), "own, weighted": small(TWO, np.array([1.0, 2.5]))}


@cache
def truth_of(name):
    return quadrature(TASKS[name], NEW)


@pytest.mark.parametrize("method", WEIGHTED)
@pytest.mark.parametrize("around", SOFTMAX_AROUND)
@pytest.mark.parametrize("name", ["one", "own, weighted"])
def test_evidence_and_probabilities_against_quadrature(method, around, name):
    task = TASKS[name]
    log_z, proba = truth_of(name)
    found = method(n_samples=6000, around=around)(task, np.random.default_rng(1))
    assert found.evidence.kind == "unbiased"
    assert abs(found.evidence.log_z - log_z) < 4 * found.evidence.error
    assert found.evidence.error < 0.04
    ours = many_proba(found.latent(NEW), task.likelihood)
    assert np.all(np.abs(ours.proba - proba) < 4 * ours.mcse)


@pytest.mark.slow
@pytest.mark.parametrize("method", CHAINS)
@pytest.mark.parametrize("around", SOFTMAX_AROUND)
def test_chains_against_quadrature(method, around):
    task = TASKS["own"]
    log_z, proba = truth_of("own")
    found = method(chains=16, draws=100, around=around, evidence=True)(task, np.random.default_rng(1))
    ours = many_proba(found.latent(NEW), task.likelihood)
    assert np.all(np.abs(ours.proba - proba) < 4 * ours.mcse)
    assert ours.mcse.max() < 0.03
    assert abs(found.evidence.log_z - log_z) < 4 * found.evidence.error
    for name in ("latent_rhat", "ess_tail", "mcse_mean", "n_classes"):
        assert name in found.report.details


@pytest.mark.slow
@pytest.mark.parametrize("step", [elliptical_step, lambda *a: hmc_step(*a)[0]])
def test_steps_at_another_temperature_are_told_apart(step):
    """The negative control: chains of the posterior with half the log ratio do not have its probabilities."""
    task = TASKS["one"]
    target = target_around(task, "prior")
    rng = np.random.default_rng(0)
    _, proba = truth_of("one")
    for power, right in ((1.0, True), (0.5, False)):
        state = Particles.draw(target, 2000, rng)
        for _ in range(15):
            state = step(target, state, rng, power)
        eta = target.prior_coordinates(state.xi)
        found = WhiteDraws(target.problem, eta, np.full(2000, 1 / 2000), np.arange(2000), None, None, target.roots)
        ours = many_proba(found.latent(NEW), task.likelihood)
        assert (np.abs(ours.proba - proba).max() < 4 * ours.mcse.max()) == right


# ---- Neal's scan -----------------------------------------------------------------------------------------


def joint_scores(scan, rounds=3, M=4000):
    """Moments of f, in standard errors, after labels and scans in turn from a draw of the joint: all about zero."""
    task, rng = TASKS["own"], np.random.default_rng(0)
    target = target_around(task, "prior")
    eta = rng.standard_normal((M, 6))
    for _ in range(rounds):
        f = target.latents(eta)
        own = replace(target, y=task.likelihood.draw_labels(f.reshape(M, 3, 2), rng))
        f = scan(own, precisions_of(own), f, rng)
        eta = np.hstack([np.linalg.solve(L, f[:, 2 * c : 2 * c + 2].T).T for c, L in enumerate(target.prior_roots)])
    moments = np.hstack([eta, eta**2 - 1.0, eta[:, :1] * eta[:, 1:], eta**3])
    return np.abs(moments.mean(axis=0) / (moments.std(axis=0) / np.sqrt(M)))


def test_the_scan_leaves_the_joint_distribution_alone():
    assert joint_scores(latent_scan).max() < 4.0
    wrong = [lambda target, Q, f, rng: latent_scan(replace(target, y=0 * target.y), Q, f, rng)]
    wrong.append(lambda target, Q, f, rng: latent_scan(target, Q[::-1], f, rng))
    for one in wrong:  # the labels of another, the prior of another class
        assert joint_scores(one).max() > 4.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one", "own", "own, weighted"])
def test_the_scan_against_quadrature(name):
    _, proba = truth_of(name)
    found = Gibbs(draws=400, jitter=1e-6)(TASKS[name], np.random.default_rng(1))
    ours = many_proba(found.latent(NEW), TASKS[name].likelihood)
    assert np.all(np.abs(ours.proba - proba) < 4 * ours.mcse)
    assert ours.mcse.max() < 0.02


# ---- against each other, and Laplace -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
def test_samplers_agree_with_importance_sampling(kernel):
    task = problem(n=25, kernel=kernel)
    new = np.random.default_rng(5).standard_normal((4, 2))
    reference = Importance(n_samples=10_000)(task, np.random.default_rng(0))
    truth = many_proba(reference.latent(new), task.likelihood)
    for method in (
        Annealed(1000),
        EllipticalSlice(chains=16, draws=80),
        LatentHMC(chains=16, draws=80),
    ):
        found = method(task, np.random.default_rng(1))
        ours = many_proba(found.latent(new), task.likelihood)
        assert np.all(np.abs(ours.proba - truth.proba) < 4 * np.hypot(ours.mcse, truth.mcse))
        if found.evidence is not None:
            error = np.hypot(found.evidence.error, reference.evidence.error)
            assert abs(found.evidence.log_z - reference.evidence.log_z) < 4 * error


@pytest.mark.slow
def test_laplace_beside_long_hmc():
    """Where the likelihood says little Laplace is good, with a large variance it shrinks towards even odds."""
    new = np.random.default_rng(5).standard_normal((15, 2))
    gaps = []
    for kernel in (0.5 * RBF(1.0), 2.0 * RBF(1.0), 50.0 * RBF(1.0)):
        task = problem(n=40, kernel=kernel)
        found = LatentHMC(chains=8, draws=600)(task, np.random.default_rng(0))
        assert found.report.details["latent_rhat"] < 1.02
        truth = many_proba(found.latent(new), task.likelihood)
        laplace = many_proba(Laplace()(task).latent(new), task.likelihood)
        assert truth.mcse.max() < 0.012
        gaps.append(np.abs(laplace.proba - truth.proba).max())
    assert gaps[0] < 0.02
    assert gaps[1] < 0.07
    assert gaps[2] > 0.1  # its known failing: not a bound to keep, but the test would see a difference


@pytest.mark.slow
def test_chains_go_on_from_draws_of_a_neighbour():
    task = problem()
    first = LatentHMC(draws=50)(task, np.random.default_rng(0))
    new = task.at(task.theta + 0.05)
    from_there = LatentHMC(warmup=5, draws=100)(new, np.random.default_rng(1), start=first.start)
    cold = LatentHMC(draws=100)(new, np.random.default_rng(2))
    a, b = (many_proba(p.latent(task.X[:5]), task.likelihood) for p in (from_there, cold))
    assert np.all(np.abs(a.proba - b.proba) < 5 * np.hypot(a.mcse, b.mcse))


def test_bad_settings_name_the_cure():
    with pytest.raises(ValueError, match="'variational'"):
        LatentHMC(around="posterior")
    with pytest.raises(ValueError, match="use one of 'prior', 'variational', 'laplace'"):
        LatentHMC(around="ep")(problem())
    task = problem(likelihood=MultinomialProbit())
    with pytest.raises(ValueError, match="use one of 'prior', 'ep'"):
        target_around(task, "laplace")
