"""The problem P(lower < v < upper), v ~ N(mean, cov), checked once and converted to a standard form.

Standard form: zero mean, unit variances, and no coordinate with only an upper limit (its sign is flipped).
So (v_i − mean_i)/scale_i = x_i, x ~ N(0, S), lower_i < x_i < upper_i, and tails and tolerances do not depend on
the caller's units. A coordinate without variance is a constant: if it lies within its limits it is dropped,
otherwise the probability is 0. Coordinates that are multiples of each other (correlation ±1 up to rounding) are one,
with the limits of all. If S is singular still, it gets jitter: every limit is blurred by √jitter. This is harmless if
the range of S reaches well into the box, which a linear program tells: with all limits kept at a distance d, log P
changes by about n √jitter/d; if there is no such d, the probability is 0.
Cost: O(n²) for the checks, n³/3 for the factor that checks positive definiteness.
Fails when: limits are reversed or NaN, shapes differ, cov is not symmetric or not positive semi-definite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gpclass._typing import Array, IntArray
from gpclass.numerics.linalg import JITTERS, NotPositiveDefiniteError, factor
from gpclass.numerics.special import hazard_terms_scalar, truncated_normal_moments
from gpclass.orthant.maps import SmoothFactors

ROOT_2PI = math.sqrt(2 * math.pi)
MULTIPLE = 2.0**-49  # correlations within this of ±1 are 1 up to rounding
ROWS = 128  # of the draws that are computed together, in a processor's cache
LEAST_ROOM = 1e-9  # least distance from the limits that the linear program can tell from none


@dataclass(frozen=True)
class Box:
    """The standard form, and the transformation back to the caller's units."""

    S: Array  # (n, n), unit diagonal
    lower: Array  # (n,), finite if either limit is
    upper: Array  # (n,)
    scale: Array  # (N,), of the caller's coordinates; negative where the sign was flipped
    mean: Array  # (N,)
    row: IntArray  # (N,), where each of them is in x
    empty: str = ""  # why no point lies inside, if so
    jitter: float = 0.0  # added to the diagonal of S for its factorisation
    blur: float = 0.0  # how much jitter may change log P
    smooth: SmoothFactors | None = None  # factors of the coordinates without limits

    @property
    def n(self) -> int:
        """Number of coordinates."""
        return len(self.lower)

    def take(self, order: IntArray) -> Box:
        """The same problem with its coordinates in another order."""
        return replace(
            self, S=self.S[np.ix_(order, order)], lower=self.lower[order], upper=self.upper[order],
            row=np.argsort(order)[self.row], smooth=None if self.smooth is None else self.smooth.take(order),
        )  # fmt: skip

    def restore(self, x: Array, out: Array | None = None) -> Array:
        """Draws in the caller's units and order, (N, M), from draws x (n, M) in standard form."""
        out = np.empty((len(self.row), x.shape[1])) if out is None else out
        for i in range(0, len(out), ROWS):
            part = slice(i, i + ROWS)
            np.multiply(self.scale[part, None], x[self.row[part]], out=out[part])
            out[part] += self.mean[part, None]
        return out

    def restore_duals(self, a: Array, out: Array | None = None) -> Array:
        """The caller's covariance⁻¹ times its draws (about the mean), (N, M), from S⁻¹x (n, M)."""
        out = np.empty((len(self.row), a.shape[1])) if out is None else out
        for i in range(0, len(out), ROWS):
            part = slice(i, i + ROWS)
            np.divide(a[self.row[part]], self.scale[part, None], out=out[part])
        return out


@dataclass(frozen=True)
class BoxAnew:
    """A box that is made whenever its covariance is needed, and not kept: for a large one that is soon reordered."""

    n: int  # number of coordinates
    make: Callable[[], Box]

    @property
    def S(self) -> Array:
        """The covariance, (n, n)."""
        return self.make().S

    def take(self, order: IntArray) -> Box:
        """The box with its coordinates in another order."""
        return self.make().take(order)


@dataclass(frozen=True)
class BoxFactors:
    """The factors 1(lower_i < x_i < upper_i), by their tilted moments."""

    lower: Array  # (n,)
    upper: Array  # (n,)

    def tilted(self, mean: Array, var: Array) -> tuple[Array, Array, Array]:
        """Log probability of every interval under N(mean_i, var_i), truncated mean and variance."""
        s = np.sqrt(var)
        log_z, m, v = truncated_normal_moments((self.lower - mean) / s, (self.upper - mean) / s)
        return log_z, mean + s * m, var * v

    def tilted_one(self, i: int, mean: float, var: float) -> tuple[float, float, float]:
        """The same for one interval."""
        low, high = self.lower.item(i), self.upper.item(i)
        s = math.sqrt(var)
        a = (low - mean) / s
        if high == math.inf:
            if low == -math.inf:
                return 0.0, mean, var
            log_z, h, _, tau = hazard_terms_scalar(-a)
            return log_z, mean + s * h, var * tau
        b = (high - mean) / s
        if -5 < a < b < 5 and b - a > 0.3:  # no cancellation here, and arrays are slow
            mass = 0.5 * (math.erfc(a * math.sqrt(0.5)) - math.erfc(b * math.sqrt(0.5)))
            f_a, f_b = math.exp(-0.5 * a * a) / ROOT_2PI, math.exp(-0.5 * b * b) / ROOT_2PI
            m = (f_a - f_b) / mass
            return math.log(mass), mean + s * m, var * (1 + (a * f_a - b * f_b) / mass - m * m)
        log_zs, ms, vs = truncated_normal_moments(np.array([a]), np.array([b]))
        return float(log_zs[0]), mean + s * float(ms[0]), var * float(vs[0])


def standard_form(
    cov: npt.ArrayLike, lower: npt.ArrayLike = 0.0, upper: npt.ArrayLike = np.inf, mean: npt.ArrayLike = 0.0
) -> Box:
    """Check the problem and convert it to standard form.

    Parameters
    ----------
    cov : (n, n) array
        Covariance, positive semi-definite up to rounding.
    lower, upper, mean : float or (n,) array
        Limits and mean; limits may be infinite.

    Returns
    -------
    Box
    """
    C = _checked_covariance(cov)
    n = len(C)
    low, high, m = (_vector(x, n, name) for x, name in ((lower, "lower"), (upper, "upper"), (mean, "mean")))
    _check_limits(low, high, m)
    scale = np.sqrt(np.diag(C))
    fixed = scale == 0
    outside = bool(np.any((m < low)[fixed] | (m > high)[fixed]))
    divisor = np.where(fixed, 1.0, scale)
    a = np.where(fixed, -np.inf, (low - m) / divisor)
    b = np.where(fixed, np.inf, (high - m) / divisor)
    S = C / divisor[:, None] / divisor
    S.flat[:: n + 1] = 1.0
    first = np.argmax(np.abs(S) >= 1 - MULTIPLE, axis=1)  # the first coordinate of which each is a multiple
    first = first[first]
    sign = np.sign(S[np.arange(n), first])
    keep, row = np.unique(first, return_inverse=True)
    lower, upper = np.full(len(keep), -np.inf), np.full(len(keep), np.inf)
    np.maximum.at(lower, row, np.where(sign > 0, a, -b))
    np.minimum.at(upper, row, np.where(sign > 0, b, -a))
    flip = np.where((lower == -np.inf) & (upper < np.inf), -1.0, 1.0)
    lower, upper = np.where(flip < 0, -upper, lower), np.where(flip < 0, np.inf, upper)
    S = S[np.ix_(keep, keep)] * flip[:, None] * flip
    jitter = _jitter(S)
    room = _room(S, lower, upper) if jitter else 1.0
    S.flat[:: len(S) + 1] += jitter
    empty = (
        "a coordinate without variance lies outside its limits" if outside
        else "coordinates that are multiples of each other have no value within all their limits"
        if (lower >= upper).any()
        else "cov is singular, and none of its points lies within all limits" if room < LEAST_ROOM
        else ""
    )  # fmt: skip
    blur = len(S) * np.sqrt(jitter) / room if not empty else 0.0
    return Box(S, lower, upper, np.where(fixed, 0.0, scale) * sign * flip[row], m, row, empty, jitter, float(blur))


def _room(S: Array, lower: Array, upper: Array) -> float:
    """The largest distance, at most 1, that a point in the range of S can have from all limits; below 0 if none."""
    from scipy.optimize import linprog  # here, to keep the import of the package fast

    values, Q = np.linalg.eigh(S)
    V = (Q * np.sqrt(np.maximum(values, 0)))[:, values > len(S) * MULTIPLE]
    below, above = np.isfinite(lower), np.isfinite(upper)
    A = np.vstack([-V[below], V[above]])
    found = linprog(
        np.append(np.zeros(V.shape[1]), -1.0), np.column_stack([A, np.ones(len(A))]),
        np.append(-lower[below], upper[above]), bounds=[(None, None)] * V.shape[1] + [(None, 1.0)],
        options={"primal_feasibility_tolerance": 1e-10},
    )  # fmt: skip
    return -float(found.fun or 0.0) if found.success else LEAST_ROOM


def _checked_covariance(cov: npt.ArrayLike) -> Array:
    C = np.array(cov, dtype=float)
    if C.ndim != 2 or C.shape[0] != C.shape[1] or not len(C):
        raise ValueError(f"cov must be a square matrix with at least one row; its shape is {C.shape}")
    if not np.isfinite(C).all():
        raise ValueError("cov holds NaN or infinite values; remove or repair those rows first")
    diagonal = np.diag(C)
    if (diagonal < 0).any():
        i = int(np.argmin(diagonal))
        raise ValueError(f"cov is indefinite: its diagonal entry {i} is {diagonal[i]:g}, a negative variance")
    root = np.sqrt(diagonal)
    size = np.outer(root, root)
    gap = np.abs(C - C.T)
    if (gap > 1e-8 * size + 1e-300).any():
        i, j = divmod(int(np.argmax(gap - 1e-8 * size)), len(C))
        raise ValueError(
            f"cov is not symmetric: entries ({i}, {j}) and ({j}, {i}) are {C[i, j]:g} and {C[j, i]:g}; "
            "pass (cov + cov.T)/2 if the difference is rounding"
        )
    if (np.abs(C) > (1 + 1e-8) * size + 1e-300).any():
        i, j = divmod(int(np.argmax(np.abs(C) - size)), len(C))
        raise ValueError(f"cov is indefinite: entry ({i}, {j}) exceeds what the two variances allow")
    return np.asarray(0.5 * (C + C.T))


def _vector(x: npt.ArrayLike, n: int, name: str) -> Array:
    v = np.asarray(x, dtype=float)
    if v.ndim > 1 or (v.ndim == 1 and v.shape != (n,)):
        raise ValueError(f"{name} must be a number or have one entry per row of cov ({n}); its shape is {v.shape}")
    if np.isnan(v).any():
        raise ValueError(f"{name} holds NaN; use -inf or inf for no limit")
    return np.array(np.broadcast_to(v, (n,)))


def _check_limits(low: Array, high: Array, mean: Array) -> None:
    if not np.isfinite(mean).all():
        raise ValueError("mean must be finite")
    wrong = ~(low < high)
    if wrong.any():
        i = int(np.argmax(wrong))
        what = "reversed" if low[i] > high[i] else "equal (an empty box)"
        raise ValueError(f"the limits of coordinate {i} are {what}: lower {low[i]:g}, upper {high[i]:g}")
    if (low == np.inf).any() or (high == -np.inf).any():
        raise ValueError("a lower limit of inf or an upper limit of -inf makes the box empty; check the limits")


def _jitter(S: Array) -> float:
    """The jitter that S needs; a factor that exists by rounding alone does not count."""
    try:
        L, jitter = factor(S, what="cov")
        if jitter == 0 and np.diag(L).min() ** 2 < len(S) * MULTIPLE:
            jitter = factor(S, what="cov", least=JITTERS[1])[1]
        return jitter
    except NotPositiveDefiniteError as error:
        low = float(np.linalg.eigvalsh(S)[0])
        raise ValueError(
            f"cov is indefinite: scaled to unit variances its smallest eigenvalue is {low:.2g}; "
            "check how it was computed, or project it on the positive semi-definite matrices"
        ) from error
