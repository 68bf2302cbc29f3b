r"""What one row contributes: its site, its marginals, its terms of the evidence.

A row holds a site exp(h f − ½ t f²) on its latent value f = g + e, g = aᵀu, e ~ N(0, λ). Seen from u the rest e is
integrated out, which leaves a site on g of precision s = t/(1 + λt) and shift r = h/(1 + λt). With N(g; μ_g, v) the
marginal of g under q(u):

- α = r − s μ_g, so that E f = μ_g + λα and var f = λ/(1 + λt) + v/(1 + λt)²;
- the cavity of the row: v₋ = v/(1 − v s), m₋ = (μ_g − v r)/(1 − v s), and V = v₋ + λ for f.

No formula divides by v: a row far from every inducing input has a ≈ 0 and v ≈ 0, its site depends on λ alone and has
nothing to say about u.

EP's site from the cavity of f, N(M, V): with α, β the first and minus the second derivative of log ∫ N(f; M, V) p(y|f)
by M, t = β/(1 − Vβ) and h = (α + Mβ)/(1 − Vβ). For the probit with b = s²V and z = s y M/√(1+b):
t = s² h(z)(z + h(z))/(1 + bτ) in the notation of :mod:`gpclass.likelihoods`, where nothing cancels.

A weight w is ⌈w⌉ copies of the row, each with a rest of its own and the likelihood to the power w/⌈w⌉; the copies share
one site, counted ⌈w⌉ times. So a whole weight is that many equal rows.
Cost: O(1) a row. Reference: Naish-Guzman & Holden (2008), The generalized FITC approximation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from gpclass._typing import Array
from gpclass.likelihoods.binary import BinaryLikelihood, Probit
from gpclass.model.rows import Shard
from gpclass.numerics.special import hazard_terms
from gpclass.propagation.sites import log_site_mass

SMALL = 1e-7  # a cavity variance, times scale², below which derivatives at its mean serve
SHARPEST = 1e-12  # of 1 − v s, where it is lost to rounding


@dataclass(frozen=True)
class Labels:
    """Labels and weights of some rows."""

    y: Array  # (r,)
    copies: Array | float  # (r,), whole
    power: Array | float  # (r,), in ]0, 1]

    @classmethod
    def of(cls, shard: Shard, rows: slice) -> Labels:
        """Those of a block of a shard; a row that is left out has no copies."""
        y, weights = shard.y[rows], None if shard.weights is None else shard.weights[rows]
        if shard.absent is not None:
            present = np.ones(len(shard))
            present[shard.absent] = 0.0
            weights = present[rows] if weights is None else weights * present[rows]
        if weights is None or np.all(weights == 1.0):
            return cls(y, 1.0, 1.0)
        copies = np.ceil(weights)
        power = np.divide(weights, copies, out=np.ones_like(copies), where=copies > 0)
        return cls(y, copies, 1.0 if np.all(power == 1.0) else power)

    def clear_absent(self, sites: Array) -> Array:
        """The sites, flat where a row is left out."""
        return sites if isinstance(self.copies, float) else np.where(self.copies > 0, sites, 0.0)

    @property
    def plain(self) -> bool:
        """Whether the likelihood stands as it is."""
        return isinstance(self.power, float)


@dataclass(frozen=True)
class Marginals:
    """A row's marginals under q(u), one copy of its site at (t, h)."""

    t: Array
    h: Array
    rest: Array  # λ
    s: Array  # precision of the site on g
    alpha: Array  # r − s μ_g
    mean: Array  # of g
    var: Array  # of g

    @classmethod
    def at(cls, sites: Array, rest: Array, mean: Array, var: Array) -> Marginals:
        """From the site, λ and the marginal of g."""
        t, h = sites
        shrink = 1.0 / (1.0 + rest * t)
        s = t * shrink
        return cls(t, h, rest, s, h * shrink - s * mean, mean, var)

    @property
    def latent(self) -> tuple[Array, Array]:
        """Mean and variance of f."""
        shrink = 1.0 / (1.0 + self.rest * self.t)
        return self.mean + self.rest * self.alpha, (self.rest + self.var * shrink) * shrink

    @property
    def cavity(self) -> tuple[Array, Array]:
        """Mean and variance of f with one copy of the row taken out."""
        left = np.maximum(1.0 - self.var * self.s, SHARPEST)
        # μ_g − v r = μ_g (1 − v s) − v α
        return self.mean - self.var * self.alpha / left, self.var / left + self.rest

    @property
    def log_rest(self) -> Array:
        """Log mass of the site over e: the part of log ∫ prior × sites that is not in u."""
        return np.asarray(
            -0.5 * np.log1p(self.rest * self.t) + 0.5 * self.rest * self.h**2 / (1 + self.rest * self.t)
        )


def match_moments(likelihood: BinaryLikelihood, labels: Labels, M: Array, V: Array) -> tuple[Array, Array]:
    """EP's site of the cavity N(M, V), (2, r), and the log of the factor's mass, (r,)."""
    scale, y = likelihood.scale, labels.y
    b = scale**2 * V
    if isinstance(likelihood, Probit) and labels.plain:
        root = np.sqrt(1.0 + b)
        z = scale * y * M / root
        h, excess, tau, _ = hazard_terms(z)
        shared = 1.0 / (1.0 + b * tau)
        t = scale**2 * h * excess * shared
        # (α + Mβ)/(1 − Vβ), α = s y h/root, 1 − Vβ = (1 + bτ)/(1 + b)
        shift = scale * y * h * root * shared + M * t
        return np.stack([t, shift]), log_ndtr(z)
    if labels.plain:
        log_z, mean, var = likelihood.tilted(y, M, np.maximum(V, 1e-300))
    else:
        log_z, mean, var = likelihood.powered_tilted(y, M, np.maximum(V, 1e-300), labels.power)
    _, d1, d2, _ = likelihood.derivatives(y, M)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        t = np.where(b < SMALL, -labels.power * d2, (V - var) / (V * var))
        shift = np.where(b < SMALL, labels.power * d1 + M * t, (mean - M) / var + M * t)
    return np.stack([np.maximum(t, 0.0), shift]), log_z


def ep_update(likelihood: BinaryLikelihood, labels: Labels, at: Marginals) -> tuple[Array, Array]:
    """New sites (2, r), and what each copy of a row adds to log Z at the sites as they are."""
    M, V = at.cavity
    sites, log_z = match_moments(likelihood, labels, M, V)
    return sites, at.log_rest + log_z - log_site_mass(M, V, at.t, at.h)


def variational_update(likelihood: BinaryLikelihood, labels: Labels, at: Marginals) -> tuple[Array, Array]:
    """The natural-gradient step of size one, and what each copy of a row adds to the bound."""
    mean, var = at.latent
    E, dm, dv = (labels.power * part for part in likelihood.expected_log_prob(labels.y, mean, var))
    t = np.maximum(-2.0 * dv, 0.0)
    gap = E - at.h * mean + 0.5 * at.t * (var + mean**2)
    return np.stack([t, dm + t * mean]), at.log_rest + gap


UPDATES: dict[str, Any] = {"ep": ep_update, "variational": variational_update}


def first_sites(
    kind: str, likelihood: BinaryLikelihood, labels: Labels, mean: Array, variance: Array
) -> Array:
    """Sites to start from: those that N(mean, variance), the prior's marginal or a neighbour's, asks for."""
    if kind == "variational":
        _, dm, dv = likelihood.expected_log_prob(labels.y, mean, variance)
        t = np.maximum(-2.0 * dv, 0.0)
        return np.stack([t * labels.power, (dm + t * mean) * labels.power])
    return match_moments(likelihood, labels, mean, variance)[0]
