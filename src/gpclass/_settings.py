"""Checks of the settings of inferences and strategies, called where a settings object is made."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any


def check_settings(settings: Any, *, positive: tuple[str, ...] = (), whole: tuple[str, ...] = ()) -> None:
    """Refuse settings that are no positive numbers, or no whole numbers of at least 1; None is left alone."""
    for name in positive:
        value = getattr(settings, name)
        if value is not None and not (isinstance(value, Real) and float(value) > 0):
            raise ValueError(f"{type(settings).__name__}: {name} must be a positive number, got {value!r}")
    for name in whole:
        value = getattr(settings, name)
        if value is not None and not (isinstance(value, Integral) and int(value) >= 1):
            raise ValueError(
                f"{type(settings).__name__}: {name} must be a whole number of at least 1, got {value!r}"
            )
