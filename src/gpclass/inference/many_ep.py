r"""Expectation propagation for multinomial probit, with n×n factorisations only.

Utilities u_c = f_c + ε_c; the label says v_c = u_y − u_c > 0 for every c ≠ y. Each of these n(C−1) constraints
gets a site exp(h v − ½ t v²). Summed over the noise, the C − 1 sites of a point are one Gaussian site in its
C latent values, exp(b·f − ½ fᵀW f), with W of the form of :mod:`gpclass.latent.coupled`: D_y = 1 and
D_c = t_c/(1 + t_c) (the true class's utility is a hub that the others are compared with), so that the
posterior and its C×C marginals need no n(C−1)-dimensional matrix.

A sweep updates all points at once. For each, its own sites are divided out of the marginal, N(μ₋, Σ₋), and the
C − 1 sites are fitted one after another, twice, to N(A μ₋, A (Σ₋ + I) Aᵀ) restricted to v > 0. The sites that
start the next sweep are extrapolated from the last few (:mod:`gpclass.numerics.anderson`). The fixed point is that of EP on the
n(C−1)-dimensional orthant. A weight w means w copies of the point; for w < 1 the point's sites count w times.

Evidence: log Z = log ∫ prior × sites + Σ (log Φ(z) − log of the site's own integral over its cavity); its
gradient holds the sites fixed: d log Z/dK_c = ½ (α_c α_cᵀ − M_cc).
Cost: 2 C n³ multiply-adds a sweep, 5 to 20 sweeps; O(C n²) memory.
Fails when: sweeps of all points at once cycle; steps are then shortened, and the report says if that fails.
References: Minka (2001); Riihimäki, Jylänki & Vehtari (2013), Nested expectation propagation for Gaussian
process classification with a multinomial probit likelihood. The hub form is ours.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import log_ndtr

from gpclass._typing import Array, IntArray
from gpclass.latent.coupled import CoupledFactor
from gpclass.latent.many_gaussian import MultiGaussianPosterior
from gpclass.model.many_problem import MultiProblem
from gpclass.numerics.anderson import Mixing
from gpclass.numerics.special import hazard_terms
from gpclass.posterior import Evidence, Posterior, Report
from gpclass.propagation.sites import log_site_mass

LEAST, MOST = 1e-8, 1e8  # range of a site's precision: beyond it digits are lost, and nothing is said
PASSES = 2  # updates of a point's sites against each other before the other points are told
DEPTH = 8  # sweeps that the extrapolation remembers
STEP = 0.7  # part of the way to its update that a site goes: all move at once
COPY_STEPS = 10  # updates of a weighted point's sites before the other points are told
CLOSE = 2.0  # largest change of a site from which past sweeps say something about the next


@dataclass(frozen=True)
class MultinomialEP:
    """Settings of expectation propagation for many classes.

    Parameters
    ----------
    max_sweeps : int
        Largest number of passes over all points.
    tol : float
        Stop when log Z and every site change by less than this, relatively, in a sweep.
    """

    max_sweeps: int = 100
    tol: float = 1e-8

    name: ClassVar[str] = "ep"
    likelihood: ClassVar[str] = "multinomial-probit"

    @property
    def guide(self) -> MultinomialEP:
        """Itself with looser sites: log Z is stationary in them."""
        return replace(self, tol=1e-4 if self.tol >= 1e-8 else 100 * self.tol)

    def __call__(
        self,
        problem: MultiProblem,
        noise: np.random.Generator | None = None,
        *,
        start: Posterior | None = None,
        gradient: bool = False,
    ) -> MultiGaussianPosterior:
        """Approximate the posterior of ``problem``; ``noise`` is not used."""
        began = time.perf_counter()
        old = start.state.get("sites") if isinstance(start, MultiGaussianPosterior) else None
        warm = old is not None and old.t.shape == (problem.n, problem.n_classes - 1)
        fit = fit_sites(problem, old if warm else None, tol=self.tol, max_sweeps=self.max_sweeps)
        alpha, factor = fit.state.alpha, fit.state.factor
        slope = None
        if gradient:
            blocks = enumerate(factor.blocks())
            slope = problem.pull(0.5 * (np.outer(alpha[c], alpha[c]) - block) for c, block in blocks)
        return MultiGaussianPosterior(
            problem=problem,
            mean=fit.state.mean,
            alpha=alpha,
            factor=factor,
            evidence=Evidence(fit.log_z, kind="approximate", gradient=slope),
            report=Report(
                method=self.name,
                converged=fit.converged,
                reason=""
                if fit.converged
                else f"sites still moved by {fit.change:.1e} after {fit.sweeps} sweeps",
                iterations=fit.sweeps,
                seconds=time.perf_counter() - began,
                details={"n_classes": problem.n_classes, "memory_mb": factor.megabytes},
            ),
            state={"sites": fit.sites},
        )


@dataclass(frozen=True)
class PointSites:
    """Sites exp(h v − ½ t v²) of each point's C − 1 constraints, the classes c ≠ y in their order."""

    t: Array  # (n, C − 1)
    h: Array  # (n, C − 1)

    def packed(self) -> Array:
        """Both as one vector: log t, and h/√t."""
        return np.concatenate([np.log(self.t).ravel(), (self.h / np.sqrt(self.t)).ravel()])

    @classmethod
    def unpacked(cls, x: Array, shape: tuple[int, ...]) -> PointSites:
        """The sites from such a vector."""
        log_t, z = np.split(x, 2)
        t = np.exp(np.clip(log_t, np.log(LEAST), np.log(MOST))).reshape(shape)
        return cls(t, z.reshape(shape) * np.sqrt(t))


@dataclass(frozen=True)
class SiteFit:
    """Where EP ended."""

    sites: PointSites
    state: _State
    mean_v: Array  # (n, C − 1), mean of the constrained differences
    log_z: float
    sweeps: int
    converged: bool
    change: float


@dataclass(frozen=True)
class _State:
    """The Gaussian that the sites make of the prior."""

    factor: CoupledFactor
    alpha: Array  # (C, n)
    mean: Array  # (C, n)
    log_sites: float  # log ∫ prior × sites


def fit_sites(problem: MultiProblem, start: PointSites | None, *, tol: float, max_sweeps: int) -> SiteFit:
    """Sweep until the sites stand still."""
    others = other_classes(problem.y, problem.n_classes)
    sites = _first_sites(problem, others) if start is None else start
    history = Mixing(DEPTH)
    log_z, change, step, last = np.inf, np.inf, STEP, np.inf
    for sweeps in range(1, max_sweeps + 1):
        state = _gaussian(problem, sites, others)
        cavity = _cavities(problem, state, sites, others)
        m, Q = cavity.differences(sites)
        log_z_old, log_z = log_z, state.log_sites + _corrections(problem, m, Q, sites)
        swept = _inner(m, Q, sites)
        if np.any(cavity.more > 0):
            swept = _with_copies(cavity, swept)
        moved = _change(sites, swept, Q)
        change = max(moved, abs(log_z - log_z_old) / max(1.0, abs(log_z)))
        if moved <= tol:  # then the evidence is still to second order
            return SiteFit(sites, state, _local(m, Q, sites)[0], log_z, sweeps, True, moved)
        if moved > CLOSE:
            history.clear()
        if sweeps % 20 == 0:  # it should long be there: it cycles
            step = 0.5 * step if moved > 0.1 * last else step
            last = moved
        sites = _extrapolate(history, sites, swept, step)
    state = _gaussian(problem, sites, others)
    m, Q = _cavities(problem, state, sites, others).differences(sites)
    log_z = state.log_sites + _corrections(problem, m, Q, sites)
    return SiteFit(sites, state, _local(m, Q, sites)[0], log_z, max_sweeps, False, change)


def other_classes(y: IntArray, C: int) -> IntArray:
    """The classes that are not the point's own, in order, (n, C − 1)."""
    every = np.broadcast_to(np.arange(C), (len(y), C))
    return np.asarray(every[every != y[:, None]].reshape(len(y), C - 1))


def _first_sites(problem: MultiProblem, others: IntArray) -> PointSites:
    """Sites on the scale of the prior, ten times sharper than one constraint alone: from there few sweeps cycle."""
    variance, rows = np.stack([np.diag(K) for K in problem.K]), np.arange(problem.n)
    own = variance[problem.y, rows][:, None] + variance[others, rows[:, None]] + 2.0
    return PointSites(10.0 / own, np.sqrt(10.0 / own))


def _gaussian(problem: MultiProblem, sites: PointSites, others: IntArray) -> _State:
    """Prior times sites."""
    n, C, rows = problem.n, problem.n_classes, np.arange(problem.n)
    w = np.ones(n) if problem.weights is None else problem.weights
    t, h = sites.t, sites.h
    D = np.empty((C, n))
    D[problem.y, rows] = 1.0
    d = t / (1.0 + t)
    D[others, rows[:, None]] = d
    total, x = 1.0 + d.sum(axis=1), _shift(sites)
    b = np.empty((C, n))
    b[problem.y, rows] = x.sum(axis=1)
    b[others, rows[:, None]] = -x
    own = 0.5 * ((h * x).sum(axis=1) + h.sum(axis=1) * x.sum(axis=1))
    own -= 0.5 * (np.log1p(t).sum(axis=1) + np.log(total))
    factor = CoupledFactor(problem.K, w * D)
    alpha = w * b - factor.solve(problem.times_K(w * b))
    mean = problem.times_K(alpha)
    log_sites = w @ own + 0.5 * np.vdot(w * b, mean) - factor.half_log_det
    return _State(factor, alpha, mean, float(log_sites))


@dataclass(frozen=True)
class _Cavity:
    """The latent values of each point with all its sites divided out, and how to come back from there."""

    m: Array  # (n, C)
    S: Array  # (n, C, C)
    more: Array  # (n,), copies of the point's site beside the one that is fitted
    y: IntArray  # (n,)
    others: IntArray  # (n, C − 1)

    def differences(self, sites: PointSites) -> tuple[Array, Array]:
        """Mean (n, C−1) and covariance of v for one copy, the other copies' sites put back."""
        m, S = self.m, self.S
        if np.any(self.more > 0):
            m, S = _multiplied(m, S, *latent_sites(self.y, self.others, sites), self.more)
        S = S + np.eye(m.shape[1])
        rows = np.arange(len(m))
        r, y, others = rows[:, None], self.y[:, None], self.others
        with_own = S[r, y, others]  # (n, C−1)
        Q = S[rows[:, None, None], others[:, :, None], others[:, None, :]] + S[r, y, y][:, :, None]
        Q -= with_own[:, :, None] + with_own[:, None, :]
        return m[r, y] - m[r, others], Q


def latent_sites(y: IntArray, others: IntArray, sites: PointSites) -> tuple[Array, Array]:
    """Precision W (n, C, C) and shift b (n, C) of one copy of each point's site in latent space."""
    n, d = sites.t.shape
    rows = np.arange(n)
    D, b = np.ones((n, d + 1)), np.empty((n, d + 1))
    D[rows[:, None], others] = sites.t / (1.0 + sites.t)
    W = -D[:, :, None] * D[:, None, :] / D.sum(axis=1)[:, None, None]
    W[:, range(d + 1), range(d + 1)] += D
    x = _shift(sites)
    b[rows, y] = x.sum(axis=1)
    b[rows[:, None], others] = -x
    return W, b


def _shift(sites: PointSites) -> Array:
    """x = (I + T A Aᵀ)⁻¹ h with A Aᵀ = I + 1 1ᵀ: what the sites' shifts are in latent differences, (n, C−1)."""
    s, d = sites.h / (1.0 + sites.t), sites.t / (1.0 + sites.t)
    return np.asarray(s - d * (s.sum(axis=1) / (1.0 + d.sum(axis=1)))[:, None])


def _multiplied(m: Array, S: Array, W: Array, b: Array, k: Array) -> tuple[Array, Array]:
    """N(m, S) times k (n,) copies of the sites, or divided by them for k < 0; no inverse of S, it may be singular."""
    k3 = k[:, None, None]
    system = np.eye(m.shape[1]) + k3 * (S @ W)
    rhs = np.concatenate([S, (m + k[:, None] * np.einsum("iab,ib->ia", S, b))[:, :, None]], axis=2)
    solved = np.linalg.solve(system, rhs)
    S = solved[:, :, :-1]
    return solved[:, :, -1], 0.5 * (S + S.transpose(0, 2, 1))


def _cavities(problem: MultiProblem, state: _State, sites: PointSites, others: IntArray) -> _Cavity:
    """Every point's latent values without its own sites."""
    w = np.ones(problem.n) if problem.weights is None else problem.weights
    W, b = latent_sites(problem.y, others, sites)
    m, S = _multiplied(state.mean.T, state.factor.covariance, W, b, -w)
    return _Cavity(m, S, np.maximum(w - 1.0, 0.0), problem.y, others)


def _with_copies(cavity: _Cavity, sites: PointSites) -> PointSites:
    """Fit the site that a point's copies share: they move together, so each step is shortened."""
    step = 1.0 / (1.0 + cavity.more)[:, None]
    for _ in range(COPY_STEPS):
        new = _inner(*cavity.differences(sites), sites)
        sites = PointSites(sites.t ** (1 - step) * new.t**step, (1 - step) * sites.h + step * new.h)
    return sites


def _local(m: Array, Q: Array, sites: PointSites) -> tuple[Array, Array]:
    """Mean and covariance of N(m, Q) times the sites, at every point."""
    system = np.eye(m.shape[1]) + Q * sites.t[:, None, :]
    rhs = np.concatenate([Q, (m + np.einsum("iab,ib->ia", Q, sites.h))[:, :, None]], axis=2)
    solved = np.linalg.solve(system, rhs)
    return solved[:, :, -1], solved[:, :, :-1]


def _corrections(problem: MultiProblem, m: Array, Q: Array, sites: PointSites) -> float:
    """Σ over constraints of log ∫ cavity × indicator − log ∫ cavity × site."""
    mean, P = _local(m, Q, sites)
    var = np.einsum("ijj->ij", P)
    cavity_var = var / np.maximum(1.0 - var * sites.t, 1e-12)
    cavity_mean = cavity_var * (mean / var - sites.h)
    terms = log_ndtr(cavity_mean / np.sqrt(cavity_var))
    terms -= log_site_mass(cavity_mean, cavity_var, sites.t, sites.h)
    return float(problem.weighted(terms.sum(axis=1)).sum())


def _inner(m: Array, Q: Array, sites: PointSites) -> PointSites:
    """Fit each point's sites to N(m, Q) restricted to v > 0, one after another, from the present ones."""
    mean, P = _local(m, Q, sites)
    t, h = sites.t.copy(), sites.h.copy()
    for _ in range(PASSES):
        for j in range(m.shape[1]):
            column, var = P[:, :, j].copy(), P[:, j, j]
            cavity_var = var / np.maximum(1.0 - var * t[:, j], 1e-12)
            sd = np.sqrt(cavity_var)
            z = sd * (mean[:, j] / var - h[:, j])
            _, excess, tau, _ = hazard_terms(z)
            t_new = np.clip((1.0 / tau - 1.0) / cavity_var, LEAST, MOST)
            h_new = excess / (tau * sd) - z / sd
            dt, dh = t_new - t[:, j], h_new - h[:, j]
            gain = 1.0 / (1.0 + dt * var)
            mean += column * ((dh - dt * mean[:, j]) * gain)[:, None]
            P -= (column * (dt * gain)[:, None])[:, :, None] * column[:, None, :]
            t[:, j], h[:, j] = t_new, h_new
    return PointSites(t, h)


def _change(before: PointSites, after: PointSites, Q: Array) -> float:
    """The largest change of a site, relative to itself or to a thousandth of its cavity's precision."""
    scale = np.einsum("ijj->ij", Q)
    dt = np.abs(after.t - before.t) / np.maximum(after.t, 1e-3 / scale)
    dh = np.abs(after.h - before.h) / np.maximum(np.abs(after.h), 1e-3 / np.sqrt(scale))
    return float(max(dt.max(), dh.max()))


def _extrapolate(history: Mixing, before: PointSites, after: PointSites, step: float) -> PointSites:
    """The mixture of past sweeps, a part ``step`` of the way."""
    x = before.packed()
    residual = after.packed() - x
    guess = history.propose(x, residual, step=step)
    return PointSites.unpacked(x + step * residual if guess is None else guess, before.t.shape)
