"""Tables in and out: CSV, TSV and Parquet, by the file's ending."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gpclass.cli.errors import Mistake
from gpclass.names import did_you_mean, no_column
from gpclass.numerics.files import replacing

PARQUET = (".parquet", ".pq")
TEXT = (".csv", ".tsv", ".txt", ".dat", "")
SHEETS = (".xlsx", ".xls", ".ods")
FOREIGN = (*SHEETS, ".json", ".feather", ".rds", ".rdata", ".mat", ".npy", ".npz", ".pkl", ".gpclass")


def read_table(path: Path) -> Any:
    """A data frame from a file."""
    if not path.exists():
        siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        raise Mistake(f"file {path} not found{did_you_mean(path.name, siblings, '')}")
    if path.is_dir():
        raise Mistake(f"{path} is a folder, not a table")
    suffixes = [s.lower() for s in path.suffixes]
    if suffixes and suffixes[-1] in FOREIGN:
        raise Mistake(f"{path} has an unsupported format: export it as CSV, TSV or Parquet")
    try:
        frame = pd.read_parquet(path) if any(s in PARQUET for s in suffixes) else _read_text(path)
    except ImportError as error:
        raise Mistake(f"reading {path} needs pyarrow: pip install 'gpclass[cli]' ({error})") from error
    except UnicodeDecodeError as error:
        why = f"it is not text in UTF-8 ({error.reason})"
        raise Mistake(f"{path} cannot be read as a table: {why}") from error
    except (ValueError, OSError) as error:
        raise Mistake(f"{path} cannot be read as a table: {error}") from error
    frame.columns = [str(c).strip() for c in frame.columns]
    twice = sorted({c for c in frame.columns if list(frame.columns).count(c) > 1})
    if twice:
        raise Mistake(f"{path} has duplicate column names: {', '.join(twice)}")
    if len(frame) == 0:
        raise Mistake(f"{path} has no rows")
    return frame


def _read_text(path: Path) -> Any:
    """A data frame from a text file; the separator is detected from the first line."""
    first = str(pd.read_csv(path, header=None, nrows=1, sep="\0", engine="c", dtype=str).iloc[0, 0])
    separator = max((",", "\t", ";"), key=first.count)
    head = pd.read_csv(path, header=None, nrows=1, sep=separator, dtype=str)
    frame = pd.read_csv(path, sep=separator)
    if frame.shape[1] == head.shape[1]:  # pandas would rename duplicate columns; we reject them
        names = [str(name) for name in head.iloc[0]]
        frame.columns = [n if n != "nan" else c for n, c in zip(names, frame.columns, strict=True)]
    return frame


def write_table(frame: Any, path: Path) -> None:
    """Write a frame atomically."""
    if path.suffix.lower() not in (*PARQUET, *TEXT, ".gz"):
        raise Mistake(f"{path} ends in {path.suffix}: a table can be written as .csv, .tsv or .parquet")
    with replacing(path) as draft:  # whose name ends alike: pandas compresses by the ending
        if path.suffix.lower() in PARQUET:
            frame.to_parquet(draft, index=False)
        else:
            tabs = ".tsv" in (suffix.lower() for suffix in path.suffixes[-2:])
            frame.to_csv(draft, index=False, sep="\t" if tabs else ",")


@dataclass(frozen=True)
class Labelled:
    """Features and labels of a file, after handling rows with missing values."""

    features: Any  # frame
    labels: Any  # (n,)
    rows: Any  # (n,), row numbers in the file, from 1
    dropped: int
    groups: Any = None


def read_labelled(
    path: Path,
    target: str,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    drop_missing: bool = False,
    groups: str = "",
) -> Labelled:
    """Features and labels from a file, and its column of groups if that is named; errors name the remedy."""
    frame = read_table(path)
    labelling = [target, groups] if groups else [target]
    for name in (*labelling, *include, *exclude):
        check_column(frame, name, path)
    features = list(include) or [c for c in frame.columns if c not in labelling]
    features = [c for c in features if c not in exclude and c != target]
    if not features:
        raise Mistake(f"{path} has no feature columns besides {target!r}")
    used = frame[[*features, *labelling]]
    rows, dropped = np.arange(1, len(frame) + 1), 0
    if drop_missing:
        whole = used.notna().all(axis=1).to_numpy()
        dropped = int(np.sum(~whole))
        used, rows = used[whole], rows[whole]
        if len(used) == 0:
            raise Mistake(f"every row of {path} has a missing value: drop the emptiest columns with --exclude")
    else:
        unlabelled = int(used[target].isna().sum())
        if unlabelled:
            raise Mistake(f"{unlabelled} of {len(used)} rows have no {target!r}; drop them with --drop-missing")
    labels = used[target].to_numpy()
    _check_labels(labels, target)
    blocks = used[groups].to_numpy() if groups else None
    return Labelled(used[features].reset_index(drop=True), labels, rows, dropped, blocks)


def check_column(frame: Any, name: str, path: Path) -> None:
    """Raise for an unknown column and suggest similar names."""
    if name not in frame.columns:
        raise Mistake(no_column(path, name, frame.columns))


def _check_labels(labels: Any, target: str) -> None:
    distinct = len(np.unique(labels.astype(str)))
    if distinct == 1:
        raise Mistake(f"every row has the same {target!r}; a classifier needs two classes")
    if labels.dtype.kind == "f" and not np.all(labels == np.round(labels)):
        raise Mistake(
            f"column {target!r} holds measurements, not classes ({distinct} different values); cut it into "
            "classes first"
        )
    if distinct > max(20, len(labels) // 4):
        raise Mistake(f"column {target!r} has {distinct} different values in {len(labels)} rows: is it the label?")
