r"""Hamiltonian Monte Carlo over kernel parameters with the gradient of an approximate evidence.

The log density is log q(y|θ) + log p(θ), q Laplace's or EP's evidence, θ in logs. θ = θ₀ + R φ, R Rᵀ the covariance of
the Gaussian at the mode θ₀ (or R = I), makes φ nearly isotropic; a trajectory is ``leapfrog`` steps of size ε, jittered
by ±20 %, and a Metropolis test. ε is adapted in the warm-up and then fixed, the same for all chains. Outside the
kernel's bounds the density is zero. Latent values given θ are those of the Gaussian approximation.
Cost: ``leapfrog`` evidences with gradient per iteration, each started from the last one of its trajectory.
Fails when: the approximation's evidence is poor (large kernel variance with Laplace): what is sampled is its
posterior, not the exact one. Use pseudo-marginal to be exact.
Reference: Williams & Barber (1998), §3 and appendix; Neal (2011).
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
from gpclass.hyper.mixture import latent_draw
from gpclass.hyper.proposal import LogDensity, Mode, find_mode, leapfrog, scattered
from gpclass.inference.base import Inference
from gpclass.inference.hmc import QUARTER, StepSize
from gpclass.inference.posteriors import GaussianPosterior
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import cholesky
from gpclass.posterior import Posterior
from gpclass.priors import PriorSet

MOST_STEPS = 20  # leapfrog steps, if their number follows from the step size


@dataclass(frozen=True)
class HMC(FullBayes):
    """Settings of Hamiltonian Monte Carlo over kernel parameters.

    Parameters
    ----------
    leapfrog : int, optional
        Leapfrog steps per trajectory; by default as many as make it π/2 long, at most 20.
    step_size : float
        The first step size, in the coordinates of the mode (or in log parameters).
    acceptance : float, optional
        Target acceptance of the warm-up; None keeps the first step size.
    precondition : bool
        Use the covariance at the mode for coordinates; else log parameters.
    start : {"mode", "kernel"}
        Chains start scattered about the mode, or all at the kernel's parameters.
    """

    chains: int = 4
    warmup: int = 50
    draws: int | None = None
    leapfrog: int | None = None
    step_size: float = 0.3
    acceptance: float | None = 0.8
    precondition: bool = True
    start: str = "mode"
    keep: int = 200
    default_priors: str = "weak"
    pointwise: bool = False
    checkpoint: str | os.PathLike[str] | None = None

    first_draws: ClassVar[int] = 150
    name: ClassVar[str] = "hmc"
    needs: ClassVar[str] = "gaussian"
    limits: ClassVar = {"acceptance": SHARE, "start": ("mode", "kernel")}

    @classmethod
    def williams_barber(cls, **changes: Any) -> HMC:
        """The paper's settings: one chain, 200 iterations of 20 leapfrog steps, the first third dropped.

        The step size, 0.1 in log parameters at first, is adapted to fewer than 5 % rejections; priors are the
        paper's; the chain starts at the kernel's parameters (:func:`gpclass.kernels.williams_barber`).
        """
        lengths: dict[str, Any] = {"chains": 1, "warmup": 67, "draws": 133, "leapfrog": 20, "step_size": 0.1}
        start = {"start": "kernel", "precondition": False, "default_priors": "williams-barber"}
        return cls(**{**lengths, **start, "acceptance": 0.95, **changes})

    @classmethod
    def brief(cls) -> HMC:
        return cls(chains=2, warmup=2, draws=4, leapfrog=2, start="kernel", precondition=False)

    @property
    def keeps_start(self) -> bool:
        return self.start == "kernel"

    def sampling(self, problem: Problem, inference: Inference, prior: PriorSet) -> Sampling:
        """θ alone; latent values are those of the Gaussian given θ."""
        density = LogDensity(problem, inference, prior)
        climbs = self.precondition or self.start == "mode"
        mode = find_mode(density) if climbs else Mode(problem.theta, np.eye(len(problem.theta)), 0)
        of = inference.posterior_type(problem)
        return Sampling(HMCSampler(self, density, mode, of), inference, prior, of, mode.evaluations)


@dataclass(frozen=True, eq=False)
class HMCSampler(Sampler):
    """Trajectories in φ, θ = θ₀ + R φ."""

    settings: HMC
    density: LogDensity
    mode: Mode
    of: type[Posterior] = GaussianPosterior  # what the kept vectors represent

    @property
    def root(self) -> Array:
        """R, (p, p)."""
        p = len(self.mode.theta)
        return cholesky(self.mode.covariance) if self.settings.precondition else np.eye(p)

    def first(self, rng: np.random.Generator) -> State:
        """About the mode, or at the kernel's parameters."""
        scatter = self.settings.start == "mode"
        theta = scattered(self.mode, self.density, rng) if scatter else self.density.problem.theta
        value, slope, posterior = self.density.value_and_slope(theta)
        if posterior is None:
            theta = self.mode.theta
            value, slope, posterior = self.density.value_and_slope(theta)
        if posterior is None:
            raise ValueError("the evidence is not finite at the chains' starting points; give other priors")
        size = StepSize(self.settings.step_size, self.settings.acceptance or 0.8)
        found = _found(theta, value, slope, posterior, rng)
        return {**found, "evaluations": np.asarray(1), **_dual(size)}

    def step(self, state: State, rng: np.random.Generator, iteration: int) -> tuple[State, Record]:
        moved, chance, accepted = self._trajectory(state, rng)
        if iteration >= self.settings.warmup:
            f = None
            if self.keeps_latents(iteration):
                f = latent_draw(self.density.problem.at(moved["theta"]), self.of, moved["vectors"], rng)
            return moved, self.record(moved, f, accepted, iteration)
        if self.settings.acceptance is not None:
            size = StepSize(float(state["size"]), self.settings.acceptance)
            size.steps, size.slack = int(state["steps"]), float(state["slack"])
            size.log_mean, size.anchor = float(state["log_mean"]), float(state["anchor"])
            size.adapt(chance)
            moved |= _dual(size)
        return moved, {"accepted": np.asarray(float(accepted))}

    def pool(self, states: list[State]) -> list[State]:
        """One step size for all chains: the mean over the chains."""
        if self.settings.acceptance is None or self.settings.warmup == 0:
            return states
        size = np.exp(np.mean([float(state["log_mean"]) for state in states]))
        return [{**state, "size": np.asarray(size)} for state in states]

    def _trajectory(self, state: State, rng: np.random.Generator) -> tuple[State, float, bool]:
        """The state after one trajectory, its acceptance probability, and whether it was accepted."""
        size, posterior, done = float(state["size"]), None, 0

        def evaluate(theta: Array) -> tuple[float, Array]:
            nonlocal posterior, done
            value, slope, posterior = self.density.value_and_slope(
                theta, None if posterior is None else posterior.start
            )
            done += 1
            return value, slope

        steps = self.settings.leapfrog or int(np.clip(round(QUARTER / size), 1, MOST_STEPS))
        here = state["theta"], float(state["value"]), state["slope"]
        (theta, value, slope), chance, accepted = leapfrog(here, self.root, size, steps, evaluate, rng)
        state = {**state, "evaluations": state["evaluations"] + done}
        if posterior is None or not accepted:
            return state, chance, False
        return {**state, **_found(theta, value, slope, posterior, rng)}, chance, True


def _found(theta: Array, value: float, slope: Array, posterior: Posterior, rng: np.random.Generator) -> State:
    """The part of a chain's state that belongs to its θ."""
    assert posterior.evidence is not None
    log_z, vectors = np.asarray(posterior.evidence.log_z), posterior.pack(1, rng)
    return {"theta": theta, "value": np.asarray(value), "slope": slope, "log_z": log_z, "vectors": vectors}


def _dual(size: StepSize) -> State:
    names = ("steps", "slack", "log_mean", "anchor", "size")
    return {name: np.asarray(getattr(size, name), dtype=float) for name in names}
