"""Kernel parameters and inducing inputs that maximise the evidence under the low-rank prior, from few rows to all.

1. A few rows and a few inducing inputs find θ: an evaluation costs a hundredth of one over all rows.
2. k-means on rows divided by these length scales places the inducing inputs.
3. Some rows move θ and Z together, then four times as many, and finally all; each ascent starts from q(u) of the last
   and from its curvature. Each evaluation starts from the sites of the last, so that two to four sweeps suffice; the
   gradient by all m d coordinates of Z costs about as much as three sweeps.
4. The requested inference runs on all rows at the end of the ascent.

Z has many coordinates, and the evidence still rises slowly after predictions no longer improve. So some rows are held
out of all stages (only k-means uses them, without their labels), and the ascent ends when their log loss no longer
falls (``stop="held-out"``), or when an iteration gains little evidence (``stop="evidence"``). The last step uses all
rows.

The state of the ascent (parameters, curvature, sites) is a few arrays: with ``checkpoint`` it is written after every
stage and every iteration over all rows, and a restarted fit continues unchanged.
Cost: iterations × 10 to 20 n m² flops, n the rows of the stage.
Fails when: the evidence has several modes (``n_restarts`` starts from others on the few rows), or a parameter ends on a
bound (reported).
References: Snelson & Ghahramani (2006); Hensman, Matthews & Ghahramani (2015), for minibatches instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpclass._typing import IntArray
from gpclass.hyper.base import Fit, Run, parameters_at_bounds
from gpclass.hyper.maximize import Maximize, bounds_warning
from gpclass.hyper.staged.checkpoint import Checkpoint, between_stages, saying_how_to_go_on, standing, take_up
from gpclass.hyper.staged.climb import Climb, Told
from gpclass.hyper.staged.settings import Stages
from gpclass.hyper.staged.stage import Rule, Stage, Standing, with_inducing
from gpclass.inference.base import Inference
from gpclass.latent.inducing import sample_rows
from gpclass.model.problem import Problem
from gpclass.numerics.lbfgs import Ascent
from gpclass.priors import PriorSet
from gpclass.progress import progress

MAX_ITER, TOL = 60, 1e-5  # over all rows, by default
LOOSE = (
    0.5  # how far sites may be from their fixed point: the evidence is then wrong by a tenth of a nat or so
)
KEPT_INDUCING = {"inducing_inputs": "kept: a part of the kernel has no fast derivative by its inputs"}
FEWEST_LEFT_OUT = 50  # rows needed for an informative log loss


def ascend(
    strategy: Maximize, problem: Problem, inference: Inference, run: Run, prior: PriorSet | None
) -> Fit:
    """Maximise through the stages, then infer on all rows."""
    rng = np.random.default_rng(int(run.rng.integers(2**63)))
    stages, details = strategy.stages, {}
    if stages.move_inducing and not all(covariance.fast for covariance in problem.covariances):
        stages, details = replace(stages, move_inducing=False), dict(KEPT_INDUCING)
    work = _Work(strategy, stages, problem, inference, loose(inference.guide), prior, run, rng)
    fit = work.run_all()
    return fit.with_details(details)


def loose(guide: Inference) -> Inference:
    """The guide with sites as loose as an ascent allows."""
    return guide.with_site_tol(max(guide.site_tol, LOOSE))


@dataclass
class _Work:
    """One ascent from the first rows to the posterior."""

    strategy: Maximize
    stages: Stages
    problem: Problem
    inference: Inference
    guide: Inference
    prior: PriorSet | None
    run: Run
    rng: np.random.Generator

    @property
    def max_iter(self) -> int:
        """Iterations over all rows."""
        return self.strategy.max_iter or MAX_ITER

    def run_all(self) -> Fit:
        """All stages, then the requested inference."""
        strategy, problem, run = self.strategy, self.problem, self.run
        checkpoint, kept = None, None
        if strategy.checkpoint is not None:
            settings = replace(strategy, checkpoint=None)
            checkpoint = Checkpoint.of(Path(strategy.checkpoint), problem, settings, self.guide, run.priors)
            kept = checkpoint.load()
        label = f"{strategy.name} ({self.inference.name})"
        with progress(self.max_iter, label, verbose=run.verbose) as bar, saying_how_to_go_on(checkpoint):
            absent = self._left_out(problem.n)
            climb = Climb(
                self.stages,
                self.guide,
                self.prior,
                run.n_restarts,
                run.n_jobs,
                self.rng,
                absent,
                Told(bar, label),
            )
            if kept is not None:
                climb.absent = kept["absent"].astype(np.intp) if len(kept["absent"]) else None
                climb.evaluations = int(kept["earlier_evaluations"])
            stage, state = self._ascend(climb, kept, checkpoint)
            climb.told.rows(problem.n, "the posterior")
            chosen = stage.chosen(state)
            hit = parameters_at_bounds(chosen, chosen.theta)
            figures = {"evaluations": climb.evaluations + state.evaluations, "at_bounds": hit or None}
            posterior = self.inference(chosen, run.rng.spawn(1)[0], start=stage.back())
        details: dict[str, Any] = {"ascent_ended_by": stage.reason(state)}
        if climb.absent is not None:
            details |= {
                "rows_left_out": len(climb.absent),
                "log_loss_left_out": stage.losses[-1] if stage.losses else None,
            }
        warned = (bounds_warning(chosen, hit, self.prior is not None),) if hit else ()
        return Fit(chosen, posterior, figures=figures, warnings=warned).with_details(details)

    def _ascend(
        self, climb: Climb, kept: dict[str, Any] | None, checkpoint: Checkpoint | None
    ) -> tuple[Stage, Ascent]:
        """The stages before all rows, then all, resumed from a file if there is one."""
        problem = self.problem
        if kept is None or between_stages(kept):
            begun = None if kept is None else standing(kept, problem, climb.guide.name, climb.rng)
            at, kept = climb.run(problem, begun, checkpoint), None
        else:
            at = Standing(with_inducing(problem.at(kept["theta0"]), kept["Z0"]), None, ())
        start, earlier = at.problem, at.earlier
        climb.told.rows(start.n, f"at most {self.max_iter} steps")
        unit = kept["unit"] if kept is not None else None if earlier is None else earlier.unit
        rule = Rule(
            self.max_iter, self.strategy.tol or TOL, self.stages.window, self.stages.gain, to_the_end=True
        )
        stage = Stage(
            start,
            climb.guide,
            rule,
            climb.prior,
            self.stages.move_inducing,
            climb.absent,
            given_unit=unit,
            tell=climb.told.bar.update,
            near=None if earlier is None else earlier.near,
        )

        def save(state: Ascent) -> None:
            if checkpoint is not None:
                checkpoint.save(stage, state, start, climb.evaluations)

        return stage, stage.run(None if kept is None else take_up(stage, kept), save, earlier)

    def _left_out(self, n: int) -> IntArray | None:
        """Rows to hold out during the ascent, or None."""
        rng = self.rng.spawn(1)[0]
        count = min(self.stages.held_out, n // 10)
        if self.stages.stop != "held-out" or count < FEWEST_LEFT_OUT:
            return None
        return sample_rows(n, count, rng)
