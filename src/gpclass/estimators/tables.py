"""Classifiers for data frames: columns of numbers and words in, class probabilities out.

The mapping of the columns to numbers (:mod:`gpclass.estimators.columns`) is learned in ``fit``, saved with the model,
and applied unchanged to new rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from gpclass._typing import Array
from gpclass.estimators.columns import CategoryColumn, ColumnSummary, Encoding, NumberColumn, check_missing
from gpclass.estimators.mixins import Deciding, Savable
from gpclass.estimators.wrapping import Wrapping, where_inner_has

if TYPE_CHECKING:
    from gpclass.data.parquet import ParquetFolder
    from gpclass.estimators.planner import Plan


class TableClassifier(Savable, Deciding, Wrapping, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # untyped
    """A classifier with an encoding of data frames; what ``gpclass fit`` saves.

    Parameters
    ----------
    classifier : estimator, default=None
        Fitted to the encoded matrix; None: ``GPClassifier()``.
    standardize : bool, default=True
        Standardise the columns of numbers.
    impute : {None, "median"}, default=None
        What becomes of missing values: an error, or the median of a column of numbers and the most common category of
        a column of words, also in new rows.
    categories : mapping of column name to its categories, default=None
        Of columns that are names whatever they look like, and whose categories need not all occur in the rows; other
        columns of words have the categories that occur.
    spatial : sequence of str, default=None
        Columns that are coordinates in one unit. They are standardised with one scale, so that a kernel of distance
        means distance on the map; by default each has its own, which stretches the map.

    Attributes
    ----------
    encoding_ : Encoding
    classifier_ : the classifier fitted to the encoded matrix.
    classes_ : ndarray of shape (C,)
    n_features_in_ : int, columns of the frame.
    kernel_, likelihood_, theta_, posterior_, fit_report_, trace_, inducing_, log_evidence_, log_evidence_error_, \
    evidence_kind_, log_marginal_likelihood_value_ : those of ``classifier_``, if it has them.
    """

    impute: str | None = None  # of models that were saved before there were these
    categories: Mapping[str, Sequence[Any]] | None = None
    spatial: Sequence[str] | None = None

    def __init__(
        self,
        classifier: Any = None,
        *,
        standardize: bool = True,
        impute: str | None = None,
        categories: Mapping[str, Sequence[Any]] | None = None,
        spatial: Sequence[str] | None = None,
    ) -> None:
        self.classifier = classifier
        self.standardize = standardize
        self.impute = impute
        self.categories = categories
        self.spatial = spatial

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
            encoding = self.learn_encoding(frame)
            return encoding, encoding.encode(frame)
        if not isinstance(y, str):
            raise ValueError("a Parquet folder needs the name of the column with the labels: fit(folder, 'label')")
        if not isinstance(frame, ParquetFolder) or frame.encoding is None:
            weights = sample_weight if isinstance(sample_weight, str) else None
            frame = self.encoded_folder(frame, y, weights)
        assert frame.encoding is not None
        return frame.encoding, frame

    def learn_encoding(self, frame: Any) -> Encoding:
        """The encoding that ``fit`` learns from a frame."""
        return Encoding.learn(frame, **self._rules())

    def encoded_folder(self, folder: Any, target: str, weights: str | None = None) -> ParquetFolder:
        """A Parquet folder with the encoding that ``fit`` learns from it."""
        from gpclass.data.encoded import encoded_folder

        return encoded_folder(folder, target, weights=weights, **self._rules())

    def _rules(self) -> dict[str, Any]:
        """The settings of the encoding."""
        if self.impute not in (None, "median"):
            raise ValueError(f"impute must be None or 'median', not {self.impute!r}")
        return {
            "standardize": self.standardize,
            "impute": self.impute is not None,
            "categories": self.categories,
            "spatial": self.spatial,
        }

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
            frame = self.learn_encoding(frame).encode(frame)
        plan: Plan = classifier.plan(frame, y, budget=budget)
        return plan


__all__ = [
    "CategoryColumn",
    "ColumnSummary",
    "Encoding",
    "NumberColumn",
    "TableClassifier",
    "check_missing",
    "check_truth",
    "prediction_names",
    "predictions",
    "scores",
]


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
    """Accuracy, log loss, Brier score and area under the ROC curve of :func:`predictions` for known true labels."""
    from gpclass import metrics

    y, known = check_truth(truth, classes), np.arange(len(classes))
    proba = found[[f"p_{label}" for label in classes]].to_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a class that does not occur needs no warning here
        return {
            "accuracy": metrics.accuracy(y, proba, known),
            "log_loss": metrics.log_loss(y, proba, known),
            "brier": metrics.brier_score(y, proba, known),
            "auc": metrics.auc(y, proba, known),
        }
