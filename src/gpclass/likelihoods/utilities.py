r"""Which of C independent Gaussian utilities is the largest: a one-dimensional integral over that largest one.

    P(u_c > all others) = ∫ N(t; m_c, s_c²) Π_{b≠c} Φ((t − m_b)/s_b) dt,

by the trapezoidal rule, whose error for such smooth functions falls faster than any power of the step: one
of about half the smallest s, less for many classes, leaves 1e-8 (relative). The nodes are the same for all
classes, so that C normal tails per node give all C probabilities. The interval reaches down to where the least
probable class has its mass, so small probabilities are right in relative terms, down to e^-400.
Cost: 25 to 60 nodes × C normal tails per row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr

from gpclass._typing import Array, IntArray
from gpclass.numerics.fast_normal import normal_cdf
from gpclass.numerics.special import log_sum_exp

# Step (over √C, of the smallest standard deviation: the more classes, the narrower the integrand) and reach
# (standard deviations beyond the outermost mode), for errors of 1e-10 and of 1e-6.
# A class more than the third figure behind gets no separate nodes: e^-400, and 1e-12.
FINE, COARSE = (0.95, 6.7, 40.0), (1.4, 5.0, 10.0)
SURE = 6.0  # standard deviations behind the best from which, coarsely, a class has only that one to beat
FAR = 20.0  # standard deviations below its mean down to which a tail is computed without logs
SMALLEST = 1e-300
NOT_ZERO = np.float32(1e-8)  # least value of a normal distribution function in single precision
SPACING = 0.5  # of nodes for slopes, in the smallest standard deviation
BUCKET = 4  # numbers of nodes are multiples of this, plus one
CELLS = 400_000  # rows × nodes × classes taken at once
LOG_ROOT_2PI = 0.5 * np.log(2.0 * np.pi)

Rule = Callable[[Array, Array, Array, Array, int], Array]  # means, sds, both ends of the interval, nodes


def log_largest(means: Array, sds: Array, *, fine: bool = True, single: bool = False) -> Array:
    """Log probability that each utility is the largest.

    Parameters
    ----------
    means : (N, C) array
    sds : array that broadcasts to (N, C), positive
    fine : bool
        False: errors of 1e-6, for averages over draws whose own error is larger.
    single : bool
        In single precision, if not fine: probabilities below 1e-7 have no right digit.

    Returns
    -------
    (N, C) array
    """
    sds, plain = np.broadcast_to(sds, means.shape), partial(_integrate, _plain)
    if fine:
        return _by_grid(means, sds, FINE, plain)
    z = _behind_the_best(means, sds)
    doubtful = np.partition(z, -2, axis=1)[:, -2] > -SURE  # the best is at 0, the next above −SURE
    out = np.empty_like(means)
    out[doubtful] = _by_grid(means[doubtful], sds[doubtful], COARSE, _single if single else plain)
    # A certain row: each other class only has to beat the best.
    log_p = log_ndtr(z[~doubtful])
    log_p[z[~doubtful] == 0.0] = 0.0
    out[~doubtful] = log_p
    return out


def _behind_the_best(means: Array, sds: Array) -> Array:
    """How far each utility is behind the one of largest mean, in standard deviations of the difference."""
    top = means.argmax(axis=1)[:, None]
    best, sd = np.take_along_axis(means, top, axis=1), np.take_along_axis(sds, top, axis=1)
    z = (means - best) / np.sqrt(sds**2 + sd**2)
    np.put_along_axis(z, top, 0.0, axis=1)
    return np.asarray(z)


def _by_grid(means: Array, sds: Array, accuracy: tuple[float, float, float], near_rule: Rule) -> Array:
    """All rows by quadrature."""
    step, reach, farthest = accuracy
    top = means.argmax(axis=1)[:, None]
    best, wide = np.take_along_axis(means, top, axis=1), sds.max(axis=1)
    low, high = _interval(means, sds, best, np.take_along_axis(sds, top, axis=1), reach * wide, farthest)
    narrow = sds.min(axis=1)
    wanted = (high - low) / (step / np.sqrt(means.shape[1]) * narrow)
    nodes = BUCKET * np.ceil(wanted / BUCKET).astype(int) + 1
    depth = np.maximum(best[:, 0] - low, 0.7 * np.minimum((best - means).max(axis=1), farthest * wide)) / narrow
    out = np.empty_like(means)
    for J in np.unique(nodes):  # a row's nodes do not depend on the other rows
        for near, rule in ((True, near_rule), (False, partial(_integrate, _in_logs))):
            rows = np.flatnonzero((nodes == J) & ((depth <= FAR) == near))
            size = max(1, CELLS // (int(J) * means.shape[1]))
            for begin in range(0, len(rows), size):
                chosen = rows[begin : begin + size]
                out[chosen] = rule(means[chosen], sds[chosen], low[chosen], high[chosen], int(J))
    return out


def _interval(
    means: Array, sds: Array, best: Array, sd_best: Array, reach: Array, farthest: float
) -> tuple[Array, Array]:
    """The interval of the integrands of a row, (N,) each."""
    close = means > best - farthest * sds.max(axis=1, keepdims=True)
    # The integrand of class c peaks at or above the point where its density meets the best class's tail.
    meet = (means * sd_best**2 + best * sds**2) / (sds**2 + sd_best**2)
    meet = np.where(close, np.minimum(meet, best), best)
    return meet.min(axis=1) - reach, best[:, 0] + reach


def _integrate(rule: Callable[[Array, Array], Array], m: Array, s: Array, low: Array, high: Array, J: int) -> Array:
    h = (high - low) / (J - 1)
    t = low[:, None] + h[:, None] * np.arange(J)  # (N, J)
    z = (t[:, None, :] - m[:, :, None]) / s[:, :, None]  # (N, C, J)
    log_p = rule(z, s)
    log_p += np.log(h)[:, None]
    return np.asarray(log_p - logsumexp(log_p, axis=1, keepdims=True))


def _single(m: Array, s: Array, low: Array, high: Array, J: int) -> Array:
    """In single precision, rows last: numbers of one node and class are neighbours in memory."""
    first = ((low[:, None] - m) / s).T.astype(np.float32)  # (C, N)
    step = (((high - low) / (J - 1))[:, None] / s).T.astype(np.float32)
    z = first[:, None] + step[:, None] * np.arange(J, dtype=np.float32)[:, None]  # (C, J, N)
    below = normal_cdf(z.copy())
    np.maximum(below, NOT_ZERO, out=below)  # it is divided by
    every = below.prod(axis=0)
    z *= z
    z *= np.float32(-0.5)
    np.exp(z, out=z)
    z /= below
    z *= every
    p = z.sum(axis=1) / s.T
    return np.asarray(np.log(np.maximum(p / p.sum(axis=0), SMALLEST)).T)


def _plain(z: Array, s: Array) -> Array:
    """Log of Σ_j φ_c Π_{b≠c} Φ_b, if no tail underflows."""
    below = ndtr(z)
    every = below.prod(axis=1, keepdims=True)
    z *= z
    z *= -0.5
    np.exp(z, out=z)
    z /= below
    z *= every
    return np.asarray(np.log(np.maximum(z.sum(axis=2), SMALLEST)) - LOG_ROOT_2PI - np.log(s))


def _in_logs(z: Array, s: Array) -> Array:
    """The same in logs."""
    below = log_ndtr(z)
    every = below.sum(axis=1, keepdims=True)
    return np.asarray(logsumexp(every - below - 0.5 * z * z, axis=2) - LOG_ROOT_2PI - np.log(s))


def largest_slopes(means: Array, sds: Array, y: IntArray, nodes: int = 61) -> tuple[Array, Array]:
    """Derivatives by the means of P(u_y is the largest).

    Parameters
    ----------
    means, sds : (N, C) arrays
    y : (N,) array, a class for each row
    nodes : int
        Least number of the trapezoidal rule; more if the standard deviations differ, so that no class is missed.

    Returns
    -------
    first : (N, C) array
        d log P / dm_c.
    second : (N, C) array
        (d²P / dm_c²) / P.
    """
    first, second = np.empty_like(means), np.empty_like(means)
    step = max(1, CELLS // (nodes * means.shape[1]))
    for begin in range(0, len(means), step):
        part = slice(begin, begin + step)
        first[part], second[part] = _slopes(means[part], sds[part], y[part], nodes)
    return first, second


def _slopes(m: Array, s: Array, y: IntArray, nodes: int) -> tuple[Array, Array]:
    rows = np.arange(len(m))
    own, sd = m[rows, y], s[rows, y]
    # The integrand's mode lies between its own mean and the place where it meets the best of the others.
    rest = m.copy()
    rest[rows, y] = -np.inf
    rival = rest.argmax(axis=1)
    best, wide = m[rows, rival], s[rows, rival]
    meet = np.maximum((own * wide**2 + best * sd**2) / (wide**2 + sd**2), own)
    low, high = np.minimum(own, meet) - 7.0 * sd, np.maximum(own, meet) + 7.0 * sd
    nodes = max(nodes, int(np.ceil(np.max((high - low) / s.min(axis=1)) / SPACING)))
    t = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, nodes)  # (N, J)
    z = (t[:, None, :] - m[:, :, None]) / s[:, :, None]  # (N, C, J)
    below = log_ndtr(z)
    below[rows, y] = -0.5 * z[rows, y] ** 2
    whole = below.sum(axis=1)
    share = np.exp(whole - log_sum_exp(whole, axis=1, keepdims=True))  # (N, J), of the integrand
    # φ/Φ of the other classes at the nodes.
    hazard = np.exp(-0.5 * z**2 - LOG_ROOT_2PI - log_ndtr(z)) / s[:, :, None]
    first = -np.einsum("ncj,nj->nc", hazard, share)
    second = -np.einsum("ncj,nj->nc", hazard * z / s[:, :, None], share)
    first[rows, y] = 0.0
    first[rows, y] = -first.sum(axis=1)
    zy = z[rows, y]
    second[rows, y] = np.einsum("nj,nj->n", (zy**2 - 1.0) / sd[:, None] ** 2, share)
    return first, second
