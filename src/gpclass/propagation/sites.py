"""Gaussian sites, and the Gaussian they form with a prior.

A site exp(h_i v_i − ½ T_i v_i²), T_i >= 0, replaces a factor f_i(v_i) of the target N(v; m0, K) Π_i f_i(v_i). The prior
times all sites is, up to its mass, N(mu, P) with P = (K^-1 + T)^-1 and mu = m0 + P (h − T m0). The factored matrix is
B = I + T^½ K T^½, whose eigenvalues are at least one: P = T^-½ (I − B^-1) T^-½, or K − K R K if a site is so weak that
the difference would cancel. How sites are fitted is described in :mod:`gpclass.propagation`.

Cost: about two Cholesky factorisations of an n×n matrix, O(n²) memory.
Fails when: K is not a covariance matrix. Reference: Rasmussen & Williams (2006), §3.6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas

from gpclass._typing import Array, BoolArray, IntArray
from gpclass.numerics.linalg import NotPositiveDefiniteError, SiteFactor, lower_gram, lower_inverse, mirror_upper

WEAK = 1e-5  # if T_i P_ii is below this, (I − B^-1)/T is inaccurate; use K − K R K


@dataclass(frozen=True)
class Sites:
    """Site i is exp(shift_i v_i − ½ precision_i v_i²)."""

    precision: Array  # T (n,), >= 0
    shift: Array  # h (n,)

    @classmethod
    def flat(cls, n: int) -> Sites:
        """Flat sites."""
        return cls(np.zeros(n), np.zeros(n))

    def take(self, order: IntArray) -> Sites:
        """The sites in another order."""
        return Sites(self.precision[order], self.shift[order])

    def only(self, kept: BoolArray) -> Sites:
        """These sites, flat where ``keep`` is False."""
        return Sites(np.where(kept, self.precision, 0.0), np.where(kept, self.shift, 0.0))


@dataclass(frozen=True)
class SiteApproximation:
    """The Gaussian q(v) = N(mean, covariance) of prior and sites, and the convergence of EP."""

    sites: Sites
    mean: Array  # mu (n,)
    covariance: Array  # P (n, n)
    log_z: float  # EP's evidence, for log ∫ N(v; m0, K) Π f_i^w_i
    log_sites: float  # log ∫ N(v; m0, K) Π sites, exact for these sites
    cavity_mean: Array  # (n,), without one copy of the site
    cavity_var: Array  # (n,)
    sweeps: int
    converged: bool
    change: float  # the largest relative change of a site, or of log Z, in the last sweep

    def widened(self, power: float) -> Sites:
        """Sites with the same mean and a broader Gaussian: precision power·T, shift h − (1 − power) T mu.

        Power 0 gives the prior's covariance at the mean of q: exponential tilting.
        """
        t, h = self.sites.precision, self.sites.shift
        return Sites(power * t, h - (1 - power) * t * self.mean)


@dataclass
class Gaussian:
    """q(v) for given sites. Only the upper triangle of P is valid."""

    P: Array
    variance: Array
    mean: Array
    log_sites: float

    @property
    def covariance(self) -> Array:
        """P, symmetric."""
        return mirror_upper(self.P)


@dataclass(frozen=True)
class Prior:
    """N(m0, K)."""

    K: Array
    m0: Array

    def gaussian(self, sites: Sites) -> Gaussian:
        """The upper triangle of P, and mean and mass by it."""
        K, m0, T, h = self.K, self.m0, sites.precision, sites.shift
        P, half_log_det = self._spread(T) if T.any() else (K.copy(), 0.0)
        shift = h - T * m0
        tilt = np.asarray(blas.dsymv(1.0, P.T, shift, lower=1))  # P (h − T m0)
        with np.errstate(over="ignore", invalid="ignore"):  # far means: no finite log Z, which callers check
            log_sites = -half_log_det + 0.5 * shift @ tilt + h @ m0 - 0.5 * (T * m0) @ m0
        return Gaussian(P, np.maximum(P.diagonal(), 0.0), m0 + tilt, float(log_sites))

    def _spread(self, T: Array) -> tuple[Array, float]:
        """Factor B. P = T^-½ (I − B^-1) T^-½, and K − K R K in the columns of weak sites; and ½ log |B|."""
        K, factor, n = self.K, SiteFactor(self.K, T), len(T)
        P = lower_gram(lower_inverse(factor.L)).T  # in C order; its upper triangle holds B^-1
        with np.errstate(divide="ignore"):
            scale = 1 / factor.root
        scale[T == 0] = 0.0
        P *= -scale[:, None]
        P *= scale
        P.flat[:: n + 1] += scale**2
        weak = np.flatnonzero(~(P.diagonal() * T > WEAK))
        if len(weak):
            if len(weak) <= n // 4:
                columns = K[:, weak] - K @ factor.solve(K[:, weak])
            else:
                A = factor.half_solve(K)
                columns = K[:, weak] - A.T @ A[:, weak]
            P[:, weak] = columns
            P[weak] = columns.T
        return P, factor.half_log_det

    def gaussian_near(self, sites: Sites, safe: Sites) -> tuple[Gaussian, Sites]:
        """The Gaussian of these sites or, if rounding breaks it, of safe ones, weaker ones, or none."""
        flat = Sites.flat(len(self.m0))
        weaker = (Sites(safe.precision * 0.5**k, safe.shift * 0.5**k) for k in range(1, 5))
        for trial in (sites, safe, *weaker, flat):
            try:
                q = self.gaussian(trial)
            except NotPositiveDefiniteError:
                continue
            if np.isfinite(q.log_sites) and np.isfinite(q.mean).all():
                return q, trial
        raise NotPositiveDefiniteError(
            "the covariance matrix contains non-finite values; check the kernel and its parameters"
        )


def log_site_mass(mean: Array, var: Array, t: Array, h: Array) -> Array:
    """The log of ∫ N(v; mean, var) exp(h v − ½ t v²) dv."""
    g = 1 + var * t
    return np.asarray(-0.5 * np.log(g) + 0.5 * (var * h * h + 2 * mean * h - mean * mean * t) / g)
