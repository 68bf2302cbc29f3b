"""Results of whole experiments, kept and taken up again; and what is left to do of a long run.

A section is stored as JSON when it is measured, with its settings and a digest of the code that made it: the package,
and the paper's folder. An interrupted run goes on where it stopped; after any change of code it is measured again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gpclass.numerics.fingerprint import fingerprint
from papers.common import ROOT, Section, Table, Verdict, missing, tell

REST = "with the repository's cells"  # in the file: what is left of an experiment whose long cells the repository has
SECONDS = ROOT / "papers" / "seconds.json"  # of CPU, by size, paper and experiment: what a run may expect


@dataclass(frozen=True)
class Kept:
    """A section as it is stored, and what it took."""

    section: Section
    written: tuple[Path, ...]  # tables and figures
    seconds: float  # of CPU, with those of earlier runs whose cells it used
    lacking: tuple[str, ...] = ()  # data sets that it left out


def stored(path: Path, key: Mapping[str, Any]) -> Kept | None:
    """The result in the file, if it was made with this key, and its tables and figures are still there.

    A section that left a data set out is not answered once the set can be had.
    """
    if not path.is_file():
        return None
    kept = json.loads(path.read_text(encoding="utf-8"))
    written = tuple(Path(name) for name in kept["written"])
    if kept["key"] != json.loads(json.dumps(dict(key))) or not all(one.is_file() for one in written):
        return None
    if not all(missing(name) for name in kept["lacking"]):
        return None
    found = kept["section"]
    tables = tuple(
        Table(t["name"], tuple(t["columns"]), tuple(tuple(row) for row in t["rows"]), t["caption"])
        for t in found["tables"]
    )
    verdicts = tuple(Verdict(**verdict) for verdict in found["verdicts"])
    section = Section(found["name"], found["title"], tables, verdicts, tuple(found["notes"]))
    return Kept(section, written, kept["seconds"], tuple(kept["lacking"]))


def store(path: Path, key: Mapping[str, Any], kept: Kept) -> None:
    """Write the result, at once or not at all."""
    found = {"section": _parts(kept.section), "seconds": kept.seconds, "lacking": kept.lacking}
    _write(path, {"key": dict(key), "written": [str(one) for one in kept.written], **found})


def publish(path: Path, command: str, kept: Kept) -> None:
    """Write the result for the repository: its numbers in full, the command that made them and the CPU seconds."""
    _write(path, {"command": command, "seconds": round(kept.seconds, 1), **_parts(kept.section)}, indent=1)


def _parts(section: Section) -> dict[str, Any]:
    return {
        "name": section.name,
        "title": section.title,
        "tables": [asdict(table) for table in section.tables],
        "verdicts": [asdict(verdict) for verdict in section.verdicts],
        "notes": section.notes,
    }


def _write(path: Path, found: Mapping[str, Any], indent: int | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(found, default=_plain, indent=indent) + "\n", encoding="utf-8")
    beside.replace(path)


def _plain(value: Any) -> Any:
    return np.asarray(value).tolist()


@cache
def code_of(paper: str) -> str:
    """A digest of the package and of the paper's folder."""
    places = (ROOT / "src" / "gpclass", ROOT / "papers" / paper)
    files = [file for place in places for file in sorted(place.rglob("*.py"))] + sorted((ROOT / "papers").glob("*.py"))
    return fingerprint([file.read_bytes() for file in files])


# -------------------------------------------------------------------------------------------------- progress


@dataclass
class Progress:
    """How far a run is, and how long the rest may take: expected seconds, scaled by what was measured so far."""

    names: Sequence[tuple[str, str]]  # paper and experiment
    size: str
    spent: float = 0.0
    expected: float = 0.0  # of what was measured
    done: int = 0
    begin: float = field(default_factory=time.monotonic)
    stored: Collection[tuple[str, str]] = ()  # sections that are answered at once
    again: bool = False  # whether cells are measured again

    def expect(self, paper: str, name: str) -> float:
        """Seconds that an experiment may take beyond what is stored; a minute if it was never measured."""
        if (paper, name) in self.stored:
            return 0.0
        known = _seconds()
        whole = known.get(self.size, {}).get(paper, {}).get(name, 60.0)
        return float(whole if self.again else known.get(REST, {}).get(self.size, {}).get(paper, {}).get(name, whole))

    def announce(self) -> None:
        """One line about the next experiment."""
        factor = self.spent / self.expected if self.expected > 0 else 1.0
        left = factor * sum(self.expect(*name) for name in self.names[self.done :])
        paper, name = self.names[self.done]
        said = ["stored"] if (paper, name) in self.stored else []
        known = name in _seconds().get(REST, {}).get(self.size, {}).get(paper, {})
        said += ["from the repository"] if known and not (said or self.again) else []
        said += [f"{span(time.monotonic() - self.begin)} passed"] if self.done else []
        tell(f"[{self.done + 1}/{len(self.names)}] {paper} {name}: {', '.join([*said, f'about {span(left)} left'])}")

    def finished(self, seconds: float | None) -> None:
        """The experiment announced last took these seconds; None: it was stored already, or left out."""
        if seconds is not None:
            self.spent += seconds
            self.expected += self.expect(*self.names[self.done])
        self.done += 1


def span(seconds: float) -> str:
    """Seconds, or minutes from two on."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _seconds() -> dict[str, Any]:
    return dict(json.loads(SECONDS.read_text(encoding="utf-8"))) if SECONDS.is_file() else {}


def remember(size: str, paper: str, name: str, seconds: float, rest: float | None = None) -> None:
    """Keep what an experiment took, for the next run's time left; ``rest``: beyond the repository's cells."""
    known = _seconds()
    known.setdefault(size, {}).setdefault(paper, {})[name] = round(seconds, 1)
    if rest is not None:
        known.setdefault(REST, {}).setdefault(size, {}).setdefault(paper, {})[name] = round(rest, 1)
    SECONDS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
