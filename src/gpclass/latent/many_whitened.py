r"""The posterior of C classes in coordinates in which a Gaussian approximation, or the prior, is standard normal.

Prior blocks K_c = L_c L_cᵀ and coupled sites exp(b_i·f_i − ½ f_iᵀW_i f_i), W_i = diag(D_i) − D_i D_iᵀ/s_i,
s_i = Σ_c D_ic (:mod:`gpclass.latent.coupled`), make the Gaussian q(f) = N(m, Σ). With Σ_c = (K_c⁻¹ + D_c)⁻¹ =
G_c G_cᵀ, C_c C_cᵀ = I + L_cᵀD_cL_c, G_c = L_c C_c⁻ᵀ, and F = Σ_c E_c = R Rᵀ its covariance is

    Σ = blockdiag(Σ_c) + U Uᵀ,   U_c = Σ_c D_c R⁻ᵀ,   so   f_c = m_c + G_c ξ_c + U_c ζ,   ξ_c, ζ ~ N(0, I):

n numbers more than latent values, the further ones ζ for the coupling by the labels, and no matrix of nC×nC.
Samplers of N(ξ; 0, I) exp(r(f(ξ))) need not know: the implied density of f is q exp(r), the posterior.
Given f, ζ = Rᵀs⁻¹(Σ_c D_c (f_c − m_c)) + Rᵀs^(-½) z, z ~ N(0, I): a chain that starts from f draws it.

    r(f) = Σ_i w_i log p(y_i|f_i) − Σ_i (b_i·f_i − ½ f_iᵀW_i f_i) + log Z_q,   log Z_q = ½ bᵀm − ½ log|I + K W|.

Cost: O(C n³) once, 2 C n² per draw; memory 3 C n² numbers. Around the prior there are no sites, no ζ, and G_c = L_c.
Fails when: some K_c has no factor even with jitter (:mod:`gpclass.numerics.linalg`); the jitter is reported.
Reference: Rasmussen & Williams (2006), §3.5, for softmax's sites; the coordinates are this package's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from gpclass._typing import Array, IntArray
from gpclass.latent.base import Target
from gpclass.latent.coupled import CoupledFactor
from gpclass.latent.dense import dense_prior
from gpclass.likelihoods.local import times_precision
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import cholesky


@dataclass(frozen=True, eq=False)
class CoupledSites:
    """Coupled sites and what they make of the prior."""

    D: Array  # (C, n)
    b: Array  # (C, n)
    C: Array  # (C, n, n), factors of I + L_cᵀD_cL_c
    R: Array  # (n, n), factor of F
    U: Array  # (C, n, n)
    tie: Array  # (C, n, n), L_c⁻¹U_c


@dataclass(frozen=True, eq=False)
class MultiWhitened(Target):
    """The posterior of f, (C n) numbers class by class, as N(ξ; 0, I) exp(r(f)); see the module.

    L latent values per row, the sites in the short form of :mod:`gpclass.likelihoods.local`.
    """

    problem: Problem
    L: list[Array]  # roots of the prior covariances: one if the classes share it, else C
    G: Array  # (1 or C, n, n)
    m: Array  # (C n,), mean of q
    centre: Array  # (C n,), L_c⁻¹m_c
    sites: CoupledSites | None  # None if q is the prior
    log_z: float  # log ∫ prior × sites
    jitter: float

    @property
    def dimension(self) -> int:
        """Of ξ: C n, and n more around a Gaussian with sites."""
        return len(self.m) + (0 if self.sites is None else self.problem.n)

    @property
    def details(self) -> dict[str, Any]:
        """For the report."""
        arrays = [*self.L, self.G]
        if self.sites is not None:
            arrays += [self.sites.C, self.sites.U, self.sites.tie]
        return {"n_classes": self.problem.n_latents, "memory_mb": sum(a.nbytes for a in arrays) / 2**20}

    def latents(self, xi: Array) -> Array:
        """The values f of ξ, (M, C n)."""
        return self.spread(xi) + self.m

    def spread(self, xi: Array) -> Array:
        """f − m of ξ, (M, C n)."""
        out = self._own(xi).swapaxes(0, 1) @ self.G.transpose(0, 2, 1)  # (C, M, n)
        if self.sites is not None:
            out += self._shared(xi) @ self.sites.U.transpose(0, 2, 1)
        return np.asarray(out.swapaxes(0, 1).reshape(len(xi), -1))

    def prior_coordinates(self, xi: Array) -> Array:
        """The coordinates η with f_c = L_c η_c, (M, C n)."""
        if self.sites is None:
            return xi
        own = self._own(xi)
        out = np.empty_like(own)
        for c, C in enumerate(self.sites.C):
            out[:, c] = solve_triangular(C, own[:, c].T, lower=True, trans="T", check_finite=False).T
            out[:, c] += self._shared(xi) @ self.sites.tie[c].T
        return np.asarray(self.centre + out.reshape(len(xi), -1))

    def from_prior_coordinates(self, eta: Array, rng: np.random.Generator | None = None) -> Array:
        """ξ of η; ζ is drawn given f, or its mean without a generator."""
        sites, M, n = self.sites, len(eta), self.problem.n
        if sites is None:
            return eta
        gap = (eta - self.centre).reshape(M, -1, n)
        off = np.stack([gap[:, c] @ L.T for c, L in enumerate(self._roots())], axis=1)  # f − m
        s = sites.D.sum(axis=0)
        zeta = ((sites.D * off).sum(axis=1) / s) @ sites.R
        if rng is not None:
            zeta += (rng.standard_normal((M, n)) / np.sqrt(s)) @ sites.R
        own = [(gap[:, c] - zeta @ sites.tie[c].T) @ C for c, C in enumerate(sites.C)]
        return np.hstack([*own, zeta])

    def log_ratio(self, f: Array) -> Array:
        """r(f), (M,), for f (M, C n): the log weight of a draw from q."""
        F = f.reshape(len(f), -1, self.problem.n)
        total = self.problem.weighted(self.problem.likelihood.log(self.problem.y, F)).sum(axis=1)
        if self.sites is None:
            return np.asarray(total)
        return np.asarray(total - self._log_sites(F, times_precision(self.sites.D, F)) + self.log_z)

    def log_ratio_and_slope(self, f: Array) -> tuple[Array, Array]:
        """r(f), (M,), and its gradient in ξ."""
        F = f.reshape(len(f), -1, self.problem.n)
        log_p, slope = self.problem.likelihood.slope(self.problem.y, F)
        r, slope = self.problem.weighted(log_p).sum(axis=1), self.problem.weighted(slope)
        if self.sites is not None:
            WF = times_precision(self.sites.D, F)
            r = r - self._log_sites(F, WF) + self.log_z
            slope = slope - self.sites.b + WF
        own = np.hstack([slope[:, c] @ G for c, G in enumerate(self._roots(list(self.G)))])
        if self.sites is None:
            return np.asarray(r), own
        shared = sum(slope[:, c] @ U for c, U in enumerate(self.sites.U))
        return np.asarray(r), np.hstack([own, np.asarray(shared)])

    def some_latents(self, eta: Array, some: IntArray) -> Array:
        """Latent values of η at some of the C n positions, (M, len(some))."""
        n, roots = self.problem.n, self._roots()
        each = [eta[:, c * n : (c + 1) * n] @ roots[c][i] for c, i in (divmod(int(k), n) for k in some)]
        return np.stack(each, axis=1)

    def _own(self, xi: Array) -> Array:
        return xi[:, : len(self.m)].reshape(len(xi), -1, self.problem.n)

    def _shared(self, xi: Array) -> Array:
        return xi[:, len(self.m) :]

    def _log_sites(self, F: Array, WF: Array) -> Array:
        assert self.sites is not None
        return np.asarray((F * (self.sites.b - 0.5 * WF)).sum(axis=(1, 2)))

    def _roots(self, found: list[Array] | None = None) -> list[Array]:
        found = self.L if found is None else found
        return found * self.problem.n_latents if len(found) == 1 else found


def whiten_many(problem: Problem, alpha: Array | None = None, D: Array | None = None) -> MultiWhitened:
    """Coordinates in which the prior times coupled sites is standard normal; without sites, the prior.

    The sites have parameters D (C, n), and b such that q has the mean K α, α (C, n).
    """
    prior, C, n = dense_prior(problem), problem.n_latents, problem.n
    L, jitter = prior.roots, prior.root_jitter
    if alpha is None or D is None:
        zero = np.zeros(C * n)
        return MultiWhitened(problem, L, np.stack(L), zero, zero, None, 0.0, jitter)
    each = prior.per_latent(L)
    # The following must use the same prior, jitter included.
    K = prior.covariances if jitter == 0.0 else [root @ root.T for root in each]
    coupled = CoupledFactor(K, D)
    m = np.stack([root @ (root.T @ a) for root, a in zip(each, alpha, strict=True)])
    inner, G, U, tie = (np.empty((C, n, n)) for _ in range(4))
    for c, root in enumerate(each):
        B = root.T @ (D[c][:, None] * root)
        B.flat[:: n + 1] += 1.0
        inner[c] = cholesky(B)
        G[c] = solve_triangular(inner[c], root.T, lower=True, check_finite=False).T
        half = solve_triangular(coupled.L, D[c][:, None] * G[c], lower=True, check_finite=False)  # R⁻¹D_cG_c
        U[c] = G[c] @ half.T
        tie[c] = solve_triangular(inner[c], half.T, lower=True, trans="T", check_finite=False)
    b = alpha + times_precision(D, m)  # q has the mean m
    sites = CoupledSites(D, b, inner, coupled.L, U, tie)
    log_z = 0.5 * float(np.vdot(b, m)) - coupled.half_log_det
    centre = np.concatenate([root.T @ a for root, a in zip(each, alpha, strict=True)])
    return MultiWhitened(problem, L, G, m.ravel(), centre, sites, log_z, jitter)
