"""Checks of the settings of inferences and strategies, called where a settings object is made."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any


def check_settings(
    settings: Any,
    *,
    positive: tuple[str, ...] = (),
    whole: tuple[str, ...] = (),
    share: tuple[str, ...] = (),
) -> None:
    """Refuse settings that are no positive numbers, whole numbers of at least 1 or shares; None is left alone."""
    rules: tuple[tuple[tuple[str, ...], str, Callable[[Any], bool]], ...] = (
        (positive, "a positive number", lambda value: isinstance(value, Real) and float(value) > 0),
        (
            whole,
            "a whole number of at least 1",
            lambda value: isinstance(value, Integral) and int(value) >= 1,
        ),
        (share, "between 0 and 1", lambda value: isinstance(value, Real) and 0 < float(value) < 1),
    )
    for names, what, sound in rules:
        for name in names:
            value = getattr(settings, name)
            if value is not None and not sound(value):
                raise ValueError(f"{type(settings).__name__}: {name} must be {what}, got {value!r}")
