r"""The posterior under the low-rank prior in coordinates of u: what samplers move in with inducing inputs.

    p(u | y) ∝ N(u; 0, I) Π_i ℓ_i(A_i u)^c_i,    ℓ_i(g) = ∫ p(y_i | g + e) N(e; 0, Λ_i) de,

the rows' residuals integrated out. The dimension is L m for any number of rows, and log likelihoods are sums over
shards. With q(u) = N(μ, P⁻¹), P = L Lᵀ, u = μ + L⁻ᵀξ is standard normal in ξ under q, and

    r(u) = Σ_i c_i log ℓ_i(A_i u) − ½|u|² + ½|ξ|² − log|L|.

Cost: L n m multiply-adds and n terms of the likelihood per draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_triangular

from gpclass._typing import Array, Generator, IntArray
from gpclass.latent.coordinates import Target
from gpclass.latent.low_rank import LowRankPrior, low_rank_prior
from gpclass.latent.low_rank_q import Q, Spec
from gpclass.latent.low_rank_rows import row_blocks
from gpclass.likelihoods.base import Likelihood
from gpclass.model.rows import Shard
from gpclass.model.sums import Sums

if TYPE_CHECKING:
    from gpclass.model.problem import Problem

CELLS = 200_000  # rows × draws × latent values at once: 1.6 MB per array


@dataclass(frozen=True, eq=False)
class LowRankTarget(Target):
    """N(ξ; 0, I) exp(r(u)), u = μ + L⁻ᵀξ."""

    problem: Problem
    q: Q

    @property
    def m(self) -> Array:  # type: ignore[override]  # a property here
        """Mean of q."""
        return self.q.mean

    @property
    def jitter(self) -> float:  # type: ignore[override]  # a property here
        """That of K_zz."""
        return self._prior.jitter

    @property
    def _prior(self) -> LowRankPrior:
        return low_rank_prior(self.problem)

    @property
    def dimension(self) -> int:
        return len(self.q.mean)

    def latents(self, xi: Array) -> Array:
        """u of ξ, (M, L m)."""
        return self.q.draws(xi)

    def spread(self, xi: Array) -> Array:
        return self.latents(xi) - self.q.mean

    def prior_coordinates(self, xi: Array) -> Array:
        """u is white under the prior."""
        return self.latents(xi)

    def from_prior_coordinates(self, eta: Array, rng: Generator | None = None) -> Array:
        return np.asarray((eta - self.q.mean) @ self.q.L)

    def log_likelihood(self, f: Array) -> Array:
        _, sums = self.problem.map(log_likelihood, self.problem.rows.held, self._prior.spec, f)
        return np.asarray(sums["log_likelihood"])

    def log_guide(self, f: Array) -> Array:
        xi = self.from_prior_coordinates(f)
        squares = np.einsum("ms,ms->m", f, f) - np.einsum("ms,ms->m", xi, xi)
        return np.asarray(0.5 * squares + float(np.log(np.diag(self.q.L)).sum()))

    def log_ratio_and_slope(self, f: Array) -> tuple[Array, Array]:
        xi = self.from_prior_coordinates(f)
        _, sums = self.problem.map(log_likelihood, self.problem.rows.held, self._prior.spec, f, True)
        inner = solve_triangular(self.q.L, (sums["slope"] - f).T, lower=True, check_finite=False).T
        return np.asarray(sums["log_likelihood"] - self.log_guide(f)), np.asarray(inner + xi)

    def some_latents(self, eta: Array, some: IntArray) -> Array:
        return np.asarray(eta[:, some])


def log_likelihood(
    shard: Shard, likelihood: Likelihood, spec: Spec, U: Array, slopes: bool = False
) -> tuple[Shard, Sums]:
    """Σ_i c_i log ℓ_i(A_i u) for every draw of U (M, L m), and with ``slopes`` its gradient by u, (M, L m)."""
    total, slope = np.zeros(len(U)), np.zeros(U.shape if slopes else 0)
    for block in row_blocks(shard, likelihood, spec):
        labels, each = block.labels, spec.per_latent(block.A)
        step = max(1, CELLS // (spec.L * len(each[0])))
        for begin in range(0, len(U), step):
            few = slice(begin, begin + step)
            parts = U[few].reshape(-1, spec.L, spec.m)
            g = np.stack([A @ parts[:, c].T for c, A in enumerate(each)])  # (L, r, M)
            total[few] += labels.count @ likelihood.smear(labels, g, block.rest)
            if slopes:
                first, _ = likelihood.smear_slopes(labels, g, block.rest)
                part = [(labels.count[:, None] * d).T @ A for d, A in zip(first, each, strict=True)]
                slope[few] += np.concatenate(part, axis=1)
    return shard, {"log_likelihood": total, "slope": slope}
