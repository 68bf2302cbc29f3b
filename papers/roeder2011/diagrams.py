"""R Figures 1 and 5: the graph of the doubly stochastic model, and the pixels on a simulated sea."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpclass import plots
from papers.roeder2011.sea import PIXELS, simulate_sea

MAPS = 970  # of the paper's Figure 5
INK = "#222222"


def figure1() -> Any:
    """Observed inputs and labels are shaded squares, latent probabilities circles, all of them joined."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7, 3.6), layout="constrained")
    places, names = (0.0, 1.2, 3.0, 4.4), ("1", "2", "n", "*")
    axis.plot([places[0], places[-1]], [1.0, 1.0], color=INK, linewidth=4.0, zorder=1)
    for x, name in zip(places, names, strict=True):
        arrow = {"arrowstyle": "-|>", "color": INK, "shrinkA": 17, "shrinkB": 17}
        for y in (2.0, 1.0):  # input to latent, latent to label
            axis.annotate("", (x, y - 1.0), (x, y), arrowprops=arrow)
        shaded = {"marker": "s", "markersize": 30, "color": "#c8c8c8", "markeredgecolor": INK}
        latent = {"marker": "o", "markersize": 30, "color": "white", "markeredgecolor": INK}
        axis.plot(x, 2.0, **shaded)
        axis.plot(x, 1.0, **latent)
        axis.plot(x, 0.0, **(latent if name == "*" else shaded))
        for y, letter in ((2.0, "x"), (1.0, "f"), (0.0, "y")):
            axis.text(x, y, f"${letter}_{{{name}}}$", ha="center", va="center", fontsize=12)
    axis.text(2.1, 2.0, "...", ha="center", fontsize=16)
    axis.text(2.1, 0.0, "...", ha="center", fontsize=16)
    for y, text in ((2.0, "features"), (1.0, "1. Gaussian process, squashed"), (0.0, "2. Bernoulli with parameter f")):
        axis.text(5.0, y, text, va="center", fontsize=10)
    axis.set(xlim=(-0.5, 7.6), ylim=(-0.5, 2.5))
    axis.axis("off")
    return figure


def figure5(seed: int) -> Any:
    """Variance of the log heights at each pixel, and the eight features."""
    import matplotlib.pyplot as plt

    sea = simulate_sea(MAPS, seed)
    figure, axis = plt.subplots(figsize=(7.5, 5), layout="constrained")
    shown = axis.contourf(sea.maps.var(axis=0), levels=12, cmap="viridis")
    axis.contour(sea.maps.var(axis=0), levels=12, colors="white", linewidths=0.4)
    column, row = np.array(PIXELS).T
    axis.plot(column, row, "o", color=plots.PALETTE[1], markeredgecolor="white", markersize=9)
    for k, (c, r) in enumerate(PIXELS, 1):
        axis.annotate(str(k), (c, r), xytext=(6, 4), textcoords="offset points", color="white")
    axis.set(xlabel="pixels of 16 km to the east", ylabel="to the north", aspect="equal")
    axis.set_title(f"Variance of log wave height over {MAPS} simulated maps, and the eight features", fontsize=10)
    figure.colorbar(shown, ax=axis)
    return figure
