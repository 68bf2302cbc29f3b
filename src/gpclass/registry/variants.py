"""The method that stands behind another one for many classes, or under the low-rank prior of inducing inputs.

Settings that both have, and that the caller changed, are kept; the others have the variant's own defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from gpclass.hyper.base import Inference, Strategy
from gpclass.registry.rows import INFERENCES, STRATEGIES, Method


def for_many(inference: Inference) -> Any:
    """The inference for many classes that stands behind one for two."""
    row = INFERENCES.get(inference.name)
    if row is None or row.many is None:
        return inference  # a user's own inference: let it speak for itself
    return _with_settings_of(inference, row, row.many())


def for_sparse(inference: Inference, strategy: Strategy) -> tuple[Any, Any]:
    """The inference and the strategy under the low-rank prior that stand behind those for the dense one."""
    found = _sparse(inference, INFERENCES, "inference")
    dense = INFERENCES[inference.name].factory() if found is inference else inference
    return found, replace(_sparse(strategy, STRATEGIES, "hyperparameters"), dense=dense)


def _sparse(one: Any, table: Mapping[str, Method], what: str) -> Any:
    row = table.get(one.name)
    if row is None or row.sparse is None:
        able = [name for name, other in table.items() if other.sparse is not None]
        raise ValueError(
            f"{what}={one.name!r} does not run with inducing inputs; {what} may be {', '.join(map(repr, able))}, "
            "or n_inducing=None for the dense model"
        )
    return _with_settings_of(one, row, row.sparse())


def _with_settings_of(one: Any, row: Method, variant: Any) -> Any:
    """The variant of a row's method, with the settings of ``one`` that were changed; ``one`` if it is one already."""
    if isinstance(one, type(variant)):
        return one
    usual = row.factory()
    names = [f.name for f in fields(variant) if hasattr(one, f.name) and hasattr(usual, f.name)]
    return replace(variant, **{k: getattr(one, k) for k in names if getattr(one, k) != getattr(usual, k)})
