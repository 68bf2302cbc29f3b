r"""A smooth fit to a log evidence as a function of θ, from its values and gradients at some points.

In coordinates φ = R⁻¹(θ − m), m and R Rᵀ being a rough mean and covariance of the posterior of θ, the fit is a trend
plus what a Gaussian process learns of the rest,

    ê(θ) = t(q(φ)) + Σ_i (k_i a_i + k_i² b_i·δ_i),   k_i = 1/(1 + |δ_i|²/2ℓ²),   δ_i = φ − φ_i,

the conditional mean given value and gradient, p + 1 numbers, at each of N points, under the rational quadratic
covariance k. It is a mixture of squared exponentials of many lengths, and of log evidences of ten parameters a mixture
has half the error of the best one length. q = q₀ + g·φ − ½ φᵀHφ, H positive
semi-definite, is fitted by least squares to the same numbers, those far below the highest value having little weight.
Without it the process extrapolates gradients: with ten parameters, where most of the region of the posterior is far
from every point, the fit then has maxima that the evidence has not, and moves end there. t(q) = c + log(1 + e^(q − c)),
c the lowest value seen, so that far from all points the density is a small multiple of the prior, with wide tails:
moves that leave it invariant and are then corrected by the true density do not stick there. The log prior is added as
it is: its shape in logarithms, such as −e^θ, is not smooth. ℓ maximises the marginal likelihood of the process.
Cost: O((N(p + 1))³) for the fit; N p multiply-adds, some 50 µs, for a value with its gradient.
Fails when: the evidence has structure finer than the distance of the points, or p is large (beyond some 20 parameters
the points are too few): corrected moves are then often rejected.
Reference: Rasmussen (2003), Gaussian processes to speed up hybrid Monte Carlo; Solak et al. (2003) for gradients.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import expit

from gpclass._typing import Array
from gpclass.numerics.linalg import cholesky, factor

LENGTHS = (1.5, 2.2, 3.3, 5.0)  # candidates of ℓ; the process must not reach far beyond its points
NUGGET = 1e-7  # of the process's variance: rounding, and sites that have not quite converged
MOST, FEW = 3000, 600  # numbers that a fit is made of, and its ℓ, at most
_FIELDS = ("centre", "root", "points", "a", "b", "length", "low", "trend")


@dataclass(frozen=True, eq=False)
class Surface:
    """A fitted log evidence."""

    centre: Array  # m (p,)
    root: Array  # R (p, p)
    points: Array  # φ (N, p)
    a: Array  # (N,)
    b: Array  # (N, p)
    length: Array  # ℓ ()
    low: Array  # c ()
    trend: Array  # (p + 2, p): q₀ in all places, g, −H

    @cached_property
    def inverse(self) -> Array:
        """R⁻¹."""
        return np.asarray(np.linalg.inv(self.root), dtype=float)

    def value_and_slope(self, theta: Array) -> tuple[float, Array]:
        """The log evidence at θ and its gradient."""
        scale = float(self.length) ** -2
        at = self.inverse @ (theta - self.centre)
        delta = at - self.points
        k = 1.0 / (1.0 + 0.5 * scale * np.einsum("ij,ij->i", delta, delta))
        k2, inner = k * k, np.einsum("ij,ij->i", self.b, delta)
        slope = k2 @ self.b - scale * ((k2 * (self.a + 2.0 * k * inner)) @ delta)
        (trend,), (rise,) = _trend(self.trend, float(self.low), at[None])
        return float(trend + k @ self.a + k2 @ inner), (rise + slope) @ self.inverse

    def state(self) -> dict[str, Array]:
        """Its arrays, for a chain's state."""
        return {f"surface_{name}": getattr(self, name) for name in _FIELDS}

    @classmethod
    def of(cls, state: dict[str, Array]) -> Surface:
        """From the arrays of a chain's state."""
        return cls(*(state[f"surface_{name}"] for name in _FIELDS))


def fit_surface(centre: Array, covariance: Array, seen: Array) -> Surface:
    """The fit to ``seen`` (N, 2p + 1): θ, log evidence and its gradient at each point.

    If there are too many, some are left out, evenly.
    """
    p = len(centre)
    seen = _some(seen, MOST // (p + 1))
    R, low = cholesky(covariance), float(seen[:, p].min())
    points = solve_triangular(R, (seen[:, :p] - centre).T, lower=True).T
    values, slopes = seen[:, p], seen[:, p + 1 :] @ R
    trend = _concave(points, values, slopes)
    height, rise = _trend(trend, low, points)
    rest = np.hstack([points, (values - height)[:, None], slopes - rise])

    def process(of: Array, length: float) -> tuple[float, Array]:
        return _process(of[:, :p], of[:, p:].ravel(), length)

    few = _some(rest, FEW // (p + 1))
    length = max(LENGTHS, key=lambda one: process(few, one)[0])
    weights = process(rest, length)[1].reshape(len(points), p + 1)
    found = (centre, R, points, weights[:, 0], weights[:, 1:] / length**2, length, low, trend)
    return Surface(*(np.array(each, order="C") for each in found))  # as they are in a file: sums depend on the layout


def _trend(trend: Array, low: float, points: Array) -> tuple[Array, Array]:
    """The values t(q) (N,) at points φ (N, p) and their gradients (N, p)."""
    level, slope, curvature = trend[0, 0], trend[1], trend[2:]
    bent = points @ curvature
    q = level + points @ slope + 0.5 * np.einsum("ij,ij->i", bent, points)
    return low + np.logaddexp(0.0, q - low), expit(q - low)[:, None] * (slope + bent)


def _concave(points: Array, values: Array, slopes: Array) -> Array:
    """The quadratic q that is closest to values (N,) and gradients (N, p), without upward curvature, (p + 2, p)."""
    N, p = points.shape
    i, j = np.triu_indices(p)
    of_values = np.hstack([np.ones((N, 1)), points, points[:, i] * points[:, j]])
    of_slopes = np.zeros((N, p, of_values.shape[1]))
    for k in range(p):
        of_slopes[:, k, 1 + k] = 1.0
        of_slopes[:, k, 1 + p :] = (i == k) * points[:, j] + (j == k) * points[:, i]
    weight = 1.0 / (1.0 + ((values.max() - values) / p) ** 2)
    A = np.vstack([of_values, of_slopes.reshape(N * p, -1)]) * np.append(weight, np.repeat(weight, p))[:, None]
    b = np.append(weight * values, weight[:, None] * slopes)
    found = np.linalg.lstsq(A, b)[0]
    H = np.zeros((p, p))
    H[i, j] = found[1 + p :]
    size, axes = np.linalg.eigh(H + H.T)
    if size[-1] > 0.0:  # level and slope that are best with what curvature is left
        H = 0.5 * (axes * np.minimum(size, 0.0)) @ axes.T
        left = b - A[:, 1 + p :] @ (np.where(i == j, 1.0, 2.0) * H[i, j])
        found = np.linalg.lstsq(A[:, : 1 + p], left)[0]
        return np.vstack([np.full(p, found[0]), found[1 : 1 + p], 2.0 * H])
    return np.vstack([np.full(p, found[0]), found[1 : 1 + p], H + H.T])


def _some(seen: Array, most: int) -> Array:
    """At most ``most`` rows, evenly spaced, the last one among them."""
    few = np.linspace(0, len(seen) - 1, min(max(most, 2), len(seen)))
    return seen[np.rint(few).astype(np.intp)]


def _process(points: Array, values: Array, length: float) -> tuple[float, Array]:
    """Log marginal likelihood with the best variance, and the weights of values and gradients, (N (p + 1),)."""
    C = _covariance(points, length)
    unit = np.sqrt(np.diag(C))
    C /= unit[:, None]
    C /= unit
    np.einsum("ii->i", C)[:] += NUGGET
    L = factor(C, what="the fit of the log evidence")[0]
    half = solve_triangular(L, values / unit, lower=True, check_finite=False)
    weights = solve_triangular(L, half, lower=True, trans=1, check_finite=False) / unit
    log_det = 2.0 * (np.log(np.diag(L)).sum() + np.log(unit).sum())
    return -0.5 * len(values) * float(np.log(np.maximum(half @ half, 1e-300))) - 0.5 * log_det, weights


def _covariance(points: Array, length: float) -> Array:
    """Covariance of value and gradient at all points, (N (p + 1), N (p + 1)), of a process of variance one."""
    N, p = points.shape
    delta = (points[:, None] - points[None]) / length  # (N, N, p)
    k = 1.0 / (1.0 + 0.5 * np.einsum("ijl,ijl->ij", delta, delta))
    mixed = (k * k / length)[:, :, None] * delta
    C = np.empty((N, p + 1, N, p + 1))
    C[:, 0, :, 0] = k
    C[:, 0, :, 1:] = mixed  # of the value at i and the gradient at j
    C[:, 1:, :, 0] = -mixed.transpose(0, 2, 1)
    outer = (2.0 * k)[:, :, None, None] * delta[:, :, :, None] * delta[:, :, None, :]
    second = (np.eye(p) - outer) * (k / length)[:, :, None, None] ** 2
    C[:, 1:, :, 1:] = second.transpose(0, 2, 1, 3)
    return C.reshape(N * (p + 1), -1)
