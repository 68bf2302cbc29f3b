"""Importance weights: is the estimate dominated by a few draws?

With w the weights, ESS = (Σ w)² / Σ w²; k-hat is the shape of the generalised Pareto fitted to the largest.
Cost: O(S log S). Reference: Vehtari, Simpson, Gelman, Yao & Gabry (2024), JMLR 25(72).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpclass.orthant.weights import effective_size, pareto_khat, relative_weights
from gpclass.plots._style import LEGEND, PALETTE, axes_for, foreground

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def weights_diagnostic(log_weights: Any, khat: float | None = None, *, ax: Any = None) -> Axes:
    """Importance weights, largest first, against even ones; effective sample size and k-hat in the legend.

    Sorted weights lie near the line 1 if the proposal fits its target. A straight steep slope on the left is a heavy
    tail: above k-hat 0.7 the estimate and its error are unreliable.

    Parameters
    ----------
    log_weights : array-like of shape (S,)
        Logarithms of the weights, up to a constant; −inf counts as a weight of 0.
    khat : float, optional
        Pareto k-hat; computed from the weights if not given, unless there are too few.
    ax : Axes, optional
    """
    log_w = np.asarray(log_weights, dtype=float).ravel()
    if len(log_w) == 0 or np.any(np.isnan(log_w)) or not np.any(np.isfinite(log_w)) or log_w.max() == np.inf:
        raise ValueError("log_weights must hold at least one finite number and neither NaN nor +inf")
    w, ess = relative_weights(log_w), effective_size(log_w)  # even weights are all 1
    khat = pareto_khat(log_w) if khat is None else khat
    axes: Axes = axes_for(ax)
    ordered = np.sort(w)[::-1]
    rank = np.arange(1, len(w) + 1)
    positive = ordered > 0
    share = np.cumsum(ordered) / len(w)
    text = f"weights (S = {len(w)})"
    axes.plot(rank[positive], ordered[positive], color=PALETTE[0], linewidth=2, label=text)
    axes.axhline(1.0, linestyle="--", color=foreground(axes), linewidth=1, alpha=0.8, label="even weights")
    tail = min(len(w), int(np.ceil(min(0.2 * len(w), 3 * np.sqrt(len(w))))))
    text = f"largest {tail}: {100 * share[tail - 1]:.0f} % of the sum"
    axes.plot(rank[:tail], ordered[:tail], color=PALETTE[1], linewidth=3, label=text)
    verdict = f", k-hat {khat:.2f} ({'reliable' if khat < 0.7 else 'NOT reliable'})"
    verdict = "" if np.isnan(khat) else verdict
    axes.set(xscale="log", yscale="log", xlabel="rank (largest weight first)", ylabel="weight / mean weight")
    axes.set_ylim(max(1e-4, ordered[positive].min() / 2), ordered[0] * 2)
    axes.set_title(f"ESS {ess:.0f} of {len(w)} ({100 * ess / len(w):.0f} %){verdict}", fontsize=10)
    axes.legend(loc="lower left", **LEGEND)
    return axes
