"""Which covariance to krige with: a given kernel, a given variogram, or one fitted to the data.

Cost: O(s²) pairs for the s <= ``max_sites`` sites used. Fails softly: where the empirical variogram cannot be
fitted (too few sites), the exponential model with the variance of the values and the median distance as its
length is taken; a warning and the report say so.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import pdist

from gpclass._typing import Array
from gpclass.geostat.fitting import VariogramFit, fit_variogram
from gpclass.geostat.model import VariogramModel
from gpclass.geostat.variogram import empirical_variogram


@dataclass(frozen=True)
class VariogramSearch:
    """Settings of an automatic variogram; see :func:`empirical_variogram` and :func:`fit_variogram`."""

    lags: int = 15
    max_lag: float | None = None
    lag_choice: str = "width"
    smoothness: float | str = "choose"
    nugget: float | None = None
    weighting: str = "pairs/lag2"
    max_sites: int = 4000  # evenly taken from more


@dataclass(frozen=True)
class Estimated:
    """A variogram model, where it came from, and what to warn of."""

    model: VariogramModel
    fit: VariogramFit | None
    warnings: tuple[str, ...]


def estimate_variogram(
    X: Array, V: Array, search: VariogramSearch, weights: Array | None = None
) -> Estimated:
    """Fit the variogram of values V (n, q) at sites X; with several values, the mean of theirs."""
    notes: list[str] = []
    if len(X) > search.max_sites:
        rows = np.linspace(0, len(X) - 1, search.max_sites).astype(np.intp)
        X, V, weights = X[rows], V[rows], None if weights is None else weights[rows]
        notes.append(f"the variogram was estimated from {search.max_sites} of the sites")
    try:
        empirical = empirical_variogram(
            X,
            V / np.sqrt(V.shape[1]),
            lags=search.lags,
            max_lag=search.max_lag,
            lag_choice=search.lag_choice,
            weights=weights,
        )
        fit = fit_variogram(
            empirical, smoothness=search.smoothness, nugget=search.nugget, weighting=search.weighting
        )
    except ValueError as error:
        notes.append(f"no variogram could be fitted ({error}); an exponential one was assumed")
        warnings.warn(notes[-1], UserWarning, stacklevel=4)  # every map that follows rests on it
        return Estimated(_assumed(X, V), None, tuple(notes))
    if fit.at_bound:
        notes.append(
            "the variogram's length scale ended at a limit of its search: range and sill cannot be told apart"
        )
    elif fit.model.variogram(empirical.edges[-1]) < 0.8 * fit.model.sill:
        notes.append("the variogram does not level off within the largest lag: there may be a trend")
    return Estimated(fit.model, fit, tuple(notes))


def _assumed(X: Array, V: Array) -> VariogramModel:
    """An exponential variogram with the variance of the values and the median distance of the sites."""
    r = pdist(X[:1000]) if len(X) > 1 else np.ones(1)
    positive = r[r > 0]
    length = float(np.median(positive)) if len(positive) else 1.0
    variance = float(V.var(axis=0).mean())
    return VariogramModel(variance if variance > 0 else 1.0, length, 0.5)
