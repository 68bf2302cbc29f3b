"""Scores of probabilities, for two or more classes.

With p_i(c) the predicted probability of class c at point i and o_i(c) = 1(y_i = c):

- log loss: −mean log max(p_i(y_i), ε), ε = 1e-15, so that it is finite; the number of clipped points is reported.
- Brier score: mean Σ_c (p_i(c) − o_i(c))²; for two classes half of it, i.e. mean (p_i − o_i)². Binned by p
  into K bins (Murphy 1973; within-bin terms after Stephenson, Coelho & Jolliffe 2008):
  Brier = reliability − resolution + uncertainty + within, an identity.
- ECE: Σ_k n_k/n |p̄_k − ō_k|, of p(second class) for two classes, of the top label's confidence for more.
  It is positive even for perfect forecasts, so the expected value for perfect forecasts is given with it.

Cost: O(n C) and, for the intervals, O(n B) with B resamples. Fails when: labels are not in ``classes``, or rows
do not sum to one. AUC is NaN if a class is absent.

References: Murphy (1973), J. Appl. Meteorol. 12, 595; Stephenson et al. (2008), Weather Forecast. 23, 752;
Bröcker & Smith (2007), Weather Forecast. 22, 651 (consistency bars); Guo et al. (2017), ICML.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import stats
from sklearn.utils import gen_batches

from gpclass._typing import Array, IntArray
from gpclass.names import class_index

LOG_LOSS_CLIP = 1e-15
_CHUNK = 2_000_000  # numbers held at once while resampling


@dataclass(frozen=True)
class Decomposition:
    """Decomposed Brier score: brier = reliability − resolution + uncertainty + within, exactly."""

    brier: float
    reliability: float  # distance of frequencies from predicted probabilities: lower is better
    resolution: float  # variation of frequencies between bins: higher is better
    uncertainty: float  # of the labels themselves
    within: float  # within-bin variance of p minus twice its covariance with o


@dataclass(frozen=True)
class CalibrationError:
    """Expected calibration error with its bootstrap interval and its level for perfect forecasts."""

    value: float
    lower: float
    upper: float
    perfect_mean: float  # mean of the same statistic for labels drawn from the probabilities
    perfect_upper: float  # its upper ``level`` quantile; a value above it shows miscalibration


@dataclass(frozen=True)
class ReliabilityCurve:
    """Frequencies against probabilities in the non-empty bins."""

    predicted: Array  # (K,) mean probability in the bin
    observed: Array  # (K,) frequency of the event
    count: IntArray  # (K,)
    lower: Array  # (K,) band, see ``band``
    upper: Array  # (K,)
    band: str  # "consistency": expected range of ``observed``; "confidence": interval about it
    level: float
    event: str  # the event of the probability


@dataclass(frozen=True)
class Scores:
    """All scores of one set of probabilities."""

    n: int
    accuracy: float
    log_loss: float
    brier: float
    reliability: float
    resolution: float
    uncertainty: float
    within: float
    ece: float
    ece_lower: float
    ece_upper: float
    ece_perfect: float
    auc: float
    n_clipped: int  # points whose log loss was clipped

    def as_dict(self) -> dict[str, float]:
        """Score values by name."""
        return asdict(self)


@dataclass(frozen=True)
class Forecast:
    """Labels and probabilities, checked: ``index[i]`` is the column of point i's label."""

    proba: Array  # (n, C)
    index: IntArray  # (n,)
    classes: Any  # (C,)

    @property
    def hits(self) -> Array:
        """One where the label is the column's class, (n, C)."""
        return np.eye(self.proba.shape[1])[self.index]

    @property
    def given(self) -> Array:
        """Probability of each point's label, (n,)."""
        return np.asarray(self.proba[np.arange(len(self.index)), self.index])


def check_forecast(y: Any, proba: Any, classes: Any = None) -> Forecast:
    """Check labels against probabilities, for all scores of this module.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels.
    proba : array-like of shape (n, C), or (n,) for the second of two classes
        Probabilities.
    classes : array-like of shape (C,), optional
        The label of each column; the sorted labels of ``y`` by default.
    """
    y = np.asarray(y)
    p = np.asarray(proba, dtype=float)
    if y.ndim != 1 or len(y) == 0:
        raise ValueError(f"y must be a non-empty vector of labels; its shape is {y.shape}")
    if p.ndim == 1:
        p = np.column_stack([1.0 - p, p])
    if p.ndim != 2 or len(p) != len(y):
        raise ValueError(f"proba has shape {p.shape} for {len(y)} labels: give one row per label")
    if not np.all(np.isfinite(p)) or p.min() < -1e-9 or p.max() > 1.0 + 1e-9:
        raise ValueError("proba must hold finite numbers in [0, 1]; pass predict_proba's output")
    if np.max(np.abs(p.sum(axis=1) - 1.0)) > 1e-6:
        raise ValueError("rows of proba must sum to one; divide each by its sum first")
    given = classes is not None
    classes = np.asarray(classes) if given else np.unique(y)
    if not given and p.shape[1] == 2 and set(classes.tolist()) <= {0, 1}:
        classes = np.array([0, 1])
    if not given and len(classes) < p.shape[1]:
        raise ValueError(
            f"y holds {len(classes)} classes and proba {p.shape[1]} columns: pass classes=, "
            "the label of each column (clf.classes_)"
        )
    if len(classes) != p.shape[1]:
        raise ValueError(f"{len(classes)} classes for {p.shape[1]} columns of probabilities")
    order = np.argsort(classes)
    place = np.clip(np.searchsorted(classes[order], y), 0, len(classes) - 1)
    index = order[place]
    if not np.all(classes[index] == y):
        unknown = np.unique(y[classes[index] != y])[:3].tolist()
        raise ValueError(f"y holds labels that are not among the classes: {unknown}")
    return Forecast(np.clip(p, 0.0, 1.0), index.astype(np.intp), classes)


def accuracy(y: Any, proba: Any, classes: Any = None) -> float:
    """Fraction of points whose label has the largest probability (the first of ties)."""
    f = check_forecast(y, proba, classes)
    return float(np.mean(f.proba.argmax(axis=1) == f.index))


def log_loss(y: Any, proba: Any, classes: Any = None) -> float:
    """−mean log p(label), with p at least 1e-15 so that the score is finite."""
    return float(np.mean(pointwise_log_loss(check_forecast(y, proba, classes))))


def pointwise_log_loss(f: Forecast) -> Array:
    """−log p(label) of each point, clipped as in :func:`log_loss`, (n,)."""
    return -np.log(np.maximum(f.given, LOG_LOSS_CLIP))


def pointwise_brier(f: Forecast) -> Array:
    """Contribution of each point to the Brier score, (n,)."""
    return np.asarray(_brier_scale(f) * np.sum((f.proba - f.hits) ** 2, axis=1))


def _brier_scale(f: Forecast) -> float:
    return 0.5 if f.proba.shape[1] == 2 else 1.0


def brier_score(y: Any, proba: Any, classes: Any = None) -> float:
    """Mean squared error of the probabilities: mean (p − o)² for two classes, Σ_c of it for more."""
    return float(np.mean(pointwise_brier(check_forecast(y, proba, classes))))


def brier_decomposition(y: Any, proba: Any, classes: Any = None, *, bins: int = 10) -> Decomposition:
    """Murphy's decomposition of the Brier score over ``bins`` bins of equal count, class by class."""
    f = check_forecast(y, proba, classes)
    parts = np.zeros(3)
    for p, o in zip(f.proba.T, f.hits.T, strict=True):
        predicted, observed, count = _bin_means(p, o, _bin_index(p, bins, "quantile"))
        share, base = count / len(p), o.mean()
        parts += share @ (predicted - observed) ** 2, share @ (observed - base) ** 2, base * (1.0 - base)
    reliability, resolution, uncertainty = map(float, _brier_scale(f) * parts)
    brier = float(np.mean(pointwise_brier(f)))
    within = brier - (reliability - resolution + uncertainty)
    return Decomposition(brier, reliability, resolution, uncertainty, within)


def calibration_error(
    y: Any,
    proba: Any,
    classes: Any = None,
    *,
    bins: int = 10,
    n_bootstrap: int = 500,
    level: float = 0.95,
    random_state: int | np.random.Generator | None = 0,
) -> CalibrationError:
    """Expected calibration error over bins of equal count.

    The interval is the bootstrap's (points resampled, bins fixed), corrected by the bootstrap's estimate of its
    bias: resampling adds noise to |p̄ − ō|, which would shift both ends upwards.
    """
    _check_level(level)
    f = check_forecast(y, proba, classes)
    p, o, _ = event_of(f)
    rng = np.random.default_rng(random_state)
    n, bin_of = len(p), _bin_index(p, bins, "quantile")
    member = np.eye(int(bin_of.max()) + 1)[bin_of]  # (n, K)
    value = float(np.abs((p - o) @ member).sum() / n)
    draws, perfect = [], []
    for rows in gen_batches(n_bootstrap, max(1, _CHUNK // n)):
        size = rows.stop - rows.start
        weights = rng.multinomial(n, np.full(n, 1.0 / n), size=size)  # (size, n)
        draws.append(np.abs((weights * (p - o)) @ member).sum(axis=1) / n)
        labels = rng.random((size, n)) < p
        perfect.append(np.abs((p - labels) @ member).sum(axis=1) / n)
    boot, null = np.concatenate(draws), np.concatenate(perfect)
    tail = 50.0 * (1.0 - level)
    low, high = np.percentile(boot, [tail, 100.0 - tail]) - (boot.mean() - value)
    return CalibrationError(
        value=value,
        lower=float(max(low, 0.0)),
        upper=float(min(high, 1.0)),
        perfect_mean=float(null.mean()),
        perfect_upper=float(np.quantile(null, level)),
    )


def auc(y: Any, proba: Any, classes: Any = None) -> float:
    """Area under the ROC curve; for more than two classes the mean of one against the rest.

    NaN if a class is absent from ``y``: the area is then undefined.
    """
    from sklearn.metrics import roc_auc_score

    f = check_forecast(y, proba, classes)
    hits = f.hits
    if np.any(hits.sum(axis=0) == 0):
        return float("nan")
    return float(np.mean([roc_auc_score(o, p) for o, p in zip(hits.T, f.proba.T, strict=True)]))


def event_of(f: Forecast, label: Any = None) -> tuple[Array, Array, str]:
    """Probability (n,), outcome (n,) and name of the event whose calibration is assessed.

    ``label=None``: the second of two classes; for more, "the class of largest probability is right".
    """
    if label is None and len(f.classes) > 2:
        top = f.proba.argmax(axis=1)
        return f.proba[np.arange(len(top)), top], (top == f.index).astype(float), "the top class is right"
    c = class_index(label, f.classes, 1)
    return f.proba[:, c], f.hits[:, c], f"class {f.classes[c]}"


def reliability_curve(
    y: Any,
    proba: Any,
    classes: Any = None,
    *,
    label: Any = None,
    bins: int = 10,
    strategy: str = "quantile",
    band: str = "consistency",
    level: float = 0.9,
) -> ReliabilityCurve:
    """Observed frequency against probability, with a band.

    Parameters
    ----------
    y, proba, classes
        As in :func:`check_forecast`.
    label : optional
        The class whose probability is assessed; see :func:`event_of` for the default.
    bins : int
        Number of bins; empty ones are omitted.
    strategy : {"quantile", "uniform"}
        Bins of equal count, or of equal width.
    band : {"consistency", "confidence"}
        "consistency": quantiles of Binomial(n_k, p̄_k)/n_k, the range of frequencies of perfect forecasts
        (Bröcker & Smith; slightly wide, as p varies in a bin). "confidence": Jeffreys' interval of the
        frequency.
    level : float
        Probability of the band in each bin.
    """
    _check_level(level)
    f = check_forecast(y, proba, classes)
    p, o, event = event_of(f, label)
    predicted, observed, count = _bin_means(p, o, _bin_index(p, bins, strategy))
    tail = 0.5 * (1.0 - level)
    if band == "consistency":
        lower = stats.binom.ppf(tail, count, predicted) / count
        upper = stats.binom.ppf(1.0 - tail, count, predicted) / count
    elif band == "confidence":
        k = np.round(observed * count)
        # Jeffreys' interval is extended to 0 at k = 0 and to 1 at k = n.
        lower = np.where(k > 0, stats.beta.ppf(tail, k + 0.5, count - k + 0.5), 0.0)
        upper = np.where(k < count, stats.beta.ppf(1.0 - tail, k + 0.5, count - k + 0.5), 1.0)
    else:
        raise ValueError(f"band must be 'consistency' or 'confidence', not {band!r}")
    return ReliabilityCurve(predicted, observed, count, lower, upper, band, level, event)


def scores(
    y: Any,
    proba: Any,
    classes: Any = None,
    *,
    bins: int = 10,
    n_bootstrap: int = 500,
    random_state: int | np.random.Generator | None = 0,
) -> Scores:
    """All scores of this module.

    Examples
    --------
    >>> s = scores([0, 1, 1, 0], [0.1, 0.8, 0.7, 0.4])
    >>> round(s.brier, 3), s.accuracy, s.auc
    (0.075, 1.0, 1.0)
    """
    f = check_forecast(y, proba, classes)
    ece = calibration_error(y, proba, classes, bins=bins, n_bootstrap=n_bootstrap, random_state=random_state)
    return Scores(
        n=len(f.index),
        accuracy=accuracy(y, proba, classes),
        log_loss=log_loss(y, proba, classes),
        **asdict(brier_decomposition(y, proba, classes, bins=bins)),
        ece=ece.value,
        ece_lower=ece.lower,
        ece_upper=ece.upper,
        ece_perfect=ece.perfect_mean,
        auc=auc(y, proba, classes),
        n_clipped=int(np.sum(f.given < LOG_LOSS_CLIP)),
    )


def _check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, not {level}")


def _bin_index(p: Array, bins: int, strategy: str) -> IntArray:
    """Bin of each probability, numbered without gaps, (n,). Equal probabilities share a bin."""
    if bins < 1:
        raise ValueError(f"bins must be at least 1, not {bins}")
    if strategy == "uniform":
        edges = np.linspace(0.0, 1.0, bins + 1)[1:-1]
    elif strategy == "quantile":
        edges = np.unique(np.quantile(p, np.linspace(0.0, 1.0, bins + 1)[1:-1]))
    else:
        raise ValueError(f"strategy must be 'quantile' or 'uniform', not {strategy!r}")
    raw = np.searchsorted(edges, p, side="right")
    return np.unique(raw, return_inverse=True)[1].astype(np.intp)


def _bin_means(p: Array, o: Array, bin_of: IntArray) -> tuple[Array, Array, IntArray]:
    """Mean probability, mean outcome and count of each bin, (K,) each."""
    count = np.bincount(bin_of)
    return np.bincount(bin_of, p) / count, np.bincount(bin_of, o) / count, count
