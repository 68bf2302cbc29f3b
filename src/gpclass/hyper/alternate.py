r"""Latent values and kernel parameters in turn: Neal's method.

An iteration moves f given θ by some steps of a latent sampler (elliptical slices or Hamiltonian dynamics),
then θ given the latents, in one or both of two parametrisations:

- given f: the target is N(f; 0, K(θ)) p(y|f) p(θ), Neal's own. f determines θ the more closely the more points
  there are, and K must have a factor, so chains mix slowly;
- given η, f = L(θ) η: the target is p(y|L(θ)η) p(θ). Good for weakly informative data, poor for strongly
  informative data.

Using both in turn (interweaving) is at least as good as the better one. θ moves by random-walk Metropolis,
whose covariance and step are adapted in the warm-up, or, given f, by Hamiltonian dynamics.
Cost: an iteration factors K a few times, and once more for the sampler's coordinates: O(n³).
Fails when: θ and f depend strongly on each other: low effective sizes in the report.
Pseudo-marginal with ``exact`` integrates f out instead.
Reference: Neal (1999); Yu & Meng (2011) for interweaving; Murray & Adams (2010).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gpclass._settings import SHARE
from gpclass._typing import Array
from gpclass.hyper.chains import Record, Sampler, State
from gpclass.hyper.full_bayes import FullBayes, Sampling
from gpclass.hyper.proposal import (
    LogDensity,
    Mode,
    adapted,
    find_mode,
    first_walk,
    leapfrog,
    pooled,
    scattered,
    walk,
)
from gpclass.inference.around import guide_for, target_around
from gpclass.inference.base import Inference
from gpclass.inference.elliptical_slice import EllipticalSlice
from gpclass.inference.mcmc import WhiteChains
from gpclass.inference.particles import Particles
from gpclass.inference.posteriors import WhiteDraws
from gpclass.latent.coordinates import Target
from gpclass.model.problem import Problem
from gpclass.priors import PriorSet

ROUGH = 0.01  # tolerance of the Gaussian that latent steps are taken around
TRAJECTORIES = 0.7  # acceptance that the step of Hamiltonian moves is adapted to


@dataclass(frozen=True)
class Alternate(FullBayes):
    """Settings of alternating latents and kernel parameters.

    Parameters
    ----------
    scans : int
        Latent steps per iteration.
    given : {"both", "f", "eta"}
        What θ is updated given; see the module. "f" is Neal's.
    move : {"metropolis", "hmc"}
        How θ moves given f. Given η it is always Metropolis.
    acceptance : float
        Target acceptance of Metropolis steps in the warm-up.
    leapfrog, step_size
        Of Hamiltonian moves given f, in the coordinates of the mode.
    latent_step : float
        Step size of a Hamiltonian latent sampler, in its whitened coordinates.
    vectors : int
        Latent draws for each of the ``keep`` draws of θ.
    """

    chains: int = 4
    warmup: int = 200
    draws: int | None = None
    scans: int = 4
    given: str = "both"
    move: str = "metropolis"
    acceptance: float = 0.3
    leapfrog: int = 5
    step_size: float = 0.2
    latent_step: float = 0.3
    keep: int = 200
    vectors: int = 4
    default_priors: str = "weak"
    pointwise: bool = False
    checkpoint: str | os.PathLike[str] | None = None

    first_draws: ClassVar[int] = 500
    name: ClassVar[str] = "alternate"
    needs: ClassVar[str] = "steps"
    limits: ClassVar = {"given": ("both", "f", "eta"), "move": ("metropolis", "hmc"), "acceptance": SHARE}

    @property
    def prior_needs(self) -> frozenset[str]:
        slope = ["latent_slope"] if self.move == "hmc" and self.given != "eta" else []
        return frozenset(["whitened", "latents", *slope])

    @classmethod
    def neal(cls, **changes: Any) -> Alternate:
        """Neal's own: θ by Hamiltonian dynamics given f."""
        return cls(**{"draws": 500, "given": "f", "move": "hmc", **changes})

    @classmethod
    def brief(cls) -> Alternate:
        return cls(chains=2, warmup=2, draws=4, scans=1)

    def sampling(self, problem: Problem, inference: Inference, prior: PriorSet) -> Sampling:
        """θ and f; a Gaussian inference means elliptical slices around it, its sites no more exact than ``ROUGH``."""
        moves = inference if isinstance(inference, WhiteChains) else EllipticalSlice(around=inference)
        guide = LogDensity(problem, guide_for(problem.likelihood), prior)
        mode = find_mode(guide)
        sampler = AlternateSampler(self, guide, moves, mode)
        return Sampling(sampler, moves, prior, WhiteDraws, mode.evaluations, has_evidence=False)


@dataclass(frozen=True, eq=False)
class AlternateSampler(Sampler):
    """Latent steps, then θ."""

    settings: Alternate
    guide: LogDensity
    inference: WhiteChains
    mode: Mode

    def first(self, rng: np.random.Generator) -> State:
        """θ about the mode, f from Laplace's Gaussian there."""
        theta = scattered(self.mode, self.guide, rng)
        target = target_around(self.guide.problem.at(theta), self.guide.inference.name)
        eta = target.prior_coordinates(rng.standard_normal((1, target.dimension)))[0]
        state = {"theta": theta, "eta": eta, **first_walk(self.mode)}
        # Each parametrisation has a separate step size: their scales differ.
        return {**state, "log_scale_f": state["log_scale"] - 1.0, "log_scale_eta": state["log_scale"]}

    def step(self, state: State, rng: np.random.Generator, iteration: int) -> tuple[State, Record]:
        settings = self.settings
        target = self._around(state["theta"])
        before, state = state["theta"], self._latent(state, target, rng)
        chances = []
        for given in ("f", "eta") if settings.given == "both" else (settings.given,):
            dynamics = given == "f" and settings.move == "hmc"
            state, chance, accepted = (self._by_hmc if dynamics else self._by_walk)(state, given, rng)
            chances.append(float(accepted))
            if iteration < settings.warmup:
                wanted = TRAJECTORIES if dynamics else settings.acceptance
                scale = state[f"log_scale_{given}"] + (iteration + 1.0) ** -0.6 * (chance - wanted)
                state = {**state, f"log_scale_{given}": np.asarray(scale)}
        if iteration < settings.warmup:
            new = adapted(state, settings.acceptance, settings.acceptance, iteration)
            return {**state, **new}, {"accepted": np.asarray(np.mean(chances))}
        latent_prior = self.guide.problem.at(state["theta"]).prior.given_latents()
        f = latent_prior.latents(state["eta"])
        value = latent_prior.log_likelihood(f) + self.guide.log_prior(state["theta"])
        state = {**state, "value": np.asarray(value), "log_z": np.asarray(np.nan)}
        if self.keeps_vectors(iteration):
            state["vectors"] = self._spread(state, target if state["theta"] is before else None, rng)
        kept = f if self.keeps_latents(iteration) else None
        return state, self.record(state, kept, float(np.mean(chances)), iteration)

    def pool(self, states: list[State]) -> list[State]:
        shared = pooled(states)
        for name in ("log_scale_f", "log_scale_eta"):
            shared[name] = np.mean([state[name] for state in states], axis=0)
        return [{**state, **shared} for state in states]

    def _around(self, theta: Array) -> Target:
        """Coordinates for the latent steps. Valid around any Gaussian that depends on θ alone: a rough one suffices."""
        return target_around(self.guide.problem.at(theta), self.inference.around, tol=ROUGH)

    def _latent(self, state: State, target: Target, rng: np.random.Generator) -> State:
        """Some steps of f given θ."""
        particles = Particles.at(target, target.from_prior_coordinates(state["eta"][None], rng))
        for _ in range(self.settings.scans):
            particles = self.inference.latent_step(target, particles, rng, self.settings.latent_step)
        return {**state, "eta": target.prior_coordinates(particles.xi)[0]}

    def _spread(self, state: State, target: Target | None, rng: np.random.Generator) -> Array:
        """Vectors for the mixture: the state, and further latent draws at the same θ, not part of the chain."""
        vectors, side = [state["eta"]], state
        target = self._around(state["theta"]) if target is None else target
        for _ in range(self.settings.vectors - 1):
            side = self._latent(side, target, rng)
            vectors.append(side["eta"])
        return np.stack(vectors)

    def _by_walk(self, state: State, given: str, rng: np.random.Generator) -> tuple[State, float, bool]:
        """Random-walk Metropolis on θ given f or η."""
        proposal = walk({**state, "log_scale": state[f"log_scale_{given}"]}, rng)
        log_u = np.log(rng.random())
        here = self._latents(state)
        now = self._target(state["theta"], state["eta"], here, given)
        then = self._target(proposal, state["eta"], here, given)
        if now is None or then is None:
            return state, 0.0, False
        gain = then[0] - now[0]
        chance = float(np.exp(min(gain, 0.0)))
        if not gain >= log_u:
            return state, chance, False
        return {**state, "theta": proposal, "eta": then[1]}, chance, True

    def _by_hmc(self, state: State, given: str, rng: np.random.Generator) -> tuple[State, float, bool]:
        """A trajectory of θ given f, in the coordinates of the mode."""
        f = self._latents(state)
        size = self.settings.step_size * float(np.exp(state["log_scale_f"]))
        here = state["theta"], *centred(self.guide, state["theta"], f)
        R = np.asarray(np.linalg.cholesky(state["covariance"]), dtype=float)
        (theta, _, _), chance, accepted = leapfrog(
            here, R, size, self.settings.leapfrog, lambda theta: centred(self.guide, theta, f), rng
        )
        if not accepted:
            return state, chance, False
        eta = self.guide.problem.at(theta).prior.given_latents().white(f)
        return {**state, "theta": theta, "eta": eta}, chance, True

    def _latents(self, state: State) -> Array:
        return self.guide.problem.at(state["theta"]).prior.given_latents().latents(state["eta"])

    def _target(self, theta: Array, eta: Array, f: Array, given: str) -> tuple[float, Array] | None:
        """Log density of θ given f or η, and η there; None outside the bounds."""
        log_prior = self.guide.log_prior(theta)
        if log_prior == -np.inf:
            return None
        try:
            latent_prior = self.guide.problem.at(theta).prior.given_latents()
        except ValueError:
            return None
        if given == "eta":
            return log_prior + latent_prior.log_likelihood(latent_prior.latents(eta)), eta
        white = latent_prior.white(f)
        return log_prior + latent_prior.log_density(white) + latent_prior.log_likelihood(f), white


def centred(density: LogDensity, theta: Array, f: Array) -> tuple[float, Array]:
    """Log N(f; 0, K(θ)) + log p(y|f) + log p(θ) and its gradient in θ; −inf if there is none."""
    log_prior = density.log_prior(theta)
    if log_prior == -np.inf:
        return -np.inf, np.zeros_like(theta)
    latent_prior = density.problem.at(theta).prior.given_latents()
    white = latent_prior.white(f)
    total = latent_prior.log_density(white) + log_prior + latent_prior.log_likelihood(f)
    return total, np.asarray(latent_prior.slope(f, white) + density.prior.gradient(theta))
