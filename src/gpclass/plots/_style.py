"""Common to all figures: axes to draw on, and a colour-blind safe palette.

Colours are Okabe & Ito's (2008, Color universal design); lines and text use the colours of the active matplotlib
style, so that figures work in light and dark. matplotlib is imported only when a figure is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpclass._typing import Array
from gpclass.names import optional

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#999999")
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*")
CONTOURS = (0.1, 0.25, 0.75, 0.9)
MESH: dict[str, Any] = {"shading": "nearest", "rasterized": True}
LEGEND: dict[str, Any] = {"fontsize": 8, "frameon": False}


def pyplot() -> Any:
    """matplotlib's pyplot."""
    return optional("matplotlib.pyplot", "a figure", "plot")


def plain(text: Any) -> str:
    """A column, label or method as text: matplotlib takes what lies between two dollar signs for mathematics."""
    return str(text).replace("$", r"\$")


def axes_for(ax: Any, panels: int = 1, size: tuple[float, float] = (5.2, 4.2)) -> Any:
    """The axes to draw on: those given (one per panel), or new ones."""
    if ax is None:
        width, height = size
        _, made = pyplot().subplots(1, panels, figsize=(width * panels, height), layout="constrained")
        return made
    given = np.asarray(ax, dtype=object).ravel()
    if len(given) != panels:
        raise ValueError(f"this figure has {panels} panel(s); pass as many axes, not {len(given)}")
    return given[0] if panels == 1 else given


def foreground(ax: Any) -> Any:
    """Text colour of the active style, for lines that must be visible on its background."""
    return ax.xaxis.label.get_color()


def probability_colours() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    colours = [PALETTE[0], "#8fbfe0", "#f4f2ee", "#eeab7c", PALETTE[1]]
    return LinearSegmentedColormap.from_list("gpclass", colours)


def probability_span(p: Any) -> tuple[float, float]:
    """Limits of an axis of probabilities: 0 to 1, or the part that shows a class that is rare or common everywhere."""
    least, largest = float(np.nanmin(p)), float(np.nanmax(p))
    low = 0.0 if least < 0.5 else 1.0 - _rounded_up(1.0 - least)
    high = 1.0 if largest > 0.5 else _rounded_up(largest)
    return (low, high) if high - low > 1e-3 else (0.0, 1.0)


def _rounded_up(p: float) -> float:
    """A number of at least p whose quarters are short."""
    unit = 10.0 ** np.floor(np.log10(max(p, 1e-300)))
    return float(next(k * unit for k in (1.0, 2.0, 4.0, 6.0, 8.0, 10.0) if k * unit >= p))


def colour_bar(ax: Any, image: Any, text: str, **settings: Any) -> None:
    """A bar of colours as high as the axes, whatever their aspect."""
    ax.figure.colorbar(image, cax=ax.inset_axes([1.03, 0.0, 0.05, 1.0]), **settings).set_label(text)


def probability_lines(ax: Any, x: Array, y: Array, p: Array, contours: Sequence[float] = CONTOURS) -> None:
    """Thin contours of a probability (ny, nx), and a thick line where it is one half."""
    span = probability_span(p)
    if span != (0.0, 1.0) and contours is CONTOURS:
        contours = np.linspace(*span, 5)[1:-1].tolist()
    thin = sorted(c for c in contours if min(p.shape) > 1 and p.min() < c < p.max())
    if thin:
        lines = ax.contour(x, y, p, levels=thin, colors="#333333", linewidths=0.6)
        ax.clabel(lines, fmt="%.3g", fontsize=7)
    decision_line(ax, x, y, p, "#111111", 2.0)


def decision_line(ax: Any, x: Array, y: Array, p: Array, colour: str = "white", width: float = 1.6) -> None:
    """The line where a probability (ny, nx) is one half, if there is one; a single row of cells has none."""
    if min(p.shape) > 1 and p.min() < 0.5 < p.max():
        ax.contour(x, y, p, levels=[0.5], colors=colour, linewidths=width)


def spread_label(panel: str, level: float) -> str:
    """What the colours of a panel "interval" or "mcse" mean."""
    interval = f"width of the {100 * level:g} % interval of p"
    return "Monte Carlo standard error of p" if panel == "mcse" else interval
