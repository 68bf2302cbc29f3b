"""Rows in shards: the one interface between the mathematics of the low-rank prior and where it runs.

Every sum over data that the sparse inferences need is a *map* over shards of rows and a small *reduction*:

    work(shard, *arguments) -> (shard', sums),        Σ over shards of sums,

where ``work`` is a pure function of what is in the shard and of its (small) arguments, and ``sums`` is a
dictionary of arrays and numbers whose sizes do not depend on the number of rows. A shard' is the shard with other
sites. An :class:`Executor` decides where that happens: :class:`Local` shares the shards among the threads of this
process; others keep the shards in worker processes. Nothing that is done to a shard needs to know.

A shard may keep its block of whitened covariances in ``scratch``, keyed by what they were computed for. The scratch is
no state: it is dropped when a shard is copied to another process, and made again when missing.
Cost: one pass over the rows per ``map_reduce``; the reduction adds dictionaries in the order of the shards, so that
the same shards give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from gpclass._typing import Array, IntArray
from gpclass.numerics.threads import allowed_threads, one_thread, pool

SHARD_ROWS = 65_536  # rows of a shard at most
FEWEST_ROWS = 2048  # of a shard of an array in memory: fewer are not worth a thread
SHARDS = 64  # of such an array, where that makes them large enough: all threads have work, and end together

Sums: TypeAlias = "dict[str, Any]"  # arrays and numbers, which add; lists, which are joined
Work: TypeAlias = "Callable[..., tuple[Shard, Sums]]"


@dataclass(frozen=True, eq=False)
class Shard:
    """Some rows: features, labels, weights, and the site of each row.

    ``X`` is an array (also a memory map), or a function without arguments that reads it, for rows that are not in
    memory; such a function must be picklable if shards travel.
    """

    X: Array | Callable[[], Array]  # (r, d)
    y: npt.NDArray[Any]  # (r,), as the likelihood takes them: -1 and +1, or places of the classes
    weights: Array | None = None  # (r,), powers of the likelihood; None: all one
    first: int = 0  # place of the first row among all rows
    sites: Array | None = None  # (k, r), the few numbers per row that an inference keeps; None: none yet
    absent: IntArray | None = None  # rows of this shard, counted from its first, that are left out for now
    scratch: dict[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if len(self.y) == 0:
            raise ValueError("a shard without rows: leave it out")

    def __len__(self) -> int:
        return len(self.y)

    def rows(self) -> Array:
        """The features, (r, d), in float64."""
        X = self.X() if callable(self.X) else self.X
        return np.asarray(X, dtype=np.float64)

    def with_sites(self, sites: Array | None) -> Shard:
        """The same rows with other sites; the scratch is shared."""
        return replace(self, sites=sites)

    def __getstate__(self) -> dict[str, Any]:
        """What travels: all but the scratch."""
        return {**vars(self), "scratch": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


def add(left: Mapping[str, Any], right: Mapping[str, Any]) -> Sums:
    """The sum of two results: arrays and numbers add, lists are joined, ``max_*`` takes the larger."""
    if left.keys() != right.keys():
        raise ValueError(f"two shards gave different sums: {sorted(left)} and {sorted(right)}")
    return {key: _combine(key, left[key], right[key]) for key in left}


def _combine(key: str, a: Any, b: Any) -> Any:
    if key.startswith("max_"):
        return max(a, b)
    return a + b  # of arrays and numbers a sum, of lists both


class Executor(Protocol):
    """Where shards live and work on them is done.

    ``held`` stands for shards wherever they are: :class:`Local` holds the shards themselves, an executor on other
    processes holds references. Work never changes what is held: it gives a new list of references.
    """

    def place(self, shards: Sequence[Shard]) -> list[Any]:
        """Put shards where they will stay; one reference per shard, in their order."""

    def map_reduce(self, work: Work, held: Sequence[Any], *arguments: Any) -> tuple[list[Any], Sums]:
        """``work(shard, *arguments)`` for every shard: references to the new shards, and the added sums.

        ``work`` and the arguments are picklable. The sums are added in the order of the shards.
        """

    def fetch(self, held: Sequence[Any]) -> list[Shard]:
        """The shards themselves, in this process (for their sites; their features need not come along)."""


@dataclass(frozen=True)
class Local:
    """In this process, each shard by one thread.

    As many threads as linear algebra may use, which itself is then kept to one: on blocks of a few thousand rows by a
    few hundred its threads wait for each other longer than they work.
    """

    threads: int | None = None  # None: what the settings of the linear algebra allow

    def place(self, shards: Sequence[Shard]) -> list[Any]:
        """The shards themselves."""
        return list(shards)

    def map_reduce(self, work: Work, held: Sequence[Any], *arguments: Any) -> tuple[list[Any], Sums]:
        """The same bits for any number of threads."""
        if not held:
            raise ValueError("there are no shards: the data have no rows")
        threads = self.threads or allowed_threads()
        with one_thread():
            together = threads > 1 and len(held) > 1
            side_by_side = pool(threads).map if together else map
            new: list[Any] = []
            total: Sums | None = None
            for shard, sums in side_by_side(lambda shard: work(shard, *arguments), held):
                new.append(shard)
                total = sums if total is None else add(total, sums)
        assert total is not None
        return new, total

    def fetch(self, held: Sequence[Any]) -> list[Shard]:
        """The shards themselves."""
        return list(held)


class Source(Protocol):
    """Data that can be cut into shards, and looked at by rows.

    A source is a dataclass with a field ``y``: ``dataclasses.replace(source, y=...)`` is the source with other labels.
    """

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
        """All rows, cut. Every row is in exactly one shard, ``first`` is its place."""

    def take(self, rows: IntArray) -> tuple[Array, npt.NDArray[Any], Array | None]:
        """X (k, d), y (k,) and weights of some rows, given in increasing order: for starts and subsets."""


def shard_size(n: int) -> int:
    """Rows of a shard of n rows in memory."""
    return min(max(-(-n // SHARDS), FEWEST_ROWS), SHARD_ROWS)


@dataclass(frozen=True, eq=False)
class ArraySource:
    """Arrays in memory, or memory-mapped."""

    X: Array  # (n, d)
    y: npt.NDArray[Any]  # (n,), as the likelihood takes them: -1 and +1, or places of the classes
    weights: Array | None = None
    shard_rows: int | None = None  # None: what suits the number of rows

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
        size = self.shard_rows or shard_size(self.n)
        return [
            Shard(
                self.X[a : a + size],
                self.y[a : a + size],
                None if self.weights is None else self.weights[a : a + size],
                first=a,
            )
            for a in range(0, self.n, size)
        ]

    def take(self, rows: IntArray) -> tuple[Array, npt.NDArray[Any], Array | None]:
        """Some rows."""
        X = np.asarray(self.X[rows], dtype=np.float64)
        return X, self.y[rows], None if self.weights is None else self.weights[rows]
