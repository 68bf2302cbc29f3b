r"""A smooth fit to a log evidence as a function of θ, from its values and gradients at some points.

In coordinates φ = R⁻¹(θ − m), m and R Rᵀ being a rough mean and covariance of the posterior of θ, the fit is what a
Gaussian process learns of the log evidence,

    ê(θ) = c + Σ_i k_i (a_i + b_i·δ_i),   k_i = exp(−|δ_i|²/2ℓ²),   δ_i = φ − φ_i,

the conditional mean given value and gradient, p + 1 numbers, at each of N points. The log prior is added as it is: its
shape in logarithms, such as −e^θ, is not smooth. c is the lowest value seen, so that far from all points the density
is a small multiple of the prior, with wide tails: moves that leave it invariant and are then corrected by the true
density do not stick there. ℓ maximises the marginal likelihood of the process.
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

from gpclass._typing import Array
from gpclass.numerics.linalg import cholesky, factor

LENGTHS = (1.0, 1.5, 2.2, 3.3, 5.0, 7.5)  # candidates of ℓ
NUGGET = 1e-7  # of the process's variance: rounding, and sites that have not quite converged
MOST, FEW = 2000, 600  # numbers that a fit is made of, and its ℓ, at most
_FIELDS = ("centre", "root", "points", "a", "b", "length", "offset")


@dataclass(frozen=True, eq=False)
class Surface:
    """A fitted log evidence."""

    centre: Array  # m (p,)
    root: Array  # R (p, p)
    points: Array  # φ (N, p)
    a: Array  # (N,)
    b: Array  # (N, p)
    length: Array  # ℓ ()
    offset: Array  # c ()

    @cached_property
    def inverse(self) -> Array:
        """R⁻¹."""
        return np.asarray(np.linalg.inv(self.root), dtype=float)

    def value_and_slope(self, theta: Array) -> tuple[float, Array]:
        """The log evidence at θ and its gradient."""
        scale = float(self.length) ** -2
        delta = self.inverse @ (theta - self.centre) - self.points
        k = np.exp(-0.5 * scale * np.einsum("ij,ij->i", delta, delta))
        inner = self.a + np.einsum("ij,ij->i", self.b, delta)
        slope = k @ self.b - scale * ((k * inner) @ delta)
        return float(self.offset) + float(k @ inner), slope @ self.inverse

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
    R, offset = cholesky(covariance), float(seen[:, p].min())

    def rest(of: Array) -> tuple[Array, Array]:
        points = solve_triangular(R, (of[:, :p] - centre).T, lower=True).T
        return points, np.hstack([of[:, p : p + 1] - offset, of[:, p + 1 :] @ R]).ravel()

    few = rest(_some(seen, FEW // (p + 1)))
    length = max(LENGTHS, key=lambda one: _process(*few, one)[0])
    points, values = rest(seen)
    weights = _process(points, values, length)[1].reshape(len(points), p + 1)
    return Surface(centre, R, points, weights[:, 0], weights[:, 1:] / length**2, np.asarray(length), np.asarray(offset))


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
    k = np.exp(-0.5 * np.einsum("ijl,ijl->ij", delta, delta))
    C = np.empty((N, p + 1, N, p + 1))
    C[:, 0, :, 0] = k
    C[:, 0, :, 1:] = k[:, :, None] * delta / length  # of the value at i and the gradient at j
    C[:, 1:, :, 0] = -(k[:, :, None] * delta / length).transpose(0, 2, 1)
    second = (np.eye(p) - delta[:, :, :, None] * delta[:, :, None, :]) * k[:, :, None, None] / length**2
    C[:, 1:, :, 1:] = second.transpose(0, 2, 1, 3)
    return C.reshape(N * (p + 1), -1)
