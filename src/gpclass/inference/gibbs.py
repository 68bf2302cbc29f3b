r"""Gibbs sampling, one latent value at a time: Neal's scan.

Probit: scan v, v_i = y_i (f_i + ε_i) with unit noise, under the Gaussian N(0, S), S = D_y (K + I) D_y,
restricted to v > 0 (D_y holds the labels; a link of scale s has noise variance 1/s²). Given the rest v_i is
a truncated normal with variance 1/Q_ii and mean −Σ_{j≠i} Q_ij v_j / Q_ii, Q = S⁻¹; S has eigenvalues of at
least 1/s², so a singular K does no harm. Then f | v is Gaussian. A weight w_i, a whole number, is w_i copies
of the row.

Logit, softmax, or weights that are not whole: scan f itself, with several classes one latent value of a row after
another. Given the rest f_i has conditional prior N(c_i, 1/Q_ii), Q = (K + δI)⁻¹ of its own class, and moves by one
elliptical slice step in one dimension. For smooth kernels 1/Q_ii is little
more than δ, so chains move by √δ at a time: δ is part of the model here (independent noise on each latent value,
of variance ``jitter`` times the mean prior variance, reported) and the chains may still not mix, which R-hat shows.
Cost: L n² per chain and scan, in L n dependent steps for L latent values per row; O(n³) once.
Fails when: neighbouring points are strongly correlated and labels sharp: slow even for v. Prefer
elliptical-slice or hmc.
Reference: Neal (1999), Regression and classification using Gaussian process priors; Robert (1995) for the
draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self, TypeAlias

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import log_ndtr, ndtri_exp

from gpclass._typing import Array, Generator, IntArray
from gpclass.inference.around import target_around
from gpclass.inference.base import Way
from gpclass.inference.elliptical_step import elliptical_step
from gpclass.inference.mcmc import Stepping, annealed, collect
from gpclass.inference.particles import Particles
from gpclass.inference.posteriors import WhiteDraws
from gpclass.latent.base import per_latent
from gpclass.latent.basis import inverse
from gpclass.latent.coordinates import Target
from gpclass.latent.dense import dense_prior
from gpclass.latent.sites import Start
from gpclass.latent.whitened import Whitened, whiten
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import cholesky

Scan: TypeAlias = "Callable[[Array, Generator], Array]"
MOST_SHRINKS = 100


@dataclass(frozen=True)
class Gibbs(Stepping):
    """Settings of Gibbs sampling.

    Parameters
    ----------
    jitter : float
        Noise added to the prior of each latent value if f itself is scanned (logit, softmax), relative to the
        mean prior variance; without it the scan does not move for smooth kernels.
    chains, warmup, draws, thin, evidence
        See :class:`~gpclass.inference.mcmc.ChainSettings`; the evidence uses elliptical slice steps, because a
        scan of v has no temperature.
    """

    chains: int = 16
    warmup: int = 20
    draws: int = 60
    jitter: float = 0.01

    name: ClassVar[str] = "gibbs"
    ways: ClassVar[tuple[Way, ...]] = (Way.needs("log expand third", "covariance whitened"),)

    def brief(self) -> Self:
        return replace(super().brief(), chains=self.chains)  # side by side they cost little, and each mixes slowly

    def infer(self, problem: Problem, rng: Generator, start: Start | None, gradient: bool) -> WhiteDraws:
        if _has_noisy_values(problem):
            target = whiten(problem)
            sampler = NoisyScan.of(problem, target)
            v = sampler.first(self.chains, rng)
            eta = self._scans(problem, v, sampler.scan, sampler.latents, rng)
            f = eta @ target.L.T
        else:
            target, near = _with_own_noise(problem, self.jitter), target_around(problem, "laplace")
            f = near.latents(rng.standard_normal((self.chains, near.dimension)))
            f = self._scans(problem, f, partial(latent_scan, target, precisions_of(target)), lambda f, _: f, rng)
            eta = _white(target, f.reshape(-1, f.shape[-1]))
        f, eta = f.reshape(-1, f.shape[-1]), eta.reshape(-1, eta.shape[-1])
        log_lik = target.log_ratio(f).reshape(self.chains, self.draws)
        evidence = annealed(target_around(problem, None), elliptical_step, rng) if self.evidence else None
        return collect(self, target, eta, log_lik, evidence, {})

    def latent_steps(self, target: Target, state: Particles, rng: Generator, size: float, count: int) -> Particles:
        """Scans of v, drawn given f and replaced by f given v; else of f under the prior itself, without own noise."""
        assert isinstance(target, Whitened)
        if _has_noisy_values(target.problem):
            sampler = NoisyScan.of(target.problem, target)
            v = sampler.given_latents(state.f, rng)
            for _ in range(count):
                v = sampler.scan(v, rng)
            return Particles.at(target, sampler.latents(v, rng))
        Q, f = precisions_of(target), state.f
        for _ in range(count):
            f = latent_scan(target, Q, f, rng)
        return Particles.at(target, _white(target, f))

    def _scans(self, problem: Problem, state: Array, scan: Scan, latents: Scan, rng: Generator) -> Array:
        """Scans of the chains from a state; draws (chains, draws, L n) of the latents that belong to it."""
        kept = np.empty((self.chains, self.draws, problem.n_latents * problem.n))
        for draw in self.steps_and_draws(problem):
            state = scan(state, rng)
            if draw is not None:
                kept[:, draw] = latents(state, rng)
        return kept


@dataclass(frozen=True, eq=False)
class NoisyScan:
    """Scans of v for probit, rows repeated by their weights."""

    y: Array  # (N,), labels of the repeated rows
    rows: IntArray  # (N,), which point each belongs to
    Q: Array  # (N, N), precision of y∘v
    L: Array  # (n, n), root of the prior
    gain: Array  # (n, N): E[η | z] = gain z, z = f + ε
    noise_sd: float

    @classmethod
    def of(cls, problem: Problem, target: Whitened) -> NoisyScan:
        """The scan of a probit problem with whole weights."""
        copies = np.ones(problem.n) if problem.weights is None else problem.weights
        rows = np.repeat(np.arange(problem.n), copies.astype(int))
        L, sd = target.L, 1.0 / problem.likelihood.scale
        spread = L[rows] @ L[rows].T
        spread.flat[:: len(rows) + 1] += sd**2
        Q = precision_of(cholesky(spread))
        return cls(problem.y[rows], rows, Q, L, L[rows].T @ Q, sd)

    def first(self, chains: int, rng: Generator) -> Array:
        """Starting points v > 0, (chains, N)."""
        return np.abs(rng.standard_normal((chains, len(self.y)))) / np.sqrt(np.diag(self.Q))

    def scan(self, v: Array, rng: Generator) -> Array:
        """One pass over all coordinates of every chain."""
        z = (v * self.y).T.copy()  # (N, chains): a coordinate of all chains is a row
        sd = 1.0 / np.sqrt(np.diag(self.Q))
        log_u = np.log(rng.random(z.shape))
        for i in range(len(self.y)):
            mean = z[i] - (self.Q[i] @ z) / self.Q[i, i]
            z[i] = self.y[i] * _positive(self.y[i] * mean, sd[i], log_u[i])
        return np.asarray(z.T * self.y)

    def given_latents(self, f: Array, rng: Generator) -> Array:
        """A draw of v given f (chains, n)."""
        own = f[:, self.rows] * self.y
        return _positive(own, self.noise_sd, np.log(rng.random(own.shape)))

    def latents(self, v: Array, rng: Generator) -> Array:
        """A draw of η given v for every chain, (chains, n): a prior draw corrected by v."""
        eta = rng.standard_normal((len(v), len(self.L)))
        simulated = (eta @ self.L.T)[:, self.rows] + self.noise_sd * rng.standard_normal(v.shape)
        return np.asarray(eta + (v * self.y - simulated) @ self.gain.T)


def _positive(mean: Array, sd: float, log_u: Array) -> Array:
    """Draws of normal variables, given that they are positive, from logs of uniform ones.

    P(v > x | v > 0) = u, so the upper tail at x is u Φ(mean/sd): inverted in logs, for both tails.
    """
    tail = log_u + log_ndtr(mean / sd)
    return np.maximum(mean - sd * ndtri_exp(tail), np.finfo(float).tiny)


def _has_noisy_values(problem: Problem) -> bool:
    """Whether v exists: probit, and weights that count rows."""
    whole = problem.weights is None or np.all(problem.weights == np.round(problem.weights))
    return bool(problem.n_latents == 1 and "orthant" in problem.likelihood.offers() and whole)


def latent_scan(target: Whitened, Q: Sequence[Array], f: Array, rng: Generator) -> Array:
    """One pass over the latent values of every chain, f (chains, L n), by slices on ellipses of the conditional prior.

    ``Q`` are the precisions of the prior, one for each of the L latent values of a row.
    """
    chains, n, likelihood = len(f), target.problem.n, target.problem.likelihood
    g = f.reshape(chains, -1, n).transpose(1, 2, 0).copy()  # (L, n, chains)
    y = np.broadcast_to(target.y[:, None] if target.y.ndim == 1 else target.y.T, g.shape[1:])
    powers = np.ones(n) if target.problem.weights is None else target.problem.weights
    nu = rng.standard_normal(g.shape) / np.stack([np.sqrt(np.diag(one)) for one in Q])[..., None]
    drop = np.log(rng.random(g.shape))
    turn = rng.uniform(0.0, 2.0 * np.pi, g.shape)
    for i, c in ((i, c) for i in range(n) for c in range(len(g))):
        mean = g[c, i] - (Q[c][i] @ g[c]) / Q[c][i, i]
        gap, angle, at = g[c, i] - mean, turn[c, i], g[:, i].copy()  # at: (L, chains), all latent values of the row
        level = powers[i] * likelihood.log(y[i], at) + drop[c, i]
        low, high = angle - 2.0 * np.pi, angle
        for _ in range(MOST_SHRINKS):
            at[c] = mean + gap * np.cos(angle) + nu[c, i] * np.sin(angle)
            miss = powers[i] * likelihood.log(y[i], at) <= level
            if not miss.any():
                break
            # Chains that have hit keep their angle: their bracket closes on it.
            low = np.where(miss & (angle < 0.0), angle, low)
            high = np.where(miss & (angle >= 0.0), angle, high)
            angle = np.where(miss, low + (high - low) * rng.random(chains), angle)
        else:
            at[c] = np.where(miss, g[c, i], at[c])
        g[c, i] = at[c]
    return np.asarray(g.transpose(2, 0, 1).reshape(chains, -1))


def _with_own_noise(problem: Problem, relative: float) -> Whitened:
    """Prior coordinates of K + δI."""
    prior = dense_prior(problem)
    roots, delta = [], relative * float(np.mean([np.diag(K) for K in prior.kernel_matrices]))
    for K in prior.kernel_matrices:
        noisy = K.copy()
        noisy.flat[:: problem.n + 1] += delta
        roots.append(cholesky(noisy))
    return replace(whiten(problem), prior_roots=roots, jitter=delta)


def _white(target: Whitened, f: Array) -> Array:
    """η with f_c = L_c η_c, (M, L n)."""
    C = target.problem.n_latents
    parts = zip(per_latent(target.prior_roots, C), np.split(f, C, axis=1), strict=True)
    return np.hstack([solve_triangular(L, part.T, lower=True).T for L, part in parts])


def precisions_of(target: Whitened) -> list[Array]:
    """Precisions of the prior, one for each latent value of a row."""
    return per_latent([precision_of(L) for L in target.prior_roots], target.problem.n_latents)


def precision_of(L: Array) -> Array:
    """(L Lᵀ)⁻¹, symmetric, in C order: its rows are read one after another."""
    return inverse(L).T
