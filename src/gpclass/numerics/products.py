"""Products of many weighted draws with new rows, in single precision where that is far below the draws' own error.

A'k for draws A (n, M) and new rows k (n, m) is most of the time of a prediction. The weighted mean of the draws is
multiplied in double precision; only the deviations from it go in single precision, twice as fast. Each product then has
a rounding error of about ε √n max|k| rms(A), which must stay below LARGEST (of a latent value): a probability averaged
over a thousand such draws is off by less than 1e-6. Otherwise all is done in double precision. A mean m is rounded to
6e-8 of itself, which moves Φ(m/s) by 6e-8 |m/s| φ(m/s), 2e-8 at most.

If the covariance K of the rows is close to one of low rank, few rows stand for all (:mod:`gpclass.numerics.pivoted`),
and the deviations C A of these are multiplied. What this changes in a product is measured at each new row, on some of
the draws. Where its root mean square is above BASIS/√M, a fifth of the error of a mean of M draws that deviate by 1,
the full product replaces it. It has mean zero over the draws, as the deviations have, and depends little on them, so
that probabilities move by a few hundredths of it: 1e-6 on average and 2e-5 at most, for thousands of draws.
Cost: n M m multiply-adds; with r of n rows r M m, and once r n M.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpclass._typing import Array, IntArray
from gpclass.numerics.pivoted import standing_for_all
from gpclass.numerics.rounded import LARGEST, Rounded, Single, rounding, size_of

MANY = 1500  # draws, from which single precision pays; below, rows in another order give the same to the last digits
ROWS = 200  # from which fewer may pay
PAYS = 0.7  # share of the rows, below which they do
BASIS = 0.2  # largest error of a product by fewer rows, times the root of the number of draws
TIGHTER = 0.03  # times the limit, of the rest of K, so that few new rows are beyond it
SOME = 64  # draws that tell it


class Draws:
    """Draws A (n, M) with weights (M,), to be multiplied with new rows; K (n, n) is the covariance of the old ones.

    A :class:`~gpclass.numerics.rounded.Rounded` A has its deviations from another vector than the mean, and lends them.
    """

    def __init__(self, A: Array | Rounded, weights: Array, K: Array | None = None) -> None:
        self.A = A
        self.off: Single | None = None  # (n + 1, M), the last row of ones for what is added
        self.pivots: IntArray | None = None  # rows that stand for all
        if isinstance(A, Rounded):
            self.base, self.off = A.base, A.off
            self.shift = A.times(weights)  # (n,), mean of the deviations
        else:
            self.base, self.shift = A @ weights, np.zeros(len(A))
            if A.shape[1] >= MANY:
                self.off = np.ones((len(A) + 1, A.shape[1]), dtype=np.float32)
                np.subtract(A, self.base[:, None], out=self.off[:-1], casting="same_kind")
        if self.off is not None:
            self.rounding = rounding(len(self.base), size_of(self.off[:-1]))
            if K is not None and len(K) >= ROWS:
                self._reduce(K)

    def _reduce(self, K: Array) -> None:
        """Let few rows stand for all, if few can."""
        assert self.off is not None
        off, self.limit = self.off[:-1], BASIS / np.sqrt(self.off.shape[1])
        some = slice(None, None, max(1, off.shape[1] // SOME))
        self.some = off[:, some] - self.shift[:, None].astype(np.float32)
        pivots, C = standing_for_all(K, TIGHTER * self.limit / size_of(self.some))  # as if one row mattered
        if len(pivots) > PAYS * len(K):
            return
        others = np.setdiff1d(np.arange(len(K)), pivots)
        self.few = np.ones((len(pivots) + 1, off.shape[1]), dtype=np.float32)
        np.matmul(C[:, others].astype(np.float32), off[others], out=self.few[:-1])
        self.few[:-1] += off[pivots]  # each stands for itself
        self.few_shift = C[:, others] @ self.shift[others] + self.shift[pivots]
        self.some_few = self.few[:-1, some] - self.few_shift[:, None].astype(np.float32)
        self.rounding = max(self.rounding, rounding(len(pivots), size_of(self.few[:-1])))
        self.pivots = pivots

    def times(self, k: Array) -> npt.NDArray[Any]:
        """A'k, (M, m), for the covariances k (n, m) of new rows with the old ones."""
        if self.off is None or self.rounding * max(k.max(initial=0.0), -k.min(initial=0.0)) > LARGEST:
            return self._in_double(k)
        added = self.base @ k
        if self.pivots is None:
            return _product(k, added, self.off).T
        mean = added + self.shift @ k - self.few_shift @ k[self.pivots]  # few rows stand for deviations from the mean
        k = k.astype(np.float32)
        few = k[self.pivots]
        found, lost = _product(few, mean, self.few), k.T @ self.some - few.T @ self.some_few
        far = np.flatnonzero(np.einsum("ij,ij->i", lost, lost) > lost.shape[1] * self.limit**2)
        if len(far):
            found[far] = _product(k[:, far], added[far], self.off)
        return found.T

    def _in_double(self, k: Array) -> Array:
        """The product in double precision."""
        if isinstance(self.A, Rounded):
            return self.A.times(k, rows=True) + self.base @ k
        return np.asarray(self.A.T @ k)


def _product(k: npt.NDArray[Any], centre: Array, off: Single) -> Single:
    """k'off + centre, (m, M), the centre as one more column of k."""
    joined = np.empty((len(k) + 1, len(centre)), dtype=np.float32)
    joined[:-1], joined[-1] = k, centre
    return np.asarray(joined.T @ off)
