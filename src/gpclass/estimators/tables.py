"""Classifiers for data frames: columns of numbers and words in, class probabilities out.

The mapping of the columns to numbers (:mod:`gpclass.data.columns`) is learned in ``fit``, saved with the model,
and applied unchanged to new rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from gpclass._typing import Array
from gpclass.data.columns import Encoding
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

    def fit(self, frame: Any, y: Any, sample_weight: Any = None, *, classes: Any = None) -> Self:
        """Learn the encoding and fit the classifier.

        Parameters
        ----------
        frame : pandas DataFrame of shape (n, d), or path of a Parquet folder
            Features alone; of a folder also the labels. A folder needs a classifier with ``n_inducing``.
        y : labels of shape (n,), or the name of the folder's column that holds them
        sample_weight : array of shape (n,), or the name of the folder's column that holds them, default=None
            Passed to the classifier.
        classes : array of shape (C,), default=None
            Passed to the classifier: all classes, if y may lack some.
        """
        from gpclass.estimators.classifier import GPClassifier

        classifier = GPClassifier() if self.classifier is None else clone(self.classifier)
        encoding, X = self._encoded(frame, y, sample_weight)
        given = {"sample_weight": sample_weight, "classes": classes}
        self.classifier_ = classifier.fit(X, y, **{name: value for name, value in given.items() if value is not None})
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
    def plan(self, frame: Any, y: Any, *, budget: float = 2.0, classes: Any = None) -> Plan:
        """What ``fit(frame, y)`` is expected to cost; see :meth:`gpclass.GPClassifier.plan`.

        Parameters
        ----------
        frame : pandas DataFrame of shape (n, d)
        y : labels of shape (n,)
        budget : float, default=2.0
            Approximate seconds for the calibration.
        classes : array of shape (C,), default=None
            As of ``fit``: all classes, if y may lack some.
        """
        from gpclass.data.sources import in_files
        from gpclass.estimators.classifier import GPClassifier

        classifier: Any = GPClassifier() if self.classifier is None else self.classifier
        if not in_files(frame):  # which the classifier rejects, with the remedy
            frame = self.learn_encoding(frame).encode(frame)
        given = {} if classes is None else {"classes": classes}
        plan: Plan = classifier.plan(frame, y, budget=budget, **given)
        return plan
