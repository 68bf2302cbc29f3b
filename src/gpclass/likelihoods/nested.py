r"""EP's sites of the multinomial probit: C − 1 constraints per row, fitted inside the row.

Utilities u_c = f_c + ε_c; row i requires v_c = u_{y_i} − u_c > 0 for every class c ≠ y_i. Each constraint has a site
exp(h v − ½ t v²). With the noise ε integrated out, a row's C − 1 sites are one site on its C latent values in the short
form of :mod:`gpclass.likelihoods.local`: D_y = 1 and D_c = t_c/(1 + t_c) (the true class's utility is a hub that the
others are compared with), so that no n(C−1)-dimensional matrix is needed.

An update divides the row's own sites out of its marginal, N(μ₋, Σ₋), and fits the C − 1 sites one after another, twice,
to N(A μ₋, A (Σ₋ + I) Aᵀ) restricted to v > 0. If all rows do so in turn, the fixed point is that of EP on the
n(C−1)-dimensional orthant.
Cost: O(C³) per row. Fails when: rounding leaves no cavity (the site is then bounded).
References: Minka (2001); Riihimäki, Jylänki & Vehtari (2013), Nested expectation propagation for Gaussian process
classification with a multinomial probit likelihood. The hub form is ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from gpclass._typing import Array, IntArray
from gpclass.numerics.special import hazard_terms
from gpclass.propagation.sites import log_site_mass

LEAST, MOST = 1e-8, 1e8  # range of a site's precision; accuracy is lost beyond it
PASSES = 2  # updates of a row's sites against each other
SHARPEST = 1e-12  # least variance, and least share of a precision that a cavity keeps
FARTHEST = 1e6  # standard deviations from a constraint, beyond which sites have diverged


@dataclass(frozen=True)
class PointSites:
    """Sites exp(h v − ½ t v²) of each row's C − 1 constraints, the classes c ≠ y in their order."""

    t: Array  # (n, C − 1)
    h: Array  # (n, C − 1)

    @classmethod
    def of(cls, numbers: Array) -> PointSites:
        """From rows' numbers (2(C − 1), n)."""
        half = len(numbers) // 2
        return cls(numbers[:half].T, numbers[half:].T)

    @property
    def numbers(self) -> Array:
        """As rows' numbers, (2(C − 1), n)."""
        return np.concatenate([self.t.T, self.h.T])

    @property
    def shift(self) -> Array:
        """x = (I + T A Aᵀ)⁻¹ h with A Aᵀ = I + 1 1ᵀ: the sites' shifts in latent differences, (n, C−1)."""
        s, d = self.h / (1.0 + self.t), self.t / (1.0 + self.t)
        return np.asarray(s - d * (s.sum(axis=1) / (1.0 + d.sum(axis=1)))[:, None])

    @property
    def log_noise(self) -> Array:
        """Log mass of the sites over the noise ε at f = 0, (n,)."""
        x, d = self.shift, self.t / (1.0 + self.t)
        own = 0.5 * ((self.h * x).sum(axis=1) + self.h.sum(axis=1) * x.sum(axis=1))
        return np.asarray(own - 0.5 * (np.log1p(self.t).sum(axis=1) + np.log(1.0 + d.sum(axis=1))))


def other_classes(y: IntArray, C: int) -> IntArray:
    """The classes that are not the row's own, in order, (n, C − 1)."""
    every = np.broadcast_to(np.arange(C), (len(y), C))
    return np.asarray(every[every != y[:, None]].reshape(len(y), C - 1))


def hub_form(y: IntArray, sites: PointSites) -> tuple[Array, Array]:
    """D and b, (C, n) each, of one copy of each row's site on its latent values."""
    n, d = sites.t.shape
    rows, others = np.arange(n), other_classes(y, d + 1)
    D, b, x = np.ones((d + 1, n)), np.empty((d + 1, n)), sites.shift
    D[others, rows[:, None]] = sites.t / (1.0 + sites.t)
    b[y, rows] = x.sum(axis=1)
    b[others, rows[:, None]] = -x
    return D, b


def sharp_sites(y: IntArray, variance: Array) -> PointSites:
    """Sites on the scale of latent values of variance (C, n), ten times sharper than one constraint alone."""
    rows, others = np.arange(len(y)), other_classes(y, len(variance))
    own = variance[y, rows][:, None] + variance[others, rows[:, None]] + 2.0
    return PointSites(10.0 / own, np.sqrt(10.0 / own))


def differences(y: IntArray, m: Array, S: Array) -> tuple[Array, Array]:
    """Mean (n, C−1) and covariance of v for latent values N(m, S), m (C, n) and S (n, C, C), noise added."""
    S = S + np.eye(len(m))
    rows, others = np.arange(len(y)), other_classes(y, len(m))
    r, hub = rows[:, None], y[:, None]
    with_own = S[r, hub, others]  # (n, C−1)
    Q = S[rows[:, None, None], others[:, :, None], others[:, None, :]] + S[r, hub, hub][:, :, None]
    Q -= with_own[:, :, None] + with_own[:, None, :]
    return m[hub, r] - m[others, r], Q


def local_moments(m: Array, Q: Array, sites: PointSites) -> tuple[Array, Array]:
    """Mean and covariance of N(m, Q) times the sites, in every row."""
    system = np.eye(m.shape[1]) + Q * sites.t[:, None, :]
    rhs = np.concatenate([Q, (m + np.einsum("iab,ib->ia", Q, sites.h))[:, :, None]], axis=2)
    solved = np.linalg.solve(system, rhs)
    return solved[:, :, -1], solved[:, :, :-1]


def log_corrections(mean: Array, P: Array, sites: PointSites) -> Array:
    """Σ over a row's constraints of log ∫ cavity × indicator − log ∫ cavity × site, (n,), from its local moments."""
    var = np.maximum(np.einsum("ijj->ij", P), SHARPEST)
    cavity_var = var / np.maximum(1.0 - var * sites.t, SHARPEST)
    cavity_mean = cavity_var * (mean / var - sites.h)
    terms = log_ndtr(cavity_mean / np.sqrt(cavity_var))
    terms -= log_site_mass(cavity_mean, cavity_var, sites.t, sites.h)
    return np.asarray(terms.sum(axis=1))


def fitted_sites(mean: Array, P: Array, sites: PointSites) -> PointSites:
    """Each row's sites fitted to its cavity restricted to v > 0, one after another, from the present ones.

    Starts from the row's local moments with the present sites.
    """
    mean, P = mean.copy(), P.copy()
    t, h = sites.t.copy(), sites.h.copy()
    for _ in range(PASSES):
        for j in range(t.shape[1]):
            column, var = P[:, :, j].copy(), np.maximum(P[:, j, j], SHARPEST)
            cavity_var = var / np.maximum(1.0 - var * t[:, j], SHARPEST)
            sd = np.sqrt(cavity_var)
            z = np.clip(sd * (mean[:, j] / var - h[:, j]), -FARTHEST, FARTHEST)
            _, excess, tau, _ = hazard_terms(z)
            t_new = np.clip((1.0 / tau - 1.0) / cavity_var, LEAST, MOST)
            h_new = excess / (tau * sd) - z / sd
            dt, dh = t_new - t[:, j], h_new - h[:, j]
            gain = 1.0 / (1.0 + dt * var)
            mean += column * ((dh - dt * mean[:, j]) * gain)[:, None]
            P -= (column * (dt * gain)[:, None])[:, :, None] * column[:, None, :]
            t[:, j], h[:, j] = t_new, h_new
    return PointSites(t, h)
