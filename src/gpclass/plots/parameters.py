"""Kernel parameters: the evidence over two of them, the relevance of each feature.

Cost: ``resolution²`` evaluations of the evidence for its surface. Fails when: the kernel lacks the requested
parameter; the error lists the available ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpclass._typing import Array
from gpclass.estimators.pipelines import final_step
from gpclass.estimators.readable import parameter_names, sampled_parameters
from gpclass.plots._style import LEGEND, PALETTE, axes_for, foreground, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _free_parameters(clf: Any) -> tuple[list[str], Array]:
    """Names and logarithms of all arguments of ``log_marginal_likelihood``: kernel, then likelihood scale."""
    names, theta = parameter_names(clf.kernel_), np.array(clf.kernel_.theta, dtype=float)
    likelihood: Any = getattr(clf, "likelihood_", None)
    if not isinstance(getattr(likelihood, "scale_bounds", "fixed"), str):
        names, theta = [*names, "likelihood scale"], np.append(theta, np.log(likelihood.scale))
    return names, theta


def _parameter_index(names: list[str], which: int | str) -> int:
    if isinstance(which, str):
        hits = [k for k, name in enumerate(names) if which.replace("_", " ").replace("  ", " ") in name]
        if len(hits) != 1:
            raise ValueError(f"{which!r} matches {len(hits)} of the free parameters {names}, not one")
        return hits[0]
    if not 0 <= which < len(names):
        raise ValueError(f"parameter {which} is out of range; there are {len(names)}: {names}")
    return which


def evidence_surface(
    clf: Any, x: int | str = 0, y: int | str = 1, *, span: float = 2.0, resolution: int = 25, ax: Any = None
) -> Axes:
    """Log evidence over two kernel parameters, the others fixed at their fitted values.

    Parameters
    ----------
    clf : fitted classifier
        Needs ``kernel_`` and ``log_marginal_likelihood(theta)``.
    x, y : int or str
        The parameters: index in ``kernel_.theta``, or part of the name (:func:`parameter_names`).
    span : float
        Half the range, in natural logarithms.
    resolution : int
        Points per side: ``resolution²`` evaluations.
    ax : Axes, optional
    """
    clf = final_step(clf)
    names, centre = _free_parameters(clf)
    i, j = _parameter_index(names, x), _parameter_index(names, y)
    if i == j:
        raise ValueError("x and y are the same parameter; choose two")
    gx = np.linspace(centre[i] - span, centre[i] + span, resolution)
    gy = np.linspace(centre[j] - span, centre[j] + span, resolution)
    surface = np.full((resolution, resolution), np.nan)
    for b, vy in enumerate(gy):
        for a, vx in enumerate(gx):
            theta = centre.copy()
            theta[i], theta[j] = vx, vy
            surface[b, a] = clf.log_marginal_likelihood(theta)
    axes: Axes = axes_for(ax)
    drop = surface - np.nanmax(surface)
    # Differences of log evidence: growing steps show both the peak and the slopes.
    levels = [v for v in (-200, -100, -50, -20, -10, -5, -2, -1, -0.5, 0) if v == 0 or v > np.nanmin(drop)]
    levels = [min(np.nanmin(drop), -1e-9) - 1e-9, *levels]
    from matplotlib.colors import BoundaryNorm

    at = np.exp(gx), np.exp(gy)
    filled = axes.contourf(*at, drop, levels=levels, cmap="cividis", norm=BoundaryNorm(levels, 256))
    axes.contour(*at, drop, levels=levels[1:-1], colors="white", linewidths=0.5, alpha=0.7)
    bar = axes.figure.colorbar(filled, ax=axes, ticks=levels[1:], format="%g")
    bar.set_label(f"log evidence − its maximum here ({np.nanmax(surface):.2f})")
    cross: Any = {"color": PALETTE[1], "markeredgecolor": "white", "markersize": 10}
    axes.plot(np.exp(centre[i]), np.exp(centre[j]), "P", label="fitted", **cross)
    axes.set(xscale="log", yscale="log", xlabel=plain(names[i]), ylabel=plain(names[j]))
    _round_ticks(axes.xaxis, at[0])
    _round_ticks(axes.yaxis, at[1])
    axes.legend(fontsize=8, loc="upper right")
    return axes


def _round_ticks(axis: Any, values: Array) -> None:
    """Ticks at 1, 2, 5 times powers of ten, thinned to six: matplotlib's minor labels overlap here."""
    low, high = values[0], values[-1]
    decades = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    ticks = np.outer(decades, [1.0, 2.0, 5.0]).ravel()
    ticks = ticks[(ticks >= low) & (ticks <= high)]
    if len(ticks) > 6:
        ticks = decades[(decades >= low) & (decades <= high)]
    axis.set_ticks(ticks, [f"{t:g}" for t in ticks])
    axis.set_ticks([], minor=True)


def ard_relevance(
    clf: Any, feature_names: Sequence[str] | None = None, *, draws: Any = None, level: float = 0.9, ax: Any = None
) -> Axes:
    """Relevance of each feature: one over its length scale, most relevant at the top.

    Comparable between features only if they are standardised. A length scale at its upper bound means "not
    relevant", whatever its value.

    Parameters
    ----------
    clf : fitted classifier
        Needs ``kernel_`` with one length scale per feature.
    feature_names : sequence of str, optional
        ``clf.feature_names_in_`` by default.
    draws : array-like of shape (S, p), optional
        Posterior draws of ``kernel_.theta`` (logarithms): bars of the ``level`` interval. By default those of ``clf``,
        if its strategy sampled the parameters.
    ax : Axes, optional
    """
    clf = final_step(clf)
    columns, lengths = _length_scales(clf.kernel_)
    d = len(lengths)
    if feature_names is None:
        feature_names = list(getattr(clf, "feature_names_in_", [f"feature {k + 1}" for k in range(d)]))
    if len(feature_names) != d:
        raise ValueError(f"{len(feature_names)} feature names for {d} length scales")
    relevance, interval = 1.0 / lengths, None
    sampled = sampled_parameters(clf) if draws is None else None
    if sampled is not None and columns is not None:
        draws = np.log(sampled)
    if draws is not None:
        theta = np.asarray(draws, dtype=float)
        if columns is None or theta.ndim != 2:
            raise ValueError("draws must be of shape (S, p), and the length scales free parameters")
        tail = 50.0 * (1.0 - level)
        low, relevance, high = np.percentile(np.exp(-theta[:, columns]), [tail, 50.0, 100.0 - tail], axis=0)
        interval = np.stack([relevance - low, high - relevance])
    order = np.argsort(relevance)
    axes: Axes = axes_for(ax, size=(5.2, 1.2 + 0.32 * d))
    axes.barh(np.arange(d), relevance[order], color=PALETTE[0], height=0.65)
    if interval is not None:
        bars = {"fmt": "none", "ecolor": foreground(axes), "capsize": 3, "linewidth": 1.2}
        text = f"{100 * level:g} % of the posterior"
        axes.errorbar(relevance[order], np.arange(d), xerr=interval[:, order], label=text, **bars)
        axes.legend(loc="lower right", **LEGEND)
    axes.set_yticks(np.arange(d), [plain(feature_names[k]) for k in order])
    axes.set(xlabel="relevance (1 / length scale)", xlim=(0.0, None))
    return axes


def _length_scales(kernel: Any) -> tuple[slice | None, Array]:
    """The first vector-valued length scale: its index in theta (None: fixed) and its values (d,)."""
    params = kernel.get_params()
    found: list[str] = []
    start = 0
    for h in kernel.hyperparameters:
        if h.name.endswith("length_scale") and h.n_elements > 1:
            place = None if h.fixed else slice(start, start + h.n_elements)
            return place, np.asarray(params[h.name], dtype=float)
        found.append(h.name)
        start += 0 if h.fixed else h.n_elements
    raise ValueError(
        f"the kernel has no vector of length scales, one per feature (it has {found}); "
        "start it as RBF(length_scale=np.ones(d))"
    )
