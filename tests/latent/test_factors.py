"""Gaussians of priors and sites against direct algebra on matrices of all rows and classes together."""

import numpy as np
import pytest
from scipy.linalg import block_diag
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, Matern

from gpclass.latent.basis import Basis
from gpclass.latent.coupled import CoupledFactor
from gpclass.latent.factors import FullFactor
from gpclass.latent.low_rank import LowRank
from gpclass.latent.low_rank_q import Q, Spec
from gpclass.latent.low_rank_rows import Seen
from gpclass.likelihoods import Softmax
from gpclass.likelihoods.local import RowSites, precision
from gpclass.model.problem import Problem

N, L = 5, 3
OWN = [2.0 * RBF(0.8), 1.5 * Matern(1.1, nu=1.5), 0.7 * RBF(1.5)]


def some_precisions(kind, n=N, seed=0):
    """W (n, L, L): any positive matrices, ones blind to a shift of all classes, or ones of the short form."""
    rng = np.random.default_rng(seed)
    if kind == "short":
        return precision(rng.uniform(0.1, 2.0, (L, n)))
    root = rng.standard_normal((n, L, L))
    if kind == "blind":
        root -= root.mean(axis=1, keepdims=True)
    return root @ root.transpose(0, 2, 1)


def whole(W):
    """The block matrix of all rows' W, class by class."""
    n = len(W)
    full = np.zeros((L, n, L, n))
    for i in range(n):
        full[:, i, :, i] = W[i]
    return full.reshape(L * n, L * n)


def covariances():
    X = np.random.default_rng(1).standard_normal((N, 2))
    new = np.random.default_rng(2).standard_normal((4, 2))
    return [k(X) for k in OWN], [k(X, new) for k in OWN], [k(new) for k in OWN]


@pytest.mark.parametrize("kind", ["any", "blind", "short"])
def test_full_factor_is_the_direct_algebra(kind):
    W = some_precisions(kind)
    K, cross, prior = covariances()
    found = FullFactor(K, W)
    big, big_W = block_diag(*K), whole(W)
    M = big_W @ np.linalg.inv(np.eye(N * L) + big @ big_W)
    rng = np.random.default_rng(3)
    b = rng.standard_normal((L, N, 2))
    expected = (M @ b.reshape(L * N, 2)).reshape(L, N, 2)
    np.testing.assert_allclose(found.solve(b), expected, atol=1e-10)
    np.testing.assert_allclose(found.solve(b[..., 0]), expected[..., 0], atol=1e-10)
    assert found.half_log_det == pytest.approx(0.5 * np.linalg.slogdet(np.eye(N * L) + big @ big_W)[1], abs=1e-10)
    each = np.einsum("aibi->iab", (big - big @ M @ big).reshape(L, N, L, N))
    np.testing.assert_allclose(found.covariance, each, atol=1e-10)
    for c, block in enumerate(found.blocks()):
        np.testing.assert_allclose(block, M.reshape(L, N, L, N)[c, :, c], atol=1e-10)
    far = block_diag(*cross)
    joint = block_diag(*prior) - far.T @ M @ far
    at_new = np.einsum("aibi->iab", joint.reshape(L, 4, L, 4))
    np.testing.assert_allclose(found.predict(cross, [np.diag(p) for p in prior]), at_new, atol=1e-10)
    draws = found.draw(cross, prior, 200_000, rng).swapaxes(1, 2).reshape(-1, L * 4)
    np.testing.assert_allclose(np.cov(draws.T), joint, atol=0.03)


def test_full_and_coupled_factors_are_one_where_there_is_a_short_form():
    D = np.random.default_rng(0).uniform(0.1, 2.0, (L, N))
    K, cross, prior = covariances()
    one, other = CoupledFactor(K, D), FullFactor(K, precision(D))
    b = np.random.default_rng(1).standard_normal((L, N))
    np.testing.assert_allclose(one.solve(b), other.solve(b), atol=1e-9)
    assert one.half_log_det == pytest.approx(other.half_log_det, abs=1e-9)
    np.testing.assert_allclose(one.covariance, other.covariance, atol=1e-9)
    variances = [np.diag(p) for p in prior]
    np.testing.assert_allclose(one.predict(cross, variances), other.predict(cross, variances), atol=1e-9)


# ---- rows under the low-rank prior ------------------------------------------------------------------------------


def low_rank_rows(kind, rest, shared):
    """Sites of rows, their features and rests, and the same as matrices of all rows and classes."""
    rng = np.random.default_rng(5)
    kernels = OWN[:1] if shared else OWN
    Z, X = rng.standard_normal((2, 2)), rng.standard_normal((N, 2))
    bases = [Basis(k, Z) for k in kernels]
    spec, A = Spec(bases, L), [basis.features(X)[0] for basis in bases]
    lam = np.full((L, N), 0.0) if rest == 0 else rest * rng.uniform(0.3, 1.0, (L, N))
    b = rng.standard_normal((L, N))
    if kind == "short":
        sites = RowSites(b=b, D=rng.uniform(0.1, 2.0, (L, N)))
    else:
        sites = RowSites(b=b, full=some_precisions(kind))
    K = block_diag(*(part @ part.T for part in spec.per_latent(A))) + np.diag(lam.ravel())
    return spec, A, lam, sites, K


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("rest", [0.0, 0.5, 1e4])
@pytest.mark.parametrize("kind", ["any", "blind", "short"])
def test_rows_seen_from_u_are_the_direct_algebra(kind, rest, shared):
    spec, A, lam, sites, K = low_rank_rows(kind, rest, shared)
    seen = Seen.of(sites, lam)
    each = spec.per_latent(A)
    stacked = block_diag(*each)  # f = stacked u + e
    S = whole(seen.S)
    q = Q.of(stacked.T @ S @ stacked, spec.project(A, seen.shift))
    at = seen.marginals(*q.marginals(spec, A))
    W = whole(sites.W)
    cov = np.linalg.solve(np.eye(len(K)) + K @ W, K)
    mean = cov @ sites.b.ravel()
    scale = max(1.0, rest)
    np.testing.assert_allclose(at.mean.ravel(), mean, atol=1e-10 * scale)
    np.testing.assert_allclose(at.cov, np.einsum("aibi->iab", cov.reshape(L, N, L, N)), atol=1e-10 * scale)
    log_det = np.linalg.slogdet(np.eye(len(K)) + K @ W)[1]
    log_mass = 0.5 * sites.b.ravel() @ mean - 0.5 * log_det
    assert q.log_mass + seen.log_rest.sum() == pytest.approx(log_mass, rel=1e-9)
    assert np.log(np.diag(q.L)).sum() + seen.half_log.sum() == pytest.approx(0.5 * log_det, rel=1e-9)
    alpha = sites.b - np.einsum("rab,br->ar", sites.W, at.mean)
    np.testing.assert_allclose(seen.alpha(q.marginals(spec, A)[0]), alpha, atol=1e-9 * scale)
    # The cavity of a row is the posterior without its site.
    i = 2
    left = np.arange(N) != i
    others = RowSites(b=left * sites.b, full=left[:, None, None] * sites.W)
    cov = np.linalg.solve(np.eye(len(K)) + K @ whole(others.W), K)
    m, V = at.cavity()
    np.testing.assert_allclose(V[i], cov.reshape(L, N, L, N)[:, i, :, i], rtol=1e-6, atol=1e-8 * scale)
    np.testing.assert_allclose(m[:, i], (cov @ others.b.ravel()).reshape(L, N)[:, i], rtol=1e-6, atol=1e-8 * scale)


def test_features_of_a_low_rank_problem_are_those_of_its_kernels():
    form = LowRank(Z=np.random.default_rng(0).standard_normal((3, 2)))
    X = np.random.default_rng(1).standard_normal((6, 2))
    problem = Problem.of(X, np.arange(6) % 3, CompoundKernel(OWN), Softmax(), form=form)
    found = problem.prior.features(X)
    for kernel, V, rest in zip(OWN, found.V, found.rest, strict=True):
        cross = kernel(X, form.Z)
        low = cross @ np.linalg.solve(kernel(form.Z), cross.T)
        np.testing.assert_allclose(V.T @ V, low, atol=1e-8)
        np.testing.assert_allclose(rest, np.diag(kernel(X)) - np.diag(low), atol=1e-8)
