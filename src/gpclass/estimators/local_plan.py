"""The cost of a fit with the local prior: learning θ on some rows and on patches, and one inference in blocks.

The inference is timed on some blocks; its time and memory are linear in the rows.
Cost: one inference on at most ``ROWS`` rows, and a plan of the search, under the prior that it uses.
Fails when: a strategy other than ``maximize``, ``map`` and ``fixed`` needs many more inferences than ``OTHERS``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpclass._typing import Array
from gpclass.estimators.planner import Plan, plan_fit, seconds_of
from gpclass.estimators.task import array_task
from gpclass.hyper.patches import ASCENTS, STEPS
from gpclass.latent.inducing import sample_of_classes
from gpclass.latent.local import FEW, patched, search_form
from gpclass.numerics.threads import few_threads

ROWS = 1500
OTHERS = 50  # inferences of a strategy that works in the blocks
SEARCHES = ("maximize", "map")  # strategies that learn θ on some rows


def plan_local(clf: Any, X: Array, y: Any, classes: Any = None) -> Plan:
    """Expected cost of ``clf.fit(X, y)`` with the local prior."""
    n, d = X.shape
    classes = np.unique(y) if classes is None else classes
    rng = np.random.default_rng(0)
    rows = sample_of_classes(y, ROWS, rng)
    task = array_task(clf, X[rows], y[rows], None, classes)
    methods, problem = task.methods, task.problem.placed(rng)
    with few_threads(n):
        each = seconds_of(lambda: methods.inference(problem, rng)) * n / len(rows)
    form: Any = problem.form
    memory, learned = form.bytes_of(n, d, len(problem.kernels)), 0.0
    calls = 1 if methods.strategy.name in ("fixed", *SEARCHES) else OTHERS
    if methods.strategy.name in SEARCHES:
        few = sample_of_classes(y, FEW, rng)
        asked = type(clf)(**{**clf.get_params(deep=False), "latent_prior": search_form(len(few), d, problem.n_latents)})
        search = plan_fit(asked, X[few], y[few], classes=classes)
        adjusted = 2 * ASCENTS * STEPS * patched(n, d) / n  # inferences: two for each evaluation
        memory, learned = memory + search.memory, search.seconds + adjusted * each
    names = methods.inference.name, methods.strategy.name
    return Plan(n, d, *names, memory, inferences=calls, seconds_each=each, sizes=(len(rows),), last=learned)
