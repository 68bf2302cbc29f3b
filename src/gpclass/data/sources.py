"""From user data to shards: arrays on disk, a Parquet folder, a Dask array or data frame.

:func:`as_source` is the entry point. It reads the labels (eight bytes per row), checks that every part has the same
columns, the same two classes and at least one row, and does not load the features: a shard reads its rows when
needed, in this process or in a worker. Errors name the part and the remedy and are raised before anything is fitted.
If a Dask client is open, its workers hold the shards (:mod:`gpclass.data.dask`).

Cost: one pass over the labels. Features are read again whenever the kernel parameters or the inducing inputs
change, unless the shard keeps its block of covariances; reading is a small part of the O(m²) work per row.
Fails when: features are not finite numbers, which is detected in the first pass over them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from gpclass._typing import Array, IntArray
from gpclass.data.wanted import is_dask
from gpclass.model.rows import Executor, Shard, Source, shard_size

Found = tuple[Source, npt.NDArray[Any], list[str] | None]


def as_source(X: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None) -> Found | None:
    """Rows as shards; None for an ordinary array, list or frame.

    Parameters
    ----------
    X : path of a Parquet folder or file, ParquetFolder, numpy.memmap, Dask array or Dask data frame
    y : labels
        The name of a column of a Parquet folder or a Dask data frame; else an array of shape (n,), possibly from Dask.
    sample_weight : column name or array of shape (n,), default=None
    class_weight : dict or "balanced", default=None
        Multiplied into the sample weights.

    Returns
    -------
    (source, classes, feature names or None), or None
    """
    from gpclass.data.parquet import ParquetFolder, parquet_source

    weigh = _Weights(class_weight)
    if isinstance(X, (str, PathLike)):
        X = ParquetFolder(X)
    if isinstance(X, ParquetFolder):
        return parquet_source(X, y, sample_weight, weigh)
    if isinstance(X, np.memmap):
        return _memmap_source(X, y, sample_weight, weigh)
    if is_dask(X):
        from gpclass.data.dask_collections import dask_source

        return dask_source(X, y, sample_weight, weigh)
    return None


def environment_executor() -> Executor | None:
    """An executor on the open Dask client, if any."""
    if "distributed" not in sys.modules:  # no client can be open
        return None
    from gpclass.data.dask_client import environment_client

    client = environment_client()
    if client is None:
        return None
    from gpclass.data.dask import DaskExecutor

    return DaskExecutor(client)


# ---- labels and weights ----------------------------------------------------------------------------------------------


class Labels:
    """Collects the labels of parts: at most two classes, of one type, none missing."""

    def __init__(self, cure: str = "") -> None:
        self.cure = f" ({cure})" if cure else ""  # how to drop rows without a label
        self.classes: list[Any] = []
        self.codes: list[npt.NDArray[np.int8]] = []
        self.kind = ""
        self.seen_in = ""

    def add(self, labels: Any, part: str) -> None:
        """Add the labels of one part; errors refer to it by name."""
        labels = np.asarray(labels)
        if labels.ndim != 1:
            raise ValueError(f"{part}: labels have shape {labels.shape}; give one label per row")
        if len(labels) == 0:
            raise ValueError(f"{part} has no rows: remove the file, or repartition so that no part is empty")
        missing = _missing(labels)
        if missing:
            raise ValueError(
                f"{part}: {missing} of {len(labels)} labels are missing; drop these rows{self.cure}"
            )
        if labels.dtype.kind == "O":  # convert numbers stored as objects
            labels = np.array(labels.tolist())
        kind = "numbers" if labels.dtype.kind in "biuf" else "text"
        if labels.dtype.kind == "f" and not np.all(labels == np.rint(labels)):
            raise ValueError(
                f"{part}: the labels are measurements, not classes; cut them into two classes first"
            )
        if self.kind and kind != self.kind:
            raise ValueError(
                f"the labels of {part} are {kind}, those of {self.seen_in} are {self.kind}; write all parts "
                "with labels of one type"
            )
        if kind == "text":
            labels = labels.astype(str)
        present, index = np.unique(labels, return_inverse=True)
        for label in present:
            if label in self.classes:
                continue
            if len(self.classes) == 2:
                raise ValueError(
                    f"{part} holds the class {label.item()!r}, a third one besides {self.classes[0].item()!r} and "
                    f"{self.classes[1].item()!r}: inducing points need two classes; merge some, or correct the labels"
                )
            self.classes.append(label)
        code = np.array([self.classes.index(label) for label in present], dtype=np.int8)
        self.codes.append(code[index])
        self.kind, self.seen_in = kind, self.seen_in or part

    def result(self) -> tuple[npt.NDArray[Any], Array]:
        """Classes in order, and all labels as −1 and +1."""
        if len(self.classes) < 2:
            raise ValueError(
                f"the labels hold only one class ({self.classes[0].item()!r}); a classifier needs examples of two"
                if self.classes
                else "the data have no rows"
            )
        classes = np.array(self.classes)
        order = np.argsort(classes)
        sign = np.empty(2)
        sign[order] = (-1.0, 1.0)
        return classes[order], sign[np.concatenate(self.codes)]


def _missing(labels: Any) -> int:
    if labels.dtype.kind == "f":
        return int(np.sum(np.isnan(labels)))
    if labels.dtype.kind == "O":
        return int(sum(label is None or label != label for label in labels))
    return 0


@dataclass(frozen=True)
class _Weights:
    """Class weights, multiplied into sample weights."""

    class_weight: Any

    def __call__(self, weights: Any, y: Array, classes: npt.NDArray[Any]) -> Array | None:
        """Weights of all rows, or None if all are one."""
        if weights is None and self.class_weight is None:
            return None
        weights = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=np.float64)
        if weights.shape != y.shape:
            raise ValueError(f"sample_weight has shape {weights.shape}, but there are {len(y)} rows")
        if self.class_weight is not None:
            from sklearn.utils import compute_class_weight

            index = (y > 0).astype(int)
            each = compute_class_weight(self.class_weight, classes=classes, y=classes[index])
            weights = weights * each[index]
        if not np.all(np.isfinite(weights)) or np.any(weights < 0):
            raise ValueError("weights must be finite and non-negative; check sample_weight and class_weight")
        for sign, label in zip((-1.0, 1.0), classes, strict=True):
            if not np.any(weights[y == sign] > 0):
                raise ValueError(f"every row of class {label!r} has weight zero: give it a positive weight")
        return None if np.all(weights == 1.0) else weights


# ---- parts that read themselves --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PartsSource:
    """Rows in parts that are read on demand; labels and weights in memory."""

    parts: tuple[Any, ...]  # callables: () -> (r, d)
    ends: IntArray  # (number of parts,), index after each part's last row
    y: Array  # (n,), -1 or +1
    width: int
    weights: Array | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.y)

    @property
    def d(self) -> int:
        """Number of columns."""
        return self.width

    @property
    def executor(self) -> Executor | None:
        """The open Dask client's workers, if any."""
        return environment_executor()

    def _spans(self) -> list[slice]:
        starts = np.concatenate([[0], self.ends[:-1]])
        return [slice(int(a), int(b)) for a, b in zip(starts, self.ends, strict=True)]

    def shards(self) -> list[Shard]:
        """One shard per part."""
        weights = self.weights
        return [
            Shard(part, self.y[rows], None if weights is None else weights[rows], rows.start)
            for part, rows in zip(self.parts, self._spans(), strict=True)
        ]

    def take(self, rows: IntArray) -> tuple[Array, Array, Array | None]:
        """Some rows, in increasing order; each part is read at most once."""
        rows = np.asarray(rows)
        X = np.empty((len(rows), self.width))
        owner = np.searchsorted(self.ends, rows, side="right")
        starts = np.concatenate([[0], self.ends[:-1]])
        chosen = {int(k): rows[owner == k] - starts[k] for k in np.unique(owner)}
        parts = [self.parts[k] for k in chosen]
        pick = getattr(parts[0], "pick", None) if parts else None  # rows selected on workers
        found = pick(parts, list(chosen.values())) if pick is not None else None
        for j, (k, places) in enumerate(chosen.items()):
            X[owner == k] = self.parts[k]()[places] if found is None else found[j]
        return X, self.y[rows], None if self.weights is None else self.weights[rows]


def checked(X: Any, part: str, cure: str = "drop them") -> Array:
    """Features as float64, after checking that they are finite; ``cure`` is the remedy in the error."""
    found = np.asarray(X, dtype=np.float64)
    if not np.isfinite(found).all():
        bad = int(np.sum(~np.isfinite(found).all(axis=1)))
        raise ValueError(
            f"{part}: {bad} of {len(found)} rows hold missing or infinite values; fill them in or {cure}"
        )
    return found


# ---- memory-mapped arrays --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MappedRows:
    """Rows of an array in a file, opened by the process that reads them."""

    file: str
    dtype: str
    shape: tuple[int, int]
    offset: int
    order: str
    start: int
    stop: int

    def __call__(self) -> Array:
        """The rows, (r, d)."""
        name = f"rows {self.start} to {self.stop - 1} of {self.file}"
        try:
            whole = np.memmap(
                self.file, self.dtype, "r", self.offset, self.shape, "F" if self.order == "F" else "C"
            )
        except OSError as error:
            raise ValueError(
                f"{name} cannot be read ({error}); the file must not move during a fit, and must be "
                "readable by all workers"
            ) from error
        return checked(whole[self.start : self.stop], name)


def _memmap_source(X: Any, y: Any, sample_weight: Any, weigh: _Weights) -> Found:
    if X.ndim != 2:
        raise ValueError(f"X has shape {X.shape}; it must be (rows, columns)")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X has dtype {X.dtype}; it must be numeric")
    if y is None or isinstance(y, str):
        raise ValueError("a memory-mapped array has no named columns: give y as an array of labels")
    if len(np.shape(y)) != 1 or len(y) != len(X):
        raise ValueError(f"X has {len(X)} rows, y has shape {np.shape(y)}: give one label per row")
    labels = Labels()
    labels.add(y, "y")
    classes, signs = labels.result()
    weights = weigh(sample_weight, signs, classes)
    bounds = [*range(0, len(X), shard_size(len(X))), len(X)]
    spans = list(pairwise(bounds))
    parts: Sequence[Any]
    if _is_whole_file(X):
        order = "C" if X.flags.c_contiguous else "F"
        parts = [
            MappedRows(str(X.filename), X.dtype.str, X.shape, int(X.offset), order, a, b) for a, b in spans
        ]
    else:  # a view of a map: its position in the file is unknown
        parts = [ArrayRows(X[a:b], f"rows {a} to {b - 1} of X") for a, b in spans]
    return PartsSource(tuple(parts), np.array(bounds[1:]), signs, X.shape[1], weights), classes, None


def _is_whole_file(X: Any) -> bool:
    """Whether the array is the content of its file from its offset: not a slice, not a copy on write."""
    if X.filename is None or X.mode == "c" or not (X.flags.c_contiguous or X.flags.f_contiguous):
        return False
    try:
        same = np.memmap(X.filename, X.dtype, "r", X.offset, X.shape, "C" if X.flags.c_contiguous else "F")
    except (OSError, ValueError):
        return False
    base = X
    while isinstance(base.base, np.ndarray):
        base = base.base
    return bool(base.size == X.size and same.nbytes == X.nbytes)


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """Rows of an array in memory."""

    X: Any
    name: str

    def __call__(self) -> Array:
        """The rows, (r, d)."""
        return checked(self.X, self.name)
