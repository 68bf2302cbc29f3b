"""Importance weights: is the estimate dominated by a few draws?

With w the weights, ESS = (Σ w)² / Σ w²; k-hat is the shape of the generalised Pareto fitted to the largest.
Cost: O(S log S). Reference: Vehtari, Simpson, Gelman, Yao & Gabry (2024), JMLR 25(72).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpclass._typing import Array
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
        Pareto k-hat; computed with arviz-stats if not given and S ≥ 25.
    ax : Axes, optional
    """
    log_w = np.asarray(log_weights, dtype=float).ravel()
    if len(log_w) == 0 or np.any(np.isnan(log_w)) or not np.any(np.isfinite(log_w)) or log_w.max() == np.inf:
        raise ValueError("log_weights must hold at least one finite number and neither NaN nor +inf")
    w = np.exp(log_w - log_w.max())
    w /= w.mean()  # mean 1: even weights are all 1
    ess = len(w) ** 2 / np.sum(w**2)
    if khat is None and len(w) >= 25:
        khat = _pareto_khat(log_w)
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
    verdict = ""
    if khat is not None:
        verdict = f", k-hat {khat:.2f} ({'reliable' if khat < 0.7 else 'NOT reliable'})"
    axes.set(xscale="log", yscale="log", xlabel="rank (largest weight first)", ylabel="weight / mean weight")
    axes.set_ylim(max(1e-4, ordered[positive].min() / 2), ordered[0] * 2)
    axes.set_title(f"ESS {ess:.0f} of {len(w)} ({100 * ess / len(w):.0f} %){verdict}", fontsize=10)
    axes.legend(loc="lower left", **LEGEND)
    return axes


def _pareto_khat(log_w: Array) -> float:
    from arviz_stats import base  # imported here: nothing else in a figure needs it

    # A weight of 0 becomes the smallest positive float: the fit uses only the largest.
    safe = np.where(np.isfinite(log_w), log_w, log_w.max() - 745.0)
    smoother: Any = getattr(base, "array_stats")  # noqa: B009 - the package does not list it as exported
    return float(smoother.psislw(-safe)[1])  # takes log likelihoods, the negatives of log weights
