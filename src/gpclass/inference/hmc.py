r"""Hamiltonian Monte Carlo over whitened latent values.

The potential is U(ξ) = ½|ξ|² − r(m + A ξ) in the coordinates of :mod:`gpclass.latent.base`: around
EP's or Laplace's Gaussian it is nearly a unit sphere, so one step size ε suits all directions, and a
quarter of the sphere's period, π/2, forgets the start (a whole one, 2π, would return to it): a trajectory
is about π/2ε leapfrog steps, ε jittered by ±20 % against resonance, then a Metropolis test. ε is adapted in
the warm-up to the target acceptance (dual averaging over all chains) and fixed after.
Cost: 2 n² per chain and leapfrog step.
Fails when: the coordinates are far from the posterior's shape (``around="prior"`` with sharp data): small
steps, slow chains.
Reference: Neal (2011), MCMC using Hamiltonian dynamics; Hoffman & Gelman (2014), §3.2, for the adaptation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gpclass._settings import SHARE
from gpclass._typing import Array, Generator
from gpclass.inference.around import target_around
from gpclass.inference.base import Way
from gpclass.inference.mcmc import WhiteChains, run_latent_chains
from gpclass.inference.particles import Particles
from gpclass.inference.posteriors import WhiteDraws
from gpclass.latent.coordinates import Target
from gpclass.latent.sites import Start
from gpclass.model.problem import Problem

JITTER = 0.2  # share by which the step size is varied from trajectory to trajectory
QUARTER, MOST_STEPS = 0.5 * np.pi, 64  # length of a trajectory, and its largest number of steps
DIVERGED = 1000.0  # nats of energy error at which a trajectory is rejected


@dataclass
class StepSize:
    """Dual averaging of log ε towards a target acceptance (Hoffman & Gelman 2014, eq. 6)."""

    size: float
    wanted: float
    steps: int = 0
    slack: float = 0.0
    log_mean: float = 0.0
    anchor: float = 0.0

    def __post_init__(self) -> None:
        self.anchor = float(np.log(10.0 * self.size))

    def adapt(self, accepted: float) -> None:
        """Update with the acceptance of one step."""
        self.steps += 1
        weight = 1.0 / (self.steps + 10.0)
        self.slack = (1 - weight) * self.slack + weight * (self.wanted - accepted)
        log_size = self.anchor - np.sqrt(self.steps) / 0.05 * self.slack
        forget = self.steps**-0.75
        self.log_mean = forget * log_size + (1 - forget) * self.log_mean
        self.size = float(np.exp(log_size))

    def freeze(self) -> None:
        """Fix ε at the average."""
        if self.steps:
            self.size = float(np.exp(self.log_mean))
            self.steps = 0


def hmc_step(
    target: Target, state: Particles, rng: Generator, power: float = 1.0, *, size: float = 0.5, leapfrog: int = 8
) -> tuple[Particles, Array]:
    """One trajectory of every chain, and its acceptance; leaves N(ξ; 0, I) exp(power · r) invariant."""
    size = size * float(rng.uniform(1.0 - JITTER, 1.0 + JITTER))
    p = rng.standard_normal(state.xi.shape)
    log_u = np.log(rng.random(len(p)))
    xi, f = state.xi, state.f
    r, slope = target.log_ratio_and_slope(f)
    energy = _energy(p, xi) - power * r
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(leapfrog):
            p = p + 0.5 * size * (power * slope - xi)
            xi = xi + size * p
            f = target.latents(xi)
            r, slope = target.log_ratio_and_slope(f)
            p = p + 0.5 * size * (power * slope - xi)
        after = _energy(p, xi) - power * r
        gain = np.where(np.isfinite(after), energy - after, -DIVERGED)
    take = log_u < gain
    column = take[:, None]
    xi, f = np.where(column, xi, state.xi), np.where(column, f, state.f)
    return Particles(xi, f, np.where(take, r, state.r)), np.exp(np.minimum(gain, 0.0))


def _energy(p: Array, xi: Array) -> Array:
    return np.asarray(0.5 * np.einsum("ij,ij->i", p, p) + 0.5 * np.einsum("ij,ij->i", xi, xi))


@dataclass(frozen=True)
class LatentHMC(WhiteChains):
    """Settings of Hamiltonian Monte Carlo over the latent values.

    Parameters
    ----------
    around : {"ep", "variational", "laplace", "prior"} or Inference, optional
        The Gaussian whose coordinates are used; by default the best available for the likelihood.
    leapfrog : int, optional
        Leapfrog steps per trajectory; by default as many as make it π/2 long.
    acceptance : float
        Acceptance that the step size is adapted to in the warm-up.
    chains, warmup, draws, thin, evidence
        See :class:`~gpclass.inference.mcmc.ChainSettings`.
    """

    leapfrog: int | None = None
    acceptance: float = 0.8

    name: ClassVar[str] = "hmc"
    ways: ClassVar[tuple[Way, ...]] = (Way.needs("slope", "whitened covariance"), Way.needs("smear slope", "whitened"))
    limits: ClassVar = {"acceptance": SHARE}

    def infer(self, problem: Problem, rng: Generator, start: Start | None, gradient: bool) -> WhiteDraws:
        target = target_around(problem, self.around)
        epsilon = StepSize(0.2, self.acceptance)
        accepted: list[float] = []

        def length() -> int:
            return self.leapfrog or int(np.clip(round(QUARTER / epsilon.size), 1, MOST_STEPS))

        def step(state: Particles, rng: Generator, warming: bool) -> Particles:
            if not warming:
                epsilon.freeze()
            state, chance = hmc_step(target, state, rng, size=epsilon.size, leapfrog=length())
            if warming:
                epsilon.adapt(float(chance.mean()))
            else:
                accepted.append(float(chance.mean()))
            return state

        def transition(target: Target, state: Particles, rng: Generator, power: float) -> Particles:
            return hmc_step(target, state, rng, power, size=epsilon.size, leapfrog=length())[0]

        def details() -> dict[str, float]:
            rate = float(np.mean(accepted))
            return {"latent_acceptance": rate, "step_size": epsilon.size, "leapfrog": length()}

        return run_latent_chains(self, target, step, rng, start, transition=transition, details=details)

    def latent_step(self, target: Target, state: Particles, rng: Generator, size: float) -> Particles:
        return hmc_step(target, state, rng, size=size, leapfrog=self.leapfrog or 5)[0]
