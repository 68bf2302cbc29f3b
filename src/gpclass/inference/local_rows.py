r"""Groups of new points that share their most correlated rows.

A group has the k rows of largest prior correlation with any of its points. New points are halved across the column in
which they differ most (in units of the kernel's length scales) until a group is small, and further while its rows lack
too many of those that its points would choose alone, half as many each. Neighbouring cells of a map thus share their
rows, and points in many dimensions, whose nearest rows differ, become small groups.
Cost: O(n) correlations for each of a few points of a group.
"""

from __future__ import annotations

import numpy as np

from gpclass._typing import Array, IntArray
from gpclass.latent.cliques import scaled
from gpclass.model.problem import Problem

LARGEST = 128  # points of a group
LOOKED_AT = 16  # points of a group whose correlations are computed
SHARED = 0.8  # least share of a point's own rows that its group must have


def groups(problem: Problem, X: Array, X_new: Array, k: int) -> list[IntArray]:
    """Indices of the points of X_new in each group, for k of the rows X (n, d) each."""
    every = np.arange(len(X_new))
    if k >= len(X):
        return [every]
    at = scaled(problem.kernels[0], X_new)
    waiting, found = [every], []
    while waiting:
        points = waiting.pop()
        if len(points) <= LARGEST and (len(points) == 1 or _share(problem, X, X_new[points], k)):
            found.append(points)
        else:
            widest = int(np.argmax(np.ptp(at[points], axis=0)))
            order = points[np.argsort(at[points, widest], kind="stable")]
            half = len(order) // 2
            waiting += [np.sort(order[half:]), np.sort(order[:half])]
    return found


def most_correlated(problem: Problem, X: Array, points: Array, k: int) -> IntArray:
    """The k rows of X with the largest correlation with any of some points, the largest first."""
    return _first(_correlations(problem, X, _few(points)).max(axis=1), k)


def _share(problem: Problem, X: Array, points: Array, k: int) -> bool:
    """Whether the points can share k rows."""
    found = _correlations(problem, X, _few(points))
    taken = np.zeros(len(X), dtype=bool)
    taken[_first(found.max(axis=1), k)] = True
    own = np.argpartition(-found, k // 2, axis=0)[: k // 2]
    return bool(taken[own].mean(axis=0).min() >= SHARED)


def _first(score: Array, k: int) -> IntArray:
    """Indices of the k largest, the largest first."""
    if k < len(score):
        some = np.argpartition(-score, k)[:k]
        return np.asarray(some[np.argsort(-score[some], kind="stable")])
    return np.argsort(-score, kind="stable")


def _few(points: Array) -> Array:
    """Points evenly through the group."""
    return points[np.unique(np.linspace(0, len(points) - 1, min(len(points), LOOKED_AT)).astype(np.intp))]


def _correlations(problem: Problem, X: Array, points: Array) -> Array:
    """Absolute prior correlations, (n, m)."""
    covariance = problem.covariance
    of_rows, of_points = (np.sqrt(np.maximum(covariance.diag(each), 1e-300)) for each in (X, points))
    return np.asarray(np.abs(covariance(X, points)) / of_rows[:, None] / of_points)
