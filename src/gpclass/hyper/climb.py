"""One ascent of the evidence by L-BFGS-B, in the logarithms of the parameters, within their bounds.

Every evaluation starts from the posterior of the last one and uses the same random numbers. L-BFGS-B would take the
whole gradient as its first step, to the bounds: it is given a unit for each parameter, so that the first step has
length one, or what an earlier ascent knows of how far the maximum may be. The curvature along a parameter is taken to
be the geometric mean of its own slope and the sum of all: where a constant has a fiftieth of the slope of a length
scale, one unit for both would make its steps too short for several iterations (a sixth of the evaluations of the
default kernel, on simulated data; with one constant and one length scale there is no difference). Values that differ by
less than rounding are told apart by their slopes.
Cost: one inference with gradient per evaluation, 10 to 100 evaluations.
Fails when: the inference fails where it begins (its own error is raised); where it fails elsewhere the line search
goes back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import Bounds, minimize

from gpclass._typing import Array
from gpclass.hyper.last_steps import Seen, nothing_left, updated
from gpclass.hyper.trail import Trail
from gpclass.inference.base import Inference
from gpclass.latent.sites import Start
from gpclass.model.problem import Problem
from gpclass.posterior import Posterior
from gpclass.priors import PriorSet

FIRST_STEP = 1.0  # length of the first step of an ascent, in log-parameters
ALIKE = 0.1  # values that differ by less, in units of the tolerance of the ascent, are told apart by their slopes
FLAT = 1e-3  # nats per log-parameter: a slope that counts as none if no step is found
ABNORMAL = 2  # status of L-BFGS-B if its line search finds no step
REFUSED = 1e12  # value of the objective if the inference fails: the line search then backtracks


@dataclass(frozen=True)
class Climb:
    """One ascent: where it ended and why."""

    theta: Array  # (p,)
    value: float  # log evidence (+ log prior)
    evaluations: int
    iterations: int
    converged: bool
    reason: str
    inverse_curvature: Array  # (p, p), of minus the objective, as L-BFGS sees it
    begun: Array  # (p,), where it began
    start: Start | None = None  # of the posterior at ``theta``; None if it was found in another process
    refused: ValueError | None = None  # why no evaluation succeeded


@dataclass
class Objective:
    """The evidence of an inference at any θ, each from the posterior of the last, with the same random numbers."""

    problem: Problem
    inference: Inference
    prior: PriorSet | None
    seed: int
    last: Start | None = None
    tell: Callable[..., None] | None = None  # shown every value
    trail: Trail = field(default_factory=Trail)

    def roughly(self, tol: float) -> Callable[[Array], Seen]:
        """The same with sites to this tolerance, if it is looser."""
        looser = self.inference.with_site_tol(max(tol, self.inference.site_tol))
        return lambda theta: self(theta, looser)

    def __call__(self, theta: Array, inference: Inference | None = None) -> Seen:
        """Value −inf if the inference fails."""
        rng, problem = np.random.default_rng(self.seed), self.problem.at(theta)
        inference = inference or self.inference
        try:
            found = inference(problem, rng, start=self.trail.start(problem) or self.last, gradient=True)
        except ValueError:
            return Seen(-np.inf, np.zeros_like(theta))
        value, slope = value_and_slope(found, self.prior, theta)
        if not (np.isfinite(value) and np.all(np.isfinite(slope))):
            return Seen(-np.inf, np.zeros_like(theta))
        self.last = found.start and found.start.light
        self.trail.add(theta, self.last)
        if self.tell is not None:
            self.tell(log_evidence=value)
        evidence = found.evidence
        assert evidence is not None
        start = found.start if evidence.error else self.last  # at the last of few noisy ones, more draws may follow
        return Seen(value, slope, evidence.error or 0.0, start, evidence.gradient_noise)


def value_and_slope(posterior: Posterior, prior: PriorSet | None, theta: Array) -> tuple[float, Array]:
    """Log evidence at ``theta``, plus log prior if there is one, with its gradient."""
    evidence = posterior.evidence
    assert evidence is not None
    assert evidence.gradient is not None
    if prior is None:
        return evidence.log_z, evidence.gradient
    return evidence.log_z + prior.log_density(theta), evidence.gradient + prior.gradient(theta)


def climb(
    objective: Objective,
    theta0: Array,
    *,
    max_iter: int,
    tol: float,
    gradient_tol: float,
    least_gain: float = 0.0,
    unit: Array | None = None,
    one_unit: bool = False,
    seen: Seen | None = None,
) -> Climb:
    """One ascent from ``theta0``.

    Parameters
    ----------
    objective : Objective
    theta0 : (p,) array
    max_iter : int
        The most iterations.
    tol : float
        Stop when an iteration gains less than this share of the value.
    gradient_tol : float
        Stop when no component of the gradient exceeds this.
    least_gain : float
        Stop also when fewer nats than this are left to gain, as the steps tell in all directions.
    unit : (p,) array, optional
        About how far each parameter may be from the maximum: the first step is of that size.
    one_unit : bool
        Whether all parameters have the same unit, if none are given. Near a maximum of something similar slopes say
        little of how curved the evidence is.
    seen : Seen, optional
        What the objective is at ``theta0``, if that is known.
    """
    problem, inference = objective.problem, objective.inference
    best: tuple[float, Array, Start | None] = (-np.inf, theta0, None)
    uphill, evaluations = np.zeros_like(theta0), 0  # slope at the best
    latest: tuple[Array, Array] = (theta0, uphill)  # θ and slope of the last evaluation

    def evaluate(theta: Array, seen: Seen | None = None) -> tuple[float, Array]:
        nonlocal best, evaluations, uphill, latest
        evaluations += seen is None
        seen = seen or objective(theta)
        value, slope = seen.value, seen.slope
        if not np.isfinite(value):
            return REFUSED, np.zeros_like(theta)
        latest, alike = (theta.copy(), slope), ALIKE * tol * abs(value)
        if abs(value - best[0]) < alike:
            value = best[0] + float(np.clip(0.5 * (slope + uphill) @ (theta - best[1]), -alike, alike))
        if value > best[0]:
            best, uphill = (value, theta.copy(), seen.start), slope
        return -value, -slope

    known = [evaluate(theta0, seen)]
    if unit is None:
        slope = np.abs(known[0][1])
        bends = np.full(len(slope), np.linalg.norm(slope)) if one_unit else np.sqrt(slope.sum() * slope)
        unit = 1.0 / np.sqrt(np.maximum(1.0, bends / FIRST_STEP))

    def scaled(x: Array) -> tuple[float, Array]:
        value, slope = known.pop() if known else evaluate(x * unit)
        return value, slope * unit

    path, arrived = _Path(*latest, np.diag(unit**2), problem.bounds), False

    def ended(x: Array) -> None:
        """After an iteration, whose last evaluation is where it ended."""
        nonlocal arrived
        path.add(*latest)
        if path.ends(least_gain):
            arrived = True
            raise StopIteration

    options: Any = {"maxiter": max_iter, "ftol": tol, "gtol": gradient_tol * float(unit.min())}
    bounds = Bounds(*(problem.bounds.T / unit))
    method: Any = {"method": "L-BFGS-B", "bounds": bounds, "options": options, "callback": ended}
    outcome = minimize(scaled, theta0 / unit, jac=True, **method)
    if not np.isfinite(best[0]):
        # Raise the inference's own error, which names the remedy.
        inference(problem.at(theta0), np.random.default_rng(objective.seed), gradient=True)
        raise ValueError(
            "the evidence is not finite at the starting parameters; standardise the features, or start from others"
        )
    done = bool(outcome.success) or arrived
    if outcome.get("status") == ABNORMAL and not arrived:  # by rounding; at a maximum, if no slope is left
        left = outcome.x - np.clip(outcome.x - outcome.jac, bounds.lb, bounds.ub)
        done = bool(np.abs(left).max(initial=0.0) < FLAT)
    curvature = path.inverse_curvature if arrived else np.eye(len(theta0))
    if "hess_inv" in outcome and not arrived:  # not if the bounds leave nothing to choose
        curvature = np.asarray(outcome.hess_inv @ curvature) * np.outer(unit, unit)
    reason, nit = "" if done else str(outcome.message), int(outcome.get("nit", 0))
    return Climb(best[1], best[0], evaluations, nit, done, reason, curvature, theta0, best[2])


@dataclass
class _Path:
    """Where the last iteration of an ascent ended, and the inverse curvature as all of them show it."""

    theta: Array  # (p,)
    slope: Array  # (p,)
    inverse_curvature: Array  # (p, p)
    bounds: Array  # (p, 2)
    steps: int = 0

    def add(self, theta: Array, slope: Array) -> None:
        """Another iteration."""
        self.inverse_curvature = updated(self.inverse_curvature, theta - self.theta, self.slope - slope)
        self.theta, self.slope, self.steps = theta, slope, self.steps + 1

    def ends(self, gain: float) -> bool:
        """Whether less than ``gain`` nats are left; steps must have been possible in every direction."""
        enough = self.steps > len(self.theta)
        return enough and nothing_left(self.theta, self.slope, self.inverse_curvature, self.bounds, gain)


def climb_apart(objective: Objective, theta0: Array, **settings: Any) -> Climb:
    """One of several ascents: its posterior is not returned, nor is a failure an error."""
    try:
        found = climb(objective, theta0, **settings)
    except ValueError as refused:
        return Climb(theta0, -np.inf, 1, 0, False, "", np.eye(len(theta0)), theta0, refused=refused)
    return Climb(**{**vars(found), "start": None})
