"""Pivoted roots of covariances: K = L L' + R with few columns of L and a small rest R.

Cholesky's factorisation of K, the row of the largest remaining variance first, ends when no row has more than ``tol``
left. With the r rows P that were taken and K_PP = U'U, row i of L is l(x_i) = U^-1' k_P(x_i), and a new point has the
same function l(x) of its covariances. The rest is a covariance too, R(x, x') = k(x, x') − l(x)'l(x'): a combination of
rows loses Σ_i a_i R(x, x_i) at x, at most √(R(x, x) a'R a).
Cost: n r² for the root, r² for every new point.
Fails when: K has a white component above ``tol``: r is n then.
Reference: Harbrecht, Peters & Schneider (2012), On the low-rank approximation by the pivoted Cholesky decomposition.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from gpclass._typing import Array, IntArray
from gpclass.numerics.linalg import lower_solve


@dataclass(frozen=True)
class PivotedRoot:
    """The rows that were taken, and U' in LAPACK's order: all that new points need."""

    pivots: IntArray  # (r,)
    top: Array  # (r, r)

    @property
    def rank(self) -> int:
        """Number r of columns."""
        return len(self.pivots)

    def reduce(self, k: Array) -> Array:
        """l(x) (r, m), from covariances k (n, m) of new points with the rows."""
        return lower_solve(self.top, k[self.pivots])


def pivoted_root(K: Array, tol: float) -> tuple[PivotedRoot, Array]:
    """The root that leaves a variance of ``tol`` at most at every row, and L (n, r)."""
    found, order, rank, _ = lapack.dpstrf(K, tol=tol, lower=1)
    order = order - 1
    L = np.empty((len(K), rank))
    L[order] = np.tril(found[:, :rank])
    return PivotedRoot(order[:rank], np.asfortranarray(L[order[:rank]])), L
