"""The cost of a fit with neighbours: one evaluation on rows that lie close together is timed, and the factor counted.

The sparse factor of all rows is planned, not computed, so that its work and memory are known. Beyond the timed rows the
time grows linearly, and with the work of the factor that is more than linear, at the speed of a matrix product. Of rows
in tiles the largest is planned, and counts for all of them.
Cost: two evaluations on at most ``ROWS`` rows, and the neighbours of all rows. Fails when: the ascent needs many more
evaluations than usual.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gpclass._typing import Array
from gpclass.estimators.planner import Plan, seconds_of
from gpclass.estimators.task import array_task
from gpclass.latent.cliques import Cliques, scaled
from gpclass.latent.neighbour_prior import NeighbourPrior
from gpclass.latent.neighbours import ENOUGH, FEW, bytes_of
from gpclass.latent.tiles import TiledPrior
from gpclass.model.problem import Problem
from gpclass.numerics.spread import spreads
from gpclass.numerics.threads import few_threads

ROWS = 1500
ON_PART, ON_ALL = 12, 8  # evaluations of an ascent that begins, and of one that goes on over all rows
SWEEPS = 6.0  # of an evaluation from neighbouring sites
INVERSE = 3.0  # work of a factor and the entries of its inverse, over that of the factor
POWER = 1.5  # of the rows with which the work of a factor grows
SIZE = 500  # of the matrix product that is timed


def plan_neighbours(clf: Any, X: Array, y: Any, classes: Any = None) -> Plan:
    """Expected cost of ``clf.fit(X, y)`` with neighbours."""
    n, d = X.shape
    task = array_task(clf, X, y, None, classes)
    whole, methods, rng = task.problem.placed(np.random.default_rng(0)), task.methods, np.random.default_rng(0)
    gaps = np.square((X - X[rng.integers(n)]) / spreads(X)).sum(axis=1)
    rows = np.argsort(gaps, kind="stable")[:ROWS]
    if len(np.unique(y[rows])) < len(np.unique(y)):
        rows = rng.choice(n, min(n, ROWS), replace=False)
    asked: Any = task.problem.form
    placed: Any = whole.form
    form = replace(asked, near=None, k=placed.near.shape[1], tile=0)
    part = replace(task.problem, form=form).subset(rows).placed(rng)
    guide = methods.inference.guide(methods.likelihood)
    with few_threads(n):
        first = guide(part, gradient=True)
        each = seconds_of(lambda: guide(part.at(part.theta + 0.05), start=first.start, gradient=True))
        block = np.ones((SIZE, SIZE))
        speed = seconds_of(lambda: block @ block) / SIZE**3

    def seconds(size: int, work: float) -> float:
        extra = max(work - _work(part) * size / len(rows), 0.0)
        return each * size / len(rows) + INVERSE * SWEEPS * speed * extra

    all_rows, few = seconds(n, _work(whole)), 0.0
    if methods.strategy.name == "fixed":
        calls = 1
    elif n < 2 * FEW:
        calls = ON_PART + 2
    else:
        calls, few = ON_ALL + 2, ON_PART * seconds(FEW, _work(part) * FEW / len(rows))
        if n >= 2 * ENOUGH and methods.strategy.name in ("maximize", "map"):
            work = _work(whole) * (ENOUGH / n) ** POWER
            calls, few = 2, few + calls * seconds(ENOUGH, work)  # one, from the first sites
    cliques, tiles = _factor(whole)
    k = cliques.k if tiles > 1 else 0
    return Plan(
        n,
        d,
        methods.inference.name,
        methods.strategy.name,
        memory=bytes_of(cliques, whole, k) + 8.0 * n * (d + 2 * (0 if whole.inducing is None else len(whole.inducing))),
        inferences=calls,
        seconds_each=all_rows,
        sizes=(len(rows),),
        last=few,
    )


def _factor(problem: Problem) -> tuple[Cliques, int]:
    """The cliques of the largest factor, and how many there are."""
    prior = problem.prior
    if isinstance(prior, TiledPrior):
        X = scaled(problem.kernels[0], problem.X)
        return prior.layout.largest(prior.near, X), len(prior.layout.cores)
    assert isinstance(prior, NeighbourPrior)
    return prior.cliques, 1


def _work(problem: Problem) -> float:
    """Multiply-adds of a factor, or of those of all tiles."""
    cliques, tiles = _factor(problem)
    return tiles * cliques.tree.flops * problem.n_latents**3
