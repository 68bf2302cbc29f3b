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
stage and every iteration over all rows, and a fit that is started again continues as if it had not stopped.
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

from gpclass._settings import check_settings
from gpclass.hyper.base import Fit, Run, parameters_at_bounds
from gpclass.hyper.maximize import bounds_warning
from gpclass.hyper.staged.checkpoint import Checkpoint, between_stages, saying_how_to_go_on, standing, take_up
from gpclass.hyper.staged.climb import Climb, Told
from gpclass.hyper.staged.quality import compare_with_dense, look_over
from gpclass.hyper.staged.stage import Rule, Stage, Standing, let_go
from gpclass.latent.inducing import sample_rows
from gpclass.latent.low_rank_problem import SparseProblem
from gpclass.numerics.lbfgs import Ascent
from gpclass.priors import resolve_priors
from gpclass.progress import progress

STOPS = ("held-out", "evidence")
KEPT_INDUCING = {"inducing_inputs": "kept: a part of the kernel has no fast derivative by its inputs"}
FEWEST_LEFT_OUT = 50  # rows whose log loss says something


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
        File that the ascent is written to after every stage and every iteration over all rows, and taken up from.
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
        with progress(self.max_iter, label, verbose=run.verbose) as bar, saying_how_to_go_on(checkpoint):
            absent = self._left_out(problem.n, rng.spawn(1)[0])
            climb = Climb(self, guide, prior, run.n_restarts, run.n_jobs, rng, absent, Told(bar, label))
            if kept is not None:
                climb.absent = kept["absent"].astype(np.intp) if len(kept["absent"]) else None
                climb.evaluations = int(kept["earlier_evaluations"])
            stage, state = self._ascend(climb, problem, kept, checkpoint)
            climb.told.rows(problem.n, "the posterior")
            chosen = stage.chosen(state)
            hit = parameters_at_bounds(chosen, chosen.theta)  # type: ignore[arg-type]  # the same interface
            figures = {"evaluations": climb.evaluations + state.evaluations, "at_bounds": hit or None}
            fit = finished(chosen, inference, self.dense, run, stage.back(), figures)
        details: dict[str, Any] = {"ascent_ended_by": stage.reason(state)}
        if climb.absent is not None:
            details |= {
                "rows_left_out": len(climb.absent),
                "log_loss_left_out": stage.losses[-1] if stage.losses else None,
            }
        warned = (bounds_warning(chosen, hit, self.prior),) if hit else ()  # type: ignore[arg-type]  # the same interface
        return replace(with_details(fit, details), warnings=(*warned, *fit.warnings))

    def _ascend(
        self,
        climb: Climb,
        problem: SparseProblem,
        kept: dict[str, Any] | None,
        checkpoint: Checkpoint | None,
    ) -> tuple[Stage, Ascent]:
        """The stages before all rows, then all, from wherever a file says they stood."""
        if kept is None or between_stages(kept):
            begun = None if kept is None else standing(kept, problem, climb.guide.name, climb.rng)
            at, kept = climb.run(problem, begun, checkpoint), None
        else:
            at = Standing(problem.at(kept["theta0"], kept["Z0"]), None, ())
        start, earlier = at.problem, at.earlier
        climb.told.rows(start.n, f"at most {self.max_iter} steps")
        unit = kept["unit"] if kept is not None else None if earlier is None else earlier.unit
        stage = Stage(
            start,
            climb.guide,
            Rule(self.max_iter, self.tol, self.window, self.gain, to_the_end=True),
            climb.prior,
            self.move_inducing,
            climb.absent,
            given_unit=unit,
            tell=climb.told.bar.update,
            accepted=None if earlier is None else earlier.near,
        )

        def save(state: Ascent) -> None:
            if checkpoint is not None:
                checkpoint.save(stage, state, start, climb.evaluations)

        return stage, stage.run(None if kept is None else take_up(stage, kept), save, earlier)

    def _left_out(self, n: int, rng: np.random.Generator) -> Any:
        """Rows to leave out during the ascent, or None."""
        count = min(self.held_out, n // 10)
        if self.stop != "held-out" or count < FEWEST_LEFT_OUT:
            return None
        return sample_rows(n, count, rng)


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
