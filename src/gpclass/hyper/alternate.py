r"""Latent values and kernel parameters in turn: Neal's method, interwoven.

An iteration moves f given θ by some steps of a latent sampler (elliptical slices, Hamiltonian dynamics, Gibbs scans),
then θ given the latents, in one or several of three parametrisations:

- given f: the target is N(f; 0, K(θ)) p(y|f) p(θ), Neal's own. f determines θ the more closely the more points
  there are, and K must have a factor, so chains mix slowly;
- given η, f = L(θ) η: the target is p(y|L(θ)η) p(θ). Good for weakly informative data, poor for strongly
  informative data;
- given ξ, f = m(θ) + A(θ) ξ, the coordinates of EP's (or another) Gaussian approximation at each θ
  (:mod:`gpclass.latent.whitened`): the target is exp r(f) p(θ), r(f) the log weight of a draw of that Gaussian. Were it
  the posterior, r would be the log evidence whatever ξ, and θ would move as if f were integrated out.

The third is the surrogate-data method with the approximation's sites as the surrogate data. Its moves are those of
pseudo-marginal (:mod:`gpclass.hyper.moves`), trajectories on a fit of the deterministic evidence, tested by the target
over the fit. Using several in turn (interweaving) is at least as good as the best one. Given f or η, θ moves by
random-walk Metropolis, whose covariance and step are adapted in the warm-up, or, given f, by Hamiltonian dynamics.
Cost: an iteration runs the approximation once, for a new θ, and factors K a few times: O(n³).
Fails when: given f or η alone, θ and f depend strongly on each other; given ξ, the Gaussian is far from the posterior.
Low effective sizes in the report say so; pseudo-marginal with ``exact`` integrates f out instead.
Reference: Neal (1999); Yu & Meng (2011) for interweaving; Murray & Adams (2010) for surrogate data.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from gpclass._settings import SHARE
from gpclass._typing import Array
from gpclass.hyper.chains import Record, Sampler, State
from gpclass.hyper.full_bayes import FullBayes, Sampling
from gpclass.hyper.moves import Moves, after, moves_for
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
from gpclass.inference.around import gaussians_for, guide_for, target_around
from gpclass.inference.base import Inference
from gpclass.inference.elliptical_slice import EllipticalSlice
from gpclass.inference.mcmc import Stepping
from gpclass.inference.particles import Particles
from gpclass.inference.posteriors import WhiteDraws
from gpclass.latent.coordinates import GivenLatents, Target
from gpclass.latent.sites import Start
from gpclass.model.problem import Problem
from gpclass.priors import PriorSet

ROUGH = 0.01  # tolerance of the sites behind the deterministic evidence
ROUGHER = 0.2  # and behind the Gaussian whose coordinates θ moves in: any function of θ leaves the chains exact
FEWEST_WARMUP, PER_PARAMETER, WALK_WARMUP = 40, 4, 200  # iterations of the warm-up, by default
WAYS = {"all": ("xi", "f", "eta"), "both": ("f", "eta"), "f": ("f",), "eta": ("eta",), "xi": ("xi",)}
TRAJECTORIES = 0.7  # acceptance that the step of Hamiltonian moves is adapted to


@dataclass(frozen=True)
class Alternate(FullBayes):
    """Settings of alternating latents and kernel parameters.

    Parameters
    ----------
    warmup : int, optional
        By default 4 per parameter, at least 40, and 200 for random walks alone.
    scans : int
        Latent steps per iteration.
    given : {"all", "xi", "both", "f", "eta"}
        What θ is updated given; see the module. "both" is f and η, "f" is Neal's. The reported acceptance is that of
        the first move of an iteration: given ξ for "all", given f for "both".
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
    warmup: int | None = None
    draws: int | None = None
    scans: int = 4
    given: str = "all"
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

    first_draws: ClassVar[int] = 250
    name: ClassVar[str] = "alternate"
    needs: ClassVar[str] = "steps"
    limits: ClassVar = {"given": tuple(WAYS), "move": ("metropolis", "hmc"), "acceptance": SHARE}

    @property
    def prior_needs(self) -> frozenset[str]:
        slope = ["latent_slope"] if self.move == "hmc" and "f" in WAYS[self.given] else []
        return frozenset(["whitened", "latents", *slope])

    @classmethod
    def neal(cls, **changes: Any) -> Alternate:
        """Neal's own: θ by Hamiltonian dynamics given f; with ``inference="gibbs"`` his scans of f too."""
        return cls(**{"draws": 500, "given": "f", "move": "hmc", **changes})

    @classmethod
    def brief(cls) -> Alternate:
        return cls(chains=2, warmup=2, draws=4, scans=1)

    def with_warmup(self, p: int) -> Alternate:
        """Itself with a length of the warm-up, by default that for p parameters."""
        length = max(FEWEST_WARMUP, PER_PARAMETER * p) if "xi" in WAYS[self.given] else WALK_WARMUP
        return replace(self, warmup=length) if self.warmup is None else self

    @property
    def dropped(self) -> int:
        return self.with_warmup(1).warmup or 0  # for few parameters, by default

    def sampling(self, problem: Problem, inference: Inference, prior: PriorSet) -> Sampling:
        """θ and f; a Gaussian inference means elliptical slices around it, its sites no more exact than ``ROUGHER``."""
        steps = inference if isinstance(inference, Stepping) else EllipticalSlice(around=inference)
        best = "ep" if "ep" in gaussians_for(problem.likelihood) else None
        approximation = guide_for(problem.likelihood, best)
        guide = LogDensity(problem, approximation.with_site_tol(max(approximation.site_tol, ROUGH)), prior)
        mode = find_mode(guide)
        guide = replace(guide, start=guide.inference(problem.at(mode.theta)).start)
        sampler = AlternateSampler(self.with_warmup(len(mode.theta)), guide, steps, mode)
        before = mode.evaluations + (sampler.moves.evaluations if sampler.has_surrogate else 0)
        return Sampling(sampler, steps, prior, WhiteDraws, before, has_evidence=False)


@dataclass(frozen=True, eq=False)
class Place:
    """What moves need at one θ, each computed when it is first asked for."""

    problem: Problem
    around: str | Inference | None
    start: Start | None

    @cached_property
    def target(self) -> Target:
        """Coordinates ξ."""
        return target_around(self.problem, self.around, tol=ROUGHER, start=self.start)

    @cached_property
    def given(self) -> GivenLatents:
        """Densities given f and η."""
        return self.problem.prior.given_latents()


class Recent:
    """The last few places by their θ: a chain asks for each again and again. Other processes begin with none."""

    SIZE = 4

    def __init__(self) -> None:
        self.found: dict[bytes, Place] = {}

    def __reduce__(self) -> tuple[type[Recent], tuple[()]]:
        return Recent, ()

    def get(self, theta: Array, make: Callable[[], Place]) -> Place:
        """The place of a θ, made if it is not there."""
        key = theta.tobytes()
        place = self.found.pop(key, None) or make()
        self.found[key] = place
        while len(self.found) > self.SIZE:
            del self.found[next(iter(self.found))]
        return place


@dataclass(frozen=True, eq=False)
class AlternateSampler(Sampler):
    """Latent steps, then θ."""

    settings: Alternate
    guide: LogDensity
    inference: Stepping
    mode: Mode
    recent: Recent = field(default_factory=Recent)

    @property
    def has_surrogate(self) -> bool:
        """Whether θ moves given ξ."""
        return "xi" in WAYS[self.settings.given]

    @cached_property
    def moves(self) -> Moves:
        """How θ is proposed given ξ."""
        return moves_for(self.guide, self.mode)

    def first(self, rng: np.random.Generator) -> State:
        """θ about the mode, f from the approximation there."""
        theta = scattered(self.mode, self.guide, rng)
        state = self.moves.first(theta) if self.has_surrogate else {"theta": theta}
        target = self._place(state["theta"]).target
        eta = target.prior_coordinates(rng.standard_normal((1, target.dimension)))[0]
        state |= {"eta": eta, **first_walk(self.mode)}
        # Each parametrisation has a separate step size: their scales differ.
        return {**state, "log_scale_f": state["log_scale"] - 1.0, "log_scale_eta": state["log_scale"]}

    def step(self, state: State, rng: np.random.Generator, iteration: int) -> tuple[State, Record]:
        if iteration < (self.settings.warmup or 0):
            return self._adapting(state, rng, iteration)
        first, *others = WAYS[self.settings.given]
        state, _, accepted = self._moved(self._latent(state, self._around(state["theta"]), rng), first, rng)
        for given in others:
            state = self._moved(state, given, rng)[0]
        latent_prior = self._place(state["theta"]).given
        f = latent_prior.latents(state["eta"])
        value = latent_prior.log_likelihood(f) + self.guide.log_prior(state["theta"])
        state = {**state, "value": np.asarray(value), "log_z": np.asarray(np.nan)}
        if self.keeps_vectors(iteration):
            state["vectors"] = self._spread(state, rng)
        kept = f if self.keeps_latents(iteration) else None
        return state, self.record(state, kept, float(accepted), iteration)

    def _adapting(self, state: State, rng: np.random.Generator, iteration: int) -> tuple[State, Record]:
        """A warm-up iteration: given ξ, θ moves on the deterministic evidence alone."""
        settings, first = self.settings, None
        if self.has_surrogate:
            xi = self._place(state["theta"]).target.from_prior_coordinates(state["eta"][None], rng)
            state, first = self.moves.adapting(state, rng, iteration)
            state = {**state, "eta": self._place(state["theta"]).target.prior_coordinates(xi)[0]}
        state = self._latent(state, self._around(state["theta"]), rng)
        for given in (one for one in WAYS[settings.given] if one != "xi"):
            moved, chance, accepted = self._moved(state, given, rng)
            wanted = TRAJECTORIES if given == "f" and settings.move == "hmc" else settings.acceptance
            scale = state[f"log_scale_{given}"] + (iteration + 1.0) ** -0.6 * (chance - wanted)
            # The deterministic evidence belongs to the θ that its own moves have left.
            state = {**(state if self.has_surrogate else moved), f"log_scale_{given}": np.asarray(scale)}
            first = float(accepted) if first is None else first
        return {**state, **adapted(state, settings.acceptance, settings.acceptance, iteration)}, {
            "accepted": np.asarray(first)
        }

    def pool(self, states: list[State]) -> list[State]:
        shared = pooled(states)
        for name in ("log_scale_f", "log_scale_eta"):
            shared[name] = np.mean([state[name] for state in states], axis=0)
        if self.has_surrogate:
            shared |= self.moves.pool(states)
        return [{**state, **shared} for state in states]

    def _place(self, theta: Array) -> Place:
        """What belongs to θ; ξ are the coordinates of the latent steps, or of the best Gaussian if those are η."""
        around = None if self.inference.moved_around == "prior" else self.inference.moved_around
        return self.recent.get(theta, lambda: Place(self.guide.problem.at(theta), around, self.guide.start))

    def _around(self, theta: Array) -> Target:
        """Coordinates for the latent steps. Valid around any Gaussian that depends on θ alone: a rough one suffices."""
        place = self._place(theta)
        return target_around(place.problem, "prior") if self.inference.moved_around == "prior" else place.target

    def _latent(self, state: State, target: Target, rng: np.random.Generator) -> State:
        """Some steps of f given θ."""
        particles = Particles.at(target, target.from_prior_coordinates(state["eta"][None], rng))
        settings = self.settings
        particles = self.inference.latent_steps(target, particles, rng, settings.latent_step, settings.scans)
        return {**state, "eta": target.prior_coordinates(particles.xi)[0]}

    def _spread(self, state: State, rng: np.random.Generator) -> Array:
        """Vectors for the mixture: the state, and further latent draws at the same θ, not part of the chain."""
        vectors, side, target = [state["eta"]], state, self._around(state["theta"])
        for _ in range(self.settings.vectors - 1):
            side = self._latent(side, target, rng)
            vectors.append(side["eta"])
        return np.stack(vectors)

    def _moved(self, state: State, given: str, rng: np.random.Generator) -> tuple[State, float, bool]:
        """θ moved in one parametrisation, the chance that the move had, and whether it was accepted."""
        if given == "xi":
            return self._by_surrogate(state, rng)
        dynamics = given == "f" and self.settings.move == "hmc"
        return (self._by_hmc if dynamics else self._by_walk)(state, given, rng)

    def _by_surrogate(self, state: State, rng: np.random.Generator) -> tuple[State, float, bool]:
        """A corrected move of θ given ξ."""
        theta, (proposal, rise, evaluations) = state["theta"], self.moves.propose(state, rng)
        state, log_u = after(state, evaluations), np.log(rng.random())
        log_prior = self.guide.log_prior(proposal)
        if np.array_equal(proposal, theta) or log_prior == -np.inf:
            return state, 0.0, False
        here, state = self._place(theta).target, after(state, 1)
        xi = here.from_prior_coordinates(state["eta"][None], rng)
        try:
            there = self._place(proposal).target
        except ValueError:
            return state, 0.0, False
        gain = _log_weight(there, xi) + log_prior - _log_weight(here, xi) - self.guide.log_prior(theta) - rise
        if not gain >= log_u:
            return state, float(np.exp(min(gain, 0.0))), False
        return {**state, "theta": proposal, "eta": there.prior_coordinates(xi)[0]}, float(np.exp(min(gain, 0.0))), True

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
        eta = self._place(theta).given.white(f)
        return {**state, "theta": theta, "eta": eta}, chance, True

    def _latents(self, state: State) -> Array:
        return self._place(state["theta"]).given.latents(state["eta"])

    def _target(self, theta: Array, eta: Array, f: Array, given: str) -> tuple[float, Array] | None:
        """Log density of θ given f or η, and η there; None outside the bounds."""
        log_prior = self.guide.log_prior(theta)
        if log_prior == -np.inf:
            return None
        try:
            latent_prior = self._place(theta).given
        except ValueError:
            return None
        if given == "eta":
            return log_prior + latent_prior.log_likelihood(latent_prior.latents(eta)), eta
        white = latent_prior.white(f)
        return log_prior + latent_prior.log_density(white) + latent_prior.log_likelihood(f), white


def _log_weight(target: Target, xi: Array) -> float:
    """Log weight of one draw ξ (1, k)."""
    return float(target.log_ratio(target.latents(xi))[0])


def centred(density: LogDensity, theta: Array, f: Array) -> tuple[float, Array]:
    """Log N(f; 0, K(θ)) + log p(y|f) + log p(θ) and its gradient in θ; −inf if there is none."""
    log_prior = density.log_prior(theta)
    if log_prior == -np.inf:
        return -np.inf, np.zeros_like(theta)
    latent_prior = density.problem.at(theta).prior.given_latents()
    white = latent_prior.white(f)
    total = latent_prior.log_density(white) + log_prior + latent_prior.log_likelihood(f)
    return total, np.asarray(latent_prior.slope(f, white) + density.prior.gradient(theta))
