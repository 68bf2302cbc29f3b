"""Encoding of the columns of a Parquet folder as numbers, learned from all its rows.

One pass gives the mean and standard deviation of each numeric column (Chan's update, which is numerically stable) and
the categories of each text column, identical to ``Encoding.learn`` on all rows in memory.
Cost: O(rows × columns), one batch of rows in memory. Fails when: values are missing and drop_missing is False.
Reference: Chan, Golub & LeVeque (1983), Algorithms for computing the sample variance.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpclass._typing import Array
from gpclass.data.parquet import EXCLUDE_CURE, MISSING_CURE, ParquetFolder, arrow, check_columns, naming
from gpclass.estimators.tables import MAX_CATEGORIES, CategoryColumn, Encoding, NumberColumn, check_missing

MEDIAN_ROWS = 100_000  # most rows used for a column's median, which maps use
BATCH = 65_536  # rows per batch


def encoded_folder(
    folder: str | os.PathLike[str] | ParquetFolder,
    target: str,
    *,
    weights: str | None = None,
    standardize: bool = True,
) -> ParquetFolder:
    """The folder with the encoding of its columns, learned from all its rows.

    Parameters
    ----------
    folder : path or ParquetFolder
    target : name of the column with the labels
    weights : name of the column with the sample weights, default=None
        It is no feature.
    standardize : bool, default=True
        Scale numeric columns to (x − mean)/sd.
    """
    if not isinstance(folder, ParquetFolder):
        folder = ParquetFolder(folder)
    files = folder.files()
    beside = [target] if weights is None else [target, weights]
    names = check_columns(folder, files, beside, numbers=False)
    columns = {name: _Column(name) for name in names}
    read = (*names, *beside) if folder.drop_missing else names  # rows without a label are left out too
    for file in files:
        with naming(file), arrow().ParquetFile(file) as opened:
            for batch in opened.iter_batches(BATCH, columns=list(read)):
                frame = batch.to_pandas(ignore_metadata=True)
                if folder.drop_missing:
                    frame = frame[frame.notna().all(axis=1)]
                check_missing(frame, list(names), MISSING_CURE)
                for name in names:
                    columns[name].add(frame[name], MEDIAN_ROWS // len(files))
    encoding = Encoding(tuple(column.result(standardize) for column in columns.values()))
    return replace(folder, features=names, encoding=encoding)


@dataclass
class _Column:
    """Statistics of a column over the rows seen so far."""

    name: str
    count: int = 0
    mean: float = 0.0
    square: float = 0.0  # Σ (x − mean)²
    some: list[Array] = field(default_factory=list)
    words: Counter[str] = field(default_factory=Counter)

    def add(self, column: Any, keep: int) -> None:
        """Add rows."""
        from pandas.api import types

        if types.is_datetime64_any_dtype(column) or types.is_timedelta64_dtype(column):
            raise ValueError(f"column {self.name!r} holds dates: convert it to numbers first")
        if len(column) == 0:
            return
        number = types.is_numeric_dtype(column) and not types.is_bool_dtype(column)
        if self.words if number else self.count:
            raise ValueError(f"column {self.name!r} holds numbers in one file and text in another")
        if number:
            self._add_numbers(column.to_numpy(dtype=float), keep)
            return
        self.words.update(column.astype(str).value_counts().to_dict())
        if len(self.words) > MAX_CATEGORIES:
            raise ValueError(
                f"column {self.name!r} has more than {MAX_CATEGORIES} categories: is it an identifier? Exclude it "
                f"(--exclude {self.name}, or ParquetFolder(path, exclude=[{self.name!r}])), or group its categories"
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
        if self.count == 0:
            raise ValueError(f"every row has a missing value: exclude the emptiest columns ({EXCLUDE_CURE})")
        spread = float(np.sqrt(self.square / self.count))
        centre, scale = (self.mean, spread) if standardize and spread > 0 else (0.0, 1.0)
        return NumberColumn(self.name, centre, scale, float(np.median(np.concatenate(self.some))))
