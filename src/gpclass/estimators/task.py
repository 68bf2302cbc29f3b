"""From an estimator's settings and data to a task: a problem, an inference and a strategy.

Two classes or many, the dense prior or inducing inputs, rows in an array or elsewhere: decided only here; invalid
combinations are rejected with the reason (:mod:`gpclass.registry.matrix`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from sklearn.gaussian_process.kernels import CompoundKernel, Kernel

from gpclass._typing import Array, IntArray
from gpclass.data.sources import as_source
from gpclass.estimators import checks
from gpclass.hyper.base import Fit, Run, Strategy
from gpclass.hyper.staged.quality import reviewed
from gpclass.hyper.starts import begun
from gpclass.inference.base import Inference
from gpclass.kernels import default_kernel
from gpclass.latent.base import Form
from gpclass.latent.inducing import sample_rows
from gpclass.likelihoods import LIKELIHOODS, Likelihood
from gpclass.model.labels import Labelled, check_learnable, encode
from gpclass.model.problem import Problem
from gpclass.model.rows import ArraySource, Executor, Source
from gpclass.numerics.memory import keep_freed_memory
from gpclass.numerics.threads import few_threads, one_thread, workers
from gpclass.registry import FORMS, check_combination, choose_likelihood, get_form, get_inference, get_strategy

LOOK = 2000  # rows that a kernel is checked against, and started from, with inducing inputs


class Settings(Protocol):
    """What a task reads of an estimator: its parameters, as the user gave them."""

    kernel: Kernel | None
    likelihood: str | Likelihood
    inference: str | Inference
    hyperparameters: str | Strategy
    tol: float
    class_weight: dict[Any, float] | str | None
    latent_prior: str | Form | None
    n_inducing: int | str | None
    inducing: str | Array
    n_neighbors: int | str | None


@dataclass(frozen=True)
class Methods:
    """What an estimator's settings name, for a number of classes and a form of the prior."""

    inference: Inference
    strategy: Strategy
    likelihood: Likelihood

    @classmethod
    def of(cls, clf: Settings, n_classes: int) -> Methods:
        """Inference, strategy and likelihood, checked as a combination."""
        inference, strategy, form = chosen_inference(clf), get_strategy(clf.hyperparameters), type(form_of(clf))
        likelihood = choose_likelihood(clf.likelihood, inference, n_classes, form)
        check_combination(inference, strategy, likelihood, form)
        return cls(inference, strategy, likelihood)


@dataclass(frozen=True)
class Task:
    """A strategy with all its inputs except the random numbers."""

    problem: Problem
    methods: Methods
    classes: npt.NDArray[Any]
    counts: IntArray  # (C,), rows of each class, before any weight
    start_from_data: bool = False  # whether the kernel's length scales are compared with those of the data first

    def run(self, run: Run) -> Fit:
        """Find the kernel parameters and the posterior."""
        keep_freed_memory()
        in_memory = self.problem.form.predicts_from_rows
        with few_threads(self.problem.n) if in_memory else one_thread(), workers(run.n_jobs):
            problem = begun(self.problem) if self.start_from_data else self.problem
            fit = self.methods.strategy(problem, self.methods.inference, run)
            return reviewed(fit, self.methods.inference, run.rng.spawn(1)[0])


def form_of(clf: Settings) -> Form:
    """The form of the prior: ``latent_prior``, or what other parameters ask for; dense by default."""
    asked = [form for form in (cls.asked(clf) for cls in FORMS.values()) if form is not None]
    if clf.latent_prior is None:
        return asked[-1]
    if len(asked) > 1:
        given = [f"{name}={getattr(clf, name)!r}" for name in ("n_inducing", "n_neighbors") if getattr(clf, name)]
        others = " and ".join(given) or "inducing"
        raise ValueError(f"latent_prior={clf.latent_prior!r} and {others} are given; leave one out")
    return get_form(clf.latent_prior)


def full(form: Form) -> bool:
    """Whether a form holds all rows in memory, with their covariance matrices."""
    return "covariance" in form.offers


def chosen_inference(clf: Settings) -> Inference:
    """The inference, with the estimator's tolerance if given by name and if it draws."""
    inference = get_inference(clf.inference)
    return inference.with_tol(float(clf.tol)) if isinstance(clf.inference, str) else inference


def array_task(
    clf: Settings, X: Array, y: Any, sample_weight: Any, named: Any = None, executor: Executor | None = None
) -> Task:
    """The task of ``clf`` on a checked array (n, d); ``named`` are all classes, if the user gives them."""
    classes, index = encode(y, named)
    methods = Methods.of(clf, len(classes))
    rows = Labelled(X, index).weighted(classes, sample_weight, clf.class_weight, named is not None)
    kernel = _kernel(clf, methods.likelihood, rows.X)
    noisy = checks.has_noise(kernel)  # each copy of a row has separate noise
    n = rows.copies if noisy else len(rows.X)
    form = form_of(clf)
    if full(form):
        latents = methods.likelihood.n_latents(len(classes))
        way = methods.inference.way(type(methods.likelihood), form.offers)
        cure = f"use {checks.for_many_rows(X.shape[1])}, or fit a subset of the rows"
        checks.check_memory(n, cure, latents, orthant=way is not None and "box" in way.prior)
        if methods.strategy.name != "fixed" and latents == 1:
            checks.warn_of_hours(n, X.shape[1])
    if noisy:
        checks.check_copies(n, X.shape[1])
        rows = rows.unrolled()
    source = ArraySource(rows.X, rows.index, rows.weights, executor=executor)
    task = _task(clf, source, kernel, methods, classes, np.bincount(index, minlength=len(classes)))
    if methods.strategy.name != "fixed" and len(task.problem.theta):
        check_learnable(rows.index, "kernel parameters", "give a kernel and set hyperparameters='fixed'")
    return task


def source_task(clf: Settings, X: Any, y: Any, sample_weight: Any) -> tuple[Task, list[str] | None]:
    """The task of ``clf`` on rows that are not an ordinary array, and the names of their columns."""
    form = form_of(clf)
    if form.predicts_from_rows and form.reads:
        source, classes, names = as_source(X, y, sample_weight, None)
        form.checked(source.n, source.d, 1)  # before they are read
        rows, index, weights = source.take(np.arange(source.n))
        return array_task(clf, rows, classes[index], weights, executor=source.executor), names
    if form.predicts_from_rows:
        what = "folder" if isinstance(X, str | os.PathLike) else type(X).__name__
        raise ValueError(
            f"rows in a {what} are fitted through inducing inputs, such as n_inducing=300, with "
            f"n_neighbors, or with latent_prior='local'; read them into an array for the prior {form.name!r}"
        )
    source, classes, names = as_source(X, y, sample_weight, clf.class_weight)
    methods = Methods.of(clf, len(classes))
    some = source.take(sample_rows(source.n, LOOK, np.random.default_rng(0)))[0]
    counts = np.bincount(source.y, minlength=len(classes))
    return _task(clf, source, _kernel(clf, methods.likelihood, some), methods, classes, counts), names


def _task(
    clf: Settings, source: Source, kernel: Kernel, methods: Methods, classes: npt.NDArray[Any], counts: IntArray
) -> Task:
    """The task of rows labelled by class indices."""
    kernels = len(kernel.kernels) if isinstance(kernel, CompoundKernel) else 1
    form = form_of(clf).checked(source.n, source.d, kernels)
    relabelled: Any = source
    rows = form.rows(replace(relabelled, y=methods.likelihood.encode(relabelled.y)))
    start_from_data = clf.kernel is not None and not methods.strategy.keeps_start
    problem = Problem(rows, kernel, methods.likelihood, len(classes), form)
    return Task(problem, methods, classes, counts, start_from_data)


def _kernel(clf: Settings, likelihood: Likelihood, X: Array) -> Kernel:
    if not full(form_of(clf)):  # a sample suffices for many rows
        X = X[sample_rows(len(X), LOOK, np.random.default_rng(0))]
    if clf.kernel is None:
        # Repeated rows are excluded, so that a weight of two equals the row twice here too.
        return default_kernel(np.unique(X, axis=0))
    kernel = checks.check_kernel(clf.kernel, X)
    if isinstance(kernel, CompoundKernel) and not likelihood.many:
        able = " or ".join(repr(name) for name, cls in LIKELIHOODS.items() if cls.many)
        raise ValueError(
            f"a list of kernels, one per class, is for likelihood={able}; give one kernel, such as 1.0 * RBF(1.0)"
        )
    return kernel
