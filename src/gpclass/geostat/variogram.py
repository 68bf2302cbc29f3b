"""The empirical variogram: half the mean squared difference against distance.

    γ(h) = 1/(2 N_h) Σ (v_i − v_j)²                                   Matheron's estimator
    γ(h) = ½ (1/N_h Σ |v_i − v_j|^½)⁴ / (.457 + .494/N_h)              Cressie & Hawkins' robust one

over the N_h pairs whose distance falls in a lag class, for one or several values per site (their variograms are
summed: the trace, which is invariant to rotations of the values). With site weights w each pair counts w_i w_j.

Cost: O(n² d) time, O(n) memory per block of rows. Fails when: there are fewer than two sites, or no pair within
the largest lag. The robust estimator assumes Gaussian differences: on indicators it is far too small, and a
warning is issued.

Reference: Matheron (1962); Cressie & Hawkins (1980), Math. Geology 12.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from gpclass._html import Tabular
from gpclass._typing import Array, IntArray
from gpclass.geostat.coordinates import check_sites

ESTIMATORS = ("matheron", "cressie")
Cone: TypeAlias = tuple[Array, float, float]  # unit vector, cosine of the tolerance, bandwidth
BLOCK = 2_000_000  # pairs held at once


@dataclass(frozen=True, repr=False)
class EmpiricalVariogram(Tabular):
    """Lag classes that hold at least one pair."""

    lag: Array  # (B,), mean distance of the pairs in the class
    gamma: Array  # (B,), semivariance
    pairs: IntArray  # (B,), number of pairs
    edges: Array  # limits of all classes, including empty ones
    estimator: str = "matheron"
    direction: tuple[float, ...] | None = None  # unit vector, for a directional variogram

    def __len__(self) -> int:
        return len(self.lag)

    def _head(self) -> Sequence[str]:
        return "mean distance", "semivariance", "pairs"

    def _rows(self) -> Sequence[Sequence[str]]:
        return [(f"{h:.4g}", f"{g:.4g}", str(n)) for h, g, n in zip(self.lag, self.gamma, self.pairs, strict=True)]


def empirical_variogram(
    X: npt.ArrayLike,
    values: npt.ArrayLike,
    *,
    estimator: str = "matheron",
    lags: int | npt.ArrayLike = 15,
    max_lag: float | None = None,
    lag_choice: str = "width",
    direction: float | npt.ArrayLike | None = None,
    tolerance: float = 22.5,
    bandwidth: float = np.inf,
    weights: npt.ArrayLike | None = None,
) -> EmpiricalVariogram:
    """Semivariances of values at sites X, by classes of distance.

    Parameters
    ----------
    X : array (n, d)
        Coordinates. Transform longitudes and latitudes with :class:`ChordalCoordinates` first.
    values : array (n,) or (n, q)
        The variable, or q variables whose variograms are summed.
    estimator : {"matheron", "cressie"}
        Classical or robust.
    lags : int or array
        Number of classes, or their limits (ascending).
    max_lag : float, optional
        Largest distance; half the diagonal of the bounding box by default.
    lag_choice : {"width", "count"}
        Classes of equal width, or with about equal numbers of pairs.
    direction : float or array (d,), optional
        Only pairs along this direction: an angle in degrees, counter-clockwise from the first axis (two
        dimensions), or a vector.
    tolerance : float
        Largest angle between a pair and the direction, in degrees.
    bandwidth : float
        Largest distance of a pair from the line along the direction.
    weights : array (n,), optional
        Site weights, for example from :func:`cell_declustering`.
    """
    x, v = check_sites(X, values)
    v, w = v[:, None] if v.ndim == 1 else v, None
    if weights is not None:
        w = np.asarray(weights, dtype=float)
        if w.shape != (len(x),) or not np.all(w >= 0) or not 0 < w.sum() < np.inf:
            raise ValueError("weights must be one non-negative number per site, not all zero")
        there = w > 0  # drop sites of weight zero: their pairs must not be counted
        x, v, w = x[there], v[there], w[there]
    if estimator not in ESTIMATORS:
        raise ValueError(f"estimator must be one of {ESTIMATORS}, not {estimator!r}")
    if estimator == "cressie" and v.shape[1] == 1 and len(np.unique(v)) <= 2:
        warnings.warn(
            "Cressie and Hawkins' estimator assumes Gaussian differences and is far too small on "
            "indicators; use estimator='matheron'",
            UserWarning,
            stacklevel=2,
        )
    cone = _cone(direction, tolerance, bandwidth, x.shape[1])
    edges = _edges(x, lags, max_lag, lag_choice)
    pairs, distance, weight, spread = _accumulate(x, v, w, edges, cone, estimator)
    used = weight > 0
    if not used.any():
        raise ValueError(f"no pair of sites (of positive weight) lies within {edges[-1]:g}; raise max_lag or tolerance")
    pairs, mean = pairs[used], spread[used] / weight[used, None]
    if estimator == "matheron":
        gamma = mean.sum(axis=1) / 2.0
    else:
        gamma = (mean**4).sum(axis=1) / (0.457 + 0.494 / pairs) / 2.0
    axis = None if cone is None else tuple(map(float, cone[0]))
    return EmpiricalVariogram(distance[used] / pairs, gamma, pairs, edges, estimator, axis)


def _accumulate(
    x: Array, v: Array, w: Array | None, edges: Array, cone: Cone | None, estimator: str
) -> tuple[IntArray, Array, Array, Array]:
    """Pairs, sums of distances and of weights (B,), and Σ w (v_i − v_j)² or Σ w |v_i − v_j|^½ (B, q), of i < j."""
    n_bins, q = len(edges) - 1, v.shape[1]
    pairs = np.zeros(n_bins, dtype=np.intp)
    distance, weight, spread = np.zeros(n_bins), np.zeros(n_bins), np.zeros((n_bins, q))
    step = max(1, BLOCK // len(x))
    for start in range(0, len(x), step):
        r = cdist(x[start : start + step], x)
        below = np.arange(len(x)) > np.arange(start, start + len(r))[:, None]
        i, j = np.nonzero(below & (r >= edges[0]) & (r < edges[-1]))
        r_pair = r[i, j]
        i = i + start
        if cone is not None:
            axis, cosine, bandwidth = cone
            along = np.abs((x[i] - x[j]) @ axis)  # a pair and its reverse are the same
            off = np.sqrt(np.maximum(r_pair**2 - along**2, 0.0))
            kept = (along >= cosine * r_pair * (1 - 1e-12)) & (off <= bandwidth)
            i, j, r_pair = i[kept], j[kept], r_pair[kept]
        bin_ = np.searchsorted(edges, r_pair, side="right") - 1
        w_pair = None if w is None else w[i] * w[j]
        pairs += np.bincount(bin_, minlength=n_bins)
        distance += np.bincount(bin_, r_pair, n_bins)
        weight += np.bincount(bin_, w_pair, n_bins)
        for k in range(q):
            gap = np.abs(v[i, k] - v[j, k])
            term = gap**2 if estimator == "matheron" else np.sqrt(gap)
            spread[:, k] += np.bincount(bin_, term if w_pair is None else w_pair * term, n_bins)
    return pairs, distance, weight, spread


def _edges(x: Array, lags: int | npt.ArrayLike, max_lag: float | None, lag_choice: str) -> Array:
    if np.ndim(lags) == 1:
        edges = np.asarray(lags, dtype=float)
        if len(edges) < 2 or np.any(np.diff(edges) <= 0) or edges[0] < 0:
            raise ValueError("lag limits must be at least two ascending distances, none negative")
        return edges
    n_bins = int(np.asarray(lags))
    if n_bins < 1:
        raise ValueError(f"lags must be at least 1, not {n_bins}")
    if lag_choice not in ("width", "count"):
        raise ValueError(f"lag_choice must be 'width' or 'count', not {lag_choice!r}")
    top = float(np.linalg.norm(np.ptp(x, axis=0)) / 2.0) if max_lag is None else float(max_lag)
    if not top > 0:
        raise ValueError("all sites coincide, or max_lag is not positive: no lag classes can be formed")
    if lag_choice == "width":
        return np.linspace(0.0, top, n_bins + 1)
    rows = x[:: max(1, len(x) // 1500)]  # a million pairs are enough for the quantiles
    r = cdist(rows, x).ravel()
    r = r[(r > 0) & (r < top)]
    if len(r) == 0:
        raise ValueError(f"no pair of sites lies within {top:g}; raise max_lag")
    inner = np.quantile(r, np.linspace(0, 1, n_bins + 1)[1:-1])
    return np.unique(np.concatenate([[0.0], inner, [top]]))


def _cone(direction: float | npt.ArrayLike | None, tolerance: float, bandwidth: float, d: int) -> Cone | None:
    if direction is None:
        return None
    if np.ndim(direction) == 0:
        if d != 2:
            raise ValueError(f"an angle gives a direction in two dimensions; pass a vector of length {d}")
        angle = np.deg2rad(float(np.asarray(direction)))
        axis = np.array([np.cos(angle), np.sin(angle)])
    else:
        axis = np.asarray(direction, dtype=float)
    if axis.shape != (d,) or not np.linalg.norm(axis) > 0:
        raise ValueError(f"direction must be a vector of length {d}, not zero")
    if not 0 < tolerance <= 90:
        raise ValueError(f"tolerance must lie in ]0, 90] degrees, not {tolerance}")
    return axis / np.linalg.norm(axis), float(np.cos(np.deg2rad(tolerance))), float(bandwidth)
