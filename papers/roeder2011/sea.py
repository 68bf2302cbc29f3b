"""Simulated maps of wave heights of the paper's kind: its forecasts of the Western Mediterranean are not public.

A map is the logarithm of the significant wave height at each pixel of a basin, west to the left:

    log h(x) = u + g w(x) + e(x),

u the strength of the sea (the same everywhere), w a pattern that rises to the west, where an easterly wind has
blown over the longest way, g its amount, and e a smooth Gaussian field of local weather. In a Llevant storm (wind from
the East, label 1) g is positive, else about zero or negative, with overlap. Given the label, maps are Gaussian, so that
the true probability of a storm is known. Eight pixels in the west with similar variances are the features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from gpclass._typing import Array, IntArray

WIDE, HIGH = 36, 24  # pixels of 16 km
STRENGTH, LOCAL, RANGE = 0.35, 0.08, 8.0  # sd of u, sd of e, and the range of e in pixels
AMOUNT, AMOUNT_SD = (-0.15, 0.40), 0.19  # of g without and with a storm
PIXELS = ((4, 3), (4, 9), (4, 15), (4, 21), (10, 5), (10, 12), (10, 19), (16, 12))  # column and row


@dataclass(frozen=True)
class Sea:
    """Maps of log heights with their labels."""

    maps: Array  # (n, HIGH, WIDE)
    y: IntArray  # (n,), 1 in a Llevant storm

    @property
    def features(self) -> Array:
        """Log heights at the eight pixels, (n, 8)."""
        column, row = np.array(PIXELS).T
        return np.asarray(self.maps[:, row, column])

    @property
    def probability(self) -> Array:
        """True probability of a storm given the features: log odds are linear, since the covariances agree."""
        column, row = np.array(PIXELS).T
        w = _pattern()[row, column]
        gap = (column[:, None] - column) ** 2 + (row[:, None] - row) ** 2
        C = STRENGTH**2 + AMOUNT_SD**2 * np.outer(w, w) + LOCAL**2 * np.exp(-0.5 * gap / RANGE**2)
        slope = np.linalg.solve(C, (AMOUNT[1] - AMOUNT[0]) * w)
        return np.asarray(expit((self.features - np.mean(AMOUNT) * w) @ slope))


def simulate_sea(n: int, seed: int) -> Sea:
    """Independent maps, half of them storms on average."""
    rng = np.random.default_rng([seed, n])
    y = rng.integers(0, 2, n)
    u, g = STRENGTH * rng.standard_normal(n), np.take(AMOUNT, y) + AMOUNT_SD * rng.standard_normal(n)
    e = LOCAL * _root(HIGH) @ rng.standard_normal((n, HIGH, WIDE)) @ _root(WIDE).T
    return Sea(u[:, None, None] + g[:, None, None] * _pattern() + e, y)


def _pattern() -> Array:
    """W at every pixel, (HIGH, WIDE): one at the western shore, a third of it after 14 pixels."""
    across = np.exp(-np.arange(WIDE) / 13.0)
    return np.broadcast_to(across, (HIGH, WIDE))


def _root(n: int) -> Any:
    """A factor of the Gaussian correlation of n pixels in a row; the field is separable."""
    gap = np.arange(n)[:, None] - np.arange(n)
    return np.linalg.cholesky(np.exp(-0.5 * (gap / RANGE) ** 2) + 1e-9 * np.eye(n))
