"""Through what comes before a classifier: the steps of a scikit-learn pipeline, or the encoding of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def final_step(clf: Any) -> Any:
    """The classifier itself when ``clf`` is a scikit-learn pipeline or a fitted classifier of tables, else ``clf``."""
    if hasattr(clf, "steps"):
        return final_step(clf.steps[-1][1])
    return clf.classifier_ if hasattr(clf, "encoding_") else clf


def seen_by_final(clf: Any, X: Any) -> Any:
    """The input of the final step for the rows of X: the output of the steps before it."""
    if hasattr(clf, "steps"):
        return seen_by_final(clf.steps[-1][1], clf[:-1].transform(X) if len(clf.steps) > 1 else X)
    return clf.encode(X) if hasattr(clf, "encoding_") else X


def names_seen(clf: Any, names: Sequence[str]) -> Sequence[str]:
    """Names of the columns that the final step sees, of data with these columns."""
    return clf.encoding_.outputs if hasattr(clf, "encoding_") else names


def predict_uncertainty(model: Any, X: Any, level: float = 0.9) -> Any:
    """Probabilities with Monte Carlo error and credible interval, also of a model inside a scikit-learn pipeline.

    Parameters
    ----------
    model : fitted classifier of this package, or pipeline that ends in one
    X : array or data frame of shape (m, d)
        As the model takes it: a pipeline's transformers are applied.
    level : float, default=0.9
        Level of the credible interval.

    Returns
    -------
    Uncertainty
        As of :meth:`gpclass.GPClassifier.predict_uncertainty`.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from gpclass import GPClassifier, predict_uncertainty
    >>> X, y = make_moons(40, noise=0.3, random_state=0)
    >>> model = make_pipeline(StandardScaler(), GPClassifier(inference="laplace")).fit(X, y)
    >>> found = predict_uncertainty(model, X[:2])
    >>> bool((found.lower <= found.proba).all() and (found.proba <= found.upper).all())
    True
    """
    final = final_step(model)
    if not hasattr(final, "predict_uncertainty"):
        raise TypeError(f"{type(final).__name__} has no predict_uncertainty: give a classifier of this package")
    return final.predict_uncertainty(seen_by_final(model, X), level=level)
