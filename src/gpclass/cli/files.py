"""Tables that commands read: text, Parquet and Excel, by the file's ending, packed or not."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gpclass.cli.errors import Mistake
from gpclass.cli.outputs import PARQUET
from gpclass.cli.show import note
from gpclass.data.columns import Encoding, missing_counts
from gpclass.data.text import MISSING, SEEN, TextFormat, is_number, read_text, typed
from gpclass.names import did_you_mean, no_column, optional

EXCEL = (".xlsx", ".xlsm")
FOREIGN = (".xls", ".ods", ".json", ".feather", ".rds", ".rdata", ".mat", ".npy", ".npz", ".pkl", ".gpclass")
UNPACK = {".gz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress}


def read_table(path: Path, form: TextFormat = SEEN, text: Sequence[str] = (), label: str = "") -> Any:
    """A data frame from a file; ``form``, ``text`` and ``label`` as in :func:`gpclass.data.text.read_text`."""
    if not path.exists():
        siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        raise Mistake(f"file {path} not found{did_you_mean(path.name, siblings, '')}")
    if path.is_dir():
        raise Mistake(f"{path} is a folder, not a table")
    ending, data = _unpacked(path)
    if ending in FOREIGN:
        raise Mistake(f"{path} has an unsupported format: export it as CSV, TSV or Parquet")
    try:
        if ending in PARQUET:
            optional("pyarrow", "reading Parquet", "cli")
            frame = pd.read_parquet(io.BytesIO(data), engine="pyarrow", page_checksum_verification=True)
        elif ending in EXCEL:
            optional("openpyxl", "reading Excel", "excel")
            frame = _from_excel(data, {*text, label})
        else:
            frame = read_text(data, form, text, label)
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise Mistake(f"{path} cannot be read as a table: {error}") from error
    frame.columns = [str(c).strip() for c in frame.columns]
    twice = sorted({c for c in frame.columns if list(frame.columns).count(c) > 1})
    if twice:
        raise Mistake(f"{path} has duplicate column names: {', '.join(twice)}")
    if len(frame) == 0:
        raise Mistake(f"{path} has no rows")
    return frame


def _unpacked(path: Path) -> tuple[str, bytes]:
    """The ending that says what a file is, and its contents."""
    packed, data = path.suffix.lower(), path.read_bytes()
    ending = Path(path.stem).suffix.lower()
    try:
        if packed in UNPACK:
            return ending, UNPACK[packed](data)
        if packed == ".zip":
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                (only,) = archive.namelist()
                return Path(only).suffix.lower(), archive.read(only)
    except (OSError, EOFError, ValueError, lzma.LZMAError, zipfile.BadZipFile) as error:
        raise Mistake(f"{path} cannot be unpacked as {packed}: {error}") from error
    return packed, data


def _from_excel(data: bytes, kept: set[str]) -> Any:
    """The first sheet; its cells have types of their own, except words that stand for numbers."""
    cells = pd.read_excel(io.BytesIO(data), dtype=object, keep_default_na=False, na_values=[""])
    for name in cells.columns:
        column = cells[name]
        if str(name).strip() not in kept and pd.api.types.infer_dtype(column, skipna=True) == "string":
            column = typed(column.mask(column.isin(MISSING)))
        cells[name] = column.infer_objects()
    return cells


@dataclass(frozen=True)
class Labelled:
    """Features and labels of a file, after handling rows with missing values."""

    features: Any  # frame
    labels: Any  # (n,)
    rows: Any  # (n,), row numbers in the file, from 1, or names
    dropped: int
    groups: Any = None
    filled: Mapping[str, int] = field(default_factory=dict)  # missing values of each column that will be imputed
    categories: Mapping[str, list[str]] = field(default_factory=dict)  # of columns that were said to be names

    def describe(self) -> None:
        """Write what became of missing values, and which columns say nothing, to standard error."""
        if self.dropped:
            note(f"{self.dropped} rows with missing values dropped, {len(self.labels)} kept")
        if self.filled:
            each = ", ".join(f"{name} {k}" for name, k in self.filled.items())
            note(f"missing values replaced by the median or the most common category: {each}")
        constant = [str(name) for name in self.features if self.features[name].nunique() == 1]
        if constant:
            note(f"the same in every row, so of no use: {', '.join(constant)}")


def read_labelled(
    path: Path,
    target: str,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    drop_missing: bool = False,
    groups: str = "",
    *,
    form: TextFormat = SEEN,
    ids: Sequence[str] = (),
    categories: Sequence[str] = (),
    impute: bool = False,
) -> Labelled:
    """Features and labels from a file, and its column of groups if that is named; errors name the remedy."""
    beside = [*([groups] if groups else []), *ids]
    frame = read_table(path, form, [*beside, *categories], target)
    for name in (target, *beside, *include, *exclude, *categories):
        check_column(frame, name, path)
    features = list(include) or [c for c in frame.columns if c not in beside]
    features = [c for c in features if c not in (*exclude, *ids, target)]
    if not features:
        raise Mistake(f"{path} has no feature columns besides {target!r}")
    used = frame[list(dict.fromkeys([*features, target, *beside]))]
    rows: Any = used[ids[0]].to_numpy() if ids else np.arange(1, len(frame) + 1)
    needed = [*([] if impute else features), target, *([groups] if groups else [])]
    whole = used[needed].notna().all(axis=1).to_numpy(copy=True)
    if not drop_missing:
        unlabelled = int(used[target].isna().sum())
        if unlabelled:
            raise Mistake(f"{unlabelled} of {len(used)} rows have no {target!r}; drop them with --drop-missing")
        whole[:] = True  # missing features are counted by whoever encodes them
    if not whole.any():
        raise Mistake(f"every row of {path} has a missing value: drop the emptiest columns with --exclude")
    used = used[whole].reset_index(drop=True)
    labels = np.array(used[target].tolist())
    _check_labels(labels, target, form)
    return Labelled(
        used[features],
        labels,
        rows[whole],
        int(np.sum(~whole)),
        used[groups].to_numpy() if groups else None,
        missing_counts(used, features) if impute else {},
        {name: sorted(map(str, used[name].dropna().unique())) for name in categories if name in features},
    )


def read_as_text(encoding: Encoding) -> list[str]:
    """Columns of names that a file of new rows might spell like numbers or missing values."""
    known = encoding.categories.items()
    return [name for name, words in known if any(word in MISSING or is_number(word) for word in words)]


def check_column(frame: Any, name: str, path: Path) -> None:
    """Raise for an unknown column and suggest similar names."""
    if name not in frame.columns:
        raise Mistake(no_column(path, name, frame.columns))


def _check_labels(labels: Any, target: str, form: TextFormat) -> None:
    distinct = np.unique(labels.astype(str))
    if len(distinct) == 1:
        raise Mistake(f"every row has the same {target!r}; a classifier needs two classes")
    numbers = typed(pd.Series(distinct), form.decimal or ".") if labels.dtype.kind in "fUO" else None
    if numbers is not None and numbers.dtype.kind == "f" and not np.all(numbers == np.round(numbers)):
        raise Mistake(
            f"column {target!r} holds measurements, not classes ({len(distinct)} different values); cut it into "
            "classes first"
        )
    if len(distinct) > max(20, len(labels) // 4):
        raise Mistake(f"column {target!r} has {len(distinct)} different values in {len(labels)} rows: is it the label?")
    for word in sorted({*MISSING} & set(distinct.tolist())):
        note(f"{np.sum(labels == word)} rows have the class {word!r}; if it means no label, set --missing {word}")
