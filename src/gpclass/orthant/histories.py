"""The histories of particles as a tree, in which an ancestor is stored once however many points descend from it.

Where half of the points are replaced at every step, most share their history but for the last few coordinates: those
of t steps ago come from about 2M/t different points. The coordinates are cut into levels, oldest first; a level stores
them for the distinct ancestors alone, and for each of those its own ancestor in the level before. A product W z with
all histories goes down the levels: the product with a level's own coordinates, plus that of the level before, taken at
the ancestors. Columns without descendants are dropped, and levels are merged while they have columns of similar
number, so that there are few.

Cost: with a constant share of deaths, a product with r rows takes O(r M) plus O(r n) times the ancestors that are left,
instead of r n M. If no point dies it is the plain matrix product, and merging copies each row log₂(n) times at most.
Reference: Jacob, Murray & Rubenthaler (2015), Path storage in the particle filter, for the size of the tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpclass._typing import IntArray

Matrix = npt.NDArray[Any]  # single or double precision
WORTH = 0.8  # columns are dropped if at most this share is left


@dataclass
class Level:
    """Some consecutive coordinates of the distinct ancestors."""

    z: Matrix  # (coordinates, columns)
    parent: IntArray  # (columns,), in the level before; in the oldest, among the points of the beginning

    def keep(self, columns: IntArray) -> Level:
        """These columns alone, which may be repeated."""
        return Level(take_columns(self.z, columns), self.parent.take(columns))


class Histories:
    """Coordinates of M points, which are the columns of the newest level."""

    def __init__(self) -> None:
        self.levels: list[Level] = []

    def append(self, z: Matrix, parent: IntArray) -> None:
        """New coordinates (r, M) of the points, and which of the points before them each descends from (M,)."""
        self.levels.append(Level(z, parent))
        self._drop()
        self._merge()

    def product(self, W: Matrix) -> Matrix:
        """W z, (r, M), for W (r, coordinates)."""
        begin, found = 0, np.empty((len(W), 0), W.dtype)
        for i, level in enumerate(self.levels):
            end = begin + len(level.z)
            own = W[:, begin:end] @ level.z
            if i:
                for row, before in zip(own, found, strict=True):
                    row += before.take(level.parent)
            begin, found = end, own
        return found

    def first(self) -> IntArray:
        """The point of the beginning from which each point descends, (M,)."""
        found = self.levels[0].parent
        for level in self.levels[1:]:
            found = found.take(level.parent)
        return found

    def _drop(self) -> None:
        """Columns without descendants, from the newest level down to the first that hardly changes."""
        for i in range(len(self.levels) - 1, 0, -1):
            new, old = self.levels[i], self.levels[i - 1]
            used = np.zeros(len(old.parent), dtype=bool)
            used[new.parent] = True
            left = np.flatnonzero(used)
            if len(left) > WORTH * len(used):
                return
            place = np.empty(len(used), dtype=np.intp)
            place[left] = np.arange(len(left))
            new.parent = place.take(new.parent)
            self.levels[i - 1] = old.keep(left)

    def _merge(self) -> None:
        """Neighbours of similar width, if the older is not the longer one; the newest stays by itself until it ages."""
        for i in range(len(self.levels) - 2, 0, -1):
            old, new = self.levels[i - 1 : i + 1]
            if len(old.z) <= len(new.z) and 2 * len(old.parent) > len(new.parent):
                wide = old.keep(new.parent)
                self.levels[i - 1 : i + 1] = [Level(np.vstack([wide.z, new.z]), wide.parent)]


def take_columns(z: Matrix, columns: IntArray) -> Matrix:
    """z[:, columns], row by row: a row fits a processor's cache."""
    found = np.empty((len(z), len(columns)), z.dtype)
    for row, out in zip(z, found, strict=True):
        row.take(columns, out=out, mode="clip")  # without a buffer
    return found
