"""Cell declustering: weights that correct for preferential sampling.

Lay a grid of cells over the sites; each occupied cell has the same weight, shared by its sites::

    w_i ∝ 1 / (number of sites in the cell of i),    Σ w_i = n,    averaged over several origins of the grid.

With cells far smaller or far larger than the spacing all weights are equal; in between, clustered samples in
regions of high values lose weight. By default the cell size with the lowest (or highest) weighted mean is used, the
usual rule when rich (poor) places were sampled more densely.

Cost: O(n log n) for each size and origin. Fails when: all sites coincide.

Reference: Journel (1983), Math. Geology 15; Deutsch (1989), Computers & Geosciences 15.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpclass._html import Tabular
from gpclass._typing import Array
from gpclass.geostat.coordinates import check_sites


@dataclass(frozen=True, repr=False)
class Declustering(Tabular):
    """Declustering weights and the search for the cell size."""

    weights: Array  # (n,), sum n
    cell_size: float
    mean: float | None  # weighted mean of the values, when given
    sizes: Array  # cell sizes tried
    means: Array  # weighted mean at each; NaN without values

    def _head(self) -> Sequence[str]:
        return "of the declustering", "found"

    def _rows(self) -> Sequence[Sequence[str]]:
        return [
            ("cell size", f"{self.cell_size:.4g}"),
            ("weighted mean", "–" if self.mean is None else f"{self.mean:.4g}"),
            ("rows", str(len(self.weights))),
            ("weights", f"{self.weights.min():.3g} to {self.weights.max():.3g}"),
            ("cell sizes tried", str(len(self.sizes))),
        ]


def cell_declustering(
    X: npt.ArrayLike,
    values: npt.ArrayLike | None = None,
    *,
    cell_size: float | None = None,
    n_sizes: int = 24,
    n_origins: int = 8,
    seek: str = "auto",
) -> Declustering:
    """Weights that give every occupied part of the region equal influence.

    Parameters
    ----------
    X : array (n, d)
        Coordinates.
    values : array (n,), optional
        The sampled variable; needed to choose the cell size.
    cell_size : float, optional
        Edge of the cells. By default the size with the extreme weighted mean among ``n_sizes``, from the
        typical spacing to half the extent.
    n_sizes, n_origins : int
        Sizes tried; shifted grids averaged for each.
    seek : {"auto", "minimum", "maximum"}
        Which extreme; "auto" takes the one further from the unweighted mean.
    """
    x, v = check_sites(X, values)
    if n_sizes < 1 or n_origins < 1:
        raise ValueError(f"at least one size and one origin are needed, not {n_sizes} and {n_origins}")
    extent = float(np.ptp(x, axis=0).max())
    if not extent > 0:
        raise ValueError("all sites coincide: declustering needs distinct sites")
    if seek not in ("auto", "minimum", "maximum"):
        raise ValueError(f"seek must be 'auto', 'minimum' or 'maximum', not {seek!r}")
    if v is not None and v.ndim != 1:
        raise ValueError(f"values has shape {v.shape} for {len(x)} sites")
    if cell_size is not None:
        if not cell_size > 0:
            raise ValueError(f"cell_size must be positive, not {cell_size}")
        sizes = np.array([float(cell_size)])
    elif v is None:
        raise ValueError("without values the cell size cannot be chosen; give cell_size")
    else:
        sizes = np.geomspace(extent / len(x) ** (1.0 / x.shape[1]) / 4.0, extent / 2.0, n_sizes)
    table = np.array([_cell_weights(x, size, n_origins) for size in sizes])  # (sizes, n)
    means = np.full(len(sizes), np.nan) if v is None else table @ v / len(x)
    k, top = int(np.argmin(means)), int(np.argmax(means))
    plain = 0.0 if v is None else float(v.mean())
    if seek == "maximum" or (seek == "auto" and plain - means[k] < means[top] - plain):
        k = top
    return Declustering(table[k], float(sizes[k]), None if v is None else float(means[k]), sizes, means)


def _cell_weights(x: Array, size: float, n_origins: int) -> Array:
    """Weights (n,) for one cell size, averaged over grids shifted along the diagonal."""
    total = np.zeros(len(x))
    low = x.min(axis=0)
    for k in range(n_origins):
        cells = np.floor((x - low) / size + k / n_origins).astype(np.int64)
        _, index, count = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
        total += len(x) / (len(count) * count[index.ravel()])
    return total / n_origins
