"""From command line options to an estimator."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Any

from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from gpclass.cli.errors import Mistake
from gpclass.estimators.classifier import GPClassifier
from gpclass.kernels import linear
from gpclass.likelihoods import LIKELIHOODS
from gpclass.registry import INFERENCES, STRATEGIES

# All lists of choices come from the registry.
InferenceName = Enum("InferenceName", {name: name for name in INFERENCES}, type=str)  # type: ignore[misc]
StrategyName = Enum("StrategyName", {name: name for name in STRATEGIES}, type=str)  # type: ignore[misc]
LikelihoodName = Enum(  # type: ignore[misc]  # its members are not known to mypy
    "LikelihoodName", {name: name for name in ("auto", *LIKELIHOODS)}, type=str
)

# The estimator's own defaults.
METHOD = InferenceName(GPClassifier().inference)
STRATEGY = StrategyName(GPClassifier().hyperparameters)
LIKELIHOOD = LikelihoodName(GPClassifier().likelihood)


# Kernels; their lengths are in standard deviations of the features.
KernelName = StrEnum("KernelName", ["rbf", "ard", "matern12", "matern32", "matern52", "linear"])


def make_kernel(name: KernelName, d: int) -> Any:
    """A kernel for d features; None stands for the estimator's default."""
    if name is KernelName.rbf:
        return None
    if name is KernelName.linear:
        return linear()
    lengths = (1e-2, 1e3)
    if name is KernelName.ard:
        shape = RBF([max(1.0, d**0.5)] * d, lengths)
    else:
        nu = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}[name.value]
        shape = Matern(max(1.0, d**0.5), lengths, nu=nu)
    return ConstantKernel(1.0, (1e-3, 1e4)) * shape + ConstantKernel(1.0, (1e-4, 1e3))


def make_classifier(
    inference: str,
    strategy: str,
    *,
    kernel: Any = None,
    likelihood: str = "auto",
    tol: float = 1e-3,
    restarts: int = 0,
    inducing: int | str | None = None,
    jobs: int | None = None,
    seed: int | None = 0,
    verbose: int = 0,
) -> Any:
    """A classifier; without an evidence gradient it takes the kernel parameters that EP finds on the same rows."""
    from gpclass.compare.presets import WithKernelOf

    common: dict[str, Any] = {"kernel": kernel, "random_state": seed, "tol": tol, "verbose": verbose}
    search: dict[str, Any] = {"hyperparameters": strategy, "n_restarts": restarts, "n_jobs": jobs}
    if inducing is not None:
        common["n_inducing"] = inducing
    row = INFERENCES[inference]
    handled = row.likelihoods
    if likelihood != "auto" and likelihood not in handled:
        raise Mistake(
            f"--method {inference} does not support --likelihood {likelihood}; it supports {', '.join(handled)}"
        )
    if row.gradient or strategy not in ("maximize", "map"):
        return GPClassifier(inference=inference, likelihood=likelihood, **common, **search)
    guide = GPClassifier(inference="ep", likelihood=likelihood, **common, **search)
    return WithKernelOf(guide, GPClassifier(inference=inference, likelihood=likelihood, **common))
