"""From an estimator's settings and data to what is to be done: a problem, an inference and a strategy for it.

Two classes or many, the dense prior or the one of inducing inputs, rows in an array or elsewhere: it is decided here,
once, and what does not go together is refused with the reason.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.gaussian_process.kernels import CompoundKernel, Kernel

from gpclass._typing import Array
from gpclass.data.sources import as_source
from gpclass.estimators import checks
from gpclass.hyper.base import Fit, Inference, Run, Strategy
from gpclass.kernels import default_kernel
from gpclass.latent import inducing
from gpclass.latent.low_rank_problem import SparseProblem, make_problem
from gpclass.likelihoods import MultiLikelihood
from gpclass.likelihoods.binary import BinaryLikelihood
from gpclass.model.labels import Rows, encode
from gpclass.model.many_problem import MultiProblem
from gpclass.model.problem import Problem
from gpclass.model.rows import ArraySource
from gpclass.numerics.threads import few_threads, one_thread, workers
from gpclass.registry import (
    check_pair,
    choose_likelihood,
    for_many,
    for_sparse,
    get_inference,
    get_strategy,
)

LOOK = 2000  # rows that a kernel is checked against, and started from, where there are inducing inputs


Methods: TypeAlias = "tuple[Inference, Strategy, BinaryLikelihood | MultiLikelihood]"


@dataclass(frozen=True)
class Task:
    """A strategy with all that it is given, but for the random numbers."""

    problem: Any
    inference: Any
    strategy: Any
    classes: npt.NDArray[Any]

    def run(self, run: Run) -> Fit:
        """Find the kernel parameters and the posterior."""
        threads = one_thread() if isinstance(self.problem, SparseProblem) else few_threads(self.problem.n)
        with threads, workers(run.n_jobs):
            fit: Fit = self.strategy(self.problem, self.inference, run)
        return fit


def chosen_inference(clf: Any) -> Inference:
    """The inference, with the estimator's tolerance where it is given by name and draws."""
    inference = get_inference(clf.inference)
    if isinstance(clf.inference, str) and getattr(inference, "stochastic", False):
        return replace(inference, tol=float(clf.tol))  # type: ignore[type-var]  # a dataclass, all are
    return inference


def array_task(clf: Any, X: Array, y: Any, sample_weight: Any) -> Task:
    """What ``clf`` asks for on an array (n, d) that was checked."""
    classes, index = encode(y)
    methods = inference, strategy, likelihood = _methods(clf, len(classes))
    rows = Rows(X, index).weighted(classes, sample_weight, clf.class_weight)
    kernel = _kernel(clf, likelihood, rows.X)
    if checks.has_noise(kernel):
        rows = rows.repeated()  # each copy has noise of its own
    if checks.wants_inducing(clf):
        source = ArraySource(rows.X, rows.signs, rows.weights)
        return _sparse_task(clf, source, kernel, classes, methods)
    if isinstance(likelihood, BinaryLikelihood):
        checks.check_memory(len(rows.X))
        if strategy.name != "fixed":
            checks.warn_of_hours(len(rows.X))
        problem = Problem(rows.X, rows.signs, kernel, likelihood, rows.weights)
        return Task(problem, inference, strategy, classes)
    checks.check_memory(len(rows.X), len(classes))
    many = MultiProblem(rows.X, rows.index, len(classes), kernel, likelihood, rows.weights)
    return Task(many, for_many(inference), strategy, classes)


def source_task(clf: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Task, list[str] | None]:
    """What ``clf`` asks for on rows that are not an ordinary array, and the names of their columns."""
    if not checks.wants_inducing(clf):
        what = "folder" if isinstance(X, str | os.PathLike) else type(X).__name__
        raise ValueError(
            f"rows in a {what} are fitted through inducing inputs: set n_inducing, such as n_inducing=300; "
            "or read the rows into an array for the dense model"
        )
    source, classes, names = as_source(X, y, sample_weight, clf.class_weight)
    methods = _methods(clf, len(classes))
    if len(classes) == 2:
        source = replace(source, y=np.where(source.y == 1, 1.0, -1.0))
    some = source.take(inducing.sample_rows(source.n, LOOK, np.random.default_rng(0)))[0]
    return _sparse_task(clf, source, _kernel(clf, methods[2], some), classes, methods), names


def _sparse_task(clf: Any, source: Any, kernel: Kernel, classes: npt.NDArray[Any], methods: Methods) -> Task:
    """What ``clf`` asks for under the low-rank prior."""
    inference, strategy, likelihood = methods
    if not isinstance(likelihood, BinaryLikelihood):
        raise ValueError(
            f"inducing inputs are for two classes with a probit or logit likelihood; y has {len(classes)} classes "
            f"and the likelihood is {likelihood.name!r}; use sklearn.multiclass.OneVsRestClassifier, or "
            "n_inducing=None"
        )
    inference, strategy = for_sparse(inference, strategy)
    problem = make_problem(source, kernel, likelihood, clf.n_inducing, clf.inducing)
    return Task(problem, inference, strategy, classes)


def _methods(clf: Any, n_classes: int) -> Methods:
    """Inference, strategy and likelihood, which go together."""
    inference, strategy = chosen_inference(clf), get_strategy(clf.hyperparameters)
    likelihood = choose_likelihood(clf.likelihood, inference, n_classes)
    check_pair(inference, strategy, likelihood.name)
    return inference, strategy, likelihood


def _kernel(clf: Any, likelihood: BinaryLikelihood | MultiLikelihood, X: Array) -> Kernel:
    """The kernel to start from."""
    if checks.wants_inducing(clf):  # of many rows a sample is enough to look at
        X = X[inducing.sample_rows(len(X), LOOK, np.random.default_rng(0))]
    if clf.kernel is None:
        # Repeated rows do not count, so that a weight of two is the row twice here too.
        return default_kernel(np.unique(X, axis=0))
    kernel = checks.check_kernel(clf.kernel, X)
    if isinstance(kernel, CompoundKernel) and isinstance(likelihood, BinaryLikelihood):
        raise ValueError(
            "a list of kernels, one a class, is for likelihood='softmax' or 'multinomial-probit'; "
            "give one kernel, such as 1.0 * RBF(1.0)"
        )
    return kernel
