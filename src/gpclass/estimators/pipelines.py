"""Looking into a scikit-learn pipeline: it passes on ``predict_proba``, but not ``predict_uncertainty``."""

from __future__ import annotations

from typing import Any


def final_step(clf: Any) -> Any:
    """The classifier itself when ``clf`` is a scikit-learn pipeline, else ``clf``."""
    return clf.steps[-1][1] if hasattr(clf, "steps") else clf


def seen_by_final(clf: Any, X: Any) -> Any:
    """What the final step is given for the rows of X: what the steps before it make of them."""
    return clf[:-1].transform(X) if hasattr(clf, "steps") else X
