"""Geostatistical figures: the probability map, the variogram, the normal on the unit interval.

Cost: that of drawing; the map predicts only if given a classifier. Fails when: see :func:`predict_map`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpclass._typing import Array, BoolArray
from gpclass.plots import _style as style

CROWDED = 1500  # places of samples beyond which their marks shrink


def probability_map(
    what: Any,
    X: Any = None,
    y: Any = None,
    *,
    points: Any = None,
    panel: str | None = None,
    contours: Sequence[float] = style.CONTOURS,
    resolution: int = 100,
    level: float = 0.9,
    label: Any = None,
    event: str | None = None,
    sample_weight: npt.ArrayLike | None = None,
    title: str | None = None,
    colourbar: bool = True,
    ax: Any = None,
) -> Any:
    """A map of p with contours, the decision line, and the samples: filled if the event occurred, empty if not.

    A site with labels of both kinds (y of N) is grey, darker for a larger fraction.

    Parameters
    ----------
    what : fitted classifier, pipeline or ProbabilityMap
        A classifier is evaluated at ``points``.
    X : array-like of shape (n, d), optional
        Sites; the first two columns are the coordinates. Needed for the grid if ``points`` is not given.
    y : array-like of shape (n,), optional
        Labels of the samples to draw.
    points : array-like of shape (m, d), optional
        Cells to predict; a regular grid over the sites by default.
    panel : {None, "interval", "mcse"}
        A second panel: width of the credible interval of p, or its Monte Carlo standard error.
    contours : sequence of float
        Levels of thin contour lines; the line at ½ is always drawn, thick.
    resolution : int
        Cells along the longer side of the default grid.
    level, label
        As in :func:`gpclass.geostat.predict_map`.
    event : str, optional
        Meaning of the class, shown on the map ("zinc > 500 ppm"); "class 1" by default.
    sample_weight : array-like of shape (n,), optional
        Number of labels that each row of X and y represents; rows of weight zero are not drawn.
    title : str, optional
    colourbar : bool
    ax : Axes, or two Axes with ``panel``
    """
    from gpclass.geostat.maps import ProbabilityMap, predict_map, regular_grid

    if panel not in (None, "interval", "mcse"):
        raise ValueError(f"panel must be None, 'interval' or 'mcse', not {panel!r}")
    found = what
    if not isinstance(what, ProbabilityMap):
        if X is None and points is None:
            raise ValueError("give the sites X or the points of the map")
        if points is None:
            sites = X.iloc[:, :2] if hasattr(X, "iloc") else np.asarray(X, dtype=float)[:, :2]
            points = regular_grid(sites, resolution)
        found = predict_map(what, points, label=label, level=level)
    second = None if panel is None else found.mcse if panel == "mcse" else found.width
    if panel is not None and second is None:
        cure = "'interval'" if panel == "mcse" else "None"
        raise ValueError(f"panel={panel!r} is not available for this method; use panel={cure}")
    axes = style.axes_for(ax, 2 if panel else 1, size=(5.4, 4.6))
    main = axes[0] if panel else axes
    event = f"class {found.label}" if event is None else event
    p, colours = np.ma.masked_invalid(found.proba), style.probability_colours()
    image = main.pcolormesh(found.x, found.y, p, cmap=colours, vmin=0.0, vmax=1.0, **style.MESH)
    if colourbar:
        style.colour_bar(main, image, f"probability of {style.plain(event)}", ticks=[0, 0.25, 0.5, 0.75, 1])
    style.probability_lines(main, found.x, found.y, p, contours)
    main.set_title(f"Probability of {style.plain(event)}" if title is None else title, fontsize=10)
    if panel is not None and second is not None:
        values = np.ma.masked_invalid(second)
        image = axes[1].pcolormesh(found.x, found.y, values, cmap="cividis", **style.MESH)
        style.colour_bar(axes[1], image, style.spread_label(panel, found.level))
        style.decision_line(axes[1], found.x, found.y, p)
        # the Monte Carlo error and the uncertainty of p are different quantities: keep the titles distinct
        axes[1].set_title("Monte Carlo error" if panel == "mcse" else "Uncertainty of p", fontsize=10)
    if X is not None and y is not None:
        happened = np.asarray(y) == found.label
        weight = np.ones(len(happened)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        if weight.shape != happened.shape:
            raise ValueError(f"sample_weight has shape {weight.shape} for {len(happened)} labels")
        _draw_samples(main, np.asarray(X, dtype=float)[:, :2], happened, weight, event)
    for one in np.atleast_1d(np.asarray(axes, dtype=object)):
        one.set(xlabel=style.plain(found.names[0]), ylabel=style.plain(found.names[1]))
        one.set_aspect("equal")
    return axes


def _draw_samples(ax: Any, xy: Array, happened: BoolArray, weight: Array, event: str) -> None:
    """Filled and empty circles, as usual for indicators; grey where the labels of a site differ."""
    from matplotlib.transforms import ScaledTranslation

    xy, happened, weight = xy[weight > 0], happened[weight > 0], weight[weight > 0]
    _, place = np.unique(xy, axis=0, return_inverse=True)
    place = place.ravel()
    share = (np.bincount(place, weight * happened) / np.bincount(place, weight))[place]  # (n,), of its place
    mixed = (share > 0) & (share < 1)
    kinds = [
        (mixed, [str(1.0 - s) for s in share[mixed]], "#111111", "both (darker: more)"),
        (happened & ~mixed, "#111111", "white", style.plain(event)),
        (~happened & ~mixed, "white", "#111111", "otherwise"),
    ]
    count = len(np.unique(place))
    shrunk = min(1.0, CROWDED / max(count, 1))  # so that thousands do not hide the map
    look = {"s": 22 if count <= 300 else 9 * shrunk, "linewidths": 0.7 * shrunk, "zorder": 3}
    for mine, face, edge, text in kinds[0 if mixed.any() else 1 :]:
        dots = ax.scatter(*xy[mine].T, facecolors=face, edgecolors=edge, label=text, **look)
        dots.set_rasterized(len(xy) > 2000)
    # The legend below the axis label, offset in points: a fraction of a flat map would overlap the ticks.
    below = ax.transAxes + ScaledTranslation(0.0, -34.0 / 72.0, ax.figure.dpi_scale_trans)
    at = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "bbox_transform": below}
    legend = ax.legend(**at, ncols=3, **style.LEGEND)
    # give white markers an edge in the text colour, to be visible in the legend
    for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
        handle.set_edgecolor(text.get_color())


def variogram(what: Any, *, model: Any = None, pairs: bool = True, title: str | None = None, ax: Any = None) -> Any:
    """Semivariance against distance, with the fitted model, its sill, nugget and practical range.

    Parameters
    ----------
    what : VariogramFit, EmpiricalVariogram, or fitted IndicatorKriging
        A kriging classifier shows its fitted variogram.
    model : VariogramModel, optional
        Drawn instead of the fitted one.
    pairs : bool
        Scale the areas of the dots with the number of pairs.
    title : str, optional
    ax : Axes, optional
    """
    empirical, model = _variogram_parts(what, model)
    ax = style.axes_for(ax)
    size = 18.0 + 60.0 * empirical.pairs / empirical.pairs.max() if pairs else 30.0
    text = "pairs of samples"
    if empirical.direction is not None:
        text += f" along ({', '.join(f'{part:.2g}' for part in empirical.direction)})"
    ax.scatter(empirical.lag, empirical.gamma, s=size, color=style.PALETTE[0], zorder=3, label=text)
    top = float(empirical.edges[-1])
    if model is not None:
        r = np.linspace(0.0, top, 400)[1:]
        curve = "Gaussian" if np.isinf(model.smoothness) else f"Matérn, ν = {model.smoothness:g}"
        ax.plot(r, model.variogram(r), color=style.PALETTE[1], linewidth=1.8, label=curve)
        grey = {"color": style.foreground(ax), "linewidth": 0.8, "linestyle": ":", "alpha": 0.7}
        ax.axhline(model.sill, **grey)
        ax.text(top, model.sill, f"sill {model.sill:.3g}", ha="right", va="bottom", fontsize=8)
        if model.nugget > 0:
            ax.plot([0.0], [model.nugget], marker="_", markersize=14, color=style.PALETTE[1], clip_on=False)
            ax.text(0.02 * top, model.nugget, f"nugget {model.nugget:.3g}", ha="left", va="top", fontsize=8)
        reach = None if isinstance(model.length_scale, tuple) else model.practical_range()
        if reach is not None and reach < top:
            ax.axvline(reach, **grey)
            ax.text(reach, 0.02 * model.sill, f" range {reach:.3g}", ha="left", va="bottom", fontsize=8)
    ax.set(xlabel="distance", ylabel="semivariance", xlim=(0.0, 1.03 * top))
    ax.set_ylim(bottom=0.0)
    ax.set_title("Variogram" if title is None else title, fontsize=10)
    ax.legend(**style.LEGEND)
    return ax


def _variogram_parts(what: Any, model: Any) -> tuple[Any, Any]:
    """The empirical variogram and the model to draw."""
    from gpclass.geostat.fitting import VariogramFit
    from gpclass.geostat.variogram import EmpiricalVariogram

    fitted = getattr(what, "variogram_", what)
    if isinstance(fitted, VariogramFit):
        return fitted.empirical, fitted.model if model is None else model
    if isinstance(fitted, EmpiricalVariogram):
        return fitted, model
    if fitted is None:
        raise ValueError("this classifier's covariance was given, not fitted; pass an EmpiricalVariogram")
    if isinstance(fitted, list):
        raise ValueError("there is one variogram per class: draw them one by one, clf.variogram_[k]")
    raise ValueError(f"pass a VariogramFit or an EmpiricalVariogram, not {what!r}")


def normal_on_interval(
    location: float | Sequence[float] = 0.0,
    variance: float | Sequence[float] = 1.0,
    *,
    scale: float = 1.0,
    title: str | None = None,
    ax: Any = None,
) -> Any:
    """Densities of the normal on ]0,1[, one line per pair of location and variance.

    Parameters
    ----------
    location, variance : float or sequence of float
        Parameters of the coordinate; broadcast against each other.
    scale : float
        c0.
    title : str, optional
    ax : Axes, optional
    """
    from gpclass.geostat.aitchison.normal import IntervalNormal

    ax = style.axes_for(ax)
    at, spread = np.broadcast_arrays(np.atleast_1d(location), np.atleast_1d(variance))
    if len(at) > len(style.PALETTE):
        raise ValueError(f"one figure shows at most {len(style.PALETTE)} densities, not {len(at)}")
    z = np.linspace(0.0, 1.0, 1001)[1:-1]
    styles = ("-", "--", "-.", ":")
    top = 0.0
    for k, (mu, s2) in enumerate(zip(at, spread, strict=True)):
        density = IntervalNormal(float(mu), float(s2), scale).pdf(z)
        top = max(top, float(density[30:-30].max()))  # ignore the spikes at the ends
        text = f"μ = {mu:g}, σ² = {s2:g}"
        ax.plot(z, density, color=style.PALETTE[k], linestyle=styles[k % 4], linewidth=1.8, label=text)
    ax.set(xlabel="z", ylabel="density", xlim=(0.0, 1.0), ylim=(0.0, 1.2 * top))
    ax.set_title("Normal distribution on ]0, 1[" if title is None else title, fontsize=10)
    ax.legend(**style.LEGEND)
    return ax
