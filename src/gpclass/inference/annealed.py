r"""Annealed importance sampling: from a Gaussian to the posterior through intermediate temperatures.

With g_β(f) ∝ q(f) [p(y|f) N(f; 0, K)/q(f)]^β and 0 = β_0 < ... < β_s = 1, a particle starts in q, is moved
by steps that leave g_β invariant, and carries the weight

    log w = Σ_j (β_j − β_{j−1}) r(f_{j−1}),

r of :mod:`gpclass.latent.base`. The mean of w is unbiased for p(y|θ) for any steps and
temperatures. q may be the prior, or the Gaussian of Laplace or EP, which needs far fewer temperatures.
The paper's ladder is geometric whatever q is. A balanced ladder has equal steps of ∫ sd_β[r] dβ, the thermodynamic
length, which are those with increments of log w of equal variance: sd_β[r] is measured on a pilot with particles of its
own, so that the estimate remains unbiased.
Cost: √n temperatures (the paper's ladder), each M n² for one elliptical slice step of M particles; of the pilot 50 n².
Fails when: the ladder is too short for the distance between q and the posterior: uneven weights, shown by the
effective size.
Reference: Neal (2001), Annealed importance sampling; Filippone (2014), §IV and §V for the ladder; Gelman & Meng (1998),
Simulating normalizing constants, §3.3, for the best path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self, TypeAlias

import numpy as np

from gpclass._typing import Array, Generator
from gpclass.inference.around import target_around
from gpclass.inference.elliptical_step import elliptical_step
from gpclass.inference.importance import SITE_TOL, Importance, weighted_evidence, weighted_posterior
from gpclass.inference.particles import Particles
from gpclass.inference.posteriors import WhiteDraws
from gpclass.latent.coordinates import Target
from gpclass.latent.sites import Start
from gpclass.model.problem import Problem
from gpclass.posterior import Evidence

Transition: TypeAlias = "Callable[[Target, Particles, Generator, float], Particles]"
COLDEST, KNEE = 1e-6, 0.2  # the paper's ladder: first positive β, and where its two halves meet
LADDERS = ("geometric", "balanced")
PILOT = 50  # particles that a balanced ladder is found with


def ladder(n: int, temperatures: int | None = None) -> Array:
    """The paper's temperatures for n points, rising from 0 to 1: s ≈ √n values, geometric in two halves."""
    half = max(2, round((np.sqrt(n) if temperatures is None else temperatures) / 2))
    low = np.geomspace(COLDEST, KNEE, half)
    high = np.geomspace(KNEE, 1.0, half)[1:]
    return np.concatenate([[0.0], low, high])


def balanced(target: Target, beta: Array, rng: Generator, transition: Transition = elliptical_step) -> Array:
    """As many temperatures as ``beta`` has, in equal steps of the thermodynamic length seen by a pilot along it."""
    state = Particles.draw(target, PILOT, rng)
    sd = [float(state.r.std())]
    for b in beta[1:]:
        state = transition(target, state, rng, float(b))
        sd.append(float(state.r.std()))
    pieces = np.diff(beta) * (np.array(sd[1:]) + sd[:-1]) / 2.0
    length = np.concatenate([[0.0], np.cumsum(pieces)])
    if not (np.isfinite(length[-1]) and np.all(pieces > 0.0)):  # a likelihood that is constant, or zero somewhere
        return beta
    found = np.interp(np.linspace(0.0, length[-1], len(beta)), length, beta)
    return np.concatenate([[0.0], found[1:-1], [1.0]])


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
    ladder : {"geometric", "balanced"} or sequence of float
        The paper's temperatures; those of equal variance, found on a pilot (once for all θ of a chain, at its start);
        or the temperatures themselves, rising from 0 to 1.
    """

    n_samples: int = 500
    temperatures: int | None = None
    ladder: str | tuple[float, ...] = "geometric"

    name: ClassVar[str] = "annealed"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.ladder, str):
            if self.ladder not in LADDERS:
                raise ValueError(f"Annealed: ladder must be one of {LADDERS} or temperatures, got {self.ladder!r}")
            return
        beta = np.asarray(self.ladder, dtype=float)
        if beta.ndim != 1 or len(beta) < 2 or beta[0] != 0.0 or beta[-1] != 1.0 or not np.all(np.diff(beta) > 0.0):
            raise ValueError(f"Annealed: a ladder of temperatures rises from 0 to 1, got {self.ladder!r}")
        if self.temperatures is not None:
            raise ValueError("Annealed: temperatures is the length of a ladder that is not given; leave one out")
        object.__setattr__(self, "ladder", tuple(beta.tolist()))  # of a list or array: hashable, and not shared

    def settled(self, problem: Problem) -> Self:
        """Itself with the ladder that a pilot finds for this problem, if it is to be balanced."""
        if self.ladder != "balanced":
            return self
        beta = balanced(target_around(problem, self.around), self._first(problem), np.random.default_rng(0))
        return replace(self, ladder=tuple(beta.tolist()), temperatures=None)

    def _first(self, problem: Problem) -> Array:
        """The temperatures as given, or the paper's, along which a pilot goes."""
        given = not isinstance(self.ladder, str)
        return np.asarray(self.ladder, dtype=float) if given else ladder(problem.n, self.temperatures)

    def infer(self, problem: Problem, rng: Generator, start: Start | None, gradient: bool) -> WhiteDraws:
        target, beta = target_around(problem, self.around, SITE_TOL, start=start), self._first(problem)
        if self.ladder == "balanced":
            beta = balanced(target, beta, rng)
        state, log_w = anneal(target, beta, self.n_samples, rng)
        return weighted_posterior(self.name, target, state.xi, log_w, gradient, len(beta) - 1)
