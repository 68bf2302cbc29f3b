"""Rows: storage of features, labels and weights, and sums of work over them. No statistics.

Every sum over data that an inference needs is a *map* over shards of rows and a small *reduction*:

    work(shard, *arguments) -> (shard', sums),        Σ over shards of sums,

where ``work`` is a pure function of the shard and of its (small) arguments, and ``sums`` is a dictionary of arrays and
numbers whose sizes do not depend on the number of rows. A shard' is the shard with other values: the few numbers per
row that an inference stores. A dense problem is one shard in memory. An :class:`Executor` decides where work runs:
:class:`Local` distributes the shards over the threads of this process; others hold the shards in worker processes.

A shard may cache its block of whitened covariances in ``scratch``, keyed by what they were computed for. The scratch
is not state: it is dropped when a shard is copied to another process, and recomputed when missing.
Cost: one pass over the rows per ``map_reduce``; the reduction adds dictionaries in the order of the shards, so that
the same shards give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from gpclass._typing import Array, IntArray
from gpclass.model.sums import Sums, added
from gpclass.numerics.threads import allowed_threads, one_thread, pool

SHARD_ROWS = 65_536  # rows of a shard at most
FEWEST_ROWS = 2048  # of a shard of an array in memory: fewer do not justify a thread
LOOK = 2000  # rows whose features tell data from other data
SHARDS = 64  # of such an array, if that makes them large enough: balances the threads

Work: TypeAlias = "Callable[..., tuple[Shard, Sums]]"


@dataclass(frozen=True, eq=False)
class Shard:
    """Some rows: features, labels, weights, and an inference's numbers for each row.

    ``X`` is an array (also a memory map), or a function without arguments that reads it, for rows that are not in
    memory; such a function must be picklable if shards are sent to other processes.
    """

    X: Array | Callable[[], Array]  # (r, d)
    y: npt.NDArray[Any]  # (r,), labels as the likelihood takes them
    weights: Array | None = None  # (r,), powers of the likelihood; None: all one
    first: int = 0  # index of the first row among all rows
    values: Array | None = None  # (k, r), the few numbers per row that an inference stores; None: none yet
    absent: IntArray | None = None  # rows of this shard, counted from its first, that are excluded for now
    scratch: dict[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if len(self.y) == 0:
            raise ValueError("a shard without rows: remove it")

    def __len__(self) -> int:
        return len(self.y)

    def rows(self) -> Array:
        """The features, (r, d), in float64."""
        X = self.X() if callable(self.X) else self.X
        return np.asarray(X, dtype=np.float64)

    def with_values(self, values: Array | None) -> Shard:
        """The same rows with other values; the scratch is shared."""
        made = object.__new__(Shard)  # rows were checked once; this is called at every step
        vars(made).update(vars(self), values=values)
        return made

    @property
    def kept(self) -> Array:
        """The values, which must exist."""
        assert self.values is not None
        return self.values

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: all except the scratch."""
        return {**vars(self), "scratch": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


class Executor(Protocol):
    """Where shards are stored and work on them runs.

    ``held`` denotes the shards: :class:`Local` holds the shards themselves, an executor on other processes holds
    references. Work never changes what is held: it returns a new list of references.
    """

    def place(self, shards: Sequence[Shard]) -> list[Any]:
        """Place shards; one reference per shard, in their order."""

    def map_reduce(self, work: Work, held: Sequence[Any], *arguments: Any) -> tuple[list[Any], Sums]:
        """``work(shard, *arguments)`` for every shard: references to the new shards, and the added sums.

        ``work`` and the arguments are picklable. The sums are added in the order of the shards.
        """

    def fetch(self, held: Sequence[Any]) -> list[Shard]:
        """The shards themselves, in this process (for their sites; their features may be missing)."""


@dataclass(frozen=True)
class Local:
    """In this process, each shard by one thread.

    As many threads as linear algebra may use, which itself is then limited to one: on blocks of a few thousand rows by
    a few hundred its threads are inefficient.
    """

    threads: int | None = None  # None: what the settings of the linear algebra allow

    def place(self, shards: Sequence[Shard]) -> list[Any]:
        """The shards themselves."""
        return list(shards)

    def map_reduce(self, work: Work, held: Sequence[Any], *arguments: Any) -> tuple[list[Any], Sums]:
        """The same bits for any number of threads."""
        if not held:
            raise ValueError("no shards: the data have no rows")
        if len(held) == 1:
            shard, sums = work(held[0], *arguments)
            return [shard], sums
        threads = self.threads or allowed_threads()
        new: list[Any] = []

        def each() -> Iterator[Sums]:
            for shard, sums in side_by_side(lambda shard: work(shard, *arguments), held):
                new.append(shard)
                yield sums

        with one_thread():
            side_by_side = pool(threads).map if threads > 1 else map
            total = added(each())
        return new, total

    def fetch(self, held: Sequence[Any]) -> list[Shard]:
        """The shards themselves."""
        return list(held)


class Source(Protocol):
    """Data that can be cut into shards, and read by rows.

    Sources are dataclasses with a field ``y`` (n,), so that ``dataclasses.replace(source, y=...)`` relabels them.
    """

    @property
    def executor(self) -> Executor | None:
        """Where work on its shards runs; None: in this process."""

    @property
    def y(self) -> npt.NDArray[Any]:
        """Labels of all rows, (n,)."""

    @property
    def n(self) -> int:
        """Number of rows."""

    @property
    def d(self) -> int:
        """Number of columns of X."""

    def shards(self) -> list[Shard]:
        """All rows, cut. Every row is in exactly one shard, ``first`` is its index."""

    def take(self, rows: IntArray) -> tuple[Array, npt.NDArray[Any], Array | None]:
        """X (k, d), y (k,) and weights of some rows, given in increasing order: for starts and subsets."""


def shard_size(n: int) -> int:
    """Rows of a shard of n rows in memory."""
    return min(max(-(-n // SHARDS), FEWEST_ROWS), SHARD_ROWS)


@dataclass(frozen=True, eq=False)
class ArraySource:
    """Arrays in memory, or memory-mapped."""

    X: Array  # (n, d)
    y: npt.NDArray[Any]  # (n,)
    weights: Array | None = None
    shard_rows: int | None = None  # None: chosen from the number of rows
    executor: Executor | None = None  # of passes over the rows; None: this process

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.y)

    @property
    def d(self) -> int:
        """Number of columns."""
        return int(self.X.shape[1])

    def shards(self) -> list[Shard]:
        """Consecutive rows; views, no copies."""
        size, made = self.shard_rows or shard_size(self.n), []
        for first in range(0, self.n, size):
            part = slice(first, first + size)
            weights = None if self.weights is None else self.weights[part]
            made.append(Shard(self.X[part], self.y[part], weights, first))
        return made

    def take(self, rows: IntArray) -> tuple[Array, npt.NDArray[Any], Array | None]:
        """Some rows."""
        X = np.asarray(self.X[rows], dtype=np.float64)
        return X, self.y[rows], None if self.weights is None else self.weights[rows]


@dataclass(frozen=True)
class Labels:
    """Labels and weights of some rows.

    A weight w is the power of the likelihood: from 1 on it counts copies of the row, below 1 it is the factor's power.
    So a whole weight is that many equal rows, and everything is continuous in w, also at 1. If a factor's powers have
    no moments, w counts copies below 1 too.
    """

    y: npt.NDArray[Any]  # (r,)
    copies: Array | float = 1.0  # (r,), 0 or >= 1, unless the factor takes no powers
    power: Array | float = 1.0  # (r,), in ]0, 1]

    @classmethod
    def of(cls, shard: Shard, rows: slice, powers: bool = True) -> Labels:
        """Those of a block of a shard; an excluded row has no copies."""
        y, weights = shard.y[rows], None if shard.weights is None else shard.weights[rows]
        if shard.absent is not None:
            present = np.ones(len(shard))
            present[shard.absent] = 0.0
            weights = present[rows] if weights is None else weights * present[rows]
        if weights is None or np.all(weights == 1.0):
            return cls(y)
        if not powers:
            return cls(y, weights)
        copies = np.where(weights > 0.0, np.maximum(weights, 1.0), 0.0)
        power = np.where(weights > 0.0, np.minimum(weights, 1.0), 1.0)
        return cls(y, copies, 1.0 if np.all(power == 1.0) else power)

    @property
    def plain(self) -> bool:
        """Whether no factor is raised to a power."""
        return isinstance(self.power, float)

    @property
    def count(self) -> Array:
        """Copies of every row, (r,)."""
        return np.broadcast_to(self.copies, len(self.y))

    @property
    def power_column(self) -> Array:
        """Powers as a column, (r, 1)."""
        return np.broadcast_to(self.power, len(self.y))[:, None]

    def take(self, rows: IntArray) -> Labels:
        """Those of some rows."""
        copies = self.copies if isinstance(self.copies, float) else self.copies[rows]
        power = self.power if isinstance(self.power, float) else self.power[rows]
        return Labels(self.y[rows], copies, power)

    def clear_absent(self, values: Array) -> Array:
        """The values (k, r), zero for excluded rows."""
        return values if isinstance(self.copies, float) else np.where(self.copies > 0, values, 0.0)


NO_ROWS = "this model was read from a file, which stores no rows: fit again to evaluate at other parameters"


@dataclass(frozen=True, eq=False)
class Rows:
    """Shards, placed with an executor."""

    n: int
    d: int
    held: tuple[Any, ...]  # references to the shards, without values
    executor: Executor
    source: Source | None = None  # None: no rows, as in a model read from a file
    count: float = 0.0  # sum of the weights
    weighted: bool = False  # whether any weight is not one

    @classmethod
    def of(cls, source: Source, executor: Executor | None = None) -> Rows:
        """Cut a source and place its shards."""
        chosen: Executor = executor or source.executor or Local()
        shards = source.shards()
        count = sum(len(s) if s.weights is None else float(np.sum(s.weights)) for s in shards)
        weighted = any(s.weights is not None and not np.all(s.weights == 1.0) for s in shards)
        return cls(source.n, source.d, tuple(chosen.place(shards)), chosen, source, float(count), weighted)

    @classmethod
    def in_memory(cls, X: Array, y: npt.NDArray[Any], weights: Array | None = None) -> Rows:
        """One shard of arrays."""
        return cls.of(ArraySource(X, y, weights, shard_rows=max(1, len(y))), Local())

    def map(self, work: Work, held: Sequence[Any], *arguments: Any) -> tuple[tuple[Any, ...], Sums]:
        """``work(shard, *arguments)`` on every shard: the shards with their new values, and the added sums."""
        if not held:
            raise ValueError(NO_ROWS)
        new, sums = self.executor.map_reduce(work, held, *arguments)
        return tuple(new), sums

    def take(self, rows: IntArray) -> tuple[Array, npt.NDArray[Any], Array | None]:
        """X, y and weights of some rows, given in increasing order."""
        return self._source.take(rows)

    @property
    def everything(self) -> tuple[Array, npt.NDArray[Any], Array | None]:
        """X, y and weights of all rows, in memory."""
        source = self._source
        if isinstance(source, ArraySource):
            return source.X, source.y, source.weights
        return source.take(np.arange(self.n))

    def labels(self) -> tuple[npt.NDArray[Any], Array]:
        """Labels and weights of all rows, (n,) each, without their features."""
        shards = self._source.shards()
        weights = [np.ones(len(shard)) if shard.weights is None else shard.weights for shard in shards]
        return np.concatenate([shard.y for shard in shards]), np.concatenate(weights)

    @property
    def _source(self) -> Source:
        if self.source is None:
            raise ValueError(NO_ROWS)
        return self.source

    def marks(self) -> list[Any]:
        """What tells these rows from others: labels and weights of every shard, and the features of some rows."""
        some = np.unique(np.linspace(0, self.n - 1, min(self.n, LOOK)).astype(np.intp))
        shards = [(shard.y, shard.weights) for shard in self._source.shards()]
        return [self.n, self.take(some)[0], shards]

    def state(self) -> dict[str, Any]:
        """What a file stores of rows that predictions do not need: the numbers."""
        return {"n": self.n, "d": self.d, "count": self.count}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Rows:
        """The numbers, without rows."""
        return cls(state["n"], state["d"], (), Local(), None, state["count"])


def put_values(shard: Shard, values: Array) -> tuple[Shard, Sums]:
    """Work: the shard with its part of the values (k, n) of all rows."""
    return shard.with_values(values[:, shard.first : shard.first + len(shard)].copy()), {}


def blank(shard: Shard, k: int) -> tuple[Shard, Sums]:
    """Work: the shard with k zeros per row."""
    return shard.with_values(np.zeros((k, len(shard)))), {}


def collect_values(shard: Shard, k: int | None = None) -> tuple[Shard, Sums]:
    """Work: the first k values of all rows, in the order of the shards."""
    return shard, {"values": [shard.kept[:k]]}


def leave_out(shard: Shard, absent: IntArray) -> tuple[Shard, Sums]:
    """Work: the shard without some rows, given by their indices among all rows in increasing order."""
    a, b = np.searchsorted(absent, [shard.first, shard.first + len(shard)])
    return replace(shard, absent=absent[a:b] - shard.first if b > a else None), {}


def bring_back(shard: Shard) -> tuple[Shard, Sums]:
    """Work: the shard with all its rows."""
    return replace(shard, absent=None), {}


def let_go(shard: Shard) -> tuple[Shard, Sums]:
    """Work: the shard without its cached blocks."""
    shard.scratch.clear()
    return shard, {}
