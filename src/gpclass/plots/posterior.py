"""Sampled kernel parameters beside their priors.

For pairs of parameters and ranks of chains use ArviZ: ``arviz.plot_pair(clf.trace_)``, ``arviz.plot_rank(clf.trace_)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpclass._typing import Array
from gpclass.estimators.pipelines import final_step
from gpclass.estimators.readable import parameter_names
from gpclass.hyper.mixture import ThetaMixture
from gpclass.hyper.trace import Trace
from gpclass.plots._style import LEGEND, PALETTE, axes_for, foreground, plain

REACH = 3.5  # of the axis about the posterior, in its standard deviations, at least


def prior_against_posterior(clf: Any, *, ax: Any = None) -> Any:
    """Histograms of the sampled kernel parameters with the densities of their priors, in logarithms.

    Where both agree the data have said nothing about the parameter, and the prior decides.

    Parameters
    ----------
    clf : fitted classifier
        With kernel parameters sampled.
    ax : sequence of Axes, optional
        One per parameter.

    Returns
    -------
    Axes, or an array of Axes
    """
    clf = final_step(clf)
    mixture, trace = clf.posterior_, clf._trace
    if not isinstance(mixture, ThetaMixture) or not isinstance(trace, Trace) or mixture.prior is None:
        raise ValueError("the kernel parameters were not sampled; fit with hyperparameters='pseudo-marginal'")
    draws = np.log(_draws(trace))
    names = parameter_names(clf.kernel_)
    names += ["likelihood scale"] * (draws.shape[1] - len(names))
    axes = axes_for(ax, draws.shape[1], size=(3.0, 2.6))
    for k, (one, name) in enumerate(zip(np.ravel(axes), names, strict=True)):
        values, prior = draws[:, k], mixture.prior.priors[k]
        reach = REACH * values.std()
        x = np.linspace(values.mean() - reach, values.mean() + reach, 200)
        one.hist(values, bins=30, density=True, color=PALETTE[0], alpha=0.6, label="posterior")
        one.plot(x, [np.exp(prior.log_density(float(t))) for t in x], color=foreground(one), label="prior")
        one.set(xlabel=f"log {plain(name)}", yticks=[])
    np.ravel(axes)[0].legend(**LEGEND)
    return axes


def _draws(trace: Trace) -> Array:
    """All draws, (S, p), in natural units."""
    values = [np.asarray(v) for v in trace.groups["posterior"].values()]
    return np.hstack([v.reshape(v.shape[0] * v.shape[1], -1) for v in values])
