"""Parquet folders on the command line: fit a model to one, or write predictions to another folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpclass.cli.errors import Mistake
from gpclass.cli.show import emit, note, say, say_scores
from gpclass.data.folders import predict_folder
from gpclass.data.parquet import ParquetFolder, arrow
from gpclass.estimators.tables import TableClassifier


def check_number(option: str, text: str, least: int) -> int | str | None:
    """How many inducing points or neighbours an option asks for: a number, "auto", or None for a full model."""
    if text in ("", "none"):
        return None
    if text == "auto":
        return text
    if not text.isdigit() or int(text) < least:
        raise Mistake(f"{option} must be a whole number of at least {least}, or auto, not {text!r}")
    return int(text)


def fit_folder(
    folder: ParquetFolder, target: str, rules: Mapping[str, Any], make: Callable[[int], Any]
) -> tuple[TableClassifier, int]:
    """A model fitted to a folder, and the number of dropped rows; ``make(d)`` gives the classifier for d columns.

    ``rules`` are settings of :class:`TableClassifier`.
    """
    model = TableClassifier(**rules)
    encoded = model.encoded_folder(folder, target)
    assert encoded.encoding is not None
    model.set_params(classifier=make(len(encoded.encoding.outputs))).fit(encoded, target)
    rows = sum(arrow().read_metadata(file).num_rows for file in folder.files())
    return model, rows - model.fit_report_.n_points


def predict_into(model: TableClassifier, data: Path, out: Path | None, *, as_json: bool, **settings: Any) -> None:
    """Predictions for a folder, one output file per input file; settings as in ``predict_folder``."""
    if out is None:
        raise Mistake(f"{data} is a folder: set an output folder with --out FOLDER")
    done = predict_folder(model, data, out, **settings)
    if done.dropped:
        note(f"{done.dropped} rows with missing values dropped, {done.rows} kept")
    if as_json:
        names = ("rows", "dropped", "scores", "written", "kept")
        emit({"folder": str(out), **{name: getattr(done, name) for name in names}})
        return
    say(f"{out}: {done.rows} predictions in {len(done.written) + len(done.kept)} files")
    if done.kept:
        say(f"{len(done.kept)} of them already existed, from this model and these data")
    say_scores(done.scores)
