"""Statistics of weighted draws: the log of their mean, its standard error, effective size, Pareto k-hat.

With weights w_m of mean W, log P = log W and its standard error is that of W divided by W (delta method).
Draws that share a group (a randomised lattice, a resampled batch) are dependent; the groups are then the
independent units, se² = G/(G−1) Σ_g (Σ_{m in g} (w_m − W))² / (M W)², widened if they are few
(:func:`gpclass.numerics.groups.group_error`). k-hat is the shape of the
generalised Pareto distribution fitted to the largest weights (:mod:`gpclass.numerics.pareto`): above 0.7 the error may
be underestimated, unless the weights are nearly even and the tail consists of negligible differences.
Cost: O(M log M). Reference: Vehtari et al. (2024), Pareto smoothed importance sampling.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from gpclass._typing import Array, IntArray
from gpclass.numerics.groups import group_error
from gpclass.numerics.pareto import tail_shape, tail_size

KHAT_LIMIT = 0.7
EVEN = 0.98  # share of effective draws above which the tail is irrelevant: errors are as honest at any k-hat
FEWEST = 50  # least number of draws for fitting the tail


def log_mean(log_w: Array) -> float:
    """The log of the weights' mean."""
    return float(logsumexp(log_w) - np.log(len(log_w)))


def relative_weights(log_w: Array) -> Array:
    """Weights divided by their mean; zeros if all weights are zero."""
    top = log_w.max()
    if top == -np.inf:
        return np.zeros_like(log_w)
    w = np.exp(log_w - top)
    return np.asarray(w / w.mean())


def relative_error(log_w: Array, group: IntArray) -> float:
    """Standard error of log mean w; NaN with too few groups."""
    gaps = np.asarray(np.bincount(group, weights=relative_weights(log_w) - 1), dtype=float)
    return float(group_error(gaps[np.bincount(group) > 0]) / len(log_w))


def effective_size(log_w: Array) -> float:
    """Kish's effective number of draws."""
    w = relative_weights(log_w)
    return float(w.sum() ** 2 / (w @ w)) if w.any() else 0.0


def pareto_khat(log_w: Array) -> float:
    """Shape of the weights' upper tail; NaN for too few draws, −inf where all weights, or the largest, are even."""
    w = relative_weights(log_w[np.isfinite(log_w)]) if np.isfinite(log_w).any() else log_w[:0]
    if len(w) < FEWEST:
        return float("nan")
    tail = np.sort(w)[-tail_size(len(w)) :]
    if np.ptp(tail) <= 1e-12 * tail[-1] or effective_size(log_w) > EVEN * len(log_w):
        return float("-inf")
    return tail_shape(w / tail[-1])


def heavy(log_w: Array) -> bool:
    """Whether the largest weights are so heavy that the standard error may be too small."""
    return bool(pareto_khat(log_w) > KHAT_LIMIT)
