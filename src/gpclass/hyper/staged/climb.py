"""The stages of an ascent before the one over all rows: few rows find θ, then more and more move θ and Z together.

:mod:`gpclass.hyper.staged.ascent` tells the whole way. Between two stages the climb is a few arrays, a
:class:`~gpclass.hyper.staged.stage.Standing`, which a checkpoint keeps.
Fails when: a random start of a restart has no finite evidence (skipped, unless all have none).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from gpclass._typing import Array, IntArray
from gpclass.hyper.base import Run
from gpclass.hyper.staged.checkpoint import Checkpoint
from gpclass.hyper.staged.settings import Stages
from gpclass.hyper.staged.stage import Earlier, Rule, Stage, Standing, inducing, with_inducing
from gpclass.hyper.starts import elsewhere, found_nothing, starting_points
from gpclass.inference.base import Inference
from gpclass.latent.inducing import sample_rows
from gpclass.model.problem import Problem
from gpclass.model.rows import Executor
from gpclass.numerics.lbfgs import Ascent
from gpclass.numerics.memory import available_memory
from gpclass.priors import PriorSet
from gpclass.progress import Progress

FEW_INDUCING = 100  # of the first stage
FEW_ITERATIONS = 30  # of the first stage
EARLY_TOL = 1e-4  # of the stages before all rows
SOME_ITERATIONS = 16  # of a stage on some rows: more would fit Z to them alone
EARLY_WINDOW, EARLY_GAIN = 4, 1e-4  # iterations, and fall of the log loss of held-out rows, without which it ends
GROWTH = 4  # growth of the rows from one such stage to the next
ROOM = 0.1  # share of the free memory that a part of the rows may take
FEWEST_OF_A_CLASS = 10  # rows, without which a stage on a part of the rows is skipped


@dataclass
class Climb:
    """The stages before all rows."""

    settings: Stages
    guide: Inference
    prior: PriorSet | None
    asked: Run  # its restarts and jobs
    rng: np.random.Generator
    absent: IntArray | None  # rows that no stage may use
    checkpoint: Checkpoint
    bar: Progress
    label: str
    evaluations: int = 0

    def run(self, problem: Problem, at: Standing | None) -> Standing:
        """θ from few rows, then Z, then both from more and more rows; ``at`` is where a file says that it stood."""
        if at is None:
            at = self._begin(problem)
            self.checkpoint.save_between(at, self.absent, self.rng, self.evaluations)
        while at.sizes:
            shared = at.problem.rows.executor if at.sizes[0] > self.settings.some_rows else None
            part = part_of(at.problem, at.sizes[0], self.rng, self.absent, shared)
            at = replace(at, sizes=at.sizes[1:])
            if _of_all_classes(part):
                self.begins(f"{part.n:,} rows")
                at = self._some(at, part)
                self.checkpoint.save_between(at, self.absent, self.rng, self.evaluations)
        return at

    def begins(self, what: str) -> None:
        """Show the stage that begins."""
        self.bar.doing(f"{self.label}, {what}")

    def _begin(self, problem: Problem) -> Standing:
        """θ from few rows, Z placed."""
        s, n = self.settings, problem.n
        if n >= 2 * s.few_rows or self.asked.n_restarts:
            few = part_of(problem, s.few_rows if n >= 2 * s.few_rows else n, self.rng, self.absent)
            if n < 2 * s.few_rows or _of_all_classes(few):
                self.begins(f"{few.n:,} rows")
                placed = few.form.placed(few, self.rng, at_most=FEW_INDUCING)
                problem = problem.at(self._few(replace(few, form=placed)))
        problem = problem.placed(self.rng).at(problem.theta)
        columns = len(inducing(problem)) + problem.n_features
        sizes = growing(n, columns, s.some_rows) if s.move_inducing else []
        return Standing(problem, None, tuple(sizes))

    def _some(self, at: Standing, part: Problem) -> Standing:
        """The end of an ascent over a part of the rows."""
        problem = at.problem
        rule = Rule(SOME_ITERATIONS, EARLY_TOL, min(self.settings.window, EARLY_WINDOW), EARLY_GAIN)
        look = None if self.absent is None else problem.rows.take(self.absent)
        stage = Stage(part, self.guide, rule, self.prior, left_out=look, earlier=at.earlier, tell=self.bar.note)
        state = stage.run()
        self.evaluations += state.evaluations
        some, last = stage.chosen(state), stage.accepted
        near = None if last is None or last.start is None else replace(last.start, held=())
        moved = with_inducing(problem.at(some.theta), inducing(some))
        return replace(at, problem=moved, earlier=Earlier(state, stage.count, stage.unit, near))

    def _few(self, problem: Problem) -> Array:
        """The best θ of ascents from the given parameters and from random ones within the bounds."""
        starts = starting_points(problem, self.asked.n_restarts, self.rng)
        work = (delayed(climb_few)(problem.at(theta), self.guide, self.prior) for theta in starts)
        found = Parallel(n_jobs=self.asked.n_jobs if len(starts) > 1 else 1)(work)
        ended: list[Ascent] = [one for one in found if isinstance(one, Ascent)]
        if not ended:
            raise found[0]
        best = max(ended, key=lambda state: state.value)
        other = elsewhere(problem) if found_nothing(problem, best.value, self.prior, best.x) else None
        if other is not None:
            again = climb_few(problem.at(other), self.guide, self.prior)
            if isinstance(again, Ascent):
                ended.append(again)
        self.evaluations += sum(state.evaluations for state in ended)
        return problem.at(max(ended, key=lambda state: state.value).x).theta


def climb_few(problem: Problem, guide: Any, prior: PriorSet | None) -> Ascent | ValueError:
    """The end of an ascent in θ by evidence alone, or why it could not begin: a random start may fail."""
    stage = Stage(problem, guide, Rule(FEW_ITERATIONS, EARLY_TOL), prior, free_Z=False)
    try:
        return stage.run()
    except ValueError as error:
        return error


def growing(n: int, columns: int, first: int) -> list[int]:
    """Rows of the stages between few and all: they are read into this process, so memory limits them."""
    most = ROOM * available_memory() / (8.0 * columns)
    sizes, rows = [], first
    while n >= 2 * rows and rows <= most:
        sizes.append(rows)
        rows *= GROWTH
    return sizes


def part_of(
    problem: Problem,
    rows: int,
    rng: np.random.Generator,
    without: IntArray | None,
    executor: Executor | None = None,
) -> Problem:
    """The same model on a random part of the rows, without those that it must not use, in memory or on workers."""
    chosen = sample_rows(problem.n, rows, rng)
    if without is not None:
        chosen = np.setdiff1d(chosen, without, assume_unique=True)
    return replace(problem, form=problem.form.for_few_rows()).on(*problem.rows.take(chosen), executor)


def _of_all_classes(part: Problem) -> bool:
    """Whether there are enough rows of every class to learn from: few rows may contain none of a rare one."""
    y = part.likelihood.decode(part.y)
    return bool(np.bincount(y, minlength=part.n_classes).min() >= FEWEST_OF_A_CLASS)
