"""Kernel parameters and inducing inputs that maximise the evidence under the low-rank prior, from few rows to all.

1. A few rows and a few inducing inputs find θ: an evaluation costs a hundredth of one over all rows.
2. k-means on rows divided by the length scales that were found places the inducing inputs.
3. Some rows move θ and Z together, then four times as many, and at last all; each ascent starts from q(u) of the last
   and from its memory of the curvature. Each evaluation starts from the sites of the last, so that two to four sweeps
   suffice; the gradient by all m d coordinates of Z costs about as much as three sweeps.
4. The inference that was asked for, at the end of the ascent, on all rows.

Z has many coordinates, and the evidence goes on rising slowly after predictions no longer improve. So some rows are
left out of all stages (k-means alone sees them, without their labels), and the ascent ends when their log loss no
longer falls (``stop="held-out"``), or when an iteration gains little evidence (``stop="evidence"``). The last step uses
all rows.

The state of the ascent (parameters, memory, sites) is a few arrays: with ``checkpoint`` it is written after every
iteration over all rows, and a fit that is started again continues as if it had not stopped.
Cost: iterations × 10 to 20 n m² flops, n the rows of the stage.
Fails when: the evidence has several modes (``n_restarts`` climbs from others on the few rows), or a parameter ends on a
bound (reported).
References: Snelson & Ghahramani (2006); Hensman, Matthews & Ghahramani (2015), for minibatches instead.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed

from gpclass._settings import check_settings
from gpclass._typing import Array
from gpclass.checks import available_memory
from gpclass.hyper.base import Fit, Run, parameters_at_bounds
from gpclass.hyper.maximize import bounds_warning
from gpclass.priors import PriorSet, resolve_priors
from gpclass.progress import Progress, progress
from gpclass.sparse.checkpoint import Checkpoint, take_up
from gpclass.sparse.gaussian import Q, Warm
from gpclass.sparse.inducing import sample_rows
from gpclass.sparse.problem import SparseProblem
from gpclass.sparse.quality import compare_with_dense, look_over
from gpclass.sparse.shards import Local
from gpclass.sparse.stage import Earlier, Rule, Stage, let_go

STOPS = ("held-out", "evidence")
KEPT_INDUCING = {"inducing_inputs": "kept: a part of the kernel has no fast derivative by its inputs"}
FEW_INDUCING = 100  # of the first stage
FEW_ITERATIONS = 30  # of the first stage
EARLY_TOL = 1e-4  # of the stages before all rows
SOME_ITERATIONS = 16  # of a stage on some rows: more would fit Z to them alone
EARLY_GAIN = 1e-4  # of the log loss of left-out rows, without which such a stage ends
GROWTH = 4  # of the rows from one such stage to the next
ROOM = 0.1  # share of the free memory that a part of the rows may take
FEWEST_LEFT_OUT = 50  # rows whose log loss says something
FEWEST_OF_A_CLASS = 10  # rows, without which a stage on a part of the rows is left out


@dataclass(frozen=True)
class SparseFixed:
    """Kernel parameters as given; the inducing inputs are placed and stay."""

    dense: Any = None  # the inference to compare with

    name: ClassVar[str] = "fixed"

    def __call__(self, problem: SparseProblem, inference: Any, run: Run) -> Fit:
        """One inference."""
        return finished(problem.placed(run.rng), inference, self.dense, run, None, {"evaluations": 1})


@dataclass(frozen=True)
class SparseMaximize:
    """Settings of evidence maximisation under the low-rank prior.

    Parameters
    ----------
    max_iter : int
        Largest number of iterations over all rows.
    tol : float
        Stop when an iteration gains less than this share of the log evidence.
    stop : {"held-out", "evidence"}
        Whether rows are left out whose log loss ends the ascent, or the evidence alone does.
    window : int
        Iterations over which the log loss must fall by ``gain``.
    gain : float
        See ``window``; where the log loss is small, a fiftieth of it.
    held_out : int
        Rows to leave out during the ascent, at most a tenth of all.
    move_inducing : bool
        Whether the inducing inputs are learned too; with a kernel that has no fast derivative by its inputs they stay.
    few_rows, some_rows : int
        Rows of the first stages; a stage is left out when there are fewer than twice as many rows. ``some_rows`` grow
        fourfold from stage to stage as long as twice as many are there and memory allows.
    checkpoint : path, optional
        File that the ascent over all rows is written to after every iteration, and taken up from.
    """

    max_iter: int = 60
    tol: float = 1e-5
    stop: str = "held-out"
    window: int = 4
    gain: float = 1e-3
    held_out: int = 2000
    move_inducing: bool = True
    few_rows: int = 2000
    some_rows: int = 6000
    checkpoint: str | os.PathLike[str] | None = None
    prior: bool = field(default=False, repr=False)  # whether priors count: ``map``
    dense: Any = field(default=None, repr=False)  # the inference to compare with

    def __post_init__(self) -> None:
        whole = ("max_iter", "window", "held_out", "few_rows", "some_rows")
        check_settings(self, positive=("tol", "gain"), whole=whole)
        if self.stop not in STOPS:
            raise ValueError(f"SparseMaximize: stop must be one of {STOPS}, got {self.stop!r}")

    @property
    def name(self) -> str:
        """Its name in the registry."""
        return "map" if self.prior else "maximize"

    def __call__(self, problem: SparseProblem, inference: Any, run: Run) -> Fit:
        """Climb through the stages, then infer."""
        rng = np.random.default_rng(int(run.rng.integers(2**63)))
        if self.move_inducing and not problem.covariance.fast:
            return with_details(
                replace(self, move_inducing=False)(problem, inference, replace(run, rng=rng)), KEPT_INDUCING
            )
        guide = getattr(inference, "guide", inference)
        prior = resolve_priors(run.priors, problem.names, problem.theta) if self.prior else None
        checkpoint, kept = None, None
        if self.checkpoint is not None:
            settings = replace(self, checkpoint=None, dense=None)
            checkpoint = Checkpoint.of(Path(self.checkpoint), problem, settings, guide, run.priors)
            kept = checkpoint.load()
        label = f"{self.name} ({inference.name})"
        with progress(self.max_iter, label, verbose=run.verbose) as bar:
            if kept is None:
                absent = self._left_out(problem.n, rng.spawn(1)[0])
            else:
                absent = kept["absent"].astype(np.intp) if len(kept["absent"]) else None
            climb = Climb(self, guide, prior, run.n_restarts, run.n_jobs, rng, absent, Told(bar, label))
            if kept is not None:
                climb.evaluations = int(kept["earlier_evaluations"])
            earlier: Earlier | None = None
            if kept is None:
                start, earlier = climb.first_stages(problem)
                unit = None if earlier is None else earlier.unit
            else:
                start, unit = problem.at(kept["theta0"], kept["Z0"]), kept["unit"]
            climb.told.rows(start.n, f"at most {self.max_iter} steps")
            stage = Stage(
                start,
                guide,
                Rule(self.max_iter, self.tol, self.window, self.gain, to_the_end=True),
                prior,
                self.move_inducing,
                absent,
                given_unit=unit,
                tell=bar.update,
                accepted=None if earlier is None else earlier.near,
            )
            try:
                state = stage.run(
                    None if kept is None else take_up(stage, kept),
                    None
                    if checkpoint is None
                    else lambda state: checkpoint.save(stage, state, start, climb.evaluations),
                    earlier,
                )
            except KeyboardInterrupt as stopped:
                if checkpoint is not None and checkpoint.path.exists():
                    stopped.add_note(f"fit again with the same checkpoint, {checkpoint.path}, to go on")
                raise
            climb.told.rows(start.n, "the posterior")
            chosen = stage.chosen(state)
            hit = parameters_at_bounds(chosen, chosen.theta)  # type: ignore[arg-type]  # the same interface
            figures = {"evaluations": climb.evaluations + state.evaluations, "at_bounds": hit or None}
            fit = finished(chosen, inference, self.dense, run, stage.back(), figures)
        details: dict[str, Any] = {"ascent_ended_by": stage.reason(state)}
        if absent is not None:
            details |= {
                "rows_left_out": len(absent),
                "log_loss_left_out": stage.losses[-1] if stage.losses else None,
            }
        warned = (bounds_warning(chosen, hit, self.prior),) if hit else ()  # type: ignore[arg-type]  # the same interface
        return replace(with_details(fit, details), warnings=(*warned, *fit.warnings))

    def _left_out(self, n: int, rng: np.random.Generator) -> Any:
        """Rows to leave out during the ascent, or None."""
        count = min(self.held_out, n // 10)
        if self.stop != "held-out" or count < FEWEST_LEFT_OUT:
            return None
        return sample_rows(n, count, rng)


@dataclass(frozen=True)
class Told:
    """Who is told which stage is under way."""

    bar: Progress
    label: str

    def rows(self, n: int, what: str = "") -> None:
        """So many rows are worked on."""
        self.bar.doing(f"{self.label}, {n:,} rows" + (f", {what}" if what else ""))


@dataclass
class Climb:
    """The stages before all rows."""

    settings: SparseMaximize
    guide: Any
    prior: Any
    n_restarts: int
    n_jobs: int | None
    rng: np.random.Generator
    absent: Any  # rows that no stage may see
    told: Told
    evaluations: int = 0

    def first_stages(self, problem: SparseProblem) -> tuple[SparseProblem, Earlier | None]:
        """θ from few rows, then Z, then both from some rows and from ever more."""
        s, n = self.settings, problem.n
        if n >= 2 * s.few_rows or self.n_restarts:
            few = problem.part(s.few_rows if n >= 2 * s.few_rows else n, self.rng, self.absent)
            if n < 2 * s.few_rows or _of_both(few):
                self.told.rows(few.n)
                problem = problem.at(self._few(few.placed(self.rng, at_most=FEW_INDUCING)))
        problem = problem.placed(self.rng)
        earlier: Earlier | None = None
        sizes = growing(n, problem.basis.m + problem.n_features, s.some_rows) if s.move_inducing else []
        # Where other processes keep the rows, these do the work on more than some of them.
        for rows in sizes if isinstance(problem.data.executor, Local) else sizes[:1]:
            part = problem.part(rows, self.rng, self.absent)
            if _of_both(part):
                self.told.rows(part.n)
                problem, earlier = self._some(problem, part, earlier)
        return problem, earlier

    def _some(
        self, problem: SparseProblem, part: SparseProblem, earlier: Earlier | None
    ) -> tuple[SparseProblem, Earlier]:
        """The problem after an ascent over a part of its rows."""
        rule, name = Rule(SOME_ITERATIONS, EARLY_TOL, self.settings.window, EARLY_GAIN), self.guide.name
        look = None if self.absent is None else problem.take(self.absent)
        near, unit = (None, None) if earlier is None else (earlier.near, earlier.unit)
        stage = Stage(part, self.guide, rule, self.prior, left_out=look, given_unit=unit, accepted=near)
        state = stage.run(earlier=earlier)
        self.evaluations += state.evaluations
        some, last = stage.chosen(state), stage.accepted
        near = Warm((), name, Q(last.mean, last.L, last.mean)) if name != "laplace" else None
        return problem.at(some.theta, some.Z), Earlier(state, stage.count, stage.unit, near)

    def _few(self, problem: SparseProblem) -> Array:
        """The best θ of climbs from the given parameters and from random ones within the bounds."""
        low, high = problem.bounds.T
        starts = [np.clip(problem.theta, low, high)]
        if self.n_restarts:
            if not (np.isfinite(low).all() and np.isfinite(high).all()):
                raise ValueError("n_restarts > 0 needs finite bounds for every kernel parameter")
            starts += list(self.rng.uniform(low, high, size=(self.n_restarts, len(low))))
        if len(starts) == 1:
            found = [climb_few(problem.at(starts[0]), self.guide, self.prior)]
        else:
            jobs = Parallel(n_jobs=self.n_jobs)
            found = jobs(delayed(climb_few)(problem.at(theta), self.guide, self.prior) for theta in starts)
        self.evaluations += sum(ended.evaluations for ended in found)
        best = max(found, key=lambda ended: ended.value)
        if best.refused is not None:
            raise best.refused
        return best.theta


@dataclass(frozen=True)
class Climbed:
    """Where an ascent in θ over few rows ended, or why it could not begin."""

    value: float
    theta: Array
    evaluations: int = 0
    refused: ValueError | None = None


def climb_few(problem: SparseProblem, guide: Any, prior: PriorSet | None) -> Climbed:
    """An ascent in θ by evidence alone. A random start may be hopeless: the others are there."""
    stage = Stage(problem, guide, Rule(FEW_ITERATIONS, EARLY_TOL), prior, free_Z=False)
    try:
        state = stage.run()
    except ValueError as error:
        return Climbed(-np.inf, problem.theta, refused=error)
    return Climbed(state.value, stage.chosen(state).theta, state.evaluations)


def growing(n: int, columns: int, first: int) -> list[int]:
    """Rows of the stages between few and all: a part of the rows is read into this process, so memory ends them."""
    most = ROOM * available_memory() / (8.0 * columns)
    sizes, rows = [], first
    while n >= 2 * rows and rows <= most:
        sizes.append(rows)
        rows *= GROWTH
    return sizes


def _of_both(part: SparseProblem) -> bool:
    """Whether there are enough rows of both classes to learn from: of a rare one few rows may have none."""
    y = np.concatenate([shard.y for shard in part.data.executor.fetch(part.data.held)])
    return bool(min(np.sum(y > 0), np.sum(y < 0)) >= FEWEST_OF_A_CLASS)


def finished(
    problem: SparseProblem, inference: Any, dense: Any, run: Run, start: Any, figures: dict[str, Any]
) -> Fit:
    """The inference on all rows, looked over and compared with the dense one."""
    rng = run.rng.spawn(2)
    posterior = inference(problem, rng[0], start=start)
    details, advice = look_over(problem), None
    if dense is not None:
        compared, advice = compare_with_dense(problem, inference, dense, rng[1])
        details = {**compared, **details}
    problem.map_reduce(let_go, problem.data.held)  # a fitted model keeps its sites, not n m numbers
    warned = () if advice is None else (advice,)
    same: Any = problem  # the interface of a dense problem, as far as a fit needs it
    return with_details(Fit(same, posterior, figures=figures, warnings=warned), details)


def with_details(fit: Fit, details: dict[str, Any]) -> Fit:
    """The fit with more figures in its posterior's report."""
    posterior: Any = fit.posterior
    report = replace(posterior.report, details={**posterior.report.details, **details})
    return replace(fit, posterior=replace(posterior, report=report))
