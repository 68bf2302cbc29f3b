"""Kernel parameters of a stand-in, adjusted to the density of all rows.

A prior that learns θ on few of the rows, or with inducing inputs, does not see the detail that all rows show. It may
offer *patches*: groups of rows that lie close together, at the density of all, independent of each other
(:meth:`gpclass.latent.base.Form.patches`). Their evidence is maximised from θ of the stand-in. At another θ other rows
are near, so that patches are taken anew for a second ascent.

Patches say little about longer distances. So some rows are held out of the end and predicted from those near them with
both θ, and the new one is taken if its log loss is smaller. If it is not, both ascents are repeated with patches that
have a level each, of a large variance: if one class is rare, patches without would each have to learn again how rare it
is, for which long length scales are the best. Where classes are balanced these levels hide what patches tell.
Cost: 30 to 60 evaluations on some thousand rows, and two or three inferences on the rows near those held out.
Fails when: the inference fails on patches (θ is then kept, and the report says so); differences of the log loss are
within its error over some hundred rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpclass._typing import IntArray
from gpclass.hyper.base import Run
from gpclass.hyper.climb import Objective, climb_apart
from gpclass.inference.base import Inference
from gpclass.model.problem import Problem
from gpclass.predict import in_blocks, predict_proba
from gpclass.priors import PriorSet
from gpclass.progress import progress

ASCENTS, STEPS = 2, 15  # on patches, and iterations of each
HELD_OUT = 1000  # rows, at most a tenth of all
WORSE = "no: held-out rows are predicted no better"


@dataclass(frozen=True)
class Adjusted:
    """The problem at adjusted parameters, or at those that it had."""

    problem: Problem
    evaluations: int = 0
    details: dict[str, Any] = field(default_factory=dict)


def adjusted(
    problem: Problem, guide: Inference, run: Run, prior: PriorSet | None, label: str, **limits: Any
) -> Adjusted:
    """The problem at θ of its patches, if its form has any; with the ``guide``, and the limits of an ascent."""
    rows = np.sort(run.rng.choice(problem.n, min(HELD_OUT, problem.n // 10), replace=False))
    losses: list[float] = []
    spent = 0
    details: dict[str, Any] = {}
    with progress(label=f"{label}, patches", verbose=run.verbose) as bar:
        for level in (False, True):
            at = problem
            for _ in range(ASCENTS):
                patches = at.form.patches(at, run.rng, level)
                if patches is None:
                    return Adjusted(problem)
                objective = Objective(patches, guide, prior, int(run.rng.integers(2**63)), tell=bar.update)
                found = climb_apart(objective, at.theta, one_unit=True, **limits)
                spent, details["rows_of_patches"] = spent + found.evaluations, patches.n
                if found.refused is not None:
                    return Adjusted(problem, spent, {**details, "adjusted_on_patches": f"no: {found.refused}"})
                at = at.at(found.theta)
            losses += [held_out_loss(one, rows, guide, run) for one in ([at] if losses else [problem, at])]
            details |= {"rows_held_out": len(rows), "log_loss_held_out": losses[0], "log_loss_adjusted": losses[-1]}
            if losses[-1] < losses[0]:
                how = "yes, with a level each" if level else "yes"
                return Adjusted(at, spent + len(losses), {**details, "adjusted_on_patches": how})
    return Adjusted(problem, spent + len(losses), {**details, "adjusted_on_patches": WORSE})


def held_out_loss(problem: Problem, rows: IntArray, guide: Inference, run: Run) -> float:
    """Log loss of some rows, predicted from the others; infinite if the inference fails."""
    try:
        posterior = guide(problem.form.without(problem, rows, run.rng), run.rng)
    except ValueError:
        return np.inf
    likelihood, held = problem.likelihood, problem.subset(rows)
    log_p = in_blocks(held.X, posterior, lambda latent: predict_proba(latent, likelihood)).log_proba
    own = log_p[np.arange(len(rows)), likelihood.decode(held.y)]
    return -float(np.average(own, weights=held.weights))
