r"""Multinomial probit as an orthant: v_(i,c) = u_{i,y_i} − u_{i,c} > 0 for every class c ≠ y_i.

With utilities u_c ~ N(0, K_c + I), independent across classes, and Ã_c = K_c + I,

    cov(v_(i,a), v_(j,b)) = [y_i = y_j] Ã_{y_i} − [y_i = b] Ã_{y_i} − [a = y_j] Ã_a + [a = b] Ã_a   at (i, j).

Coordinates run over points, and within a point over the classes that are not its own.
Cost: O(n² C²) memory; it is needed by the sampler alone.
"""

from __future__ import annotations

import numpy as np

from gpclass._typing import Array
from gpclass.inference.many_ep import other_classes
from gpclass.model.many_problem import MultiProblem


def orthant_covariance(problem: MultiProblem) -> Array:
    """Covariance of v, (n(C−1), n(C−1))."""
    n, C = problem.n, problem.n_classes
    others = other_classes(problem.y, C)  # (n, C−1)
    # Row (i, a) of the matrix that takes utilities to v: +1 at y_i, −1 at a.
    sign = np.zeros((C, n, C - 1))
    rows = np.arange(n)
    sign[problem.y, rows] = 1.0
    sign[others, rows[:, None], np.arange(C - 1)] = -1.0
    S = np.zeros((n, C - 1, n, C - 1))
    for c in range(C):
        # Only rows that class c takes part in: those of its own points, and one of every other point.
        K = problem.K[c].copy()
        K.flat[:: n + 1] += 1.0
        i, a = np.nonzero(sign[c])
        s = sign[c][i, a]
        S[i[:, None], a[:, None], i, a] += s[:, None] * K[np.ix_(i, i)] * s
    return S.reshape(n * (C - 1), n * (C - 1))
