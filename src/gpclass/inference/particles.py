"""The posterior that the exact methods return: weighted draws of the noisy latent values.

For the probit link with scale s, y_i is the sign of z_i = f_i + ε_i, ε_i ~ N(0, 1/s²), so the posterior of z is
N(0, K + I/s²) restricted to the orthant with the signs of y. A draw z leaves f* Gaussian with mean
k*ᵀ(K + I/s²)⁻¹z and a variance, k** − k*ᵀ(K + I/s²)⁻¹k*, that all draws share: no second integral is needed.
Cost: O(n² + nM) a new point for M draws; O(nM) memory.
Reference: Atiya, Abdel-Gawad & Fayed (2020), equations 28 and 59-61.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpclass._typing import Array, IntArray
from gpclass.inference.redraw import Recipe
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import SiteFactor, factor
from gpclass.orthant.box import Box
from gpclass.posterior import Evidence, LatentMixture, Report
from gpclass.propagation.sites import Sites


@dataclass(frozen=True, eq=False)
class ParticlePosterior:
    """Weighted draws z of the noisy latent values at the training points."""

    problem: Problem
    factor: SiteFactor  # with sites of precision s²: its inverse is (K + I/s²)⁻¹
    A: Array  # (n, M), (K + I/s²)⁻¹ z for each draw
    weights: Array  # (M,), sum to one
    group: IntArray  # (M,)
    evidence: Evidence
    report: Report
    sites: Sites | None = None  # of EP on the standardised v = y∘z, from which the next θ starts
    recipe: Recipe | None = None  # what the draws were made of; a file keeps it instead of A

    @property
    def n_components(self) -> int:
        """Number of draws."""
        return len(self.weights)

    def latent(self, X_new: Array) -> LatentMixture:
        """One Gaussian a draw; all share their variance."""
        cross = self.problem.cross(X_new)
        half = self.factor.half_solve(cross)
        variance = self.problem.covariance.diag(X_new) - np.einsum("ij,ij->j", half, half)
        return LatentMixture(
            weights=self.weights,
            means=(self.A.T @ cross)[:, :, None],
            covariances=np.maximum(variance, 0.0)[None, :, None, None],
            group=self.group,
        )

    def draw(self, X_new: Array, n: int, rng: np.random.Generator) -> Array:
        """Joint draws over X_new, (n, m, 1). Cost: O(m³) for m points."""
        cross = self.problem.cross(X_new)
        half = self.factor.half_solve(cross)
        L, _ = factor(
            self.problem.covariance(X_new) - half.T @ half,
            what="the posterior covariance of the new points",
            scale=float(np.mean(self.problem.covariance.diag(X_new))),
        )
        chosen = rng.choice(self.n_components, size=n, p=self.weights)
        return (self.A.T[chosen] @ cross + rng.standard_normal((n, len(X_new))) @ L.T)[:, :, None]


def noise_factor(problem: Problem) -> SiteFactor:
    """The factor behind (K + I/s²)⁻¹, s the scale of the link."""
    return problem.prior.with_sites(np.full(problem.n, problem.likelihood.scale**2))


def as_box(problem: Problem) -> Box:
    """The orthant v > 0, v = y∘z ~ N(0, D_y (K + I/s²) D_y), in the engine's standard form."""
    K, y = problem.prior.K, problem.y
    variance = np.diag(K) + problem.likelihood.scale**-2
    scale = np.sqrt(variance)
    S = (y / scale)[:, None] * K
    S *= y / scale
    S.flat[:: problem.n + 1] = 1.0
    zero = np.zeros(problem.n)
    return Box(S, zero, np.full(problem.n, np.inf), scale, zero, possible=True, jitter=0.0)
