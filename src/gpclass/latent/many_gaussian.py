"""The posterior that every Gaussian approximation returns for C classes: full C×C covariances at a point.

With α_c = K_c⁻¹ E[f_c] and M of :mod:`gpclass.latent.coupled`: E[f_c*] = k_c*ᵀα_c, and
cov(f_a*, f_b*) = δ_ab (k_a** − k_a*ᵀE_a k_a*) + (L⁻¹E_a k_a*)ᵀ(L⁻¹E_b k_b*). The second term is what the
labels tie together: it is one Gaussian vector seen by every class, so joint draws need C factors of m×m.
Cost: O(C n²) a new point, in blocks of points so that memory stays bounded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpclass._typing import Array
from gpclass.latent.coupled import CoupledFactor
from gpclass.model.many_problem import MultiProblem
from gpclass.numerics.linalg import factor
from gpclass.posterior import Evidence, LatentMixture, Report

BLOCK_ELEMENTS = 4_000_000  # C × n × (points a block), about 32 MB


@dataclass(frozen=True, eq=False)
class MultiGaussianPosterior:
    """A Gaussian over the latent values of all classes."""

    problem: MultiProblem
    mean: Array  # (C, n), at the training points
    alpha: Array  # (C, n), K_c⁻¹ mean_c
    factor: CoupledFactor
    evidence: Evidence
    report: Report
    state: dict[str, Any] = field(default_factory=dict)  # from which a neighbouring θ may start

    @property
    def n_components(self) -> int:
        """One Gaussian."""
        return 1

    def latent(self, X_new: Array) -> LatentMixture:
        """One Gaussian a point, with the covariance between the classes."""
        m, C = len(X_new), self.problem.n_classes
        mean, covariance = np.empty((m, C)), np.empty((m, C, C))
        step = max(1, BLOCK_ELEMENTS // (self.problem.n * C))
        for start in range(0, m, step):
            block = slice(start, start + step)
            mean[block], covariance[block] = self._at(X_new[block])
        return LatentMixture(
            weights=np.ones(1),
            means=mean[None],
            covariances=covariance[None],
            group=np.zeros(1, dtype=np.intp),
        )

    def _at(self, X_new: Array) -> tuple[Array, Array]:
        """Means (m, C) and covariances (m, C, C)."""
        C = self.problem.n_classes
        cross = self.problem.cross(X_new)
        mean = np.stack([k.T @ a for k, a in zip(cross, self.alpha, strict=True)], axis=1)
        prior = self.problem.for_each_class([c.diag(X_new) for c in self.problem.covariances])
        V = [A @ k for A, k in zip(self.factor.half, cross, strict=True)]
        covariance = np.empty((len(X_new), C, C))
        for a in range(C):
            for b in range(a + 1):
                covariance[:, a, b] = covariance[:, b, a] = np.einsum("ji,ji->i", V[a], V[b])
            own = prior[a] - np.einsum("ji,ji->i", cross[a], self.factor.E[a] @ cross[a])
            covariance[:, a, a] += np.maximum(own, 0.0)
        return mean, covariance

    def draw(self, X_new: Array, n: int, rng: np.random.Generator) -> Array:
        """Joint draws over X_new and the classes, (n, m, C). Cost: O(C m³) for m points."""
        cross = self.problem.cross(X_new)
        common = rng.standard_normal((n, self.problem.n))
        prior = self.problem.for_each_class([c(X_new) for c in self.problem.covariances])
        draws = np.empty((n, len(X_new), self.problem.n_classes))
        for c, k in enumerate(cross):
            own = prior[c] - k.T @ (self.factor.E[c] @ k)
            L, _ = factor(0.5 * (own + own.T), what="the posterior covariance of the new points")
            draws[:, :, c] = k.T @ self.alpha[c] + common @ (self.factor.half[c] @ k)
            draws[:, :, c] += rng.standard_normal((n, len(X_new))) @ L.T
        return draws
