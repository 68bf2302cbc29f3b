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
from gpclass.plots._style import PALETTE, axes_for, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        Column to vary, between its 1 % and 99 % quantiles.
    label : optional
        The class; the last by default.
    feature_name : str, optional
    max_rows : int
        Number of rows used, evenly spaced in ``X``.
    resolution : int
        Number of feature values.
    ax : Axes, optional
    """
    n, d = np.shape(X)
    if not 0 <= feature < d:
        raise ValueError(f"feature {feature} is out of range: X has {d} columns")
    c = class_index(label, clf.classes_, len(clf.classes_) - 1)
    name, values = numeric_column(X, feature)
    rows = np.unique(np.linspace(0, n - 1, min(max_rows, n)).astype(int))
    low, high = np.quantile(values, [0.01, 0.99])
    at = np.linspace(low, high, resolution)
    # each row, each value
    points = _with_column(X, np.repeat(rows, resolution), feature, np.tile(at, len(rows)))
    p = np.asarray(clf.predict_proba(points))[:, c].reshape(len(rows), resolution)
    axes: Axes = axes_for(ax, size=(4.0, 3.0))
    axes.plot(at, p.T, color=PALETTE[7], linewidth=0.6, alpha=0.6, rasterized=True)
    axes.plot(at, p.mean(axis=0), color=PALETTE[0], linewidth=2.4)
    axes.set(
        xlabel=plain(feature_name or name), ylabel=plain(f"probability of class {clf.classes_[c]}"), ylim=(0.0, 1.0)
    )
    return axes


def numeric_column(X: Any, k: int) -> tuple[str, Array]:
    """Name and values of column k of an array or frame; raises if it is not numeric."""
    name = X.columns[k] if hasattr(X, "columns") else f"feature {k + 1}"
    column = X[name] if hasattr(X, "columns") else np.asarray(X)[:, k]
    try:
        return str(name), np.asarray(column, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {name!r} is not numeric: partial dependence needs a numeric one") from error


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
