"""Indicator kriging as a scikit-learn classifier.

    classical   p̂(x*) = m + λᵀ(y − m)                                  may leave [0,1]
    simplicial  logit p̂(x*) = φ_m + λᵀ(φ − φ_m)                        stays inside

with the kriging weights λ of :mod:`.systems`, the values of :mod:`.indicators`, and a covariance that is
given or comes from the variogram. There is no latent posterior: the labels are treated as the values themselves.
With ``exact=True`` both methods therefore return the observed label at each site, regardless of its neighbours.

For two classes and one label per site both have the same decision line p̂ = ½, and (R eq. 5)
logit p̂_simplicial = 2 ln((1 − p)/p) (p̂_classical − ½).

Cost: O(n³) to fit, or O(k³) per new point with k neighbours. Fails when: only one class is present,
unless the classes are named and covariance and mean are given.

Reference: Journel (1983), Math. Geology 15; Tolosana-Delgado et al. (2008), Math. Geosci. 40; R §2.
"""

from __future__ import annotations

import time
import warnings
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit, ndtri, xlogy
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from gpclass._typing import Array
from gpclass.covariance import compile_kernel
from gpclass.estimators.checks import check_kernel, check_memory
from gpclass.estimators.mixins import Deciding, Savable
from gpclass.geostat._keyword import TransformKeyword
from gpclass.geostat.declustering import cell_declustering
from gpclass.geostat.estimation import VariogramSearch, estimate_variogram
from gpclass.geostat.indicators import (
    TRANSFORMS,
    Outside,
    Sites,
    correct,
    log_probabilities,
    mean_value,
    merge_sites,
    outside,
    probabilities,
    site_values,
)
from gpclass.geostat.model import VariogramModel
from gpclass.geostat.systems import KrigingSystem
from gpclass.model.labels import check_learnable, encode
from gpclass.posterior import Report
from gpclass.predict import Uncertainty


class OutsideWarning(UserWarning):
    """Kriged probabilities were outside [0,1] and were corrected."""


class IndicatorKriging(TransformKeyword, Savable, Deciding, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Class probabilities by kriging of indicators.

    Parameters
    ----------
    transform : {"classical", "simplicial"}
        Krige the indicators themselves, or log-ratios of probabilities (p and 1 − p) that replace them.
    kernel : scikit-learn kernel, optional
        Covariance of the kriged values, used unchanged. Its white noise is the nugget.
    variogram : "fit", VariogramModel or VariogramSearch
        Source of the covariance if no kernel is given.
    p : float or "jeffreys", default=0.25
        Simplicial: the probability of a class that was not observed, for one label.
    neighbours : int, optional
        Krige from the k nearest sites; all by default.
    mean : {"frequency", "declustered"}, float, array or None
        Known mean for simple kriging: class frequencies in the data (the default, also None), these
        frequencies with cell-declustering weights, or given: P(second class), or one probability per class.
    ordinary : bool, default=False
        Ordinary kriging: the mean is unknown and ``mean`` is ignored.
    exact : bool, default=True
        Include the nugget at sites, so that kriging returns the values there; False treats it as noise and
        smooths.

    Attributes
    ----------
    classes_ : array (C,)
    kernel_ : kernel, or one per class (classical, more than two classes, fitted)
    variogram_ : VariogramFit, or one per class, or None
    mean_ : array (C,)
        The known class frequencies.
    sites_ : Sites
        Distinct sites with their label counts.
    fit_report_ : Report
        Jitter, the fraction of leave-one-out predictions outside [0,1] and their largest distance, their log loss and
        Brier score.

    Notes
    -----
    Several labels at one site are combined (y of N); ``sample_weight`` counts labels. Probabilities are
    corrected in ``predict_proba`` and ``predict_uncertainty``, with an :class:`OutsideWarning` that counts them;
    ``predict_indicator`` gives the raw ones and ``outside`` counts them.
    """

    def __init__(
        self,
        transform: str = "classical",
        *,
        kernel: Any = None,
        variogram: Any = "fit",
        p: float | str = 0.25,
        neighbours: int | None = None,
        mean: Any = None,
        ordinary: bool = False,
        exact: bool = True,
    ) -> None:
        self.transform = transform
        self.kernel = kernel
        self.variogram = variogram
        self.p = p
        self.neighbours = neighbours
        self.mean = mean
        self.ordinary = ordinary
        self.exact = exact

    def fit(
        self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None, *, classes: Any = None
    ) -> Self:
        """Collect the labels by site, determine the covariance and factor it.

        Parameters
        ----------
        X : array (n, d)
            Coordinates.
        y : array (n,)
            Labels.
        sample_weight : array (n,), optional
            Number of labels that each row represents.
        classes : array (C,), optional
            All classes, if y may lack some. With one class in y, kernel or variogram and the mean must be given, such
            as ``mean=0.5``: kriging then goes from that class at its sites to the mean far from them.
        """
        start = time.perf_counter()
        x, labels = validate_data(self, X, y, dtype=np.float64)
        self._check_settings()
        weight = _check_sample_weight(sample_weight, x, ensure_non_negative=True)
        kept = weight > 0
        if not np.any(kept):
            raise ValueError("every row has weight zero; give some of them weight")
        self.classes_, index = encode(labels[kept], classes)
        if not self._prior_alone():
            check_learnable(index, "mean and covariance", "give a kernel, or a VariogramModel, and mean=0.5")
        self.sites_ = merge_sites(x[kept], index, weight[kept], len(self.classes_))
        self.mean_ = self._known_mean(self.sites_)
        self._values = site_values(self.sites_.counts, self._transform, self._p())
        self._centre = mean_value(self.mean_, self._transform, self._p())
        notes = self._make_systems()
        self.fit_report_ = self._report(notes, start)
        return self

    def _prior_alone(self) -> bool:
        """Whether neither the mean nor the covariance is taken from the labels."""
        known = self.kernel is not None or isinstance(self.variogram, VariogramModel)
        return known and not self.ordinary and self.mean is not None and not isinstance(self.mean, str)

    def _p(self) -> float:
        return 0.25 if self.p == "jeffreys" else float(self.p)

    def _check_settings(self) -> None:
        if self._transform not in TRANSFORMS:
            raise ValueError(f"transform must be one of {TRANSFORMS}, not {self._transform!r}")
        if isinstance(self.p, str) and self.p != "jeffreys":
            raise ValueError(f"p must be a number between 0 and 0.5 or 'jeffreys', not {self.p!r}")
        k, variogram = self.neighbours, self.variogram
        if k is not None and not (isinstance(k, (int, np.integer)) and k >= 1):
            raise ValueError(f"neighbours must be a whole number, at least 1, not {k!r}; None takes all sites")
        known = isinstance(variogram, (VariogramModel, VariogramSearch))
        if not known and not (isinstance(variogram, str) and variogram == "fit"):
            raise ValueError(f"variogram must be 'fit', a VariogramModel or a VariogramSearch, not {variogram!r}")
        if self.kernel is not None and isinstance(self.variogram, VariogramModel):
            raise ValueError("give a kernel or a variogram, not both")

    def _known_mean(self, sites: Sites) -> Array:
        """Class frequencies (C,) to krige about."""
        C = sites.counts.shape[1]
        if self.mean is None or (isinstance(self.mean, str) and self.mean == "frequency"):
            return sites.frequency
        if isinstance(self.mean, str):
            if self.mean != "declustered":
                raise ValueError(f"mean must be 'frequency', 'declustered' or numbers, not {self.mean!r}")
            share = sites.counts / sites.trials[:, None]
            largest = int(np.argmax(share.var(axis=0)))
            weights = cell_declustering(sites.X, share[:, largest]).weights * sites.trials
            return np.asarray(weights @ share / weights.sum())
        given = np.atleast_1d(np.asarray(self.mean, dtype=float))
        if C == 2 and given.shape == (1,):
            given = np.array([1.0 - given[0], given[0]])
        if given.shape != (C,) or not np.all(given >= 0) or not abs(given.sum() - 1.0) <= 1e-8:
            raise ValueError(f"mean must be a probability, or {C} of them that sum to one; got {self.mean}")
        return given

    def _make_systems(self) -> tuple[str, ...]:
        """One kriging system, or one per indicator if each has its own fitted variogram."""
        sites, V = self.sites_, self._values
        if self.neighbours is None:
            check_memory(len(sites.X), "set neighbours, such as neighbours=50, or take a part of the sites")
        self.variogram_: Any = None
        notes: tuple[str, ...] = ()
        if self.kernel is not None:
            kernels = [check_kernel(self.kernel, sites.X)]
        elif isinstance(self.variogram, VariogramModel):
            kernels = [check_kernel(self.variogram.kernel(), sites.X)]
        else:
            search = self.variogram if isinstance(self.variogram, VariogramSearch) else VariogramSearch()
            apart = self._transform == "classical" and V.shape[1] > 1
            columns = [V[:, [c]] for c in range(V.shape[1])] if apart else [V]
            found = [estimate_variogram(sites.X, column, search) for column in columns]
            kernels = [one.model.kernel() for one in found]
            fits = [one.fit for one in found]
            self.variogram_ = fits if apart else fits[0]
            notes = found[0].warnings
            if apart:
                each = zip(self.classes_, found, strict=True)
                notes = tuple(f"class {c}: {text}" for c, one in each for text in one.warnings)
        self.kernel_ = kernels[0] if len(kernels) == 1 else kernels
        k = None if self.neighbours is None else int(self.neighbours)
        self._systems = []
        for kernel in kernels:
            model = _matern_model(kernel)  # without one, neighbours by Euclidean distance
            lengths = None if model is None else model.length_scale
            scale = np.asarray(lengths) if isinstance(lengths, tuple) else 1.0
            methods = bool(self.exact), bool(self.ordinary), k, scale
            self._systems.append(KrigingSystem(sites.X, compile_kernel(kernel), sites.trials, *methods))
        return notes

    def _report(self, notes: tuple[str, ...], start: float) -> Report:
        """Leave-one-out scores of the fit."""
        details: dict[str, Any] = {"sites": len(self.sites_.X), "labels": float(self.sites_.counts.sum())}
        if len(self.sites_.X) > 1:
            parts = [s.leave_one_out(V, c) for s, V, c in self._columns()]
            raw = probabilities(np.hstack(parts), self._transform)
            out, proba = outside(raw), correct(raw)
            share = self.sites_.counts / self.sites_.trials[:, None]
            w = self.sites_.trials / self.sites_.trials.sum()
            loss = -xlogy(share, proba).sum(axis=1)
            # Σ over labels of (p − 1(label))², summed over the classes and halved: the binary Brier score
            brier = ((proba - share) ** 2 + share * (1.0 - share)).sum(axis=1) / 2.0
            details |= {
                "share_outside": out.share,
                "largest_excess": out.worst,
                "loo_log_loss": float(w @ loss),
                "loo_brier": float(w @ brier),
            }
        details |= self._variogram_details()
        return Report(
            method=f"indicator kriging, {self._transform}",
            jitter=max(system.jitter for system in self._systems),
            seconds=time.perf_counter() - start,
            warnings=notes,
            details=details,
        )

    def _variogram_details(self) -> dict[str, Any]:
        """Sill, nugget and range in geostatistical terms, and the variance implied by the mean."""
        model = _matern_model(self.kernel_) if len(self._systems) == 1 else None
        if model is None:
            return {}
        details: dict[str, Any] = {"sill": model.sill, "nugget": model.nugget, "smoothness": model.smoothness}
        if not isinstance(model.length_scale, tuple):
            details["practical_range"] = model.practical_range()
        if self._transform == "classical" and len(self.classes_) == 2:
            # var[y] = m(1 − m): a sill far from it contradicts the mean (R §2.2)
            details["sill_of_the_mean"] = float(self.mean_[0] * self.mean_[1])
        return details

    def _columns(self) -> list[tuple[KrigingSystem, Array, Array]]:
        """Each system with its values and means."""
        if len(self._systems) == 1:
            return [(self._systems[0], self._values, self._centre)]
        return [(s, self._values[:, [c]], self._centre[[c]]) for c, s in enumerate(self._systems)]

    def _checked(self, X: npt.ArrayLike) -> Array:
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, reset=False, dtype=np.float64))

    def _krige(self, X: npt.ArrayLike) -> Array:
        x = self._checked(X)
        return np.hstack([s.predict(x, V, c) for s, V, c in self._columns()])

    def _raw(self, X: npt.ArrayLike) -> Array:
        """Kriged probabilities before any correction, (m, C)."""
        return probabilities(self._krige(X), self._transform)

    def decision_function(self, X: npt.ArrayLike) -> Array:
        """The kriged value: p̂ − ½ or the log-odds (m,) for two classes; raw probabilities (m, C) else."""
        value = self._krige(X)
        if len(self.classes_) > 2:
            return probabilities(value, self._transform)
        return np.asarray(value[:, 0] - (0.5 if self._transform == "classical" else 0.0))

    def predict_indicator(self, X: npt.ArrayLike) -> Array:
        """Raw kriged probabilities of the second class (m,), or of all (m, C); they may be outside [0,1]."""
        raw = self._raw(X)
        return np.asarray(raw[:, 1] if len(self.classes_) == 2 else raw)

    def predict_proba(self, X: npt.ArrayLike) -> Array:
        """Class probabilities (m, C), corrected where they are outside [0,1]."""
        return self._corrected(self._raw(X))

    def _corrected(self, raw: Array) -> Array:
        """Correct raw probabilities (m, C) to [0,1], with a warning that counts them."""
        out = outside(raw)
        if out.count:
            warnings.warn(
                f"{out.count} of {out.n} kriged probabilities were outside [0,1] by up to {out.worst:.2g} and were "
                "clipped; transform='simplicial' stays inside",
                OutsideWarning,
                stacklevel=3,
            )
        return correct(raw)

    def predict_log_proba(self, X: npt.ArrayLike) -> Array:
        """Logarithms of the class probabilities; −∞ where a probability was clipped to zero."""
        if self._transform == "simplicial":
            return log_probabilities(self._krige(X))
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """The most probable class at each point."""
        score = self.decision_function(X)
        index = (score > 0).astype(np.intp) if score.ndim == 1 else np.argmax(score, axis=1)
        return np.asarray(self.classes_[index])

    def outside(self, X: npt.ArrayLike) -> Outside:
        """Number of raw probabilities outside [0,1] at these points, and their largest distance."""
        return outside(self._raw(X))

    def predict_variance(self, X: npt.ArrayLike) -> Array:
        """Kriging variance of the kriged values, (m,), or (m, C) if each class has its own variogram."""
        x = self._checked(X)
        parts = [system.variance(x) for system in self._systems]
        return parts[0] if len(parts) == 1 else np.column_stack(parts)

    def predict_uncertainty(self, X: npt.ArrayLike, level: float = 0.9) -> Uncertainty:
        """Probabilities with an interval from the kriging variance.

        The interval treats the kriged value as Gaussian: clipped to [0,1] for classical kriging, transformed by the
        logistic function for simplicial (NaN for more than two classes, where a probability is not a function of one
        kriged value). It ignores that the data are labels.
        """
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, not {level}")
        value = self._krige(X)  # (m, q)
        variance = self.predict_variance(X).reshape(len(value), -1)
        sd = np.array(np.broadcast_to(np.sqrt(variance), value.shape))
        proba = self._corrected(probabilities(value, self._transform))
        half = ndtri(0.5 + level / 2.0) * sd
        if self._transform == "classical":
            low, high = np.clip(value - half, 0.0, 1.0), np.clip(value + half, 0.0, 1.0)
        elif value.shape[1] == 1:
            low, high = expit(value - half), expit(value + half)
        else:
            low = high = np.full(proba.shape, np.nan)
        if value.shape[1] == 1:  # the value belongs to the second class
            low, high = np.hstack([1.0 - high, low]), np.hstack([1.0 - low, high])
        return Uncertainty(proba, np.full(proba.shape, np.nan), low, high, latent_mean=value, latent_sd=sd)

    def kriging_weights(self, X: npt.ArrayLike) -> Array:
        """Weights of the sites ``sites_.X`` at new points, (m, n); with one variogram per class, (C, m, n)."""
        x = self._checked(X)
        parts = [system.weights(x) for system in self._systems]
        return parts[0] if len(parts) == 1 else np.stack(parts)


def _matern_model(kernel: Any) -> VariogramModel | None:
    """The variogram of a kernel; None if it is not a single Matérn structure."""
    try:
        return VariogramModel.from_kernel(kernel)
    except ValueError:
        return None
