r"""The logistic function as a smooth factor of a noisy latent value.

σ(u) is the distribution function of 2kZ, Z standard normal and k of Kolmogorov's distribution, so σ is a mixture of
normal distribution functions Φ(u/2k). Kolmogorov's k is hardly ever small: P(k < 0.27) is 4·10⁻⁷. So all rows can share
noise of variance r² = (2·0.27)²: with v = u + N(0, r²),

    σ(u) = ∫ N(v; u, r²) g(v) dv,   g(v) = Σ_j W_j Φ(v/√(4k_j² − r²)).

The exact engine draws v rather than u, because noise of its own per row makes its weights far more even (on 200 rows
with signal variance 1000, the effective share of draws rises from 0.11 to 0.5). The k_j are trapezoidal nodes in log k;
the rare smaller k count as the smallest node.

Error: the relative error of σ is below 10⁻⁸ for |u| < 60. Cost: a table, made at first use; then a few reads.
References: Andrews & Mallows (1974), Scale mixtures of normal distributions; Marsaglia, Tsang & Wang (2003) for the
series of Kolmogorov's distribution. The split is this package's own.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import log_ndtr, logsumexp

from gpclass._typing import Array

LEAST, MOST, NODES = 0.27, 6.0, 60  # of k
NOISE = (2.0 * LEAST) ** 2  # variance of the shared noise, in units of u
LOW, HIGH, STEP = -60.0, 40.0, 0.02  # of the table


def scales_and_weights() -> tuple[Array, Array]:
    """Nodes k_j of Kolmogorov's distribution, increasing, and their weights, which sum to one."""
    k = np.geomspace(LEAST, MOST, NODES)
    w = kolmogorov_density(k) * k * np.log(k[1] / k[0])
    w[0] += 1.0 - w.sum()
    return k, w


def kolmogorov_density(k: Array) -> Array:
    """Density of Kolmogorov's distribution, by the series that converges fast on either side of 1."""
    j = np.arange(1, 8)[:, None]
    small = (2 * j - 1) ** 2 * np.pi**2 / 8 / np.minimum(k, 1.0) ** 2
    below = np.sqrt(2 * np.pi) / k**2 * np.sum(np.exp(-small) * (2 * small - 1), axis=0)
    above = 8 * k * np.sum((-1.0) ** (j + 1) * j**2 * np.exp(-2 * j**2 * np.maximum(k, 1.0) ** 2), axis=0)
    return np.asarray(np.where(k < 1.0, below, above))


@cache
def _table() -> Array:
    """Nodes of the table, log g and its first two derivatives there, (4, nodes)."""
    v = np.arange(LOW, HIGH + STEP / 2, STEP)
    k, w = scales_and_weights()
    s = 1.0 / np.sqrt(np.maximum(4.0 * k**2 - NOISE, STEP**2))[:, None]
    z, log_w = s * v, np.log(w)[:, None]
    log_g = logsumexp(log_w + log_ndtr(z), axis=0)
    density = np.exp(log_w + np.log(s) - 0.5 * (z**2 + np.log(2 * np.pi)) - log_g)  # of each component, over g
    first = density.sum(axis=0)
    return np.stack([v, log_g, first, -np.sum(density * z * s, axis=0) - first**2])


class NoisyLogit:
    """The factor g of v, by cubic Hermite interpolation of its logarithm; straight lines beyond the table."""

    @staticmethod
    def log(v: Array, w: Array | float = 1.0) -> Array:
        """Log g(v); the power is one."""
        table = _table()
        at = (np.clip(v, LOW, HIGH) - LOW) / STEP
        i = np.minimum(at.astype(np.intp), table.shape[1] - 2)
        x = at - i
        value, slope = table[1], table[2]
        rest = 1.0 - x
        inside = rest * rest * ((1.0 + 2.0 * x) * value[i] + STEP * x * slope[i]) + x * x * (
            (3.0 - 2.0 * x) * value[i + 1] - STEP * rest * slope[i + 1]
        )
        return np.asarray(inside + np.minimum(v - LOW, 0.0))  # g falls as e^v far below

    @staticmethod
    def slopes(v: Array, w: Array | float = 1.0) -> tuple[Array, Array]:
        """First and second derivative of log g, good enough to find modes."""
        nodes, _, first, second = _table()
        return np.interp(v, nodes, first), np.interp(v, nodes, second)
