"""From labels to values for kriging, and back to probabilities.

Sites are the distinct rows of X; each has counts y_c of its N = Σ y_c labels per class.

Classical (R §2.2): the frequencies y_c/N are kriged directly; the results may leave [0,1] and need not sum to
one. The usual correction applies: clip, then divide by the sum.

Simplicial (R §2.4): estimate the probabilities at the site with a pseudo-count a per class::

    f̂_c = (y_c + a) / (N + C a),   a = p / (1 − 2p),

(one label, two classes: 1 − p for the observed class, p for the other; p = ¼ is Jeffreys' prior, a = ½), take
log-ratio coordinates, krige these, and transform back: the result is always inside ]0,1[. Known class frequencies m
become the mean coordinate Σ_c m_c · (coordinate of one label of class c), for two classes ln((1 − p)/p)(2m − 1).
With it the simplicial result follows from the classical one (R eq. 5).

Cost: O(n log n). Fails when: p is not in ]0, ½[. Reference: Tolosana-Delgado et al. (2008), Math. Geosci. 40.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit

from gpclass._typing import Array, IntArray
from gpclass.geostat.aitchison import ilr, inverse_ilr, log_inverse_ilr

TRANSFORMS = ("classical", "simplicial")


@dataclass(frozen=True)
class Sites:
    """Distinct sites and their labels."""

    X: Array  # (n, d)
    counts: Array  # (n, C)

    @property
    def trials(self) -> Array:
        """Labels at each site, (n,)."""
        return np.asarray(self.counts.sum(axis=1))

    @property
    def frequency(self) -> Array:
        """Share of each class among all labels, (C,)."""
        return np.asarray(self.counts.sum(axis=0) / self.counts.sum())


def merge_sites(X: Array, labels: IntArray, weight: Array, n_classes: int) -> Sites:
    """Collect the labels (n,) of equal rows of X; each counts ``weight`` times."""
    kept = weight > 0
    places, index = np.unique(X[kept] + 0.0, axis=0, return_inverse=True)
    counts = np.zeros((len(places), n_classes))
    np.add.at(counts, (index.ravel(), labels[kept]), weight[kept])
    return Sites(places, counts)


def site_values(counts: Array, transform: str, p: float) -> Array:
    """The values to krige, (n, q): q = 1 for two classes; else C frequencies or C − 1 log-ratio coordinates."""
    two = counts.shape[1] == 2
    if transform == "classical":
        share = counts / counts.sum(axis=1, keepdims=True)
        return np.asarray(share[:, 1:] if two else share)
    if not 0 < p < 0.5:
        raise ValueError(f"p must lie between 0 and 0.5, not {p}; 0.25 is Jeffreys' estimate")
    smoothed = counts + p / (1.0 - 2.0 * p)
    if two:  # ln((y_1 + a)/(y_0 + a)) from the difference of counts, accurate for p near 0 or ½
        gap = counts[:, 1:] - counts[:, :1]
        return np.asarray(np.sign(gap) * np.log1p(np.abs(gap) / smoothed.min(axis=1, keepdims=True)))
    return ilr(smoothed / smoothed.sum(axis=1, keepdims=True))


def mean_value(frequency: Array, transform: str, p: float) -> Array:
    """The known mean (q,) for class frequencies (C,)."""
    each = site_values(np.eye(len(frequency)), transform, p)  # (C, q): one label of each class
    return np.asarray(frequency @ each)


def probabilities(values: Array, transform: str) -> Array:
    """Kriged values (m, q) as class probabilities (m, C) before any correction."""
    if transform == "classical":
        return np.hstack([1.0 - values, values]) if values.shape[1] == 1 else values
    if values.shape[1] == 1:
        return np.hstack([expit(-values), expit(values)])
    return inverse_ilr(values)


def log_probabilities(values: Array) -> Array:
    """Logarithms (m, C) of the probabilities at simplicial values (m, q), accurate near 0 and 1."""
    if values.shape[1] == 1:
        return np.asarray(log_expit(np.hstack([-values, values])))
    return log_inverse_ilr(values)


def correct(raw: Array) -> Array:
    """Probabilities (m, C) inside [0,1] that sum to one: clipped, then divided by their sum."""
    clipped = np.clip(raw, 0.0, 1.0)
    total = clipped.sum(axis=1, keepdims=True)
    even = np.full_like(clipped, 1.0 / clipped.shape[1])  # all classes clipped to zero: uniform
    return np.asarray(np.divide(clipped, total, out=even, where=total != 0))  # NaN stays NaN


@dataclass(frozen=True)
class Outside:
    """How far raw kriged probabilities leave [0,1]."""

    n: int  # points
    count: int  # points where some class is outside [0,1]
    below: float  # largest amount below 0
    above: float  # largest amount above 1

    @property
    def share(self) -> float:
        """Fraction of the points."""
        return self.count / self.n if self.n else 0.0

    @property
    def worst(self) -> float:
        """Largest distance from [0,1]."""
        return max(self.below, self.above)


def outside(raw: Array) -> Outside:
    """Count raw probabilities (m, C) outside [0,1]. Rounding (1e-12) does not count.

    For two classes only the second is tested: one is below 0 if the other is above 1.
    """
    raw = raw[:, 1:] if raw.shape[1] == 2 else raw
    below, above = np.maximum(-raw, 0.0), np.maximum(raw - 1.0, 0.0)
    out = np.any((below > 1e-12) | (above > 1e-12), axis=1)
    return Outside(len(raw), int(out.sum()), float(below.max(initial=0.0)), float(above.max(initial=0.0)))
