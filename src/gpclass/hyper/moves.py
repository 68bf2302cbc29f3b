r"""How chains over θ propose: a random walk, or Hamiltonian trajectories on a deterministic evidence or on a fit of it.

A move leaves some log density g(θ), its *aim*, invariant and is reversible under it: a constant for the random walk,
the deterministic log posterior for trajectories on it, the fitted one for trajectories on the fit. The sampler accepts
the end of the move with the ratio of the true density to exp g (Christen & Fox 2005; Liu 2001), so that the chain is
exact for any aim; the closer the aim, the fewer moves are rejected. Everything that moves use is tuned in the warm-up
on the deterministic evidence alone, and fixed then. That evidence is a function of θ alone: its sites start from the
same place at every θ.

- ``Walk``: steps of a Gaussian whose covariance and size adapt. It needs no gradient.
- ``Trajectories``: one trajectory of length π/2 in the coordinates of the mode, on the evidence itself.
- ``Fitted``: the same on a fit of the evidence (:mod:`gpclass.hyper.surface`), which costs nothing, so that four
  trajectories nearly forget where they began. Each warm-up iteration evaluates the evidence at the end of a move and
  adds value and gradient to the points of the fit. If the warm-up rejects some moves, a few are short afterwards: where
  the fit is too low, its error is nearly the same at both ends of a short move, and cancels, so that the chain leaves.

Reference: Neal (2011); Rasmussen (2003); Andrieu & Thoms (2008).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from gpclass._typing import Array
from gpclass.hyper.chains import State
from gpclass.hyper.proposal import LogDensity, Mode, adapted, first_walk, leapfrog, pooled, walk
from gpclass.hyper.surface import Surface, fit_surface
from gpclass.inference.hmc import QUARTER
from gpclass.numerics.linalg import cholesky

Evaluate: TypeAlias = "Callable[[Array], tuple[float, Array]]"
MOST_STEPS = 20  # leapfrog steps of a trajectory
FIRST_SIZE = 0.35  # of a leapfrog step, in the coordinates of the mode
WANTED = 0.9  # acceptance of trajectories on their own density
REPEATS = 4  # trajectories per move, on a fit, where they cost nothing
SHORT, MOST_SHORT = 0.3, 0.1  # length of a short move, and the largest share of these, on a fit
MEMORY = 0.1  # of an iteration in the mean acceptance of the warm-up
EXPLORED = 300  # trajectories on the fit that give its mean and covariance
GROWTH = 1.15  # of the number of points, in the warm-up, from one fit to the next
MOST_FITTED = 20  # parameters up to which an evidence is fitted


class Moves(ABC):
    """Reversible moves of θ, and their warm-up; what changes is in a chain's state."""

    @property
    def evaluations(self) -> int:
        """Evidences computed before the chains begin."""
        return 0

    @abstractmethod
    def first(self, theta: Array) -> State:
        """The part of a chain's first state that moves use, with its ``theta`` and log density ``value``.

        Its ``evaluations`` are the evidences that the chain has computed.
        """

    @abstractmethod
    def adapting(self, state: State, rng: np.random.Generator, k: int) -> tuple[State, float]:
        """Warm-up iteration k on the deterministic evidence; the new state, and how far the move was accepted."""

    @abstractmethod
    def pool(self, states: list[State]) -> State:
        """What all chains share from the end of the warm-up on."""

    @abstractmethod
    def propose(self, state: State, rng: np.random.Generator) -> tuple[Array, float, int]:
        """The end of a move from the state's θ, how far the aim rises on it, and the evidences that were computed."""


@dataclass(frozen=True, eq=False)
class Walk(Moves):
    """A random walk."""

    guide: LogDensity
    mode: Mode
    acceptance: float

    def first(self, theta: Array) -> State:
        value = self.guide.log_evidence(theta) + self.guide.log_prior(theta)
        return {"theta": theta, "value": np.asarray(value), "evaluations": np.asarray(1), **first_walk(self.mode)}

    def adapting(self, state: State, rng: np.random.Generator, k: int) -> tuple[State, float]:
        proposal, log_u = walk(state, rng), np.log(rng.random())
        value = self.guide.log_prior(proposal)
        if value > -np.inf:
            value, state = value + self.guide.log_evidence(proposal), after(state, 1)
        gain = value - float(state["value"])
        if gain >= log_u:
            state = {**state, "theta": proposal, "value": np.asarray(value)}
        chance = float(np.exp(min(gain, 0.0))) if np.isfinite(value) else 0.0
        return {**state, **adapted(state, chance, self.acceptance, k)}, float(gain >= log_u)

    def pool(self, states: list[State]) -> State:
        return pooled(states)

    def propose(self, state: State, rng: np.random.Generator) -> tuple[Array, float, int]:
        return walk(state, rng), 0.0, 0


@dataclass(frozen=True, eq=False)
class Trajectories(Moves):
    """Hamiltonian trajectories on the deterministic evidence."""

    guide: LogDensity
    mode: Mode

    def first(self, theta: Array) -> State:
        evaluate = Counted(self._evidence)
        value, slope = evaluate(theta)
        if value == -np.inf:
            theta = self.mode.theta
            value, slope = evaluate(theta)
        if value == -np.inf:
            raise ValueError("the evidence is not finite at the chains' starting points; give other priors")
        state = {"theta": theta, "value": np.asarray(value), "slope": slope, "log_size": np.asarray(np.log(FIRST_SIZE))}
        return after(state, evaluate.calls)

    def adapting(self, state: State, rng: np.random.Generator, k: int) -> tuple[State, float]:
        here, evaluate = (state["theta"], float(state["value"]), state["slope"]), Counted(self._evidence)
        (theta, value, slope), chance = self._moved(state, here, evaluate, 1, rng)
        state = {**after(state, evaluate.calls), "theta": theta, "value": np.asarray(value), "slope": slope}
        return {**state, "log_size": _sized(state["log_size"], chance, k)}, chance

    def pool(self, states: list[State]) -> State:
        return {"log_size": np.mean([state["log_size"] for state in states], axis=0)}

    def propose(self, state: State, rng: np.random.Generator) -> tuple[Array, float, int]:
        evaluate = Counted(self._evidence)
        here = state["theta"], *evaluate(state["theta"])
        (theta, value, _), _ = self._moved(state, here, evaluate, 1, rng)
        return theta, value - here[1], evaluate.calls

    def _evidence(self, theta: Array) -> tuple[float, Array]:
        """The deterministic log density and its gradient; the same at every visit of θ."""
        return self.guide.value_and_slope(theta, self.guide.start)[:2]

    def _root(self, state: State) -> Array:
        """Coordinates of the trajectories."""
        return cholesky(self.mode.covariance)

    def _moved(
        self,
        state: State,
        here: tuple[Array, float, Array],
        evaluate: Evaluate,
        repeats: int,
        rng: np.random.Generator,
        length: float = QUARTER,
    ) -> tuple[tuple[Array, float, Array], float]:
        """The end of some trajectories, each accepted under the density itself, and the mean chance of acceptance."""
        size, R, chances = min(float(np.exp(state["log_size"])), length), self._root(state), []
        steps = int(np.clip(round(length / size), 1, MOST_STEPS))
        for _ in range(repeats):
            end, chance, accepted = leapfrog(here, R, size, steps, evaluate, rng)
            here = end if accepted else here
            chances.append(chance)
        return here, float(np.mean(chances))


@dataclass(frozen=True, eq=False)
class Fitted(Trajectories):
    """Hamiltonian trajectories on a fit of the deterministic evidence."""

    design: Array  # (N, 2p + 1), the first points: θ, log evidence and its gradient

    @property
    def evaluations(self) -> int:
        return len(self.design)

    @classmethod
    def around(cls, guide: LogDensity, mode: Mode) -> Fitted:
        """With a first design at the mode, and a standard deviation from it along every axis."""
        root, bare = cholesky(mode.covariance), Trajectories(guide, mode)
        at = [mode.theta, *(mode.theta + sign * step for step in root.T for sign in (-1.0, 1.0))]
        found = [(theta, *bare._evidence(theta)) for theta in at]
        return cls(guide, mode, np.stack([_seen(guide, *one) for one in found if one[1] > -np.inf]))

    def first(self, theta: Array) -> State:
        state = super().first(theta)
        new = _seen(self.guide, state["theta"], float(state["value"]), state["slope"])
        root = cholesky(self.mode.covariance)
        return {**state, "seen": new[None], "surface_root": root, "passed": np.asarray(1.0)}

    def adapting(self, state: State, rng: np.random.Generator, k: int) -> tuple[State, float]:
        state = self._refitted(state)
        evaluate = self._fitted(Surface.of(state))
        here = state["theta"], *evaluate(state["theta"])
        (theta, aim, _), chance = self._moved(state, here, evaluate, REPEATS, rng)
        state = {**after(state, 1), "log_size": _sized(state["log_size"], chance, k)}
        value, slope = self._evidence(theta)
        if value == -np.inf:
            return {**state, "passed": (1.0 - MEMORY) * state["passed"]}, 0.0
        seen = np.vstack([state["seen"], _seen(self.guide, theta, value, slope)])
        gain, state = (value - aim) - (float(state["value"]) - here[1]), {**state, "seen": seen}
        if gain >= np.log(rng.random()):
            state = {**state, "theta": theta, "value": np.asarray(value), "slope": slope}
        chance = float(np.exp(min(gain, 0.0)))
        return {**state, "passed": state["passed"] + MEMORY * (chance - state["passed"])}, chance

    def _refitted(self, state: State) -> State:
        """The state with a fit to the points so far, a new one if they have become many more."""
        points = len(self.design) + len(state["seen"])
        if points < GROWTH * float(state.get("fitted", 0.0)):
            return state
        surface = self._fit(state["seen"], self.mode.theta, self.mode.covariance)
        return {**state, **surface.state(), "fitted": np.asarray(float(points))}

    def pool(self, states: list[State]) -> State:
        """One fit of what all chains have seen, in the coordinates of its own mean and covariance."""
        seen = np.vstack([state["seen"] for state in states])
        shared = super().pool(states)
        rng, centre, covariance = np.random.default_rng(0), self.mode.theta, self.mode.covariance
        here = states[0]["theta"]
        for _ in range(2):
            surface = self._fit(seen, centre, covariance)
            evaluate, draws = self._fitted(surface), []
            state = {**surface.state(), **shared}
            for k in range(EXPLORED):
                (here, _, _), chance = self._moved(state, (here, *evaluate(here)), evaluate, 1, rng)
                state["log_size"] = _sized(state["log_size"], chance, k)
                draws.append(here)
            shared = {"log_size": state["log_size"]}
            centre, covariance = np.mean(draws, axis=0), np.atleast_2d(np.cov(np.array(draws).T))
            covariance = covariance + 1e-6 * np.eye(len(centre))
        rejected = 1.0 - np.mean([state["passed"] for state in states])
        kept = {"seen": seen[:0], "slope": np.empty(0)}  # of no more use
        return {**shared, **surface.state(), **kept, "short": np.asarray(min(rejected, MOST_SHORT))}

    def propose(self, state: State, rng: np.random.Generator) -> tuple[Array, float, int]:
        evaluate = self._fitted(Surface.of(state))
        here = state["theta"], *evaluate(state["theta"])
        far = rng.random() >= float(state["short"])
        (theta, value, _), _ = self._moved(state, here, evaluate, REPEATS if far else 1, rng, QUARTER if far else SHORT)
        return theta, value - here[1], 0

    def _root(self, state: State) -> Array:
        return state["surface_root"]

    def _fit(self, seen: Array, centre: Array, covariance: Array) -> Surface:
        return fit_surface(centre, covariance, np.vstack([self.design, seen]))

    def _fitted(self, surface: Surface) -> Evaluate:
        """The fitted log density and its gradient."""
        guide = self.guide

        def evaluate(theta: Array) -> tuple[float, Array]:
            log_prior = guide.log_prior(theta)
            if log_prior == -np.inf:
                return -np.inf, np.zeros_like(theta)
            value, slope = surface.value_and_slope(theta)
            return value + log_prior, slope + guide.prior.gradient(theta)

        return evaluate


class Counted:
    """A function that counts its calls."""

    def __init__(self, evaluate: Evaluate) -> None:
        self.evaluate, self.calls = evaluate, 0

    def __call__(self, theta: Array) -> tuple[float, Array]:
        self.calls += 1
        return self.evaluate(theta)


def after(state: State, evaluations: int) -> State:
    """The state with so many more evidences computed."""
    return {**state, "evaluations": state.get("evaluations", np.asarray(0)) + evaluations}


def moves_for(guide: LogDensity, mode: Mode, proposal: str | None = None, acceptance: float = 0.25) -> Moves:
    """The moves that are asked for; by default the first that the guide's gradient and the size of θ allow."""
    if proposal == "walk" or guide.inference.why_no_gradient(guide.problem.likelihood):
        return Walk(guide, mode, acceptance)
    few = len(mode.theta) <= MOST_FITTED
    if proposal == "hmc" or (proposal is None and not few):
        return Trajectories(guide, mode)
    return Fitted.around(guide, mode)


def _seen(guide: LogDensity, theta: Array, value: float, slope: Array) -> Array:
    """A point with its log evidence and the gradient of that, (2p + 1,), from log density and gradient."""
    return np.concatenate([theta, [value - guide.log_prior(theta)], slope - guide.prior.gradient(theta)])


def _sized(log_size: Array, chance: float, k: int) -> Array:
    """The step size after an iteration, by stochastic approximation."""
    return np.asarray(min(log_size + (k + 2.0) ** -0.6 * (chance - WANTED), np.log(QUARTER)))
