"""Whole folders of Parquet: learn how their columns become numbers, and predict them into a folder.

Encoding: one pass gives each column of numbers its mean and standard deviation (Chan's update, so that no digits are
lost) and each column of words its categories, the same as ``Encoding.learn`` of all rows in memory.

Prediction: each file of the folder becomes a file of the same name, written under another name and renamed when it
is whole. A file that is there already is kept if it was made by the same model from the same file, so that a run that
was stopped goes on where it stopped. Files are predicted side by side through joblib.
Cost: O(rows × columns) for the encoding; prediction costs what the model's does, a batch of rows in memory at a time.
Reference: Chan, Golub & LeVeque (1983), Algorithms for computing the sample variance.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import warnings
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from gpclass._typing import Array
from gpclass.sparse.parquet import ParquetFolder, arrow, check_columns, parquet_files
from gpclass.tables import MAX_CATEGORIES, CategoryColumn, Encoding, NumberColumn, check_missing, predictions

MEDIAN_ROWS = 100_000  # rows, at most, that a column's median (where a map holds it) is taken from
BATCH = 65_536  # rows predicted at once
STAMP = b"gpclass"  # key of a predicted file's metadata


def encoded_folder(
    folder: str | os.PathLike[str] | ParquetFolder, target: str, *, standardize: bool = True
) -> ParquetFolder:
    """The folder with the encoding of its columns, learned from all its rows.

    Parameters
    ----------
    folder : path or ParquetFolder
    target : name of the column with the labels
    standardize : bool, default=True
        Columns of numbers are entered as (x − mean)/sd.
    """
    if not isinstance(folder, ParquetFolder):
        folder = ParquetFolder(folder)
    files = folder.files()
    names = check_columns(folder, files, [target], numbers=False)
    columns = {name: _Column(name) for name in names}
    pq = arrow()
    for file in files:
        with pq.ParquetFile(file) as opened:
            for batch in opened.iter_batches(BATCH, columns=list(names)):
                frame = batch.to_pandas()
                try:
                    check_missing(frame, list(names))
                    for name in names:
                        columns[name].add(frame[name], MEDIAN_ROWS // len(files))
                except ValueError as error:
                    raise ValueError(f"{file}: {error}") from error
    return replace(
        folder, features=names, encoding=Encoding(tuple(c.result(standardize) for c in columns.values()))
    )


@dataclass
class _Column:
    """What is known of a column after some of its rows."""

    name: str
    count: int = 0
    mean: float = 0.0
    square: float = 0.0  # Σ (x − mean)²
    some: list[Array] = field(default_factory=list)
    words: Counter[str] = field(default_factory=Counter)

    def add(self, column: Any, keep: int) -> None:
        """Further rows."""
        from pandas.api import types

        if types.is_datetime64_any_dtype(column) or types.is_timedelta64_dtype(column):
            raise ValueError(f"column {self.name!r} holds dates: make numbers of them first")
        number = types.is_numeric_dtype(column) and not types.is_bool_dtype(column)
        if self.words if number else self.count:
            raise ValueError(f"column {self.name!r} holds numbers in one file and words in another")
        if number:
            self._add_numbers(column.to_numpy(dtype=float), keep)
            return
        self.words.update(column.astype(str).value_counts().to_dict())
        if len(self.words) > MAX_CATEGORIES:
            raise ValueError(
                f"column {self.name!r} has more than {MAX_CATEGORIES} different words: an identifier? Leave it out "
                f"(--exclude {self.name}), or group its categories"
            )

    def _add_numbers(self, x: Array, keep: int) -> None:
        if not np.isfinite(x).all():
            raise ValueError(f"column {self.name!r} holds {int(np.sum(~np.isfinite(x)))} infinite values")
        k, total = len(x), self.count + len(x)
        gap = float(x.mean()) - self.mean
        self.square += float(np.sum((x - x.mean()) ** 2)) + gap * gap * self.count * k / total
        self.mean += gap * k / total
        self.count = total
        self.some.append(x[:: max(1, -(-k // max(keep, 1)))])

    def result(self, standardize: bool) -> NumberColumn | CategoryColumn:
        """The column's encoding."""
        if self.words:
            return CategoryColumn(self.name, tuple(sorted(self.words)), self.words.most_common(1)[0][0])
        spread = float(np.sqrt(self.square / self.count))
        centre, scale = (self.mean, spread) if standardize and spread > 0 else (0.0, 1.0)
        return NumberColumn(self.name, centre, scale, float(np.median(np.concatenate(self.some))))


# ---- prediction ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Predicted:
    """What :func:`predict_folder` did."""

    folder: Path
    written: tuple[str, ...]  # files
    kept: tuple[str, ...]  # files of an earlier run of the same model
    rows: int


def predict_folder(
    model: Any, source: Any, out: Any, *, level: float = 0.9, keep: Any = (), n_jobs: int | None = None
) -> Predicted:
    """Predict every file of a Parquet folder into a folder of files of the same names.

    Parameters
    ----------
    model : fitted GPClassifier or TableClassifier
    source : path of a folder, or of one file
    out : path of the folder to write
        Made if it is not there. Files of an earlier run with the same model are not made again.
    level : float, default=0.9
        Of the credible interval.
    keep : names of columns of the source to copy beside the predictions
    n_jobs : int, default=None
        Files predicted side by side, as in joblib.

    Returns
    -------
    Predicted
        Columns of the files: ``class``, ``probability``, ``mcse``, ``lower``, ``upper``, then ``p_`` and each class.
    """
    files = parquet_files(source)
    root = Path(source).absolute() if Path(source).is_dir() else files[0].parent
    place = Path(out).absolute()
    if place == root:
        raise ValueError(f"{place} holds the data: give another folder for the predictions")
    if place.exists() and not place.is_dir():
        raise ValueError(f"{place} is a file; give a folder for the predictions")
    keep = [keep] if isinstance(keep, str) else list(keep)
    columns = _columns(model)
    wanted = None if columns is None else tuple(dict.fromkeys([*columns, *keep]))
    check_columns(ParquetFolder(source, features=wanted), files, [], numbers=False)
    marks = {file: _stamp(model, file, level, keep) for file in files}
    pairs = [(file, place / file.relative_to(root)) for file in files]
    done = [pair for pair in pairs if _is_done(pair[1], marks[pair[0]], place)]
    todo = [pair for pair in pairs if pair not in done]
    jobs = Parallel(n_jobs=n_jobs)
    counts = jobs(
        delayed(predict_file)(model, file, target, marks[file], level, columns, keep) for file, target in todo
    )
    rows = sum(counts) + sum(arrow().read_metadata(target).num_rows for _, target in done)
    return Predicted(place, tuple(str(t) for _, t in todo), tuple(str(t) for _, t in done), rows)


def predict_file(
    model: Any, file: Path, target: Path, mark: bytes, level: float, columns: Any, keep: list[str]
) -> int:
    """Predict one file into another, whole or not at all; the number of rows."""
    import pyarrow as pa

    pq, rows, writer = arrow(), 0, None
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    names = None if columns is None else list(dict.fromkeys([*columns, *keep]))
    try:
        with pq.ParquetFile(file) as opened:
            for batch in opened.iter_batches(BATCH, columns=names):
                frame = batch.to_pandas()
                table = pa.Table.from_pandas(
                    _predict_frame(model, frame, columns, keep, level), preserve_index=False
                )
                if writer is None:
                    writer = pq.ParquetWriter(temporary, table.schema.with_metadata({STAMP: mark}))
                writer.write_table(table.replace_schema_metadata({STAMP: mark}))
                rows += table.num_rows
        if writer is None:
            raise ValueError("it has no rows: remove the file")
        writer.close()
        os.replace(temporary, target)
    except BaseException as error:
        if writer is not None:
            writer.close()
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, ValueError):
            raise ValueError(f"{file}: {error}") from error
        raise
    return rows


def _predict_frame(model: Any, frame: Any, columns: Any, keep: list[str], level: float) -> Any:
    """Predictions of a frame, beside the columns to keep."""
    features = frame if columns is None else frame[list(columns)]
    if not hasattr(model, "encoding_") and not hasattr(model, "feature_names_in_"):
        features = features.to_numpy(dtype=float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # mcse is a column
        found = predictions(model, features, level)
    for place, name in enumerate(keep):
        found.insert(place, name, frame[name].to_numpy())
    return found


def _columns(model: Any) -> tuple[str, ...] | None:
    """Names of the columns that the model needs; None if it knows their number alone."""
    encoding = getattr(model, "encoding_", None)
    if encoding is not None:
        return tuple(encoding.names)
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(map(str, names))


def _stamp(model: Any, file: Path, level: float, keep: list[str]) -> bytes:
    """What a predicted file depends on: the model, the file it is made from, and how."""
    fitted = getattr(model, "classifier_", model)
    digest = hashlib.sha256()
    report = fitted.fit_report_
    for part in (fitted.classes_, fitted.theta_, getattr(model, "encoding_", None), fitted.kernel_):
        digest.update(repr(part.tolist() if isinstance(part, np.ndarray) else part).encode())
    digest.update(repr((report.method, report.n_points, fitted.log_evidence_)).encode())
    facts = file.stat()
    made = {"model": digest.hexdigest(), "bytes": facts.st_size, "time": facts.st_mtime_ns}
    return json.dumps({**made, "level": level, "keep": keep}, sort_keys=True).encode()


def _is_done(target: Path, mark: bytes, place: Path) -> bool:
    """Whether a file is there, made by the same model from the same rows; one made otherwise is refused."""
    if not target.exists():
        return False
    try:
        found = (arrow().read_schema(target).metadata or {}).get(STAMP)
    except (OSError, ValueError):
        found = None
    if found != mark:
        raise ValueError(
            f"{target} is there already and is not what this model makes of these data: give an empty folder, or "
            f"remove {place}"
        )
    return True
