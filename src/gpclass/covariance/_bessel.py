"""Matérn's correlation of any smoothness ν and its slope.

    κ(t) = c t^ν K_ν(t),  c = 2^(1−ν)/Γ(ν),  t = √(2ν q);    dκ/dq = −ν c t^(ν−1) K_(ν−1)(t)

Both are t^a K_m(t) times a constant. A Bessel function costs about a microsecond per entry, a hundred times as much
as an exponential. For many entries log[t^a e^t K_m(t)] is therefore interpolated: piecewise polynomials of degree
``DEGREE`` at Chebyshev points, ``PER_OCTAVE`` pieces per doubling of t. K_m has no zero and no singularity in the
right half-plane, so on a piece [a, 2^¼ a] the error falls like 23^(−degree): 1e-14 at degree 10. The table is
computed once per ν.

At t = 0, κ = 1, and the slope is −ν/(2(ν−1)) for ν > 1, infinite otherwise (0 is returned: it multiplies a
difference of zero). If K_ν overflows (t tiny, or ν large), the series of κ in t²/4 is used. Beyond ``FAR``, κ = 0.
Fails when: ν exceeds a few hundred, where the series loses accuracy; ν = inf is the RBF.
Reference: Abramowitz & Stegun, Handbook of Mathematical Functions (1964), §9.6.
"""

from __future__ import annotations

from functools import lru_cache
from math import log

import numpy as np
from numpy.polynomial import chebyshev
from scipy.special import gammaln, kve

from gpclass._typing import Array

MANY = 4096  # entries above which the table is faster
FAR = 1e6  # t from which on κ is 0 for any ν; K_ν itself is not available beyond 1e9
LARGE = 60.0  # ν above which K_ν overflows within the table
LOWEST, HIGHEST, PER_OCTAVE, DEGREE = -10, 10, 4, 10  # the table covers 2^LOWEST <= t < 2^HIGHEST


def matern_value(nu: float, t: Array) -> Array:
    """κ_ν(t), 1 at t = 0."""
    b = (1 - nu) * log(2) - float(gammaln(nu))
    K, far = _bessel(nu, nu, b, t)
    K[far] = _series(nu, t[far])
    return K


def matern_slope(nu: float, t: Array) -> Array:
    """dκ_ν/dq at t = √(2ν q)."""
    b = log(nu) + (1 - nu) * log(2) - float(gammaln(nu))
    S, far = _bessel(abs(nu - 1), nu - 1, b, t)
    # c_ν t^μ K_μ = κ_μ/(2μ) for μ = ν − 1 > 0
    S[far] = nu / (2 * (nu - 1)) * _series(nu - 1, t[far]) if nu > 1 else 0.0
    return np.negative(S, out=S)


def _bessel(order: float, a: float, b: float, t: Array) -> tuple[Array, Array]:
    """e^b t^a K_order(t), and a mask of entries that failed: t = 0 or overflow."""
    t = np.minimum(t, FAR)
    if t.size < MANY or max(order, abs(a)) > LARGE:
        with np.errstate(divide="ignore", invalid="ignore"):
            log_f = _log_scaled(order, a, b, t)
    else:
        log_f = _interpolated(order, a, b, t)
    far = ~np.isfinite(log_f)
    log_f -= t
    with np.errstate(invalid="ignore", over="ignore"):
        np.exp(log_f, out=log_f)
    return log_f, far


def _log_scaled(order: float, a: float, b: float, t: Array) -> Array:
    """log[e^b t^a e^t K_order(t)]."""
    return np.asarray(b + a * np.log(t) + np.log(kve(order, t)))


def _interpolated(order: float, a: float, b: float, t: Array) -> Array:
    """The same from the table; entries outside its range are computed directly."""
    with np.errstate(divide="ignore"):
        place = np.log2(t)
    place -= LOWEST
    place *= PER_OCTAVE
    outside = (place < 0) | (place >= (HIGHEST - LOWEST) * PER_OCTAVE)
    place[outside] = 0.0
    piece = place.astype(np.intp)
    coefficients, centres, halves = _table(order, a, b)
    u = t - centres[piece]
    u /= halves[piece]
    out = coefficients[DEGREE][piece]
    for k in range(DEGREE - 1, -1, -1):
        out *= u
        out += coefficients[k][piece]
    if outside.any():
        with np.errstate(divide="ignore", invalid="ignore"):
            out[outside] = _log_scaled(order, a, b, t[outside])
    return np.asarray(out)


@lru_cache(maxsize=32)
def _table(order: float, a: float, b: float) -> tuple[Array, Array, Array]:
    """Coefficients (degree + 1, pieces) in u ∈ [−1, 1], centres and half-widths of the pieces."""
    edges = 2.0 ** (LOWEST + np.arange((HIGHEST - LOWEST) * PER_OCTAVE + 1) / PER_OCTAVE)
    centres, halves = (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2
    u = chebyshev.chebpts1(DEGREE + 1)
    values = _log_scaled(order, a, b, centres + halves * u[:, None])
    c = 2.0 / len(u) * chebyshev.chebvander(u, DEGREE).T @ values  # discrete orthogonality at the points
    c[0] /= 2
    powers = np.zeros((DEGREE + 1, DEGREE + 1))  # column k: the powers of u in T_k
    for k in range(DEGREE + 1):
        powers[: k + 1, k] = chebyshev.cheb2poly(np.eye(DEGREE + 1)[k])[: k + 1]
    return np.asarray(powers @ c), centres, halves


def _series(nu: float, t: Array) -> Array:
    """κ_ν(t) for small t: Σ_k (t²/4)^k / (k! (1−ν)(2−ν)…(k−ν)), up to a term of order t^(2ν)."""
    z = t**2 / 4
    term, total = np.ones_like(z), np.ones_like(z)
    k = 1
    while k < min(nu, 60):
        term = term * z / (k * (k - nu))
        total += term
        k += 1
    return np.asarray(total)
