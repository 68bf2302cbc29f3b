"""Expectation propagation on Gaussian sites, block by block.

The target is N(v; m0, K) Π_i f_i(v_i)^w_i with one-dimensional factors f_i. Each factor is replaced by a site
exp(h_i v_i − ½ T_i v_i²), T_i >= 0, which gives q(v) = N(mu, P) with P = (K^-1 + T)^-1. One update divides a
copy of the site out of the marginal of v_i (the cavity), and chooses the site whose product with the cavity
has the mean and variance of the true factor times the cavity (the tilted distribution).

Updates are sequential, because parallel ones stall or cycle on strongly coupled problems, and run in blocks,
because one rank-one update of an n×n matrix after another is slow. The sites of a block are updated one after
another, twice over, on the block's own marginal (b×b); then the later blocks receive one rank-b update, as
matrix products. A block reads only columns that no earlier block owns, so that a sweep costs n³/6
multiply-adds. A fresh factorisation of B = I + T^½ K T^½ and its inverse (n³/2) end the sweep and remove the
drift. Points of high correlation share a block, and the sites that start a sweep are extrapolated from the
last few sweeps (:mod:`gpclass.anderson`): together they cut the sweeps on hard problems from 15 to 9.

A factor may occur w_i times; its copies share one site: the cavity takes out T_i/w_i, and the evidence counts
the copy's term w_i times. That is the fixed point of repeated rows; w_i = 0 leaves the point out.

The loop over single sites is plain Python: at n = 1000 it takes a fifth of the time, at n = 100 two fifths,
so that compiling it could not halve the whole.

Cost: about four Cholesky factorisations of an n×n matrix a sweep, O(n²) memory; 4 to 10 sweeps, 1 to 3 from
the sites of a neighbouring problem.
Fails when: a factor is not log-concave, so that its tilted variance exceeds the cavity's (the site is then
held at T_i = 0, and there may be no fixed point); or a weight is far below 1 in a broad prior, where taking
out T_i/w_i may leave no cavity. Samplers that correct the sites stay unbiased whatever they are.
References: Minka (2001), A family of algorithms for approximate Bayesian inference; Rasmussen & Williams
(2006), §3.6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
from scipy.linalg import blas, lapack
from scipy.optimize import root

from gpclass._typing import Array, IntArray
from gpclass.anderson import Mixing
from gpclass.linalg import NotPositiveDefiniteError, SiteFactor

TINY = 1e-300  # stands for a variance of zero
SHARPEST = 1e-9  # a tilted variance below this part of the cavity's is rounded up: 1/P − T would cancel
WEAK = 1e-5  # where T_i P_ii is below this, (I − B^-1)/T loses digits and P comes from K − K R K
FLOOR = 1e-3  # a site below this part of its marginal's precision is judged by its absolute change
DEPTH = 3  # sweeps that the extrapolation remembers
PASSES = 2  # updates of every site of a block before the rest is told

TiltedOne: TypeAlias = Callable[[int, float, float], tuple[float, float, float]]


class Factors(Protocol):
    """The true one-dimensional factors f_i that the sites stand for."""

    def tilted(self, mean: Array, var: Array) -> tuple[Array, Array, Array]:
        """For every i: log ∫ f_i N(mean_i, var_i), and mean and variance of the tilted distribution, (n,)."""

    def tilted_one(self, i: int, mean: float, var: float) -> tuple[float, float, float]:
        """The same for factor i alone."""


@dataclass(frozen=True)
class Sites:
    """Site i is exp(shift_i v_i − ½ precision_i v_i²)."""

    precision: Array  # T (n,), >= 0
    shift: Array  # h (n,)

    @classmethod
    def flat(cls, n: int) -> Sites:
        """Sites that say nothing."""
        return cls(np.zeros(n), np.zeros(n))

    def take(self, order: IntArray) -> Sites:
        """The sites in another order."""
        return Sites(self.precision[order], self.shift[order])


@dataclass(frozen=True)
class SiteApproximation:
    """The Gaussian q(v) = N(mean, covariance) that the sites make of the prior, and how EP ended."""

    sites: Sites
    mean: Array  # mu (n,)
    covariance: Array  # P (n, n)
    log_z: float  # EP's evidence, for log ∫ N(v; m0, K) Π f_i^w_i
    log_sites: float  # log ∫ N(v; m0, K) Π sites, exact for the sites as they are
    cavity_mean: Array  # (n,), one copy of the site taken out
    cavity_var: Array  # (n,)
    sweeps: int
    converged: bool
    change: float  # the largest relative change of a site, or of log Z, in the last sweep

    def widened(self, power: float) -> Sites:
        """Sites of the same mean and a broader Gaussian: precision power·T, shift h − (1 − power) T mu.

        Power 0 leaves the prior's covariance, moved to the mean of q: exponential tilting.
        """
        t, h = self.sites.precision, self.sites.shift
        return Sites(power * t, h - (1 - power) * t * self.mean)


def expectation_propagation(
    K: Array,
    factors: Factors,
    *,
    copies: Array | None = None,
    prior_mean: Array | None = None,
    start: Sites | None = None,
    block: int = 64,
    max_sweeps: int = 50,
    tol: float = 1e-6,
) -> SiteApproximation:
    """Fit the sites by block-sequential expectation propagation.

    Parameters
    ----------
    K : (n, n) array
        Prior covariance; may be singular.
    factors : Factors
        The true factors, by their tilted moments.
    copies : (n,) array of whole numbers, optional
        How often each factor occurs, w_i >= 0; 1 by default.
    prior_mean : (n,) array, optional
        m0; 0 by default.
    start : Sites, optional
        Sites to start from, such as those of a neighbouring problem.
    block : int
        Sites that are updated on their own marginal before the rest is told.
    max_sweeps : int
        Sweeps after which to give up; the result then says ``converged=False``.
    tol : float
        Wanted stability of log Z and of every site over one sweep, relative.

    Returns
    -------
    SiteApproximation
    """
    n = len(K)
    order = _neighbours_together(K, block)
    prior = _Prior(
        K if order is None else K[np.ix_(order, order)],
        np.zeros(n) if prior_mean is None else _ordered(np.asarray(prior_mean, dtype=float), order),
    )
    task = _Task(factors, order, np.ones(n) if copies is None else np.asarray(copies, dtype=float))
    sites = Sites.flat(n) if start is None else Sites(*(_ordered(x, order) for x in _live(start, task.w)))
    q = prior.gaussian(sites)
    log_z, change, step, sweeps, history = task.evidence(q, sites)[0], np.inf, 1.0, 0, Mixing(DEPTH)
    for sweeps in range(1, max_sweeps + 1):
        last, log_z_old = change, log_z
        task.stuck.clear()
        swept = _sweep(q, task, sites, block, step)
        moved = _change(sites, swept, q.variance) / step
        sites = _extrapolated(history, sites, swept, q.variance) if tol < moved < last else swept
        q, sites = prior.gaussian_near(sites, swept)
        log_z = task.evidence(q, sites)[0]
        change = max(moved, abs(log_z - log_z_old) / max(1.0, abs(log_z)))
        if task.stuck:  # a site that was left alone has not converged
            change = max(change, 1.0)
        if change <= tol:
            break
        if sweeps >= 8 and change > 0.7 * last:  # it cycles or crawls: damp
            step = max(0.5 * step, 0.1)
    log_z, cavity_mean, cavity_var = task.evidence(q, sites)
    back = None if order is None else np.argsort(order)
    covariance = mirror_upper(q.P)
    return SiteApproximation(
        sites=sites if back is None else sites.take(back),
        mean=_ordered(q.mean, back),
        covariance=covariance if back is None else covariance[np.ix_(back, back)],
        log_z=log_z,
        log_sites=q.log_sites,
        cavity_mean=cavity_mean,
        cavity_var=cavity_var,
        sweeps=sweeps,
        converged=change <= tol,
        change=change,
    )


def refined_sites(
    K: Array, factors: Factors, start: Sites, *, rounds: int = 4, settled: float = 0.1
) -> SiteApproximation | None:
    """A few parallel updates of sites that were fitted to a neighbouring problem.

    All sites are matched at once: one factorisation a round and no loop over sites, a fifth of a sweep's time at
    n = 200. Good enough for a sampler that corrects what the sites lack, where a problem is solved again and again
    near one that was solved well. Parallel updates from afar stall, so this gives up where they do.

    Parameters
    ----------
    K : (n, n) array
        Prior covariance.
    factors : Factors
        The true factors, each occurring once.
    start : Sites
        Those of the neighbouring problem.
    rounds : int
        Updates at most.
    settled : float
        Change of log Z in a round, in nats, below which no further round is made.

    Returns
    -------
    SiteApproximation, or None where log Z has not settled or a factorisation fails
    """
    n = len(K)
    prior, task, sites = _Prior(K, np.zeros(n)), _Task(factors, None, np.ones(n)), start
    try:
        q = prior.gaussian(sites)
        log_z, mean, var = task.evidence(q, sites)
        for k in range(1, rounds + 1):
            _, tilted_mean, tilted_var = factors.tilted(mean, var)
            t = np.maximum(1 / np.maximum(tilted_var, SHARPEST * var) - 1 / var, 0.0)
            sites = Sites(t, tilted_mean * (1 / var + t) - mean / var)
            q, last = prior.gaussian(sites), log_z
            log_z, mean, var = task.evidence(q, sites)
            change = abs(log_z - last)
            if change < settled:
                return SiteApproximation(
                    sites, q.mean, mirror_upper(q.P), log_z, q.log_sites, mean, var, k, False, change
                )
    except NotPositiveDefiniteError:
        return None
    return None


def gaussian_from_sites(
    K: Array, sites: Sites, prior_mean: Array | None = None
) -> tuple[Array, Array, float]:
    """Mean (n,) and covariance (n, n) of N(m0, K) Π sites, and the log of its mass, for sites as they are."""
    q = _Prior(K, np.zeros(len(K)) if prior_mean is None else prior_mean).gaussian(sites)
    return q.mean, mirror_upper(q.P), q.log_sites


def log_site_mass(mean: Array, var: Array, t: Array, h: Array) -> Array:
    """The log of ∫ N(v; mean, var) exp(h v − ½ t v²) dv."""
    g = 1 + var * t
    return np.asarray(-0.5 * np.log(g) + 0.5 * (var * h * h + 2 * mean * h - mean * mean * t) / g)


def mirror_upper(P: Array) -> Array:
    """A symmetric matrix from the upper triangle of P."""
    full = np.triu(P)
    full += np.triu(P, 1).T
    return full


def _ordered(x: Array, order: IntArray | None) -> Array:
    return x if order is None else x[order]


def _live(sites: Sites, w: Array) -> tuple[Array, Array]:
    """The sites, flat where the weight is 0."""
    return np.where(w > 0, sites.precision, 0.0), np.where(w > 0, sites.shift, 0.0)


def _neighbours_together(K: Array, block: int) -> IntArray | None:
    """An order in which points of high correlation share a block; None where one block holds all."""
    n = len(K)
    if n <= block:
        return None
    scale = 1 / np.sqrt(np.maximum(np.diag(K), TINY))
    left = np.arange(n)
    order, pivot = [], 0
    while len(left):
        near = np.argsort(-np.abs(K[pivot, left]) * scale[left], kind="stable")
        order.append(left[near[:block]])
        pivot = int(left[near[block]]) if len(left) > block else 0
        left = np.delete(left, near[:block])
    return np.concatenate(order)


@dataclass
class _Gaussian:
    """q(v) for given sites. Of P the upper triangle alone means something."""

    P: Array
    variance: Array
    mean: Array
    log_sites: float


@dataclass(frozen=True)
class _Prior:
    """N(m0, K)."""

    K: Array
    m0: Array

    def gaussian(self, sites: Sites) -> _Gaussian:
        """Factor afresh. P = T^-½ (I − B^-1) T^-½, and K − K R K in the columns whose site is weak."""
        K, m0, T, h = self.K, self.m0, sites.precision, sites.shift
        if not T.any() and not h.any():
            return _Gaussian(K.copy(), np.diag(K).copy(), m0.copy(), 0.0)
        factor, n = SiteFactor(K, T), len(T)
        inverse, _ = lapack.dpotri(factor.L, lower=1)
        P = np.asarray(inverse).T  # in C order; its upper triangle holds B^-1
        with np.errstate(divide="ignore"):
            scale = 1 / factor.root
        scale[T == 0] = 0.0
        P *= -scale[:, None]
        P *= scale
        P.flat[:: n + 1] += scale**2
        weak = np.flatnonzero(~(P.diagonal() * T > WEAK))
        if len(weak):
            if len(weak) <= n // 4:
                columns = K[:, weak] - K @ factor.solve(K[:, weak])
            else:
                A = factor.half_solve(K)
                columns = K[:, weak] - A.T @ A[:, weak]
            P[:, weak] = columns
            P[weak] = columns.T
        shift = h - T * m0
        tilt = np.asarray(blas.dsymv(1.0, P.T, shift, lower=1))  # P (h − T m0)
        log_sites = -factor.half_log_det + 0.5 * shift @ tilt + h @ m0 - 0.5 * (T * m0) @ m0
        return _Gaussian(P, np.maximum(P.diagonal(), 0.0), m0 + tilt, float(log_sites))

    def gaussian_near(self, sites: Sites, safe: Sites) -> tuple[_Gaussian, Sites]:
        """The Gaussian of these sites or, where rounding breaks them, of safe ones, weaker ones, none."""
        flat = Sites.flat(len(self.m0))
        trials = (
            sites,
            safe,
            *(Sites(safe.precision * 0.5**k, safe.shift * 0.5**k) for k in range(1, 5)),
            flat,
        )
        for trial in trials:
            try:
                q = self.gaussian(trial)
            except NotPositiveDefiniteError:
                continue
            if np.isfinite(q.log_sites) and np.isfinite(q.mean).all():
                return q, trial
        raise NotPositiveDefiniteError(
            "the covariance matrix holds values that are not finite; check the kernel and its parameters"
        )


@dataclass(frozen=True)
class _Task:
    """The factors and their copies, in the order of the caller; order leads from ours to theirs."""

    factors: Factors
    order: IntArray | None
    w: Array
    stuck: list[int] = field(default_factory=list)  # sites that the sweep under way could not update

    def evidence(self, q: _Gaussian, sites: Sites) -> tuple[float, Array, Array]:
        """EP's evidence at the sites as they are, and the cavities (one copy out) in the caller's order."""
        back = None if self.order is None else np.argsort(self.order)
        var, mean = np.maximum(_ordered(q.variance, back), TINY), _ordered(q.mean, back)
        copies = np.where(self.w > 0, self.w, 1.0)
        t, s = _ordered(sites.precision, back) / copies, _ordered(sites.shift, back) / copies
        precision = 1 / var - t
        # A cavity lost to rounding (a site that all but fixes its variable): the broadest that is certain.
        precision = np.where(precision > 0, precision, SHARPEST / var)
        cavity_var = 1 / precision
        cavity_mean = cavity_var * (mean / var - s)
        log_tilted = self.factors.tilted(cavity_mean, cavity_var)[0]
        terms = np.where(self.w > 0, log_tilted - log_site_mass(cavity_mean, cavity_var, t, s), 0.0)
        return float(q.log_sites + self.w @ terms), cavity_mean, cavity_var


def _extrapolated(history: Mixing, before: Sites, after: Sites, variance: Array) -> Sites:
    """The sites to start the next sweep from, mixed of past sweeps; as they are where the mixture is no site."""
    if not before.precision.any():  # a cold start: the first sweep is like no other
        return after
    x = np.concatenate([before.precision, before.shift])
    residual = np.concatenate([after.precision, after.shift]) - x
    guess = history.propose(x, residual, scale=np.concatenate([variance, np.sqrt(variance)]))
    if guess is None:
        return after
    t, h = np.split(guess, 2)
    sound = (t > 0.2 * after.precision) & np.isfinite(t) & np.isfinite(h)
    return Sites(np.where(sound, t, after.precision), np.where(sound, h, after.shift))


def _change(before: Sites, after: Sites, variance: Array) -> float:
    """The largest relative change of a site."""
    scale = np.maximum(variance, TINY)
    T, h = after.precision, after.shift
    dT = np.abs(T - before.precision) / np.maximum(T, FLOOR / scale)
    dh = np.abs(h - before.shift) / np.maximum(np.abs(h), FLOOR / np.sqrt(scale))
    return float(max(dT.max(initial=0.0), dh.max(initial=0.0)))


def _sweep(q: _Gaussian, task: _Task, sites: Sites, block: int, step: float) -> Sites:
    """Update every site, block by block. The Gaussian q is used up."""
    P, mean, n = q.P, q.mean, len(q.mean)
    T, h = sites.precision.copy(), sites.shift.copy()
    labels = np.arange(n) if task.order is None else task.order
    G_P = np.empty((n, n))  # rows of a finished block b: G P[b, later], G = (I + Δ P_bb)^-1 Δ
    for a in range(0, n, block):
        e = min(a + block, n)
        if a:  # what the finished blocks did to these rows
            P[a:e, a:] -= P[:a, a:e].T @ G_P[:a, a:]
        S = mirror_upper(P[a:e, a:e])
        T0, h0 = T[a:e].copy(), h[a:e].copy()
        _block_pass(S, mean[a:e], task, labels[a:e].tolist(), T[a:e], h[a:e], step)
        if e < n:
            dT, dh = T[a:e] - T0, h[a:e] - h0
            core = dT[:, None] * S
            core.flat[:: e - a + 1] += 1
            right = np.empty((e - a, e - a + 1))
            right[:, :-1] = np.diag(dT)
            right[:, -1] = dh - dT * mean[a:e]
            solved = np.linalg.solve(core, right)
            G = 0.5 * (solved[:, :-1] + solved[:, :-1].T)
            np.matmul(G, P[a:e, e:], out=G_P[a:e, e:])
            mean[e:] += solved[:, -1] @ P[a:e, e:]
    return Sites(T, h)


def _block_pass(
    S: Array, mean: Array, task: _Task, labels: list[int], T: Array, h: Array, step: float
) -> None:
    """Sequential updates, in place, of the sites (T, h) of one block on its marginal N(mean, S)."""
    b = len(mean)
    A = np.empty((b, b + 1))  # [S | mean]: one rank-one update serves both
    A[:, :b], A[:, b] = S, mean
    A_t = A.T  # in Fortran's order, for BLAS
    variance_of, mean_of, dger = A.ravel()[:: b + 2].item, A[:, b].item, blas.dger
    tilted_one, copies = task.factors.tilted_one, task.w[labels].tolist()
    ts, hs = T.tolist(), h.tolist()
    for _ in range(PASSES):
        for i, (k, w) in enumerate(zip(labels, copies, strict=True)):
            var, m, t, s = variance_of(i), mean_of(i), ts[i], hs[i]
            if w == 0 or not var > TINY:
                continue
            rest, rest_shift = 1 / var - t, m / var - s  # every copy of the site taken out
            if not rest > 0:  # lost to rounding: leave this site as it is
                task.stuck.append(k)
                continue
            if w == 1:
                new = _match(tilted_one, k, rest, rest_shift)
            else:
                new = _match_copies(tilted_one, k, w, rest, rest_shift, t, s)
            if new is None:
                task.stuck.append(k)
                continue
            dt, ds = step * (new[0] - t), step * (new[1] - s)
            ts[i], hs[i] = t + dt, s + ds
            den = 1 + dt * var
            column = A[i, :b].copy()
            row = A[i] * (-dt / den)
            row[b] = (ds - dt * m) / den
            dger(1.0, row, column, a=A_t, overwrite_a=1)
    T[:], h[:] = ts, hs


def _match(tilted_one: TiltedOne, k: int, precision: float, shift: float) -> tuple[float, float] | None:
    """The site whose product with the cavity has the tilted moments; None where those are no moments."""
    cavity = 1 / precision
    _, mean, var = tilted_one(k, shift * cavity, cavity)
    var = max(var, SHARPEST * cavity)
    t = max(1 / var - precision, 0.0)  # below zero only by rounding, or for a factor that is not log-concave
    s = mean * (precision + t) - shift
    return (t, s) if math.isfinite(t) and math.isfinite(s) else None


def _match_copies(
    tilted_one: TiltedOne, k: int, w: float, rest: float, rest_shift: float, t: float, s: float
) -> tuple[float, float] | None:
    """The total of w copies of one site, each matched against a cavity that holds the w − 1 others.

    A fixed point p = rest + (w − 1) t(p, c), c = rest_shift + (w − 1) s(p, c) in the cavity (p, c) of one
    copy, solved here so that copies cost no sweeps: by plain iteration from the site as it is, or by Powell's
    hybrid method from the Gaussian without the site where that does not settle. None where neither does.
    """
    p, c = rest + (w - 1) / w * t, rest_shift + (w - 1) / w * s
    for _ in range(40):
        new = _match(tilted_one, k, p, c)
        if new is None:
            break
        dp, dc = rest + (w - 1) * new[0] - p, rest_shift + (w - 1) * new[1] - c
        if abs(dp) / p + abs(dc) / (abs(c) + math.sqrt(p)) < 1e-11:
            return w * new[0], w * new[1]
        p, c = p + dp, c + dc

    def residual(x: Array) -> tuple[float, float]:
        p = math.exp(min(max(float(x[0]), -500.0), 500.0))
        c = float(x[1]) * p / math.sqrt(rest)
        t, s = _match(tilted_one, k, p, c) or (math.inf, math.inf)
        return (rest + (w - 1) * t) / p - 1, (rest_shift + (w - 1) * s - c) / p * math.sqrt(min(p, rest))

    found = root(residual, [math.log(rest), rest_shift / math.sqrt(rest)], method="hybr", tol=1e-12)
    p = math.exp(min(max(float(found.x[0]), -500.0), 500.0))
    new = _match(tilted_one, k, p, float(found.x[1]) * p / math.sqrt(rest))
    return None if new is None or max(map(abs, residual(found.x))) > 1e-8 else (w * new[0], w * new[1])
