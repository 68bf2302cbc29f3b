"""Shared by the commands: arguments, options, and loading a model."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gpclass.cli.build import KernelName
from gpclass.cli.errors import Mistake
from gpclass.data.text import TextFormat
from gpclass.estimators.tables import TableClassifier


def _check_jobs(jobs: int) -> int:
    if jobs == 0:
        raise typer.BadParameter("must not be 0; use 1 for one process, -1 for one per core")
    return jobs


def argument(name: str, text: str) -> Any:
    """A positional argument as the help shows it."""
    return typer.Argument(metavar=name, help=text, show_default=False)


DataFile = Annotated[Path, argument("DATA", "Table with a header: CSV, TSV, Parquet or Excel.")]
DataOrFolder = Annotated[
    Path, argument("DATA", "Table with a header: CSV, TSV, Parquet or Excel; or a Parquet folder.")
]
Target = Annotated[str, typer.Option("--target", "-t", help="Column with the labels.", show_default=False)]
Features = Annotated[str, typer.Option(help="Columns to use, separated by commas.", show_default="all but the target")]
Exclude = Annotated[str, typer.Option(help="Columns to exclude, separated by commas.", show_default="none")]
DropMissing = Annotated[bool, typer.Option("--drop-missing", help="Drop rows with missing values.")]
ImputeName = StrEnum("ImputeName", ["none", "median"])
Impute = Annotated[
    ImputeName, typer.Option(help="Missing features; median: also the most common category, in new rows too.")
]
Ids = Annotated[
    str, typer.Option("--id", help="Columns that name rows, separated by commas: no features.", show_default="none")
]
Categories = Annotated[
    str, typer.Option(help="Columns of names, even if they look like numbers.", show_default="columns of words")
]
Spatial = Annotated[
    str, typer.Option(help="Coordinates in one unit, standardised together: east,north.", show_default="none")
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace an existing file.")]
Sep = Annotated[str, typer.Option("--sep", help="Separator of text files, such as ; or tab.", show_default="detected")]
Decimal = Annotated[str, typer.Option(help="Decimal sign of text files: . or ,", show_default="detected")]
TextEncoding = Annotated[str, typer.Option("--encoding", help="Of text files: cp1252, ...", show_default="detected")]
Missing = Annotated[
    str | None,
    typer.Option(
        help="Words for missing values, separated by commas, besides empty cells.", show_default="NA, NaN, null, ..."
    ),
]
Standardize = Annotated[bool, typer.Option(help="Scale numeric columns to mean 0 and sd 1.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
Seed = Annotated[int, typer.Option(help="Random seed.")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Number of processes; -1: one per core.", callback=_check_jobs)]
Kernel = Annotated[
    KernelName, typer.Option("--kernel", "-k", help="Covariance function; ard: one length scale per feature.")
]
ModelFile = Annotated[Path, argument("MODEL", "File written by `gpclass fit`.")]
Level = Annotated[float, typer.Option(min=0.01, max=0.999, help="Level of the credible interval.")]


def text_format(sep: str, decimal: str, encoding: str, missing: str | None) -> TextFormat:
    """How the text files of a command are to be read."""
    words = None if missing is None else split_names(missing)
    return TextFormat({"tab": "\t", "\\t": "\t", "space": " "}.get(sep, sep), decimal, encoding, words)


def verbosity(quiet: bool) -> int:
    """Whether to show a progress bar: only on a terminal."""
    return 0 if quiet or not sys.stderr.isatty() else 1


def split_names(text: str) -> list[str]:
    """Names separated by commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def load_table_model(path: Path) -> TableClassifier:
    """Load a model that accepts tables."""
    from gpclass import load_model

    if not path.exists():
        raise Mistake(f"file {path} not found; create one with gpclass fit")
    model = load_model(path)
    if not isinstance(model, TableClassifier):
        raise Mistake(
            f"{path} holds a {type(model).__name__} without column names; open it in Python with "
            "gpclass.load_model, or fit it with gpclass fit"
        )
    return model
