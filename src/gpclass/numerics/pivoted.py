"""Few rows that stand for all: K ≈ C'K_P with the covariances K_P of r of n rows.

Cholesky's factorisation of K, the row of the largest remaining variance first, K = L L' + R, ends when no row has more
than ``tol`` left. Of the r rows P that were taken, K_PP = U'U with U' the rows P of L, and C = U^-1 L' are the weights
of simple kriging from them: C_PP is the identity, and a point x has the covariances C'k_P(x) with the rows, except for
the covariance of what kriging leaves, R(x, x') = k(x, x') − k_P(x)'K_PP^-1 k_P(x'). A combination a of rows is so the
combination C a of r rows, and loses Σ_i a_i R(x, x_i) at x, at most √(R(x, x) a'R a).
Cost: n r² once, nothing for a new point.
Fails when: K has a white component above ``tol``: r is n then.
Reference: Harbrecht, Peters & Schneider (2012), On the low-rank approximation by the pivoted Cholesky decomposition.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from gpclass._typing import Array, IntArray
from gpclass.numerics.linalg import triangular_solve


def standing_for_all(K: Array, tol: float) -> tuple[IntArray, Array]:
    """The rows P (r,) that leave a variance of ``tol`` at most at every row, and the weights C (r, n)."""
    found, order, rank, _ = lapack.dpstrf(K, tol=tol, lower=1)
    order = order - 1
    C = np.empty((rank, len(K)))
    C[:, order[:rank]] = np.eye(rank)
    C[:, order[rank:]] = triangular_solve(found[:rank, :rank], found[rank:, :rank].T, transposed=True)
    return order[:rank], C
