"""The bootstrap particle algorithm of Atiya et al. (A §5), with the hard and the soft count.

For i = 1..n draw M points v_i from N(b_iᵀ v_{<i}, s_i²). P̂_i is the fraction inside the limits (hard count,
A eq. 57) or the mean of their conditional probabilities (soft count, A eq. 62). Points outside are replaced,
with their whole histories, by survivors drawn with replacement. log P = Σ log P̂_i. The hard count is unbiased
for P if a run without survivors counts as 0; the soft count still resamples survivors and is biased at finite M.

Points are kept as the normal variables z that they are made of, v = L z, and become points at the end. Histories are
not copied: within a block of coordinates only the means of its coming coordinates follow the survivors, and whole
histories are a tree (:mod:`gpclass.orthant.histories`), in which a common ancestor is stored and multiplied once. It
has the same points as copied histories. Survivors come first and copies after them, so a point at a given place is no
draw of the target: points that are kept are shuffled at the end.
More points than a processor's cache holds are split into several runs; P is averaged over runs, not log P.

Precision: a point only has to be on the right side of its limits. If rounding in single precision moves no point by
more than a ten-thousandth of its conditional standard deviation, or of the width between its limits, z is single, drawn
by :mod:`gpclass.numerics.normals`; otherwise double. Points cross a limit both ways, so P̂_i changes by far less.

Standard error: that of the runs' mean for eight runs or more; otherwise from the genealogy of one run: with c_e
final points descending from first point e, Var log P ≈ Σ_e (c_e − 1)²/M². This includes the dependence that A
eq. 44 neglects, and tends to be too large.
Cost: n³/3 + O(nM) per run where a share of the points dies at every step, n²M where none does; O(M) numbers for each
coordinate of the last few, less for older ones.
Fails when: no point survives a step; the estimate is then 0.
References: Atiya, Abdel-Gawad & Fayed (2020); Chan & Lai (2013), A general theory of particle filters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from gpclass._typing import Array, IntArray
from gpclass.numerics.groups import group_error
from gpclass.numerics.linalg import factor
from gpclass.numerics.normals import single_normals
from gpclass.numerics.special import log_diff_ndtr, log_sum_exp
from gpclass.orthant.box import Box
from gpclass.orthant.histories import Histories, Matrix, take_columns

BLOCK = 4
POINTS = 50_000  # most points of a run
OFF = 1e-4  # largest shift by rounding, in conditional standard deviations or widths
MANY = 8  # runs, from which their spread tells the error


@dataclass(frozen=True)
class BootstrapRun:
    """One run. If log_p = −inf, ``extinct`` is the step at which no point survived."""

    log_p: float
    log_steps: Array  # (n,), log P̂_i
    x: Array  # (n, M), the final points: equally weighted draws; (n, 0) if they are not wanted
    variance: float  # of log_p, from the genealogy
    extinct: int | None
    histories: Histories  # z of the final points, not shuffled: v = L z


def bootstrap_run(
    box: Box,
    M: int,
    rng: np.random.Generator,
    *,
    soft: bool,
    keep: bool = True,
    precision: type[np.floating[Any]] | None = None,
) -> BootstrapRun:
    """One run of M points over all coordinates, in the order given; ``precision`` of z, by default as it needs."""
    n = box.n
    root = factor(box.S, what="cov")[0]
    kind = precision or (np.float32 if single_suffices(box, np.diag(root)) else np.float64)
    L, lower, upper = (np.ascontiguousarray(part, dtype=kind) for part in (root, box.lower, box.upper))
    log_steps, none = np.full(n, -np.inf), np.empty((n, 0))
    histories, x = Histories(), np.empty(M, kind)
    for a in range(0, n, BLOCK):
        e = min(a + BLOCK, n)  # means of the block's coordinates, given those that are drawn
        means = histories.product(L[a:e, :a]) if a else np.zeros((e, M), kind)
        drawn: list[Matrix] = []
        parents: list[IntArray] = []
        for k in range(a, e):
            m, z, parent = means[k - a], np.empty(M, kind), np.empty(M, np.intp)
            _normals(rng, z)
            np.multiply(z, L[k, k], out=x)
            x += m
            alive = np.flatnonzero(_inside(x, lower[k], upper[k]))
            if not len(alive):  # even if the soft count is positive: no history continues
                return BootstrapRun(-np.inf, log_steps, none, np.inf, k, histories)
            log_steps[k] = np.log(len(alive) / M)
            if soft:
                limits = ((limit[k] - m.astype(float)) / root[k, k] for limit in (box.lower, box.upper))
                log_steps[k] = log_sum_exp(log_diff_ndtr(*limits), axis=0) - np.log(M)
            parent[: len(alive)] = alive
            others = rng.integers(len(alive), size=M - len(alive))
            alive.take(others, out=parent[len(alive) :], mode="clip")  # without a buffer
            z = z.take(parent)
            for row, slope in zip(means[k - a + 1 :], L[k + 1 : e, k], strict=True):
                row.take(parent, out=x, mode="clip")
                np.multiply(z, slope, out=row)
                row += x
            drawn.append(z)
            parents.append(parent)
        ancestor = parents.pop()
        for k in range(len(parents) - 1, -1, -1):
            drawn[k] = drawn[k].take(ancestor)
            ancestor = parents.pop().take(ancestor)
        histories.append(np.stack(drawn), ancestor)
    children = np.bincount(histories.first(), minlength=M) - 1.0
    points = none
    if keep:  # within the limits but for rounding
        points = take_columns(histories.product(L), rng.permutation(M)).astype(float)
        np.clip(points, box.lower[:, None], box.upper[:, None], out=points)
    variance = float(children @ children) / M**2
    return BootstrapRun(float(log_steps.sum()), log_steps, points, variance, None, histories)


def single_suffices(box: Box, sd: Array) -> bool:
    """Whether rounding to single precision moves points by less than OFF of what decides on which side they are."""
    reach = np.sqrt(np.diag(box.S))
    for limit in (box.lower, box.upper):
        reach = np.maximum(reach, np.where(np.isfinite(limit), np.abs(limit), 0.0))
    rounding = np.finfo(np.float32).eps * np.sqrt(box.n) * reach
    return bool(np.all(rounding <= OFF * np.minimum(sd, box.upper - box.lower)))


def _normals(rng: np.random.Generator, z: Matrix) -> None:
    if z.dtype == np.float32:
        single_normals(rng, z)
    else:
        rng.standard_normal(out=z)


def _inside(x: Matrix, lower: Any, upper: Any) -> npt.NDArray[np.bool_]:
    """Between the limits; an infinite one takes no time."""
    if upper == np.inf:
        return np.asarray(x > lower)
    return np.asarray(x < upper) if lower == -np.inf else (x > lower) & (x < upper)


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
    """As many runs as the cache (or ``runs``) requires, with P averaged over them."""
    R = max(1, -(-M // POINTS)) if runs is None else min(runs, M)
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
