"""Cells of a long table, each written to disk when measured and not measured again.

A cell is a dictionary of numbers, stored as JSON under a name together with its settings; with other settings it is
measured again. A run may have a limit of time: after it cells that are stored are still answered, others raise
:class:`NoTime`, and a later run goes on from there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from papers.common import RESULTS


class NoTime(Exception):
    """The run's time is over and the cell is not measured."""


class Limit:
    """The end of the run, in seconds of ``time.monotonic``, and whether a cell has been refused since it was set."""

    end = float("inf")
    reached = False

    @classmethod
    def set(cls, minutes: float | None) -> None:
        """From now on."""
        cls.reached = False
        cls.end = float("inf") if minutes is None else time.monotonic() + 60.0 * minutes


def cell(
    paper: str,
    name: str,
    settings: Mapping[str, Any],
    measure: Callable[[], dict[str, Any]],
    results: Path = RESULTS,
) -> dict[str, Any]:
    """The result of ``measure``, or the stored result for these settings."""
    path = results / paper / "cells" / f"{name}.json"
    wanted = json.loads(json.dumps(dict(settings)))
    if path.exists():
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["settings"] == wanted:
            return dict(kept["found"])
    if time.monotonic() > Limit.end:
        Limit.reached = True
        raise NoTime(f"{name} is not measured yet; the same command goes on from there")
    found = {key: np.asarray(value).tolist() for key, value in measure().items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps({"settings": wanted, "found": found}), encoding="utf-8")
    beside.replace(path)  # atomic
    return found
