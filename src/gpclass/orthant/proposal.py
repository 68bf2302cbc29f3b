"""What the guided sampler (:mod:`gpclass.orthant.guided`) needs of one set of sites.

Cost: two Cholesky factorisations and one inverse of an n×n matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas

from gpclass._typing import Array
from gpclass.numerics.linalg import factor
from gpclass.orthant.maps import SmoothFactors
from gpclass.propagation.sites import Prior, Sites

ROWS = 32  # of the draws that are computed together, in a processor's cache
LEAST = 1e-9  # least fraction of 1/s² left after dividing out site k


@dataclass(frozen=True)
class Proposal:
    """All quantities that the sampler needs for one set of sites."""

    lower: Array  # (n,)
    upper: Array  # (n,)
    mean: Array  # mu (n,)
    L: Array  # (n, n), P = L Lᵀ
    c: Array  # (n,), sd of coordinate k given the earlier ones, without its own site
    pull: Array  # (n,), m_c = pull·m − push
    push: Array  # (n,)
    flat: bool  # no sites
    quadratic: Array  # (3, n): log ∫ N(x; m_c, c²) site = q0 + q1 m_c + q2 m_c²
    log_sites: float
    sites: Sites
    jitter: float  # of P, that its factor needed
    smooth: SmoothFactors | None = None  # of coordinates without limits

    def dual(self, x: Array, z: Array) -> Array:
        """S⁻¹x of draws x = mean + L z, (n, M): L⁻ᵀz + h − T x, since P⁻¹ = S⁻¹ + T. Overwrites z."""
        found = np.asarray(blas.dtrsm(1.0, self.L.T, z.T, side=1, trans_a=1, overwrite_b=1)).T
        for a in range(0, len(x), ROWS):
            part = slice(a, a + ROWS)
            found[part] -= self.sites.precision[part, None] * x[part] - self.sites.shift[part, None]
        return found


def propose(S: Array, sites: Sites, lower: Array, upper: Array, smooth: SmoothFactors | None = None) -> Proposal:
    """Prepare the sampler for covariance S (unit diagonal, approximately) and the given sites."""
    t, h = sites.precision, sites.shift
    flat = not t.any() and not h.any()
    q = Prior(S, np.zeros(len(S))).gaussian(sites)
    sd = np.sqrt(q.P.diagonal())
    P = q.P.T  # its lower triangle is valid, and enough
    P /= sd[:, None]
    P /= sd
    L, jitter = factor(P, what="the covariance given the sites")
    mean, log_sites = q.mean, q.log_sites
    del P, q  # before the next matrix
    L *= sd[:, None]
    L = np.ascontiguousarray(L)
    s2 = np.diag(L) ** 2
    c2 = s2 / np.maximum(1 - s2 * t, LEAST)
    g = 1 + c2 * t
    quadratic = np.stack([-0.5 * np.log(g) + 0.5 * c2 * h * h / g, h / g, -0.5 * t / g])
    scales = np.sqrt(c2), c2 / s2, c2 * h
    return Proposal(lower, upper, mean, L, *scales, flat, quadratic, log_sites, sites, jitter, smooth)
