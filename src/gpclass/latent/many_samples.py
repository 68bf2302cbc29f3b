r"""Weighted draws of the latent values of C classes at the training points.

As :mod:`gpclass.inference.samples` for two classes, a class at a time: draws are kept in coordinates η_c of the
priors, f_c = L_c η_c, K_c = L_c L_cᵀ. Given f at the training points the classes are independent at new ones:
E[f_c*] = v_cᵀη_c and var f_c* = k_c** − v_cᵀv_c with v_c = L_c⁻¹k_c*, the same for every draw.
Cost: C n²/2 a new point for the v_c, S C n for the means; memory O(C n² + S C n), n² for a shared kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from gpclass._typing import Array, IntArray
from gpclass.model.many_problem import MultiProblem
from gpclass.numerics.linalg import factor
from gpclass.posterior import Evidence, LatentMixture, Report


@dataclass(frozen=True, eq=False)
class MultiSamplePosterior:
    """Weighted draws of the latent values of all classes, with θ fixed."""

    problem: MultiProblem
    L: list[Array]  # roots of the prior covariances (n, n): one if the classes share it, else C
    eta: Array  # (S, C n), class by class: f_c = L_c η_c
    weights: Array  # (S,), sums to one
    group: IntArray  # (S,), chain or batch of each draw
    evidence: Evidence | None
    report: Report

    @property
    def n_components(self) -> int:
        """Number of draws."""
        return len(self.weights)

    @property
    def f(self) -> Array:
        """The draws themselves, (S, C, n)."""
        return np.stack([eta @ L.T for eta, L in zip(self._by_class(), self._roots(), strict=True)], axis=1)

    def latent(self, X_new: Array) -> LatentMixture:
        """One Gaussian a draw, the classes independent; all draws share the variances."""
        S, m, C = len(self.weights), len(X_new), self.problem.n_classes
        means, variances = np.empty((S, m, C)), np.empty((m, C))
        crosses = self._white_cross(X_new)
        prior = [c.diag(X_new) for c in self.problem.covariances]
        left = [
            np.maximum(own - np.einsum("ij,ij->j", V, V), 0.0) for own, V in zip(prior, crosses, strict=True)
        ]
        each = zip(self._by_class(), self._spread(crosses), self._spread(left), strict=True)
        for c, (eta, V, rest) in enumerate(each):
            means[:, :, c] = eta @ V
            variances[:, c] = rest
        return LatentMixture(self.weights, means, variances[None, :, :, None] * np.eye(C), self.group)

    def draw(self, X_new: Array, n: int, rng: np.random.Generator) -> Array:
        """Joint draws over X_new, (n, m, C): a draw at the training points, then f* given it."""
        chosen = rng.choice(self.n_components, size=n, p=self.weights)
        crosses = self._white_cross(X_new)
        roots = [
            factor(
                k(X_new) - V.T @ V,
                what="the posterior covariance of the new points",
                scale=float(k.diag(X_new).mean()),
            )[0]
            for k, V in zip(self.problem.covariances, crosses, strict=True)
        ]
        draws = np.empty((n, len(X_new), self.problem.n_classes))
        each = zip(self._by_class(), self._spread(crosses), self._spread(roots), strict=True)
        for c, (eta, V, root) in enumerate(each):
            draws[:, :, c] = eta[chosen] @ V + rng.standard_normal((n, len(X_new))) @ root.T
        return draws

    def _by_class(self) -> list[Array]:
        """η_c (S, n) of every class."""
        n = self.problem.n
        return [self.eta[:, c * n : (c + 1) * n] for c in range(self.problem.n_classes)]

    def _roots(self) -> list[Array]:
        return self._spread(self.L)

    def _spread(self, found: list[Array]) -> list[Array]:
        """One array a class, from one a kernel."""
        return self.problem.for_each_class(found)

    def _white_cross(self, X_new: Array) -> list[Array]:
        """L_c⁻¹ k_c(X, X_new), (n, m) a kernel."""
        return [
            np.asarray(solve_triangular(L, k(self.problem.X, X_new), lower=True, check_finite=False))
            for L, k in zip(self.L, self.problem.covariances, strict=True)
        ]
