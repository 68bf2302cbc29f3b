"""Kernel parameters that maximise the evidence (ML-II), or the evidence times a prior (MAP).

L-BFGS-B maximises log p(y|X, θ), plus log p(θ) for ``map``, in θ = log of the parameters, within the kernel's
bounds. Each evaluation starts from the posterior of the last one. Restarts begin at random points of the
bounds and run side by side, independently, so the number of jobs does not change the result. If the best has learned
nothing, one more ascent begins at other length scales (:mod:`gpclass.hyper.starts`).

An inference may name a ``guide``, a cheaper one whose evidence is maximised first: EP with looser sites for EP, EP for
the exact inference. If the evidence has a Monte Carlo error, the ascent ends with a few quasi-Newton steps on that
evidence itself (:mod:`gpclass.hyper.last_steps`), with the curvature of the guide's ascent and the same random numbers
at every step; a step whose expected gain is within the noise is not taken. With many rows the ascent begins on a part
of them, a third under the dense prior, and such steps end it over all rows. With inducing inputs it goes from few rows
to all, and moves the inducing inputs too (:mod:`gpclass.hyper.staged`). Each level starts from the posterior of the
last. The local prior learns θ on some of the rows, with inducing inputs or, in up to three columns, with neighbours;
all of few rows under the dense prior.
Cost: one inference with gradient per evaluation, 10 to 100 evaluations per ascent; from 600 rows on, 4 to 10 of them
over all rows, but as many as before if the evidence has long ridges (irrelevant features with a length scale each).
Fails when: the evidence has several modes (use ``n_restarts``), or a maximum at the edge (reported).
Reference: Williams & Barber (1998), section 3, for the penalised form.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import Bounds, minimize

from gpclass._typing import Array
from gpclass.hyper.base import Fit, Run, Strategy, parameters_at_bounds
from gpclass.hyper.bounds import bounds_warning, vanishes
from gpclass.hyper.last_steps import Seen, last_steps
from gpclass.hyper.staged.settings import Stages
from gpclass.hyper.starts import elsewhere, learned_nothing
from gpclass.inference.base import Inference
from gpclass.latent.base import Start
from gpclass.model.problem import Problem
from gpclass.posterior import Posterior
from gpclass.priors import PriorSet, resolve_priors
from gpclass.progress import progress

MAX_ITER, TOL = 200, 1e-6  # of an ascent with a dense prior, by default
COARSE = 1e-4  # and of one that another follows
ROUGH, LOOSE = (20, 0.02), (5, 0.005)  # sites of the ascent and of its last steps: times the guide's, at most
LAST_STEPS, LEAST_GAIN = 6, 1e-3  # steps that may end such an ascent, and nats that are worth one
REACH = 3.0  # change of a log-parameter that an ascent on a part of the rows may make
SHORTEST = 1e-4  # square of the shortest unit in which a parameter is moved, after an ascent on a part of the rows
FIRST_STEP = 1.0  # length of the first step of an ascent, in log-parameters
ALIKE = 0.1  # values that differ by less, in units of the tolerance of the ascent, are told apart by their slopes
POLISH_GAIN = 0.02  # nats: a smaller gain does not justify an exact evaluation
FLAT = 1e-3  # nats per log-parameter: a slope that counts as none if no step is found
ABNORMAL = 2  # status of L-BFGS-B if its line search finds no step
REFUSED = 1e12  # value of the objective if the inference fails: the line search then backtracks


@dataclass(frozen=True)
class Climb:
    """One ascent: where it ended and why."""

    theta: Array  # (p,)
    value: float  # log evidence (+ log prior)
    evaluations: int
    converged: bool
    reason: str
    inverse_curvature: Array  # (p, p), of minus the objective, as L-BFGS sees it
    start: Start | None = None  # of the posterior at ``theta``; None if it was found in another process
    refused: ValueError | None = None  # why no evaluation succeeded


@dataclass(frozen=True)
class Maximize(Strategy):
    """Settings of evidence maximisation.

    Parameters
    ----------
    max_iter : int, optional
        Largest number of iterations per ascent; by default 200, and 60 over all rows with inducing inputs.
    tol : float, optional
        Stop when less than this share of the log evidence is left to gain; by default 1e-6, which ends about 0.001
        nats below the maximum (the ridge to an irrelevant feature's infinite length scale would double the
        evaluations), and 1e-5 with inducing inputs.
    gradient_tol : float
        Stop when no component of the gradient exceeds this.
    polish_steps : int
        Largest number of steps of θ on an evidence with Monte Carlo error, after the ascent of its guide's.
    stages : Stages
        How the ascent goes from few rows to all, with inducing inputs.
    checkpoint : path, optional
        File that an ascent with inducing inputs is saved to after every stage and every iteration over all rows, and
        resumed from.
    """

    max_iter: int | None = None
    tol: float | None = None
    gradient_tol: float = 1e-3
    polish_steps: int = 3
    stages: Stages = field(default_factory=Stages)
    checkpoint: str | os.PathLike[str] | None = None

    name: ClassVar[str] = "maximize"
    ignores: ClassVar[frozenset[str]] = frozenset(["priors"])
    needs: ClassVar[str] = "gradient"
    limits: ClassVar = {"polish_steps": 0}

    def __call__(self, problem: Problem, inference: Inference, run: Run) -> Fit:
        return self._search(problem, inference, run, prior=None)

    @classmethod
    def brief(cls) -> Self:
        return cls(max_iter=3, polish_steps=1)

    def _search(self, problem: Problem, inference: Inference, run: Run, prior: PriorSet | None) -> Fit:
        if problem.form.moves:
            from gpclass.hyper.staged.ascent import ascend  # it builds on this module

            return ascend(self, problem, inference, run, prior)
        stand_in = problem.form.stand_in(problem, run.rng) if len(problem.theta) else None
        if stand_in is not None:
            learned = self._search(stand_in, inference, run, prior)
            at_best = problem.at(learned.problem.theta).placed(run.rng)
            fit = fit_at(at_best, inference(at_best, run.rng), learned.figures["evaluations"], prior)
            fit = fit.with_details({"rows_of_the_search": stand_in.n})
            told = (*learned.warnings, *(text for text in fit.warnings if text not in learned.warnings))
            return replace(fit, converged=learned.converged, reason=learned.reason, warnings=told)
        unused = [name for name in ("stages", "checkpoint") if getattr(self, name) != getattr(type(self)(), name)]
        if unused:
            raise ValueError(
                f"{type(self).__name__}: {' and '.join(unused)} apply with inducing inputs alone; set n_inducing, or "
                "leave them out"
            )
        if len(problem.theta) == 0:
            problem = problem.placed(run.rng)
            return Fit(problem, inference(problem, run.rng), figures={"evaluations": 1})
        whole, part = problem, problem.form.part(problem, run.rng)
        problem = problem.placed(run.rng) if part is None else part
        starts = starting_points(problem, run.n_restarts, run.rng)
        seed = int(run.rng.integers(2**63))
        guide = inference.guide(problem.likelihood)
        rough, guide = (guide.with_site_tol(_looser(guide.site_tol, *by)) for by in (ROUGH, LOOSE))
        begun = replace(self, tol=max(self.tol or TOL, COARSE)) if rough != guide else self
        with progress(label=f"{self.name} ({inference.name})", verbose=run.verbose) as bar:
            if len(starts) == 1:
                climbs = [climb(problem, rough, starts[0], prior, begun, seed, bar.update)]
            else:
                work = (delayed(_climb_apart)(problem, rough, start, prior, begun, seed) for start in starts)
                climbs = Parallel(n_jobs=run.n_jobs)(work)
        best = max(climbs, key=lambda c: c.value)
        if found_nothing(problem, best.value, prior, best.theta):
            other = elsewhere(problem)
            if other is not None:
                climbs.append(_climb_apart(problem, rough, other, prior, begun, seed))
                best = max(climbs, key=lambda c: c.value)
        if best.refused is not None:
            raise best.refused
        evaluations = sum(c.evaluations for c in climbs)
        theta, last = best.theta, best.start
        if part is not None:  # few rows may take a parameter to where no slope leads back
            theta = np.clip(theta, starts[0] - REACH, starts[0] + REACH)
        there = (problem if part is None else whole).at(theta).placed(run.rng)
        if rough != guide or there.n != problem.n or there.form is not problem.form:  # or neighbours of this θ
            best = self._go_on(there, guide, replace(best, theta=theta), problem.n / there.n, prior, seed)
            problem, theta, last = there, best.theta, best.start
            evaluations += best.evaluations
        if inference.evidence_kind == "unbiased":
            theta, last, spent = polish(problem, inference, best, prior, self, seed)
            evaluations += spent
        at_best = problem.at(theta)
        posterior = inference(at_best, np.random.default_rng(seed), start=last)
        fit = fit_at(at_best, posterior, evaluations, prior)
        return replace(fit, converged=best.converged, reason=best.reason)

    def _go_on(
        self, problem: Problem, guide: Inference, best: Climb, share: float, prior: PriorSet | None, seed: int
    ) -> Climb:
        """From the end of an ascent with rough sites, over a ``share`` of the rows, to the maximum over all of them."""
        curvature = best.inverse_curvature * share  # the evidence of all rows bends as many times more
        look = _Look(problem, guide, prior, seed, best.start if share == 1.0 else None)
        value = abs(best.value) / share
        gain, steps = self.tol * value if self.tol else max(LEAST_GAIN, TOL * value), self.max_iter or LAST_STEPS
        done = last_steps(look, best.theta, curvature, problem.bounds, steps=min(steps, LAST_STEPS), gain=gain)
        if done.arrived:
            spent, seen = done.evaluations, done.seen
            return Climb(done.theta, seen.value, spent, True, "", done.inverse_curvature, seen.start)
        bends = np.diag(np.linalg.inv(curvature))  # with the others fixed: ridges are long
        unit = np.sqrt(np.maximum(1.0 / bends, SHORTEST))
        on = climb(problem, guide, done.theta, prior, self, seed, unit=unit, start=done.seen.start)
        return replace(on, evaluations=on.evaluations + done.evaluations)


@dataclass(frozen=True)
class Map(Maximize):
    """Settings of penalised maximisation, evidence times prior; those of :class:`Maximize`.

    The maximised density is that of the logarithms of the parameters (:mod:`gpclass.priors`).
    """

    name: ClassVar[str] = "map"
    ignores: ClassVar[frozenset[str]] = frozenset()

    def __call__(self, problem: Problem, inference: Inference, run: Run) -> Fit:
        return self._search(problem, inference, run, resolve_priors(run.priors, problem.names, problem.theta))


def fit_at(problem: Problem, posterior: Posterior, evaluations: int, prior: PriorSet | None) -> Fit:
    """The fit at the best parameters, with a warning about those that ended on a bound, unless it stands for zero."""
    hit = parameters_at_bounds(problem)
    told = tuple(name for name in hit if not vanishes(problem, name))
    warned = (bounds_warning(problem, told, prior is not None),) if told else ()
    figures = {"evaluations": evaluations, "at_bounds": hit or None}
    return Fit(problem, posterior, figures=figures, warnings=warned)


def _looser(tol: float, times: float, most: float) -> float:
    """A tolerance so many times looser, but no looser than ``most`` unless it is already."""
    return max(tol, min(times * tol, most))


def value_and_slope(posterior: Posterior, prior: PriorSet | None, theta: Array) -> tuple[float, Array]:
    """Log evidence at ``theta``, plus log prior if there is one, with its gradient."""
    evidence = posterior.evidence
    assert evidence is not None
    assert evidence.gradient is not None
    if prior is None:
        return evidence.log_z, evidence.gradient
    return evidence.log_z + prior.log_density(theta), evidence.gradient + prior.gradient(theta)


def found_nothing(problem: Problem, value: float, prior: PriorSet | None, theta: Array) -> bool:
    """Whether an ascent that ended with ``value`` at ``theta`` has learned nothing."""
    return learned_nothing(problem, value - (0.0 if prior is None else prior.log_density(theta)))


def _climb_apart(problem: Problem, inference: Inference, theta0: Array, *others: Any) -> Climb:
    """One of several ascents: its posterior, with n×n factors, is not returned, nor is a failure an error."""
    try:
        return replace(climb(problem, inference, theta0, *others), start=None)
    except ValueError as refused:
        return Climb(theta0, -np.inf, 1, False, "", np.eye(len(theta0)), refused=refused)


def climb(
    problem: Problem,
    inference: Inference,
    theta0: Array,
    prior: PriorSet | None,
    settings: Maximize,
    seed: int,
    tell: Callable[..., None] = lambda **_: None,
    unit: Array | float | None = None,
    start: Start | None = None,
) -> Climb:
    """One ascent from ``theta0``; every evaluation uses the same random numbers.

    ``start`` is of a posterior near ``theta0``. ``unit`` is about how far each parameter may be from the maximum: the
    first step is of that size. By default it is ``FIRST_STEP`` long: L-BFGS-B would go along the gradient to the
    bounds.
    """
    look = _Look(problem, inference, prior, seed, start)
    best: tuple[float, Array, Start | None] = (-np.inf, theta0, None)
    uphill, evaluations = np.zeros_like(theta0), 0  # slope at the best
    most, tol, flat = settings.max_iter or MAX_ITER, settings.tol or TOL, settings.gradient_tol

    def evaluate(theta: Array) -> tuple[float, Array]:
        nonlocal best, evaluations, uphill
        evaluations += 1
        seen = look(theta)
        value, slope = seen.value, seen.slope
        if not np.isfinite(value):
            return REFUSED, np.zeros_like(theta)
        alike = ALIKE * tol * abs(value)
        if abs(value - best[0]) < alike:
            value = best[0] + float(np.clip(0.5 * (slope + uphill) @ (theta - best[1]), -alike, alike))
        if value > best[0]:
            best, uphill = (value, theta.copy(), seen.start), slope
        tell(log_evidence=value)
        return -value, -slope

    begun = [evaluate(theta0)]
    if unit is None:
        shorter = 1.0 / np.sqrt(max(1.0, float(np.linalg.norm(begun[0][1])) / FIRST_STEP))
        unit, flat = shorter, shorter * flat

    def objective(x: Array) -> tuple[float, Array]:
        value, slope = begun.pop() if begun else evaluate(x * unit)
        return value, slope * unit

    options: Any = {"maxiter": most, "ftol": tol, "gtol": flat}
    bounds = Bounds(*(problem.bounds.T / unit))
    outcome = minimize(objective, theta0 / unit, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    if not np.isfinite(best[0]):
        # Raise the inference's own error, which names the remedy.
        inference(problem.at(theta0), np.random.default_rng(seed), gradient=True)
        raise ValueError(
            "the evidence is not finite at the starting parameters; standardise the features, or start from others"
        )
    done = bool(outcome.success)
    if outcome.get("status") == ABNORMAL:  # rounding ended the line search; at a maximum, if no slope is left
        left = outcome.x - np.clip(outcome.x - outcome.jac, bounds.lb, bounds.ub)
        done = bool(np.abs(left).max(initial=0.0) < FLAT)
    reason = "" if done else str(outcome.message)
    curvature = np.eye(len(theta0))
    if "hess_inv" in outcome:  # not if the bounds leave nothing to choose
        curvature = np.asarray(outcome.hess_inv @ curvature) * np.outer(unit * np.ones(len(theta0)), unit)
    return Climb(best[1], best[0], evaluations, done, reason, curvature, best[2])


def polish(
    problem: Problem, inference: Inference, best: Climb, prior: PriorSet | None, settings: Maximize, seed: int
) -> tuple[Array, Start | None, int]:
    """Quasi-Newton steps on a noisy evidence from the end of its guide's ascent.

    Returns the parameters, the start of the evaluation there, and the number of evaluations.
    """
    look = _Look(problem, inference.for_search, prior, seed, best.start)
    done = last_steps(
        look, best.theta, best.inverse_curvature, problem.bounds, steps=settings.polish_steps, gain=POLISH_GAIN
    )
    return done.theta, done.seen.start or best.start, done.evaluations


@dataclass
class _Look:
    """The evidence of an inference at other θ, each from the posterior of the last."""

    problem: Problem
    inference: Inference
    prior: PriorSet | None
    seed: int
    last: Start | None

    def __call__(self, theta: Array) -> Seen:
        """Value −inf if the inference fails."""
        try:
            found = self.inference(
                self.problem.at(theta), np.random.default_rng(self.seed), start=self.last, gradient=True
            )
        except ValueError:
            return Seen(-np.inf, np.zeros_like(theta))
        value, slope = value_and_slope(found, self.prior, theta)
        if not (np.isfinite(value) and np.all(np.isfinite(slope))):
            return Seen(-np.inf, np.zeros_like(theta))
        self.last = found.start and found.start.light
        return Seen(value, slope, (found.evidence and found.evidence.error) or 0.0, self.last)


def starting_points(problem: Problem, n_restarts: int, rng: np.random.Generator) -> list[Array]:
    """The kernel's own parameters, then random ones within the bounds."""
    low, high = problem.bounds.T
    starts = [np.clip(problem.theta, low, high)]
    if n_restarts > 0:
        if not np.isfinite(problem.bounds).all():
            raise ValueError("n_restarts > 0 needs finite bounds for every kernel parameter")
        starts += list(rng.uniform(low, high, size=(n_restarts, len(low))))
    return starts
