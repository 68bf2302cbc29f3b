"""Kernel parameters and inducing inputs that maximise the evidence under the low-rank prior, from few rows to all.

1. A few rows and a few inducing inputs find θ: an evaluation costs a hundredth of one over all rows.
2. k-means on rows divided by these length scales places the inducing inputs.
3. Some rows move θ and Z together, then four times as many, and finally all; each ascent starts from q(u) of the last
   and from its curvature. Each evaluation starts from the sites of the last, so that two to four sweeps suffice; the
   gradient by all m d coordinates of Z costs about as much as three sweeps.
4. The requested inference runs on all rows at the end of the ascent; if its evidence has a Monte Carlo error, after a
   few steps of θ on that evidence.

Z has many coordinates, and the evidence still rises slowly after predictions no longer improve. So some rows are held
out of all stages (only k-means uses them, without their labels), and the ascent ends when their log loss no longer
falls (``stop="held-out"``), or when an iteration gains little evidence (``stop="evidence"``). Parameters and Z that
never saw a tenth of the rows predict worse, above all if a class is rare. So the rows held out then come back, and a
second ascent over all rows takes a few iterations, the more the larger their share is, and none below a 160th.

The state of the ascent (parameters, curvature, sites) is a few arrays: with ``checkpoint`` it is written after every
stage and every iteration over all rows, and a restarted fit continues unchanged.
Cost: iterations × 10 to 20 n m² flops, n the rows of the stage.
Fails when: the evidence has several modes (``n_restarts`` starts from others on the few rows), or a parameter ends on a
bound (reported).
References: Snelson & Ghahramani (2006); Hensman, Matthews & Ghahramani (2015), for minibatches instead.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gpclass._typing import IntArray
from gpclass.hyper.base import Fit, Run
from gpclass.hyper.climb import Climb as Top
from gpclass.hyper.maximize import Maximize, fit_at, polish
from gpclass.hyper.staged.checkpoint import Before, Checkpoint, ended_of, standing, take_up
from gpclass.hyper.staged.climb import Climb
from gpclass.hyper.staged.stage import Earlier, Rule, Stage, Standing
from gpclass.inference.base import Inference
from gpclass.latent.inducing import sample_rows
from gpclass.latent.low_rank import ROUGH
from gpclass.latent.sites import Start
from gpclass.model.problem import Problem
from gpclass.numerics.lbfgs import Ascent, UndefinedStartError, inverse_curvature
from gpclass.numerics.linalg import NotPositiveDefiniteError
from gpclass.priors import PriorSet
from gpclass.progress import progress

MAX_ITER, TOL = 60, 1e-5  # over all rows, by default
LOOSE = 0.5  # how far sites may be from their fixed point: the evidence is then wrong by about 0.1 nats
KEPT_INDUCING = {"inducing_inputs": "kept: a part of the kernel has no fast derivative by its inputs"}
SEED = 0  # of the last steps: a resumed fit takes the same ones
FEWEST_LEFT_OUT = 50  # rows needed for an informative log loss
BACK = 80.0  # iterations of the second ascent, per unit of the share of the rows that were held out
BACK_AT_MOST = 0.25  # of all iterations


def ascend(strategy: Maximize, problem: Problem, inference: Inference, run: Run, prior: PriorSet | None) -> Fit:
    """Maximise through the stages, then infer on all rows."""
    rng = np.random.default_rng(int(run.rng.integers(2**63)))
    stages, guide = strategy.stages, loose(inference.guide(problem.likelihood))
    details: dict[str, Any] = {}
    if stages.move_inducing and not all(covariance.fast for covariance in problem.covariances):
        stages, details = replace(stages, move_inducing=False), dict(KEPT_INDUCING)
    settings = replace(strategy, checkpoint=None)
    checkpoint = Checkpoint.of(strategy.checkpoint, problem, settings, guide, run.priors)
    kept = checkpoint.load()
    max_iter, label = strategy.max_iter or MAX_ITER, f"{strategy.name} ({inference.name})"
    with progress(max_iter, label, verbose=run.verbose) as bar, checkpoint.saying_how_to_go_on():
        own, count = rng.spawn(1)[0], min(stages.held_out, problem.n // 10)
        learns = stages.move_inducing or len(problem.theta)
        holds_out = stages.stop == "held-out" and count >= FEWEST_LEFT_OUT and learns
        absent, done, ended = sample_rows(problem.n, count, own) if holds_out else None, 0, []
        if kept is not None:
            absent = kept["absent"].astype(np.intp) if len(kept["absent"]) else None
            done, ended = int(kept["earlier_evaluations"]), ended_of(kept)
        climb = Climb(stages, guide, prior, run, rng, absent, checkpoint, bar, label, done)
        at = climb.run(problem, None if kept is None else standing(kept, problem, guide, rng))
        climb.begins(f"{problem.n:,} rows, at most {max_iter} steps")
        tols = (strategy.tol or TOL, stages.window, stages.gain, strategy.gradient_tol)
        for out, iterations, reserved in ascents(max_iter, absent, problem.n)[len(ended) :]:
            rule, free = Rule(iterations, *tols, to_the_end=True, reserved=reserved), stages.move_inducing
            stage = Stage(at.problem, guide, rule, prior, free, out, earlier=at.earlier, tell=bar.update)
            resumed = take_up(stage, kept) if kept is not None and "sites" in kept else None
            save = partial(checkpoint.save, stage, Before(at.problem, climb.evaluations, absent, list(ended)))
            try:
                state = stage.run(resumed, save)
            except UndefinedStartError as error:
                if not ended:
                    raise
                details["all_rows_back"] = f"no ascent: {error}"
                break
            climb.evaluations += state.evaluations
            ended.append({"iterations_with_all_rows": state.iterations} if ended else told(stage, state))
            earlier = Earlier(state, stage.count, stage.unit, stage.back())
            at, guide, kept = Standing(stage.chosen(state), earlier, ()), stage.guide, None
        climb.begins(f"{problem.n:,} rows, the posterior")
        chosen, spent = at.problem, 0
        last = nearer(guide, chosen, earlier.near)
        if inference.evidence_kind == "unbiased" and len(chosen.theta):
            theta, C = chosen.theta, inverse_curvature(state, len(chosen.theta))
            top = Top(theta, state.value, 0, 0, True, "", C, theta, last)
            theta, last, spent = polish(chosen, inference, top, prior, strategy, SEED)
            chosen = chosen.at(theta)
        posterior = inference(chosen, run.rng.spawn(1)[0], start=last)
    for of_one in ended:
        details |= of_one
    return fit_at(chosen, posterior, climb.evaluations + spent, prior).with_details(details)


def ascents(max_iter: int, absent: IntArray | None, n: int) -> list[tuple[IntArray | None, int, int]]:
    """The ascents over all of n rows: rows held out, iterations at most, and those of them reserved for the next."""
    if absent is None:
        return [(None, max_iter, 0)]
    back = min(round(BACK * len(absent) / n), int(BACK_AT_MOST * max_iter))
    return [(absent, max_iter, back), (None, back, 0)][: 2 if back else 1]


def told(stage: Stage, state: Ascent) -> dict[str, Any]:
    """What the report says of an ascent."""
    said: dict[str, Any] = {"ascent_ended_by": stage.reason(state)}
    if stage.absent is not None:
        loss = stage.losses[-1] if stage.losses else None
        said |= {"rows_left_out": len(stage.absent), "log_loss_left_out": loss}
    return said


def nearer(guide: Inference, problem: Problem, start: Start | None) -> Start | None:
    """A start with sites near their fixed point, by sweeps that cost less than those of the last inference."""
    if start is None or not guide.site_tol:
        return start
    try:
        return guide.with_site_tol(min(ROUGH, guide.site_tol))(problem, start=start).start
    except (NotPositiveDefiniteError, np.linalg.LinAlgError, FloatingPointError):
        return start


def loose(guide: Inference) -> Inference:
    """The guide with sites as loose as an ascent allows."""
    return guide.with_site_tol(max(guide.site_tol, LOOSE))
