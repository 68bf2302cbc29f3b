"""Partial dependence: how the probability moves with one feature, the others as they are in the data.

p̄(v) = mean over rows of p(class | feature = v, other features of the row). Cost: ``resolution`` × rows
predictions a feature. Fails when: features depend strongly on each other, so that the rows made up here
could not occur; the thin lines, one a row, show whether the mean hides them.

Reference: Friedman (2001), Annals of Statistics 29; Goldstein et al. (2015), JCGS 24.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpclass.plots._style import PALETTE, axes_for
from gpclass.plots.maps import _frame, _like

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
        Rows used, evenly spaced among those of ``X``.
    resolution : int
        Values of the feature.
    ax : Axes, optional

    Returns
    -------
    Axes
    """
    values, names = _frame(X, None)
    if not 0 <= feature < values.shape[1]:
        raise ValueError(f"feature {feature} does not exist; X has {values.shape[1]} columns")
    classes = np.asarray(clf.classes_)
    label = classes[-1] if label is None else label
    column = np.flatnonzero(classes == label)
    if len(column) == 0:
        raise ValueError(f"label {label!r} is not among the classes {classes.tolist()}")
    rows = values[np.unique(np.linspace(0, len(values) - 1, min(max_rows, len(values))).astype(int))]
    low, high = np.quantile(values[:, feature], [0.01, 0.99])
    at = np.linspace(low, high, resolution)
    points = np.repeat(rows, resolution, axis=0)  # each row at each value
    points[:, feature] = np.tile(at, len(rows))
    p = np.asarray(clf.predict_proba(_like(X, points)))[:, column[0]].reshape(len(rows), resolution)
    axes: Axes = axes_for(ax, size=(4.0, 3.0))
    axes.plot(at, p.T, color=PALETTE[7], linewidth=0.4, alpha=0.35, rasterized=True)
    axes.plot(at, p.mean(axis=0), color=PALETTE[0], linewidth=2.4)
    axes.set(xlabel=feature_name or names[feature], ylabel=f"probability of class {label}", ylim=(0.0, 1.0))
    return axes
