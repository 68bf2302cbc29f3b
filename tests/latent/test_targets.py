"""What samplers move in under the low-rank prior, and the score of weighted draws under the dense one."""

from itertools import product

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import expit, log_ndtr
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, Matern

from gpclass.inference.around import gaussians_for, target_around
from gpclass.latent.low_rank import LowRank
from gpclass.likelihoods import Logit, MultinomialProbit, Probit, Softmax
from gpclass.likelihoods.utilities import log_largest
from gpclass.model.problem import Problem

LIKELIHOODS = [Probit(1.2), Logit(0.9), Softmax(), MultinomialProbit()]
OWN = [2.0 * RBF(0.8), 1.5 * Matern(1.1, nu=1.5), 0.7 * RBF(1.5)]


def low_rank(likelihood, kernel=None, n=6, m=2):
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((n, 2)), rng.standard_normal((m, 2))
    y = np.arange(n) % 3 if likelihood.many else np.where(np.arange(n) % 2, 1.0, -1.0)
    kernel = 2.0 * RBF(1.5) if kernel is None else kernel
    return Problem.of(X, y, kernel, likelihood, weights=np.array([1.0, 2, 1, 3, 1, 1]), form=LowRank(Z=Z))


def log_likelihood(problem, U):
    """Σ_i c_i log ∫ p(y_i | a_iᵀu + e) N(e; 0, λ_i) de from the kernels alone, by closed forms or fine quadrature."""
    L, Z, X, y = problem.n_latents, problem.inducing, problem.X, problem.y
    g, lam = [], []
    for c in range(L):
        k = problem.kernel.kernels[c] if isinstance(problem.kernel, CompoundKernel) else problem.kernel
        A = np.linalg.solve(np.linalg.cholesky(k(Z)), k(Z, X)).T
        g.append(U[:, c * len(Z) : (c + 1) * len(Z)] @ A.T)
        lam.append(np.diag(k(X)) - (A**2).sum(axis=1))
    g, lam = np.stack(g, axis=-1), np.stack(lam, axis=-1)  # (M, n, L), (n, L)
    name, s, x = problem.likelihood.name, problem.likelihood.scale, np.polynomial.hermite_e.hermegauss(40)
    if name == "probit":
        each = log_ndtr(s * y * g[..., 0] / np.sqrt(1 + s**2 * lam[:, 0]))
    elif name == "logit":
        f = y[:, None] * (g[..., 0, None] + np.sqrt(lam[:, 0])[:, None] * x[0])
        each = np.log(expit(s * f) @ (x[1] / x[1].sum()))
    else:
        sds = np.broadcast_to(np.sqrt(1 + lam), g.shape).reshape(-1, L)
        each = log_largest(g.reshape(-1, L), sds).reshape(g.shape)[:, np.arange(len(y)), y]
    return each @ problem.weights


@pytest.mark.parametrize("kernel", [None, CompoundKernel(OWN)], ids=["shared", "own"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda one: one.name)
def test_log_ratio_and_slope_under_the_low_rank_prior(likelihood, kernel):
    if kernel is not None and not likelihood.many:
        kernel = 1.3 * Matern(1.1, nu=2.5)
    problem = low_rank(likelihood, kernel)
    rng = np.random.default_rng(1)
    for around in ("prior", *gaussians_for(likelihood)):
        target = target_around(problem, around)
        d = target.dimension
        xi = rng.standard_normal((4, d))
        u = target.latents(xi)
        np.testing.assert_allclose(target.from_prior_coordinates(target.prior_coordinates(xi)), xi, atol=1e-10)
        if likelihood.name != "softmax":  # its rest is integrated at fixed points, which has a test of its own
            q = multivariate_normal(target.m, target.q.covariance)
            prior = multivariate_normal(np.zeros(d), np.eye(d))
            truth = log_likelihood(problem, u) + prior.logpdf(u) - q.logpdf(u)
            room = 1e-4 if likelihood.many else 1e-7
            np.testing.assert_allclose(target.log_ratio(u), truth, atol=room)
        r, slope = target.log_ratio_and_slope(u)
        np.testing.assert_allclose(r, target.log_ratio(u), atol=1e-9)
        eps = 1e-3 if likelihood.name == "multinomial-probit" else 1e-4
        for j in range(d):
            step = eps * np.eye(d)[j]
            rise = target.log_ratio(target.latents(xi + step)) - target.log_ratio(target.latents(xi - step))
            np.testing.assert_allclose(slope[:, j], rise / (2 * eps), rtol=1e-4, atol=1e-4)


# ---- the score of draws -----------------------------------------------------------------------------------------


def nodes_of(problem, count):
    """White coordinates η (N, L n) and the posterior's mass at each, by a product rule; and the log evidence."""
    k = problem.prior.white_dimension()
    x, w = hermegauss(count)
    w = w / w.sum()
    eta = np.array(list(product(x, repeat=k)))
    log_mass = np.log(np.array(list(product(w, repeat=k)))).sum(axis=1)
    roots = problem.prior.per_latent(problem.prior.roots)
    f = np.stack([part @ root.T for part, root in zip(np.split(eta, len(roots), axis=1), roots, strict=True)], axis=1)
    log_mass = log_mass + problem.weighted(problem.likelihood.log(problem.y, f)).sum(axis=1)
    log_z = np.logaddexp.reduce(log_mass)
    return eta, np.exp(log_mass - log_z), log_z


@pytest.mark.parametrize(
    ("likelihood", "n", "count", "room"),
    [
        (Probit(1.2, (0.1, 10.0)), 2, 50, 1e-6),
        (Logit(0.9, (0.1, 10.0)), 2, 50, 1e-6),
        (Softmax(), 1, 24, 1e-6),
        (MultinomialProbit(), 1, 20, 1e-4),
    ],
    ids=lambda one: getattr(one, "name", None),
)
@pytest.mark.parametrize("weighted", [False, True])
def test_score_is_the_slope_of_the_evidence(likelihood, n, count, room, weighted):
    X = np.random.default_rng(0).standard_normal((n, 2))
    y = np.arange(1, n + 1) % 3 if likelihood.many else np.array([1.0, -1.0])
    weights = np.array([2.0, 0.7 if likelihood.powers else 3.0])[:n] if weighted else None
    kernel = CompoundKernel(OWN) if likelihood.many else 1.5 * RBF(1.1)
    problem = Problem.of(X, y, kernel, likelihood, weights, n_classes=3 if likelihood.many else 2)
    eta, mass, _ = nodes_of(problem, count)
    found, by_Z = problem.prior.score(eta, mass)
    assert by_Z is None
    eps = 1e-4
    for k, e in enumerate(np.eye(len(found))):
        up, down = (nodes_of(problem.at(problem.theta + s * eps * e), count)[2] for s in (1, -1))
        assert found[k] == pytest.approx((up - down) / (2 * eps), abs=room)
    assert np.abs(found).max() > 100 * room  # and zero would be seen
