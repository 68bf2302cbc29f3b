"""``gpclass predict``: predictions for a table or a Parquet folder, with scores where the labels are known."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from gpclass.cli import folders, options
from gpclass.cli.files import check_column, read_table, write_table
from gpclass.cli.show import emit, note, say, say_scores
from gpclass.estimators.tables import predictions, scores


def predict(
    model_file: options.ModelFile,
    data: options.DataOrFolder,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="CSV, TSV or Parquet file; or a folder.", show_default="standard output"),
    ] = None,
    level: options.Level = 0.9,
    target: Annotated[
        str, typer.Option("--target", "-t", help="Column with true labels, for scoring.", show_default="none")
    ] = "",
    drop_missing: options.DropMissing = False,
    jobs: options.Jobs = 1,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Predict the rows of a table: class, probability, Monte Carlo error, credible interval.

    Column `row` numbers the rows of the table from 1. `mcse` is the Monte Carlo error of the computed probability
    (empty for a deterministic approximation); `lower` and `upper` bound the probability itself.
    A Parquet folder is predicted into a folder with files of the same names, with rows numbered within each file;
    files that are complete are not computed again.
    """
    model = options.load_table_model(model_file)
    if data.is_dir():
        work = {"n_jobs": jobs, "verbose": options.verbosity(quiet)}
        rules = {"level": level, "target": target or None, "drop_missing": drop_missing}
        folders.predict_into(model, data, out, as_json=as_json, **rules, **work)
        return
    frame = read_table(data)
    rows = np.arange(1, len(frame) + 1)
    if drop_missing:
        known = [name for name in model.encoding_.names if name in frame.columns]
        whole = frame[known].notna().all(axis=1).to_numpy()
        if not whole.all():
            note(f"{int(np.sum(~whole))} rows with missing values dropped, {int(whole.sum())} kept")
        frame, rows = frame[whole], rows[whole]
    if target:
        check_column(frame, target, data)
    found = predictions(model, frame, level)
    found.insert(0, "row", rows)
    figures = scores(found, model.classes_, frame[target].to_numpy()) if target else {}
    if out is not None:
        write_table(found, out)
    if as_json:
        result = {"predictions": found.to_dict("records")} if out is None else {"file": str(out)}
        emit({"scores": figures, **result})
    elif out is None:
        sys.stdout.write(found.to_csv(index=False))
    else:
        say(f"{out}: {len(found)} predictions")
    if not as_json:
        say_scores(figures)
