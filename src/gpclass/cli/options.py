"""What commands share: arguments, options, and the model they load."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from gpclass.cli.build import KernelName
from gpclass.cli.errors import Mistake
from gpclass.estimators.tables import TableClassifier


def _check_jobs(jobs: int) -> int:
    if jobs == 0:
        raise typer.BadParameter("0 processes can do nothing; 1 is one, -1 as many as there are cores")
    return jobs


DataFile = Annotated[
    Path, typer.Argument(metavar="DATA", help="Table with a header: CSV, TSV or Parquet.", show_default=False)
]
DataOrFolder = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="Table with a header: CSV, TSV or Parquet; or a Parquet folder.",
        show_default=False,
    ),
]
Target = Annotated[str, typer.Option("--target", "-t", help="Column with the labels.", show_default=False)]
Features = Annotated[
    str,
    typer.Option(
        "--features", help="Columns to use, with commas between them.", show_default="all but the target"
    ),
]
Exclude = Annotated[
    str, typer.Option("--exclude", help="Columns to leave out, with commas.", show_default="none")
]
DropMissing = Annotated[bool, typer.Option("--drop-missing", help="Leave out rows with missing values.")]
Standardize = Annotated[
    bool, typer.Option("--standardize/--no-standardize", help="Scale columns of numbers to mean 0 and sd 1.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of all randomness.")]
Jobs = Annotated[
    int, typer.Option("--jobs", "-j", help="Processes; -1: as many as there are cores.", callback=_check_jobs)
]
Kernel = Annotated[
    KernelName, typer.Option("--kernel", "-k", help="Covariance function; ard: a length a feature.")
]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="File that `gpclass fit` wrote.", show_default=False)
]
Level = Annotated[float, typer.Option("--level", min=0.01, max=0.999, help="Of the credible interval.")]


def verbosity(quiet: bool) -> int:
    """Whether a progress bar is shown: to people, not to files."""
    return 0 if quiet or not sys.stderr.isatty() else 1


def split_names(text: str) -> list[str]:
    """Names with commas between them."""
    return [part.strip() for part in text.split(",") if part.strip()]


def load_table_model(path: Path) -> TableClassifier:
    """A model that takes tables, from its file."""
    from gpclass import load_model

    if not path.exists():
        raise Mistake(f"there is no file {path}; gpclass fit writes one")
    model = load_model(path)
    if not isinstance(model, TableClassifier):
        raise Mistake(
            f"{path} holds a {type(model).__name__} without the names of its columns; open it in Python with "
            "gpclass.load_model, or fit it with gpclass fit"
        )
    return model
