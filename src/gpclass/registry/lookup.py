"""From a name, or an object that stands for itself, to a configured method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpclass.hyper.base import Inference, Strategy
from gpclass.names import did_you_mean
from gpclass.registry.rows import INFERENCES, STRATEGIES, Method


def get_inference(spec: Any) -> Inference:
    """A configured inference from its name, or the object itself."""
    inference: Inference = _get(spec, INFERENCES, "inference")
    return inference


def get_strategy(spec: Any) -> Strategy:
    """A configured strategy from its name, or the object itself."""
    strategy: Strategy = _get(spec, STRATEGIES, "hyperparameters")
    return strategy


def _get(spec: Any, table: Mapping[str, Method], what: str) -> Any:
    if isinstance(spec, str):
        if spec not in table:
            raise ValueError(
                f"{what}={spec!r} is not known{did_you_mean(spec, table)} The names are {', '.join(map(repr, table))}"
            )
        return table[spec].factory()
    if isinstance(spec, type) or not callable(spec) or not hasattr(spec, "name"):
        raise ValueError(
            f"{what} must be one of {', '.join(map(repr, table))} or a configured object such as "
            f"{next(iter(table.values())).factory()!r}, got {spec!r}"
        )
    return spec
