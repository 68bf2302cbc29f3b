"""The cost of a fit with inducing inputs: one evaluation on some rows is timed, and extrapolated linearly.

The seconds are those of the stages of :mod:`gpclass.hyper.staged.ascent`: about ``EVALUATIONS`` of evidence and
gradient over all rows from neighbouring sites, or one inference if the kernel parameters are fixed; then the largest
number of draws, if the inference draws, and the comparison with the dense prior. The memory is that of the stored
blocks, n m numbers, in addition to the rows.
Cost: two evaluations on at most ``ROWS`` rows, the comparison, and some draws. Fails when: the ascent needs many more
iterations than usual.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gpclass._typing import Array
from gpclass.estimators.planner import Plan, seconds_of
from gpclass.estimators.task import array_task, form_of
from gpclass.hyper.staged.ascent import loose
from gpclass.hyper.staged.climb import SOME_ITERATIONS, growing
from gpclass.hyper.staged.quality import compare_with_dense
from gpclass.hyper.staged.settings import Stages
from gpclass.inference.base import Inference
from gpclass.latent.inducing import choose_inducing, sample_rows
from gpclass.model.problem import Problem
from gpclass.model.rows import ArraySource, Local, shard_size
from gpclass.numerics.threads import allowed_threads, one_thread

ROWS = 2000
EVALUATIONS = 25  # over all rows
EARLIER = 4.0  # of the stage on few rows and few inducing inputs, in evaluations on ``ROWS`` rows
SWEEPS = 3.0  # of one inference from a cold start, in evaluations from neighbouring sites
DRAWS = 1000  # whose time is measured
OVERHEAD = 40  # numbers per row: sites, their history, labels


def plan_inducing(clf: Any, X: Array, y: Any, classes: Any = None) -> Plan:
    """Expected cost of ``clf.fit(X, y)`` with inducing inputs."""
    n, d = X.shape
    rows = sample_rows(n, ROWS, np.random.default_rng(0))
    form: Any = form_of(clf)
    form = form.checked(n, d, 1)
    # The task of these rows, its inducing inputs placed at random, on one thread.
    few, m = form, form.m
    if m is None and isinstance(form.how, str):  # as many as all rows get
        m = _chosen_of_all(clf, form, X, X[rows], y[rows], classes)
    if m is not None and isinstance(form.how, str):
        few = replace(form, m=min(m, len(rows)), how="random")
    asked = {**clf.get_params(deep=False), "latent_prior": few, "n_inducing": None, "inducing": "kmeans"}
    task = array_task(type(clf)(**asked), X[rows], y[rows], None, classes)
    problem = task.problem.placed(np.random.default_rng(0))
    problem = replace(problem, rows=replace(problem.rows, executor=Local(1)))
    methods, L = task.methods, problem.n_latents
    guide = loose(methods.inference.guide(methods.likelihood))
    with one_thread():
        first = guide(problem, gradient=True)
        again = problem.at(problem.theta + 0.05)
        each = seconds_of(lambda: guide(again, start=first.start, gradient=True)) * n / len(rows)
    workers = min(allowed_threads(), max(1, n // shard_size(n)))
    each /= workers
    placed = len(problem.inducing) if problem.inducing is not None else 0
    if methods.strategy.name == "fixed":
        inferences, each = 1, SWEEPS * each
    else:
        earlier = EARLIER * len(rows) + SOME_ITERATIONS * sum(growing(n, placed + d, Stages().some_rows))
        inferences = EVALUATIONS + round(earlier / n)
    last = _last_step(problem, methods.inference, n, workers)
    kernels = len(problem.kernels)
    kept = placed * kernels if form.checked(n, d, kernels).keep else 0
    return Plan(
        n,
        d,
        methods.inference.name,
        methods.strategy.name,
        memory=8.0 * (n * (kept + d + OVERHEAD * L) + 4 * (L * placed) ** 2),
        inferences=inferences,
        seconds_each=each,
        sizes=(len(rows),),
        last=last,
    )


def _chosen_of_all(clf: Any, form: Any, X: Array, some: Array, y: Any, classes: Any) -> int:
    """How many inducing inputs "auto" takes for all rows, at the kernel parameters that the search begins with."""
    asked = {**clf.get_params(deep=False), "latent_prior": replace(form, m=2), "n_inducing": None, "inducing": "kmeans"}
    problem = array_task(type(clf)(**asked), some, y, None, classes).problem
    source, rng = ArraySource(X, np.zeros(len(X))), np.random.default_rng(0)
    return len(choose_inducing(source, problem.kernels[0], None, "random", rng, problem.n_latents))


def _last_step(part: Problem, inference: Inference, n: int, workers: int) -> float:
    """Seconds after the ascent: draws over all rows, and the comparison with the dense prior."""
    with one_thread():
        compared = seconds_of(lambda: compare_with_dense(part, inference, np.random.default_rng(0)))
        most = inference.most_draws(part, n)
        if most == 0:
            return compared
        one, many = (seconds_of(partial(inference.for_chains(M), part)) for M in (1, DRAWS))
        each = max(many - one, 0.0) / DRAWS
        return compared + each * (DRAWS + most) * n / part.n / workers
