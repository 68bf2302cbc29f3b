"""Products of many weighted draws with new rows, in single precision where that is far below the draws' own error.

A'k for draws A (n, M) and new rows k (n, m) is most of the time of a prediction. The weighted mean of the draws is
multiplied in double precision; only the deviations from it go in single precision, twice as fast. Each product then has
a rounding error of about ε √n max|k| rms(A), which must stay below LARGEST (of a latent value): a probability averaged
over a thousand such draws is off by less than 1e-6. Otherwise all is done in double precision. A mean m is rounded to
6e-8 of itself, which moves Φ(m/s) by 6e-8 |m/s| φ(m/s), 2e-8 at most.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpclass._typing import Array

MANY = 1500  # draws, from which single precision pays; below, rows in another order give the same to the last digits
LARGEST = 3e-5
EPSILON = 6e-8  # rounding of one number


class Draws:
    """Draws A (n, M) with weights (M,), to be multiplied with new rows."""

    def __init__(self, A: Array, weights: Array) -> None:
        self.A = A
        self.centre = A @ weights  # (n,)
        self.off: npt.NDArray[np.float32] | None = None
        if A.shape[1] >= MANY:
            self.off = (A - self.centre[:, None]).astype(np.float32)
            self.rounding = EPSILON * np.sqrt(A.shape[0]) * float(np.sqrt(np.einsum("ij,ij->", A, A) / A.size))

    def times(self, k: Array) -> npt.NDArray[Any]:
        """A'k, (M, m)."""
        if self.off is None or self.rounding * np.abs(k).max(initial=0.0) > LARGEST:
            return np.asarray(self.A.T @ k)
        found = k.astype(np.float32).T @ self.off
        found += (self.centre @ k).astype(np.float32)[:, None]  # numbers of two kinds are added slowly
        return found.T
