"""The decision map: class probabilities over two features.

Cost: one prediction at ``resolution²`` points. Fails when: there are more than two features and ``features`` is
not given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpclass._typing import Array
from gpclass.estimators.pipelines import final_step, seen_by_final
from gpclass.plots._style import MARKERS, PALETTE, axes_for, probability_colours

WRONG = "on the wrong side"


def decision_map(
    clf: Any,
    X: Any,
    y: Any = None,
    *,
    panel: str | None = None,
    features: tuple[int, int] | None = None,
    feature_names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    resolution: int = 100,
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

    Returns
    -------
    Axes, or array of two Axes
    """
    values, names = _frame(X, feature_names)
    i, j = _two_features(values, features)
    grid, gx, gy = _grid(values, i, j, resolution)
    classes = np.asarray(clf.classes_)
    labels = [str(c) for c in (class_names if class_names is not None else classes)]
    axes = axes_for(ax, 2 if panel else 1)
    main = axes[0] if panel else axes
    points = _like(X, grid)
    proba = np.asarray(clf.predict_proba(points)).reshape(resolution, resolution, -1)
    if len(classes) == 2:
        _binary_map(main, gx, gy, proba[..., 1], labels[1])
    else:
        _class_map(main, gx, gy, proba)
    if panel:
        _uncertainty_panel(axes[1], clf, points, gx, gy, panel, level, proba)
    for one in np.atleast_1d(np.asarray(axes, dtype=object)):
        one.set(xlabel=names[i], ylabel=names[j], xlim=(gx[0], gx[-1]), ylim=(gy[0], gy[-1]))
    if y is not None:
        wrong = np.asarray(clf.predict(X)) != np.asarray(y)
        _samples(main, values[:, [i, j]], np.asarray(y), classes, labels, wrong)
    return axes


def uncertainty_map(
    clf: Any,
    X: Any,
    *,
    show: str = "interval",
    features: tuple[int, int] | None = None,
    feature_names: Sequence[str] | None = None,
    resolution: int = 100,
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

    Returns
    -------
    Axes
    """
    values, names = _frame(X, feature_names)
    i, j = _two_features(values, features)
    grid, gx, gy = _grid(values, i, j, resolution)
    points = _like(X, grid)
    proba = np.asarray(clf.predict_proba(points)).reshape(resolution, resolution, -1)
    axes = axes_for(ax)
    _uncertainty_panel(axes, clf, points, gx, gy, show, level, proba)
    axes.set(xlabel=names[i], ylabel=names[j], xlim=(gx[0], gx[-1]), ylim=(gy[0], gy[-1]))
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

    Returns
    -------
    Axes
    """
    values, names = _frame(X, feature_names)
    i, j = _two_features(values, None)
    grid, gx, gy = _grid(values, i, j, resolution)
    points = _like(X, grid)
    gap = np.asarray(clf.predict_proba(points))[:, 1] - np.asarray(reference.predict_proba(points))[:, 1]
    gap = gap.reshape(resolution, resolution)
    limit = max(float(np.abs(gap).max()), 1e-12) if limit is None else limit
    axes = axes_for(ax)
    image = axes.pcolormesh(
        gx, gy, gap, cmap=probability_colours(), vmin=-limit, vmax=limit, rasterized=True, shading="nearest"
    )
    axes.figure.colorbar(image, ax=axes, format="%.2g").set_label("p − p of the reference")
    line = np.asarray(reference.predict_proba(points))[:, 1].reshape(resolution, resolution)
    if line.min() < 0.5 < line.max():
        axes.contour(gx, gy, line, levels=[0.5], colors="#111111", linewidths=1.4)
    axes.set(xlabel=names[i], ylabel=names[j], xlim=(gx[0], gx[-1]), ylim=(gy[0], gy[-1]))
    return axes


def _frame(X: Any, feature_names: Sequence[str] | None) -> tuple[Array, list[str]]:
    """Values (n, d) and feature names, from a frame or an array."""
    values = np.asarray(X, dtype=float)
    if values.ndim != 2:
        raise ValueError(f"X must be a table of shape (n, d), not {values.shape}")
    if feature_names is None:
        feature_names = list(getattr(X, "columns", [f"feature {k + 1}" for k in range(values.shape[1])]))
    if len(feature_names) != values.shape[1]:
        raise ValueError(f"{len(feature_names)} feature names for {values.shape[1]} features")
    return values, [str(name) for name in feature_names]


def _two_features(values: Array, features: tuple[int, int] | None) -> tuple[int, int]:
    d = values.shape[1]
    if features is None:
        if d != 2:
            raise ValueError(f"X has {d} features: choose two to draw, features=(i, j)")
        return 0, 1
    i, j = features
    if not (0 <= i < d and 0 <= j < d and i != j):
        raise ValueError(f"features={features} must be two different columns out of {d}")
    return i, j


def _grid(values: Array, i: int, j: int, resolution: int) -> tuple[Array, Array, Array]:
    """Points (resolution², d) with features i and j on a grid, the others at their medians; both axes."""
    axes = []
    for k in (i, j):
        low, high = values[:, k].min(), values[:, k].max()
        margin = 0.08 * (high - low) or 1.0
        axes.append(np.linspace(low - margin, high + margin, resolution))
    gx, gy = axes
    grid = np.tile(np.median(values, axis=0), (resolution * resolution, 1))
    a, b = np.meshgrid(gx, gy)
    grid[:, i], grid[:, j] = a.ravel(), b.ravel()
    return grid, gx, gy


def _like(X: Any, values: Array) -> Any:
    """``values`` as a frame with X's columns if X is a frame, to avoid a warning about names."""
    if hasattr(X, "columns"):
        return type(X)(values, **({"columns": X.columns} if hasattr(X, "iloc") else {"schema": X.columns}))
    return values


def _binary_map(ax: Any, gx: Array, gy: Array, p: Array, label: str) -> None:
    filled = ax.contourf(
        gx, gy, p, levels=np.linspace(0.0, 1.0, 21), cmap=probability_colours(), vmin=0.0, vmax=1.0
    )
    filled.set_rasterized(True)  # 21 polygons with thousands of corners make a huge SVG
    thin = [level for level in (0.1, 0.25, 0.75, 0.9) if p.min() < level < p.max()]
    if thin:
        lines = ax.contour(gx, gy, p, levels=thin, colors="#333333", linewidths=0.6)
        ax.clabel(lines, fmt="%g", fontsize=7)
    if p.min() < 0.5 < p.max():
        ax.contour(gx, gy, p, levels=[0.5], colors="#111111", linewidths=1.8)
    bar = ax.figure.colorbar(filled, ax=ax, ticks=[0, 0.25, 0.5, 0.75, 1])
    bar.set_label(f"probability of class {label}")
    ax.set_title("Probability and decision line (p = 0.5)", fontsize=10)


def _class_map(ax: Any, gx: Array, gy: Array, proba: Array) -> None:
    """Colour of the most probable class, paler where its probability is smaller."""
    from matplotlib.colors import to_rgb

    C = proba.shape[-1]
    colours = np.array([to_rgb(PALETTE[c % len(PALETTE)]) for c in range(C)])
    top = proba.argmax(axis=-1)
    strength = (proba.max(axis=-1) - 1.0 / C) / (1.0 - 1.0 / C)
    image = 1.0 - (1.0 - colours[top]) * (0.15 + 0.6 * strength[..., None])
    ax.imshow(
        image, origin="lower", aspect="auto", extent=(gx[0], gx[-1], gy[0], gy[-1]), interpolation="nearest"
    )
    for c in range(C):
        if 0 < np.mean(top == c) < 1:
            ax.contour(gx, gy, (top == c).astype(float), levels=[0.5], colors="#111111", linewidths=1.2)
    ax.set_title("Most probable class (paler: less certain)", fontsize=10)


def _uncertainty_panel(
    ax: Any, clf: Any, points: Any, gx: Array, gy: Array, panel: str, level: float, proba: Array
) -> None:
    if panel not in ("interval", "mcse"):
        raise ValueError(f"panel must be 'interval' or 'mcse', not {panel!r}")
    u = _uncertainty(clf, points, level)
    if panel == "interval":
        shown = np.asarray(u.upper) - np.asarray(u.lower)
        text = f"width of the {100 * level:g} % interval of p"
    else:
        shown, text = np.asarray(u.mcse), "Monte Carlo standard error of p"
    shown = shown.max(axis=1).reshape(len(gy), len(gx))  # (m, C): the most uncertain class
    if not np.any(np.isfinite(shown)):
        raise ValueError("this method draws no samples, so it has no Monte Carlo error: use panel='interval'")
    image = ax.pcolormesh(gx, gy, shown, cmap="cividis", rasterized=True, shading="nearest")
    ax.figure.colorbar(image, ax=ax).set_label(text)
    ax.set_title("Uncertainty of the map", fontsize=10)
    if proba.shape[-1] == 2 and proba[..., 1].min() < 0.5 < proba[..., 1].max():
        ax.contour(gx, gy, proba[..., 1], levels=[0.5], colors="white", linewidths=1.6)


def _uncertainty(clf: Any, points: Any, level: float) -> Any:
    """``predict_uncertainty``, which a pipeline does not expose."""
    final = final_step(clf)
    if not hasattr(final, "predict_uncertainty"):
        raise ValueError(f"{type(final).__name__} has no predict_uncertainty: use panel=None")
    return final.predict_uncertainty(seen_by_final(clf, points), level=level)


def _samples(ax: Any, xy: Array, y: Any, classes: Any, labels: list[str], wrong: Any) -> None:
    for k, c in enumerate(classes):
        mine = y == c
        ax.scatter(
            xy[mine, 0],
            xy[mine, 1],
            s=20,
            marker=MARKERS[k % len(MARKERS)],
            c=PALETTE[k % len(PALETTE)],
            edgecolors="white",
            linewidths=0.7,
            label=f"class {labels[k]}",
            zorder=3,
            rasterized=len(xy) > 2000,
        )
    if np.any(wrong):
        ax.scatter(
            xy[wrong, 0],
            xy[wrong, 1],
            s=62,
            facecolors="none",
            edgecolors="#111111",
            linewidths=1.0,
            label=WRONG,
            zorder=4,
        )
    legend = ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, fontsize=8, frameon=False)
    # The ring is black on the map, which is always light; the legend needs the text colour.
    for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
        if text.get_text() == WRONG:
            handle.set_edgecolor(text.get_color())
