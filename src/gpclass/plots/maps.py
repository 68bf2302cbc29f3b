"""The decision map: class probabilities over two features.

Cost: one prediction at ``resolution²`` points. Fails when: there are more than two features and ``features`` is
not given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpclass._typing import Array
from gpclass.estimators.pipelines import final_step, predict_uncertainty
from gpclass.names import class_index, feature_names
from gpclass.plots import _style as style

WRONG = "on the wrong side"


def decision_map(
    clf: Any,
    X: Any,
    y: Any = None,
    *,
    label: Any = None,
    panel: str | None = None,
    features: tuple[int, int] | None = None,
    feature_names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    resolution: int = 80,
    level: float = 0.9,
    ax: Any = None,
) -> Any:
    """Probability of the classes over two features, with the decision line and the samples.

    Parameters
    ----------
    clf : fitted classifier
        Needs ``predict_proba`` and ``classes_``; ``predict_uncertainty`` for the second panel.
    X : array-like of shape (n, d)
        Sets the range of the map; also drawn if ``y`` is given.
    y : array-like of shape (n,), optional
        Labels. Samples on the wrong side of the decision line are circled.
    label : optional
        The class whose probability is drawn; by default the second of two, and of more the most probable one.
    panel : {None, "interval", "mcse"}
        A second panel: the width of the credible interval of p(x), or its Monte Carlo standard error.
    features : (int, int), optional
        Columns to draw; needed if d > 2. The other features are set to their medians.
    feature_names, class_names : sequences of str, optional
        Taken from ``X``'s columns and ``clf.classes_`` by default.
    resolution : int
        Grid points per side.
    level : float
        Probability of the credible interval.
    ax : Axes, or two Axes with ``panel``
    """
    plane = _Plane.over(X, features, feature_names, resolution)
    classes = np.asarray(clf.classes_)
    labels = [str(c) for c in (class_names if class_names is not None else classes)]
    axes = style.axes_for(ax, 2 if panel else 1)
    main = axes[0] if panel else axes
    proba = plane.table(clf.predict_proba(plane.points))
    c = class_index(label, classes.tolist(), 1) if label is not None or len(classes) == 2 else None
    if c is None:
        _class_map(main, plane, proba)
    else:
        _binary_map(main, plane, proba[..., c], labels[c])
    if panel:
        _uncertainty_panel(
            axes[1], clf, plane, panel, level, None if c is None else proba[..., c], None if len(classes) == 2 else c
        )
    plane.label(axes)
    if y is not None:
        wrong = np.asarray(clf.predict(X)) != np.asarray(y)
        _samples(main, plane.samples, np.asarray(y), classes, labels, wrong)
    return axes


def uncertainty_map(
    clf: Any,
    X: Any,
    *,
    show: str = "interval",
    features: tuple[int, int] | None = None,
    feature_names: Sequence[str] | None = None,
    resolution: int = 80,
    level: float = 0.9,
    ax: Any = None,
) -> Any:
    """Uncertainty over two features: the second panel of :func:`decision_map` as a figure.

    Parameters
    ----------
    clf, X, features, feature_names, resolution, level, ax
        As in :func:`decision_map`.
    show : {"interval", "mcse"}
        Width of the credible interval of p(x), or its Monte Carlo standard error.
    """
    plane = _Plane.over(X, features, feature_names, resolution)
    axes = style.axes_for(ax)
    _uncertainty_panel(axes, clf, plane, show, level)
    plane.label(axes)
    return axes


def difference_map(
    clf: Any,
    reference: Any,
    X: Any,
    *,
    feature_names: Sequence[str] | None = None,
    resolution: int = 60,
    limit: float | None = None,
    ax: Any = None,
) -> Any:
    """Difference between two classifiers over two features: p − p_reference of the second class.

    Parameters
    ----------
    clf, reference : fitted classifiers of two classes
    X : array-like of shape (n, 2)
        Sets the range of the map.
    feature_names : sequence of str, optional
    resolution : int
        Grid points per side.
    limit : float, optional
        Largest difference of the colour scale; that of the map by default.
    ax : Axes, optional
    """
    plane = _Plane.over(X, None, feature_names, resolution)
    p, p_reference = (plane.table(one.predict_proba(plane.points))[..., 1] for one in (clf, reference))
    gap = p - p_reference
    limit = max(float(np.abs(gap).max()), 1e-12) if limit is None else limit
    axes = style.axes_for(ax)
    image = axes.pcolormesh(
        plane.x, plane.y, gap, cmap=style.probability_colours(), vmin=-limit, vmax=limit, **style.MESH
    )
    style.colour_bar(axes, image, "p − p of the reference", format="%.2g")
    style.decision_line(axes, plane.x, plane.y, p_reference, "#111111", 1.4)
    plane.label(axes)
    return axes


@dataclass(frozen=True)
class _Plane:
    """A grid over two features, with the others at their medians."""

    points: Any  # (resolution², d), a frame if the data are one
    x: Array  # (resolution,)
    y: Array  # (resolution,)
    names: tuple[str, str]
    samples: Array  # (n, 2), both features of the data

    @classmethod
    def over(cls, X: Any, features: tuple[int, int] | None, names: Sequence[str] | None, resolution: int) -> _Plane:
        """The grid over the range of the data."""
        values = np.asarray(X, dtype=float)
        if values.ndim != 2:
            raise ValueError(f"X must be a table of shape (n, d), not {values.shape}")
        d = values.shape[1]
        names = feature_names(names, X, d)
        if features is None and d != 2:
            raise ValueError(f"X has {d} features: choose two to draw, features=(i, j)")
        i, j = (0, 1) if features is None else features
        if not (0 <= i < d and 0 <= j < d and i != j):
            raise ValueError(f"features={features} must be two different columns out of {d}")
        x, y = (_axis(values[:, k], resolution) for k in (i, j))
        grid = np.tile(np.median(values, axis=0), (resolution * resolution, 1))
        grid[:, i], grid[:, j] = (one.ravel() for one in np.meshgrid(x, y))
        points: Any = grid
        if hasattr(X, "columns"):  # a frame with X's columns, to avoid a warning about names
            points = type(X)(grid, **{"columns" if hasattr(X, "iloc") else "schema": X.columns})
        return cls(points, x, y, (names[i], names[j]), values[:, [i, j]])

    def table(self, flat: Any) -> Array:
        """Values at the points, (resolution, resolution, C)."""
        return np.asarray(flat).reshape(len(self.y), len(self.x), -1)

    def label(self, axes: Any) -> None:
        """Names and limits of both features, on one or several axes."""
        limits = {"xlim": (self.x[0], self.x[-1]), "ylim": (self.y[0], self.y[-1])}
        for one in np.atleast_1d(np.asarray(axes, dtype=object)):
            one.set(xlabel=style.plain(self.names[0]), ylabel=style.plain(self.names[1]), **limits)


def _axis(values: Array, resolution: int) -> Array:
    """Evenly spaced points over the range of the values, with a margin."""
    low, high = values.min(), values.max()
    margin = 0.08 * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, resolution)


def _binary_map(ax: Any, plane: _Plane, p: Array, label: str) -> None:
    from matplotlib import __version_info__

    low, high = style.probability_span(p)
    levels = np.linspace(low, high, 21)
    filled = ax.contourf(plane.x, plane.y, p, levels=levels, cmap=style.probability_colours(), vmin=low, vmax=high)
    if __version_info__ >= (3, 11):  # 21 polygons with thousands of corners make a huge SVG; older versions refuse
        filled.set_rasterized(True)
    style.probability_lines(ax, plane.x, plane.y, p)
    ticks = np.linspace(low, high, 5)
    style.colour_bar(ax, filled, f"probability of class {style.plain(label)}", ticks=ticks, format="%.3g")
    whole = p.min() < 0.5 < p.max()
    aside = "and decision line (p = 0.5)" if whole else f"(nowhere {'above' if high < 1 else 'below'} 0.5)"
    ax.set_title(f"Probability {aside}", fontsize=10)


def _class_map(ax: Any, plane: _Plane, proba: Array) -> None:
    """Colour of the most probable class, paler where its probability is smaller."""
    from matplotlib.colors import to_rgb

    C = proba.shape[-1]
    colours = np.array([to_rgb(style.PALETTE[c % len(style.PALETTE)]) for c in range(C)])
    top = proba.argmax(axis=-1)
    strength = (proba.max(axis=-1) - 1.0 / C) / (1.0 - 1.0 / C)
    image = 1.0 - (1.0 - colours[top]) * (0.15 + 0.6 * strength[..., None])
    extent = (plane.x[0], plane.x[-1], plane.y[0], plane.y[-1])
    ax.imshow(image, origin="lower", aspect="auto", extent=extent, interpolation="nearest")
    for c in range(C):
        if 0 < np.mean(top == c) < 1:
            style.decision_line(ax, plane.x, plane.y, (top == c).astype(float), "#111111", 1.2)
    ax.set_title("Most probable class (paler: less certain)", fontsize=10)


def _uncertainty_panel(
    ax: Any, clf: Any, plane: _Plane, panel: str, level: float, p: Array | None = None, c: int | None = None
) -> None:
    """Uncertainty of class c, by default of the most uncertain one, and the decision line of a probability p.

    With two classes, p is that of the second by default.
    """
    if panel not in ("interval", "mcse"):
        raise ValueError(f"panel must be 'interval' or 'mcse', not {panel!r}")
    if not hasattr(final_step(clf), "predict_uncertainty"):
        raise ValueError(f"{type(final_step(clf)).__name__} has no predict_uncertainty: use panel=None")
    u = predict_uncertainty(clf, plane.points, level)
    shown = np.asarray(u.mcse) if panel == "mcse" else np.asarray(u.upper) - np.asarray(u.lower)
    shown = plane.table(shown)
    shown = shown.max(axis=-1) if c is None else shown[..., c]
    if not np.any(np.isfinite(shown)):
        raise ValueError("this method draws no samples, so it has no Monte Carlo error: use panel='interval'")
    image = ax.pcolormesh(plane.x, plane.y, shown, cmap="cividis", **style.MESH)
    style.colour_bar(ax, image, style.spread_label(panel, level))
    ax.set_title("Uncertainty of the map", fontsize=10)
    if p is None and len(clf.classes_) == 2:
        p = plane.table(u.proba)[..., 1]
    if p is not None:
        style.decision_line(ax, plane.x, plane.y, p)


def _samples(ax: Any, xy: Array, y: Any, classes: Any, labels: list[str], wrong: Any) -> None:
    for k, c in enumerate(classes):
        look = {
            "marker": style.MARKERS[k % len(style.MARKERS)],
            "c": style.PALETTE[k % len(style.PALETTE)],
            "edgecolors": "white",
        }
        dots = ax.scatter(
            *xy[y == c].T, s=20, linewidths=0.7, label=style.plain(f"class {labels[k]}"), zorder=3, **look
        )
        dots.set_rasterized(len(xy) > 2000)
    if np.any(wrong):
        ring = {"facecolors": "none", "edgecolors": "#111111", "linewidths": 1.0}
        ax.scatter(*xy[wrong].T, s=62, label=WRONG, zorder=4, **ring)
    legend = ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, **style.LEGEND)
    # The ring is black on the map, which is always light; the legend needs the text colour.
    for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
        if text.get_text() == WRONG:
            handle.set_edgecolor(text.get_color())
