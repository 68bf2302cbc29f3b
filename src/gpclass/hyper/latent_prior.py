r"""The Gaussian prior of the latent values at one θ, for two classes and for more: what moves of θ given f ask of it.

f = L η class by class, K_c = L_c L_cᵀ (two classes have one block), so that

    log N(f; 0, K) = −½|η|² − Σ_c log|L_c| + constant,   gradient ½ Σ_c (α_c α_cᵀ − K_c⁻¹) : ∂K_c/∂θ, α_c = K_c⁻¹f_c.

Cost: n³/3 for each kernel, n² a class for the rest; the gradient inverts each kernel's K.
Fails when: a K_c has no factor even with jitter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from gpclass._typing import Array
from gpclass.model.many_problem import MultiProblem
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import factor


@dataclass(frozen=True, eq=False)
class LatentPrior:
    """N(0, K(θ)) over the latent values of all classes, in a row."""

    problem: Problem | MultiProblem
    L: list[Array]  # roots, one a kernel

    @classmethod
    def of(cls, problem: Problem | MultiProblem) -> LatentPrior:
        """Factor the covariances at the problem's θ."""
        if isinstance(problem, MultiProblem):
            return cls(problem, [factor(K)[0] for K in (problem.K[:1] if problem.shared else problem.K)])
        return cls(problem, [factor(problem.prior.K)[0]])

    def latents(self, eta: Array) -> Array:
        """f of η, both (C n,)."""
        return np.concatenate([L @ e for L, e in zip(self._roots(), self._split(eta), strict=True)])

    def white(self, f: Array) -> Array:
        """η of f."""
        pairs = zip(self._roots(), self._split(f), strict=True)
        return np.concatenate([solve_triangular(L, f_c, lower=True, check_finite=False) for L, f_c in pairs])

    def log_density(self, white: Array) -> float:
        """Log N(f; 0, K) without its constant, for the η of f."""
        return -0.5 * float(white @ white) - sum(float(np.log(np.diag(L)).sum()) for L in self._roots())

    def log_likelihood(self, f: Array) -> float:
        """Log p(y|f)."""
        problem = self.problem
        if isinstance(problem, MultiProblem):
            log_p = problem.likelihood.log_prob(f.reshape(-1, problem.n).T)[np.arange(problem.n), problem.y]
            return float(problem.weighted(log_p).sum())
        return float(problem.weighted(problem.likelihood.log_prob(problem.y, f)).sum())

    def slope(self, f: Array, white: Array) -> Array:
        """Gradient of log N(f; 0, K) + log p(y|f) in θ."""
        problem, roots = self.problem, self._roots()
        alpha = [
            solve_triangular(L, w, lower=True, trans="T", check_finite=False)
            for L, w in zip(roots, self._split(white), strict=True)
        ]
        if isinstance(problem, MultiProblem):
            share = problem.n_classes if problem.shared else 1
            A = [np.stack(alpha)] if problem.shared else [a[None] for a in alpha]
            G = [0.5 * (a.T @ a - share * self._inverse(L)) for a, L in zip(A, self.L, strict=True)]
            return problem.pull(G)
        slope = problem.prior.pullback(0.5 * (np.outer(alpha[0], alpha[0]) - self._inverse(self.L[0])))
        if problem.scale_is_free:
            _, d1, _, _ = problem.likelihood.derivatives(problem.y, f)
            slope = np.append(slope, problem.weighted(f * d1).sum())
        return slope

    def _inverse(self, L: Array) -> Array:
        return np.asarray(cho_solve((L, True), np.eye(self.problem.n)))

    def _roots(self) -> list[Array]:
        return self.problem.for_each_class(self.L) if isinstance(self.problem, MultiProblem) else self.L

    def _split(self, values: Array) -> list[Array]:
        return np.split(values, len(values) // self.problem.n)
