"""Tiles: the matrix is processed block by block.

A tile is a block of rows by a block of columns that fits in the processor's cache, so that the dozen elementwise
passes of a composite kernel read memory once. If both arguments are the same points, only tiles on and above the
diagonal are computed: the value is mirrored (and therefore exactly symmetric) and the weights G of a pullback are
folded, Σ_ij G_ij dK_ij = Σ over kept tiles of (G_IJ + G_JIᵀ) dK_IJ.

Memory beyond the n×m result: one tile per part of the kernel or, if the derivative is needed, half an n×n matrix
per array that a part keeps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

import numpy as np

from gpclass._typing import Array

TILE = 256  # 256 x 256 doubles are 512 kB: three of them stay in a common second-level cache

Value: TypeAlias = "Array | float"  # a tile (b, c), or one number if the kernel is constant
# adds Σ_i g_i dk_i/dθ to its second argument, given g (P,) as its first
PairPull: TypeAlias = "Callable[[Array, Array], None]"
# derivatives by the row points (b, d) and the column points (c, d)
Moves: TypeAlias = "tuple[Array, Array] | None"


@dataclass(frozen=True)
class Tile:
    """Rows and columns of one block; ``diagonal`` if both are the same points of a square matrix."""

    index: int
    rows: slice
    columns: slice
    diagonal: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start


def tiles(n: int, m: int, square: bool) -> Iterator[Tile]:
    """Tiles that cover an (n, m) matrix; only those on and above the diagonal if it is symmetric."""
    pairs = product(enumerate(_batches(n)), enumerate(_batches(m)))
    kept = ((rows, columns, i == j) for (i, rows), (j, columns) in pairs if not square or i <= j)
    for index, (rows, columns, same) in enumerate(kept):
        yield Tile(index, rows, columns, square and same)


def _batches(n: int) -> Iterator[slice]:
    return (slice(begin, min(begin + TILE, n)) for begin in range(0, n, TILE))


def fold(G: Array, tile: Tile, square: bool) -> Array:
    """The weights of a tile, including those of its mirror image."""
    part = G[tile.rows, tile.columns]
    if square and not tile.diagonal:
        return np.asarray(part + G[tile.columns, tile.rows].T)
    return np.ascontiguousarray(part)


class Node(ABC):
    """One part of a kernel, with its parameter values and their indices in θ."""

    @abstractmethod
    def bind(self, X: Array, Z: Array, keep: bool) -> Bound:
        """Prepare for the points X (n, d) and Z (m, d); ``keep`` stores what the pullback needs."""

    @abstractmethod
    def diag(self, X: Array) -> Value:
        """The values k(x_i, x_i), (n,) or one number."""

    @abstractmethod
    def diag_pull(self, X: Array, g: Array, theta: Array) -> None:
        """Add Σ_i g_i dk(x_i, x_i)/dθ to ``theta``."""

    @abstractmethod
    def pairs(self, X: Array, Z: Array) -> tuple[Value, PairPull]:
        """The values k(x_i, z_i) of different points X (P, d) and Z (P, d), (P,) or one number; and their pullback."""


class Bound(ABC):
    """A node at given points."""

    @abstractmethod
    def value(self, tile: Tile) -> Value:
        """The kernel over the tile. The caller must not modify the array: it may be kept."""

    @abstractmethod
    def pull(self, tile: Tile, G: Array, theta: Array | None) -> Moves:
        """Add Σ G_ij dK_ij/dθ over the tile to ``theta``; if it is None, return derivatives by the points.

        None denotes zero. G is not modified.
        """


def add_moves(a: Moves, b: Moves) -> Moves:
    """Sum of two derivatives by the points; None denotes zero."""
    if a is None or b is None:
        return b if a is None else a
    return a[0] + b[0], a[1] + b[1]
