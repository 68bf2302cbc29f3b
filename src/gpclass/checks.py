"""Checks at the border: what users give, and what they should be told."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import CompoundKernel, Kernel

from gpclass._typing import Array
from gpclass.covariance import compile_kernel
from gpclass.linalg import factor
from gpclass.posterior import Evidence
from gpclass.problem import Problem

DENSE_MATRICES = 8  # n × n arrays alive at the peak of a dense fit
SCALE_RATIO = 1e3  # standard deviations of features that differ more make one length scale meaningless
NOTHING_LEARNED = 0.01  # nats a point above −log 2 (or the base rate's) that count as something


def generator(random_state: Any) -> np.random.Generator:
    """A NumPy Generator from None, a seed, a Generator or a legacy RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"random_state must be None, a whole number or a Generator, got {random_state!r}"
        ) from error


def available_memory() -> float:
    """Bytes of memory this machine can still give; infinity where the system does not tell."""
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return np.inf


def check_memory(n: int, latents: int = 1) -> None:
    """Refuse a dense fit, with so many latent values a point, that cannot fit into memory."""
    need, have = DENSE_MATRICES * 8.0 * n * n * latents, available_memory()
    if need > have:
        raise ValueError(
            f"a dense Gaussian process on n = {n} points needs about {need / 2**30:.1f} GiB of memory and "
            f"{have / 2**30:.1f} GiB are free; fit a subset of the rows"
        )


def check_kernel(kernel: Any, X: Array) -> Kernel:
    """A copy of the kernel, after a look that it is one, fits the columns and gives a covariance.

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
    few = X[: min(len(X), 200)]
    try:
        K = covariance(few)
    except (ValueError, IndexError, TypeError) as error:
        raise ValueError(f"kernel {kernel} does not fit data with {X.shape[1]} columns: {error}") from error
    if K.shape != (len(few), len(few)):
        raise ValueError(f"kernel {kernel} gives shape {K.shape} for {len(few)} points, not a square matrix")
    if not np.all(np.isfinite(K)):
        raise ValueError(
            f"kernel {kernel} gives NaN or infinity on these data; check its parameters and the data's scale"
        )
    factor(K, what=f"the covariance of kernel {kernel}")
    return kernel


def advice(problem: Problem, evidence: Evidence | None) -> tuple[str, ...]:
    """What a user should hear about the data and the fit, with the cure named."""
    found = []
    spread = problem.X.std(axis=0)
    spread = spread[spread > 0]
    if len(spread) > 1 and spread.max() > SCALE_RATIO * spread.min():
        found.append(
            f"the features' standard deviations differ by a factor of {spread.max() / spread.min():.0f}; put a "
            "StandardScaler before the classifier: make_pipeline(StandardScaler(), GPClassifier())"
        )
    if evidence is not None:
        count = problem.weighted(np.ones(problem.n)).sum()
        chance = -count * np.log(getattr(problem, "n_classes", 2))
        if abs(evidence.log_z - chance) < NOTHING_LEARNED * count:
            found.append(
                f"the log evidence, {evidence.log_z:.1f}, is about that of a coin, {chance:.1f}: the fit has "
                "learned nothing; standardise the features, start from another length scale, or try n_restarts=5"
            )
    return tuple(found)
