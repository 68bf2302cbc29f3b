"""Labelled rows as an inference uses them: class indices, weights, and no row of weight zero.

A weight w_i is the power of a row's likelihood: a whole number is that many equal rows, zero excludes the row.
Cost: O(n log n). Fails when: there is one class, or a class whose rows all have weight zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from gpclass._typing import Array, IntArray


def encode(y: Any) -> tuple[npt.NDArray[Any], IntArray]:
    """Classes in order, and the index of each label among them."""
    check_classification_targets(y)
    classes, index = np.unique(y, return_inverse=True)
    if len(classes) == 1:
        raise ValueError(f"y holds one class only ({classes[0]!r}); a classifier needs examples of two classes")
    return classes, index


def copied_rows(weights: Array, most: float = np.inf) -> IntArray | None:
    """Every row repeated by its weight; None if a weight is fractional, or there are more than ``most`` rows."""
    copies = np.rint(weights)
    if np.any(copies != weights) or copies.sum() > most:
        return None
    return np.repeat(np.arange(len(weights)), copies.astype(int))


@dataclass(frozen=True)
class Labelled:
    """Rows of positive weight, with their classes and weights."""

    X: Array  # (n, d)
    index: IntArray  # (n,), index of the class
    weights: Array | None = None  # (n,), > 0; None: all one

    def weighted(self, classes: npt.NDArray[Any], sample_weight: Any, class_weight: Any) -> Labelled:
        """The rows with sample weights times class weights, those of weight zero excluded."""
        if sample_weight is None and class_weight is None:
            return self
        weights: Array = _check_sample_weight(sample_weight, self.X, dtype=np.float64, ensure_non_negative=True)
        each = compute_class_weight(class_weight, classes=classes, y=classes[self.index])
        weights = weights * each[self.index]
        if not np.all(np.isfinite(weights)):
            raise ValueError("weights must be finite numbers; check sample_weight and class_weight")
        for c, label in enumerate(classes):
            if not np.any(weights[self.index == c] > 0):
                raise ValueError(
                    f"every row of class {label!r} has weight zero, so one class is left: give it some weight"
                    if len(classes) == 2
                    else f"every row of class {label!r} has weight zero: give it some weight, or remove its rows"
                )
        if np.all(weights == 1.0):
            return self
        keep = weights > 0
        return Labelled(self.X[keep], self.index[keep], weights[keep])

    @property
    def copies(self) -> int:
        """Number of rows of :meth:`repeated`."""
        w = self.weights
        return len(self.X) if w is None or np.any(w % 1) else int(w.sum())

    def repeated(self) -> Labelled:
        """Whole weights as repeated rows; the rows unchanged if a weight is fractional, or there are none."""
        rows = None if self.weights is None else copied_rows(self.weights)
        return self if rows is None else Labelled(self.X[rows], self.index[rows])
