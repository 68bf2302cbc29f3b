"""Probabilities of boxes under normal distributions by deterministic quadrature, as truths for the tests.

scipy.stats.multivariate_normal.cdf integrates by randomised lattices beyond three dimensions: it is off by its
tolerance, and by another amount every time. What is here gives the same answer every time.
"""

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr

FAR = 9.0  # standard deviations; the mass beyond is 1e-19


def box_probability(cov, lower, upper, mean=None, nodes=48):
    """P(lower < x < upper), x ~ N(mean, cov), for up to five bounded coordinates, to about 1e-12.

    One coordinate after the other given those before it, by Gauss-Legendre between its bounds; the last by Φ.
    """
    cov, mean = np.asarray(cov, dtype=float), np.zeros(len(cov)) if mean is None else np.asarray(mean)
    lower, upper = np.broadcast_to(lower, len(cov)) - mean, np.broadcast_to(upper, len(cov)) - mean
    bounded = np.isfinite(lower) | np.isfinite(upper)
    cov, lower, upper = cov[np.ix_(bounded, bounded)], lower[bounded], upper[bounded]
    n = len(cov)
    if n > 5:
        raise ValueError(f"a product rule in {n - 1} dimensions is too much")
    L = np.linalg.cholesky(cov)
    x, w = np.polynomial.legendre.leggauss(nodes)
    z, weight = np.zeros((n, 1)), np.ones(1)
    for k in range(n - 1):
        given = L[k, :k] @ z[:k]
        a, b = (np.clip((bound[k] - given) / L[k, k], -FAR, FAR) for bound in (lower, upper))
        half = 0.5 * (b - a)[:, None]
        here = a[:, None] + half * (1 + x)
        weight = (weight[:, None] * half * w * np.exp(-0.5 * here**2) / np.sqrt(2 * np.pi)).ravel()
        z = np.repeat(z, nodes, axis=1)
        z[k] = here.ravel()
    given = L[-1, :-1] @ z[:-1]
    a, b = (lower[-1] - given) / L[-1, -1], (upper[-1] - given) / L[-1, -1]
    mass = np.where(a > 0, ndtr(-a) - ndtr(-b), ndtr(b) - ndtr(a))
    return float(weight @ mass)


def log_orthant(cov, nodes=200_000):
    """The log of P(x > 0), x ~ N(0, cov), as the average of Π Φ over what is left beside independent noise.

    cov = K + t I with t the smallest eigenvalue, so that P = E Π Φ(f_i / √t), f ~ N(0, K): a smooth integral, taken
    by Gauss-Hermite around the integrand's mode, with most of the nodes along the axes on which it bends most.
    """
    if len(cov) == 1:
        return float(np.log(0.5))
    values, vectors = np.linalg.eigh(np.asarray(cov, dtype=float))
    A = vectors[:, 1:] * np.sqrt(values[1:] / values[0] - 1.0)  # f / √t = A z, z ~ N(0, I)
    z = np.zeros(A.shape[1])
    for _ in range(100):  # Newton; the logarithm is concave, and no step goes further than one
        f = A @ z
        slope = np.exp(-0.5 * f * f - log_ndtr(f)) / np.sqrt(2 * np.pi)
        hessian = A.T @ ((slope * (slope + f))[:, None] * A)
        step = np.linalg.solve(np.eye(len(z)) + hessian, A.T @ slope - z)
        z = z + step / max(1.0, np.abs(step).max())
    bend, axes = np.linalg.eigh(hessian)
    axes = axes / np.sqrt(1.0 + bend)
    counts = np.full(len(z), 2)
    while counts.min() < 40 and np.prod(counts, dtype=float) < nodes:
        counts[np.argmax(np.where(counts < 40, bend, 0.0) / counts**4)] += 1
    u, log_w = np.zeros((0, 1)), np.full(1, -0.5 * np.log1p(bend).sum())
    for count in counts:
        x, w = np.polynomial.hermite_e.hermegauss(count)
        u = np.vstack([np.repeat(u, count, axis=1), np.tile(x, u.shape[1])])
        log_w = (log_w[:, None] + np.log(w / w.sum()) + 0.5 * x * x).ravel()
    parts = []
    for block in range(0, u.shape[1], 50_000):
        here = z[:, None] + axes @ u[:, block : block + 50_000]
        value = log_ndtr(A @ here).sum(axis=0) - 0.5 * (here**2).sum(axis=0)
        parts.append(logsumexp(value + log_w[block : block + 50_000]))
    return float(logsumexp(parts))
