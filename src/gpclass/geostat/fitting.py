"""Fit a Matérn variogram to an empirical one by weighted least squares.

    minimise Σ_b w_b (γ_b − s0 − (s − s0)(1 − ρ_ν(r_b / l)))²   over s0 >= 0, s − s0 >= 0, l, ν

Given l and ν the model is linear in nugget and partial sill, which non-negative least squares finds exactly.
What remains is a one-dimensional search over l for each smoothness: a grid, then a bounded search around its best
point. This avoids the local optima of a search over all four parameters. (gstools fits all parameters with a
general optimiser and has more families; here the result must not depend on a starting point.)

Cost: O(B) for B lag classes, some hundred times per smoothness. Fails when: there are fewer than two classes. A
length at the end of its bounds is reported, since sill and range are then not identifiable.

Reference: Cressie (1985), Math. Geology 17; Golub & Pereyra (1973) for the elimination.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar, nnls

from gpclass._html import Tabular
from gpclass._typing import Array
from gpclass.geostat.model import VariogramModel, matern_correlation
from gpclass.geostat.variogram import EmpiricalVariogram

LEVEL = 0.8  # of the sill, which a variogram that levels off reaches at the largest lag
WEIGHTINGS = ("pairs/lag2", "pairs", "cressie", "equal")
SMOOTHNESSES = (0.5, 1.5, 2.5)  # closed forms; others cost a Bessel function
FINE_SMOOTHNESSES = (0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.5, 5.0, 10.0, np.inf)


@dataclass(frozen=True, repr=False)
class VariogramFit(Tabular):
    """A fitted variogram and the quality of the fit."""

    model: VariogramModel
    empirical: EmpiricalVariogram
    error: float  # weighted root mean square of the residuals
    at_bound: bool  # the length scale is at a bound of its search
    weighting: str = ""

    @property
    def still_rising(self) -> bool:
        """Whether the model is well below its sill at the largest lag: sill and range are then an extrapolation."""
        return bool(self.model.variogram(self.empirical.edges[-1]) < LEVEL * self.model.sill)

    def _head(self) -> Sequence[str]:
        return "of the variogram", "fitted"

    def _rows(self) -> Sequence[Sequence[str]]:
        model, bound = self.model, "yes: sill and range are not known" if self.at_bound else "no"
        level = "no: there may be a trend, and sill and range are extrapolated" if self.still_rising else "yes"
        one = not isinstance(model.length_scale, tuple)
        reach = [("practical range", f"{model.practical_range():.4g}")] if one else []
        lags = str(len(self.empirical))
        return [
            *model.rows(),
            *reach,
            ("error", f"{self.error:.3g}"),
            ("lags", lags),
            ("length at a bound", bound),
            ("levels off", level),
        ]


def fit_variogram(
    empirical: EmpiricalVariogram,
    *,
    smoothness: float | str = "choose",
    nugget: float | None = None,
    weighting: str = "pairs/lag2",
    max_length: float | None = None,
) -> VariogramFit:
    """Fit sill, length scale, smoothness and nugget.

    Parameters
    ----------
    empirical : EmpiricalVariogram
        From :func:`empirical_variogram`.
    smoothness : float, "choose" or "fit"
        ν itself; "choose": the best of ½, 3/2, 5/2; "fit": the best of a fine list up to infinity.
    nugget : float, optional
        Fix the nugget; fitted by default.
    weighting : {"pairs/lag2", "pairs", "cressie", "equal"}
        N/r² (short lags matter most for kriging), N, N/γ(r)² with the model's γ (iterated), or 1.
    max_length : float, optional
        Largest length scale; twice the largest lag by default.
    """
    if weighting not in WEIGHTINGS:
        raise ValueError(f"weighting must be one of {WEIGHTINGS}, not {weighting!r}")
    if len(empirical) < 2:
        raise ValueError("a variogram needs at least two lag classes with pairs; use more sites or wider lags")
    if nugget is not None and nugget < 0:
        raise ValueError(f"the nugget must not be negative, not {nugget}")
    if not np.any(empirical.gamma > 0):
        raise ValueError("the variable is constant: no variogram can be fitted")
    shapes = smoothness_list(smoothness)
    lags = empirical.lag[empirical.lag > 0]
    top = 2.0 * float(lags.max()) if max_length is None else float(max_length)
    bounds = (float(lags.min()) / 10.0, top)
    if not bounds[1] > bounds[0]:
        raise ValueError(f"max_length {bounds[1]:g} is smaller than a tenth of the smallest lag {lags.min():g}")
    weights = lag_weights(empirical, "pairs/lag2" if weighting == "cressie" else weighting)
    best = search_models(empirical, shapes, weights, nugget, bounds)
    if weighting == "cressie":
        for _ in range(5):
            weights = lag_weights(empirical, "cressie", best.model)
            best = search_models(empirical, shapes, weights, nugget, bounds)
    return replace(best, weighting=weighting)


def search_models(
    empirical: EmpiricalVariogram,
    shapes: tuple[float, ...],
    weights: Array,
    nugget: float | None,
    bounds: tuple[float, float],
) -> VariogramFit:
    """The best model over lengths and smoothnesses."""
    scale = float(empirical.gamma.max())
    gamma = empirical.gamma / scale  # independent of the variable's units
    fixed = None if nugget is None else nugget / scale
    log_low, log_high = np.log(bounds)
    grid = np.linspace(log_low, log_high, 41)
    best: tuple[float, float, float] | None = None  # error, log length, ν
    for nu in shapes:

        def error(log_l: float, nu: float = nu) -> float:
            return _linear_fit(empirical.lag, gamma, weights, np.exp(log_l), nu, fixed)[0]

        values = np.array([error(g) for g in grid])
        k = int(np.argmin(values))
        low, high = grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]
        found = minimize_scalar(error, bounds=(low, high), method="bounded", options={"xatol": 1e-8})
        value, at = min((float(found.fun), float(found.x)), (float(values[k]), float(grid[k])))
        if best is None or value < best[0] * (1.0 - 1e-9):
            best = (value, at, nu)
    assert best is not None  # shapes is never empty
    error_value, log_l, nu = best
    _, s0, partial = _linear_fit(empirical.lag, gamma, weights, np.exp(log_l), nu, fixed)
    partial = max(partial, 1e-10 * (1.0 + s0))  # a kernel needs a positive correlated part
    model = VariogramModel(scale * (s0 + partial), float(np.exp(log_l)), nu, scale * s0)
    at_bound = bool(min(log_l - log_low, log_high - log_l) < 1e-3)
    return VariogramFit(model, empirical, scale * error_value, at_bound)


def _linear_fit(
    lag: Array, gamma: Array, weights: Array, length: float, nu: float, nugget: float | None
) -> tuple[float, float, float]:
    """Error, nugget and partial sill for a given length and smoothness."""
    root = np.sqrt(weights)
    rise = 1.0 - matern_correlation(lag, length, nu)
    if nugget is None:
        design = np.column_stack([(lag > 0).astype(float), rise]) * root[:, None]
        (s0, partial), norm = nnls(design, gamma * root)
        return float(norm), float(s0), float(partial)
    target = gamma - nugget * (lag > 0)
    tilt = weights * rise
    partial = max(float(tilt @ target) / max(float(tilt @ rise), 1e-300), 0.0)
    return float(np.linalg.norm(root * (target - partial * rise))), nugget, partial


def lag_weights(empirical: EmpiricalVariogram, weighting: str, model: VariogramModel | None = None) -> Array:
    """Weights of the lag classes, summing to one."""
    n = empirical.pairs.astype(float)
    if weighting == "equal":
        w = np.ones_like(n)
    elif weighting == "pairs":
        w = n
    elif weighting == "cressie" and model is not None:
        gamma = model.variogram(empirical.lag)
        w = n / np.maximum(gamma, 1e-3 * model.sill) ** 2
    else:
        positive = float(empirical.lag[empirical.lag > 0].min())
        w = n / np.maximum(empirical.lag, 0.5 * positive) ** 2
    return np.asarray(w / w.sum())


def smoothness_list(smoothness: float | str) -> tuple[float, ...]:
    """The smoothnesses to try."""
    lists = {"choose": SMOOTHNESSES, "fit": FINE_SMOOTHNESSES}
    if isinstance(smoothness, str):
        if smoothness not in lists:
            raise ValueError(f"smoothness must be a number, 'choose' or 'fit', not {smoothness!r}")
        return lists[smoothness]
    if not smoothness > 0:
        raise ValueError(f"the smoothness must be positive, not {smoothness}")
    return (float(smoothness),)
