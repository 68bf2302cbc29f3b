"""Partial dependence: the probability as a function of one feature, averaged over the others.

p̄(v) = mean over rows of p(class | feature = v, other features of the row). Cost: ``resolution`` × rows
predictions per feature. Fails when: features depend strongly on each other, since the artificial rows could then
not occur. The thin lines, one per row, show the variation behind the mean.

Reference: Friedman (2001), Annals of Statistics 29; Goldstein et al. (2015), JCGS 24.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpclass._typing import Array, IntArray
from gpclass.names import class_index
from gpclass.plots._style import PALETTE, axes_for, plain, probability_span

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SPAN = (0.01, 0.99)  # quantiles between which a number varies


def partial_dependence(
    clf: Any,
    X: Any,
    feature: int,
    *,
    label: Any = None,
    feature_name: str | None = None,
    max_rows: int = 100,
    resolution: int = 25,
    ax: Any = None,
) -> Axes:
    """Probability of a class against one feature, averaged over the rows of ``X``.

    Parameters
    ----------
    clf : fitted classifier
    X : array-like of shape (n, d)
    feature : int
        Column to vary, between its 1 % and 99 % quantiles, or over its categories.
    label : optional
        The class; the last by default.
    feature_name : str, optional
    max_rows : int
        Number of rows used, evenly spaced in ``X``.
    resolution : int
        Number of feature values.
    ax : Axes, optional
    """
    c = class_index(label, clf.classes_, len(clf.classes_) - 1)
    name, at, p = _curves(clf, X, feature, c, max_rows, resolution)
    words = at.dtype.kind in "OUb"
    axes: Axes = axes_for(ax, size=(4.0, 3.0))
    place = np.arange(len(at)) if words else at
    if words:
        axes.bar(place, p.mean(axis=0), width=0.6, color=PALETTE[0])
        axes.set_xticks(place, [plain(str(word)) for word in at], rotation=30 if len(at) > 4 else 0)
    else:
        axes.plot(place, p.mean(axis=0), color=PALETTE[0], linewidth=2.4, zorder=3)
    axes.plot(place, p.T, color=PALETTE[7], linewidth=0.6, alpha=0.6, rasterized=True)
    axes.set(
        xlabel=plain(feature_name or name),
        ylabel=plain(f"probability of class {clf.classes_[c]}"),
        ylim=probability_span(p),
    )
    return axes


def influence(clf: Any, X: Any, feature: int, *, label: Any = None, max_rows: int = 24, resolution: int = 9) -> float:
    """How far the mean probability moves over the feature's values: the height of :func:`partial_dependence`."""
    c = class_index(label, clf.classes_, len(clf.classes_) - 1)
    return float(np.ptp(_curves(clf, X, feature, c, max_rows, resolution)[2].mean(axis=0)))


def _curves(clf: Any, X: Any, feature: int, c: int, max_rows: int, resolution: int) -> tuple[str, Any, Array]:
    """Name and values of a feature, and the probability of class c at each, one line per row."""
    n, d = np.shape(X)
    if not 0 <= feature < d:
        raise ValueError(f"feature {feature} is out of range: X has {d} columns")
    name, values = _column(X, feature)
    rows = np.unique(np.linspace(0, n - 1, min(max_rows, n)).astype(int))
    words = values.dtype.kind in "OUb"
    low, high = (0.0, 0.0) if words else np.quantile(values, SPAN)
    at = np.array(sorted(set(values)), values.dtype) if words else np.linspace(low, high, resolution)
    # each row, each value
    points = _with_column(X, np.repeat(rows, len(at)), feature, np.tile(at, len(rows)))
    return name, at, np.asarray(clf.predict_proba(points))[:, c].reshape(len(rows), len(at))


def numeric_column(X: Any, k: int) -> tuple[str, Array]:
    """Name and values, but for missing ones, of column k of an array or frame; raises if it is not numeric."""
    name, values = _column(X, k)
    if values.dtype.kind != "f":
        raise ValueError(f"column {name!r} is not numeric")
    return name, values


def _column(X: Any, k: int) -> tuple[str, Any]:
    """Name of column k of an array or frame, and its values without missing ones: numbers, truth values or objects."""
    name = X.columns[k] if hasattr(X, "columns") else f"feature {k + 1}"
    column = np.asarray(X[name] if hasattr(X, "columns") else np.asarray(X)[:, k])
    if column.dtype.kind != "b":
        try:
            column = column.astype(float)
        except (TypeError, ValueError):
            column = column.astype(object)
    known = [value is not None and value == value for value in column.tolist()]  # NaN differs from itself
    return str(name), column[np.array(known, dtype=bool)]


def _with_column(X: Any, rows: IntArray, k: int, values: Array) -> Any:
    """The given rows of X with column k replaced, as the same type of table."""
    if hasattr(X, "iloc"):  # pandas
        points = X.iloc[rows].copy()
        points[X.columns[k]] = values
        return points
    if hasattr(X, "columns"):  # polars
        name = X.columns[k]
        return X[rows].with_columns(type(X[name])(name, values))
    array = np.asarray(X)[rows].astype(float)
    array[:, k] = values
    return array
