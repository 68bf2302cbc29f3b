r"""Normal tails, truncated normals and logistic-Gaussian integrals, in logs and accurate in the far tails.

Normal hazard and its relatives. With h(z) = φ(z)/Φ(z) the derivatives of log Φ are

    (log Φ)'   =  h
    (log Φ)''  = -h (z + h)              = τ(z) - 1,  τ = variance of a normal cut at z
    (log Φ)''' =  h ((z + h)² - τ)

For z → -∞ both z + h and τ are differences of nearly equal numbers. Below z = -5 they are computed from
Laplace's continued fraction h = x + K₁, K_j = j/(x + K_{j+1}), x = -z, where every difference is a ratio:

    z + h = K₁,   τ = (K₂ - K₁)/(x + K₂),   (z + h)² - τ = 2 K₁ (K₃ - K₂)/((x + K₂)(x + K₃)).

Logistic-Gaussian integrals ∫ N(u; a, b) σ(u) du. The integrand is analytic in a strip, so the trapezoidal rule
converges geometrically. If the variance is small, or the kink of σ at 0 is far from the mass, 35 evenly spaced nodes
cover the mass. Otherwise the nodes are u = π sinh t, evenly spaced in t: dense at the kink, sparse in the Gaussian's
flanks, so that b = 10⁶ needs about twice the nodes of b = 10. All weights are positive: there is no cancellation, and
E σ has full relative accuracy, however small it is.

Cost: O(1) per element for the normal functions, 35 to ~240 exponentials for a logistic integral.
Fails when: a logistic integral has a variance above ~10¹² (the table of nodes ends).
References: Genz & Bretz (2009), Computation of multivariate normal and t probabilities; Trefethen & Weideman
(2014), The exponentially convergent trapezoidal rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.special import erfcx, log_expit, log_ndtr, ndtr, ndtri

from gpclass._typing import Array, BoolArray, IntArray

LOG_2PI = math.log(2.0 * math.pi)
SQRT_HALF = math.sqrt(0.5)
SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)

_TAIL = 5.0  # below -_TAIL the continued fraction is used
_LEVELS = 20  # of the continued fraction: exact to rounding for x >= _TAIL
_FAR = 25.0  # beyond it quantiles are computed relative to the limit
_DROP = 40.0  # integrands are truncated at exp(-_DROP) of their peak
_APART = 7.0  # a kink this many standard deviations from the mass is negligible


def log_sum_exp(values: Array, axis: int, keepdims: bool = False) -> Array:
    """Log Σ exp(values) along an axis, for values below +∞: SciPy's costs ten times as much on small arrays."""
    top = np.maximum(values.max(axis=axis, keepdims=True), -np.finfo(float).max)  # all of them -∞: the log of none
    total = np.exp(values - top).sum(axis=axis, keepdims=True)
    with np.errstate(divide="ignore"):
        out = np.log(total) + top
    return np.asarray(out if keepdims else out.squeeze(axis))


# ---------------------------------------------------------------------------------------------- normal


def normal_hazard(z: Array | float) -> Array:
    """φ(z)/Φ(z), with full relative accuracy for any z."""
    with np.errstate(over="ignore"):
        return np.asarray(SQRT_2_OVER_PI / erfcx(-SQRT_HALF * np.asarray(z, dtype=float)))


def hazard_terms(z: Array | float) -> tuple[Array, Array, Array, Array]:
    """The terms h, z + h, τ and (z + h)² - τ of the derivatives of log Φ, accurate in the lower tail too."""
    z = np.asarray(np.minimum(np.maximum(z, -1e100), 1e100), dtype=float)  # infinite z gives the limits
    h = normal_hazard(z)
    excess = np.asarray(z + h)
    tau = np.asarray(1.0 - h * excess)
    kappa = np.asarray(excess**2 - tau)
    tail = z < -_TAIL
    if tail.any():
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
    """The values log Φ(z), h, z + h and τ of one float: :func:`hazard_terms` without array overhead."""
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


# ------------------------------------------------------------------------------------ truncated normal

_FEW = np.polynomial.legendre.leggauss(12)  # for boxes over which the density changes by a factor of ~e
_MANY = np.polynomial.legendre.leggauss(56)  # for any box


def _box_moments(start: Array, width: Array, rule: tuple[Array, Array]) -> tuple[Array, Array, Array]:
    """The log Z, mean and variance of a standard normal on [start, start + width], by Gauss-Legendre.

    The offset from start is the variable, which avoids cancellation for any width and location of the box.
    """
    log_z, mean, variance = np.empty_like(start), np.empty_like(start), np.empty_like(start)
    x, w = rule
    for rows in _blocks(np.arange(len(start))):
        low, wide = start[rows, None], width[rows, None]
        t = 0.5 * wide * (x + 1.0)
        p = 0.5 * w * np.exp(-t * (low + 0.5 * t))
        total = p.sum(axis=1)
        centre = np.sum(p * t, axis=1) / total
        with np.errstate(divide="ignore"):
            log_z[rows] = np.log(width[rows]) + np.log(total) - 0.5 * (start[rows] ** 2 + LOG_2PI)
        mean[rows] = start[rows] + centre
        variance[rows] = np.sum(p * (t - centre[:, None]) ** 2, axis=1) / total
    return log_z, mean, variance


def log_diff_ndtr(a: Array | float, b: Array | float) -> Array:
    """The log of Φ(b) - Φ(a) for a < b, infinite limits allowed, accurate in both tails and for narrow boxes."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if b.ndim == 0 and b == np.inf:
        return np.asarray(log_ndtr(-a))
    a, b = np.broadcast_arrays(a, b)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        flip = a + b > 0.0  # work in the lower tail, where Φ is small
        low, high = np.where(flip, -b, a), np.where(flip, -a, b)
        log_high = log_ndtr(high)
        wide = high - low
        ratio = np.fmin(log_ndtr(low) - log_high, wide * (high - 0.5 * wide))  # a bound that does not cancel
        out = np.where(log_high == -np.inf, -np.inf, log_high + np.log(-np.expm1(ratio)))
    narrow = ratio > -1.0
    if np.any(narrow):  # from the end where the density is largest: it cannot overflow
        out[narrow] = _box_moments(-high[narrow], wide[narrow], _FEW)[0]
    return out


def truncated_normal_moments(a: Array | float, b: Array | float) -> tuple[Array, Array, Array]:
    """The log Z, mean and variance of a standard normal restricted to [a, b].

    Half-lines in closed form; boxes by Gauss-Legendre over the part that contributes.
    """
    a, b = np.broadcast_arrays(np.asarray(a, dtype=float), np.asarray(b, dtype=float))
    with np.errstate(invalid="ignore"):
        flip = a + b < 0.0
    low, high = np.where(flip, -b, a), np.where(flip, -a, b)  # now high >= |low|
    log_z = np.asarray(log_ndtr(-low))
    mean, _, variance, _ = hazard_terms(-low)
    box = np.isfinite(high)
    if np.any(box):
        start = np.maximum(low[box], -9.5)
        peak = np.maximum(start, 0.0)
        reach = peak + 2.0 * _DROP / (np.sqrt(peak**2 + 2.0 * _DROP) + peak)
        width = np.where(high[box] <= reach, high[box] - start, reach - start)
        log_z[box], mean[box], variance[box] = _box_moments(start, width, _MANY)
    return log_z, np.where(flip, -mean, mean), variance


def truncated_normal_quantile(u: Array | float, a: Array | float, b: Array | float) -> Array:
    """The u-quantile of a standard normal restricted to [a, b]: a draw when u is uniform.

    Upper tail probabilities mix linearly, Q(x) = (1-u) Q(a) + u Q(b), and invert without cancellation up to
    a = 25. Beyond, x is found relative to a: with Q = φ R, R Mills' ratio, and E = -log Q(x)/Q(a),
    x² = a² + 2 (E + log R(x)/R(a)) is a fixed point with contraction 1/a². (Inverting log Q itself would
    lose the draw's digits to a²/2.)
    """
    u, a, b = (np.asarray(v, dtype=float) for v in (u, a, b))
    if b.ndim == 0 and b == np.inf:  # orthants: the hot path
        u, a = np.broadcast_arrays(u, a)
        return _upper_quantile(u, 1.0 - u, a, None)
    u, a, b = np.broadcast_arrays(u, a, b)
    with np.errstate(invalid="ignore"):
        flip = a + b < 0.0
    low, high = np.where(flip, -b, a), np.where(flip, -a, b)
    x = _upper_quantile(np.where(flip, 1.0 - u, u), np.where(flip, u, 1.0 - u), low, high)
    return np.where(flip, -x, x)


def _upper_quantile(u: Array, v: Array, a: Array, b: Array | None) -> Array:
    """The u-quantile, v = 1 - u, on [a, b] with b >= |a|, or on [a, ∞) if b is None."""
    p = ndtr(-a) * v
    if b is not None:
        p += u * ndtr(-b)
    x = np.asarray(ndtri(p))
    np.negative(x, out=x)
    lower = p > 0.999  # where the complement is more accurate
    if np.any(lower):
        x[lower] = ndtri(v[lower] * ndtr(a[lower]) + u[lower] * (1.0 if b is None else ndtr(b[lower])))
    far = a > _FAR
    if np.any(far):
        x[far] = _far_quantile(u[far], v[far], a[far], None if b is None else b[far])
    np.maximum(x, a, out=x)  # rounding must not move draws out of the box
    return x if b is None else np.minimum(x, b)


def _far_quantile(u: Array, v: Array, a: Array, b: Array | None) -> Array:
    """:func:`_upper_quantile` for a > _FAR."""
    mills = erfcx(SQRT_HALF * a)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # a² = inf gives x = a
        if b is None:
            spent = np.where(u < 0.5, -np.log1p(-u), -np.log(v))
        else:
            log_left = 0.5 * (a - b) * (a + b) + np.log(erfcx(SQRT_HALF * b) / mills)  # log Q(b)/Q(a)
            log_left = np.where(b == np.inf, -np.inf, log_left)
            spent = np.where(u < 0.5, -np.log1p(u * np.expm1(log_left)), -np.log(v + u * np.exp(log_left)))
        x = np.sqrt(a**2 + 2.0 * spent)
        for _ in range(4):
            gap = 2.0 * (spent + np.log(erfcx(SQRT_HALF * x) / mills))  # x² - a²
            x = a + gap / (a + np.sqrt(a**2 + gap))
    return np.where(spent == np.inf, np.inf, x)


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
    """The part of the table for the kink that covers [-left, right]."""
    first = _HALF - math.ceil(math.asinh(left / math.pi) / _STEP)
    last = _HALF + 1 + math.ceil(math.asinh(right / math.pi) / _STEP)
    return slice(max(first, 0), last)


def normal_quadrature(
    a: Array, b: Array, kinked: BoolArray, shift: Array, shrink: Array, reach: tuple[Array, Array]
) -> Iterator[tuple[IntArray, Array, Array]]:
    """Nodes for expectations under N(a, b): indices (r,), nodes (r or 1, Q), logs of weight times density (r, Q).

    All arguments are (n,). Where ``kinked``, the nodes are dense at zero and cover ``reach`` to its left and right;
    elsewhere they are a + √b (shift + shrink x), x evenly spaced from -9.35 to 9.35.
    """
    for block in _blocks(np.flatnonzero(kinked)):
        part = _node_range(float(reach[0][block].max()), float(reach[1][block].max()))
        u = _KINK_U[part][None, :]
        v = b[block, None]
        log_w = _KINK_LOG_W[part] - (u - a[block, None]) ** 2 / (2.0 * v) - 0.5 * (LOG_2PI + np.log(v))
        yield block, u, log_w
    for block in _blocks(np.flatnonzero(~kinked)):
        x = shift[block, None] + shrink[block, None] * _LINE_X
        u = a[block, None] + np.sqrt(b[block, None]) * x
        yield block, u, _LINE_LOG_W + np.log(shrink[block, None]) - 0.5 * x**2


def _blocks(index: IntArray) -> Iterator[IntArray]:
    """Split an index into pieces of bounded length."""
    for start in range(0, len(index), _ROWS):
        yield index[start : start + _ROWS]


def logistic_quadrature(a: Array, b: Array) -> Iterator[tuple[IntArray, Array, Array]]:
    """Nodes for integrals of N(u; a, b) g(u) where g grows like e^u below zero and slowly above it.

    The mass is at a (if positive), at a + b (if negative), or at the kink between them.
    """
    left_heavy = a < -0.5 * b
    centre = np.where(left_heavy, -(a + b), a)
    kinked = (b > 1.0) & (centre < _APART * np.sqrt(b))
    root = 2.0 * _DROP * b
    # where the log integrand has fallen by _DROP from its value at the kink, on each side
    with np.errstate(divide="ignore", invalid="ignore"):  # b = 0 uses no kinked nodes
        left = root / (np.sqrt((a + b) ** 2 + root) + (a + b))
        right = root / (np.sqrt(a**2 + root) - a)
    shift = np.where(left_heavy, np.sqrt(b), 0.0)
    return normal_quadrature(a, b, kinked, shift, np.ones_like(a), (left, right))


def _relative(u: Array, log_w: Array) -> tuple[Array, Array]:
    """The largest log of weight times σ in each row, and all relative to it; overwrites log_w."""
    log_w += log_expit(u)
    top = log_w.max(axis=1)
    log_w -= top[:, None]
    return top, np.exp(log_w, out=log_w)


def logistic_tilt(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """The log Z, mean and variance of N(u; a, b) σ(u)/Z for (n,) arrays a and b."""
    log_z, mean, variance = np.empty_like(a), np.empty_like(a), np.empty_like(a)
    for rows, u, log_w in logistic_quadrature(a, b):
        top, p = _relative(u, log_w)
        total = p.sum(axis=1)
        centre = np.einsum("rq,rq->r", p, np.broadcast_to(u, p.shape)) / total
        away = u - centre[:, None]
        p *= away
        log_z[rows] = top + np.log(total)
        mean[rows] = centre
        variance[rows] = np.einsum("rq,rq->r", p, away) / total
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
    computed from it by log1p, without loss.
    """
    mean, var = np.broadcast_arrays(np.asarray(mean, dtype=float), np.asarray(var, dtype=float))
    a = scale * mean.ravel()
    b = scale**2 * var.ravel()
    lesser = np.empty_like(a)
    for rows, u, log_w in logistic_quadrature(-np.abs(a), b):
        top, p = _relative(u, log_w)
        lesser[rows] = top + np.log(p.sum(axis=1))
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
