"""Access to the steps of a scikit-learn pipeline, which forwards ``predict_proba`` but not ``predict_uncertainty``."""

from __future__ import annotations

from typing import Any


def final_step(clf: Any) -> Any:
    """The classifier itself when ``clf`` is a scikit-learn pipeline, else ``clf``."""
    return clf.steps[-1][1] if hasattr(clf, "steps") else clf


def seen_by_final(clf: Any, X: Any) -> Any:
    """The input of the final step for the rows of X: the output of the steps before it."""
    return clf[:-1].transform(X) if hasattr(clf, "steps") else X
