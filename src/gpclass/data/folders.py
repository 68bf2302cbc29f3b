"""Predictions for whole Parquet folders, written to a folder and scored where the labels are known.

A file is kept if the same model made it from the same file, so an interrupted run continues where it stopped. Scores
are means over rows: each file gives its own, and they are averaged with weights proportional to its rows.
Cost: that of the model's predictions, one batch of rows in memory; scoring reads the labels and the predictions once
more, and the features to determine the dropped rows.
Fails when: the files lack a column of the model, or values are missing and drop_missing is False.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from gpclass.data.columns import check_missing
from gpclass.data.parquet import (
    MISSING_CURE,
    ParquetFolder,
    arrow,
    batches,
    check_columns,
    naming,
    opened,
    parquet_files,
    whole_rows,
    without_index,
)
from gpclass.data.predicted import check_truth, prediction_names, predictions, scores
from gpclass.numerics.files import replacing
from gpclass.numerics.fingerprint import fingerprint
from gpclass.predict import in_blocks, predict_proba
from gpclass.progress import progress

BATCH = 16_384  # rows predicted at once
ROW = "row"  # column of row numbers
STAMP = b"gpclass"  # key of a predicted file's metadata
PROBES = 64  # rows used to distinguish two models
PROBE_DIGITS = 6  # digits of the probabilities there


@dataclass(frozen=True)
class Predicted:
    """The result of :func:`predict_folder`."""

    folder: Path
    written: tuple[str, ...]  # files
    kept: tuple[str, ...]  # files kept from an earlier run of the same model
    rows: int  # predicted
    dropped: int  # rows with missing values
    scores: dict[str, float]  # accuracy, log_loss, brier; empty without a target


def predict_folder(
    model: Any,
    source: Any,
    out: Any,
    *,
    level: float = 0.9,
    keep: Any = (),
    target: str | None = None,
    drop_missing: bool = False,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Predicted:
    """Predict every file of a Parquet folder into a folder with files of the same names.

    Parameters
    ----------
    model : fitted GPClassifier or TableClassifier
    source : path of a folder, or of one file
    out : path of the folder to write
        Outside the source. Created if necessary. Files of an earlier run with the same model are kept.
    level : float, default=0.9
        Level of the credible interval.
    keep : names of source columns to copy next to the predictions, with their types
    target : name of a column with true labels, default=None
        Score the predictions against these labels.
    drop_missing : bool, default=False
        Drop rows with a missing feature; otherwise they raise an error. A model that imputes takes them all.
    n_jobs : int, default=None
        Number of files predicted in parallel, as in joblib.
    verbose : int, default=0
        1 shows a progress bar.

    Returns
    -------
    Predicted
        Columns of the files: ``row`` (row number in the source file, from 1), the columns to keep, ``class``,
        ``probability``, ``mcse``, ``lower``, ``upper``, then ``p_`` and each class. A file without (complete)
        rows gives a file with these columns and no rows.
    """
    files = parquet_files(source)
    root = Path(source).absolute() if Path(source).is_dir() else files[0].parent
    place = Path(out).absolute()
    if place.exists() and not place.is_dir():
        raise ValueError(f"{place} is a file; the predictions need a folder")
    pairs = [(file, place / file.relative_to(root)) for file in files]
    for _, to in pairs:  # the next run would read the predictions as data
        if to.resolve().is_relative_to(Path(source).resolve()):
            raise ValueError(f"{to} lies inside the data folder {source}: choose an output folder outside it")
    keep = [keep] if isinstance(keep, str) else list(dict.fromkeys(keep))
    taken = [name for name in keep if name in (ROW, *prediction_names(model.classes_))]
    if taken:
        raise ValueError(
            f"keep contains {', '.join(map(repr, taken))}, which is a column of the predictions: remove it "
            "from keep, or rename it in the source"
        )
    columns = _columns(model)
    beside = [*keep, *([target] if target else [])]
    wanted = None if columns is None else tuple(dict.fromkeys([*columns, *beside]))
    others = beside if wanted is None else []
    check_columns(ParquetFolder(source, features=wanted), files, others, numbers=False)
    task = _Task(model, level, columns, tuple(keep), target, drop_missing)
    if target:  # check the labels before the long computation
        for file in files:
            with naming(file):
                check_truth(_column(file, target)[_predicted_rows(task, file)], model.classes_)
    made_by = _fingerprint(model)
    marks = {file: _stamp(task, made_by, file) for file in files}
    done = [pair for pair in pairs if _is_done(pair[1], marks[pair[0]], place)]
    todo = [(file, to, marks[file]) for file, to in pairs if (file, to) not in done]
    with progress(sum(_length(file) for file, *_ in todo), "predict", verbose=verbose) as bar:
        if effective_n_jobs(n_jobs) == 1:  # progress per batch
            for one in todo:
                predict_file(task, *one, tell=bar.update)
        else:  # per file
            jobs = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
            for read in jobs(delayed(predict_file)(task, *one) for one in todo):
                bar.update(read)
    rows = [_length(to) for _, to in pairs]
    return Predicted(
        place,
        tuple(str(to) for _, to, _ in todo),
        tuple(str(to) for _, to in done),
        sum(rows),
        sum(map(_length, files)) - sum(rows),
        score_files(pairs, target, model.classes_) if target else {},
    )


def score_files(pairs: Sequence[tuple[Path, Path]], target: str, classes: Any) -> dict[str, float]:
    """Scores of predicted files against a column of their source files, one pair of files in memory at a time.

    Empty if no row was predicted.
    """
    found, weights = [], []
    for file, predicted in pairs:
        table = arrow().read_table(predicted, columns=[ROW, *(f"p_{c}" for c in classes)]).to_pandas()
        if len(table) == 0:
            continue
        truth = _column(file, target)[table[ROW].to_numpy() - 1]
        with naming(file):
            found.append(scores(table, classes, truth))
        weights.append(len(table))
    names = [name for name in found[0] if name != "auc"] if found else []  # which is no mean over rows
    return {name: float(np.average([one[name] for one in found], weights=weights)) for name in names}


@dataclass(frozen=True)
class _Task:
    """What to do with each file."""

    model: Any
    level: float
    columns: tuple[str, ...] | None  # needed by the model; None if it knows only their number
    keep: tuple[str, ...]
    target: str | None
    drop_missing: bool

    @property
    def imputes(self) -> bool:
        """Whether the model fills in missing values."""
        return getattr(getattr(self.model, "encoding_", None), "impute", False)

    def reads(self) -> list[str] | None:
        """Columns to read; None: all."""
        return None if self.columns is None else list(dict.fromkeys([*self.columns, *self.keep]))

    def features(self, source: Any) -> list[str]:
        """Names of the model's columns in a file with the Arrow schema ``source``."""
        if self.columns is not None:
            return list(self.columns)
        return [name for name in without_index(source) if name not in (*self.keep, self.target)]

    def schema(self, source: Any) -> Any:
        """Arrow schema of the predictions for a file with the schema ``source``."""
        import pyarrow as pa

        classes = self.model.classes_
        names = prediction_names(classes)
        kinds = [pa.array(classes).type, *[pa.float64()] * (len(names) - 1)]
        kept = [pa.field(name, source.field(name).type) for name in self.keep]
        return pa.schema([pa.field(ROW, pa.int64()), *kept, *map(pa.field, names, kinds)])

    def __call__(self, batch: Any, first: int, schema: Any) -> Any:
        """An Arrow table of predictions for a batch whose first row has the number ``first``; None without rows."""
        import pyarrow as pa

        table = pa.Table.from_batches([batch])
        names, row = self.features(table.schema), np.arange(first, first + batch.num_rows)
        if self.drop_missing and not self.imputes:
            whole = whole_rows(table.select(names))
            table, row = table.filter(whole), row[whole]
        if len(row) == 0:
            return None
        features = table.select(names).to_pandas(ignore_metadata=True)
        if not self.imputes:
            check_missing(features, names, MISSING_CURE)
        if not hasattr(self.model, "encoding_") and not hasattr(self.model, "feature_names_in_"):
            features = features.to_numpy(dtype=float)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # mcse is already a column
            found = predictions(self.model, features, self.level)
        # Kept columns bypass pandas, which changes the type of columns with missing values.
        columns = [pa.array(row), *(table.column(name) for name in self.keep)]
        columns += [pa.array(found[name], from_pandas=True) for name in found.columns]
        return pa.Table.from_arrays(columns, names=schema.names).cast(schema)


def predict_file(
    task: _Task, file: Path, target: Path, mark: bytes, tell: Callable[[int], None] = lambda rows: None
) -> int:
    """Predict one file into another, atomically; return the number of rows read."""
    pq, rows = arrow(), 0
    with opened(file) as found:
        schema = task.schema(found.schema_arrow).with_metadata({STAMP: mark})
    # Without rows the writer writes the columns alone.
    with replacing(target) as draft, naming(file), pq.ParquetWriter(draft, schema) as writer:
        for batch in batches(file, BATCH, task.reads()):
            table = task(batch, rows + 1, schema)
            rows += batch.num_rows
            if table is not None:
                writer.write_table(table)
            tell(batch.num_rows)
    return rows


def _column(file: Path, name: str) -> Any:
    with opened(file) as found:
        return found.read([name]).to_pandas(ignore_metadata=True)[name].to_numpy()


def _predicted_rows(task: _Task, file: Path) -> Any:
    """The rows of a file to predict: a mask, or a slice of all."""
    if not task.drop_missing or task.imputes:
        return slice(None)
    with opened(file) as found:
        names = task.features(found.schema_arrow)
    masks = [whole_rows(batch.select(names)) for batch in batches(file, BATCH, names)]
    return np.concatenate([np.empty(0, dtype=bool), *masks])


def _length(file: Path) -> int:
    return int(arrow().read_metadata(file).num_rows)


def _columns(model: Any) -> tuple[str, ...] | None:
    """Names of the columns that the model needs; None if it knows only their number."""
    encoding = getattr(model, "encoding_", None)
    names = getattr(model, "feature_names_in_", None) if encoding is None else encoding.names
    return None if names is None else tuple(map(str, names))


def _fingerprint(model: Any) -> str:
    """A digest of a model, unchanged by saving and loading: its data and its predictions."""
    fitted = getattr(model, "classifier_", model)
    problem, report = fitted._problem, fitted.fit_report_
    stored = not hasattr(fitted, "inducing_")  # whether a saved model stores its rows
    rows = problem.X if stored else fitted.inducing_
    data = (problem.X, problem.y, problem.weights) if stored else ()
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, PROBES).astype(int))]
    # Without an evidence only the probabilities depend on the labels; rounded, since sums depend on threads.
    proba = in_blocks(
        rows, fitted.posterior_, lambda latent: predict_proba(latent, fitted.likelihood_, errors=False)
    ).proba
    model_of = (fitted.classes_, fitted.theta_, getattr(model, "encoding_", None), fitted.kernel_)
    outcome = (report.method, report.n_points, fitted.log_evidence_, np.round(proba, PROBE_DIGITS) + 0.0)
    return fingerprint(*model_of, *outcome, *data)


def _stamp(task: _Task, made_by: str, file: Path) -> bytes:
    """Everything that a predicted file depends on: the model's fingerprint, its source file, and the settings."""
    facts = file.stat()
    made = {"model": made_by, "bytes": facts.st_size, "time": facts.st_mtime_ns}
    how = {"level": task.level, "keep": task.keep, "drop_missing": task.drop_missing}
    if task.columns is None:  # all other columns are features
        how["target"] = task.target
    return json.dumps({**made, **how}, sort_keys=True).encode()


def _is_done(target: Path, mark: bytes, place: Path) -> bool:
    """Whether a file exists and was made by the same model from the same rows; raises if it was made otherwise."""
    if not target.exists():
        return False
    try:
        found = (arrow().read_schema(target).metadata or {}).get(STAMP)
    except (OSError, ValueError):
        found = None
    if found != mark:
        raise ValueError(
            f"{target} already exists and was not made by this model from these data: choose an empty folder, or "
            f"remove {place}"
        )
    return True
