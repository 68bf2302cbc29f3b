"""The posterior that every sampler returns: weighted draws of the latent values at the training points.

Draws are kept in coordinates η of the prior, f = L η, K = L Lᵀ. A draw makes the value at a new point
Gaussian, E[f*] = vᵀη and var f* = k** − vᵀv with v = L⁻¹k*, whatever the draw: a mixture with one component
a draw that share one variance. |v|² ≤ k**, so a nearly singular K costs no accuracy. Draws of one chain
share a group.
Cost: n²/2 a new point for v, S n for the means; memory O(n² + S n), and blocks of points.
Fails when: nothing here; a poor sampler gives poor draws, which the report's figures tell.
Reference: Neal (1999), Regression and classification using Gaussian process priors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy.linalg import solve_triangular

from gpclass._typing import Array, IntArray
from gpclass.inference.gaussian import BLOCK_ELEMENTS
from gpclass.inference.redraw import LatentRecipe
from gpclass.latent.many_samples import MultiSamplePosterior
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import factor
from gpclass.posterior import Evidence, LatentMixture, Report

RHAT_LIMIT = 1.01
RHAT_APART = 1.1  # chains that disagree this much have not converged
ESS_A_CHAIN = 50  # effective draws a chain below which R-hat and quantiles are not to be trusted
TAILS = (0.05, 0.95)  # quantiles whose effective size is the tail's
LOOKED_AT = 20  # latent values whose diagnostics are computed, evenly chosen: each costs about a millisecond


@dataclass(frozen=True, eq=False)
class SamplePosterior:
    """Weighted draws of the latent values, with θ fixed."""

    problem: Problem
    L: Array  # (n, n), root of the prior covariance
    eta: Array  # (S, n), f = eta Lᵀ
    weights: Array  # (S,), sums to one
    group: IntArray  # (S,), chain of each draw
    evidence: Evidence | None
    report: Report
    recipe: LatentRecipe | None = None  # what the draws were made of; a file keeps it instead of eta and L

    @property
    def n_components(self) -> int:
        """Number of draws."""
        return len(self.weights)

    @property
    def f(self) -> Array:
        """The draws themselves, (S, n)."""
        return np.asarray(self.eta @ self.L.T)

    def latent(self, X_new: Array) -> LatentMixture:
        """One Gaussian a draw and point; all draws share the variance."""
        S, m = len(self.eta), len(X_new)
        means, variance = np.empty((S, m, 1)), np.empty(m)
        step = max(1, BLOCK_ELEMENTS // self.problem.n)
        for start in range(0, m, step):
            block = slice(start, start + step)
            V = self._white_cross(X_new[block])
            means[:, block, 0] = self.eta @ V
            variance[block] = self.problem.covariance.diag(X_new[block]) - np.einsum("ij,ij->j", V, V)
        return LatentMixture(self.weights, means, np.maximum(variance, 0.0)[None, :, None, None], self.group)

    def draw(self, X_new: Array, n: int, rng: np.random.Generator) -> Array:
        """Joint draws over X_new, (n, m, 1): a draw at the training points, then f* given it."""
        V = self._white_cross(X_new)
        rest, _ = factor(
            self.problem.covariance(X_new) - V.T @ V,
            what="the posterior covariance of the new points",
            scale=float(np.mean(self.problem.covariance.diag(X_new))),
        )
        chosen = rng.choice(len(self.weights), size=n, p=self.weights)
        means = self.eta @ V
        return (means[chosen] + rng.standard_normal((n, len(X_new))) @ rest.T)[:, :, None]

    def _white_cross(self, X_new: Array) -> Array:
        """L⁻¹ k(X, X_new), (n, m)."""
        return np.asarray(solve_triangular(self.L, self.problem.cross(X_new), lower=True, check_finite=False))


Samples: TypeAlias = SamplePosterior | MultiSamplePosterior


@dataclass(frozen=True)
class ChainFigures:
    """The worst figures over what was looked at."""

    rhat: float
    ess_bulk: float
    ess_tail: float
    mcse: float  # of a mean, relative to the posterior standard deviation

    @property
    def apart(self) -> str:
        """Why the chains count as not converged; empty if they do not (or are too short to tell)."""
        return f"R-hat is {self.rhat:.3f}" if self.rhat > RHAT_APART else ""

    def warnings(self, chains: int, cure: str) -> tuple[str, ...]:
        """What a user should hear, with the cure."""
        found = []
        if self.rhat > RHAT_LIMIT:
            found.append(
                f"the chains have not mixed well: R-hat is {self.rhat:.3f}, above {RHAT_LIMIT}; {cure}"
            )
        least = min(self.ess_bulk, self.ess_tail)
        if least < ESS_A_CHAIN * chains:
            found.append(
                f"only {least:.0f} effective draws (bulk or tail) from {chains} chains, fewer than "
                f"{ESS_A_CHAIN} a chain; {cure}"
            )
        return tuple(found)


def array_stats() -> Any:
    """ArviZ's diagnostics on arrays."""
    from arviz_stats import base  # here, to keep the import of the package fast

    return getattr(base, "array_stats")  # noqa: B009 (the name is not typed)


def chain_figures(values: Array) -> ChainFigures:
    """R-hat, effective sizes and the relative error of a mean, the worst over the last axis.

    ``values`` is (chains, draws, k); quantities that never move count as not mixed (infinite R-hat).
    """
    stats = array_stats()
    per_value = np.moveaxis(values, -1, 0)  # (k, chains, draws)
    spread = per_value.std(axis=(1, 2))
    if values.shape[1] < 4:
        return ChainFigures(np.nan, np.nan, np.nan, np.nan)
    moving = per_value[spread > 0]
    if len(moving) < len(per_value):
        return ChainFigures(np.inf, 0.0, 0.0, np.inf)
    rhat = np.asarray(stats.rhat(moving))
    bulk, tail = np.asarray(stats.ess(moving)), np.asarray(stats.ess(moving, method="tail", prob=TAILS))
    mcse = np.asarray(stats.mcse(moving)) / spread
    return ChainFigures(float(rhat.max()), float(bulk.min()), float(tail.min()), float(mcse.max()))


def looked_at(n: int) -> IntArray:
    """Indices of the latent values whose diagnostics stand for all."""
    return np.unique(np.linspace(0, n - 1, min(n, LOOKED_AT)).astype(np.intp))
