r"""The error of a probability that few of the draws carry, or none.

Where p = Σ_s w_s g_s is close to 0, a few draws may make up nearly all of the sum, and others that would add far more
may not have been drawn: the spread of the draws then says too little. What is missing is taken from the shape of their
upper tail, in a scale u = ψ(g) that is about linear in the latent values far out: Φ⁻¹ under a probit, else the
logarithm, which never rises faster than they do. There the posterior is log-concave, and what exceeds a level falls at
least as fast as an exponential distribution of the same mean. Let T be the k draws of the largest g, t the largest u of
the others, e the weighted mean of u − t in T, one standard error added, and w̄ the mean weight of T with u − t as
weight, since what is missing lies farther out than most. Then

    unseen² = k w̄² ∫ ψ⁻¹(t + e x)² exp(−x) dx − Σ_{s ∈ T} w_s² g_s²,   if positive, and (1.5 w̄)² at most,

is added to the square of the stated error. At most, since of draws of which three are expected one is seen with a
probability of 1 − exp(−3) = 0.95, and two stated errors are to hold three. A probability close to 1 is one minus the
sum of the others.

Cost: for points where fewer than k draws carry p, the largest k of S numbers.
Fails when: the draws of a tail depend on each other, as in a chain that mixes slowly.
References: Pickands (1975), Statistical inference using extreme order statistics; Bagnoli & Bergstrom (2005),
Log-concave probability and its applications, for the bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri_exp

from gpclass._typing import Array, BoolArray
from gpclass.likelihoods.base import Likelihood

FEW = 30  # draws that make a tail, at most
SHARE = 10  # draws over those of a tail, at least
AT_MOST = 1.5  # draws
LEAST, MOST = -700.0, -1e-16  # log probabilities between which Φ⁻¹ is finite
TINY = np.finfo(float).tiny
ROUNDING = 1e-9  # of a sum of shares
_X, _AT_X = np.polynomial.laguerre.laggauss(24)


def tail_size(S: int) -> int:
    """Draws that make the tail of S; a sum is never carried by fewer than one."""
    return max(1, min(FEW, S // SHARE))


def carried_by_few(share: Array) -> BoolArray:
    """Whether fewer draws than make a tail carry a sum, (r,), from the share (S, r) of each: 1 / Σ share² do."""
    return _few(np.einsum("sr,sr->r", share, share), len(share))


def _few(squares: Array, S: int) -> BoolArray:
    return np.asarray(tail_size(S) * squares > 1.0 + ROUNDING)


def to_look_at(w: Array, g: npt.NDArray[Any], p: Array) -> BoolArray:
    """Whether few draws carry p (r,), the sum of w (S,) times g (S, r), or 1 − p."""
    least = np.minimum(p, 1.0 - p)
    found = np.asarray(least < tail_size(len(w)) * w.max())  # no fewer than p / max w carry it, since g is at most 1
    at = np.flatnonzero(found)
    if len(at):
        rarer, more = g.T[at], p[at] > 0.5
        if more.any():
            rarer[more] = 1.0 - rarer[more]
        rarer *= w.astype(rarer.dtype)
        squares = np.einsum("rs,rs->r", rarer, rarer).astype(np.float64)
        found[at] = _few(squares / np.maximum(least[at], np.sqrt(TINY)) ** 2, len(w))  # smaller ones are summed in logs
    return found


def unseen(likelihood: Likelihood, w: Array, log_g: Array) -> Array:
    """The standard error (r,) that is missing in sums of w (S,) times g, from log g (S, r)."""
    S, k = len(w), tail_size(len(w))
    top = np.argpartition(log_g, S - k - 1, axis=0)[S - k - 1 :]  # the first is the largest of the others
    log_g, w = np.clip(np.take_along_axis(log_g, top, axis=0).astype(np.float64), LEAST, MOST), w[top[1:]]
    u = ndtri_exp(log_g) if likelihood.normal_tail else log_g
    over = u[1:] - u[0]
    weight = np.sum(w * over, axis=0) / np.maximum(np.sum(over, axis=0), TINY)
    mean = np.sum(w * over, axis=0) / np.maximum(np.sum(w, axis=0), TINY)
    beyond = u[0] + (1.0 + k**-0.5) * mean * _X[:, None]
    modelled = _AT_X @ np.square(ndtr(beyond) if likelihood.normal_tail else np.exp(np.minimum(beyond, 0.0)))
    missing = k * weight**2 * modelled - np.sum(w**2 * np.exp(2.0 * log_g[1:]), axis=0)
    return np.asarray(np.minimum(np.sqrt(np.maximum(missing, 0.0)), AT_MOST * weight))
