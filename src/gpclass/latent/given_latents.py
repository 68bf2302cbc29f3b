r"""What moves of θ given the latent values need of the prior, in two parametrisations.

Dense: f = L η per latent value, K_c = L_c L_cᵀ, so that

    log N(f; 0, K) = −½|η|² − Σ_c log|L_c| + constant,   gradient ½ Σ_c (α_c α_cᵀ − K_c⁻¹) : ∂K_c/∂θ, α_c = K_c⁻¹f_c.

Inducing inputs: f is the values at the inducing inputs, f_c = L_zc u_c, and the likelihood given them has the rows'
residual variances integrated out.
Cost: n³/3 (or m³/3) per kernel, n² (or n m) per latent value for the rest; the dense gradient inverts each K.
Fails when: a covariance has no factor even with jitter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from gpclass._typing import Array
from gpclass.latent.coordinates import GivenLatents
from gpclass.latent.dense import DensePrior
from gpclass.latent.low_rank import LowRankPrior
from gpclass.latent.low_rank_target import log_likelihood


@dataclass(frozen=True, eq=False)
class DenseLatents(GivenLatents):
    """Values at the rows."""

    prior: DensePrior

    def log_likelihood(self, f: Array) -> float:
        problem = self.prior.problem
        log_p = problem.likelihood.log(problem.y, f.reshape(problem.n_latents, problem.n))
        return float(problem.weighted(log_p).sum())

    def slope(self, f: Array, white: Array) -> Array:
        prior, problem = self.prior, self.prior.problem
        alpha = [
            solve_triangular(L, w, lower=True, trans="T", check_finite=False)
            for L, w in zip(self.roots, self._split(white), strict=True)
        ]
        inverses = prior.per_latent([cho_solve((L, True), np.eye(problem.n)) for L in prior.roots])
        pairs = zip(alpha, inverses, strict=True)
        slope = prior.pull(0.5 * (np.outer(a, a) - inverse) for a, inverse in pairs)
        if problem.scale_is_free:  # given f, the scale is in the likelihood alone
            values = f.reshape(problem.n_latents, problem.n)
            _, d1 = problem.likelihood.slope(problem.y, values[None])
            slope = np.append(slope[:-1], problem.weighted((values * d1[0]).sum(axis=0)).sum())
        return slope


@dataclass(frozen=True, eq=False)
class InducingLatents(GivenLatents):
    """Values at the inducing inputs."""

    prior: LowRankPrior

    def log_likelihood(self, f: Array) -> float:
        """Log p(y | f), the residual variances integrated out."""
        problem = self.prior.problem
        _, sums = problem.map(log_likelihood, problem.rows.held, self.prior.spec, self.white(f)[None])
        return float(sums["log_likelihood"][0])
