r"""Annealed importance sampling: from a Gaussian to the posterior through intermediate temperatures.

With g_β(f) ∝ q(f) [p(y|f) N(f; 0, K)/q(f)]^β and 0 = β_0 < ... < β_s = 1, a particle starts in q, is moved
by steps that leave g_β invariant, and carries the weight

    log w = Σ_j (β_j − β_{j−1}) r(f_{j−1}),

r of :mod:`gpclass.latent.base`. The mean of w is unbiased for p(y|θ) for any steps and
temperatures. q may be the prior, or the Gaussian of Laplace or EP, which needs far fewer temperatures.
Cost: √n temperatures (the paper's ladder), each M n² for one elliptical slice step of M particles.
Fails when: the ladder is too short for the distance between q and the posterior: uneven weights, shown by the
effective size.
Reference: Neal (2001), Annealed importance sampling; Filippone (2014), §IV and §V for the ladder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np

from gpclass._typing import Array, Generator
from gpclass.inference.around import target_around
from gpclass.inference.elliptical_step import elliptical_step
from gpclass.inference.importance import Importance, weighted_evidence, weighted_posterior
from gpclass.inference.particles import Particles
from gpclass.inference.posteriors import WhiteDraws
from gpclass.latent.base import Start
from gpclass.latent.coordinates import Target
from gpclass.model.problem import Problem
from gpclass.posterior import Evidence

Transition: TypeAlias = "Callable[[Target, Particles, Generator, float], Particles]"
COLDEST, KNEE = 1e-6, 0.2  # the paper's ladder: first positive β, and where its two halves meet


def ladder(n: int, temperatures: int | None = None) -> Array:
    """The paper's temperatures for n points, rising from 0 to 1: s ≈ √n values, geometric in two halves."""
    half = max(2, round((np.sqrt(n) if temperatures is None else temperatures) / 2))
    low = np.geomspace(COLDEST, KNEE, half)
    high = np.geomspace(KNEE, 1.0, half)[1:]
    return np.concatenate([[0.0], low, high])


def anneal(
    target: Target, beta: Array, size: int, rng: Generator, transition: Transition = elliptical_step
) -> tuple[Particles, Array]:
    """Particles carried along the ladder, and their log weights (size,)."""
    state = Particles.draw(target, size, rng)
    log_w = np.zeros(size)
    for j in range(1, len(beta)):
        log_w += (beta[j] - beta[j - 1]) * state.r
        # The last step, at β = 1, changes no weight and improves the draws.
        state = transition(target, state, rng, float(beta[j]))
    return state, log_w


def annealed_evidence(target: Target, beta: Array, size: int, rng: Generator, transition: Transition) -> Evidence:
    """The evidence alone, with the steps of some sampler as transitions."""
    return weighted_evidence(anneal(target, beta, size, rng, transition)[1])


@dataclass(frozen=True)
class Annealed(Importance):
    """Settings of annealed importance sampling.

    Parameters
    ----------
    n_samples : int
        Particles, N_imp in the paper.
    around : {"ep", "variational", "laplace", "prior"} or Inference, optional
        Where particles start; the paper uses Laplace's Gaussian and the prior. By default the best Gaussian available
        for the likelihood.
    temperatures : int, optional
        Length of the ladder; √n by default.
    """

    n_samples: int = 500
    temperatures: int | None = None

    name: ClassVar[str] = "annealed"

    def infer(self, problem: Problem, rng: Generator, start: Start | None, gradient: bool) -> WhiteDraws:
        target = target_around(problem, self.around)
        beta = ladder(problem.n, self.temperatures)
        state, log_w = anneal(target, beta, self.n_samples, rng)
        return weighted_posterior(self.name, target, state.xi, log_w, gradient, len(beta) - 1)
