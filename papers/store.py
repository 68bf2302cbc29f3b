"""Cells of a long table, each written to disk when measured and not measured again.

A cell is a dictionary of numbers, stored as JSON under a name together with its settings and the CPU seconds that it
took; with other settings it is measured again. A run may have a limit of time: after it cells that are stored are still
answered, others raise :class:`NoTime`, and a later run goes on from there.
Cells are written to ``results``, which is not part of the repository. Those that took long are also in
``papers/<paper>/measured.json``, which is (:mod:`papers.keep`), and are answered from there on any machine.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from papers.common import RESULTS, ROOT

PAPERS = ROOT / "papers"  # each folder may have a file of measured cells
MEASURED = "measured.json"


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
    repository: ClassVar[set[Path]] = set()  # of these the ones that the repository answered
    new: ClassVar[set[Path]] = set()  # cells measured now
    whole: ClassVar[dict[Path, float]] = {}  # of every cell that was used, whether stored or measured now
    measured = 0.0

    @classmethod
    def clear(cls) -> None:
        """Before an experiment."""
        for each in (cls.stored, cls.repository, cls.new):
            each.clear()

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
    assembled: bool = False,
) -> dict[str, Any]:
    """The result of ``measure``, or the stored result for these settings.

    A cell ``assembled`` from others takes no time of its own: it is made after the limit too, if these are stored, and
    its seconds are theirs.
    """
    path = (results or RESULTS) / paper / "cells" / f"{name}.json"
    wanted = json.loads(json.dumps(dict(settings)))
    kept = _stored(path, paper, wanted)
    if kept is not None:
        seconds = kept.get("seconds", 0.0)
        if "name" in kept and path not in Spent.stored:
            Spent.repository.add(path)
        Spent.stored.setdefault(path, seconds)
        Spent.whole.setdefault(path, seconds)
        return dict(kept["found"])
    if time.monotonic() > Limit.end and not assembled:
        Limit.reached = True
        raise NoTime(f"{name} is not measured yet; the same command goes on from there")
    begin, before, used = time.process_time(), Spent.measured, set(Spent.whole)
    found = {key: np.asarray(value).tolist() for key, value in measure().items()}
    whole = time.process_time() - begin
    seconds, Spent.measured = whole - (Spent.measured - before), before + whole  # cells inside have their own
    if assembled:
        seconds += sum(each for inside, each in Spent.whole.items() if inside not in used)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps({"settings": wanted, "found": found, "seconds": seconds}), encoding="utf-8")
    beside.replace(path)  # atomic
    Spent.new.add(path)
    Spent.stored.setdefault(path, 0.0)  # the process's own time has it
    Spent.whole.setdefault(path, seconds)
    return found


def _stored(path: Path, paper: str, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """The cell of these settings with its seconds: of the results, or of the repository."""
    if path.exists() and path.stat().st_mtime >= Limit.oldest:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["settings"] == wanted:
            return dict(kept)
    if Limit.oldest > 0.0:
        return None
    known = PAPERS / paper / MEASURED
    each = _measured(known, known.stat().st_mtime_ns) if known.exists() else []
    return next((one for one in each if one["name"] == path.stem and one["settings"] == wanted), None)


@lru_cache(maxsize=16)
def _measured(path: Path, changed: int) -> list[dict[str, Any]]:
    """The cells of a file that was last changed then."""
    return read_measured(path)


def read_measured(path: Path) -> list[dict[str, Any]]:
    """The cells of the repository: name, settings, result and seconds of each; none if there is no file."""
    return list(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else []
