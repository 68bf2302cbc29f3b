"""Orthant probabilities with known values, and the problems of Atiya et al. (2020) that use them.

If S is diagonal plus rank one, the coordinates are independent given one latent u ~ N(0, 1), and

    P(v > 0) = ∫ φ(u) Π_i Φ(s_i u) du          (A eq. 63, 66, 31; 66 and 31 need the factor 1/√(2π) of φ)

with slopes s_i = d_i/√(1 − d_i²) for correlations d_i d_j, s_i = y_i x_i for the linear kernel on one
feature, and s_i = y_i √β for a kernel of infinite length scale and variance β. The integrand is
log-concave: its range is found from its peak, and it is integrated in logs by Gauss-Legendre panels that get
smaller towards the kink u = 0.
Cost: O(3200 n) tails per integral. Fails when: it does not fail; slopes may be infinite.
References: Dunnett & Sobel (1955) for eq. 63; Rose & Smith (2002) for three dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr

from gpclass._typing import Array

PANELS, NODES = 100, 16
DROP = 60.0  # the integrand is followed down to exp(−DROP) of its peak
REACH = 40.0  # beyond |u| = REACH φ is below exp(−800)


def log_latent_integral(slopes: Array) -> float:
    """The log of ∫ φ(u) Π_i Φ(s_i u) du."""
    return float(logsumexp(_log_integrand(slopes)[1]))


def latent_average(slopes: Array, new_slopes: Array) -> Array:
    """E Φ(s* u) for each new slope, where u has density ∝ φ(u) Π_i Φ(s_i u) (A eq. 66)."""
    u, log_mass = _log_integrand(slopes)
    weight = np.exp(log_mass - logsumexp(log_mass))
    return np.array([weight @ ndtr(s * u) for s in np.atleast_1d(new_slopes)])


def _log_integrand(slopes: Array) -> tuple[Array, Array]:
    """Nodes u and the log of integrand times quadrature weight."""
    s = np.asarray(slopes, dtype=float)

    def log_f(u: Array) -> Array:
        return np.asarray(-0.5 * u * u - 0.5 * np.log(2 * np.pi) + log_ndtr(np.outer(u, s)).sum(axis=1))

    # coarse to fine: the nodes within DROP of the peak bound the next, finer grid
    low, high = -REACH, REACH
    for _ in range(3):
        grid = np.linspace(low, high, 401) + 1e-12  # u = 0 times an infinite slope is NaN
        value = log_f(grid)
        near = np.flatnonzero(value > value.max() - DROP)
        low, high = grid[max(near[0] - 1, 0)], grid[min(near[-1] + 1, 400)]
    fine = np.geomspace(1e-9, REACH, 60)  # panels shrink towards 0, the step of a steep slope
    edges = np.concatenate([np.linspace(low, high, PANELS + 1), -fine, [0.0], fine])
    edges = np.unique(np.clip(edges, low, high))
    x, w = np.polynomial.legendre.leggauss(NODES)
    half = 0.5 * np.diff(edges)[:, None]
    u = (edges[:-1, None] + half * (1 + x)).ravel()
    return u, log_f(u) + np.log((half * w).ravel())


# ------------------------------------------------------------------------------------------ closed forms


def equicorrelated(n: int, correlation: float = 0.5) -> Array:
    """The covariance with ones on the diagonal and one correlation elsewhere."""
    S = np.full((n, n), correlation)
    np.fill_diagonal(S, 1.0)
    return S


def equicorrelated_log_probability(n: int, correlation: float = 0.5) -> float:
    """Log orthant probability of that covariance for correlation >= 0; −log(n + 1) if it is ½."""
    if correlation == 0.5:
        return float(-np.log(n + 1))
    return log_latent_integral(np.full(n, np.sqrt(correlation / (1 - correlation))))


def product_correlation(d: Array) -> Array:
    """The covariance with ones on the diagonal and d_i d_j elsewhere."""
    S = np.outer(d, d)
    np.fill_diagonal(S, 1.0)
    return S


def product_correlation_log_probability(d: Array) -> float:
    """Log orthant probability of that covariance (A eq. 63), |d_i| <= 1."""
    d = np.asarray(d, dtype=float)
    with np.errstate(divide="ignore"):
        return log_latent_integral(d / np.sqrt(1 - d * d))


def linear_kernel_log_evidence(x: Array, y: Array) -> float:
    """The log of p(y | x) for the kernel x x' on one feature, probit link (denominator of A eq. 66)."""
    return log_latent_integral(np.asarray(y) * np.asarray(x))


def linear_kernel_probability(x: Array, y: Array, x_new: Array) -> Array:
    """The probability p(y* = 1) at x_new for the same model (A eq. 66)."""
    return latent_average(np.asarray(y) * np.asarray(x), np.asarray(x_new))


def constant_kernel_log_evidence(y: Array, variance: float) -> float:
    """The log of p(y) for a kernel of infinite length scale (A eq. 31)."""
    return log_latent_integral(np.asarray(y) * np.sqrt(variance))


def constant_kernel_probability(y: Array, variance: float) -> float:
    """The probability p(y* = 1) for the same kernel, at any point (A eq. 31)."""
    root = np.sqrt(variance)
    return float(latent_average(np.asarray(y) * root, np.array([root]))[0])


def coincident_probability(variance: float) -> float:
    """The probability p(y* = 1) at the one training point, labelled +1, for prior variance β."""
    return float(0.5 + np.arcsin(variance / (1 + variance)) / np.pi)


def small_orthant_probability(cov: Array) -> float:
    """P(v > 0) for up to three coordinates."""
    sd = np.sqrt(np.diag(cov))
    R = np.asarray(cov) / np.outer(sd, sd)
    n = len(R)
    if n > 3:
        raise ValueError(f"the closed form needs at most three coordinates, not {n}")
    angles = float(np.arcsin(R[np.triu_indices(n, 1)]).sum())
    return (0.5, 0.25 + angles / (2 * np.pi), 0.125 + angles / (4 * np.pi))[n - 1]


# ---------------------------------------------------------------------------------------------- problems


@dataclass(frozen=True)
class LinearProblem:
    """Two Gaussian classes on one feature, equally frequent (A §6.2)."""

    n: int
    n_test: int
    means: tuple[float, float]  # of class 1 (y = −1) and class 2 (y = +1)
    sds: tuple[float, float]

    def draw(self, rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
        """Shuffled x (n,), y (n,) in {−1, +1}, and the same for the test set."""
        x, y = self._sample(self.n, rng)
        x_new, y_new = self._sample(self.n_test, rng)
        return x, y, x_new, y_new

    def _sample(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        label = rng.permutation(np.repeat([0, 1], [n // 2, n - n // 2]))
        x = rng.normal(np.take(self.means, label), np.take(self.sds, label))
        return x, 2.0 * label - 1.0


LINEAR_PROBLEMS = {  # A Tables 2 and 3
    1: LinearProblem(100, 50, (0.0, 1.0), (0.2, 0.3)),
    2: LinearProblem(200, 100, (0.0, 1.0), (2.0, 1.0)),
    3: LinearProblem(400, 200, (0.0, 1.5), (0.5, 0.75)),
    4: LinearProblem(800, 400, (0.0, 1.0), (1.0, 0.75)),
}
PRODUCT_SIZES = (50, 200, 500)  # A Table 1


def product_problem(n: int, rng: np.random.Generator) -> Array:
    """A vector d of A Table 1: entries uniform on [−1, 1]."""
    return rng.uniform(-1, 1, n)


def probit_orthant(K: Array, y: Array) -> Array:
    """S = D_y (K + I) D_y, whose orthant probability is p(y) under the probit link."""
    S = y[:, None] * K * y
    S.flat[:: len(y) + 1] += 1.0
    return np.asarray(S)
