"""From a name, or a configured object, to a configured method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpclass.hyper.base import Strategy
from gpclass.inference.base import Inference
from gpclass.names import did_you_mean
from gpclass.registry.rows import INFERENCES, STRATEGIES, Method, T_co


def get_inference(spec: Any) -> Inference:
    """A configured inference from its name, or the object itself."""
    if isinstance(spec, Inference):
        return spec
    return _configured(spec, INFERENCES, "inference")


def get_strategy(spec: Any) -> Strategy:
    """A configured strategy from its name, or the object itself."""
    if isinstance(spec, Strategy):
        return spec
    return _configured(spec, STRATEGIES, "hyperparameters")


def _configured(spec: Any, table: Mapping[str, Method[T_co]], what: str) -> T_co:
    if not isinstance(spec, str):
        raise ValueError(
            f"{what} must be one of {', '.join(map(repr, table))} or a configured object such as "
            f"{next(iter(table.values())).default!r}, got {spec!r}"
        )
    if spec not in table:
        raise ValueError(
            f"{what}={spec!r} is not known{did_you_mean(spec, table)} The names are {', '.join(map(repr, table))}"
        )
    return table[spec].factory()
