"""Predictions as a table, and their scores for known labels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt


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
