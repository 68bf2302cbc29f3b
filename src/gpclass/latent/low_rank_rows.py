r"""What one row contributes under the low-rank prior: its site as seen from u, its marginals, its derivatives.

A row's latent values are f = g + e, g_c = a_cᵀu_c, e_c ~ N(0, λ_c), c = 1, ..., L. Its site exp(b·f − ½ fᵀW f) is seen
from u with the residual e integrated: a site on g of precision S = W (I + ΛW)⁻¹ and shift r = (I + WΛ)⁻¹b. The short
form of W (:mod:`gpclass.likelihoods.local`) stays short, with E = D/(1 + λD) for D. With N(μ, V) the marginal of g:

- α = r − S μ, so that E f = μ + Λα and cov f = Λ − ΛSΛ + (I − ΛS) V (I − ΛS)ᵀ;
- for L = 1 the cavity has v₋ = v/(1 − v s), m₋ = μ − v₋ α, and v₋ + λ for f. No formula divides by v: a row far from
  every inducing input has a ≈ 0 and v ≈ 0, its site depends on λ alone and carries no information about u.

The mass of a site over e is log_rest = −½ log|I + ΛW| + ½ bᵀ(Λ − ΛSΛ)b.

Gradient, row by row, with Σ the covariance of u and (for Laplace alone) the implicit part x, ν_c = Σ_i x_ic a_ic:

    ∂ log Z/∂a_c = α_c (μ_u + ν)_c + x_c μ_uc − Σ_d S_cd Σ_cd a_d,
    ∂ log Z/∂λ_c = ½ α_c² + x_c α_c − ½ (S − S V S)_cc.

Cost: O(L³) per row. Reference: Naish-Guzman & Holden (2008), The generalized FITC approximation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpclass._typing import Array
from gpclass.latent.basis import blocks
from gpclass.latent.sites import SiteRule, labels_of
from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.local import SHARPEST, RowMarginals, RowSites, precision
from gpclass.model.rows import Labels, Shard

if TYPE_CHECKING:
    from gpclass.latent.low_rank_q import Spec


@dataclass(frozen=True)
class Seen:
    """Sites of r rows as seen from u, and the residual variances λ (L, r)."""

    sites: RowSites
    rest: Array  # (L, r)
    S: Array  # (r, L, L)
    shift: Array  # (L, r)

    @classmethod
    def of(cls, sites: RowSites, rest: Array) -> Seen:
        """Integrate the residual out."""
        if sites.D is None and len(rest) > 1:
            W = sites.W
            S = np.linalg.solve(np.eye(len(rest)) + W * rest.T[:, None, :], W)
            S = 0.5 * (S + S.transpose(0, 2, 1))
            diagonal = np.einsum("rll->rl", S)
            np.maximum(diagonal, 0.0, out=diagonal)  # of a row certain of its class only rounding remains
            return cls(sites, rest, S, sites.b - np.einsum("rab,br->ar", S, rest * sites.b))
        D = sites.W[:, 0, 0][None] if sites.D is None else sites.D
        G = 1.0 + rest * D
        E, shift = D / G, sites.b / G
        if len(D) > 1:
            share = (rest * E * sites.b).sum(axis=0) / np.maximum(E.sum(axis=0), 1e-300)
            shift = shift + E * share
        return cls(sites, rest, precision(E), shift)

    def times(self, x: Array) -> Array:
        """S x for x (L, r)."""
        if len(x) == 1:
            return np.asarray(self.S[:, 0, 0] * x)
        return np.asarray(np.einsum("rab,br->ar", self.S, x))

    @property
    def log_rest(self) -> Array:
        """Log mass of the sites over e, (r,): the part of log ∫ prior × sites that is not in u."""
        b, rest = self.sites.b, self.rest
        if len(rest) == 1:
            t = self.sites.W[:, 0, 0]
            return np.asarray(-0.5 * np.log1p(rest[0] * t) + 0.5 * rest[0] * b[0] ** 2 / (1.0 + rest[0] * t))
        moved = rest * b
        return np.asarray(0.5 * np.sum(b * moved - moved * self.times(moved), axis=0) - self.half_log)

    @property
    def half_log(self) -> Array:
        """½ log|I + ΛW|, (r,): the rows' part of ½ log|I + K W|."""
        if len(self.rest) == 1:
            return np.asarray(0.5 * np.log1p(self.rest[0] * self.sites.W[:, 0, 0]))
        system = np.eye(len(self.rest)) + self.rest.T[:, :, None] * self.sites.W
        return np.asarray(0.5 * np.linalg.slogdet(system)[1])

    def alpha(self, mean: Array) -> Array:
        """α = r − S μ for μ (L, r)."""
        return self.shift - self.times(mean)

    def marginals(self, mean: Array, V: Array) -> RowMarginals:
        """Marginals of f from those of g, mean (L, r) and covariance V (r, L, L)."""
        alpha, rest = self.alpha(mean), self.rest
        f = mean + rest * alpha
        if len(rest) == 1:
            lam, v, s = rest[0], V[:, 0, 0], self.S[:, 0, 0]
            shrink = 1.0 / (1.0 + lam * self.sites.W[:, 0, 0])
            cov = ((lam + v * shrink) * shrink)[:, None, None]
            left = np.maximum(1.0 - v * s, SHARPEST)
            cavity = (mean - v * alpha / left, (v / left + lam)[:, None, None])
            return RowMarginals(f, cov, self.sites, cavity)
        lam = rest.T
        H = np.eye(len(rest)) - lam[:, :, None] * self.S
        cov = H @ V @ H.transpose(0, 2, 1) - lam[:, :, None] * self.S * lam[:, None, :]
        cov[:, range(len(rest)), range(len(rest))] += lam
        return RowMarginals(f, 0.5 * (cov + cov.transpose(0, 2, 1)), self.sites)


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of a shard under the prior."""

    rows: slice
    A: list[Array]  # (r, m) per kernel
    rest: Array  # (L, r)
    labels: Labels


def row_blocks(shard: Shard, likelihood: Likelihood, spec: Spec) -> Iterator[Block]:
    """The rows of a shard, block by block."""
    for rows, A, rest in blocks(shard, spec.bases):
        yield Block(rows, A, spec.rest(rest), labels_of(shard, likelihood, rows))


def seen_blocks(shard: Shard, likelihood: Likelihood, spec: Spec, rule: SiteRule) -> Iterator[tuple[Block, Seen]]:
    """The same with the sites that the shard holds, as seen from u."""
    k = rule.numbers(likelihood, spec.L)
    for block in row_blocks(shard, likelihood, spec):
        numbers = shard.kept[:k, block.rows]
        yield block, Seen.of(rule.sites(likelihood, block.labels, numbers), block.rest)
