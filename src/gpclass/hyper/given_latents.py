r"""What moves of θ given the latent values need of the prior, in two parametrisations.

Dense: f = L η per latent value, K_c = L_c L_cᵀ, so that

    log N(f; 0, K) = −½|η|² − Σ_c log|L_c| + constant,   gradient ½ Σ_c (α_c α_cᵀ − K_c⁻¹) : ∂K_c/∂θ, α_c = K_c⁻¹f_c.

Inducing inputs: f is the values at the inducing inputs, f_c = L_zc u_c, and the likelihood given them has the rows'
residual variances integrated out.
Cost: n³/3 (or m³/3) per kernel, n² (or n m) per latent value for the rest; the dense gradient inverts each K.
Fails when: a covariance has no factor even with jitter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from gpclass._typing import Array
from gpclass.latent.dense import DensePrior
from gpclass.latent.low_rank import LowRankPrior
from gpclass.latent.low_rank_target import log_likelihood
from gpclass.model.problem import Problem


@dataclass(frozen=True, eq=False)
class GivenLatents(ABC):
    """The prior of the latent values at one θ."""

    problem: Problem
    roots: list[Array]  # one per latent value

    @classmethod
    def of(cls, problem: Problem) -> GivenLatents:
        """Factor the covariances at the problem's θ."""
        prior = problem.prior
        if isinstance(prior, DensePrior):
            return DenseLatents(problem, prior.per_latent(prior.roots))
        assert isinstance(prior, LowRankPrior)
        return InducingLatents(problem, prior.spec.per_latent([basis.L for basis in prior.bases]))

    def latents(self, eta: Array) -> Array:
        """f of η, both (k,)."""
        return np.concatenate([L @ e for L, e in zip(self.roots, self._split(eta), strict=True)])

    def white(self, f: Array) -> Array:
        """η of f."""
        pairs = zip(self.roots, self._split(f), strict=True)
        return np.concatenate([solve_triangular(L, f_c, lower=True, check_finite=False) for L, f_c in pairs])

    def log_density(self, white: Array) -> float:
        """Log N(f; 0, K) without its constant, for the η of f."""
        return -0.5 * float(white @ white) - sum(float(np.log(np.diag(L)).sum()) for L in self.roots)

    @abstractmethod
    def log_likelihood(self, f: Array) -> float:
        """Log p(y | f)."""

    @abstractmethod
    def slope(self, f: Array, white: Array) -> Array:
        """Gradient of log N(f; 0, K) + log p(y|f) in θ."""

    def _split(self, values: Array) -> list[Array]:
        return np.split(values, len(self.roots))


class DenseLatents(GivenLatents):
    """Values at the rows."""

    def log_likelihood(self, f: Array) -> float:
        problem = self.problem
        log_p = problem.likelihood.log(problem.y, f.reshape(problem.n_latents, problem.n))
        return float(problem.weighted(log_p).sum())

    def slope(self, f: Array, white: Array) -> Array:
        problem, prior = self.problem, self.problem.prior
        assert isinstance(prior, DensePrior)
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


class InducingLatents(GivenLatents):
    """Values at the inducing inputs."""

    def log_likelihood(self, f: Array) -> float:
        """Log p(y | f), the residual variances integrated out."""
        problem, prior = self.problem, self.problem.prior
        assert isinstance(prior, LowRankPrior)
        _, sums = problem.map(log_likelihood, problem.rows.held, prior.spec, self.white(f)[None])
        return float(sums["log_likelihood"][0])

    def slope(self, f: Array, white: Array) -> Array:
        raise ValueError("Alternate(move='hmc') needs the dense prior; use move='metropolis' with inducing inputs")
