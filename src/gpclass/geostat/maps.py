"""Probability maps: a classifier's predictions on a grid of two or three coordinates, with axes and export.

The cells may be any list of points on a regular lattice (a study area with its own outline, covariates besides the
coordinates); cells that are not listed are NaN in the map. Files for a GIS: :meth:`ClassMaps.write`.

Cost: one prediction per cell. Fails when: the points are not on a lattice (the axes would have nearly as many
values as there are points); this raises an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpclass._html import Tabular
from gpclass._typing import Array
from gpclass.estimators.pipelines import final_step, predict_uncertainty
from gpclass.names import class_index, optional

SAME = 1e-9  # coordinates closer than this fraction of the extent are equal


class _Mapped(Tabular):
    """Printed as one line per class."""

    def _head(self) -> Sequence[str]:
        return "class", "cells", "mean p", "least", "largest"

    @staticmethod
    def _line(label: Any, p: Array) -> Sequence[str]:
        numbers = (np.nanmean(p), np.nanmin(p), np.nanmax(p))
        return str(label), " × ".join(map(str, p.shape[::-1])), *(f"{v:.3g}" for v in numbers)


@dataclass(frozen=True, eq=False, repr=False)
class ProbabilityMap(_Mapped):
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

    def _rows(self) -> Sequence[Sequence[str]]:
        return [self._line(self.label, self.proba)]

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


@dataclass(frozen=True, eq=False, repr=False)
class ClassMaps(_Mapped):
    """Probabilities of all classes on a lattice; the last axis is the first coordinate, rows from low to high."""

    axes: tuple[Array, ...]  # values of each coordinate: x, y and perhaps z
    proba: Array  # (C, ny, nx) or (C, nz, ny, nx), NaN outside the cells
    mcse: Array | None  # of the same shape; None for a method without draws
    lower: Array | None
    upper: Array | None
    level: float
    classes: tuple[Any, ...]
    names: tuple[str, ...]

    def _rows(self) -> Sequence[Sequence[str]]:
        return [self._line(*pair) for pair in zip(self.classes, self.proba, strict=True)]

    def __getitem__(self, label: Any) -> ProbabilityMap:
        """The map of one class, in the plane."""
        if len(self.axes) != 2:
            raise ValueError("a map of one class is a plane: take a slice of to_xarray(), or of proba")
        c = class_index(label, self.classes, 0)
        parts = {k: None if v is None else v[c] for k, v in self._tables().items()}
        return ProbabilityMap(*self.axes, **parts, level=self.level, label=self.classes[c], names=self.names[:2])  # type: ignore[arg-type]

    def _tables(self) -> dict[str, Array | None]:
        return {"proba": self.proba, "mcse": self.mcse, "lower": self.lower, "upper": self.upper}

    def block_average(self, cells: int | Sequence[int]) -> ClassMaps:
        """Means over blocks: the expected share of each class within a block.

        Parameters
        ----------
        cells : int or sequence of int
            Cells of a block along each coordinate. Cells that are left over at the upper ends form smaller blocks;
            cells outside the study area do not count.

        Notes
        -----
        The mean is linear, so the shares are as exact as the map. ``mcse`` is the mean of those of the cells, an upper
        bound. Limits of a share need joint draws over the cells, :func:`simulate`, and are None here.
        """
        sizes = _per_axis(cells, len(self.axes))
        axes = tuple(_blocks(axis, (size,)) for axis, size in zip(self.axes, sizes, strict=True))
        mcse = None if self.mcse is None else _blocks(self.mcse, sizes)
        return replace(self, axes=axes, proba=_blocks(self.proba, sizes), mcse=mcse, lower=None, upper=None)

    def to_xarray(self) -> Any:
        """An ``xarray.Dataset`` with dimensions ``class`` and the coordinates' names (extra ``[geo]``)."""
        xr = optional("xarray", "this export", "geo")
        dims = ("class", *self.names[::-1])
        found = {"proba": "probability", "mcse": "mcse", "lower": "lower", "upper": "upper"}
        tables = {found[k]: (dims, v) for k, v in self._tables().items() if v is not None}
        coords = dict(zip(self.names, self.axes, strict=True)) | {"class": [str(c) for c in self.classes]}
        return xr.Dataset(tables, coords=coords, attrs={"level": self.level})

    def write(self, path: Any, crs: Any = None) -> None:
        """Write NetCDF (.nc: everything) or, in the plane, GeoTIFF (.tif: probabilities, one band per class).

        Parameters
        ----------
        path : path
        crs : optional
            Reference system of the coordinates, such as "EPSG:28992" (extra ``[geo]``: rioxarray).
        """
        from gpclass.geostat.export import write_maps

        write_maps(self, path, crs)


def _per_axis(number: Any, d: int) -> tuple[int, ...]:
    """One whole number of at least 1 per axis."""
    found: tuple[Any, ...] = (number,) * d if isinstance(number, Integral) else tuple(number)
    if len(found) != d or not all(isinstance(k, Integral) and int(k) >= 1 for k in found):
        raise ValueError(f"give one whole number of at least 1, or one for each of {d} coordinates, not {number!r}")
    return tuple(map(int, found))


def _blocks(values: Array, sizes: Sequence[int]) -> Array:
    """Means, of what is not NaN, over blocks of these sizes along the last axis, the one before it, and so on."""
    known = np.isfinite(values)
    total, count = np.where(known, values, 0.0), known.astype(float)
    for k, size in enumerate(sizes):
        starts = np.arange(0, values.shape[-1 - k], size)
        total, count = (np.add.reduceat(one, starts, axis=-1 - k) for one in (total, count))
    return np.asarray(np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0))


def regular_grid(X: Any, resolution: int | Sequence[int] = 100, margin: float = 0.05) -> Any:
    """Points on a grid over the box around the sites: (ny·nx, 2), or (nz·ny·nx, 3).

    Parameters
    ----------
    X : array or data frame (n, 2) or (n, 3)
        Sites. A frame returns a frame with the same columns.
    resolution : int or sequence of int
        Cells along the longer side of the plane, whose cells are squares; with three coordinates also the number of
        layers. A sequence has the number of cells along each coordinate.
    margin : float
        Fraction of the extent added on every side of the plane; layers stay between the sites.
    """
    x = np.asarray(X, dtype=float)
    if x.ndim != 2 or x.shape[1] not in (2, 3):
        raise ValueError(f"a grid has two or three coordinates; X has shape {x.shape}")
    if not np.isfinite(x).all():
        raise ValueError("coordinates must be finite; drop the rows with missing values")
    counts = _per_axis(resolution, x.shape[1])
    if min(counts) < 2:
        raise ValueError(f"resolution must be at least 2, not {resolution}")
    low, high = x.min(axis=0), x.max(axis=0)
    if not (high[:2] - low[:2]).max() > 0:
        raise ValueError("all sites coincide: a grid needs distinct sites")
    low[:2], high[:2] = low[:2] - margin * (high - low)[:2], high[:2] + margin * (high - low)[:2]
    axes = [np.linspace(*ends) for ends in zip(low, high, counts, strict=True)]
    if isinstance(resolution, Integral):
        cell = float((high[:2] - low[:2]).max()) / (counts[0] - 1)
        axes[:2] = [low[k] + cell * np.arange(int(np.floor((high[k] - low[k]) / cell + 1e-9)) + 1) for k in (0, 1)]
    points = np.stack(np.meshgrid(*axes[::-1], indexing="ij")[::-1], axis=-1).reshape(-1, len(axes))
    return type(X)(points, columns=list(X.columns)) if hasattr(X, "iloc") else points


def predict_maps(clf: Any, points: Any, *, coordinates: Sequence[int] = (0, 1), level: float = 0.9) -> ClassMaps:
    """Probability of every class at every cell, with intervals and Monte Carlo errors where available.

    Parameters
    ----------
    clf : fitted classifier, or a pipeline
        Anything with ``predict_proba``; ``predict_uncertainty`` gives intervals.
    points : array or data frame of shape (m, d)
        The cells, for example from :func:`regular_grid`, with any covariates that ``clf`` needs.
    coordinates : two or three ints
        The columns that are the axes of the map: (0, 1, 2) for a grid in three dimensions.
    level : float
        Probability of the credible interval.
    """
    values = np.asarray(points, dtype=float)
    if hasattr(final_step(clf), "fit"):
        check_is_fitted(final_step(clf))
    if len(coordinates) not in (2, 3):
        raise ValueError(f"a map has two or three coordinates, not {len(coordinates)}")
    if values.ndim != 2 or not max(coordinates) < values.shape[1]:
        which = " and ".join(map(str, coordinates))
        raise ValueError(f"points must be a table with the coordinates {which}, not shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("the points of a map must be finite; drop the cells with missing values")
    axes, places = zip(*(_axis(values[:, k]) for k in coordinates), strict=True)
    shape = tuple(len(axis) for axis in axes[::-1])
    if np.prod(shape) > 20 * len(values) + 100:
        raise ValueError(
            f"{len(values)} points with {' and '.join(str(len(a)) for a in axes)} different coordinates are not a "
            "lattice; make one with regular_grid, or round the coordinates"
        )
    names = [str(name) for name in getattr(points, "columns", [])]
    tables: dict[str, Any] = dict.fromkeys(("proba", "mcse", "lower", "upper"))
    if hasattr(final_step(clf), "predict_uncertainty"):
        u = predict_uncertainty(clf, points, level)
        found = {name: np.asarray(getattr(u, name)) for name in tables}
    else:
        found = {"proba": np.asarray(clf.predict_proba(points))}
    for name, flat in found.items():
        if np.any(np.isfinite(flat)):
            tables[name] = np.full((flat.shape[1], *shape), np.nan)
            tables[name][(slice(None), *places[::-1])] = flat.T
    shown = tuple(names[k] for k in coordinates) if names else ("x", "y", "z")[: len(axes)]
    return ClassMaps(axes, **tables, level=level, classes=tuple(clf.classes_), names=shown)


def predict_map(
    clf: Any, points: Any, *, coordinates: tuple[int, int] = (0, 1), label: Any = None, level: float = 0.9
) -> ProbabilityMap:
    """Probability of one class at every cell of a plane; :func:`predict_maps` has all classes.

    Parameters
    ----------
    clf, points, coordinates, level
        As in :func:`predict_maps`.
    label : optional
        The class; the second by default.
    """
    if len(coordinates) != 2:
        raise ValueError("predict_map draws a plane: use predict_maps for three coordinates")
    maps = predict_maps(clf, points, coordinates=coordinates, level=level)
    return maps[maps.classes[class_index(label, maps.classes, min(1, len(maps.classes) - 1))]]


def _axis(values: Array) -> tuple[Array, Any]:
    """The distinct coordinates in order, and the index of each point among them."""
    order = np.argsort(values, kind="stable")
    # by the gaps between neighbours: rounding would separate two equal ones on either side of its boundary
    fresh = np.diff(values[order], prepend=-np.inf) > SAME * float(np.ptp(values))
    place = np.empty(len(values), dtype=np.intp)
    place[order] = np.cumsum(fresh) - 1
    return values[order][fresh], place
