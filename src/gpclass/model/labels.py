"""Labelled rows as an inference sees them: places of the classes, weights, and no row that does not count.

A weight w_i is the power of a row's likelihood: a whole number is that many equal rows, zero leaves the row out.
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
    """Classes in order, and the place of each label among them."""
    check_classification_targets(y)
    classes, index = np.unique(y, return_inverse=True)
    if len(classes) == 1:
        raise ValueError(
            f"y holds one class only ({classes[0]!r}); a classifier needs examples of two classes"
        )
    return classes, index


def copied_rows(weights: Array, most: float = np.inf) -> IntArray | None:
    """Every row as often as its weight says; None where one is no whole number, or the rows are more than ``most``."""
    copies = np.rint(weights)
    if np.any(copies != weights) or copies.sum() > most:
        return None
    return np.repeat(np.arange(len(weights)), copies.astype(int))


@dataclass(frozen=True)
class Labelled:
    """Rows that count, with their classes and weights."""

    X: Array  # (n, d)
    index: IntArray  # (n,), place of the class
    weights: Array | None = None  # (n,), > 0; None: all one

    def weighted(self, classes: npt.NDArray[Any], sample_weight: Any, class_weight: Any) -> Labelled:
        """The rows with sample weights times class weights, those of weight zero left out."""
        if sample_weight is None and class_weight is None:
            return self
        weights: Array = _check_sample_weight(
            sample_weight, self.X, dtype=np.float64, ensure_non_negative=True
        )
        each = compute_class_weight(class_weight, classes=classes, y=classes[self.index])
        weights = weights * each[self.index]
        if not np.all(np.isfinite(weights)):
            raise ValueError("weights must be finite numbers; check sample_weight and class_weight")
        for c, label in enumerate(classes):
            if not np.any(weights[self.index == c] > 0):
                raise ValueError(
                    f"every row of class {label!r} has weight zero, so one class is left: give it some weight"
                    if len(classes) == 2
                    else f"every row of class {label!r} has weight zero: give it some weight, or leave its rows out"
                )
        if np.all(weights == 1.0):
            return self
        keep = weights > 0
        return Labelled(self.X[keep], self.index[keep], weights[keep])

    def repeated(self) -> Labelled:
        """Whole weights as so many rows; the rows as they are where a weight is a fraction, or there are none."""
        rows = None if self.weights is None else copied_rows(self.weights)
        return self if rows is None else Labelled(self.X[rows], self.index[rows])
