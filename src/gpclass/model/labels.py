"""Labelled rows as an inference uses them: class indices, weights, and no row of weight zero.

A weight w_i is the power of a row's likelihood: a whole number is that many equal rows, zero excludes the row.
Cost: O(n log n). Fails when: there is one class, or a class whose rows all have weight zero, unless the classes are
named: one without rows is then left to the prior.
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


def encode(y: Any, classes: Any = None) -> tuple[npt.NDArray[Any], IntArray]:
    """Classes in order, and the index of each label among them; ``classes`` names them all, seen or not."""
    check_classification_targets(y)
    seen, index = np.unique(y, return_inverse=True)
    if classes is None:
        if len(seen) < 2:
            raise ValueError(
                f"y holds one class only ({seen.tolist()[0]!r}); a classifier needs examples of two classes, or fixed "
                "parameters and the names of all classes: fit(X, y, classes=[...])"
            )
        return seen, index
    every = np.unique(np.asarray(classes))
    if len(every) < 2:
        raise ValueError(f"classes={classes!r} names fewer than two classes")
    strange = [label for label in seen.tolist() if label not in every.tolist()]
    if strange:
        raise ValueError(f"y holds {strange[0]!r}, which is not among classes={every.tolist()!r}")
    return every, np.searchsorted(every, seen)[index]


def check_learnable(index: IntArray, learned: str, cure: str) -> None:
    """Reject rows of one class for what is learned from labels: it would grow until that class is certain."""
    if np.all(index == index[0]):
        raise ValueError(f"{learned} cannot be learned from rows of one class; {cure}")


def copied_rows(weights: Array, most: float = np.inf) -> IntArray | None:
    """Every row repeated by its weight; None if a weight is fractional, or there are more than ``most`` rows."""
    copies = np.rint(weights)
    if np.any(copies != weights) or copies.sum() > most:
        return None
    return np.repeat(np.arange(len(weights)), copies.astype(int))


def copies_of(weights: Array) -> IntArray:
    """How many rows :func:`unrolled_rows` makes of each."""
    return np.maximum(np.ceil(weights), 1.0).astype(np.intp)


def unrolled_rows(weights: Array) -> tuple[IntArray, Array | None]:
    """Rows with weights from 1 on repeated, each whole copy of weight 1 and a last one of the fractional rest.

    Indices of the rows, and their weights; None if all are one. A weight just above 1 adds a copy of hardly any weight,
    so that the model is continuous in the weights.
    """
    copies = copies_of(weights)
    rows, last = np.repeat(np.arange(len(weights)), copies), np.cumsum(copies) - 1
    rest = np.ones(len(rows))
    rest[last] = weights - (copies - 1.0)
    return rows, None if np.all(rest == 1.0) else rest


@dataclass(frozen=True)
class Labelled:
    """Rows of positive weight, with their classes and weights."""

    X: Array  # (n, d)
    index: IntArray  # (n,), index of the class
    weights: Array | None = None  # (n,), > 0; None: all one

    def weighted(
        self, classes: npt.NDArray[Any], sample_weight: Any, class_weight: Any, named: bool = False
    ) -> Labelled:
        """The rows with sample weights times class weights, those of weight zero excluded.

        A class may be left without rows only if the classes were ``named``.
        """
        if sample_weight is None and class_weight is None:
            return self
        weights: Array = _check_sample_weight(sample_weight, self.X, dtype=np.float64, ensure_non_negative=True)
        seen = np.bincount(self.index, minlength=len(classes)) > 0
        each = np.ones(len(classes))
        each[seen] = compute_class_weight(class_weight, classes=classes[seen], y=classes[self.index])
        weights = weights * each[self.index]
        if not np.all(np.isfinite(weights)) or np.any(weights < 0):
            raise ValueError("weights must be finite and not negative; check sample_weight and class_weight")
        for c, label in enumerate([] if named else classes.tolist()):
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
        """Number of rows of :meth:`unrolled`."""
        return len(self.X) if self.weights is None else int(copies_of(self.weights).sum())

    def unrolled(self) -> Labelled:
        """Weights from 1 on as repeated rows (:func:`unrolled_rows`)."""
        if self.weights is None:
            return self
        rows, rest = unrolled_rows(self.weights)
        return Labelled(self.X[rows], self.index[rows], rest)
