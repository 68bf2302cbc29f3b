"""Dask arrays and data frames as sources of shards: one shard per block of rows, or per partition.

Labels, weights and the sizes of the parts are computed once and held by this process; features stay in the collection
and are computed on the worker of the shard.
Cost: one pass over the labels. Fails when: a part has no rows, or the collection was persisted on a client that has
been closed, so that its rows are lost; each raises an error with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from gpclass._typing import Array, IntArray
from gpclass.data.dask_client import check_futures
from gpclass.data.sources import Found, Labels, checked, gathered
from gpclass.names import no_column


@dataclass(frozen=True, eq=False)
class DelayedRows:
    """Features of one part of a Dask collection, computed when called."""

    delayed: Any
    name: str
    columns: tuple[str, ...] | None = None

    def __call__(self) -> Array:
        return self.of(self.delayed.compute())

    def of(self, rows: Any) -> Array:
        """A computed part as a matrix."""
        if self.columns is not None:
            rows = rows[list(self.columns)].to_numpy(dtype=float)
        return checked(rows, self.name)

    @staticmethod
    def pick(parts: Sequence[DelayedRows], rows: Sequence[IntArray]) -> list[Array]:
        """Some rows of some parts, selected where the parts are."""
        dask: Any = import_module("dask")
        choose = dask.delayed(_chosen)
        (found,) = dask.compute([choose(part.delayed, at) for part, at in zip(parts, rows, strict=True)])
        return [part.of(one) for part, one in zip(parts, found, strict=True)]


def _chosen(part: Any, rows: IntArray) -> Any:
    return part.iloc[rows] if hasattr(part, "iloc") else part[rows]


def dask_source(X: Any, y: Any, sample_weight: Any, class_weight: Any) -> Found:
    """Shards of a Dask collection: one per block of rows, or per partition."""
    for collection in (X, y, sample_weight):
        check_futures(collection)
    columns: tuple[str, ...] | None = None
    if hasattr(X, "to_delayed") and hasattr(X, "npartitions") and hasattr(X, "columns"):
        columns, y, sample_weight = _columns(X, y, sample_weight)
        parts = X.to_delayed()
    elif getattr(X, "ndim", 0) == 2:
        if X.dtype.kind not in "biuf":
            raise ValueError(f"the Dask array has dtype {X.dtype}; it must be numeric")
        parts = X.rechunk({1: -1}).to_delayed()[:, 0]
    else:
        raise ValueError(
            f"X is a Dask {type(X).__name__} of shape {getattr(X, 'shape', '?')}; it must be (rows, columns)"
        )
    sizes, labels, weights = _small_parts(X, parts, y, sample_weight, columns)
    collected = Labels()
    for k, label in enumerate(labels):
        collected.add(label, f"partition {k} of the data")
    what = "block of rows" if columns is None else "partition"
    rows = [DelayedRows(part, f"{what} {k}", columns) for k, part in enumerate(parts)]
    names = None if columns is None else list(columns)
    d = int(X.shape[1]) if names is None else len(names)
    return gathered(rows, sizes, collected, weights, class_weight, d, names)


def _columns(X: Any, y: Any, sample_weight: Any) -> tuple[tuple[str, ...], Any, Any]:
    """Features, labels and weights of a data frame; the last two may be column names."""
    names = [str(c) for c in X.columns]
    beside = [name for name in (y, sample_weight) if isinstance(name, str)]
    for name in beside:
        if name not in names:
            raise ValueError(no_column("the data frame", name, names))
    columns = tuple(name for name in names if name not in beside)
    for name in columns:
        kind = X.dtypes[name]
        if getattr(kind, "kind", "O") not in "biuf":
            raise ValueError(f"column {name!r} holds {kind}, not numbers: encode it, or exclude it")
    y = X[y] if isinstance(y, str) else y
    weights = X[sample_weight] if isinstance(sample_weight, str) else sample_weight
    return columns, y, weights


def _small_parts(X: Any, parts: Any, y: Any, sample_weight: Any, columns: Any) -> tuple[IntArray, list[Any], Any]:
    """Number of rows of each part, labels by part, and all weights: held by this process."""
    dask: Any = import_module("dask")
    if y is None:
        raise ValueError("give y: labels, or the name of a column of the data frame")
    # One at a time: Dask does not support frames, arrays and delayed values in one computation.
    if columns is not None:
        sizes = X.map_partitions(len).compute()
    elif np.isnan(X.shape[0]):
        (sizes,) = dask.compute([dask.delayed(len)(part) for part in parts])
    else:
        sizes = X.chunks[0]
    (labels,), (weights,) = dask.compute(y), dask.compute(sample_weight)
    sizes = np.asarray(sizes, dtype=int)
    for k, size in enumerate(sizes):
        if size == 0:
            raise ValueError(
                f"partition {k} of the data has no rows: repartition, so that every part has rows "
                "(X.repartition(npartitions=...), or X.rechunk(...))"
            )
    labels = np.asarray(labels)
    if labels.ndim != 1 or len(labels) != sizes.sum():
        raise ValueError(f"X has {sizes.sum()} rows, y has shape {labels.shape}: give one label per row")
    return sizes, np.split(labels, np.cumsum(sizes)[:-1]), weights
