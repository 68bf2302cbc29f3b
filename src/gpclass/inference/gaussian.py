"""The posterior that every Gaussian approximation returns: N(0, K) times one Gaussian site a point.

With site precisions t and α = K⁻¹ E[f]: E[f*] = k*ᵀα and var f* = k** − k*ᵀ(K + T⁻¹)⁻¹k*.
Cost: O(n²) a new point, in blocks of points so that memory stays bounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpclass._typing import Array
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import SiteFactor, factor
from gpclass.posterior import Evidence, LatentMixture, Report

BLOCK_ELEMENTS = 4_000_000  # n × (points a block), about 32 MB


@dataclass(frozen=True, eq=False)
class GaussianPosterior:
    """A Gaussian over the latent values, from sites of natural parameters (t, h)."""

    problem: Problem
    mean: Array  # (n,), at the training points
    alpha: Array  # (n,), K⁻¹ mean
    t: Array  # (n,), site precisions
    h: Array  # (n,), site shifts
    factor: SiteFactor
    evidence: Evidence
    report: Report

    @property
    def n_components(self) -> int:
        """One Gaussian."""
        return 1

    def latent(self, X_new: Array) -> LatentMixture:
        """One Gaussian a point."""
        m = len(X_new)
        mean, variance = np.empty(m), np.empty(m)
        step = max(1, BLOCK_ELEMENTS // self.problem.n)
        for start in range(0, m, step):
            block = slice(start, start + step)
            mean[block], A, prior = self._condition(X_new[block])
            variance[block] = prior - np.einsum("ij,ij->j", A, A)
        return LatentMixture.single(mean, np.maximum(variance, 0.0))

    def draw(self, X_new: Array, n: int, rng: np.random.Generator) -> Array:
        """Joint draws over X_new, (n, m, 1). Cost: O(m³) for m points."""
        mean, A, _ = self._condition(X_new)
        L, _ = factor(
            self.problem.covariance(X_new) - A.T @ A,
            what="the posterior covariance of the new points",
            scale=float(np.mean(self.problem.covariance.diag(X_new))),
        )
        return (mean + rng.standard_normal((n, len(X_new))) @ L.T)[:, :, None]

    def _condition(self, X_new: Array) -> tuple[Array, Array, Array]:
        """Posterior mean, a root of what the data take from the prior variance, and that variance."""
        cross = self.problem.cross(X_new)
        return cross.T @ self.alpha, self.factor.half_solve(cross), self.problem.covariance.diag(X_new)
