r"""The posterior of multinomial probit as weighted draws of the utilities at the training points.

Draws of the differences v = u_y − u_c in the orthant (:mod:`gpclass.inference.many_exact`) fix the utilities up to
one number a point, the true class's own utility η_i. Given v it is Gaussian: with E_c = (K_c + I)⁻¹, F = Σ_c E_c
and u_c = u⁰_c + η (u⁰ is 0 for the true class and −v_c for the others), η ~ N(−F⁻¹ Σ_c E_c u⁰_c, F⁻¹). One draw of η
goes with each draw of v; then the classes are independent, E[f_c* | u] = k_c*ᵀE_c u_c with variance k_c** −
k_c*ᵀE_c k_c*, and the probability of a class is a one-dimensional integral over the largest utility.
Cost: C (n² + nM) a new point for M draws; O(C n (n + M)) memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack, solve_triangular

from gpclass._typing import Array, IntArray
from gpclass.inference.many_ep import PointSites, other_classes
from gpclass.inference.redraw import LatentRecipe
from gpclass.latent.coupled import CoupledFactor
from gpclass.model.many_problem import MultiProblem
from gpclass.numerics.linalg import factor
from gpclass.posterior import Evidence, LatentMixture, Report


@dataclass(frozen=True, eq=False)
class MultiParticlePosterior:
    """Weighted draws of all utilities."""

    problem: MultiProblem
    E: Array  # (C, n, n), (K_c + I)⁻¹
    A: Array  # (C, n, M), E_c u_c for each draw
    weights: Array  # (M,), sum to one
    group: IntArray  # (M,)
    evidence: Evidence
    report: Report
    sites: PointSites | None = None  # of EP, from which the next θ starts
    recipe: LatentRecipe | None = None  # what the draws were made of; a file keeps it instead of A and E

    @property
    def n_components(self) -> int:
        """Number of draws."""
        return len(self.weights)

    def latent(self, X_new: Array) -> LatentMixture:
        """One Gaussian a draw, the classes independent; all draws share the variances."""
        means, variances = latent_moments(self.problem, self.E, self.A, X_new)
        return LatentMixture(
            self.weights, means, variances[None, :, :, None] * np.eye(len(self.E)), self.group
        )

    def draw(self, X_new: Array, n: int, rng: np.random.Generator) -> Array:
        """Joint draws over X_new, (n, m, C). Cost: O(C m³) for m points."""
        chosen = rng.choice(self.n_components, size=n, p=self.weights)
        cross = self.problem.cross(X_new)
        prior = self.problem.for_each_class([c(X_new) for c in self.problem.covariances])
        draws = np.empty((n, len(X_new), len(self.E)))
        for c, k in enumerate(cross):
            own = prior[c] - k.T @ (self.E[c] @ k)
            L, _ = factor(0.5 * (own + own.T), what="the posterior covariance of the new points")
            draws[:, :, c] = self.A[c].T[chosen] @ k + rng.standard_normal((n, len(X_new))) @ L.T
        return draws


def latent_moments(problem: MultiProblem, E: Array, A: Array, X_new: Array) -> tuple[Array, Array]:
    """Means (M, m, C) of every draw and variances (m, C) at X_new."""
    cross = problem.cross(X_new)
    prior = problem.for_each_class([c.diag(X_new) for c in problem.covariances])
    means = np.stack([a.T @ k for a, k in zip(A, cross, strict=True)], axis=2)
    taken = [np.einsum("ji,ji->i", k, E_c @ k) for k, E_c in zip(cross, E, strict=True)]
    return means, np.maximum(np.stack(prior, axis=1) - np.stack(taken, axis=1), 0.0)


def anchored(problem: MultiProblem, v: Array) -> Array:
    """Utilities u⁰ (C, n, M) with the true class at zero, from draws v (n(C−1), M)."""
    n, C = problem.n, problem.n_classes
    u = np.zeros((C, n, v.shape[1]))
    others = other_classes(problem.y, C)
    u[others, np.arange(n)[:, None]] = -v.reshape(n, C - 1, -1)
    return u


def weights_of_utilities(factor: CoupledFactor, u: Array, rng: np.random.Generator) -> Array:
    """E_c u_c (C, n, M) for utilities anchored at zero, the true class's own utility drawn."""
    e = factor.E @ u
    centre, _ = lapack.dpotrs(factor.L, e.sum(axis=0), lower=1)
    spread = solve_triangular(
        factor.L, rng.standard_normal(u.shape[1:]), lower=True, trans=1, check_finite=False
    )
    e += factor.E @ (spread - np.asarray(centre).reshape(spread.shape))
    return e
