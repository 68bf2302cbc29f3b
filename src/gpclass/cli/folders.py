"""A Parquet folder on the command line: fit a model to it, predict it into another folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gpclass.cli.errors import Mistake
from gpclass.cli.show import emit, say
from gpclass.sparse.folders import encoded_folder, predict_folder
from gpclass.sparse.parquet import ParquetFolder
from gpclass.tables import TableClassifier


def check_inducing(text: str) -> int | str | None:
    """The number of inducing points that was asked for: a number, "auto", or None for none."""
    if text in ("", "none"):
        return None
    if text == "auto":
        return text
    if not text.isdigit() or int(text) < 1:
        raise Mistake(f"--inducing must be a whole number of at least 1, or auto, not {text!r}")
    return int(text)


def fit_folder(
    data: Path,
    target: str,
    features: Sequence[str],
    exclude: Sequence[str],
    standardize: bool,
    make: Callable[[int], Any],
) -> TableClassifier:
    """A model of all rows of a folder; ``make`` gives the classifier for a number of encoded columns."""
    folder = ParquetFolder(data, tuple(features) or None, tuple(exclude))
    encoded = encoded_folder(folder, target, standardize=standardize)
    assert encoded.encoding is not None
    model = TableClassifier(make(len(encoded.encoding.outputs)), standardize=standardize)
    return model.fit(encoded, target)


def predict_into(
    model: TableClassifier, data: Path, out: Path | None, level: float, jobs: int, as_json: bool
) -> None:
    """Predictions of a folder, a file for each of its files."""
    if out is None:
        raise Mistake(f"{data} is a folder: name the folder for the predictions, --out FOLDER")
    done = predict_folder(model, data, out, level=level, n_jobs=jobs)
    if as_json:
        emit({"folder": str(out), "rows": done.rows, "written": done.written, "kept": done.kept})
        return
    say(f"{out}: {done.rows} predictions in {len(done.written) + len(done.kept)} files")
    if done.kept:
        say(f"{len(done.kept)} of them were there already, made by this model from these data")
