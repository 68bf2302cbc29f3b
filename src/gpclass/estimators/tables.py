"""Classifiers for data frames: columns of numbers and words in, class probabilities out.

Numbers are standardised, (x − mean)/sd; words and truth values become one column per category, 1 or 0. The
mapping is learned in ``fit``, saved with the model, and applied unchanged to new rows: an absent column, an unseen
category or a missing value is an error that names it and its count.

Cost: O(rows × columns). Fails when: a column has more than ``MAX_CATEGORIES`` categories (an identifier).
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from gpclass._typing import Array
from gpclass.estimators.mixins import Deciding, Savable
from gpclass.estimators.wrapping import Wrapping, where_inner_has
from gpclass.names import did_you_mean

if TYPE_CHECKING:
    from gpclass.estimators.planner import Plan

MAX_CATEGORIES = 50
MAX_CODES = 20  # distinct numbers that may still be names of categories


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers, entered as (x − centre)/scale."""

    name: str
    centre: float
    scale: float
    median: float  # position of the column on a map

    def encode(self, column: Any) -> Array:
        """The standardised column, (m, 1)."""
        try:
            values = column.astype(float).to_numpy()
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"column {self.name!r} held numbers when the model was fitted; now it does not: {error}"
            ) from error
        if not np.all(np.isfinite(values)):
            raise ValueError(f"column {self.name!r} holds {np.sum(~np.isfinite(values))} infinite values")
        return np.asarray((values - self.centre) / self.scale)[:, None]

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return (self.name,)


@dataclass(frozen=True)
class CategoryColumn:
    """A column of words, entered as one column of 0 and 1 per category."""

    name: str
    categories: tuple[str, ...]
    most_common: str

    def encode(self, column: Any) -> Array:
        """Indicators, (m, number of categories)."""
        words = column.astype(str).to_numpy()
        strange = sorted(set(words) - set(self.categories))
        if strange:
            raise ValueError(
                f"column {self.name!r} holds {len(strange)} categories that the model has not seen: {_some(strange)}; "
                f"it knows {', '.join(map(repr, self.categories))}"
            )
        return np.column_stack([(words == category).astype(float) for category in self.categories])

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return tuple(f"{self.name}={category}" for category in self.categories)


@dataclass(frozen=True)
class Encoding:
    """The mapping from a frame to a matrix."""

    columns: tuple[NumberColumn | CategoryColumn, ...]

    @classmethod
    def learn(cls, frame: Any, *, standardize: bool = True) -> Encoding:
        """The encoding of a frame without missing values."""
        if 0 in frame.shape:
            raise ValueError(f"the data have no {'feature columns' if frame.shape[1] == 0 else 'rows'}")
        check_missing(frame, list(frame.columns))
        columns = [ColumnSummary(str(name)) for name in frame.columns]
        for column, (_, values) in zip(columns, frame.items(), strict=True):
            column.add(values, len(frame), whole=True)
        return cls(tuple(column.result(standardize) for column in columns))

    @property
    def names(self) -> tuple[str, ...]:
        """Columns that a frame must have."""
        return tuple(column.name for column in self.columns)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Columns of the matrix."""
        return tuple(name for column in self.columns for name in column.outputs)

    def encode(self, frame: Any) -> Array:
        """The matrix (m, D) of a frame; further columns of the frame are ignored."""
        missing = [name for name in self.names if name not in frame.columns]
        if missing:
            listed = ", ".join(map(repr, missing))
            raise ValueError(
                f"the data lack the columns {listed}{did_you_mean(missing[0], frame.columns)} Name them as in the data "
                "that the model was fitted to"
            )
        check_missing(frame, list(self.names))
        return np.hstack([column.encode(frame[column.name]) for column in self.columns])


@dataclass
class ColumnSummary:
    """Statistics of a column over the rows seen so far, by Chan's update, which is numerically stable.

    Reference: Chan, Golub & LeVeque (1983), Algorithms for computing the sample variance.
    """

    name: str
    count: int = 0
    mean: float = 0.0
    square: float = 0.0  # Σ (x − mean)²
    some: list[Array] = field(default_factory=list)
    words: Counter[str] = field(default_factory=Counter)

    def add(self, column: Any, keep: int, *, whole: bool = False) -> None:
        """Add rows, about ``keep`` of them to the median; ``whole`` if they are all rows."""
        from pandas.api import types

        if types.is_datetime64_any_dtype(column) or types.is_timedelta64_dtype(column):
            raise ValueError(
                f"column {self.name!r} holds dates: make numbers of them, such as days since a start, first"
            )
        if len(column) == 0:
            return
        number = types.is_numeric_dtype(column) and not types.is_bool_dtype(column)
        if self.words if number else self.count:
            raise ValueError(f"column {self.name!r} holds numbers in one file and text in another")
        if number:
            self._add_numbers(column.to_numpy(dtype=float), keep)
            return
        words = column.astype(str)
        if whole:
            _check_mostly_words(self.name, words)
        self.words.update(words.value_counts().to_dict())
        if len(self.words) > MAX_CATEGORIES:
            raise ValueError(
                f"column {self.name!r} has {len(self.words)} different words in {self.words.total()} rows, more than "
                f"{MAX_CATEGORIES}: an identifier? Exclude it (--exclude {self.name}, or of a folder "
                f"ParquetFolder(path, exclude=[{self.name!r}])), or group its categories"
            )

    def _add_numbers(self, x: Array, keep: int) -> None:
        if not np.isfinite(x).all():
            many = int(np.sum(~np.isfinite(x)))
            raise ValueError(f"column {self.name!r} holds infinite values, {many} of {len(x)}: correct or exclude them")
        k, total = len(x), self.count + len(x)
        gap = float(x.mean()) - self.mean
        self.square += float(np.sum((x - x.mean()) ** 2)) + gap * gap * self.count * k / total
        self.mean += gap * k / total
        self.count = total
        self.some.append(x[:: max(1, -(-k // max(keep, 1)))])

    def result(self, standardize: bool) -> NumberColumn | CategoryColumn:
        """The column's encoding."""
        if self.words:
            return CategoryColumn(self.name, tuple(sorted(self.words)), self.words.most_common(1)[0][0])
        spread = float(np.sqrt(self.square / self.count))
        centre, scale = (self.mean, spread) if standardize and spread > 0 else (0.0, 1.0)
        return NumberColumn(self.name, centre, scale, float(np.median(np.concatenate(self.some))))


def _check_mostly_words(name: str, words: Any) -> None:
    """Reject a column of numbers in which a few words would make it categorical."""
    import pandas as pd

    number = pd.to_numeric(words, errors="coerce").notna().to_numpy()
    if 0.5 * len(words) < number.sum() < len(words) and words[number].nunique() > MAX_CODES:
        strange = list(dict.fromkeys(words[~number]))
        raise ValueError(
            f"column {name!r} holds numbers, but {int(np.sum(~number))} of its {len(words)} values are words "
            f"({_some(strange)}): correct them, or leave their cells empty"
        )


def _some(words: Sequence[str]) -> str:
    return ", ".join(map(repr, words[:5])) + (", ..." if len(words) > 5 else "")


def check_missing(frame: Any, names: Sequence[Any], cure: str = "--drop-missing, or frame.dropna()") -> None:
    """Reject missing values, with their number in each column; ``cure`` explains how to exclude their rows."""
    count = {name: int(frame[name].isna().sum()) for name in names}
    found = {name: k for name, k in count.items() if k}
    if found:
        rows = int(frame[list(found)].isna().any(axis=1).sum())
        each = ", ".join(f"{name} {k}" for name, k in found.items())
        total = sum(found.values())
        raise ValueError(
            f"{total} value{'s are' if total > 1 else ' is'} missing in {rows} of {len(frame)} rows ({each}); fill "
            f"them in, or exclude these rows ({cure})"
        )


class TableClassifier(Savable, Deciding, Wrapping, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # untyped
    """A classifier with an encoding of data frames; what ``gpclass fit`` saves.

    Parameters
    ----------
    classifier : estimator, default=None
        Fitted to the encoded matrix; None: ``GPClassifier()``.
    standardize : bool, default=True
        Standardise the columns of numbers.

    Attributes
    ----------
    encoding_ : Encoding
    classifier_ : the classifier fitted to the encoded matrix.
    classes_ : ndarray of shape (C,)
    n_features_in_ : int, columns of the frame.
    kernel_, likelihood_, theta_, posterior_, fit_report_, trace_, inducing_, log_evidence_, log_evidence_error_, \
    evidence_kind_, log_marginal_likelihood_value_ : those of ``classifier_``, if it has them.
    """

    def __init__(self, classifier: Any = None, *, standardize: bool = True) -> None:
        self.classifier = classifier
        self.standardize = standardize

    def fit(self, frame: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the encoding and fit the classifier.

        Parameters
        ----------
        frame : pandas DataFrame of shape (n, d), or path of a Parquet folder
            Features alone; of a folder also the labels. A folder needs a classifier with ``n_inducing``.
        y : labels of shape (n,), or the name of the folder's column that holds them
        sample_weight : array of shape (n,), or the name of the folder's column that holds them, default=None
            Passed to the classifier.
        """
        from gpclass.estimators.classifier import GPClassifier

        classifier = GPClassifier() if self.classifier is None else clone(self.classifier)
        encoding, X = self._encoded(frame, y, sample_weight)
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        self.classifier_ = classifier.fit(X, y, **weights)
        self.encoding_ = encoding
        self.classes_ = self.classifier_.classes_
        self.n_features_in_ = len(self.encoding_.columns)
        return self

    def _encoded(self, frame: Any, y: Any, sample_weight: Any) -> tuple[Encoding, Any]:
        from gpclass.data.parquet import ParquetFolder
        from gpclass.data.sources import in_files

        if not in_files(frame):
            encoding = Encoding.learn(frame, standardize=self.standardize)
            return encoding, encoding.encode(frame)
        from gpclass.data.encoded import encoded_folder

        if not isinstance(y, str):
            raise ValueError("a Parquet folder needs the name of the column with the labels: fit(folder, 'label')")
        if not isinstance(frame, ParquetFolder) or frame.encoding is None:
            weights = sample_weight if isinstance(sample_weight, str) else None
            frame = encoded_folder(frame, y, weights=weights, standardize=self.standardize)
        assert frame.encoding is not None
        return frame.encoding, frame

    def encode(self, frame: Any) -> Array:
        """The encoded matrix."""
        check_is_fitted(self)
        return self.encoding_.encode(frame)

    def _seen(self, X: Any) -> Array:
        return self.encode(X)

    @where_inner_has("plan")  # type: ignore[untyped-decorator]  # scikit-learn is untyped
    def plan(self, frame: Any, y: Any, *, budget: float = 2.0) -> Plan:
        """What ``fit(frame, y)`` is expected to cost; see :meth:`gpclass.GPClassifier.plan`.

        Parameters
        ----------
        frame : pandas DataFrame of shape (n, d)
        y : labels of shape (n,)
        budget : float, default=2.0
            Approximate seconds for the calibration.
        """
        from gpclass.data.sources import in_files
        from gpclass.estimators.classifier import GPClassifier

        classifier: Any = GPClassifier() if self.classifier is None else self.classifier
        if not in_files(frame):  # which the classifier rejects, with the remedy
            frame = Encoding.learn(frame, standardize=self.standardize).encode(frame)
        plan: Plan = classifier.plan(frame, y, budget=budget)
        return plan


def prediction_names(classes: Any) -> list[str]:
    """Columns of :func:`predictions`."""
    return ["class", "probability", "mcse", "lower", "upper", *(f"p_{label}" for label in classes)]


def predictions(model: Any, X: Any, level: float = 0.9) -> Any:
    """A frame of one row per prediction: class, its probability, error and interval, then every class."""
    import pandas as pd

    found = model.predict_uncertainty(X, level=level)
    best = np.argmax(found.proba, axis=1)
    at = np.arange(len(best))
    of_best = [values[at, best] for values in (found.proba, found.mcse, found.lower, found.upper)]
    columns = [model.classes_[best], *of_best, *found.proba.T]
    return pd.DataFrame(dict(zip(prediction_names(model.classes_), columns, strict=True)))


def check_truth(truth: Any, classes: Any) -> npt.NDArray[np.intp]:
    """The index of each true label among the classes; missing or unknown labels are rejected."""
    import pandas as pd

    missing = int(pd.isna(truth).sum())
    if missing:
        raise ValueError(f"{missing} rows have no true label: fill them in or leave out --target")
    # Python's numbers are one key for any type (1 == 1.0); a number and a word are compared as words.
    labels = np.asarray(classes).tolist()
    place = {str(label): c for c, label in enumerate(labels)} | {label: c for c, label in enumerate(labels)}
    codes, present = pd.factorize(np.asarray(truth))
    present = np.asarray(present).tolist()
    places = [place.get(label, place.get(str(label))) for label in present]
    strange = sorted(str(label) for label, c in zip(present, places, strict=True) if c is None)
    if strange:
        raise ValueError(
            f"the true labels hold {', '.join(strange)}, unknown to the model, which has "
            f"{', '.join(map(str, classes))}: give another target, or correct them"
        )
    return np.array(places, dtype=np.intp)[codes]


def scores(found: Any, classes: Any, truth: Any) -> dict[str, float]:
    """Accuracy, log loss and Brier score of :func:`predictions` for known true labels."""
    from gpclass import metrics

    y, known = check_truth(truth, classes), np.arange(len(classes))
    proba = found[[f"p_{label}" for label in classes]].to_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a class that does not occur needs no warning here
        return {
            "accuracy": metrics.accuracy(y, proba, known),
            "log_loss": metrics.log_loss(y, proba, known),
            "brier": metrics.brier_score(y, proba, known),
        }
