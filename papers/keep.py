"""``python -m papers.keep [paper ...]``: put finished cells of long runs into the repository.

Cells (:mod:`papers.store`) of ``results`` go into ``papers/<paper>/measured.json``, one line each, sorted, where any
later run finds them. Left out are those of the usual and the quick size, which take minutes, and those with many
numbers, such as chains: what is assembled from them is kept. A cell replaces the one with the same name and settings;
with other settings it stands beside it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from papers.common import RESULTS
from papers.store import MEASURED, PAPERS, read_measured

SHORT = ("usual-", "quick-")  # how names of cells of these sizes begin
LARGEST = 8000  # characters of a cell
DIGITS = 3  # of seconds, after the point


def main(argv: Sequence[str] | None = None, *, results: Path = RESULTS, papers: Path = PAPERS) -> dict[str, int]:
    """The command line; how many cells of each paper are new or other than before."""
    parser = argparse.ArgumentParser(prog="python -m papers.keep", description="Finished cells into the repository")
    known = sorted(path.parent.name for path in results.glob("*/cells"))
    parser.add_argument("papers", nargs="*", help="all with results, by default")
    changed = {}
    for paper in parser.parse_args(argv).papers or known:
        path = papers / paper / MEASURED
        if path.parent.is_dir():
            changed[paper] = keep(results / paper / "cells", path)
            print(f"{paper}: {changed[paper]} cells new or changed, {len(read_measured(path))} in {path}")
    return changed


def keep(cells: Path, path: Path) -> int:
    """Add the finished cells of a folder to the file; how many of them it did not have."""
    before = {_key(one): one for one in read_measured(path)}
    found = {_key(one): one for one in map(_cell, sorted(cells.glob("*.json"))) if one is not None}
    changed = [key for key, one in found.items() if before.get(key) != one]
    if changed:
        each = {**before, **found}
        lines = ",\n".join(json.dumps(each[key], ensure_ascii=False) for key in sorted(each))
        beside = path.with_suffix(".new")
        beside.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        beside.replace(path)
    return len(changed)


def _cell(path: Path) -> dict[str, Any] | None:
    """A cell as the repository has it; None if that is not for it."""
    text = path.read_text(encoding="utf-8")
    if path.stem.startswith(SHORT) or len(text) > LARGEST:
        return None
    kept = json.loads(text)
    seconds = round(kept.get("seconds", 0.0), DIGITS)
    return {"name": path.stem, "settings": kept["settings"], "found": kept["found"], "seconds": seconds}


def _key(one: dict[str, Any]) -> tuple[str, str]:
    return one["name"], json.dumps(one["settings"], sort_keys=True)


if __name__ == "__main__":
    main()
