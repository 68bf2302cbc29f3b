r"""Class probabilities averaged over Gaussian latent values, without randomness.

Softmax: E softmax(f), f ~ N(μ, Σ). Only differences of latent values matter. Two classes: the logistic
integral of one dimension. Three: a product of trapezoidal rules in the plane of differences. More: Sobol's
points in the Gaussian, mirrored and turned through all cyclic exchanges of the classes, so that
indistinguishable classes get equal probabilities.

Multinomial probit: with utilities N(μ, Σ + I), p(c) is the probability that C − 1 differences are positive.
Independent utilities (the exact posterior's): one-dimensional quadrature. Correlated ones: separation of
variables, by Gauss-Legendre (three classes) or Sobol's points (more).

The classes are first sorted by their means, so that the result is invariant to their order.
Accuracy (``tests/likelihoods/test_averages.py``): softmax 1e-8 for three classes and 2e-4 for more while the
differences' standard deviations are below 3, 1e-3 up to 10; multinomial probit 1e-6 for three classes, 1e-4.
Cost: 1,000 to 20,000 evaluations per point for softmax, 500 C for multinomial probit.
References: Genz (1992) for the separation of variables; Owen (1998) for scrambled nets.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri
from scipy.stats import qmc

from gpclass._typing import Array, IntArray
from gpclass.likelihoods.local import symmetric_root
from gpclass.likelihoods.utilities import log_largest
from gpclass.numerics.special import logistic_normal

EDGE = 1e-12  # smallest distance of uniforms from 0 and 1
CELLS = 2_000_000  # numbers in one array
SOBOL = 1024  # base points of softmax averages
SEPARATION = 512  # points of a separation of variables
PLANE = ((1.5, 32), (6.0, 64), (np.inf, 160))  # largest standard deviation, nodes per axis
SMALLEST = 1e-300


@lru_cache(maxsize=32)
def normal_points(d: int, N: int) -> Array:
    """Sobol's points as standard normal ones, (N, d); always the same."""
    points = qmc.Sobol(d, scramble=True, rng=np.random.default_rng(1967)).random(N)
    z = ndtri(np.clip(points, EDGE, 1 - EDGE))
    z.flags.writeable = False
    return np.asarray(z)


def log_softmax_average(means: Array, covariances: Array) -> Array:
    """Log of E softmax(f) for rows of Gaussians: means (N, C), covariances (N, C, C)."""
    C = means.shape[1]
    if C == 2:
        first, second = (covariances[:, c, c] for c in (0, 1))
        plus, minus = logistic_normal(means[:, 1] - means[:, 0], first + second - 2.0 * covariances[:, 0, 1])
        return np.column_stack([minus, plus])
    order = np.argsort(-means, axis=1, kind="stable")
    mu = np.take_along_axis(means, order, axis=1)
    sigma = _reordered(covariances, order)
    proba = _in_the_plane(mu, sigma) if C == 3 else _by_sobol(mu, sigma)
    out = np.empty_like(proba)
    np.put_along_axis(out, order, proba, axis=1)
    return np.log(np.maximum(out, SMALLEST))


def log_softmax_few_nodes(means: Array, covariances: Array) -> Array:
    """Log of E softmax(f) for every component of a mixture, (S, m, C), each by its own few points.

    The components share one sequence of points, so that the average over them is that of the whole sequence.
    """
    S, _, C = means.shape
    each = max(2, SOBOL // S)
    R = symmetric_root(covariances)
    z = normal_points(C, 1 << int(np.ceil(np.log2(S * each))))[: S * each].reshape(S, each, C)
    out = np.empty_like(means)
    for s in range(S):
        Z = np.vstack([z[s], -z[s]]).T
        f = means[s][:, :, None] + R[s if len(R) > 1 else 0] @ Z
        out[s] = _mean_softmax(f, np.full(2 * each, 0.5 / each))
    return np.log(np.maximum(out, SMALLEST))


def log_probit_average(means: Array, covariances: Array, *, fine: bool = True, single: bool = False) -> Array:
    """Log P(u_c is the largest), u ~ N(mean, covariance + I), for rows of Gaussians, (N, C)."""
    C = means.shape[1]
    variances = 1.0 + np.einsum("icc->ic", covariances)
    if C == 2:
        z = (means[:, 1] - means[:, 0]) / np.sqrt(variances.sum(axis=1) - 2.0 * covariances[:, 0, 1])
        return np.column_stack([log_ndtr(-z), log_ndtr(z)])
    off = covariances[:, ~np.eye(C, dtype=bool)]
    if not np.any(off):
        return log_largest(means, np.sqrt(variances), fine=fine, single=single)
    return _by_separation(means, covariances + np.eye(C))


def _reordered(covariances: Array, order: IntArray) -> Array:
    rows = np.arange(len(order))[:, None, None]
    return np.asarray(covariances[rows, order[:, :, None], order[:, None, :]])


def _in_the_plane(mu: Array, sigma: Array) -> Array:
    """Three classes: the two differences from the first, on a product of trapezoidal rules."""
    to_first = np.array([[-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]])
    S = to_first @ sigma @ to_first.T  # (N, 2, 2)
    L = _root(S)
    sd = np.sqrt(np.maximum(S[:, 0, 0], S[:, 1, 1]))
    out = np.empty_like(mu)
    below = 0.0
    for limit, J in PLANE:
        rows = np.flatnonzero((sd >= below) & (sd < limit))
        below = limit
        z = np.linspace(-6.5, 6.5, J)
        w = np.exp(-0.5 * z * z)
        weights = np.outer(w, w).ravel() / w.sum() ** 2
        Z = np.stack(np.meshgrid(z, z, indexing="ij")).reshape(2, -1)  # (2, J²)
        keep = weights > 1e-14
        Z, weights = Z[:, keep], weights[keep]
        for chosen in chunks(rows, 3 * Z.shape[1]):
            g = (mu[chosen, 1:] - mu[chosen, :1])[:, :, None] + L[chosen] @ Z  # (r, 2, nodes)
            out[chosen] = _mean_softmax(np.concatenate([np.zeros_like(g[:, :1]), g], axis=1), weights)
    return out


def _by_sobol(mu: Array, sigma: Array) -> Array:
    """Four classes and more: symmetric root of the centred covariance, mirrored and exchanged points."""
    C = mu.shape[1]
    centre = np.eye(C) - 1.0 / C
    R = symmetric_root(centre @ sigma @ centre)
    z = normal_points(C, SOBOL).T
    z = np.hstack([z, -z])
    Z = np.hstack([np.roll(z, k, axis=0) for k in range(C)])  # (C, 2 C SOBOL)
    weights = np.full(Z.shape[1], 1.0 / Z.shape[1])
    out = np.empty_like(mu)
    for chosen in chunks(np.arange(len(mu)), Z.size):
        out[chosen] = _mean_softmax(mu[chosen][:, :, None] + R[chosen] @ Z, weights)
    return out


def _mean_softmax(f: Array, weights: Array) -> Array:
    """Weighted mean over the last axis of softmax over axis 1; f (r, C, nodes) is overwritten."""
    f -= f.max(axis=1, keepdims=True)
    np.exp(f, out=f)
    f /= f.sum(axis=1, keepdims=True)
    return np.asarray(f @ weights)


def _by_separation(mu: Array, sigma: Array) -> Array:
    """P(u_c − u_b > 0 for all b ≠ c) for every c, by sequential conditioning."""
    N, C = mu.shape
    d = C - 1
    if C == 3:
        x, w = np.polynomial.legendre.leggauss(48)
        U, w = 0.5 * (x[:, None] + 1.0), 0.5 * w
    else:
        U = ndtr(normal_points(d - 1, SEPARATION))
        w = np.full(SEPARATION, 1.0 / SEPARATION)
    out = np.empty((N, C))
    for c in range(C):
        A = np.delete(-np.eye(C), c, axis=0)
        A[:, c] = 1.0  # differences u_c − u_b
        m, S = mu @ A.T, A @ sigma @ A.T
        order = np.argsort(m / np.sqrt(np.einsum("ikk->ik", S)), axis=1, kind="stable")  # hardest first
        m, L = np.take_along_axis(m, order, axis=1), _root(_reordered(S, order))
        for chosen in chunks(np.arange(N), len(w) * (d + 2)):
            out[chosen, c] = _orthant(m[chosen], L[chosen], U) @ w
    out = np.maximum(out, SMALLEST)
    return np.asarray(np.log(out) - np.log(out.sum(axis=1, keepdims=True)))


def _orthant(m: Array, L: Array, U: Array) -> Array:
    """The integrand of separation of variables, (r, nodes), for P(m + L y > 0)."""
    r, d = m.shape
    y = np.empty((r, d, len(U)))
    total = np.ones((r, len(U)))
    for j in range(d):
        a = m[:, j, None] + np.einsum("rk,rkn->rn", L[:, j, :j], y[:, :j])
        mass = ndtr(a / L[:, j, j, None])
        total *= mass
        if j < d - 1:
            y[:, j] = -ndtri(np.maximum(mass * U[:, j], SMALLEST))
    return total


def _root(S: Array) -> Array:
    """Lower Cholesky factors of rows of covariances, singular ones too."""
    scale = np.einsum("ikk->i", S)[:, None, None] * 1e-14 + SMALLEST
    return np.asarray(np.linalg.cholesky(S + scale * np.eye(S.shape[1])))


def chunks(rows: IntArray, cells: int) -> list[IntArray]:
    """Rows in pieces that fit into memory."""
    size = max(1, CELLS // cells)
    return [rows[k : k + size] for k in range(0, len(rows), size)]
