"""Kernel parameters that maximise the evidence (ML-II), or the evidence times a prior (MAP).

L-BFGS-B maximises log p(y|X, θ), plus log p(θ) for ``map``, in θ = log of the parameters, within the kernel's
bounds. Each evaluation starts from the posterior of the last one. Restarts begin at random points of the
bounds and run side by side, independently, so the number of jobs does not change the result. If the best has learned
nothing, one more ascent begins at other length scales (:mod:`gpclass.hyper.starts`).

An inference may name a ``guide``, a cheaper one whose evidence is maximised first: EP with looser sites for EP, EP for
the exact inference. If the evidence has a Monte Carlo error, the ascent ends with a few quasi-Newton steps on that
evidence itself (:mod:`gpclass.hyper.last_steps`), with the curvature of the guide's ascent and the same random numbers
at every step; a step whose expected gain is within the noise is not taken. With many rows the ascent begins on a part
of them, a third under the dense prior, with many neighbours on fewer of these, and such steps end it over all rows.
With inducing inputs it goes from few rows to all, and moves the inducing inputs too (:mod:`gpclass.hyper.staged`). Each
level starts from the posterior of the last. The local prior learns θ on some of the rows, with inducing inputs or, in
up to three columns, with neighbours; all of few rows under the dense prior, and adjusts it to the density of all rows
(:mod:`gpclass.hyper.patches`).
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

from gpclass._typing import Array
from gpclass.hyper.base import Fit, Run, Strategy, parameters_at_bounds
from gpclass.hyper.bounds import bounds_warning, vanishes
from gpclass.hyper.climb import Climb, Objective, climb, climb_apart
from gpclass.hyper.last_steps import curvature, inverse_of, last_steps
from gpclass.hyper.patches import STEPS, adjusted
from gpclass.hyper.staged.settings import Stages
from gpclass.hyper.starts import elsewhere, found_nothing, starting_points
from gpclass.inference.base import Inference
from gpclass.latent.sites import Start
from gpclass.model.problem import Problem
from gpclass.posterior import Posterior
from gpclass.priors import PriorSet, resolve_priors
from gpclass.progress import progress

MAX_ITER, TOL = 200, 1e-6  # of an ascent with a dense prior, by default
COARSE = 1e-4  # and of one that another follows
ROUGH_SITES, FINER_SITES = (20, 0.02), (5, 0.005)  # of an ascent and of its last steps: times the guide's, at most
BEGINNING = 0.05  # the same of the first of them, if they are far from where they began on a part of the rows
LAST_STEPS, LEAST_GAIN = 8, 1e-3  # steps that may end such an ascent, and nats that are worth one
STEP = 0.1  # of the differences behind the curvature on a part of the rows
REACH = 3.0  # change of a log-parameter that an ascent on a part of the rows may make, if the evidence is flat in it
FLATTEST = (
    10.0  # largest inverse curvature: a log-parameter of which a change by one costs a twentieth of a nat is flat
)
AGREES = 2.0  # nats within which two ascents ended in the same place
BELIED = 0.05  # of its log evidence: what a simpler prior on the same rows may promise in vain
SHORTEST, LONGEST = 1e-4, 1.0  # squares of units in which parameters are moved, if such steps do not end an ascent
OUT_OF_STEPS = "the largest number of iterations was reached (max_iter)"
POLISH_GAIN = 0.02  # nats: a smaller gain does not justify an exact evaluation


@dataclass(frozen=True)
class Maximize(Strategy):
    """Settings of evidence maximisation.

    Parameters
    ----------
    max_iter : int, optional
        Largest number of iterations per ascent; by default 200, and 60 over all rows with inducing inputs.
    tol : float, optional
        Stop when an iteration gains less than this share of the log evidence, or less is left to gain; by default 1e-6
        (0.001 nats, if that is more: the ridge to an irrelevant feature's infinite length scale would double the
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
            guide = inference.guide(problem.likelihood)
            guide = guide.with_site_tol(_looser(guide.site_tol, *FINER_SITES))
            limits = {"tol": max(self.tol or TOL, COARSE), "gradient_tol": self.gradient_tol}
            limits["max_iter"] = min(self.max_iter or STEPS, STEPS)
            label, start = f"{self.name} ({inference.name})", problem.at(learned.problem.theta)
            on_patches = adjusted(start, guide, run, prior, label, **limits)
            at_best, spent = on_patches.problem.placed(run.rng), on_patches.evaluations
            fit = fit_at(at_best, inference(at_best, run.rng), learned.figures["evaluations"] + spent, prior)
            fit = fit.with_details({"rows_of_the_search": stand_in.n, **on_patches.details})
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
        with progress(label=f"{self.name} ({inference.name})", verbose=run.verbose) as bar:
            search = _Search(self, problem, inference, prior, run, int(run.rng.integers(2**63)), bar.update)
            best = search.best()
        problem, theta, last, spent = search.problem, best.theta, best.start, 0
        if inference.evidence_kind == "unbiased":
            theta, last, spent = polish(problem, inference, best, prior, self, search.seed)
        at_best = problem.at(theta)
        posterior = inference(at_best, np.random.default_rng(search.seed), start=last)
        fit = fit_at(at_best, posterior, search.evaluations + spent, prior)
        if search.on_a_part:
            fit = fit.with_details({"evaluations_on_a_part": search.on_a_part})
        told = (*fit.warnings, *search.warnings(best))
        return replace(fit, converged=best.converged, reason=best.reason, warnings=told)


@dataclass
class _Search:
    """The ascents of one fit.

    A part of the rows, or fewer neighbours, only propose parameters. If they have learned nothing, or what they found
    fails, is nothing or is far less on the whole, the search begins there.
    """

    settings: Maximize
    problem: Problem  # of all rows; with what its form chose for the last θ
    inference: Inference
    prior: PriorSet | None
    run: Run
    seed: int
    tell: Callable[..., None]
    evaluations: int = 0  # over all rows
    on_a_part: int = 0
    belied: tuple[Climb, Problem, float] | None = None  # where a simpler prior led, and how much more that promised

    def __post_init__(self) -> None:
        guide = self.inference.guide(self.problem.likelihood)
        self.rough, self.guide = (
            guide.with_site_tol(_looser(guide.site_tol, *by)) for by in (ROUGH_SITES, FINER_SITES)
        )
        self.starts = starting_points(self.problem, self.run.n_restarts, self.run.rng)

    def best(self) -> Climb:
        """The end of the search."""
        found = self.begun_on_a_part() or self.over_all_rows()
        if self.belied is not None and self.belied[0].value > found.value:
            found, self.problem, _ = self.belied
        return found

    def begun_on_a_part(self) -> Climb | None:
        """The end of an ascent that began on a part of the problem; None if there is none, or it led nowhere."""
        found = self._begun_on_a_part_of(self.problem)
        if found is None:
            return None
        best, self.problem = found
        self.evaluations += best.evaluations
        return best

    def _begun_on_a_part_of(self, whole: Problem, others_follow: bool = False) -> tuple[Climb, Problem] | None:
        """The same for a problem that may be a part itself; and the problem, placed where the part led."""
        part = whole.form.part(whole, self.run.rng)
        if part is None:
            return None
        same = part.n == whole.n  # rows: only the prior is another
        found = self._begun_on_a_part_of(part, others_follow=True)
        if found is None:
            found = self._learned_on(part, COARSE if same else TOL)
            if found is None:
                return None
        best, part = found
        self.on_a_part += best.evaluations
        there = whole.at(best.theta).placed(self.run.rng)
        start = best.start if same or best.start is None else best.start.at(part.at(best.theta))
        begin = replace(best, iterations=0, start=start)
        share = part.rows.count / whole.rows.count
        tol, inference = self.settings.tol or TOL, self.guide
        if others_follow:
            tol, inference = max(tol, COARSE), self.rough
        # Other rows may bend otherwise: at the end their slopes count.
        ended = self._go_on(there, begin, inference, tol, share=share, known=same or others_follow)
        if ended is None or found_nothing(there, ended.value, self.prior, ended.theta):
            return None
        if same and best.value - ended.value > BELIED * abs(best.value):
            self.belied = ended, there, best.value - ended.value
            self.evaluations += ended.evaluations
            return None
        return ended, there

    def _learned_on(self, part: Problem, tol: float) -> tuple[Climb, Problem] | None:
        """Where the ascents over a part end, with the curvature by differences; None if it has learned nothing."""
        best, spent = self._best(part, tol)
        if best.refused is not None or found_nothing(part, best.value, self.prior, best.theta):
            self.on_a_part += spent
            return None
        part = part.at(best.theta).placed(self.run.rng)
        objective = self._objective(part, self.rough, best.start)
        H = curvature(lambda theta: objective(theta).slope, best.theta, part.bounds, STEP)
        # Few rows may take a parameter to where no slope leads back.
        near = np.clip(best.theta, best.begun - REACH, best.begun + REACH)
        theta = np.where(np.diag(H) < 1.0 / FLATTEST, near, best.theta)
        inverse, spent = inverse_of(H, SHORTEST, FLATTEST), spent + 2 * len(H)
        return replace(best, theta=theta, inverse_curvature=inverse, evaluations=spent), part

    def over_all_rows(self) -> Climb:
        """The end of the best ascent over all rows, from all starts, and elsewhere if it has learned nothing."""
        problem = self.problem = self.problem.placed(self.run.rng)
        best, spent = self._best(problem, COARSE)
        self.evaluations += spent
        if found_nothing(problem, best.value, self.prior, best.theta):
            other = elsewhere(problem)
            if other is not None:
                found = climb_apart(self._objective(problem, self.rough), other, **self._limits(COARSE))
                self.evaluations += found.evaluations
                best = max(best, found, key=lambda c: c.value)
        if best.refused is not None:
            raise best.refused
        self.problem = problem.at(best.theta).placed(self.run.rng)
        if self.rough == self.guide and self.problem.form is problem.form:  # and not, say, other neighbours at this θ
            return best
        ended = self._go_on(self.problem, best, self.guide, self.settings.tol or TOL)
        if ended is None:
            return best
        self.evaluations += ended.evaluations
        return ended

    def warnings(self, best: Climb) -> list[str]:
        """That the whole agrees in the end with a simpler prior that promised too much."""
        if self.belied is None or best.value > self.belied[0].value + AGREES:
            return []
        return [
            f"the log evidence at parameters like these is {self.belied[2]:.0f} higher under the simpler prior that "
            f"led there: they may suit the approximation more than the labels; {self.problem.form.cure}"
        ]

    def _best(self, problem: Problem, tol: float) -> tuple[Climb, int]:
        """The best of the ascents from all starts, to a tolerance if others follow, and the evaluations of all."""
        objective = self._objective(problem, self.rough)
        if len(self.starts) == 1:
            objective.tell = self.tell
            best = climb(objective, self.starts[0], **self._limits(tol))
            return best, best.evaluations
        work = (delayed(climb_apart)(objective, start, **self._limits(tol)) for start in self.starts)
        climbs = Parallel(n_jobs=self.run.n_jobs)(work)
        return max(climbs, key=lambda c: c.value), sum(c.evaluations for c in climbs)

    def _go_on(
        self,
        problem: Problem,
        best: Climb,
        inference: Inference,
        tol: float,
        *,
        share: float = 1.0,
        known: bool = False,
    ) -> Climb | None:
        """From the end of an ascent, over a ``share`` of the rows, to the maximum over all; None if it fails there.

        Whether the curvature is ``known`` as in :func:`~gpclass.hyper.last_steps.last_steps`.
        """
        settings = self.settings
        left = (settings.max_iter or MAX_ITER) - best.iterations
        if left <= 0:
            return replace(best, evaluations=0)
        objective = self._objective(problem, inference, best.start)
        objective.tell = self.tell
        inverse = best.inverse_curvature * share  # all rows bend as many times more
        gain = max(tol * abs(best.value) / share, _least_gain(tol))
        bounds, flat, steps = problem.bounds, settings.gradient_tol, min(left, LAST_STEPS)
        roughly = objective.roughly(BEGINNING) if share < 1.0 else None
        done = last_steps(
            objective, best.theta, inverse, bounds, steps=steps, gain=gain, flat=flat, known=known, roughly=roughly
        )
        seen, inverse, left, spent = done.seen, done.inverse_curvature, left - done.steps, done.evaluations
        if not np.isfinite(seen.value):
            self.evaluations += spent
            return None
        ended = Climb(done.theta, seen.value, spent, 0, done.arrived, OUT_OF_STEPS, inverse, best.begun, seen.start)
        if done.arrived or left <= 0:
            return replace(ended, reason="") if done.arrived else ended
        bends = np.diag(np.linalg.inv(inverse))  # with the others fixed: ridges are long
        unit = np.sqrt(np.clip(1.0 / bends, SHORTEST, LONGEST))
        on = climb(objective, done.theta, max_iter=left, tol=tol, gradient_tol=flat, unit=unit, seen=seen)
        on = replace(on, evaluations=spent + on.evaluations)
        few = on.iterations < len(on.theta)  # to have seen the curvature in all directions
        return replace(on, inverse_curvature=inverse) if few else on

    def _objective(self, problem: Problem, inference: Inference, start: Start | None = None) -> Objective:
        return Objective(problem, inference, self.prior, self.seed, start)

    def _limits(self, coarse: float) -> dict[str, Any]:
        """Of an ascent that begins, which need be no finer than ``coarse`` if others follow.

        Whether little is left its steps tell if no other follows: sites of a rough one make noise of the last of them.
        """
        tol, last = self.settings.tol or TOL, self.rough == self.guide
        return {
            "max_iter": self.settings.max_iter or MAX_ITER,
            "tol": tol if last else max(tol, coarse),
            "least_gain": _least_gain(tol) if last else 0.0,
            "gradient_tol": self.settings.gradient_tol,
        }


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


def _least_gain(tol: float) -> float:
    """Nats that are worth a step, whatever the log evidence: fewer if less than the default is asked for."""
    return LEAST_GAIN * min(1.0, tol / TOL)


def _looser(tol: float, times: float, most: float) -> float:
    """A tolerance so many times looser, but no looser than ``most`` unless it is already."""
    return max(tol, min(times * tol, most))


def polish(
    problem: Problem, inference: Inference, best: Climb, prior: PriorSet | None, settings: Maximize, seed: int
) -> tuple[Array, Start | None, int]:
    """Quasi-Newton steps on a noisy evidence from the end of its guide's ascent.

    Returns the parameters, the start of the evaluation there, and the number of evaluations.
    """
    objective = Objective(problem, inference.for_search, prior, seed, best.start)
    steps, bounds = settings.polish_steps, problem.bounds
    done = last_steps(objective, best.theta, best.inverse_curvature, bounds, steps=steps, gain=POLISH_GAIN)
    return done.theta, done.seen.start or best.start, done.evaluations
