"""The bootstrap particle algorithm of Atiya et al. (A §5), with the hard and the soft count.

For i = 1..n draw M points v_i from N(b_iᵀ v_{<i}, s_i²). P̂_i is the fraction inside the limits (hard count,
A eq. 57) or the mean of their conditional probabilities (soft count, A eq. 62). Points outside are replaced,
with their whole histories, by survivors drawn with replacement. log P = Σ log P̂_i. The hard count is unbiased
for P if a run without survivors counts as 0; the soft count still resamples survivors and is biased at finite M.

Points are kept as the normal variables z that they are made of, v = L z, and become points at the end. Histories are
not copied at every step: within a block of coordinates only the means of its coming coordinates follow the survivors;
z is permuted once per block by a vector of ancestors, and the n²M multiply-adds run as matrix products. The copies of a
survivor lie side by side, in the order of the survivors, so that memory is read in its order. Siblings then take the
places of the dead, and a point at a given place is no draw of the target: points that are kept are shuffled at the end.
If memory cannot hold all points, they are split into several runs; P is averaged over runs, not log P.

Standard error: that of the runs' mean for eight runs or more; otherwise from the genealogy of one run: with c_e
final points descending from first point e, Var log P ≈ Σ_e (c_e − 1)²/M². This includes the dependence that A
eq. 44 neglects, and tends to be too large.
Cost: n³/3 + n²M per run, O(nM) memory.
Fails when: no point survives a step; the estimate is then 0.
References: Atiya, Abdel-Gawad & Fayed (2020); Chan & Lai (2013), A general theory of particle filters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from gpclass._typing import Array, IntArray
from gpclass.numerics.groups import group_error
from gpclass.numerics.linalg import factor
from gpclass.numerics.special import log_diff_ndtr, log_sum_exp
from gpclass.orthant.box import Box

BLOCK = 16
ROOM = 20_000_000  # largest array of a run
MANY = 8  # runs, from which their spread tells the error


@dataclass(frozen=True)
class BootstrapRun:
    """One run. If log_p = −inf, ``extinct`` is the step at which no point survived."""

    log_p: float
    log_steps: Array  # (n,), log P̂_i
    x: Array  # (n, M), the final points: equally weighted draws; (n, 0) if they are not wanted
    variance: float  # of log_p, from the genealogy
    extinct: int | None


def bootstrap_run(box: Box, M: int, rng: np.random.Generator, *, soft: bool, keep: bool = True) -> BootstrapRun:
    """One run of M points over all coordinates, in the order given."""
    n = box.n
    L = np.ascontiguousarray(factor(box.S, what="cov")[0])
    z, log_steps, none = np.empty((n, M)), np.full(n, -np.inf), np.empty((n, 0))
    first, x = np.arange(M), np.empty(M)  # first ancestor of each point
    for a in range(0, n, BLOCK):
        e = min(a + BLOCK, n)
        means, parents = L[a:e, :a] @ z[:a], []  # of the block's coordinates, given those that are drawn
        for k in range(a, e):
            m = means[k - a]
            rng.standard_normal(out=z[k])
            np.multiply(z[k], L[k, k], out=x)
            x += m
            alive = np.flatnonzero((x > box.lower[k]) & (x < box.upper[k]))
            if not len(alive):  # even if the soft count is positive: no history continues
                return BootstrapRun(-np.inf, log_steps, none, np.inf, k)
            log_steps[k] = np.log(len(alive) / M)
            if soft:
                limits = ((limit[k] - m) / L[k, k] for limit in (box.lower, box.upper))
                log_steps[k] = log_sum_exp(log_diff_ndtr(*limits), axis=0) - np.log(M)
            more = np.bincount(rng.integers(len(alive), size=M - len(alive)), minlength=len(alive))
            parent = np.repeat(alive, 1 + more)
            z[k] = z[k].take(parent)
            for row, slope in zip(means[k - a + 1 :], L[k + 1 : e, k], strict=True):
                row.take(parent, out=x, mode="clip")  # without a buffer
                np.multiply(z[k], slope, out=row)
                row += x
            parents.append(parent)
        ancestor = parents.pop()
        for k in range(e - 2, a - 1, -1):
            z[k] = z[k].take(ancestor)
            ancestor = parents.pop().take(ancestor)
        for row in z[:a]:
            row[:] = row.take(ancestor, out=x, mode="clip")
        first = first.take(ancestor)
    children = np.bincount(first, minlength=M) - 1.0
    points = none
    if keep:  # within the limits but for rounding
        points = np.clip(L @ z.take(rng.permutation(M), axis=1), box.lower[:, None], box.upper[:, None])
    return BootstrapRun(float(log_steps.sum()), log_steps, points, float(children @ children) / M**2, None)


def predicted_error(log_steps: Array, M: int) -> tuple[float, float]:
    """Bias and variance of log P that A eq. 43 and 44 predict for independent steps."""
    odds = float(np.sum(np.expm1(-log_steps)))  # Σ (1 − P_i)/P_i
    return -0.5 * odds / M, odds / M


@dataclass(frozen=True)
class BootstrapResult:
    """Runs of bounded memory, averaged in P."""

    log_p: float
    error: float
    x: Array | None  # (n, M)
    log_w: Array  # (M,)
    group: IntArray  # (M,), the run
    extinct: tuple[int, ...]  # steps at which runs became extinct
    groups: int  # that told the error: the runs, or the points of few runs


def bootstrap(
    box: Box, M: int, rng: np.random.Generator, *, soft: bool, runs: int | None = None, keep: bool = False
) -> BootstrapResult:
    """As many runs as memory (or ``runs``) requires, with P averaged over them."""
    R = max(1, -(-box.n * M // ROOM)) if runs is None else min(runs, M)
    sizes = np.diff(np.linspace(0, M, R + 1).astype(int))
    done = []
    for stream, size in zip(rng.spawn(R), sizes, strict=True):
        done.append(bootstrap_run(box, int(size), stream, soft=soft, keep=keep))
    log_ps, variances = np.array([(run.log_p, run.variance) for run in done]).T
    log_p = float(logsumexp(log_ps, b=sizes / M))
    left = np.where([run.extinct is None for run in done], sizes, 0)
    return BootstrapResult(
        log_p,
        _error(log_ps, variances, sizes / M, log_p),
        np.hstack([run.x for run in done]) if keep else None,
        np.repeat(log_ps, left),
        np.repeat(np.arange(R), left),
        tuple(run.extinct for run in done if run.extinct is not None),
        R if R >= MANY else M,
    )


def _error(log_ps: Array, variances: Array, share: Array, log_p: float) -> float:
    """Standard error of log P: between runs if there are many, else from each run's genealogy."""
    if log_p == -np.inf:
        return float("nan")
    relative = np.exp(log_ps - log_p)
    if len(relative) >= MANY:
        return float(group_error(share * (relative - 1)))
    inner = np.where(relative > 0, relative, 0.0) ** 2 * np.where(np.isfinite(variances), variances, 0.0)
    return float(np.sqrt(share**2 @ inner))
