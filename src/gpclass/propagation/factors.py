"""The true factors that sites approximate, and EP's evidence.

Without one copy of its site, v_i has the cavity N(m_i, c_i). EP's evidence is the mass of the prior times all
sites, corrected factor by factor:

    log Z = log ∫ N(v; m0, K) Π sites + Σ_i w_i (log ∫ N(v; m_i, c_i) f_i(v) dv − log ∫ N(v; m_i, c_i) site_i(v) dv).

Cost: O(n). Fails when: a site nearly fixes its variable, so that the cavity is lost to rounding; the broadest
reliable cavity is then used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gpclass._typing import Array, IntArray
from gpclass.propagation.sites import Gaussian, Sites, log_site_mass

TINY = 1e-300  # replaces a variance of zero
SHARPEST = 1e-9  # least tilted variance relative to the cavity's: 1/P − T would cancel


class Factors(Protocol):
    """The true one-dimensional factors f_i that the sites approximate."""

    def tilted(self, mean: Array, var: Array) -> tuple[Array, Array, Array]:
        """For every i: log ∫ f_i N(mean_i, var_i), and mean and variance of the tilted distribution, (n,)."""

    def tilted_one(self, i: int, mean: float, var: float) -> tuple[float, float, float]:
        """The same for factor i alone."""


@dataclass(frozen=True)
class Reordered(Factors):
    """Permuted factors: factor k is factor ``order[k]`` of the given ones."""

    factors: Factors
    order: IntArray

    def tilted(self, mean: Array, var: Array) -> tuple[Array, Array, Array]:
        back = np.argsort(self.order)
        log_z, m, v = self.factors.tilted(mean[back], var[back])
        return log_z[self.order], m[self.order], v[self.order]

    def tilted_one(self, i: int, mean: float, var: float) -> tuple[float, float, float]:
        return self.factors.tilted_one(self.order.item(i), mean, var)


def evidence(factors: Factors, copies: Array, q: Gaussian, sites: Sites) -> tuple[float, Array, Array]:
    """EP's evidence at the current sites, and mean and variance (n,) of the cavities, without one copy."""
    var = np.maximum(q.variance, TINY)
    shared = np.where(copies > 0, copies, 1.0)
    t, h = sites.precision / shared, sites.shift / shared
    precision = 1 / var - t
    # A cavity lost to rounding (a site that nearly fixes its variable): use the broadest reliable one.
    cavity_var = 1 / np.where(precision > 0, precision, SHARPEST / var)
    cavity_mean = cavity_var * (q.mean / var - h)
    terms = factors.tilted(cavity_mean, cavity_var)[0] - log_site_mass(cavity_mean, cavity_var, t, h)
    return float(q.log_sites + copies @ np.where(copies > 0, terms, 0.0)), cavity_mean, cavity_var
