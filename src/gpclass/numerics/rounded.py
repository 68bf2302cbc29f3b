"""Draws that are kept as deviations in single precision from a vector in double precision, in half of the memory.

Predictions multiply deviations in single precision (:mod:`gpclass.numerics.products`) as long as a product's rounding
error stays below LARGEST. Rounding each number once adds less than half of that error; so draws may be kept in single
precision somewhat longer than they are multiplied in it, and :func:`serves` says how long. The vector need not be the
mean of the draws: one near it keeps the deviations small.
Cost: four bytes per number. Fails when: products with covariances much larger than those asked about are needed: their
rounding grows in proportion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpclass._typing import Array, IntArray

EPSILON = 6e-8  # rounding of one number
LARGEST = 3e-5  # rounding error of a product: a probability averaged over a thousand such is off by less than 1e-6
STORED = 0.4  # error by rounding each number once, over that of a product in single precision
ROWS = 128  # that are converted together

Single = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Rounded:
    """Draws of one latent value, in the place of an array (1, n, M)."""

    base: Array  # (n,)
    off: Single  # (n + 1, M), the last row of ones: a product then adds that of the base

    @property
    def shape(self) -> tuple[int, int, int]:
        """That of the array."""
        return 1, len(self.base), self.off.shape[1]

    @property
    def size(self) -> int:
        """Number of numbers."""
        return len(self.base) * int(self.off.shape[1])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray((self.base[:, None] + self.off[:-1])[None], dtype=dtype)

    def columns(self, chosen: IntArray) -> Array:
        """Some of the draws, (1, n, len(chosen))."""
        return np.asarray((self.base[:, None] + self.off[:-1, chosen])[None])

    def times(self, right: Array, rows: bool = False) -> Array:
        """Deviations (n, M) times a vector (M,), or with ``rows`` their transpose times (n, m), in double precision."""
        n, M = len(self.base), self.off.shape[1]
        found = np.zeros((M, right.shape[1])) if rows else np.empty(n)
        for a in range(0, n, ROWS):
            part = slice(a, min(a + ROWS, n))
            block = self.off[part].astype(float)
            if rows:
                found += block.T @ right[part]
            else:
                found[part] = block @ right
        return found


def columns(A: Array | Rounded, chosen: IntArray) -> Array:
    """Some of the draws A (L, n, M), (L, n, len(chosen))."""
    return A.columns(chosen) if isinstance(A, Rounded) else A[:, :, chosen]


def size_of(x: npt.NDArray[Any]) -> float:
    """The root of the mean square."""
    return float(np.sqrt(np.vdot(x, x) / x.size))


def rounding(n: int, size: float) -> float:
    """Error of a product of n numbers of this size in single precision, over the largest number it is taken with."""
    return EPSILON * float(np.sqrt(n)) * size


def serves(n: int, size: float, largest: float) -> bool:
    """Whether single precision keeps deviations of this size, if covariances are no larger than ``largest``."""
    return STORED * rounding(n, size) * largest <= LARGEST
