"""The reliability diagram: observed frequency against probability.

Calibrated forecasts lie within the band of :func:`gpclass.metrics.reliability_curve`.
Cost: O(n log n). Fails when: see that function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpclass import metrics
from gpclass.plots._style import PALETTE, axes_for, foreground, plain, probability_span

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def reliability_diagram(
    y: Any,
    proba: Any,
    *,
    classes: Any = None,
    label: Any = None,
    name: str | None = None,
    bins: int = 10,
    strategy: str = "quantile",
    band: str = "consistency",
    level: float = 0.9,
    histogram: bool = True,
    ax: Any = None,
) -> Axes:
    """Observed frequency against probability; calibrated forecasts lie within the band.

    Parameters
    ----------
    y, proba, classes, label, bins, strategy, band, level
        As in :func:`gpclass.metrics.reliability_curve`.
    name : str, optional
        Title, e.g. the method's name.
    histogram : bool
        Draw the distribution of the probabilities at the bottom of the diagram.
    ax : Axes, optional
    """
    curve = metrics.reliability_curve(
        y, proba, classes, label=label, bins=bins, strategy=strategy, band=band, level=level
    )
    axes: Axes = axes_for(ax, size=(4.4, 4.2))
    p, o = curve.predicted, curve.observed
    percent = f"{100 * level:g} %"
    if band == "consistency":
        text = f"{percent} band of calibrated forecasts"
        axes.fill_between(p, curve.lower, curve.upper, color=PALETTE[5], alpha=0.35, linewidth=0, label=text)
        axes.plot(p, o, "-", color=PALETTE[0], linewidth=1.5)
    else:
        text = f"{percent} interval of the frequency"
        spread = np.maximum([o - curve.lower, curve.upper - o], 0.0)
        axes.errorbar(p, o, spread, color=PALETTE[0], linewidth=1.2, capsize=2, label=text)
    target = o if band == "consistency" else p
    ok = (curve.lower <= target) & (target <= curve.upper)
    size = 14.0 + 60.0 * curve.count / curve.count.max()
    axes.scatter(p[ok], o[ok], s=size[ok], color=PALETTE[0], zorder=3, label="bins")
    if not np.all(ok):
        outside: Any = {"color": PALETTE[1], "marker": "D", "label": "bins outside the band"}
        axes.scatter(p[~ok], o[~ok], s=size[~ok], zorder=3, **outside)
    low, high = probability_span([p.min(), p.max(), curve.lower.min(), curve.upper.max(), o.min(), o.max()])
    axes.plot([low, high], [low, high], "--", color=foreground(axes), linewidth=1.0, alpha=0.8, label="perfect")
    margin = 0.02 * (high - low)
    if histogram:
        # bars in the lowest eighth of the diagram, without an axis
        event = metrics.event_of(metrics.check_forecast(y, proba, classes), label)[0]
        count, edges = np.histogram(event, bins=np.linspace(low, high, 26))
        place: Any = {"width": np.diff(edges), "bottom": low - margin, "align": "edge", "zorder": 0}
        heights = 0.14 * (high - low) * count / max(count.max(), 1)
        axes.bar(edges[:-1], heights, color=PALETTE[7], alpha=0.45, linewidth=0, **place)
    limits = (low - margin, high + margin)
    axes.set(xlim=limits, ylim=limits, ylabel="observed frequency")
    axes.set_xlabel(f"predicted probability ({plain(curve.event)})")
    if name is not None:
        axes.set_title(plain(name), fontsize=10)
    axes.legend(loc="upper left", fontsize=7.5, frameon=False)
    return axes
