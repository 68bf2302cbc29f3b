r"""Where chains over θ start and how far they step.

The log density of θ is that of some deterministic evidence plus the log prior, −inf outside the kernel's bounds. The
negative Hessian at its mode, from differences of the gradient, gives the first covariance. A random walk then adapts:
covariance and mean by stochastic approximation, and the log of the step towards the target acceptance,

    log s ← log s + γ_k (accepted − target),   γ_k = (k + 1)^−0.6.

Cost: some 30 + 2p evaluations with gradient for the mode, one without for each adapting iteration.
Reference: Andrieu & Thoms (2008), A tutorial on adaptive MCMC, algorithm 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpclass._typing import Array
from gpclass.hyper.climb import Objective, climb, value_and_slope
from gpclass.hyper.last_steps import curvature, inverse_of
from gpclass.inference.base import Guides, Inference, Outline
from gpclass.inference.hmc import JITTER
from gpclass.latent.sites import Start
from gpclass.model.problem import Problem
from gpclass.posterior import Posterior
from gpclass.priors import PriorSet

STEP = 0.05  # of the differences, in logs
WIDEST, NARROWEST = 2.0, 0.02  # range of the standard deviations of a first covariance, in logs
OVERDISPERSED = 1.5  # chains start this much wider than the first covariance


@dataclass(frozen=True, eq=False)
class LogDensity:
    """Log evidence plus log prior as a function of θ, for a deterministic or a random evidence."""

    problem: Problem
    inference: Inference
    prior: PriorSet
    start: Start | None = None  # of every evaluation, so that they are independent
    guides: Guides | None = None  # outlines that are cheaper than the inference's own

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper bounds of θ; scikit-learn computes them slowly."""
        low, high = self.problem.bounds.T
        return low, high

    def log_prior(self, theta: Array) -> float:
        """Log prior density of θ; −inf outside the bounds."""
        low, high = self.bounds
        inside = np.all(theta >= low) and np.all(theta <= high)
        return self.prior.log_density(theta) if inside else -np.inf

    def outline(self, theta: Array) -> Outline | None:
        """What the inference knows at θ before it draws, with a deterministic ``log_z``; None if it has none."""
        try:
            return self.inference.outline(self.problem.at(theta), self.start)
        except (np.linalg.LinAlgError, ValueError):
            return None

    def posterior(
        self, theta: Array, rng: np.random.Generator | None = None, outline: Outline | None = None
    ) -> Posterior | None:
        """The inference at θ, completed from its outline if there is one; None if it fails: evidence zero.

        Where guides fail, which depends on θ alone, the inference takes its own.
        """
        guided = outline is None and self.guides is not None
        try:
            if outline is None and self.guides is not None:
                outline = self.guides(theta)
            if outline is None:
                posterior = self.inference(self.problem.at(theta), rng, start=self.start)
            else:
                posterior = outline.complete(rng or np.random.default_rng(0))
        except (np.linalg.LinAlgError, ValueError):
            return replace(self, guides=None).posterior(theta, rng) if guided else None
        evidence = posterior.evidence
        return posterior if evidence is not None and np.isfinite(evidence.log_z) else None

    def log_evidence(self, theta: Array) -> float:
        """Log evidence at θ; −inf if the inference fails."""
        posterior = self.posterior(theta)
        return -np.inf if posterior is None or posterior.evidence is None else posterior.evidence.log_z

    def value_and_slope(self, theta: Array, start: Start | None = None) -> tuple[float, Array, Posterior | None]:
        """Log density and gradient at θ, and the posterior to start the next evaluation from."""
        flat = -np.inf, np.zeros_like(theta), None
        if self.log_prior(theta) == -np.inf:
            return flat
        try:
            posterior = self.inference(self.problem.at(theta), None, start=start, gradient=True)
        except (np.linalg.LinAlgError, ValueError):
            return flat
        value, slope = value_and_slope(posterior, self.prior, theta)
        return (value, slope, posterior) if np.isfinite(value) and np.all(np.isfinite(slope)) else flat


@dataclass(frozen=True)
class Mode:
    """The mode of a log density and the covariance of the Gaussian that fits it there."""

    theta: Array  # (p,)
    covariance: Array  # (p, p)
    evaluations: int


def find_mode(density: LogDensity) -> Mode:
    """Find the mode from the kernel's own parameters, and its curvature."""
    problem = density.problem
    low, high = density.bounds
    objective = Objective(problem, density.inference, density.prior, seed=0)
    top = climb(objective, np.clip(problem.theta, low, high), max_iter=60, tol=1e-5, gradient_tol=0.05)
    H = curvature(lambda theta: density.value_and_slope(theta)[1], top.theta, np.column_stack([low, high]), STEP)
    return Mode(top.theta, inverse_of(H, NARROWEST**2, WIDEST**2), top.evaluations + 2 * len(top.theta))


def scattered(mode: Mode, density: LogDensity, rng: np.random.Generator) -> Array:
    """A starting point about the mode, within the bounds."""
    low, high = density.bounds
    root = np.linalg.cholesky(mode.covariance)
    for _ in range(100):
        theta = mode.theta + OVERDISPERSED * root @ rng.standard_normal(len(mode.theta))
        if np.all(theta > low) and np.all(theta < high):
            return np.asarray(theta)
    return mode.theta


def from_prior(density: LogDensity, rng: np.random.Generator) -> Array:
    """A starting point from the prior, with finite evidence."""
    for _ in range(1000):
        theta = density.prior.draw(rng, 1)[0]
        if density.log_prior(theta) > -np.inf and np.isfinite(density.log_evidence(theta)):
            return np.asarray(theta)
    raise ValueError(
        "a thousand draws from the priors all lay outside the kernel's bounds or had no finite evidence; "
        "widen the bounds, or give other priors"
    )


def first_walk(mode: Mode) -> dict[str, Array]:
    """The adaptation's state before the first step."""
    p = len(mode.theta)
    return {
        "mean": mode.theta.copy(),
        "covariance": mode.covariance.copy(),
        "log_scale": np.array(np.log(2.38 / np.sqrt(p))),
    }


def walk(state: dict[str, Array], rng: np.random.Generator) -> Array:
    """A random-walk proposal from the state's θ."""
    root = np.linalg.cholesky(state["covariance"])
    step = root @ rng.standard_normal(len(state["theta"]))
    return np.asarray(state["theta"] + np.exp(float(state["log_scale"])) * step)


def adapted(state: dict[str, Array], accepted: float, wanted: float, k: int) -> dict[str, Array]:
    """The adaptation's state after iteration k."""
    gap = state["theta"] - state["mean"]
    slow = (k + 1.0 + 10.0 * len(gap)) ** -0.6  # gives some weight to the covariance at the mode
    mean = state["mean"] + slow * gap
    covariance = state["covariance"] + slow * (np.outer(gap, gap) - state["covariance"])
    covariance = covariance + 1e-8 * np.eye(len(gap))  # chains that do not move must not make it singular
    log_scale = state["log_scale"] + (k + 1.0) ** -0.6 * (accepted - wanted)
    return {"mean": mean, "covariance": covariance, "log_scale": np.asarray(log_scale)}


def pooled(states: list[dict[str, Array]]) -> dict[str, Array]:
    """One proposal for all chains: the average of their adaptations."""
    return {name: np.mean([s[name] for s in states], axis=0) for name in ("mean", "covariance", "log_scale")}


def leapfrog(
    here: tuple[Array, float, Array],
    R: Array,
    size: float,
    steps: int,
    evaluate: Callable[[Array], tuple[float, Array]],
    rng: np.random.Generator,
) -> tuple[tuple[Array, float, Array], float, bool]:
    """A Hamiltonian trajectory in φ, θ = θ₀ + R φ, from θ, log density and gradient ``here``.

    Returns the same at its end, the probability of accepting it, and whether it is accepted; where the log density is
    −inf it ends, rejected.
    """
    theta, value, slope = here
    size *= float(rng.uniform(1.0 - JITTER, 1.0 + JITTER))
    p, log_u = rng.standard_normal(len(theta)), np.log(rng.random())
    energy = 0.5 * p @ p - value
    for _ in range(steps):
        p = p + 0.5 * size * (R.T @ slope)
        theta = theta + size * (R @ p)
        value, slope = evaluate(theta)
        if value == -np.inf:
            break
        p = p + 0.5 * size * (R.T @ slope)
    gain = float(energy - (0.5 * p @ p - value))
    chance = float(np.exp(min(gain, 0.0))) if np.isfinite(gain) else 0.0
    return (theta, value, slope), chance, gain >= log_u
