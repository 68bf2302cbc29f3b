"""Coordinates in which a field is isotropic: rotated and stretched axes, or chords through the earth.

Geometric anisotropy: x ↦ D⁻¹ Rᵀ x, with a rotation R onto the axes of the field and D = diag(1, ratios). An
isotropic kernel of length l on these coordinates has length l along the first axis and l·ratio along the
others. (Anisotropy along the given axes only needs one length scale per coordinate.)

Longitude and latitude: x = R (cos φ cos λ, cos φ sin λ, sin φ). Euclidean distance is then the chord, for which
every kernel remains a valid covariance; for great-circle distance this is not guaranteed (Matérn fails for ν > ½).

Cost: O(n d²). Fails when: latitudes lie outside [−90, 90]. References: Chilès & Delfiner (1999); Gneiting (2013),
Bernoulli 19, for the sphere.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from gpclass._typing import Array

EARTH_RADIUS_KM = 6371.0088  # mean radius


class Anisotropy(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]  # untyped bases
    """Rotate and stretch coordinates so that an anisotropic field becomes isotropic.

    Parameters
    ----------
    angle : float or sequence of float, default=0.0
        Rotation in degrees, counter-clockwise from the first axis to the direction of longest range. In
        three dimensions three angles, in the planes (1,2), (1,3), (2,3) with alternating signs (Tait–Bryan).
    ratio : float or sequence of float, default=1.0
        Range across divided by range along, for the second (and third) axis.
    """

    def __init__(self, angle: float | tuple[float, ...] = 0.0, ratio: float | tuple[float, ...] = 1.0) -> None:
        self.angle = angle
        self.ratio = ratio

    def angle_list(self, d: int) -> Array:
        """One angle per plane, in degrees; missing ones are zero."""
        planes = d * (d - 1) // 2
        angles = np.atleast_1d(np.asarray(self.angle, dtype=float))
        if d > 3 and np.any(angles != 0):
            raise ValueError("rotation needs two or three coordinates; use one length scale per coordinate")
        if len(angles) > max(planes, 1):
            raise ValueError(f"{len(angles)} angles for {d} coordinates, which have {planes} planes")
        return np.concatenate([angles, np.zeros(max(planes - len(angles), 0))])[:planes]

    def ratio_list(self, d: int) -> Array:
        """One ratio per axis after the first; a single ratio applies to all."""
        ratios = np.atleast_1d(np.asarray(self.ratio, dtype=float))
        if np.any(ratios <= 0) or not np.isfinite(ratios).all():
            raise ValueError(f"ratios must be positive, not {self.ratio}")
        if len(ratios) not in (1, d - 1):
            raise ValueError(f"{len(ratios)} ratios for {d} coordinates; give one, or {d - 1}")
        return np.broadcast_to(ratios, (d - 1,))

    def fit(self, X: npt.ArrayLike, y: Any = None) -> Self:
        """Build the matrix for the number of columns of X."""
        validate_data(self, X)
        d = self.n_features_in_
        rotation = np.eye(d)
        planes = [(i, j) for i in range(d) for j in range(i + 1, d)]
        for k, ((i, j), degrees) in enumerate(zip(planes, self.angle_list(d), strict=False)):
            angle = (-1) ** k * np.deg2rad(degrees)
            turn = np.eye(d)
            turn[i, i] = turn[j, j] = np.cos(angle)
            turn[i, j], turn[j, i] = -np.sin(angle), np.sin(angle)
            rotation = turn @ rotation
        stretch = np.concatenate([[1.0], 1.0 / self.ratio_list(d)]) if d > 1 else np.ones(1)
        self.matrix_: Array = stretch[:, None] * rotation.T  # (d, d), x ↦ D⁻¹ Rᵀ x
        return self

    def transform(self, X: npt.ArrayLike) -> Array:
        """Isotropic coordinates, (n, d)."""
        check_is_fitted(self)
        x: Array = validate_data(self, X, reset=False, dtype=np.float64)
        return np.asarray(x @ self.matrix_.T)

    def inverse_transform(self, X: npt.ArrayLike) -> Array:
        """The original coordinates of isotropic ones."""
        check_is_fitted(self)
        return np.asarray(np.linalg.solve(self.matrix_, np.asarray(X, dtype=float).T).T)


class ChordalCoordinates(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # untyped bases
    """Longitude and latitude in degrees (first two columns) as points on a sphere.

    Parameters
    ----------
    radius : float, default=6371.0088
        Radius of the sphere; the earth's in km, so that length scales are km.

    Notes
    -----
    Additional columns (depth, time) follow the three coordinates unchanged.
    """

    def __init__(self, radius: float = EARTH_RADIUS_KM) -> None:
        self.radius = radius

    def fit(self, X: npt.ArrayLike, y: Any = None) -> Self:
        """Check the columns."""
        if not self.radius > 0:
            raise ValueError(f"radius must be positive, not {self.radius}")
        _lonlat(validate_data(self, X))
        return self

    def transform(self, X: npt.ArrayLike) -> Array:
        """Coordinates (n, 3 + additional columns)."""
        check_is_fitted(self, "n_features_in_")
        x: Array = validate_data(self, X, reset=False, dtype=np.float64)
        lon, lat = _lonlat(x)
        ball = np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
        return np.hstack([self.radius * ball, x[:, 2:]])

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Names of the coordinates."""
        rest = [f"x{i}" for i in range(2, self.n_features_in_)]
        if input_features is not None:
            rest = list(np.asarray(input_features, dtype=object)[2:])
        return np.array(["chord_x", "chord_y", "chord_z", *rest], dtype=object)


def _lonlat(X: Array) -> tuple[Array, Array]:
    if X.shape[1] < 2:
        raise ValueError("X needs two columns, longitude and latitude in degrees")
    if np.any(np.abs(X[:, 1]) > 90):
        raise ValueError("latitudes (second column) must lie in [-90, 90] degrees; are the columns swapped?")
    return np.deg2rad(X[:, 0]), np.deg2rad(X[:, 1])


def check_sites(X: npt.ArrayLike, values: npt.ArrayLike | None) -> tuple[Array, Any]:
    """Coordinates (n, d) and the values there, if any, after checking that they are finite and as many."""
    x, v = np.asarray(X, dtype=float), None if values is None else np.asarray(values, dtype=float)
    if x.ndim != 2 or len(x) < 2:
        raise ValueError("X must be a table (n, d) of at least two sites")
    if v is not None and len(v) != len(x):
        raise ValueError(f"{len(v)} values for {len(x)} sites")
    if not np.isfinite(x).all() or (v is not None and not np.isfinite(v).all()):
        raise ValueError("coordinates and values must be finite; drop the rows with missing values")
    return x, v
