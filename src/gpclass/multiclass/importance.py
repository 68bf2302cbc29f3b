r"""Importance sampling from a Gaussian approximation, for weights that are no whole numbers.

q(f) is prior times coupled sites (:mod:`gpclass.multiclass.coupled`), each site weakened to 0.9 of its precision
about q's mean, because a Gaussian site is thinner than the likelihood in the directions along which a point is
already classified well. Draws come from the perturbed system α = α̂ + L⁻ᵀz − M L z + (I − M K) W^½ ξ, f = K α, and

    log w = Σ_i w_i log p(y_i | f_i) − Σ_i (b_i·f_i − ½ f_iᵀW_i f_i) + log ∫ prior × sites.

Given f at the training points the classes are independent at new ones.
Cost: O(C n² M), and n M link evaluations. Fails when: q is a poor guide; see ESS and k-hat.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from gpclass._typing import Array, IntArray
from gpclass.linalg import factor
from gpclass.multiclass.coupled import CoupledFactor
from gpclass.multiclass.gaussian import MultiGaussianPosterior
from gpclass.multiclass.problem import MultiProblem
from gpclass.orthant.weights import effective_size, log_mean, pareto_khat, relative_error
from gpclass.posterior import Evidence, LatentMixture, Report

POWER = 0.9  # of the sites


@dataclass(frozen=True, eq=False)
class MultiSamplePosterior:
    """Weighted draws of the latent values at the training points, in the form α_c = K_c⁻¹ f_c."""

    problem: MultiProblem
    L: list[Array]  # C factors of K_c (n, n)
    A: Array  # (C, n, M)
    weights: Array  # (M,)
    group: IntArray  # (M,)
    evidence: Evidence
    report: Report

    @property
    def n_components(self) -> int:
        """Number of draws."""
        return len(self.weights)

    def latent(self, X_new: Array) -> LatentMixture:
        """One Gaussian a draw, the classes independent."""
        cross = self.problem.cross(X_new)
        prior = self.problem.for_each_class([c.diag(X_new) for c in self.problem.covariances])
        means = np.stack([a.T @ k for a, k in zip(self.A, cross, strict=True)], axis=2)
        variances = []
        for L, k, own in zip(self.L, cross, prior, strict=True):
            half = solve_triangular(L, k, lower=True, check_finite=False)
            variances.append(np.maximum(own - np.einsum("ji,ji->i", half, half), 0.0))
        covariance = np.stack(variances, axis=1)[None, :, :, None] * np.eye(len(self.A))
        return LatentMixture(self.weights, means, covariance, self.group)

    def draw(self, X_new: Array, n: int, rng: np.random.Generator) -> Array:
        """Joint draws over X_new, (n, m, C)."""
        chosen = rng.choice(self.n_components, size=n, p=self.weights)
        cross = self.problem.cross(X_new)
        prior = self.problem.for_each_class([c(X_new) for c in self.problem.covariances])
        draws = np.empty((n, len(X_new), len(self.A)))
        for c, k in enumerate(cross):
            half = solve_triangular(self.L[c], k, lower=True, check_finite=False)
            root, _ = factor(prior[c] - half.T @ half, what="the posterior covariance of the new points")
            draws[:, :, c] = self.A[c].T[chosen] @ k + rng.standard_normal((n, len(X_new))) @ root.T
        return draws


def importance_posterior(
    guide: MultiGaussianPosterior, M: int, rng: np.random.Generator, method: str
) -> MultiSamplePosterior:
    """M draws from the widened guide, weighted to the posterior of its problem."""
    problem = guide.problem
    n, C = problem.n, problem.n_classes
    D = POWER * guide.factor.D
    q = CoupledFactor(problem.K, D)
    b = guide.alpha + _times_W(D, guide.mean[:, :, None])[:, :, 0]  # keeps the mean
    log_q = 0.5 * np.vdot(b, guide.mean) - q.half_log_det
    L, jitter = _factors(problem)
    z = rng.standard_normal((C, n, M))
    prior = np.stack([L_c @ z_c for L_c, z_c in zip(L, z, strict=True)])
    xi = np.sqrt(D)[:, :, None] * rng.standard_normal((C, n, M))
    pull = xi - D[:, :, None] * (xi.sum(axis=0) / D.sum(axis=0)[:, None])
    A = pull - q.solve(prior + problem.times_K(pull))
    for c in range(C):
        A[c] += solve_triangular(L[c], z[c], lower=True, trans=1, check_finite=False)
    A += guide.alpha[:, :, None]
    f = problem.times_K(A) + jitter * A
    log_p = problem.likelihood.log_prob(np.ascontiguousarray(f.transpose(2, 1, 0)))  # (M, n, C)
    log_p = problem.weighted(log_p[:, np.arange(n), problem.y]).sum(axis=1)
    log_site = np.einsum("cn,cnm->m", b, f) - 0.5 * np.einsum("cnm,cnm->m", f, _times_W(D, f))
    log_w = log_p - log_site + log_q
    w = np.exp(log_w - log_w.max())
    group = np.arange(M)
    return MultiSamplePosterior(
        problem=problem,
        L=L,
        A=A,
        weights=w / w.sum(),
        group=group,
        evidence=Evidence(log_mean(log_w), relative_error(log_w, group), "unbiased"),
        report=Report(
            method=method,
            jitter=jitter,
            n_samples=M,
            ess=effective_size(log_w),
            khat=pareto_khat(log_w),
            details={"n_classes": C, "memory_mb": 8 * C * n * (3 * n + 3 * M) / 2**20},
        ),
    )


def _times_W(D: Array, f: Array) -> Array:
    """W f for f (C, n, M)."""
    Df = D[:, :, None] * f
    return np.asarray(Df - D[:, :, None] * (Df.sum(axis=0) / D.sum(axis=0)[:, None]))


def _factors(problem: MultiProblem) -> tuple[list[Array], float]:
    """Factors of the C prior covariances and the largest jitter among them."""
    found = [factor(K) for K in (problem.K[:1] if problem.shared else problem.K)]
    return problem.for_each_class([L for L, _ in found]), max(jitter for _, jitter in found)
