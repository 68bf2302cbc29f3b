"""The normal distribution on ]0,1[ and on the hypercube ]0,1[^n.

Z is normal on ]0,1[ when its coordinate logit(Z)/c0 is N(μ, σ²) (R eqs. 6 and 7)::

    g(z) = 1 / (z (1 − z)) · 1 / (c0 σ √2π) · exp(−(logit z − c0 μ)² / (2 c0² σ²))        (Lebesgue)

Only c0 μ and c0 σ matter, so for μ = 0 scaling c0 is the same as scaling σ (R Remark 3). Densities with respect
to Aitchison's measure dz/(z(1 − z)) omit the first factor. The distribution function and the quantiles have closed
forms; moments use the quadrature of :mod:`.distribution`.

Cost: O(size); O(n³) once for the hypercube. Fails when: the variance is not positive.

Reference: Pawlowsky-Glahn (2003), CoDaWork'03; R §3.1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular
from scipy.special import expit, log_expit, logit, ndtr, ndtri

from gpclass._typing import Array
from gpclass.geostat.aitchison.distribution import Aitchison, InvalidDistributionError, _check_measure
from gpclass.geostat.aitchison.geometry import open_interval
from gpclass.numerics.linalg import factor


@dataclass(frozen=True)
class IntervalNormal(Aitchison):
    """The normal on ]0,1[: logit(Z)/scale ~ N(location, variance).

    Parameters
    ----------
    location, variance : float
        Mean and variance of the coordinate.
    scale : float, default=1.0
        c0, the unit of the coordinate.
    """

    location: float = 0.0
    variance: float = 1.0
    scale: float = 1.0
    theta1: float = field(init=False, repr=False)
    theta2: float = field(init=False, repr=False)
    psi: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        vars(self).update(vars(Aitchison.normal(self.location, self.variance, self.scale)))  # and checks them

    @property
    def as_aitchison(self) -> Aitchison:
        """The same distribution, with the quadrature of all Aitchison distributions."""
        return Aitchison(self.theta1, self.theta2, self.psi)

    @property
    def logit_mean(self) -> float:
        """Mean of logit Z, c0 μ."""
        return self.scale * self.location

    @property
    def logit_sd(self) -> float:
        """Standard deviation of logit Z, c0 σ."""
        return float(self.scale * np.sqrt(self.variance))

    def _log_density(self, x: Array) -> Array:
        u = (x - self.logit_mean) / self.logit_sd
        return np.asarray(-0.5 * u**2 - np.log(self.logit_sd) - 0.5 * np.log(2.0 * np.pi))

    def cdf(self, z: npt.ArrayLike) -> Array:
        with np.errstate(divide="ignore"):
            x = logit(np.clip(np.asarray(z, dtype=float), 0.0, 1.0))
        return np.asarray(ndtr((x - self.logit_mean) / self.logit_sd))

    def _logit_ppf(self, q: Array) -> Array:
        return np.asarray(self.logit_mean + self.logit_sd * ndtri(q))

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        return np.asarray(expit(rng.normal(self.logit_mean, self.logit_sd, n)))

    def centre(self) -> float:
        """Mean in Aitchison's geometry, also the median: logit⁻¹(c0 μ)."""
        return float(expit(self.logit_mean))


@dataclass(frozen=True)
class HypercubeNormal:
    """The normal on ]0,1[^n: logit(Z)/scale ~ N(location, covariance) (R Definition 2)."""

    location: Array  # (n,)
    covariance: Array  # (n, n)
    scale: float = 1.0

    def __post_init__(self) -> None:
        location = np.atleast_1d(np.asarray(self.location, dtype=float))
        covariance = np.atleast_2d(np.asarray(self.covariance, dtype=float))
        if covariance.shape != (len(location), len(location)):
            raise ValueError(f"covariance has shape {covariance.shape}, location has {len(location)} entries")
        if not np.allclose(covariance, covariance.T):
            raise InvalidDistributionError("covariance is not symmetric")
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise InvalidDistributionError("scale must be positive")
        object.__setattr__(self, "location", location)
        object.__setattr__(self, "covariance", covariance)

    @cached_property
    def _factor(self) -> Array:
        """Lower factor of the covariance of logit Z, c0² Σ, (n, n)."""
        return self.scale * factor(self.covariance)[0]

    def logpdf(self, z: npt.ArrayLike, measure: str = "lebesgue") -> Array:
        """Log-density at points z (..., n) inside the hypercube."""
        _check_measure(measure)
        array = open_interval(z)
        x = logit(array)
        shift = (x - self.scale * self.location).reshape(-1, len(self.location))
        u = solve_triangular(self._factor, shift.T, lower=True)  # (n, m)
        value = -0.5 * np.einsum("ij,ij->j", u, u) - np.log(np.diag(self._factor)).sum()
        value = (value - 0.5 * len(self.location) * np.log(2.0 * np.pi)).reshape(array.shape[:-1])
        if measure == "lebesgue":
            value = value - (log_expit(x) + log_expit(-x)).sum(axis=-1)
        return np.asarray(value)

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        """N independent draws, (n, dimension)."""
        noise = rng.standard_normal((n, len(self.location)))
        return np.asarray(expit(self.scale * self.location + noise @ self._factor.T))

    def marginal(self, i: int) -> IntervalNormal:
        """The marginal distribution of coordinate i."""
        return IntervalNormal(float(self.location[i]), float(self.covariance[i, i]), self.scale)
