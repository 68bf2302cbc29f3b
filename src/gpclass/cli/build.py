"""From command line options to an estimator."""

from __future__ import annotations

from dataclasses import fields, replace
from enum import Enum, StrEnum
from typing import Any

from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from gpclass.cli.errors import Mistake
from gpclass.estimators.classifier import GPClassifier
from gpclass.hyper.base import Strategy
from gpclass.kernels import linear
from gpclass.likelihoods import LIKELIHOODS
from gpclass.registry import FORMS, INFERENCES, STRATEGIES

# All lists of choices come from the registry.
InferenceName = Enum("InferenceName", {name: name for name in INFERENCES}, type=str)  # type: ignore[misc]
StrategyName = Enum("StrategyName", {name: name for name in STRATEGIES}, type=str)  # type: ignore[misc]
LikelihoodName = Enum(  # type: ignore[misc]  # its members are not known to mypy
    "LikelihoodName", {name: name for name in ("auto", *LIKELIHOODS)}, type=str
)
FormName = Enum("FormName", {name: name for name in FORMS}, type=str)  # type: ignore[misc]

# The estimator's own defaults.
METHOD = InferenceName(GPClassifier().inference)
STRATEGY = StrategyName(GPClassifier().hyperparameters)
LIKELIHOOD = LikelihoodName(GPClassifier().likelihood)


# Kernels; their lengths start from the data, and may be in standard deviations of the features or in metres.
KernelName = StrEnum("KernelName", ["rbf", "ard", "matern12", "matern32", "matern52", "linear"])


def make_kernel(name: KernelName, d: int) -> Any:
    """A kernel for d features; None stands for the estimator's default."""
    if name is KernelName.rbf:
        return None
    if name is KernelName.linear:
        return linear()
    lengths = (1e-2, 1e6)
    if name is KernelName.ard:
        shape = RBF([max(1.0, d**0.5)] * d, lengths)
    else:
        nu = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}[name.value]
        shape = Matern(max(1.0, d**0.5), lengths, nu=nu)
    return ConstantKernel(1.0, (1e-3, 1e4)) * shape + ConstantKernel(1.0, (1e-4, 1e3))


def make_strategy(name: str, **asked: Any) -> str | Strategy:
    """The strategy of a name, with the settings that were given; the name alone if none was."""
    given = {option: value for option, value in asked.items() if value is not None}
    row = STRATEGIES[name]
    missing = set(given) - {field.name for field in fields(row.default)}  # type: ignore[arg-type]  # a dataclass
    if missing:
        able = [other for other, one in STRATEGIES.items() if all(hasattr(one.default, option) for option in missing)]
        raise Mistake(f"--hyperparameters {name} takes no --{min(missing)}; these do: {', '.join(able)}")
    chosen: Any = row.default
    return replace(chosen, **given) if given else name


def make_classifier(
    inference: str,
    strategy: str | Strategy,
    *,
    likelihood: str = "auto",
    restarts: int = 0,
    jobs: int | None = None,
    **settings: Any,
) -> Any:
    """A classifier with these settings; without an evidence gradient it takes the kernel parameters that EP finds."""
    from gpclass.compare.presets import WithKernelOf

    row = INFERENCES[inference]
    if likelihood not in ("auto", *row.likelihoods):
        raise Mistake(
            f"--method {inference} does not support --likelihood {likelihood}; it supports {', '.join(row.likelihoods)}"
        )
    search: dict[str, Any] = {"hyperparameters": strategy, "n_restarts": restarts, "n_jobs": jobs}
    classifier = GPClassifier(inference=inference, likelihood=likelihood, **settings)
    if row.gradient or getattr(strategy, "name", strategy) not in ("maximize", "map"):
        return classifier.set_params(**search)
    guide = GPClassifier(inference="ep", likelihood=likelihood, **settings, **search)
    return WithKernelOf(guide, classifier)
