"""Cells of a long table, each written to disk as soon as it is measured and not measured again.

A cell is a dictionary of numbers, kept as JSON under a name together with the settings that it was measured with; asked
for with other settings it is measured anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from papers.common import RESULTS


def cell(
    paper: str,
    name: str,
    settings: Mapping[str, Any],
    measure: Callable[[], dict[str, Any]],
    results: Path = RESULTS,
) -> dict[str, Any]:
    """What ``measure`` finds, or found when it was last asked with these settings."""
    path = results / paper / "cells" / f"{name}.json"
    wanted = json.loads(json.dumps(dict(settings)))
    if path.exists():
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["settings"] == wanted:
            return dict(kept["found"])
    found = {key: np.asarray(value).tolist() for key, value in measure().items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps({"settings": wanted, "found": found}), encoding="utf-8")
    beside.replace(path)  # a cell is there whole or not at all
    return found
