"""From user data to shards: arrays on disk, a Parquet folder, a Dask array or data frame.

:func:`as_source` reads the labels (eight bytes per row), checks that every part has the same columns, labels of one
kind and at least one row, and leaves the features where they are: a shard reads its rows when it needs them, in this
process or on the workers of an open Dask client (:mod:`gpclass.data.dask`).

Cost: one pass over the labels. Features are read again whenever the kernel parameters or the inducing inputs
move, unless the shard keeps its block of covariances; reading is a small part of the O(m²) work per row.
Fails when: features are not finite numbers, which shows at the first pass over them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from os import PathLike
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from gpclass._typing import Array, IntArray
from gpclass.model.rows import Executor, Shard, shard_size

MOST_CLASSES = 1000  # more distinct labels than that are names or measurements

Found: TypeAlias = "tuple[PartsSource, npt.NDArray[Any], list[str] | None]"


# ---- what is a source ------------------------------------------------------------------------------------------------


def is_source(X: Any, *, mapped: bool = True) -> bool:
    """Whether rows are to be read through :func:`as_source`; ``mapped``: whether those of a memory map are."""
    if isinstance(X, np.memmap):
        return mapped
    return not isinstance(X, np.ndarray) and (in_files(X) or is_dask(X))


def in_files(X: Any) -> bool:
    """Whether rows are in a Parquet folder."""
    parquet = sys.modules.get("gpclass.data.parquet")  # if nothing has imported it, X is no folder of its
    return isinstance(X, (str, PathLike)) or (parquet is not None and isinstance(X, parquet.ParquetFolder))


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection, by where its class comes from; Dask is not imported to find out."""
    packages = {kind.__module__.partition(".")[0] for kind in type(X).__mro__}
    return not packages.isdisjoint(("dask", "dask_expr"))


def as_source(X: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None) -> Found:
    """Rows that are not an ordinary array, as a source of shards.

    Parameters
    ----------
    X : path of a Parquet folder or file, ParquetFolder, numpy.memmap, Dask array or Dask data frame
    y : labels of two classes or more
        The name of a column of a Parquet folder or a Dask data frame; else an array of shape (n,), also of Dask.
    sample_weight : column name or array of shape (n,), default=None
    class_weight : dict or "balanced", default=None
        Multiplied into the sample weights.

    Returns
    -------
    source : PartsSource
        A dataclass. Its ``y`` (n,) are the places of the labels in ``classes``;
        ``dataclasses.replace(source, y=...)`` gives them the form that a likelihood takes.
    classes : array of shape (C,), sorted
    names : list of the names of the features, or None if they have none
    """
    from gpclass.data.parquet import ParquetFolder, parquet_source

    if isinstance(X, (str, PathLike)):
        X = ParquetFolder(X)
    if isinstance(X, ParquetFolder):
        return parquet_source(X, y, sample_weight, class_weight)
    if isinstance(X, np.memmap):
        return _memmap_source(X, y, sample_weight, class_weight)
    if is_dask(X):
        from gpclass.data.dask_collections import dask_source

        return dask_source(X, y, sample_weight, class_weight)
    raise ValueError(
        f"rows cannot be read from a {type(X).__name__}: give an array, a Parquet folder or a Dask collection"
    )


def environment_executor() -> Executor | None:
    """An executor on the open Dask client, if any."""
    if "distributed" not in sys.modules:  # no client can be open
        return None
    from gpclass.data.dask import DaskExecutor
    from gpclass.data.dask_client import environment_client

    client = environment_client()
    return None if client is None else DaskExecutor(client)


# ---- labels and weights ----------------------------------------------------------------------------------------------


class Labels:
    """Collects the labels of parts: classes of one kind, none missing, not more than ``MOST_CLASSES``."""

    def __init__(self, cure: str = "") -> None:
        self.cure = f" ({cure})" if cure else ""  # how rows without a label are left out
        self.classes: dict[Any, int] = {}  # label to its number, in the order in which they were seen
        self.codes: list[npt.NDArray[np.int16]] = []
        self.kind = ""
        self.seen_in = ""

    def add(self, labels: Any, part: str) -> None:
        """Add the labels of one part; errors refer to it by name."""
        labels = np.asarray(labels)
        if labels.ndim != 1:
            raise ValueError(f"{part}: labels have shape {labels.shape}; give one label per row")
        if len(labels) == 0:
            raise ValueError(f"{part} has no rows: remove the file, or repartition so that no part is empty")
        if missing := _missing(labels):
            raise ValueError(f"{part}: {missing} of {len(labels)} labels are missing; drop these rows{self.cure}")
        if labels.dtype.kind == "O":  # numbers that were kept as objects are numbers
            if len({issubclass(kind, (str, bytes)) for kind in set(map(type, labels))}) > 1:
                raise ValueError(f"{part} holds labels that are numbers and words; write labels of one type")
            labels = np.array(labels.tolist())
        kind = "numbers" if labels.dtype.kind in "biuf" else "text"
        if labels.dtype.kind == "f" and not np.all(labels == np.rint(labels)):
            raise ValueError(f"{part}: the labels are measurements, not classes; cut them into classes first")
        if self.kind and kind != self.kind:
            raise ValueError(
                f"the labels of {part} are {kind}, those of {self.seen_in} are {self.kind}; write all parts "
                "with labels of one type"
            )
        if kind == "text":
            labels = labels.astype(str)
        present, index = np.unique(labels, return_inverse=True)
        unseen = [label for label in present.tolist() if label not in self.classes]
        if len(self.classes) + len(unseen) > MOST_CLASSES:
            raise ValueError(
                f"{part}: with it there are {len(self.classes) + len(unseen)} different labels, more than "
                f"{MOST_CLASSES}: an identifier or a measurement? Name the column that holds the classes, or "
                "join the labels to fewer"
            )
        self.classes.update({label: len(self.classes) + k for k, label in enumerate(unseen)})
        code = np.array([self.classes[label] for label in present.tolist()], dtype=np.int16)
        self.codes.append(code[index])
        self.kind, self.seen_in = kind, self.seen_in or part

    def result(self) -> tuple[npt.NDArray[Any], IntArray]:
        """The classes, sorted, and the place of every label among them."""
        if not self.classes:
            raise ValueError("the data have no rows")
        if len(self.classes) == 1:
            (only,) = self.classes
            raise ValueError(f"the labels hold one class only ({only!r}); a classifier needs examples of two")
        classes, place = np.unique(np.array(list(self.classes)), return_inverse=True)
        return classes, place.astype(np.intp)[np.concatenate(self.codes)]


def _missing(labels: npt.NDArray[Any]) -> int:
    if labels.dtype.kind == "O":
        return sum(map(_is_missing, labels))
    return int(np.sum(labels != labels))  # NaN and NaT differ from themselves


def _is_missing(label: Any) -> bool:
    """Whether a label is None, or differs from itself, or cannot tell (pandas.NA)."""
    try:
        return label is None or bool(label != label)
    except TypeError:
        return True


def _row_weights(weights: Any, class_weight: Any, index: IntArray, classes: npt.NDArray[Any]) -> Array | None:
    """Sample times class weights of all rows, whose classes have the places ``index``; None if all are one."""
    if weights is None and class_weight is None:
        return None
    weights = np.ones(len(index)) if weights is None else np.asarray(weights, dtype=np.float64)
    if weights.shape != index.shape:
        raise ValueError(f"sample_weight has shape {weights.shape}, there are {len(index)} rows")
    if class_weight is not None:
        from sklearn.utils import compute_class_weight

        weights = weights * compute_class_weight(class_weight, classes=classes, y=classes[index])[index]
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise ValueError("weights must be finite and not negative; check sample_weight and class_weight")
    for label in classes[np.bincount(index, weights, minlength=len(classes)) == 0]:
        raise ValueError(f"every row of class {label.item()!r} has weight zero: give it some weight")
    return None if np.all(weights == 1.0) else weights


# ---- parts that read themselves --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PartsSource:
    """Rows in parts that are read on demand; labels and weights in memory."""

    parts: tuple[Any, ...]  # callables: () -> (r, d)
    ends: IntArray  # (number of parts,), place after each part's last row
    y: npt.NDArray[Any]  # (n,), places of the classes, or what a likelihood takes instead
    d: int  # number of columns
    weights: Array | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.y)

    @property
    def executor(self) -> Executor | None:
        """The open Dask client's workers, if any."""
        return environment_executor()

    def shards(self) -> list[Shard]:
        """One per part."""
        shards = []
        for part, (a, b) in zip(self.parts, pairwise([0, *map(int, self.ends)]), strict=True):
            shards.append(Shard(part, self.y[a:b], None if self.weights is None else self.weights[a:b], a))
        return shards

    def take(self, rows: IntArray) -> tuple[Array, npt.NDArray[Any], Array | None]:
        """Some rows, in increasing order; every part that holds one is read once."""
        rows = np.asarray(rows)
        X = np.empty((len(rows), self.d))
        owner = np.searchsorted(self.ends, rows, side="right")
        starts = np.concatenate([[0], self.ends[:-1]])
        chosen = {int(k): rows[owner == k] - starts[k] for k in np.unique(owner)}
        parts = [self.parts[k] for k in chosen]
        pick = getattr(parts[0], "pick", None) if parts else None  # rows selected on workers
        found = pick(parts, list(chosen.values())) if pick is not None else None
        for j, (k, places) in enumerate(chosen.items()):
            X[owner == k] = self.parts[k]()[places] if found is None else found[j]
        return X, self.y[rows], None if self.weights is None else self.weights[rows]


def gathered(
    parts: Iterable[Any], sizes: Any, labels: Labels, weights: Any, class_weight: Any, d: int, names: Any
) -> Found:
    """The source of parts with these numbers of rows, its classes, and the names of its d features."""
    classes, index = labels.result()
    weights = _row_weights(weights, class_weight, index, classes)
    return PartsSource(tuple(parts), np.cumsum(sizes), index, d, weights), classes, names


def checked(X: Any, part: str, cure: str = "drop them") -> Array:
    """Features as float64, after checking that they are finite; ``cure`` is the remedy in the error."""
    found = np.asarray(X, dtype=np.float64)
    if not np.isfinite(found).all():
        bad = int(np.sum(~np.isfinite(found).all(axis=1)))
        raise ValueError(f"{part}: {bad} of {len(found)} rows hold missing or infinite values; fill them in or {cure}")
    return found


# ---- memory-mapped arrays --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MappedRows:
    """Rows of an array in a file, opened by the process that reads them."""

    file: str
    dtype: str
    shape: tuple[int, int]
    offset: int
    order: Literal["C", "F"]
    start: int
    stop: int

    def __call__(self) -> Array:
        name = f"rows {self.start} to {self.stop - 1} of {self.file}"
        try:
            whole = np.memmap(self.file, self.dtype, "r", self.offset, self.shape, self.order)
        except OSError as error:
            raise ValueError(
                f"{name} cannot be read ({error}); the file must not move during a fit, and must be "
                "readable by all workers"
            ) from error
        return checked(whole[self.start : self.stop], name)


def _memmap_source(X: Any, y: Any, sample_weight: Any, class_weight: Any) -> Found:
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
    bounds = [*range(0, len(X), shard_size(len(X))), len(X)]
    parts: list[Any]
    if _is_whole_file(X):
        order: Literal["C", "F"] = "C" if X.flags.c_contiguous else "F"
        file = str(X.filename), X.dtype.str, X.shape, int(X.offset), order
        parts = [MappedRows(*file, a, b) for a, b in pairwise(bounds)]
    else:  # a view of a map: its position in the file is unknown
        parts = [partial(checked, X[a:b], f"rows {a} to {b - 1} of X") for a, b in pairwise(bounds)]
    return gathered(parts, np.diff(bounds), labels, sample_weight, class_weight, X.shape[1], None)


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
