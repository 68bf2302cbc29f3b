"""Where the exact inference measures its error: the probabilities at some of the rows, or at given points.

The number of draws is chosen for the largest Monte Carlo error of these probabilities, which a pilot's draws predict
(:class:`gpclass.inference.draws.Law`).
Cost: n m M multiply-adds for m points and M draws, per latent value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpclass._typing import Array, IntArray
from gpclass.inference.draws import Law
from gpclass.inference.noise import NoiseFactor, anchored, noisy_latents
from gpclass.latent.dense import dense_prior
from gpclass.model.problem import Problem
from gpclass.numerics.rounded import Rounded
from gpclass.posterior import LatentMixture

LOOK_AT = (200, 60)  # rows at which the error is measured, for one latent value per row and for several


def look_at(problem: Problem) -> IntArray:
    """Rows at which the error of the probabilities is measured."""
    few = min(problem.n, LOOK_AT[problem.n_latents > 1])
    return np.unique(np.linspace(0, problem.n - 1, few).astype(np.intp))


@dataclass(frozen=True, eq=False)
class Looked:
    """Points at which the error of the probabilities is measured."""

    cross: list[Array]  # (n, m) per latent value, covariances with the rows
    variances: list[Array]  # (m,) per latent value
    mean: Array | float = 0.0  # (m,), added to the latent values

    @classmethod
    def at_rows(cls, problem: Problem) -> Looked:
        """Some of the rows themselves."""
        few, K = look_at(problem), dense_prior(problem).covariances
        return cls([part[:, few] for part in K], [np.diag(part)[few] for part in K])


def covariance_at(problem: Problem, found: NoiseFactor, look: Looked) -> Array:
    """Covariances (1, m, L, L) of the latent values at the points, given noisy ones at the rows."""
    variances = np.maximum(found.variances(look.cross, look.variances), 0.0)
    return np.asarray(variances[None, :, :, None] * np.eye(problem.n_latents))


def mixture_at(
    problem: Problem, found: NoiseFactor, look: Looked, A: Array | Rounded, weights: Array, group: IntArray
) -> LatentMixture:
    """The latent values at the points, from what a posterior keeps of its draws, A (L, n, M)."""
    each = zip(np.asarray(A), look.cross, strict=True)
    means = np.stack([a.T @ k for a, k in each], axis=2)
    means += np.reshape(look.mean, (-1, 1))
    return LatentMixture(weights, means, covariance_at(problem, found, look), group)


def law_at(
    problem: Problem, found: NoiseFactor, look: Looked, rng: np.random.Generator, share: float = 1.0
) -> Callable[[Array, Array, IntArray], Law]:
    """How the largest error of a probability at the points falls, from draws v, their weights and groups.

    ``share`` of the draws are in perpendicular directions.
    """
    prior, covariance = dense_prior(problem), covariance_at(problem, found, look)
    shared = found.solve(np.stack(look.cross))[0] if len(prior.kernel_matrices) == 1 else None  # (n, few)
    hubs = rng.spawn(1)[0] if prior.L > 1 else None
    if shared is not None and prior.L == 1:
        shared *= problem.y[:, None]  # z = y∘v, without a copy of the draws

    def law(v: Array, weights: Array, group: IntArray) -> Law:
        if shared is not None:
            # The rows' hubs move all classes of a shared kernel alike, which no probability notices.
            u = v[None] if prior.L == 1 else anchored(problem, v)
            means = np.stack([u_c.T @ shared for u_c in u], axis=2)
            means += np.reshape(look.mean, (-1, 1))
            mixture = LatentMixture(weights, means, covariance, group)
        else:
            mixture = mixture_at(problem, found, look, noisy_latents(problem, found, v, hubs), weights, group)
        return Law.of(mixture, problem.likelihood, len(v), share)

    return law
