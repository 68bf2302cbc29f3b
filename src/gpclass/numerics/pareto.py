r"""Shape k of the generalised Pareto distribution that the largest of some values follow.

The density of the excess x over a threshold is (1/σ) (1 + k x/σ)^(−1/k − 1). With b = −k/σ, the profile likelihood of
b is averaged over a grid with a weak prior (Zhang & Stephens), k(b) = mean log(1 − b x), and k is drawn towards ½ as by
ten more values. arviz_stats computes the same; it is not used because its import, with xarray behind it, takes longer
than many a fit.
Cost: O(n log n) for the order, then 3√n values on a grid of 30 + √(3√n).
Fails when: values are equal where the tail begins (NaN).
References: Zhang & Stephens (2009), A new and efficient estimation method for the generalized Pareto distribution;
Vehtari et al. (2024), Pareto smoothed importance sampling, for the size of the tail and the prior of k.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from gpclass._typing import Array

FEW = 225  # values, up to which a fifth are the tail
GRID = 30  # points of the grid, and the root of the tail's size more
PRIOR_B = 3.0  # scale of the prior of b, in quartiles of the tail
PRIOR_VALUES, PRIOR_SHAPE = 10, 0.5  # values that the prior of k counts as, and the k they have
NEGLIGIBLE = 10 * float(np.finfo(float).eps)  # share of a point of the grid


def tail_size(n: int) -> int:
    """How many of n values are the upper tail."""
    return int(3.0 * np.sqrt(n)) if n > FEW else n // 5


def tail_shape(values: Array) -> float:
    """Shape k of the upper tail of values (n,), n at least 25."""
    ordered = np.sort(values)
    size = tail_size(len(ordered))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return shape(ordered[-size:] - ordered[-size - 1])


def shape(x: Array) -> float:
    """Shape k of excesses x (n,) in ascending order."""
    n = len(x)
    points = GRID + int(np.sqrt(n))
    b = 1.0 - np.sqrt(points / (np.arange(1, points + 1) - 0.5))
    b /= PRIOR_B * x[int(n / 4 + 0.5) - 1]
    b += 1.0 / x[-1]
    k = np.log1p(-b[:, None] * x).mean(axis=1)
    log_likelihood = n * (np.log(-b / k) - k - 1.0)
    share = np.exp(log_likelihood - logsumexp(log_likelihood))
    b, share = b[share >= NEGLIGIBLE], share[share >= NEGLIGIBLE]
    mean_b = np.sum(b * share) / share.sum()
    found = n * np.log1p(-mean_b * x).mean() + PRIOR_VALUES * PRIOR_SHAPE
    return float(found / (n + PRIOR_VALUES))
