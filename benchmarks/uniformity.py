"""Whether ranks are uniform: χ² over the bins, and the largest gap of the distribution function.

Ranks of one value among L draws are whole numbers from 0 to L, each with probability 1 / (L + 1) if the value and the
draws are exchangeable. Only the counts of the L + 1 ranks are needed.
"""

from functools import cache

import numpy as np
from scipy.stats import chisquare

REPEATS = 20_000  # simulated sets of uniform ranks, for the distribution of the largest gap


def chi_square(counts):
    """p-value of the counts of ranks."""
    return float(chisquare(counts).pvalue)


def gaps(counts):
    """The distribution function of ranks less the uniform one, behind each rank but the last."""
    counts = np.asarray(counts)
    bins = counts.shape[-1]
    heights = np.cumsum(counts, axis=-1) / counts.sum(axis=-1, keepdims=True)
    return (heights - np.arange(1, bins + 1) / bins)[..., :-1]


@cache
def _under_uniformity(bins, simulations):
    """Gaps of simulated uniform ranks, (REPEATS, bins − 1)."""
    return gaps(np.random.default_rng(0).multinomial(simulations, np.full(bins, 1.0 / bins), REPEATS))


def scaled(found, bins):
    """Gaps over their standard deviations under uniformity, up to a constant: as wide at the ends as in the middle."""
    t = np.arange(1, bins) / bins
    return found / np.sqrt(t * (1.0 - t))


def largest_gap(counts):
    """p-value of the largest gap, each over its standard deviation, by simulation."""
    bins, total = len(counts), int(np.sum(counts))
    null = np.abs(scaled(_under_uniformity(bins, total), bins)).max(axis=1)
    found = np.abs(scaled(gaps(counts), bins)).max()
    return float((1 + np.sum(null >= found - 1e-12)) / (1 + REPEATS))


def envelope(bins, simulations, level=0.95):
    """Limits ±e (bins − 1,) within which all gaps of uniform ranks lie with probability ``level``."""
    null = np.abs(scaled(_under_uniformity(bins, simulations), bins)).max(axis=1)
    t = np.arange(1, bins) / bins
    return np.quantile(null, level) * np.sqrt(t * (1.0 - t))


def holm(p_values):
    """p-values corrected for their number, by Holm's method."""
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p)
    raised = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    out = np.empty_like(p)
    out[order] = np.minimum(raised, 1.0)
    return out
