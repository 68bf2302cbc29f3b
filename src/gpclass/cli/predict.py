"""``gpclass predict``: the rows of a table or a Parquet folder, and their scores where the truth is known."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from gpclass.cli import folders
from gpclass.cli.errors import Mistake
from gpclass.cli.files import check_column, read_table, write_table
from gpclass.cli.options import DataOrFolder, DropMissing, Jobs, Json, Level, ModelFile, load_table_model
from gpclass.cli.show import emit, note, say
from gpclass.tables import predictions


def predict(
    model_file: ModelFile,
    data: DataOrFolder,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="CSV, TSV or Parquet; a folder for a folder.", show_default="standard output"
        ),
    ] = None,
    level: Level = 0.9,
    target: Annotated[
        str, typer.Option("--target", "-t", help="Column with true labels, to score.", show_default="none")
    ] = "",
    drop_missing: DropMissing = False,
    jobs: Jobs = 1,
    as_json: Json = False,
) -> None:
    """Predict the rows of a table: class, probability, Monte Carlo error, credible interval.

    Column `row` counts the rows of the table from 1. `mcse` is how far the computed probability may be from the
    exact one (empty for a deterministic approximation); `lower` and `upper` hold the probability itself.
    A Parquet folder is predicted into a folder of files of the same names; those that are done are not done again.
    """
    model = load_table_model(model_file)
    if data.is_dir():
        if target or drop_missing:
            raise Mistake(f"{data} is a folder: --target and --drop-missing are for tables in one file")
        folders.predict_into(model, data, out, level, jobs, as_json)
        return
    frame = read_table(data)
    rows = np.arange(1, len(frame) + 1)
    if drop_missing:
        known = [name for name in model.encoding_.names if name in frame.columns]
        whole = frame[known].notna().all(axis=1).to_numpy()
        if not whole.all():
            note(f"{int(np.sum(~whole))} rows with missing values left out, {int(whole.sum())} kept")
        frame, rows = frame[whole], rows[whole]
    if target:
        check_column(frame, target, data)
    found = predictions(model, frame, level)
    found.insert(0, "row", rows)
    scores = _scores(found, model.classes_, frame[target].to_numpy()) if target else {}
    if out is not None:
        write_table(found, out)
    if as_json:
        emit(
            {"scores": scores, "predictions": found.to_dict("records")}
            if out is None
            else {"file": str(out), "scores": scores}
        )
    elif out is None:
        sys.stdout.write(found.to_csv(index=False))
    else:
        say(f"{out}: {len(found)} predictions")
    if scores and not as_json:
        note(", ".join(f"{name} {value:.4g}" for name, value in scores.items()))


def _scores(found: Any, classes: Any, truth: Any) -> dict[str, float]:
    """Accuracy, log loss and Brier score where the truth is known."""
    from gpclass import metrics

    if pd.isna(truth).any():
        raise Mistake(
            f"{int(pd.isna(truth).sum())} rows have no true label: fill them in or leave out --target"
        )
    strange = sorted(set(map(str, truth)) - set(map(str, classes)))
    if strange:
        raise Mistake(f"the true labels hold {', '.join(strange)}, which the model does not know")
    proba = found[[f"p_{label}" for label in classes]].to_numpy()
    y = np.array([list(map(str, classes)).index(str(label)) for label in truth])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a class that does not occur is no news here
        return {
            "accuracy": metrics.accuracy(y, proba, np.arange(len(classes))),
            "log_loss": metrics.log_loss(y, proba, np.arange(len(classes))),
            "brier": metrics.brier_score(y, proba, np.arange(len(classes))),
        }
