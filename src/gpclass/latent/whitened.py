r"""The posterior in coordinates in which a Gaussian approximation, or the prior, is standard normal.

Let K = L Lᵀ and let sites exp(h_i f_i − ½ t_i f_i²) make of the prior the Gaussian q(f) = N(m, A Aᵀ), with

    C Cᵀ = I + LᵀTL,   A = L C⁻ᵀ,   m = A Aᵀ h,   log Z_q = ½ hᵀm − log|C|.

In ξ, f = m + A ξ, q is N(0, I) and the remaining factor of the posterior is

    r(f) = log [p(y|f) N(f; 0, K) / q(f)] = Σ_i [log p(y_i|f_i) − h_i f_i + ½ t_i f_i²] + log Z_q.

No inverse of K occurs, so a nearly singular K does no harm; without sites (t = h = 0) q is the prior and r
the log likelihood. Importance weights are exp(r); annealing, elliptical slices and Hamiltonian dynamics move ξ.
Cost: O(n³) once, O(n²) per draw.
Fails when: K has no factor even with jitter (:mod:`gpclass.numerics.linalg`); the jitter is reported.
Reference: Rasmussen & Williams (2006), §3.4; Filippone (2014), eq. 13.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular

from gpclass._typing import Array, IntArray
from gpclass.latent.base import Target
from gpclass.latent.dense import dense_prior
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import cholesky


@dataclass(frozen=True, eq=False)
class Whitened(Target):
    """The posterior of f as N(ξ; 0, I) exp(r(f)), f = m + A ξ; see the module."""

    problem: Problem
    y: Array  # (n,), or (M, n): separate labels for each row of f
    L: Array  # (n, n), root of the prior covariance
    C: Array | None  # (n, n); None if q is the prior
    A: Array  # (n, n), root of q's covariance
    m: Array  # (n,), mean of q
    centre: Array  # (n,), L⁻¹m
    t: Array  # (n,), site precisions
    h: Array  # (n,), site shifts
    log_z: float  # log ∫ N(f; 0, K) Π sites
    jitter: float

    @property
    def dimension(self) -> int:
        """Of ξ."""
        return len(self.m)

    def latents(self, xi: Array) -> Array:
        """The values f of ξ, both (M, n)."""
        return np.asarray(xi @ self.A.T + self.m)

    def spread(self, xi: Array) -> Array:
        """The f − m of ξ, (M, n)."""
        return np.asarray(xi @ self.A.T)

    def prior_coordinates(self, xi: Array) -> Array:
        """The coordinates η with f = L η, (M, n)."""
        if self.C is None:
            return xi
        return np.asarray(self.centre + solve_triangular(self.C, xi.T, lower=True, trans="T").T)

    def from_prior_coordinates(self, eta: Array, rng: np.random.Generator | None = None) -> Array:
        """ξ of η, (M, n); deterministic."""
        return eta if self.C is None else np.asarray((eta - self.centre) @ self.C)

    def log_ratio(self, f: Array) -> Array:
        """r(f), (M,), for f (M, n): the log weight of a draw from q."""
        terms = self.problem.weighted(self.problem.likelihood.log(self.y, f[..., None, :]))
        if self.C is None:
            return np.asarray(terms.sum(axis=-1))
        return np.asarray((terms - f * (self.h - 0.5 * self.t * f)).sum(axis=-1) + self.log_z)

    def log_ratio_and_slope(self, f: Array) -> tuple[Array, Array]:
        """r(f), (M,), and its gradient in ξ, (M, n)."""
        log_p, d1 = self.problem.likelihood.slope(self.y, f[:, None])
        terms, slope = self.problem.weighted(log_p), self.problem.weighted(d1[:, 0])
        if self.C is not None:
            terms = terms - f * (self.h - 0.5 * self.t * f)
            slope = slope - self.h + self.t * f
        return np.asarray(terms.sum(axis=-1) + self.log_z), np.asarray(slope @ self.A)

    def of_chains(self, chains: IntArray) -> Whitened:
        """The target of some chains, if each chain has separate labels."""
        return self if self.y.ndim == 1 else replace(self, y=self.y[chains])

    @property
    def roots(self) -> list[Array] | None:
        """The root of the prior, if not the problem's own."""
        return None if self.L is dense_prior(self.problem).roots[0] else [self.L]

    def some_latents(self, eta: Array, some: IntArray) -> Array:
        """Latent values of η at some points, (M, len(some))."""
        return np.asarray(eta @ self.L[some].T)


def whiten(problem: Problem, t: Array | None = None, h: Array | None = None) -> Whitened:
    """Coordinates in which the prior times sites (t, h) is standard normal; without sites, the prior."""
    prior, n = dense_prior(problem), problem.n
    L, jitter = prior.roots[0], prior.root_jitter
    if t is None or h is None:
        zero = np.zeros(n)
        return Whitened(problem, problem.y, L, None, L, zero, zero, zero, zero, 0.0, jitter)
    inner = L.T @ (t[:, None] * L)
    inner.flat[:: n + 1] += 1.0
    C = cholesky(inner)
    A = solve_triangular(C, L.T, lower=True, check_finite=False).T  # L C⁻ᵀ
    white = A.T @ h
    m = A @ white
    log_z = 0.5 * float(white @ white) - float(np.log(np.diag(C)).sum())
    centre = solve_triangular(C, white, lower=True, trans="T", check_finite=False)
    return Whitened(problem, problem.y, L, C, A, m, centre, t, h, log_z, jitter)
