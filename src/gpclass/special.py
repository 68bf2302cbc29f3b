r"""Normal tails, truncated normals and logistic-Gaussian integrals, in logs and right in the far tails.

Normal hazard and its relatives. With h(z) = φ(z)/Φ(z) the derivatives of log Φ are

    (log Φ)'   =  h
    (log Φ)''  = -h (z + h)              = τ(z) - 1,  τ = variance of a normal cut at z
    (log Φ)''' =  h ((z + h)² - τ)

For z → -∞ both z + h and τ are differences of nearly equal numbers. Below z = -5 they are built from
Laplace's continued fraction h = x + K₁, K_j = j/(x + K_{j+1}), x = -z, where every difference is a ratio:

    z + h = K₁,   τ = (K₂ - K₁)/(x + K₂),   (z + h)² - τ = 2 K₁ (K₃ - K₂)/((x + K₂)(x + K₃)).

Logistic-Gaussian integrals ∫ N(u; a, b) σ(u) du. The integrand is analytic in a strip, so the trapezoidal
rule converges geometrically. Where the variance is small, or the kink of σ at 0 is far from the mass, 35
nodes are evenly spaced around the mass. Otherwise they are u = π sinh t, evenly spaced in t: dense at the
kink, sparse in the Gaussian's flanks, so that b = 10⁶ costs about twice the nodes of b = 10. All weights
are positive: nothing cancels, and E σ is right in relative terms however small it is.

Cost: O(1) an element for the normal functions, 35 to ~240 exponentials for a logistic integral.
Fails when: a logistic integral has a variance above ~10¹² (the table of nodes ends).
References: Genz & Bretz (2009), Computation of multivariate normal and t probabilities; Trefethen & Weideman
(2014), The exponentially convergent trapezoidal rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx, log_expit

from gpclass._typing import Array, IntArray

BoolArray: TypeAlias = npt.NDArray[np.bool_]

LOG_2PI = math.log(2.0 * math.pi)
SQRT_HALF = math.sqrt(0.5)
SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)

_TAIL = 5.0  # below -_TAIL the continued fraction takes over
_LEVELS = 20  # of the continued fraction: exact to rounding for x >= _TAIL
_FAR = 25.0  # beyond it quantiles are found relative to the limit
_DROP = 40.0  # integrands are cut where they are exp(-_DROP) of their peak
_APART = 7.0  # a kink so many standard deviations from the mass is not seen

# ---------------------------------------------------------------------------------------------- normal


def normal_hazard(z: Array | float) -> Array:
    """φ(z)/Φ(z), right in relative terms for any z."""
    with np.errstate(over="ignore"):
        return np.asarray(SQRT_2_OVER_PI / erfcx(-SQRT_HALF * np.asarray(z, dtype=float)))


def hazard_terms(z: Array | float) -> tuple[Array, Array, Array, Array]:
    """What the derivatives of log Φ are made of.

    Returns
    -------
    h, excess, tau, kappa : ndarray
        h = φ/Φ; z + h; τ = 1 - h (z + h), the variance of a standard normal restricted to x > -z;
        (z + h)² - τ. All right in relative terms in the lower tail.
    """
    z = np.asarray(z, dtype=float)
    h = normal_hazard(z)
    excess = z + h
    tau = 1.0 - h * excess
    kappa = excess**2 - tau
    tail = z < -_TAIL
    if np.any(tail):
        x = -z[tail]
        k1, k2, k3 = _continued_fraction(x)
        excess[tail] = k1
        tau[tail] = (k2 - k1) / (x + k2)
        kappa[tail] = 2.0 * k1 * (k3 - k2) / ((x + k2) * (x + k3))
    return h, excess, tau, kappa


def _continued_fraction(x: Array) -> tuple[Array, Array, Array]:
    """K₁, K₂, K₃ of Laplace's continued fraction, for x >= _TAIL."""
    k = 0.5 * (np.sqrt(x**2 + 4.0 * _LEVELS) - x)  # the fixed point of K = j/(x + K) closes the fraction
    levels = []
    for j in range(_LEVELS, 0, -1):
        k = j / (x + k)
        levels.append(k)
    return levels[-1], levels[-2], levels[-3]


def hazard_terms_scalar(z: float) -> tuple[float, float, float, float]:
    """The values log Φ(z), h, z + h and τ of one float: :func:`hazard_terms` without the price of arrays."""
    if z < -_TAIL:
        x = -z
        k = 0.5 * (math.sqrt(x * x + 4.0 * _LEVELS) - x)
        for j in range(_LEVELS, 1, -1):
            k = j / (x + k)
        k1 = 1.0 / (x + k)
        return -0.5 * x * x - 0.5 * LOG_2PI - math.log(x + k1), x + k1, k1, (k - k1) / (x + k)
    if z > 0.0:
        below = 0.5 * math.erfc(SQRT_HALF * z)
        p, log_p = 1.0 - below, math.log1p(-below)
    else:
        p = 0.5 * math.erfc(-SQRT_HALF * z)
        log_p = math.log(p)
    h = math.exp(-0.5 * z * z - 0.5 * LOG_2PI) / p
    excess = z + h
    return log_p, h, excess, 1.0 - h * excess


# -------------------------------------------------------------------------------------------- logistic

_STEP = 0.08  # a Gaussian _APART deviations from the kink needs it this small
_HALF = 200  # nodes on either side: |u| up to 1.4e7
_T = _STEP * np.arange(-_HALF, _HALF + 1)
_KINK_U = np.pi * np.sinh(_T)  # (401,) nodes, dense at 0
_KINK_LOG_W = np.log(_STEP * np.pi * np.cosh(_T))
_KINK_LOG_SIGMA = np.asarray(log_expit(_KINK_U)) + _KINK_LOG_W
_LINE_STEP = 0.55
_LINE_X = _LINE_STEP * np.arange(-17, 18)  # (35,) in standard deviations
_LINE_LOG_W = -0.5 * LOG_2PI + math.log(_LINE_STEP)
_ROWS = 4096  # elements integrated at once: 4096 × 400 doubles are 13 MB


def _node_range(left: float, right: float) -> slice:
    """The part of the kinked table that covers [-left, right]."""
    first = _HALF - math.ceil(math.asinh(left / math.pi) / _STEP)
    last = _HALF + 1 + math.ceil(math.asinh(right / math.pi) / _STEP)
    return slice(max(first, 0), last)


def normal_quadrature(
    a: Array, b: Array, kinked: BoolArray, shift: Array, shrink: Array, reach: tuple[Array, Array]
) -> Iterator[tuple[IntArray, Array, Array]]:
    """Nodes and log weights for expectations under N(a, b), a block of elements at a time.

    Parameters
    ----------
    a, b : (n,) arrays
        Means and variances.
    kinked : (n,) bool array
        Where to take the nodes that are dense at zero.
    shift, shrink : (n,) arrays
        Elsewhere the nodes are a + √b (shift + shrink x), x evenly spaced from -9.35 to 9.35.
    reach : two (n,) arrays
        How far to the left and right of zero the kinked nodes must go.

    Yields
    ------
    rows, u, log_w
        Indices (r,), nodes (r or 1, Q), logs of weight times density (r, Q).
    """
    for block in _blocks(np.flatnonzero(kinked)):
        part = _node_range(float(reach[0][block].max()), float(reach[1][block].max()))
        u = _KINK_U[part][None, :]
        v = b[block, None]
        yield (
            block,
            u,
            _KINK_LOG_W[part] - (u - a[block, None]) ** 2 / (2.0 * v) - 0.5 * (LOG_2PI + np.log(v)),
        )
    for block in _blocks(np.flatnonzero(~kinked)):
        x = shift[block, None] + shrink[block, None] * _LINE_X
        u = a[block, None] + np.sqrt(b[block, None]) * x
        yield block, u, _LINE_LOG_W + np.log(shrink[block, None]) - 0.5 * x**2


def _blocks(index: IntArray) -> Iterator[IntArray]:
    """Index in pieces of bounded length."""
    for start in range(0, len(index), _ROWS):
        yield index[start : start + _ROWS]


def logistic_quadrature(a: Array, b: Array) -> Iterator[tuple[IntArray, Array, Array]]:
    """Nodes for integrals of N(u; a, b) g(u) where g grows like e^u below zero and slowly above it.

    The mass sits at a (if above zero), at a + b (if that is below zero), or at the kink between.
    """
    left_heavy = a < -0.5 * b
    centre = np.where(left_heavy, -(a + b), a)
    kinked = (b > 1.0) & (centre < _APART * np.sqrt(b))
    root = 2.0 * _DROP * b
    # where the log integrand has fallen by _DROP from its value at the kink, on each side
    left = root / (np.sqrt((a + b) ** 2 + root) + (a + b))
    right = root / (np.sqrt(a**2 + root) - a)
    return normal_quadrature(
        a, b, kinked, np.where(left_heavy, np.sqrt(b), 0.0), np.ones_like(a), (left, right)
    )


def logistic_tilt(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """The log Z, mean and variance of N(u; a, b) σ(u)/Z for (n,) arrays a and b."""
    log_z, mean, variance = np.empty_like(a), np.empty_like(a), np.empty_like(a)
    for rows, u, log_w in logistic_quadrature(a, b):
        log_p = log_w + log_expit(u)
        top = log_p.max(axis=1)
        p = np.exp(log_p - top[:, None])
        total = p.sum(axis=1)
        p /= total[:, None]
        middle = np.sum(p * u, axis=1)
        log_z[rows] = top + np.log(total)
        mean[rows] = middle
        variance[rows] = np.sum(p * (u - middle[:, None]) ** 2, axis=1)
    return log_z, mean, variance


def logistic_tilt_scalar(a: float, b: float) -> tuple[float, float, float]:
    """:func:`logistic_tilt` of one pair of floats."""
    sd = math.sqrt(b)
    left_heavy = a < -0.5 * b
    if b > 1.0 and (-(a + b) if left_heavy else a) < _APART * sd:
        root = 2.0 * _DROP * b
        c = a + b
        part = _node_range(root / (math.sqrt(c * c + root) + c), root / (math.sqrt(a * a + root) - a))
        u = _KINK_U[part]
        away = u - a
        away *= away
        away *= -0.5 / b
        away += _KINK_LOG_SIGMA[part]
        constant = -0.5 * (LOG_2PI + math.log(b))
    else:
        x = _LINE_X + sd if left_heavy else _LINE_X
        u = a + sd * x
        away = log_expit(u)
        away -= 0.5 * x * x
        constant = _LINE_LOG_W
    top = float(away.max())
    p = np.exp(away - top)
    total = float(p.sum())
    mean = float(p @ u) / total
    u = u - mean
    u *= u
    return constant + top + math.log(total), mean, float(p @ u) / total


def logistic_normal(mean: Array | float, var: Array | float, scale: float = 1.0) -> tuple[Array, Array]:
    """Both log E σ(s f) and log E σ(-s f) for f ~ N(mean, var).

    The smaller of the two is integrated, so it keeps its relative accuracy at 1e-300 and below; the other is
    log1p of it, which loses nothing.
    """
    mean, var = np.broadcast_arrays(np.asarray(mean, dtype=float), np.asarray(var, dtype=float))
    a = scale * mean.ravel()
    b = scale**2 * var.ravel()
    lesser = np.empty_like(a)
    for rows, u, log_w in logistic_quadrature(-np.abs(a), b):
        log_p = log_w + log_expit(u)
        top = log_p.max(axis=1)
        log_p -= top[:, None]
        lesser[rows] = top + np.log(np.exp(log_p, out=log_p).sum(axis=1))
    np.minimum(lesser, -math.log(2.0), out=lesser)  # rounding at mean 0
    greater = np.log1p(-np.exp(lesser))
    above = a > 0.0
    plus, minus = np.where(above, greater, lesser), np.where(above, lesser, greater)
    return plus.reshape(mean.shape), minus.reshape(mean.shape)


def probit_quadrature(a: Array, b: Array) -> Iterator[tuple[IntArray, Array, Array]]:
    """Nodes for integrals of N(u; a, b) g(u) where g decays like φ(u) below zero and grows slowly above it.

    For a < 0 the mass moves from a to a/(1+b) with standard deviation √(b/(1+b)), or to the kink.
    """
    sd = np.sqrt(b)
    root = np.sqrt(1.0 + b)
    below = a < 0.0
    kinked = (b > 1.0) & (a < _APART * sd) & (-a < _APART * sd * root)
    left = np.full_like(a, 2.5 * _APART)
    right = a + np.sqrt(a**2 + 2.0 * _DROP * b)
    shift = np.where(below, -a * sd / (1.0 + b), 0.0)
    return normal_quadrature(a, b, kinked, shift, np.where(below, 1.0 / root, 1.0), (left, right))
