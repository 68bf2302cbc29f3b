"""Aitchison's geometry: probabilities as a Euclidean vector space.

On ]0,1[ (R §2.3, where a denotes the pair (a, 1 − a))::

    a ⊕ b = logit⁻¹(logit a + logit b)        perturbation: Bayes' theorem adds evidence
    λ ⊙ a = logit⁻¹(λ logit a)                powering
    <a, b> = logit(a) logit(b) / c0²          the coordinate of a is logit(a) / c0

For C parts the same structure uses isometric log-ratio coordinates (``ilr``) in R^(C−1); for two parts these are
the coordinate above with c0 = √2.

Cost: O(size). Fails when: a probability is 0 or 1, which has no finite coordinate; this raises an error.

Reference: Pawlowsky-Glahn & Egozcue (2001), Stoch. Environ. Res. Risk Assess. 15; Egozcue et al. (2003),
Math. Geology 35.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_softmax, logit

from gpclass._typing import Array


def open_interval(a: npt.ArrayLike) -> Array:
    """The array, after checking that all entries lie inside ]0,1[."""
    array = np.asarray(a, dtype=float)
    if not np.all((array > 0) & (array < 1)):
        raise ValueError(
            "probabilities must lie strictly between 0 and 1: the ends of the interval are infinitely far "
            "away in Aitchison's geometry; replace 0 and 1 by p and 1 - p with a small p"
        )
    return array


def _scale(scale: float) -> float:
    if not (np.isfinite(scale) and scale > 0):
        raise ValueError(f"scale (c0) must be a positive number, not {scale!r}")
    return float(scale)


def perturb(a: npt.ArrayLike, b: npt.ArrayLike) -> Array:
    """Vector addition a ⊕ b on ]0,1[."""
    return np.asarray(expit(logit(open_interval(a)) + logit(open_interval(b))))


def power(factor: npt.ArrayLike, a: npt.ArrayLike) -> Array:
    """Scalar multiplication factor ⊙ a on ]0,1[."""
    return np.asarray(expit(np.asarray(factor, dtype=float) * logit(open_interval(a))))


def inner(a: npt.ArrayLike, b: npt.ArrayLike, scale: float = 1.0) -> Array:
    """Inner product of a and b, elementwise."""
    return coordinates(a, scale) * coordinates(b, scale)


def norm(a: npt.ArrayLike, scale: float = 1.0) -> Array:
    """Length of a: its distance from ½."""
    return np.abs(coordinates(a, scale))


def distance(a: npt.ArrayLike, b: npt.ArrayLike, scale: float = 1.0) -> Array:
    """Distance between a and b (R eq. 2)."""
    return np.abs(coordinates(a, scale) - coordinates(b, scale))


def coordinates(a: npt.ArrayLike, scale: float = 1.0) -> Array:
    """The coordinate logit(a) / c0 of each a (R eq. 3)."""
    return np.asarray(logit(open_interval(a)) / _scale(scale))


def from_coordinates(alpha: npt.ArrayLike, scale: float = 1.0) -> Array:
    """The probability whose coordinate is alpha."""
    return np.asarray(expit(_scale(scale) * np.asarray(alpha, dtype=float)))


def mean(a: npt.ArrayLike, weights: npt.ArrayLike | None = None, axis: int | None = None) -> Array:
    """Mean in Aitchison's geometry: the probability at the average coordinate (the scale cancels)."""
    w = None if weights is None else np.asarray(weights)
    average = np.average(logit(open_interval(a)), axis=axis, weights=w)
    return np.asarray(expit(average))


@lru_cache(maxsize=32)
def _ilr_basis(n_parts: int) -> Array:
    """Orthonormal rows (C−1, C), each summing to zero: one part against those before it."""
    basis = np.zeros((n_parts - 1, n_parts))
    for k in range(1, n_parts):
        basis[k - 1, :k] = 1.0 / k
        basis[k - 1, k] = -1.0
        basis[k - 1] *= np.sqrt(k / (k + 1.0))
    basis.setflags(write=False)
    return basis


def ilr(parts: npt.ArrayLike) -> Array:
    """Isometric log-ratio coordinates (..., C−1) of compositions (..., C) with positive parts."""
    array = np.asarray(parts, dtype=float)
    if array.ndim == 0 or array.shape[-1] < 2:
        raise ValueError("a composition needs at least two parts along its last axis")
    if not np.all((array > 0) & np.isfinite(array)):
        raise ValueError("every part must be positive and finite; replace zeros by a small pseudo-count")
    return np.asarray(np.log(array) @ _ilr_basis(array.shape[-1]).T)


def log_inverse_ilr(coordinates: npt.ArrayLike) -> Array:
    """Logarithms of ``inverse_ilr``, finite even where a part itself underflows."""
    array = np.asarray(coordinates, dtype=float)
    if array.ndim == 0:
        raise ValueError("coordinates need a last axis of length C - 1")
    return np.asarray(log_softmax(array @ _ilr_basis(array.shape[-1] + 1), axis=-1))


def inverse_ilr(coordinates: npt.ArrayLike) -> Array:
    """The compositions (..., C), summing to one, at isometric log-ratio coordinates (..., C−1)."""
    return np.exp(log_inverse_ilr(coordinates))
