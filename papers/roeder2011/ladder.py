"""The methods of the comparison, each tuned as in the paper (R §5.2), and their scores.

CIK and SIK take their covariance from the variogram. AMP and DSGQ take smoothness, sill and nugget from the same
variogram and find length and scale (c0, k0) by cross-validation on the training data; only c0²·sill matters
(Remark 3), so the search range is that of c0·√sill. "exact" maximises the evidence of the probit model instead.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from gpclass import GPClassifier
from gpclass.geostat import IndicatorKriging, VariogramModel, VariogramSearch
from gpclass.hyper import CrossValidation
from gpclass.inference import AMP, DSGQ, Exact
from gpclass.likelihoods import Logit, Probit
from gpclass.metrics import check_forecast, pointwise_brier, pointwise_log_loss

CORE = ("CIK", "SIK", "AMP", "DSGQ", "exact")
MORE = ("AMP, no nugget", "DSGQ, no nugget")  # the Bernoulli layer already is noise
SCALES = (0.3, 30.0)  # of c0·√sill, the standard deviation of the log odds
BOOTSTRAPS = 2000


@dataclass(frozen=True)
class Effort:
    """Effort of the search for parameters, and the Monte Carlo error of the results."""

    n_points: int = 20
    rounds: int = 1
    draws: int = 200  # per candidate and fold, in the search
    tol: float = 0.005
    nugget: float | None = None  # None: fitted with the rest of the variogram
    given: VariogramModel | None = None  # instead of a fitted one

    @property
    def variogram(self) -> VariogramSearch | VariogramModel:
        """The variogram, or how it is fitted."""
        return self.given or VariogramSearch(nugget=self.nugget)


def tune(name: str, X: Any, y: Any, seed: int, effort: Effort) -> Any:
    """An unfitted estimator with all parameters found on (X, y) and fixed."""
    if name in ("CIK", "SIK"):
        transform = "classical" if name == "CIK" else "simplicial"
        fitted = IndicatorKriging(transform, variogram=effort.variogram).fit(X, y)
        return IndicatorKriging(transform, kernel=fitted.kernel_)
    if name == "CIK, declustered mean":
        fitted = IndicatorKriging(variogram=effort.variogram).fit(X, y)
        return IndicatorKriging(kernel=fitted.kernel_, mean="declustered")
    model = VariogramModel.from_kernel(IndicatorKriging(variogram=effort.variogram).fit(X, y).kernel_)
    if name == "exact":
        return _maximised(model, X, y, seed, effort)
    if name.endswith(", no nugget"):
        model, name = replace(model, nugget=0.0), name.removesuffix(", no nugget")
    amp = name == "AMP"
    inference = AMP() if amp else DSGQ(first=effort.draws, tol=effort.tol)
    root = np.sqrt(model.sill)
    low, high = (SCALES[0] / root, SCALES[1] / root) if amp else (0.5876 * SCALES[0] / root, 0.5876 * SCALES[1] / root)
    length = float(model.length_scale)
    search = CrossValidation(
        ranges={"length_scale": (length / 4, length * 16), "likelihood__scale": (low, high)},
        n_points=effort.n_points,
        rounds=effort.rounds,
    )
    middle = float(np.sqrt(low * high))
    kernel = model.kernel()
    found = GPClassifier(
        kernel,
        likelihood=Logit(middle) if amp else Probit(middle),
        inference=inference,
        hyperparameters=search,
        random_state=seed,
        tol=effort.tol,
    ).fit(X, y)
    final = AMP() if amp else DSGQ(tol=effort.tol)
    return _fixed(found.kernel_, final, found.likelihood_, seed, effort)


def _maximised(model: VariogramModel, X: Any, y: Any, seed: int, effort: Effort) -> Any:
    """Probit with all parameters at the maximum of the evidence, including a base rate."""
    length = float(model.length_scale)
    bounds = (length / 50, length * 50)
    shape = RBF(length, bounds) if np.isinf(model.smoothness) else Matern(length, bounds, nu=model.smoothness)
    kernel = ConstantKernel(2.0, (1e-2, 1e3)) * shape + ConstantKernel(0.5, (1e-3, 1e2))
    found = GPClassifier(kernel, inference=Exact(tol=effort.tol), random_state=seed, tol=effort.tol).fit(X, y)
    return _fixed(found.kernel_, Exact(tol=effort.tol), found.likelihood_, seed, effort)


def _fixed(kernel: Any, inference: Any, likelihood: Any, seed: int, effort: Effort) -> Any:
    return GPClassifier(
        kernel,
        likelihood=likelihood,
        inference=inference,
        hyperparameters="fixed",
        random_state=seed,
        tol=effort.tol,
    )


def answer(name: str, X: Any, y: Any, X_new: Any, seed: int, effort: Effort) -> tuple[np.ndarray, float, float, Any]:
    """Probabilities of class 1 at X_new; CPU seconds to tune; CPU seconds to fit and predict; the fitted estimator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # clipped probabilities, bounds: shown in the tables
        begin = time.process_time()
        estimator = tune(name, X, y, seed, effort)
        tuned = time.process_time()
        p = estimator.fit(X, y).predict_proba(X_new)[:, 1]
        return p, tuned - begin, time.process_time() - tuned, estimator


# ---- scores --------------------------------------------------------------------------------------------

LOSSES: Mapping[str, Callable[[Any], np.ndarray]] = {
    "log loss": pointwise_log_loss,
    "Brier": pointwise_brier,
    "accuracy": lambda f: (f.proba.argmax(axis=1) == f.index).astype(float),
}


def pointwise(y: Any, p: np.ndarray) -> dict[str, np.ndarray]:
    """Each score at each point."""
    forecast = check_forecast(y, p, [0, 1])
    return {name: score(forecast) for name, score in LOSSES.items()}


def paired_interval(difference: np.ndarray, group: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """95 % bootstrap interval of a mean difference, with whole groups of points resampled."""
    total = np.bincount(group, difference)
    count = np.bincount(group)
    weight = rng.multinomial(len(total), np.full(len(total), 1 / len(total)), size=BOOTSTRAPS)
    low, high = np.percentile((weight @ total) / (weight @ count), [2.5, 97.5])
    return float(low), float(high)


def score_rows(
    y: Any, found: Mapping[str, np.ndarray], group: np.ndarray, seed: int, reference: str = "exact"
) -> list[tuple[Any, ...]]:
    """Per method: every score, and its difference from the reference with a paired bootstrap interval."""
    base = pointwise(y, found[reference])
    rows = []
    for name, p in found.items():
        mine = pointwise(y, p)
        cells: list[Any] = [name]
        for score in LOSSES:
            cells.append(float(mine[score].mean()))
            if name == reference:
                cells.append("–")
            else:
                gap = mine[score] - base[score]
                low, high = paired_interval(gap, group, np.random.default_rng(seed))
                cells.append(f"{gap.mean():+.3f} [{low:+.3f}, {high:+.3f}]")
        rows.append(tuple(cells))
    return rows


SCORE_COLUMNS = ("method", "log loss", "− exact", "Brier", "− exact", "accuracy", "− exact")
