"""Whether an estimator's settings and data require the low-rank prior."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np


def is_wanted(clf: Any) -> bool:
    """Whether inducing inputs are requested."""
    return clf.n_inducing is not None or not isinstance(clf.inducing, str)


def is_source(X: Any, clf: Any) -> bool:
    """Whether rows are not an ordinary array: Parquet folder, Dask collection or, with inducing inputs, memory map."""
    if isinstance(X, np.memmap):
        return is_wanted(clf)
    return in_files(X) or is_dask(X)


def in_files(X: Any) -> bool:
    """Whether rows are in a Parquet folder."""
    return isinstance(X, (str, PathLike)) or type(X).__module__.startswith("gpclass.data.")


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection, without importing Dask."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(X, "dask")


def as_source(X: Any, y: Any, sample_weight: Any, class_weight: Any) -> Any:
    """The source, its classes and the names of its columns (or None)."""
    from gpclass.data.sources import as_source as make  # here, to keep the import of the package fast

    found = make(X, y, sample_weight, class_weight)
    if found is None:
        raise ValueError(
            f"rows cannot be read from a {type(X).__name__}: give an array, a Parquet folder or a Dask collection"
        )
    return found
