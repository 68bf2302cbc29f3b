"""From a name, or an object that stands for itself, to a configured method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from gpclass.hyper.base import Strategy
from gpclass.inference.base import Inference
from gpclass.names import did_you_mean
from gpclass.registry.rows import INFERENCES, STRATEGIES, Method

T = TypeVar("T", Inference, Strategy)


def get_inference(spec: Any) -> Inference:
    """A configured inference from its name, or the object itself."""
    return _get(spec, INFERENCES, "inference", Inference)


def get_strategy(spec: Any) -> Strategy:
    """A configured strategy from its name, or the object itself."""
    return _get(spec, STRATEGIES, "hyperparameters", Strategy)


def _get(spec: Any, table: Mapping[str, Method], what: str, kind: type[T]) -> T:
    if isinstance(spec, kind):
        return spec
    if isinstance(spec, str):
        if spec not in table:
            raise ValueError(
                f"{what}={spec!r} is not known{did_you_mean(spec, table)} The names are {', '.join(map(repr, table))}"
            )
        found: T = table[spec].factory()
        return found
    raise ValueError(
        f"{what} must be one of {', '.join(map(repr, table))} or a configured object such as "
        f"{next(iter(table.values())).factory()!r}, got {spec!r}"
    )
