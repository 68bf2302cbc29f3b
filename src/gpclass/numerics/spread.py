"""Standard deviations of columns, where a constant column has none.

The computed standard deviation of a constant such as 0.1 is often a rounding error rather than zero: divided by it, the
column would count for more than all others.
"""

from __future__ import annotations

import numpy as np

from gpclass._typing import Array, BoolArray

ROUNDING = 64 * np.finfo(float).eps  # of its largest value: a column that varies less is constant up to rounding


def is_constant(X: Array) -> BoolArray:
    """Whether each column is constant up to rounding."""
    size = np.abs(X).max(axis=0, initial=0.0)
    return np.asarray(X.max(axis=0, initial=-np.inf) - X.min(axis=0, initial=np.inf) <= ROUNDING * size)


def spreads(X: Array) -> Array:
    """The columns' standard deviations, 1 for a constant one."""
    return np.where(is_constant(X), 1.0, X.std(axis=0))
