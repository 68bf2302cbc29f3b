"""Shared by the papers: published tables, our numbers beside them, verdicts, sizes, pages.

An experiment is a function ``Setting -> Section``. A section holds tables, verdicts (a claim, its target, the
measurement) and figures; :mod:`papers.run` runs it. A page of the documentation has each section between its own
markers, so that one experiment can be run again without the others; the figures shown in the text are saved as
``<paper>_<figure>.png``.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from gpclass.datasets import DatasetUnavailable, load

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
DOCS = ROOT / "docs" / "papers"


# ------------------------------------------------------------------------------------------------- published


@dataclass(frozen=True)
class Published:
    """A published table, with its source."""

    source: str
    rows: tuple[dict[str, float], ...]

    def row(self, **key: float) -> dict[str, float]:
        """The unique row with these values."""
        found = [row for row in self.rows if all(row[name] == value for name, value in key.items())]
        if len(found) != 1:
            raise KeyError(f"{len(found)} rows of {self.source!r} have {key}")
        return found[0]

    def get(self, column: str, **key: float) -> float | None:
        """One entry; None if the paper has no such row."""
        found = [row for row in self.rows if all(row[name] == value for name, value in key.items())]
        return found[0].get(column) if found else None


def read_published(path: Path) -> Published:
    """Read a CSV whose first line is ``# source``. Empty cells are omitted."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if not lines or not lines[0].startswith("#"):
        raise ValueError(f"{path}: the first line must be '# ' and the source of the table")
    rows = [{name: _number(cell) for name, cell in row.items() if cell} for row in csv.DictReader(lines[1:])]
    return Published(lines[0].lstrip("# ").strip(), tuple(rows))


def tell(*row: Any) -> None:
    """Print a measurement to standard error, since a whole table takes minutes."""
    print(*(show(value) for value in row), sep="  ", file=sys.stderr, flush=True)


def _number(cell: str) -> Any:
    try:
        return float(cell)
    except ValueError:
        return cell


# -------------------------------------------------------------------------------------------------- sections


@dataclass(frozen=True)
class Table:
    """Rows of text or numbers under named columns."""

    name: str  # of the CSV file
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    caption: str = ""

    def text(self) -> str:
        """As aligned columns."""
        cells = [list(self.columns), *([show(value) for value in row] for row in self.rows)]
        widths = [max(len(row[j]) for row in cells) for j in range(len(self.columns))]
        lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in cells]
        return "\n".join(([self.caption] if self.caption else []) + lines)

    def markdown(self) -> str:
        """As a table of Markdown."""
        lines = [_bar(self.columns), _bar("---:" for _ in self.columns)]
        lines += [_bar(show(value) for value in row) for row in self.rows]
        return (f"{self.caption}\n\n" if self.caption else "") + "\n".join(lines)

    def write_csv(self, folder: Path) -> Path:
        """Write with full precision."""
        path = folder / f"{self.name}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            writer.writerows(self.rows)
        return path


@dataclass(frozen=True)
class Verdict:
    """A claim with its target and the measured value."""

    claim: str
    wanted: str
    measured: str
    met: bool

    def __str__(self) -> str:
        return f"[{'met' if self.met else 'MISSED'}] {self.claim}: target {self.wanted}, measured {self.measured}"


@dataclass(frozen=True)
class Section:
    """The results of one experiment."""

    name: str
    title: str
    tables: tuple[Table, ...]
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()
    figures: Mapping[str, Callable[[], Any]] = field(default_factory=dict)  # file name -> draws a matplotlib figure

    @property
    def met(self) -> bool:
        """Whether every verdict is met."""
        return all(verdict.met for verdict in self.verdicts)

    def text(self) -> str:
        """For the terminal."""
        parts = [self.title, "=" * len(self.title), *(table.text() for table in self.tables)]
        return "\n\n".join([*parts[:0], "\n".join(parts[:2]), *parts[2:], *self.notes, *map(str, self.verdicts)])

    def markdown(self) -> str:
        """For the documentation."""
        verdicts = "\n".join(f"- {'**met**' if v.met else '**missed**'}: {_plain(v)}" for v in self.verdicts)
        parts = [f"## {self.title}", *(table.markdown() for table in self.tables), *self.notes, verdicts]
        return "\n\n".join(part for part in parts if part)

    def save(self, folder: Path) -> list[Path]:
        """Write tables and figures."""
        folder.mkdir(parents=True, exist_ok=True)
        written = [table.write_csv(folder) for table in self.tables]
        for name, make in self.figures.items():
            figure = make()
            path = folder / f"{name}.png"
            figure.savefig(path, dpi=110)
            _close(figure)
            written.append(path)
        return written


def _plain(verdict: Verdict) -> str:
    return f"{verdict.claim}; target {verdict.wanted}, measured {verdict.measured}"


def _bar(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _close(figure: Any) -> None:
    import matplotlib.pyplot as plt

    plt.close(figure)


def show(value: Any) -> str:
    """A number with three digits, integers in full, None as a dash."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or (value == int(value) and abs(value) < 1e12 and not isinstance(value, float)):
        return f"{value:,}"
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.1e}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


# -------------------------------------------------------------------------------------------- sizes and data


@dataclass(frozen=True)
class Setting:
    """Size of a run, from the command line."""

    full: bool = False
    repeats: int | None = None  # replaces the experiment's number
    seed: int = 0
    quick: bool = False

    @property
    def size(self) -> str:
        """The name of the size: all papers in ten minutes, a paper in minutes, or its own size."""
        return "full" if self.full else "quick" if self.quick else "usual"

    def choose(self, usual: Any, full: Any, quick: Any = None) -> Any:
        """The value for the size; ``quick`` is the usual one unless it is given."""
        return full if self.full else quick if self.quick and quick is not None else usual

    def count(self, usual: int, full: int, quick: int | None = None) -> int:
        """Number of repeats; the quick size has a fifth of them, and at least two."""
        return self.repeats or self.choose(usual, full, quick or min(usual, max(2, usual // 5)))


Experiment = Callable[[Setting], Section]


LACKING: set[str] = set()  # data sets that were asked for and cannot be had, since the set was last cleared


def missing(name: str) -> str:
    """Why a data set cannot be had, in one line that names the cure; empty if it can."""
    why = _why_missing(name)
    if why:
        LACKING.add(name)
    return why


@cache
def _why_missing(name: str) -> str:
    try:
        load(name)
    except DatasetUnavailable as error:
        tell(f"left out: {error}")
        return str(error)
    return ""


def left_out(names: Iterable[str]) -> tuple[str, ...]:
    """A note for each data set that cannot be had."""
    return tuple(f"Left out: {missing(name)}." for name in names if missing(name))


# ------------------------------------------------------------------------------------------------------ pages


def write_page(path: Path, title: str, reference: str, order: list[str], section: Section, made: str) -> None:
    """Put one section, ``made`` by a command, into the page, in the order of the experiments; others are unchanged."""
    kept = dict(re.findall(r"<!-- (\S+): begin -->\n(.*?)\n<!-- \1: end -->", _read(path), flags=re.DOTALL))
    kept[section.name] = f"{section.markdown()}\n\nGenerated by {made}."
    parts = [f"# {title}", f"{reference} Every number on this page is generated by the command below it."]
    parts += [f"<!-- {name}: begin -->\n{kept[name]}\n<!-- {name}: end -->" for name in order if name in kept]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def show_figures(docs: Path, paper: str, section: Section, written: Iterable[Path]) -> None:
    """Copy the figures that the section shows, in 256 colours, into the repository."""
    from PIL import Image

    text = section.markdown()
    for path in written:
        name = f"{paper}_{path.name}"
        if path.suffix == ".png" and f"({name})" in text:
            Image.open(path).convert("RGB").quantize(256).save(docs / name, optimize=True)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
