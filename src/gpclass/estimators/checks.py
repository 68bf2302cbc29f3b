"""Checks of user input, and warnings for the user."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.gaussian_process.kernels import CompoundKernel, Kernel, WhiteKernel

from gpclass._typing import Array, IntArray
from gpclass.covariance import compile_kernel
from gpclass.hyper.starts import base_rate, learned_nothing, like_a_coin
from gpclass.latent.inducing import FEW_COLUMNS
from gpclass.model.problem import Problem, sample_of
from gpclass.numerics.linalg import factor
from gpclass.numerics.memory import available_memory
from gpclass.numerics.spread import is_constant
from gpclass.posterior import Evidence

DENSE_MATRICES = 8  # n × n arrays at the peak of a dense fit
ORTHANT_MATRICES = 12  # arrays of an orthant of many classes, n (C − 1) coordinates squared
DENSE_ROWS = 15_000  # above it a dense fit takes a day
SLOW_ROWS = 5_000  # above it a dense fit takes most of an hour
DENSE_FLOPS = 500.0  # × n³ of a fit with some fifty evaluations of the evidence
SPEED = 3e10  # flops per second of a common machine
SCALE_RATIO = 1e3  # standard deviations of features that differ more make one length scale meaningless
MOVED = 0.02  # change of a class's share by class weights above which probabilities are visibly not calibrated
LOOK = 5000  # rows whose features are examined
FEW = 50  # rows on which a known kernel is tried


def generator(random_state: Any) -> np.random.Generator:
    """A NumPy Generator from None, a seed, a Generator or a legacy RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(f"random_state must be None, a whole number or a Generator, got {random_state!r}") from error


@contextmanager
def text_explained(X: Any) -> Iterator[None]:
    """Columns of text in a data frame are named, with the cure, where numbers are needed."""
    try:
        yield
    except ValueError as error:
        kinds: Any = getattr(X, "dtypes", None)
        text = [name for name, kind in kinds.items() if not is_number(kind)] if hasattr(kinds, "items") else []
        if not text or "could not convert" not in str(error):
            raise
        names = ", ".join(map(repr, text[:5])) + (", ..." if len(text) > 5 else "")
        raise ValueError(
            f"columns of X that are not numbers: {names}; encode them, or use "
            "gpclass.estimators.tables.TableClassifier, which does"
        ) from error


def is_number(kind: Any) -> bool:
    """Whether a column's type is of numbers or truth values."""
    return getattr(kind, "kind", "O") in "biufc"


def check_jobs(n_jobs: Any) -> None:
    """Reject a number of processes that joblib does not take."""
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise ValueError(
            f"n_jobs must be None or a whole number other than 0, such as -1 for all cores, got {n_jobs!r}"
        )


def dense_hours(n: int, latents: int = 1) -> float:
    """Approximate hours of a dense fit with its kernel parameters learned, on a common machine."""
    return DENSE_FLOPS * float(n) ** 3 * latents / SPEED / 3600.0


def for_many_rows(d: int) -> str:
    """An estimator for many rows of d columns."""
    return f"GPClassifier(inference='ep', {'n_neighbors' if d <= FEW_COLUMNS else 'n_inducing'}='auto')"


def warn_of_hours(n: int, d: int) -> None:
    """Warn before a long dense fit of two classes."""
    if n > SLOW_ROWS:
        warnings.warn(
            f"a dense fit of n = {n} rows takes about {dense_hours(n):.1f} hours with its kernel parameters learned; "
            f"{for_many_rows(d)} takes minutes",
            UserWarning,
            stacklevel=5,
        )


def check_memory(n: int, cure: str, latents: int = 1, *, orthant: bool = False) -> None:
    """Reject a dense fit, with so many latent values per point, that exceeds memory or would take a day."""
    need, have = DENSE_MATRICES * 8.0 * n * n * latents, available_memory()
    if orthant and latents > 1:
        need += ORTHANT_MATRICES * 8.0 * (n * (latents - 1)) ** 2
    if need <= have and n <= DENSE_ROWS:
        return
    hours = dense_hours(n, latents)
    raise ValueError(
        f"a dense Gaussian process on n = {n} points needs about {need / 2**30:.1f} GiB of memory "
        f"({have / 2**30:.1f} GiB are free) and, with its kernel parameters learned, about {hours:.0f} hours; "
        f"{cure}"
    )


def check_copies(n: int, d: int) -> None:
    """Reject weights that stand for more rows than memory holds."""
    need, have = 8.0 * n * (d + 1), available_memory()
    if need > have:
        raise ValueError(
            f"the weights stand for {n} rows, {need / 2**30:.1f} GiB ({have / 2**30:.1f} GiB are free), since a "
            "WhiteKernel gives each copy of a row its own noise; leave it out, or give smaller weights"
        )


def check_kernel(kernel: Any, X: Array) -> Kernel:
    """A copy of the kernel, checked to be a covariance function that fits the columns.

    A list of kernels, or a compound of them, is checked one by one and becomes a compound.
    """
    if isinstance(kernel, CompoundKernel):
        kernel = kernel.kernels
    if isinstance(kernel, (list, tuple)) and kernel:
        return CompoundKernel([check_kernel(part, X) for part in kernel])
    if isinstance(kernel, type) or not isinstance(kernel, Kernel):
        raise ValueError(
            f"kernel must be a scikit-learn kernel such as 1.0 * RBF(1.0), got {kernel!r}; "
            "sklearn.gaussian_process.kernels and gpclass.kernels have constructors"
        )
    kernel = clone(kernel)
    covariance = compile_kernel(kernel)
    # Known kernels are covariances by construction; others are checked on every row.
    spread = np.linspace(0, len(X) - 1, min(len(X), FEW)).astype(int)
    few = X[spread] if covariance.fast else X
    try:
        K = kernel(few)
    except (ValueError, IndexError, TypeError) as error:
        raise ValueError(f"kernel {kernel} does not fit data with {X.shape[1]} columns: {error}") from error
    if K.shape != (len(few), len(few)):
        raise ValueError(f"kernel {kernel} gives shape {K.shape} for {len(few)} points, not a square matrix")
    if not np.all(np.isfinite(K)):
        raise ValueError(
            f"kernel {kernel} gives NaN or infinity on these data; check its parameters and the data's scale"
        )
    if not np.allclose(K, K.T, rtol=1e-8, atol=1e-10 * np.abs(K).max()):
        raise ValueError(
            f"kernel {kernel} is not symmetric: k(x, z) differs from k(z, x); it is not a covariance function"
        )
    factor(K, what=f"the covariance of kernel {kernel}")
    return kernel


def has_noise(kernel: Any) -> bool:
    """Whether a WhiteKernel is part of the kernel: rows at one place then have separate latent values."""
    parts = [kernel, *(value for value in kernel.get_params().values() if isinstance(value, Kernel))]
    return any(isinstance(part, WhiteKernel) for part in parts)


def advice(
    problem: Problem,
    evidence: Evidence | None,
    weighted: tuple[Array, IntArray] | None = None,
    searched: bool = True,
) -> tuple[str, ...]:
    """Warnings for the user about the data and the fit, with the remedy.

    ``weighted`` are the factors of the classes, if they have any, and the rows of each before any weight.
    Kernel parameters that were not ``searched`` may be meant to explain the labels badly, but hardly as a coin would.
    """
    found = [] if weighted is None else _uncalibrated(*weighted)
    X = sample_of(problem, LOOK)
    spread = X.std(axis=0)[~is_constant(X)]
    if len(spread) > 1 and spread.max() > SCALE_RATIO * spread.min():
        found.append(
            f"the features' standard deviations differ by a factor of {spread.max() / spread.min():.0f}; put a "
            "StandardScaler before the classifier: make_pipeline(StandardScaler(), GPClassifier())"
        )
    nothing = learned_nothing if searched else like_a_coin
    if evidence is not None and base_rate(problem) < 0.0 and nothing(problem, evidence.log_z):  # 0: rows of one class
        found.append(
            f"the log evidence, {evidence.log_z:.1f}, is no better than that of the classes' frequencies alone, "
            f"{base_rate(problem):.1f}: the fit has learned nothing from the features; standardise those of "
            "different units, try another kernel or n_restarts=5, or the features may not tell the classes apart"
        )
    return tuple(found)


def _uncalibrated(factors: Array, counts: IntArray) -> list[str]:
    """A warning if factors of the classes, of which there are so many rows, change their shares."""
    seen, weighted = counts / counts.sum(), counts * factors / np.sum(counts * factors)
    k = int(np.argmax(np.abs(weighted - seen)))
    if abs(weighted[k] - seen[k]) < MOVED:
        return []
    return [
        f"class_weight counts a class of {seen[k]:.3g} of the rows as {weighted[k]:.3g}: probabilities are those of "
        "such a population, not calibrated for this one; where errors cost differently, leave the weights out and use "
        "decide(X, costs)"
    ]


def class_factors(class_weight: Any, classes: npt.NDArray[Any], counts: IntArray) -> Array:
    """The factor of every class that ``class_weight`` gives, up to a common one."""
    if isinstance(class_weight, dict):
        return np.array([float(class_weight.get(label, 1.0)) for label in classes.tolist()])
    return np.asarray(1.0 / np.maximum(counts, 1))  # balanced
