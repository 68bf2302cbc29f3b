"""What a fit with inducing inputs will cost: one evaluation on some rows is timed, and all is linear in the rows.

The seconds are those of the stages of :mod:`gpclass.hyper.staged.maximize`: about ``EVALUATIONS`` of evidence and gradient
over all rows from neighbouring sites, or one inference where the kernel parameters are fixed; then the draws, if the
inference draws, as many as it may take, and the comparison with the dense prior. The memory is that of the kept blocks,
n m numbers, beside the rows.
Cost: two evaluations on at most ``ROWS`` rows, the comparison, and some draws. Fails when: the ascent needs many more
iterations than usual.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from gpclass._typing import Array
from gpclass.estimators import checks
from gpclass.estimators.planner import Plan
from gpclass.estimators.task import chosen_inference
from gpclass.hyper.staged.climb import SOME_ITERATIONS, growing
from gpclass.hyper.staged.maximize import SparseMaximize
from gpclass.hyper.staged.quality import compare_with_dense
from gpclass.inference.low_rank_exact import EP_TOL, SparseExact, draw
from gpclass.inference.low_rank_sites import SparseEP, iterate
from gpclass.kernels import default_kernel
from gpclass.latent.inducing import sample_rows
from gpclass.latent.low_rank_problem import SparseProblem, make_problem
from gpclass.model.rows import ArraySource, Local, shard_size
from gpclass.numerics.threads import allowed_threads, one_thread
from gpclass.registry import choose_likelihood, for_sparse, get_inference, get_strategy

ROWS = 2000
EVALUATIONS = 20  # over all rows
EARLIER = 4.0  # of the stage on few rows and few inducing inputs, in evaluations on ``ROWS`` rows
SWEEPS = 3.0  # of one inference from nothing, in evaluations from neighbouring sites
OVERHEAD = 40  # numbers a row: sites, their past, labels


def plan_sparse(clf: Any, X: Array, y: Any) -> Plan:
    """Expected cost of ``clf.fit(X, y)`` with inducing inputs."""
    n, d = X.shape
    classes = np.unique(y)
    if len(classes) != 2:
        raise ValueError(f"inducing inputs are for two classes; y has {len(classes)}")
    rng = np.random.default_rng(0)
    rows = sample_rows(n, ROWS, rng)
    inference, strategy = get_inference(clf.inference), get_strategy(clf.hyperparameters)
    likelihood: Any = choose_likelihood(clf.likelihood, inference, len(classes))
    kernel = default_kernel(X[rows]) if clf.kernel is None else checks.check_kernel(clf.kernel, X[rows])
    signs = np.where(y[rows] == classes[1], 1.0, -1.0)
    whole = make_problem(ArraySource(X, np.ones(n)), kernel, likelihood, clf.n_inducing, clf.inducing)
    given = not isinstance(clf.inducing, str)
    part = make_problem(
        ArraySource(X[rows], signs),
        kernel,
        likelihood,
        clf.n_inducing if given or whole.start.m is None else min(whole.start.m, len(rows)),
        clf.inducing if given else "random",
    ).placed(rng)
    part = replace(part, data=replace(part.data, executor=Local(1)))
    with one_thread():
        first = SparseEP().guide(part, gradient=True)
        began = time.perf_counter()
        SparseEP().guide(part.at(part.theta + 0.05), start=first, gradient=True)
        each = (time.perf_counter() - began) * n / len(rows)
    workers = min(allowed_threads(), max(1, n // shard_size(n)))
    each /= workers
    if strategy.name == "fixed":
        inferences, each = 1, SWEEPS * each
    else:
        earlier = EARLIER * len(rows) + SOME_ITERATIONS * sum(
            growing(n, part.basis.m + d, SparseMaximize().some_rows)
        )
        inferences = EVALUATIONS + round(earlier / n)
    last = _last_step(clf, part, strategy, n, workers)
    kept = part.basis.m if whole.keep else 0
    return Plan(
        n=n,
        d=d,
        inference=str(inference.name),
        hyperparameters=str(strategy.name),
        seconds=inferences * each + last,
        memory=8.0 * n * (kept + d + OVERHEAD),
        inferences=inferences,
        seconds_each=each,
        sizes=(len(rows),),
        available_memory=checks.available_memory(),
        last=last,
    )


def _last_step(clf: Any, part: SparseProblem, strategy: Any, n: int, workers: int) -> float:
    """Seconds of what follows the ascent: draws over all rows, and the comparison with the dense prior."""
    inference, strategy = for_sparse(chosen_inference(clf), strategy)
    with one_thread():
        began = time.perf_counter()
        compare_with_dense(part, inference, strategy.dense, np.random.default_rng(0))
        compared = time.perf_counter() - began
        if not isinstance(inference, SparseExact):
            return compared
        ep = iterate(part, "ep", None, SparseEP().max_sweeps, EP_TOL)
        began = time.perf_counter()
        draw(part, ep, inference.first, np.random.default_rng(0))
        each = (time.perf_counter() - began) / inference.first
        return compared + each * (inference.first + inference.most(part.basis.m, n)) * n / part.n / workers
