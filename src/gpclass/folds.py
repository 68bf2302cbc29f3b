"""Folds for cross-validation: stratified by class, or spatial blocks.

Nearby points are correlated, so a random fold is predicted from its own neighbours, which favours every method with a
short range. Blocks keep neighbours together: the region is divided into cells of one edge length, at a random origin,
and whole cells are assigned to the folds, the largest first, each to the fold with the fewest points so far.

Cost: O(n log n). Fails when: there are fewer cells than folds (the error names the remedy).
Reference: Roberts et al. (2017), Ecography 40, 913.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpclass._typing import Array, IntArray

CELLS_PER_FOLD = 6  # cells per fold in the bounding box, if no size is given


def stratified_folds(y: Any, n_folds: int, rng: np.random.Generator) -> IntArray:
    """The fold of each point, (n,): random, with equal class frequencies."""
    order = rng.permutation(len(y))
    order = order[np.argsort(np.asarray(y)[order], kind="stable")]
    fold = np.empty(len(y), dtype=np.intp)
    fold[order] = np.arange(len(y)) % n_folds
    return fold


def spatial_folds(X: Array, n_folds: int, block_size: float | None, rng: np.random.Generator) -> IntArray:
    """The fold of each point of X (n, d), (n,), keeping blocks of edge ``block_size`` together."""
    extent = np.ptp(X, axis=0)
    if not np.any(extent > 0):
        raise ValueError("all sites coincide: blocks need distinct sites; use folds without block_size")
    if block_size is None:
        wide = extent[extent > 0]
        block_size = float(np.exp(np.mean(np.log(wide))) / (CELLS_PER_FOLD * n_folds) ** (1.0 / len(wide)))
    if not block_size > 0:
        raise ValueError(f"block_size must be positive, not {block_size}")
    shift = rng.random(X.shape[1])
    cells = np.floor((X - X.min(axis=0)) / block_size + shift).astype(np.int64)
    _, cell, count = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    if len(count) < n_folds:
        raise ValueError(
            f"blocks of edge {block_size:g} divide the sites into {len(count)} blocks, fewer than the {n_folds} folds: "
            "use a smaller block_size or fewer folds"
        )
    load, of_cell = np.zeros(n_folds), np.empty(len(count), dtype=np.intp)
    for k in np.lexsort((rng.random(len(count)), -count)):  # ties in random order
        of_cell[k] = np.argmin(load)
        load[of_cell[k]] += count[k]
    return np.asarray(of_cell[cell.ravel()])


@dataclass(frozen=True)
class SpatialBlocks:
    """A scikit-learn splitter, for ``cross_val_predict(..., cv=SpatialBlocks(5, 20.0))``.

    Parameters
    ----------
    n_splits : int
        Number of folds.
    block_size : float, optional
        Edge of the blocks; by default about six per fold in the bounding box. The range of the variogram is a good
        choice.
    columns : tuple of int, optional
        Columns of X that are the coordinates; all by default.
    random_state : int or None
        Seed of the origin of the blocks; None gives other folds at every call, so that comparisons are unpaired.
    """

    n_splits: int = 5
    block_size: float | None = None
    columns: tuple[int, ...] | None = None
    random_state: int | None = 0

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[IntArray, IntArray]]:
        """Training and test rows, fold by fold."""
        x = np.asarray(X, dtype=float)
        x = x if self.columns is None else x[:, list(self.columns)]
        fold = spatial_folds(x, self.n_splits, self.block_size, np.random.default_rng(self.random_state))
        for k in range(self.n_splits):
            yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of folds."""
        return self.n_splits
