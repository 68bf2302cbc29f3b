"""Common to all figures: axes to draw on, and a colour-blind safe palette.

Colours are Okabe & Ito's (2008, Color universal design); lines and text use the colours of the active matplotlib
style, so that figures work in light and dark. matplotlib is imported only when a figure is drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#999999")
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*")


def pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'gpclass[plot]'") from error
    return plt


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

    return LinearSegmentedColormap.from_list(
        "gpclass", [PALETTE[0], "#8fbfe0", "#f4f2ee", "#eeab7c", PALETTE[1]]
    )
