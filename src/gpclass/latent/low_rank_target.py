r"""The posterior under the low-rank prior in coordinates of u: what samplers move in with inducing inputs.

    p(u | y) ∝ N(u; 0, I) Π_i ℓ_i(A_i u)^c_i,    ℓ_i(g) = ∫ p(y_i | g + e) N(e; 0, Λ_i) de,

the rows' residuals integrated out. The dimension is L m for any number of rows, and log likelihoods are sums over
shards. With q(u) = N(μ, P⁻¹), P = L Lᵀ, u = μ + L⁻ᵀξ is standard normal in ξ under q, and

    r(u) = Σ_i c_i log ℓ_i(A_i u) − ½|u|² + ½|ξ|² − log|L|.

Cost: L n m multiply-adds and n terms of the likelihood per draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_triangular

from gpclass._typing import Array, IntArray
from gpclass.latent.base import Target, labels_of
from gpclass.latent.basis import blocks
from gpclass.latent.low_rank import LowRankPrior, Q, Spec
from gpclass.likelihoods.base import Likelihood
from gpclass.model.rows import Shard, Sums

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

    @cached_property
    def _prior(self) -> LowRankPrior:
        prior = self.problem.prior
        assert isinstance(prior, LowRankPrior)
        return prior

    @property
    def dimension(self) -> int:
        """L m."""
        return len(self.q.mean)

    def latents(self, xi: Array) -> Array:
        """u of ξ, (M, L m)."""
        return self.q.draws(xi)

    def spread(self, xi: Array) -> Array:
        """u − μ of ξ."""
        return self.latents(xi) - self.q.mean

    def prior_coordinates(self, xi: Array) -> Array:
        """u is white under the prior."""
        return self.latents(xi)

    def from_prior_coordinates(self, eta: Array, rng: np.random.Generator | None = None) -> Array:
        """ξ of u."""
        return np.asarray((eta - self.q.mean) @ self.q.L)

    def log_ratio(self, f: Array) -> Array:
        """r(u), (M,)."""
        _, sums = self.problem.map(log_likelihood, self.problem.rows.held, self._prior.spec, f)
        return np.asarray(sums["log_likelihood"] + self._change(f, self.from_prior_coordinates(f)))

    def log_ratio_and_slope(self, f: Array) -> tuple[Array, Array]:
        """r(u), (M,), and its gradient in ξ."""
        xi = self.from_prior_coordinates(f)
        _, sums = self.problem.map(slope, self.problem.rows.held, self._prior.spec, f)
        inner = solve_triangular(self.q.L, (sums["slope"] - f).T, lower=True, check_finite=False).T
        return np.asarray(sums["log_likelihood"] + self._change(f, xi)), np.asarray(inner + xi)

    def _change(self, u: Array, xi: Array) -> Array:
        squares = np.einsum("ms,ms->m", xi, xi) - np.einsum("ms,ms->m", u, u)
        return np.asarray(0.5 * squares - float(np.log(np.diag(self.q.L)).sum()))

    def some_latents(self, eta: Array, some: IntArray) -> Array:
        """Some of u."""
        return np.asarray(eta[:, some])


def _values(A: list[Array], spec: Spec, U: Array) -> Array:
    """g (L, r, M) of draws U (M, L m)."""
    parts = U.reshape(len(U), spec.L, spec.m)
    return np.stack([A_c @ parts[:, c].T for c, A_c in enumerate(spec.per_latent(A))])


def log_likelihood(shard: Shard, likelihood: Likelihood, spec: Spec, U: Array) -> tuple[Shard, Sums]:
    """Σ_i c_i log ℓ_i(A_i u) for every draw."""
    total = np.zeros(len(U))
    for rows, A, rest in blocks(shard, spec.bases):
        labels, lam = labels_of(shard, likelihood, rows), spec.rest(rest)
        step = max(1, CELLS // (spec.L * len(A[0])))
        for a in range(0, len(U), step):
            few = slice(a, a + step)
            total[few] += labels.count @ likelihood.smear(labels, _values(A, spec, U[few]), lam)
    return shard, {"log_likelihood": total}


def slope(shard: Shard, likelihood: Likelihood, spec: Spec, U: Array) -> tuple[Shard, Sums]:
    """The same with its gradient by u, (M, L m)."""
    total, slopes = np.zeros(len(U)), np.zeros(U.shape)
    for rows, A, rest in blocks(shard, spec.bases):
        labels, lam, each = labels_of(shard, likelihood, rows), spec.rest(rest), spec.per_latent(A)
        step = max(1, CELLS // (spec.L * len(A[0])))
        for a in range(0, len(U), step):
            few = slice(a, a + step)
            g = _values(A, spec, U[few])
            total[few] += labels.count @ likelihood.smear(labels, g, lam)
            first, _ = likelihood.smear_slopes(labels, g, lam)
            part = [(labels.count[:, None] * first[c]).T @ each[c] for c in range(spec.L)]
            slopes[few] += np.concatenate(part, axis=1)
    return shard, {"log_likelihood": total, "slope": slopes}
