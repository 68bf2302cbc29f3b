r"""Gaussian priors of C classes, times sites that couple the classes at each point: n×n algebra only.

The prior is C blocks N(0, K_c); point i has a site of precision W_i = diag(D_i) − D_i D_iᵀ / Σ_c D_ic, a C×C
matrix invariant to a common shift of all classes, with D_ic >= 0. Softmax has D = w π; a multinomial
probit's sites of precision t on u_y − u_c have D_y = w and D_c = w t_c/(1 + t_c). With E_c = (K_c +
D_c⁻¹)⁻¹, computed in B-form, F = Σ_c E_c and R the sum over classes,

    M = (K + W⁻)⁻ = E − E R F⁻¹ Rᵀ E,      log|I + K W| = Σ_c log|B_c| + log|F| − Σ_i log Σ_c D_ic,
    (K⁻¹ + W)⁻¹ = K − K M K,               its blocks at point i: δ_ab P_a + V_aᵀV_b,

P_a = diag(K_a − K_a E_a K_a), V_a = L⁻¹ E_a K_a = L⁻¹ (I − E_a D_a⁻¹), F = L Lᵀ. The last form needs no
product with K. No nC×nC matrix exists anywhere.
Cost: n³ multiply-adds per class for the factor, n³ more for :attr:`CoupledFactor.half`; O(C n²) memory.
Fails when: some D_i is zero in every class (a point without weight: exclude it); or K is so large that F, near K⁻¹ in
its range, is lost to rounding (:attr:`CoupledFactor.condition`).
Reference: Williams & Barber (1998), §4; Rasmussen & Williams (2006), §3.5, for softmax. The form for utilities
is ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from scipy.linalg import blas, lapack, solve_triangular

from gpclass._typing import Array, Generator
from gpclass.latent.factors import NEW_POINTS, Factor, products
from gpclass.numerics.linalg import SiteFactor, factor, lower_inverse


class CoupledFactor(Factor):
    """C priors N(0, K_c) times coupled sites with parameters D."""

    def __init__(self, K: Sequence[Array], D: Array) -> None:
        self.D = D  # (C, n)
        C, n = D.shape
        self.E = np.empty((C, n, n))
        self.leverage = np.empty((C, n))  # D_c diag(P_c)
        log_det = 0.0
        for c in range(C):
            site = SiteFactor(K[c], D[c])
            site.write_inverse(self.E[c])
            self.leverage[c] = site.leverage
            log_det += site.half_log_det
        self.L, self.jitter = factor(self.E.sum(axis=0), what="the sum of the classes' precisions")
        diagonal = np.diag(self.L)
        self.condition = float((diagonal.max() / diagonal.min()) ** 2)  # about that of the sum
        self.half_log_det = float(log_det + np.log(diagonal).sum() - 0.5 * np.log(D.sum(axis=0)).sum())

    @property
    def megabytes(self) -> float:
        return 2.0 * self.E.nbytes / 2**20

    def solve(self, b: Array) -> Array:
        c = self.E @ (b[:, :, None] if b.ndim == 2 else b)
        x, _ = lapack.dpotrs(self.L, c.sum(axis=0), lower=1)
        c -= self.E @ np.asarray(x).reshape(c.shape[1:])
        return c[:, :, 0] if b.ndim == 2 else c

    @cached_property
    def half(self) -> Array:
        """L⁻¹ E_c, (C, n, n)."""
        return np.stack([solve_triangular(self.L, E, lower=True, check_finite=False) for E in self.E])

    def predict(self, cross: Sequence[Array], prior: Sequence[Array]) -> Array:
        """Covariances (m, C, C) at new points: δ_ab (k_a** − k_a*ᵀE_a k_a*) + (L⁻¹E_a k_a*)ᵀ(L⁻¹E_b k_b*).

        The second term is the coupling by the labels.
        """
        found = products([A @ k for A, k in zip(self.half, cross, strict=True)])
        for c, (k, E) in enumerate(zip(cross, self.E, strict=True)):
            found[:, c, c] += np.maximum(prior[c] - np.einsum("ji,ji->i", k, E @ k), 0.0)
        return found

    def draw(self, cross: Sequence[Array], prior: Sequence[Array], n: int, rng: Generator) -> Array:
        """Joint draws about the mean, (n, m, C): the shared part, then each class's own."""
        m = cross[0].shape[1]
        common = rng.standard_normal((n, len(self.L)))
        draws = np.empty((n, m, len(cross)))
        for c, k in enumerate(cross):
            own = prior[c] - k.T @ (self.E[c] @ k)
            L, _ = factor(0.5 * (own + own.T), what=NEW_POINTS)
            draws[:, :, c] = common @ (self.half[c] @ k) + rng.standard_normal((n, m)) @ L.T
        return draws

    def blocks(self) -> Iterator[Array]:
        for E, A in zip(self.E, self.half, strict=True):
            yield E - A.T @ A

    @cached_property
    def covariance(self) -> Array:
        C = len(self.D)
        inverse = lower_inverse(self.L)  # L is zero above its diagonal
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            scale = np.where(self.D > 0, 1.0 / self.D, 0.0)
            scale[~np.isfinite(scale)] = 0.0
        halves = (blas.dtrmm(1.0, inverse, E.T, lower=1) for E in self.E)  # L⁻¹ E_c; E_c is symmetric
        found = products([inverse - A * s for A, s in zip(halves, scale, strict=True)])
        found[:, range(C), range(C)] += (self.leverage * scale).T
        return found
