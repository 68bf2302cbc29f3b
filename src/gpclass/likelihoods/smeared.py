r"""The likelihood seen from u: log ℓ(g) = log ∫ p(y|f)^power N(f; g, λ) df, for many g per row.

For the probit it has a closed form, otherwise each row's log ℓ is expanded in Chebyshev polynomials
over the range of its values g: analytic up to a distance of about 2.5/s from the real line, so that K terms leave an
error of ρ^−K, ρ = q + √(1 + q²), q = 2.5/(half range × s); K is chosen for 1e-11. The quadrature behind it runs at K
points per row instead of at every draw.
Cost: O(1) per value in closed form, K multiply-adds (20 to 60 for posterior draws) otherwise.
Reference: Trefethen (2013), Approximation Theory and Approximation Practice, theorem 8.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.fft import dct

from gpclass._typing import Array
from gpclass.model.rows import Labels

if TYPE_CHECKING:
    from gpclass.likelihoods.binary import BinaryLikelihood

DIGITS = 25.3  # −log of the error of an expansion
STRIP = 2.5  # distance of the singularities of log Λ from the real line, at least


def log_smeared(likelihood: BinaryLikelihood, labels: Labels, G: Array, rest: Array) -> Array:
    """Log ℓ of one copy of each row, (r, M), for G (r, M) and λ (r,)."""
    if _terms(likelihood, _half(likelihood, G)) >= G.shape[1]:  # a huge range: fewer values than terms
        return _at(likelihood, labels, G, rest)
    return _clenshaw(*_expand(likelihood, labels, G, rest))


def slopes(likelihood: BinaryLikelihood, labels: Labels, G: Array, rest: Array) -> tuple[Array, Array]:
    """First derivative of log ℓ by g, and ℓ''/ℓ, (r, M) each."""
    coefficients, x, half = _expand(likelihood, labels, G, rest)
    first = np.polynomial.chebyshev.chebder(coefficients, axis=0) / half
    second = np.polynomial.chebyshev.chebder(first, axis=0) / half
    d1 = _clenshaw(first, x, half)
    return d1, d1**2 + _clenshaw(second, x, half)


def _half(likelihood: BinaryLikelihood, G: Array) -> Array:
    """Half the range of each row's values, (r,), bounded below by rounding."""
    return np.asarray(np.maximum(0.5 * np.ptp(G, axis=1), 1e-3 / likelihood.scale))


def _terms(likelihood: BinaryLikelihood, half: Array) -> int:
    """K: how many terms the widest row needs."""
    return int(np.ceil(DIGITS / np.arcsinh(STRIP / (likelihood.scale * float(half.max()))))) + 4


def _expand(likelihood: BinaryLikelihood, labels: Labels, G: Array, rest: Array) -> tuple[Array, Array, Array]:
    """Coefficients (K, r), the values' positions in [−1, 1], (r, M), and half the ranges, (r,)."""
    middle, half = 0.5 * (G.min(axis=1) + G.max(axis=1)), _half(likelihood, G)
    K = _terms(likelihood, half)
    nodes = middle[:, None] + half[:, None] * np.cos(np.pi * (np.arange(K) + 0.5) / K)
    coefficients = dct(_at(likelihood, labels, nodes, rest), type=2, axis=1).T / K
    coefficients[0] *= 0.5
    return coefficients, (G - middle[:, None]) / half[:, None], half


def _at(likelihood: BinaryLikelihood, labels: Labels, g: Array, rest: Array) -> Array:
    """Log ℓ at (r, K) points by quadrature."""
    y, lam = np.broadcast_to(labels.y[:, None], g.shape), np.broadcast_to(rest[:, None], g.shape)
    if labels.plain:
        return np.asarray(likelihood.log_predictive(y * g, lam)[0])
    power = np.broadcast_to(np.asarray(labels.power)[:, None], g.shape)
    sharp = power * likelihood.log_prob(y, g)
    wide = likelihood.scale**2 * lam > 1e-10
    if not wide.any():
        return np.asarray(sharp)
    smeared = likelihood.powered_tilted(y[wide], g[wide], lam[wide], power[wide])[0]
    sharp[wide] = smeared
    return np.asarray(sharp)


def _clenshaw(coefficients: Array, x: Array, half: Array) -> Array:
    """The expansions at their points."""
    if len(coefficients) == 0:
        return np.zeros_like(x)
    double = 2.0 * x
    b1, b2 = np.zeros_like(x), np.zeros_like(x)
    for c in coefficients[:0:-1]:
        np.multiply(double, b1, out=(spare := np.empty_like(x)))
        spare -= b2
        spare += c[:, None]
        b1, b2 = spare, b1
    return np.asarray(x * b1 - b2 + coefficients[0][:, None])
