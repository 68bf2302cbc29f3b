"""Shared by the papers: published tables, our numbers beside them, verdicts, files, the command line.

An experiment is a function ``Setting -> Section``. A section holds tables, verdicts (a claim, its target, the
measurement) and figures. ``main`` runs the experiments named on the command line, prints each section, writes its
tables as CSV and its figures as PNG into ``results/<paper>/`` (not part of the repository). With ``--write`` it also
puts the printed summary into ``docs/papers/<paper>.md``, each section between its own markers, so that one experiment
can be run again without the others; the figures shown in the text are saved as ``<paper>_<figure>.png``.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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


# ---------------------------------------------------------------------------------------------- command line


@dataclass(frozen=True)
class Setting:
    """Size of a run, from the command line."""

    full: bool = False
    repeats: int | None = None  # replaces the experiment's number
    seed: int = 0

    def choose(self, default: Any, full: Any) -> Any:
        """The quick or the paper's size."""
        return full if self.full else default

    def count(self, default: int, full: int) -> int:
        """Number of repeats."""
        return self.repeats or self.choose(default, full)


Experiment = Callable[[Setting], Section]


def main(
    paper: str,
    title: str,
    reference: str,
    experiments: Mapping[str, Experiment],
    argv: Sequence[str] | None = None,
    *,
    results: Path = RESULTS,
    docs: Path = DOCS,
) -> list[Section]:
    """The command line of a paper's folder."""
    parser = argparse.ArgumentParser(prog=f"python -m papers.{paper}", description=title)
    parser.add_argument("experiments", nargs="*", help=f"{', '.join(experiments)}, or all (the default)")
    parser.add_argument("--full", action="store_true", help="the paper's own sizes and repeats; may take hours")
    parser.add_argument("--repeats", type=int, help="this many repeats instead")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help=f"put the summary into docs/papers/{paper}.md")
    given = parser.parse_args(argv)
    names = [name for name in given.experiments if name != "all"] or list(experiments)
    for name in names:
        if name not in experiments:
            parser.error(f"no experiment {name!r}; there are {', '.join(experiments)}, and all")
    setting = Setting(given.full, given.repeats, given.seed)
    done = []
    for name in names:
        begin = time.process_time()
        section = experiments[name](setting)
        print(section.text())
        written = section.save(results / paper)
        for path in written:
            print(f"wrote {path}")
        print(f"({name}: {time.process_time() - begin:.0f} s of CPU)\n")
        if given.write:
            options = (["--full"] if given.full else []) + (
                [] if given.repeats is None else [f"--repeats {given.repeats}"]
            )
            command = " ".join(["python -m", f"papers.{paper}", name, *options])
            write_page(docs / f"{paper}.md", title, reference, list(experiments), section, command)
            show_figures(docs, paper, section, written)
        done.append(section)
    missed = [str(v) for section in done for v in section.verdicts if not v.met]
    print(f"{sum(len(s.verdicts) for s in done)} verdicts, {len(missed)} missed", *missed, sep="\n")
    return done


def write_page(path: Path, title: str, reference: str, order: list[str], section: Section, command: str) -> None:
    """Put one section into the paper's page, in the order of the experiments; the others are unchanged."""
    kept = dict(re.findall(r"<!-- (\S+): begin -->\n(.*?)\n<!-- \1: end -->", _read(path), flags=re.DOTALL))
    kept[section.name] = f"{section.markdown()}\n\nGenerated by `{command}`."
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
