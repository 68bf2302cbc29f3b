"""Checks of the settings of inferences and strategies, made wherever a settings object is."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

SHARE, REAL, NONZERO = "a number between 0 and 1", "a finite number", "a finite number other than 0"


class Settings:
    """A dataclass of settings, each checked by its type: a whole number from 1, a positive number, bounds, or a flag.

    ``limits`` says what a field must be instead: the least of whole numbers, names to choose from, SHARE, REAL or
    NONZERO. None, and other settings, are valid where the type says so.
    """

    limits: ClassVar[Mapping[str, Any]] = {}

    def __post_init__(self) -> None:
        limits = ChainMap(*(vars(cls).get("limits", {}) for cls in type(self).__mro__))
        for field in fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            kind, value = str(getattr(field.type, "__name__", field.type)), getattr(self, field.name)
            check(f"{type(self).__name__}: {field.name}", value, kind, limits.get(field.name))


def check(name: str, value: Any, kind: str, limit: Any = None) -> None:
    """Refuse a value that is not of a type, such as ``"int | None"``, or not within its limit."""
    kinds = kind.split(" | ")
    what, sound = _rule(kinds[0], limit)
    if sound(value) or (value is None and "None" in kinds):
        return
    chosen = isinstance(limit, tuple) and isinstance(value, str) and value in limit
    named = {cls.__name__ for cls in type(value).__mro__ if issubclass(cls, Settings)}
    if not (chosen or named & set(kinds)):
        raise ValueError(f"{name} must be {what}, got {value!r}")


@cache
def _rule(kind: str, limit: Any) -> tuple[str, Callable[[Any], bool]]:
    """What a value must be, in words and as a test."""
    others = "".join(f" or {name!r}" for name in limit) if isinstance(limit, tuple) else ""
    if limit == SHARE:
        return SHARE, lambda value: _is(value, Real) and 0 < value < 1
    if limit in (REAL, NONZERO):
        return limit, lambda value: _is(value, Real) and math.isfinite(value) and (limit == REAL or value != 0)
    if kind == "int":
        least = 1 if limit is None else limit
        return f"a whole number of at least {least}", lambda value: _is(value, Integral) and value >= least
    if kind == "float":
        return f"a positive number{others}", lambda value: _is(value, Real) and 0 < value < math.inf
    if kind == "tuple[float, float]":
        return f"a pair with 0 < low <= high{others}", _are_bounds
    if kind == "bool":
        return "True or False", lambda value: isinstance(value, bool | np.bool_)
    if limit is not None:
        return f"one of {', '.join(map(repr, limit))}", lambda value: False
    return "", lambda value: True


def _are_bounds(value: Any) -> bool:
    return np.shape(value) == (2,) and all(_is(end, Real) for end in value) and 0 < value[0] <= value[1] < math.inf


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
