"""Comparison of methods by repeated cross-validation.

Every method is fitted to the same folds. Scores use the out-of-fold probabilities, averaged over the repeats.
Their standard errors come from the fold means, sd/√(folds of one repeat): more repeats reduce the noise of the
mean but add no data. The distance from the reference is that of :mod:`gpclass.compare.agreement`.

Cost: (folds × repeats + 2) fits per method. Fails when: the data are invalid. The error of a failing method is
recorded and the other methods continue. Seconds are wall-clock; with ``n_jobs`` > 1 the fits share the machine.
Up to 1000 rows each fit uses one thread of the linear algebra library: more threads are slower there, and much
slower on a busy machine.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedGroupKFold

from gpclass import metrics
from gpclass._typing import Array, IntArray
from gpclass.compare.advice import advise, base_rate_log_loss
from gpclass.compare.agreement import add_agreement, number
from gpclass.compare.presets import default_methods
from gpclass.compare.result import LEFT_OUT, Comparison, MethodResult
from gpclass.estimators.pipelines import final_step, names_seen
from gpclass.estimators.planner import class_subset
from gpclass.estimators.readable import parameter_names, sampled_parameters
from gpclass.names import feature_names as names_of
from gpclass.numerics.threads import few_threads
from gpclass.progress import progress

REFERENCES = ("exact", "ep")  # in order of preference
PARTS = (1 / 64, 1 / 16, 1 / 4)  # of the rows, whose fits show how long one to all would take
FEWEST = 100  # rows of a part, below which a fit to all rows takes seconds


@dataclass(frozen=True)
class Trial:
    """One fit of one method, and its predictions."""

    error: str | None = None
    proba: Array | None = None  # (m, C)
    seconds_fit: float = 0.0
    seconds_predict: float = 0.0
    converged: bool = True
    reason: str = ""
    warnings: tuple[str, ...] = ()
    estimator: Any = None


def compare(
    X: Any,
    y: Any,
    methods: Mapping[str, Any] | Iterable[str] | None = None,
    *,
    cv: Any = 5,
    repeats: int = 1,
    reference: str | None = "auto",
    groups: Any = None,
    kernel: Any = None,
    standardize: bool = True,
    feature_names: Sequence[str] | None = None,
    max_seconds: float | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Comparison:
    """Compare methods on one data set.

    Parameters
    ----------
    X : array or data frame of shape (n, d)
    y : array-like of shape (n,)
        Labels; two classes or more.
    methods : mapping of name to estimator, iterable of names, or None
        Any scikit-learn classifiers with ``predict_proba``, used unchanged; or names of inferences; None:
        every inference in the registry.
    cv : int or scikit-learn splitter
        Folds, stratified by label; or a splitter such as ``gpclass.geostat.SpatialBlocks(5)`` that tests every row
        equally often. It is asked once, so that all methods see the same folds.
    repeats : int
        Number of times the folds are drawn, if cv is a number.
    reference : str or None
        The method that |Δp| is computed against. "auto": "exact" if present, else "ep", else none.
    groups : array-like of shape (n,), optional
        Blocks that must not be split between folds (places, patients, time slices).
    kernel, standardize
        For ``methods`` given by name: the initial kernel, and whether features are standardised.
    feature_names : sequence of str, optional
        Names of the features; the frame's columns by default.
    max_seconds : float, optional
        Skip a method (but not a reference that is named) if all its fits would take longer: judged from fits to
        growing parts of the rows, then from the first fold.
    random_state : int
        Seed for the folds, and for estimators whose ``random_state`` is None.
    n_jobs : int, optional
        Number of parallel fits, as in joblib. It affects only the seconds.
    verbose : int
        1: a progress bar.

    Returns
    -------
    Comparison
    """
    y = np.asarray(y)
    own = hasattr(cv, "split")
    classes, index = _check(X, y, 2 if own else cv, repeats)
    names = tuple(names_of(feature_names, X, np.shape(X)[1]))
    if not isinstance(methods, Mapping):
        methods = default_methods(methods, kernel=kernel, standardize=standardize)
    if not methods:
        raise ValueError("methods is empty: name at least one")
    if reference not in ("auto", None, *methods):
        raise ValueError(f"reference={reference!r} is not among the methods {list(methods)}")
    estimators = {name: _seeded(estimator, random_state) for name, estimator in methods.items()}
    folds = list(cv.split(X, y, groups)) if own else _folds(len(y), index, groups, cv, repeats, random_state)
    splitter = type(cv).__name__ if own else ""
    if own:
        cv, repeats = _of_splitter(splitter, folds, len(y))
    rows = Rows(X, y, classes, names, folds, cv, repeats, random_state)
    results: dict[str, MethodResult] = {}
    with progress(len(methods) * (len(folds) + 1), "compare", verbose=verbose) as bar:
        for name, estimator in estimators.items():
            limit = None if name == reference else max_seconds
            trials = rows.trials(estimator, n_jobs, limit, partial(bar.update, method=name))
            results[name] = rows.summary(name, trials)
    if reference == "auto":
        reference = next((name for name in REFERENCES if name in results and results[name].error is None), None)
    if reference is not None and results[reference].error is None:
        with few_threads(len(y)):
            results = add_agreement(results, reference, X, y)
    advice, recommended = advise(list(results.values()), reference, base_rate_log_loss(index))
    blocked = groups is not None
    return Comparison(X, y, classes, names, results, reference, cv, repeats, blocked, advice, recommended, splitter)


def _check(X: Any, y: Any, cv: int, repeats: int) -> tuple[Any, IntArray]:
    """Classes and class indices, after checking that the data can be split."""
    if np.ndim(X) != 2 or y.ndim != 1 or len(X) != len(y):
        raise ValueError(f"X must have shape (n, d) and y (n,), not {np.shape(X)} and {np.shape(y)}")
    if cv < 2 or repeats < 1:
        raise ValueError(f"cv must be at least 2 and repeats at least 1, not {cv} and {repeats}")
    classes, index, count = np.unique(y, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        raise ValueError(f"y holds only one class ({classes.tolist()}): a comparison needs at least two")
    if count.min() < cv:
        rare = classes.tolist()[count.argmin()]
        raise ValueError(f"class {rare!r} has {count.min()} points, fewer than cv={cv} folds: use a smaller cv")
    return classes, index.astype(np.intp)


def _seeded(estimator: Any, seed: int) -> Any:
    """A copy in which every ``random_state`` of None is replaced by the seed."""
    copy = clone(estimator)
    free = [k for k, v in copy.get_params().items() if k.split("__")[-1] == "random_state" and v is None]
    return copy.set_params(**dict.fromkeys(free, seed))


def _folds(n: int, index: IntArray, groups: Any, cv: int, repeats: int, seed: int) -> list[tuple[IntArray, IntArray]]:
    """Training and test rows of all folds, repeat by repeat."""
    blank = np.zeros((n, 1))
    if groups is None:
        splitter = RepeatedStratifiedKFold(n_splits=cv, n_repeats=repeats, random_state=seed)
        return list(splitter.split(blank, index))
    groups = np.asarray(groups)
    if len(groups) != n:
        raise ValueError(f"groups has {len(groups)} entries for {n} points")
    if len(np.unique(groups)) < cv:
        raise ValueError(f"{len(np.unique(groups))} groups are too few for cv={cv} folds: use a smaller cv")
    found: list[tuple[IntArray, IntArray]] = []
    for r in range(repeats):
        grouped = StratifiedGroupKFold(n_splits=cv, shuffle=True, random_state=seed + r)
        found += list(grouped.split(blank, index, groups))
    return found


def _of_splitter(splitter: str, folds: Sequence[tuple[IntArray, IntArray]], n: int) -> tuple[int, int]:
    """Folds of one repeat, and repeats, of a splitter's folds."""
    times = np.bincount(np.concatenate([test for _, test in folds]), minlength=n)
    if times.min() != times.max() or len(folds) // times.max() < 2:
        raise ValueError(
            f"{splitter} tests rows {times.min()} to {times.max()} times in {len(folds)} folds; methods "
            "are compared on all rows, so every row must be tested equally often, in two folds or more: use KFold, "
            "GroupKFold, SpatialBlocks or a number"
        )
    return len(folds) // int(times.max()), int(times.max())


def take_rows(X: Any, rows: IntArray) -> Any:
    """Rows of an array, or of a pandas or polars frame."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


@dataclass(frozen=True, eq=False)
class Rows:
    """The data, and the folds that every method is fitted to."""

    X: Any
    y: Any
    classes: Any
    feature_names: tuple[str, ...]
    folds: Sequence[tuple[IntArray, IntArray]]
    cv: int
    repeats: int
    seed: int

    def trials(
        self, estimator: Any, n_jobs: int | None, max_seconds: float | None, tell: Callable[..., None]
    ) -> list[Trial]:
        """One trial per fold, then one on all rows; one alone if it fails, or shows that all would take too long."""
        everything = np.arange(len(self.y))
        splits = [*self.folds, (everything, everything[:0])]
        limit = np.inf if max_seconds is None else max_seconds / len(splits)
        expected = 0.0 if max_seconds is None else self.seconds_of_a_fit(estimator, splits[0][0], limit)
        first = Trial() if expected > limit else self.trial(estimator, *splits[0])
        tell()
        needed = max(expected if expected > limit else 0.0, first.seconds_fit + first.seconds_predict)
        if first.error is None and needed > limit:
            needed *= len(splits)
            text = f"{LEFT_OUT}: it would need about {needed:#.3g} s, more than max_seconds={max_seconds:g}"
            first = Trial(error=text)
        if first.error is not None:
            tell(len(splits) - 1)
            return [first]
        found = [first]
        work = (delayed(self.trial)(estimator, *split) for split in splits[1:])
        for trial in Parallel(n_jobs=n_jobs, return_as="generator")(work):
            found.append(trial)
            tell()
        return found

    def seconds_of_a_fit(self, estimator: Any, train: IntArray, enough: float) -> float:
        """Expected seconds of a fit to ``train``, from fits to parts of it; at least linear in the rows.

        It ends with a part whose fit, or the growth from the last part to it, shows that ``enough`` is exceeded.
        """
        n, expected, before = len(train), 0.0, None
        for share in PARTS:
            size = round(share * n)
            if size < FEWEST or expected > enough:
                continue
            part = self.trial(estimator, train[class_subset(self.y[train], size)], train[:0])
            if part.error is not None:
                continue
            power = 1.0
            if before is not None:
                power = float(np.clip(np.log(part.seconds_fit / before[1]) / np.log(size / before[0]), 1.0, 3.0))
            expected, before = part.seconds_fit * (n / size) ** power, (size, part.seconds_fit)
        return expected

    def trial(self, estimator: Any, train: IntArray, test: IntArray) -> Trial:
        """Fit on ``train``, predict ``test``; errors and warnings become part of the result."""
        with few_threads(len(train)), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                began = time.perf_counter()
                fitted = clone(estimator).fit(take_rows(self.X, train), self.y[train])
                fit_done = time.perf_counter()
                proba = np.zeros((len(test), len(self.classes)))
                if len(test):
                    # A class missing from the training rows gets probability 0.
                    columns = np.searchsorted(self.classes, fitted.classes_)
                    proba[:, columns] = fitted.predict_proba(take_rows(self.X, test))
                done = time.perf_counter()
            except Exception as error:  # a failing method must not stop the others
                return Trial(error=f"{type(error).__name__}: {error}")
        report = getattr(final_step(fitted), "fit_report_", None)
        said = not any("ConvergenceWarning" in w.category.__name__ for w in caught)
        return Trial(
            proba=proba,
            seconds_fit=fit_done - began,
            seconds_predict=done - fit_done,
            converged=bool(getattr(report, "converged", said)),
            reason=str(getattr(report, "reason", "")),
            warnings=tuple(dict.fromkeys(str(w.message) for w in caught)),
            estimator=None if len(test) else fitted,  # that of all rows
        )

    def summary(self, name: str, trials: Sequence[Trial]) -> MethodResult:
        """The result of a method from its trials."""
        failed = next((t.error for t in trials if t.error is not None), None)
        texts = tuple(dict.fromkeys(text for t in trials for text in t.warnings))
        if failed is not None:
            return MethodResult(name, error=failed, warnings=texts, converged=False)
        *in_folds, whole = trials
        y, classes = self.y, self.classes
        proba = np.zeros((self.repeats, len(y), len(classes)))
        point_loss = np.zeros(len(y))
        per_fold: dict[str, list[float]] = {"accuracy": [], "log_loss": [], "brier": []}
        seen = np.zeros(len(y), dtype=np.intp)  # how often each row was tested
        for trial, (_, test) in zip(in_folds, self.folds, strict=True):
            p = np.asarray(trial.proba)
            forecast = metrics.check_forecast(y[test], p, classes)
            proba[seen[test], test] = p
            seen[test] += 1
            loss = metrics.pointwise_log_loss(forecast)
            point_loss[test] += loss / self.repeats
            per_fold["log_loss"].append(float(loss.mean()))
            per_fold["brier"].append(float(metrics.pointwise_brier(forecast).mean()))
            per_fold["accuracy"].append(metrics.accuracy(y[test], p, classes))
        arrays = {key: np.array(values) for key, values in per_fold.items()}
        final = final_step(whole.estimator)
        parameters, intervals = _parameters(final, names_seen(whole.estimator, self.feature_names))
        return MethodResult(
            name=name,
            proba=proba.mean(axis=0),
            scores=_mean_scores([metrics.scores(y, p, classes, random_state=self.seed) for p in proba]),
            fold_scores=arrays,
            standard_error={key: float(v.std(ddof=1) / np.sqrt(self.cv)) for key, v in arrays.items()},
            point_log_loss=point_loss,
            seconds_fit=float(np.mean([t.seconds_fit for t in in_folds])),
            seconds_predict=float(np.mean([t.seconds_predict for t in in_folds])),
            estimator=whole.estimator,
            log_evidence=number(final, "log_evidence_", "log_marginal_likelihood_value_"),
            log_evidence_error=number(final, "log_evidence_error_"),
            evidence_kind=getattr(final, "evidence_kind_", None),
            converged=all(t.converged for t in trials),
            reasons=tuple(dict.fromkeys(t.reason for t in trials if t.reason)),
            warnings=texts,
            parameters=parameters,
            intervals=intervals,
        )


def _mean_scores(each: Sequence[metrics.Scores]) -> metrics.Scores:
    """Averages over the repeats; counts are rounded."""
    mean = {key: float(np.mean([s.as_dict()[key] for s in each])) for key in each[0].as_dict()}
    n, clipped = round(mean.pop("n")), round(mean.pop("n_clipped"))
    return metrics.Scores(n=n, n_clipped=clipped, **mean)


def _parameters(
    estimator: Any, features: Sequence[str]
) -> tuple[tuple[tuple[str, float], ...], dict[str, tuple[float, float]]]:
    """Kernel parameters by name; if they were sampled, the posterior median and 90 % intervals."""
    kernel: Any = getattr(estimator, "kernel_", None)
    if not hasattr(kernel, "theta"):
        return (), {}
    names, values = parameter_names(kernel, features), np.exp(kernel.theta)
    draws = sampled_parameters(estimator)
    if draws is None:
        return tuple(zip(names, values.tolist(), strict=True)), {}
    low, middle, high = np.quantile(draws, [0.05, 0.5, 0.95], axis=0).tolist()
    return tuple(zip(names, middle, strict=True)), dict(zip(names, zip(low, high, strict=True), strict=True))
