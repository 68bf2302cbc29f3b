"""Probability maps: a classifier's predictions on a grid, with axes and export to xarray.

The cells may be any list of points on a regular lattice (a study area with its own outline, covariates besides the
coordinates); cells that are not listed are NaN in the map.

Cost: one prediction per cell. Fails when: the points are not on a lattice (the axes would have nearly as many
values as there are points); this raises an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpclass._typing import Array
from gpclass.estimators.pipelines import final_step, predict_uncertainty
from gpclass.names import class_index, optional

SAME = 1e-9  # coordinates closer than this fraction of the extent are equal


@dataclass(frozen=True, eq=False)
class ProbabilityMap:
    """Probabilities of one class on a lattice, rows from low to high y."""

    x: Array  # (nx,)
    y: Array  # (ny,)
    proba: Array  # (ny, nx), NaN outside the cells
    mcse: Array | None  # (ny, nx), Monte Carlo standard error; None for a method without draws
    lower: Array | None  # (ny, nx), credible limits of p
    upper: Array | None
    level: float
    label: Any
    names: tuple[str, str] = ("x", "y")

    @property
    def width(self) -> Array | None:
        """Width of the credible interval, (ny, nx)."""
        return None if self.lower is None or self.upper is None else self.upper - self.lower

    def to_xarray(self) -> Any:
        """An ``xarray.Dataset`` with dimensions named as the coordinates (extra ``[geo]``)."""
        xr = optional("xarray", "this export", "geo")
        x, y = self.names
        interval = f"limit of the {100 * self.level:g} % credible interval"
        found = {
            "probability": (self.proba, f"probability of class {self.label}"),
            "mcse": (self.mcse, "Monte Carlo standard error of the probability"),
            "lower": (self.lower, f"lower {interval}"),
            "upper": (self.upper, f"upper {interval}"),
        }
        tables = {k: ((y, x), v, {"long_name": text}) for k, (v, text) in found.items() if v is not None}
        attributes = {"label": str(self.label), "level": self.level}
        return xr.Dataset(tables, coords={y: self.y, x: self.x}, attrs=attributes)


def regular_grid(X: Any, resolution: int = 100, margin: float = 0.05) -> Any:
    """Points (ny·nx, 2) on a grid of square cells over the box around the sites.

    Parameters
    ----------
    X : array or data frame (n, 2)
        Sites. A frame returns a frame with the same columns.
    resolution : int
        Cells along the longer side.
    margin : float
        Fraction of the extent added on every side.
    """
    x = np.asarray(X, dtype=float)
    if x.ndim != 2 or x.shape[1] != 2:
        raise ValueError(f"a grid has two coordinates; X has shape {x.shape}")
    if not np.isfinite(x).all():
        raise ValueError("coordinates must be finite; drop the rows with missing values")
    if resolution < 2:
        raise ValueError(f"resolution must be at least 2, not {resolution}")
    low, high = x.min(axis=0), x.max(axis=0)
    low, high = low - margin * (high - low), high + margin * (high - low)
    cell = float((high - low).max()) / (resolution - 1)
    if not cell > 0:
        raise ValueError("all sites coincide: a grid needs distinct sites")
    axes = [low[k] + cell * np.arange(int(np.floor((high[k] - low[k]) / cell + 1e-9)) + 1) for k in (0, 1)]
    a, b = np.meshgrid(*axes)
    points = np.column_stack([a.ravel(), b.ravel()])
    return type(X)(points, columns=list(X.columns)) if hasattr(X, "iloc") else points


def predict_map(
    clf: Any, points: Any, *, coordinates: tuple[int, int] = (0, 1), label: Any = None, level: float = 0.9
) -> ProbabilityMap:
    """Probability of a class at every cell, with intervals and Monte Carlo errors where available.

    Parameters
    ----------
    clf : fitted classifier, or a pipeline
        Anything with ``predict_proba``; ``predict_uncertainty`` gives intervals.
    points : array or data frame of shape (m, d)
        The cells, for example from :func:`regular_grid`, with any covariates that ``clf`` needs.
    coordinates : (int, int)
        The columns that are the axes of the map.
    label : optional
        The class; the second by default.
    level : float
        Probability of the credible interval.
    """
    values = np.asarray(points, dtype=float)
    i, j = coordinates
    check_is_fitted(final_step(clf))
    if values.ndim != 2 or not max(i, j) < values.shape[1]:
        raise ValueError(f"points must be a table with the coordinates {i} and {j}, not shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("the points of a map must be finite; drop the cells with missing values")
    x, column = _axis(values[:, i])
    y, row = _axis(values[:, j])
    if len(x) * len(y) > 20 * len(values) + 100:
        raise ValueError(
            f"{len(values)} points with {len(x)} and {len(y)} different coordinates are not a lattice; make one with "
            "regular_grid, or round the coordinates"
        )
    c = class_index(label, clf.classes_, min(1, len(clf.classes_) - 1))
    names = [str(name) for name in getattr(points, "columns", [])]
    tables: dict[str, Any] = dict.fromkeys(("proba", "mcse", "lower", "upper"))
    if hasattr(final_step(clf), "predict_uncertainty"):
        u = predict_uncertainty(clf, points, level)
        found = {name: np.asarray(getattr(u, name)) for name in tables}
    else:
        found = {"proba": np.asarray(clf.predict_proba(points))}
    for name, flat in found.items():
        if np.any(np.isfinite(flat[:, c])):
            tables[name] = np.full((len(y), len(x)), np.nan)
            tables[name][row, column] = flat[:, c]
    axes = (names[i], names[j]) if names else ("x", "y")
    return ProbabilityMap(x, y, **tables, level=level, label=clf.classes_[c], names=axes)


def _axis(values: Array) -> tuple[Array, Any]:
    """The distinct coordinates in order, and the index of each point among them."""
    order = np.argsort(values, kind="stable")
    # by the gaps between neighbours: rounding would separate two equal ones on either side of its boundary
    fresh = np.diff(values[order], prepend=-np.inf) > SAME * float(np.ptp(values))
    place = np.empty(len(values), dtype=np.intp)
    place[order] = np.cumsum(fresh) - 1
    return values[order][fresh], place
