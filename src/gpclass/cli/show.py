"""Results on the terminal, or as JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """A value that JSON can hold; NaN and infinities become null."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def emit(value: Any) -> None:
    """Write JSON to standard output."""
    sys.stdout.write(json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n")


def say(text: str = "") -> None:
    """Write a line to standard output."""
    sys.stdout.write(text + "\n")


def answer(text: str, data: Any, as_json: bool) -> None:
    """Write the result of a command to standard output: as text, or its data as JSON."""
    emit(data) if as_json else say(text)


def note(text: str) -> None:
    """Write a line to standard error, separate from the results."""
    sys.stderr.write(text + "\n")


def say_scores(scores: Mapping[str, float]) -> None:
    """Write scores that are defined, if any, to standard error."""
    known = [f"{name} {value:.4g}" for name, value in scores.items() if math.isfinite(value)]
    if known:
        note(", ".join(known))
