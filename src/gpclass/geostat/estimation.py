"""The covariance for kriging: a given kernel, a given variogram, or one fitted to the data.

Cost: O(s²) pairs for the s <= ``max_sites`` sites used. If the empirical variogram cannot be fitted (too few
sites), an exponential model with the variance of the values and the median distance as its length is used, with
a warning and a note in the report.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from gpclass._typing import Array
from gpclass.geostat.fitting import VariogramFit, fit_variogram
from gpclass.geostat.model import VariogramModel
from gpclass.geostat.variogram import empirical_variogram
from gpclass.kernels import median_distance


@dataclass(frozen=True)
class VariogramSearch:
    """Settings of an automatic variogram; see :func:`empirical_variogram` and :func:`fit_variogram`."""

    lags: int = 15
    max_lag: float | None = None
    lag_choice: str = "width"
    smoothness: float | str = "choose"
    nugget: float | None = None
    weighting: str = "pairs/lag2"
    max_sites: int = 4000  # subsampled evenly if there are more


@dataclass(frozen=True)
class Estimated:
    """A variogram model, its source, and its warnings."""

    model: VariogramModel
    fit: VariogramFit | None
    warnings: tuple[str, ...]


def estimate_variogram(X: Array, V: Array, search: VariogramSearch) -> Estimated:
    """Fit the variogram of values V (n, q) at sites X; for several values, the mean of their variograms."""
    notes: list[str] = []
    if len(X) > search.max_sites:
        rows = np.linspace(0, len(X) - 1, search.max_sites).astype(np.intp)
        X, V = X[rows], V[rows]
        notes.append(f"the variogram was estimated from {search.max_sites} of the sites")
    try:
        scaled = V / np.sqrt(V.shape[1])  # the sum of their variograms is then the mean
        empirical = empirical_variogram(
            X, scaled, lags=search.lags, max_lag=search.max_lag, lag_choice=search.lag_choice
        )
        fit = fit_variogram(empirical, smoothness=search.smoothness, nugget=search.nugget, weighting=search.weighting)
    except ValueError as error:
        notes.append(f"no variogram could be fitted ({error}); an exponential one was assumed")
        warnings.warn(notes[-1], UserWarning, stacklevel=4)  # all maps depend on it
        variance = float(V.var(axis=0).mean())
        assumed = VariogramModel(variance if variance > 0 else 1.0, median_distance(X), 0.5)
        return Estimated(assumed, None, tuple(notes))
    if fit.at_bound:
        notes.append("the variogram's length scale is at a bound of its search: range and sill are not identifiable")
    elif fit.still_rising:
        notes.append("the variogram does not level off within the largest lag: there may be a trend")
    return Estimated(fit.model, fit, tuple(notes))
