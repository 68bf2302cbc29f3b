"""Encoding of the columns of a Parquet folder as numbers, learned from all its rows.

One pass gives the mean and standard deviation of each numeric column and the categories of each text column, identical
to ``Encoding.learn`` on all rows in memory.
Cost: O(rows × columns), one batch of rows in memory. Fails when: values are missing, and are neither
imputed nor dropped.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpclass.data.columns import ColumnSummary, Encoding, check_missing
from gpclass.data.parquet import EXCLUDE_CURE, MISSING_CURE, ParquetFolder, batches, check_columns, naming

MEDIAN_ROWS = 100_000  # most rows used for a column's median, which maps use
BATCH = 65_536  # rows per batch


def encoded_folder(
    folder: str | os.PathLike[str] | ParquetFolder,
    target: str,
    *,
    weights: str | None = None,
    standardize: bool = True,
    impute: bool = False,
    categories: Mapping[str, Sequence[Any]] | None = None,
    spatial: Sequence[str] | None = None,
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
    impute : bool, default=False
        Put the median (of ``MEDIAN_ROWS`` rows) or the most common category in place of missing values.
    categories, spatial
        As in :class:`gpclass.estimators.tables.TableClassifier`.
    """
    if not isinstance(folder, ParquetFolder):
        folder = ParquetFolder(folder)
    files = folder.files()
    beside = [target] if weights is None else [target, weights]
    names = check_columns(folder, files, beside, numbers=False)
    columns = dict(zip(names, ColumnSummary.of(names, categories), strict=True))
    needed = [*(() if impute else names), *beside] if folder.drop_missing else []
    read = list(dict.fromkeys([*names, *needed]))  # rows without a label are left out too
    for file in files:
        with naming(file):
            for batch in batches(file, BATCH, read):
                frame = batch.to_pandas(ignore_metadata=True)
                frame = frame[frame[needed].notna().all(axis=1)]
                if not impute:
                    check_missing(frame, list(names), MISSING_CURE)
                for name in names:
                    columns[name].add(frame[name].dropna(), MEDIAN_ROWS // len(files))
    if not any(column.count or column.words for column in columns.values()):
        raise ValueError(f"every row has a missing value: exclude the emptiest columns ({EXCLUDE_CURE})")
    encoding = Encoding.of(columns.values(), standardize, impute, spatial)
    return replace(folder, features=names, encoding=encoding)
