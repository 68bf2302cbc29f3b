r"""The posterior in coordinates in which a Gaussian approximation, or the prior, is standard normal.

Prior blocks K_c = L_c L_cᵀ, one per latent value, and sites exp(b_i·f_i − ½ f_iᵀW_i f_i) in the short form D of
:mod:`gpclass.likelihoods.local` make the Gaussian q(f) = N(m, Σ). The other factor of the posterior is

    r(f) = Σ_i w_i log p(y_i|f_i) − Σ_i (b_i·f_i − ½ f_iᵀW_i f_i) + log Z_q,   log Z_q = ½ bᵀm − ½ log|I + K W|.

With C_c C_cᵀ = I + L_cᵀD_cL_c and A_c = L_c C_c⁻ᵀ one latent value per row has Σ = A Aᵀ and f = m + A ξ, ξ ~ N(0, I).
Several have, with Σ_c = (K_c⁻¹ + D_c)⁻¹ = A_c A_cᵀ, F = Σ_c E_c = R Rᵀ (:mod:`gpclass.latent.coupled`), s_i = Σ_c D_ic,

    Σ = blockdiag(Σ_c) + U Uᵀ,   U_c = Σ_c D_c R⁻ᵀ,   so   f_c = m_c + A_c ξ_c + U_c ζ,   ξ_c, ζ ~ N(0, I):

n numbers more than latent values, the further ones ζ for the coupling by the labels, and no matrix of nC×nC.
Samplers of N(ξ; 0, I) exp(r(f(ξ))) need not know: the implied density of f is q exp(r), the posterior.
Given f, ζ = Rᵀs⁻¹(Σ_c D_c (f_c − m_c)) + Rᵀs^(-½) z, z ~ N(0, I): a chain that starts from f draws it.

No inverse of K occurs, so a nearly singular K does no harm. Around the prior there are no sites, no ζ, and A_c = L_c.
With one latent value A is never formed: a draw takes a solve with Cᵀ and a product with L, both triangular, which
together cost what a product with A does.
Importance weights are exp(r); annealing, elliptical slices and Hamiltonian dynamics move ξ.
Cost: O(C n³) once (n³ for one latent value, a third of it for the root of K), 2 C n² per draw; memory 3 C n² numbers.
Fails when: some K_c has no factor even with jitter (:mod:`gpclass.numerics.linalg`); the jitter is reported.
Reference: Rasmussen & Williams (2006), §3.4 and §3.5; Filippone (2014), eq. 13. ζ is this package's own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from gpclass._typing import Array, Generator, IntArray
from gpclass.latent.base import per_latent
from gpclass.latent.coordinates import Target
from gpclass.latent.coupled import CoupledFactor
from gpclass.latent.dense import dense_prior
from gpclass.likelihoods.local import times_precision
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import one_plus_gram, triangular_product, triangular_solve


@dataclass(frozen=True, eq=False)
class WhiteSites:
    """Sites and what they make of the prior."""

    D: Array  # (C, n)
    b: Array  # (C, n)
    C: list[Array]  # (n, n) each, factors of I + L_cᵀD_cL_c
    log_z: float  # log ∫ prior × sites
    coupling: Coupling | None = None  # with several latent values per row


@dataclass(frozen=True, eq=False)
class Coupling:
    """The part of q's covariance between the latent values of a row."""

    R: Array  # (n, n), factor of F
    U: Array  # (C, n, n)
    tie: Array  # (C, n, n), L_c⁻¹U_c


@dataclass(frozen=True, eq=False)
class Whitened(Target):
    """The posterior of f, (C n) numbers latent value by latent value, as N(ξ; 0, I) exp(r(f)); see the module."""

    problem: Problem
    y: Array  # (n,), or (M, n): separate labels for each row of f
    prior_roots: list[Array]  # L_c (n, n): one if the latent values share it, else C
    m: Array  # (C n,), mean of q
    centre: Array  # (C n,), L_c⁻¹m_c
    sites: WhiteSites | None  # None if q is the prior
    jitter: float
    A_c: Array | None = None  # (C, n, n), of several latent values around sites

    @cached_property
    def A(self) -> Array:
        """The roots of the covariances of q, (1 or C, n, n)."""
        if self.A_c is not None:
            return self.A_c
        if self.sites is None:
            return np.stack(self.prior_roots)
        return triangular_solve(self.sites.C[0], self.L.T).T[None]

    @property
    def L(self) -> Array:
        """The root of the prior of the first latent value, (n, n)."""
        return self.prior_roots[0]

    @property
    def dimension(self) -> int:
        return len(self.m) + (0 if self._coupling is None else self.problem.n)

    @property
    def details(self) -> dict[str, Any]:
        if self.problem.n_latents == 1:
            return {}
        arrays = [*self.prior_roots, self.A]
        if self.sites is not None:
            arrays += self.sites.C
        if self._coupling is not None:
            arrays += [self._coupling.U, self._coupling.tie]
        return {"n_classes": self.problem.n_latents, "memory_mb": sum(a.nbytes for a in arrays) / 2**20}

    @property
    def roots(self) -> list[Array] | None:
        return None if self.L is dense_prior(self.problem).roots[0] else self.prior_roots

    def latents(self, xi: Array) -> Array:
        return self.spread(xi) + self.m

    def spread(self, xi: Array) -> Array:
        if self.problem.n_latents == 1:
            inner = xi.T if self.sites is None else triangular_solve(self.sites.C[0], xi.T, transposed=True)
            return triangular_product(self.L, inner).T
        out = self._own(xi).swapaxes(0, 1) @ self.A.transpose(0, 2, 1)  # (C, M, n)
        if self._coupling is not None:
            out += self._shared(xi) @ self._coupling.U.transpose(0, 2, 1)
        return np.asarray(out.swapaxes(0, 1).reshape(len(xi), -1))

    def prior_coordinates(self, xi: Array) -> Array:
        """The coordinates η with f_c = L_c η_c, (M, C n)."""
        if self.sites is None:
            return xi
        own = self._own(xi)
        out = np.empty_like(own)
        for c, C in enumerate(self.sites.C):
            out[:, c] = solve_triangular(C, own[:, c].T, lower=True, trans="T", check_finite=False).T
            if self._coupling is not None:
                out[:, c] += self._shared(xi) @ self._coupling.tie[c].T
        return np.asarray(self.centre + out.reshape(len(xi), -1))

    def from_prior_coordinates(self, eta: Array, rng: Generator | None = None) -> Array:
        """ξ of η; ζ is drawn given f, or its mean without a generator."""
        sites, coupling, M, n = self.sites, self._coupling, len(eta), self.problem.n
        if sites is None:
            return eta
        gap = (eta - self.centre).reshape(M, -1, n)
        if coupling is None:
            return np.asarray(gap[:, 0] @ sites.C[0])
        roots = per_latent(self.prior_roots, self.problem.n_latents)
        off = np.stack([gap[:, c] @ L.T for c, L in enumerate(roots)], axis=1)  # f − m
        s = sites.D.sum(axis=0)
        zeta = ((sites.D * off).sum(axis=1) / s) @ coupling.R
        if rng is not None:
            zeta += (rng.standard_normal((M, n)) / np.sqrt(s)) @ coupling.R
        own = [(gap[:, c] - zeta @ coupling.tie[c].T) @ C for c, C in enumerate(sites.C)]
        return np.hstack([*own, zeta])

    def log_likelihood(self, f: Array) -> Array:
        terms = self.problem.weighted(self.problem.likelihood.log(self.y, self._per_latent(f)))
        return np.asarray(terms.sum(axis=1))

    def log_guide(self, f: Array) -> Array:
        if self.sites is None:
            return np.zeros(len(f))
        F = self._per_latent(f)
        terms = F * (self.sites.b - 0.5 * times_precision(self.sites.D, F))
        return np.asarray(terms.sum(axis=(1, 2)) - self.sites.log_z)

    def log_ratio_and_slope(self, f: Array) -> tuple[Array, Array]:
        F = self._per_latent(f)
        log_p, slope = self.problem.likelihood.slope(self.y, F)
        total = self.problem.weighted(log_p).sum(axis=1) - self.log_guide(f)
        slope = self.problem.weighted(slope)
        if self.sites is not None:
            slope = slope - self.sites.b + times_precision(self.sites.D, F)
        if self.problem.n_latents == 1:
            inner = triangular_product(self.L, slope[:, 0].T, transposed=True)
            return total, (inner if self.sites is None else triangular_solve(self.sites.C[0], inner)).T
        parts = [slope[:, c] @ A for c, A in enumerate(per_latent(list(self.A), self.problem.n_latents))]
        if self._coupling is not None:
            parts.append(sum(slope[:, c] @ U for c, U in enumerate(self._coupling.U)))
        return total, np.hstack(parts)

    def of_chains(self, chains: IntArray) -> Whitened:
        return self if self.y.ndim == 1 else replace(self, y=self.y[chains])

    def some_latents(self, eta: Array, some: IntArray) -> Array:
        n, roots = self.problem.n, per_latent(self.prior_roots, self.problem.n_latents)
        each = [eta[:, c * n : (c + 1) * n] @ roots[c][i] for c, i in (divmod(int(k), n) for k in some)]
        return np.stack(each, axis=1)

    @property
    def _coupling(self) -> Coupling | None:
        return None if self.sites is None else self.sites.coupling

    def _own(self, xi: Array) -> Array:
        """ξ_c, (M, C, n)."""
        return xi[:, : len(self.m)].reshape(len(xi), -1, self.problem.n)

    def _shared(self, xi: Array) -> Array:
        """ζ, (M, n)."""
        return xi[:, len(self.m) :]

    def _per_latent(self, f: Array) -> Array:
        """f, (M, C, n)."""
        return f.reshape(len(f), -1, self.problem.n)


def whiten(problem: Problem, alpha: Array | None = None, D: Array | None = None) -> Whitened:
    """Coordinates in which the prior times sites is standard normal; without sites, the prior.

    The sites have precisions D (C, n) in the short form, and shifts such that q has the mean K α, α (C, n).
    """
    prior, C, n = dense_prior(problem), problem.n_latents, problem.n
    roots, jitter = prior.roots, prior.root_jitter
    if alpha is None or D is None:
        zero = np.zeros(C * n)
        return Whitened(problem, problem.y, roots, zero, zero, None, jitter)
    each = prior.per_latent(roots)
    inner = [one_plus_gram(root, d) for root, d in zip(each, D, strict=True)]
    A, coupling = None, None
    if C == 1:
        half_log_det = float(np.log(np.diag(inner[0])).sum())
    else:
        A = np.stack([triangular_solve(F, root.T).T for F, root in zip(inner, each, strict=True)])
        # The same prior, jitter included.
        K = prior.covariances if jitter == 0.0 else [root @ root.T for root in each]
        coupled = CoupledFactor(K, D)
        coupling, half_log_det = _coupling(coupled, inner, A), coupled.half_log_det
    centre = np.stack([root.T @ a for root, a in zip(each, alpha, strict=True)])
    m = np.stack([root @ part for root, part in zip(each, centre, strict=True)])
    b = alpha + times_precision(D, m)  # q has the mean m
    sites = WhiteSites(D, b, inner, 0.5 * float(np.vdot(b, m)) - half_log_det, coupling)
    return Whitened(problem, problem.y, roots, m.ravel(), centre.ravel(), sites, jitter, A)


def _coupling(coupled: CoupledFactor, inner: list[Array], A: Array) -> Coupling:
    U, tie = np.empty_like(A), np.empty_like(A)
    for c, D in enumerate(coupled.D):
        half = solve_triangular(coupled.L, D[:, None] * A[c], lower=True, check_finite=False)  # R⁻¹D_cA_c
        U[c] = A[c] @ half.T
        tie[c] = solve_triangular(inner[c], half.T, lower=True, trans="T", check_finite=False)
    return Coupling(coupled.L, U, tie)
