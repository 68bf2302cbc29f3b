"""Cells of a long table, each written to disk when measured and not measured again.

A cell is a dictionary of numbers, stored as JSON under a name together with its settings and the CPU seconds that it
took; with other settings it is measured again. A run may have a limit of time: after it cells that are stored are still
answered, others raise :class:`NoTime`, and a later run goes on from there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from papers.common import RESULTS


class NoTime(Exception):
    """The run's time is over and the cell is not measured."""


class Limit:
    """The end of the run, in seconds of ``time.monotonic``, and whether a cell has been refused since it was set."""

    end = float("inf")
    reached = False
    oldest = 0.0  # cells stored before, in seconds of ``time.time``, are measured again

    @classmethod
    def set(cls, minutes: float | None, again: bool = False) -> None:
        """From now on."""
        cls.reached = False
        cls.end = float("inf") if minutes is None else time.monotonic() + 60.0 * minutes
        cls.oldest = time.time() if again else 0.0


class Spent:
    """CPU seconds of cells: of those that earlier runs stored and this experiment used, and of those measured now."""

    stored: ClassVar[dict[Path, float]] = {}
    measured = 0.0

    @classmethod
    def earlier(cls) -> float:
        """Seconds that earlier runs spent on this experiment's cells; each cell counts once."""
        return sum(cls.stored.values())


def cell(
    paper: str,
    name: str,
    settings: Mapping[str, Any],
    measure: Callable[[], dict[str, Any]],
    results: Path | None = None,
) -> dict[str, Any]:
    """The result of ``measure``, or the stored result for these settings."""
    path = (results or RESULTS) / paper / "cells" / f"{name}.json"
    wanted = json.loads(json.dumps(dict(settings)))
    if path.exists() and path.stat().st_mtime >= Limit.oldest:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["settings"] == wanted:
            Spent.stored.setdefault(path, kept.get("seconds", 0.0))
            return dict(kept["found"])
    if time.monotonic() > Limit.end:
        Limit.reached = True
        raise NoTime(f"{name} is not measured yet; the same command goes on from there")
    begin, before = time.process_time(), Spent.measured
    found = {key: np.asarray(value).tolist() for key, value in measure().items()}
    whole = time.process_time() - begin
    seconds, Spent.measured = whole - (Spent.measured - before), before + whole  # cells inside have their own
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps({"settings": wanted, "found": found, "seconds": seconds}), encoding="utf-8")
    beside.replace(path)  # atomic
    Spent.stored.setdefault(path, 0.0)  # the process's own time has it
    return found
