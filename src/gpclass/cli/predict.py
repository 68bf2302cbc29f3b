"""``gpclass predict``: predictions for a table or a Parquet folder, with scores where the labels are known."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from gpclass.cli import folders, options
from gpclass.cli.errors import Mistake
from gpclass.cli.files import check_column, read_as_text, read_table
from gpclass.cli.outputs import as_text, check_output, write_table
from gpclass.cli.show import emit, note, say, say_scores
from gpclass.data.predicted import predictions, scores


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
    ids: Annotated[
        str,
        typer.Option("--id", help="Columns to copy beside the predictions, separated by commas.", show_default="none"),
    ] = "",
    drop_missing: options.DropMissing = False,
    escape: Annotated[
        bool, typer.Option("--escape-formulas", help="Put ' before texts that a spreadsheet would compute.")
    ] = False,
    jobs: options.Jobs = 1,
    sep: options.Sep = "",
    decimal: options.Decimal = "",
    encoding: options.TextEncoding = "",
    missing: options.Missing = None,
    force: options.Force = False,
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
    carried = options.split_names(ids)
    if data.is_dir():
        work = {"n_jobs": jobs, "verbose": options.verbosity(quiet)}
        rules = {"level": level, "keep": carried, "target": target or None, "drop_missing": drop_missing}
        folders.predict_into(model, data, out, as_json=as_json, **rules, **work)
        return
    check_output(out, [data, model_file], force, table=True)
    form = options.text_format(sep, decimal, encoding, missing)
    frame = read_table(data, form, [*carried, *read_as_text(model.encoding_)], target)
    for name in (*carried, *([target] if target else [])):
        check_column(frame, name, data)
    rows = np.arange(1, len(frame) + 1)
    if drop_missing and not model.encoding_.impute:
        known = [name for name in model.encoding_.names if name in frame.columns]
        whole = frame[known].notna().all(axis=1).to_numpy()
        if not whole.all():
            note(f"{int(np.sum(~whole))} rows with missing values dropped, {int(whole.sum())} kept")
        frame, rows = frame[whole], rows[whole]
    found = predictions(model, frame, level)
    figures = scores(found, model.classes_, frame[target].to_numpy()) if target else {}
    for name in reversed(carried):
        if name in ("row", *found.columns):
            raise Mistake(f"{name!r} is a column of the predictions too: rename it in {data}")
        found.insert(0, name, frame[name].to_numpy())
    found.insert(0, "row", rows)
    if out is not None:
        write_table(found, out, escape=escape)
    if as_json:
        result = {"predictions": found.to_dict("records")} if out is None else {"file": str(out)}
        emit({"scores": figures, **result})
    elif out is None:
        sys.stdout.write(as_text(found, escape=escape))
    else:
        say(f"{out}: {len(found)} predictions")
    if not as_json:
        say_scores(figures)
