r"""Likelihoods of two classes: p(y | f) = Λ(s y f), y ∈ {-1, +1}, with Λ = Φ (probit) or σ (logit).

The scale s multiplies the latent value (k0 of the probit, c0 of the logit). Everything is computed for
u = s y f, which is N(s y m, s² v) when f is N(m, v), and mapped back:

    log p = log Λ(u),   d/df = s y d/du,   tilted mean of f = y E[u]/s,   tilted variance = var[u]/s².

So a link supplies a few functions of u and shares the rest.

Probit in closed form: with z = a/√(1+b), u ~ N(a, b), and h, τ of :func:`gpclass.numerics.special.hazard_terms`,

    log Z = log Φ(z),   E u = (z + b (z + h))/√(1+b),   var u = (b + b² τ)/(1+b),

which add positive terms where the usual b - b²/(1+b) h (z + h) cancels. Logit, and the expected log
likelihood of both, by the trapezoidal rules of :mod:`gpclass.numerics.special`.

Cost: O(1) per element in closed form, 35 to ~240 nodes by quadrature.
Fails when: s² v exceeds about 10¹² in a quadrature.
Reference: Rasmussen & Williams (2006), Gaussian Processes for Machine Learning, §3.6, §3.9.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from scipy.special import expit, log_expit, log_ndtr, logit, ndtr, ndtri

from gpclass._settings import Settings
from gpclass._typing import Array, Generator, IntArray
from gpclass.likelihoods import noisy_logit, smeared, split
from gpclass.likelihoods.base import Averages, Expansion, Likelihood
from gpclass.likelihoods.local import RowMarginals, RowSites
from gpclass.likelihoods.powered import Power
from gpclass.likelihoods.split import STEP, PowerLink, Split
from gpclass.model.rows import Labels
from gpclass.numerics import special
from gpclass.numerics.fast_logistic import logistic_average
from gpclass.numerics.fast_normal import normal_cdf, normal_cdf_scaled
from gpclass.numerics.products import MANY
from gpclass.numerics.tilted import Link
from gpclass.propagation.sites import log_site_mass

SMALL = 1e-7  # a cavity variance, times scale², below which derivatives at its mean suffice
K0 = 0.5876  # Φ(K0 u) is the normal distribution function closest to σ(u)


@dataclass(frozen=True)
class BinaryLikelihood(Settings, Likelihood):
    """A link Λ with a scale; see :class:`Probit` and :class:`Logit`.

    Parameters
    ----------
    scale : float
        The factor of the latent value, > 0.
    scale_bounds : (float, float) or "fixed"
        The range in which a strategy may move the scale, or "fixed".
    """

    scale: float = 1.0
    scale_bounds: tuple[float, float] | str = "fixed"

    many: ClassVar[bool] = False
    monotone: ClassVar[bool] = True
    limits: ClassVar = {"scale_bounds": ("fixed",)}

    def with_scale(self, scale: float) -> Self:
        return replace(self, scale=float(scale))

    # ------------------------------------------------------------------ what a link supplies, in u = s y f

    _link: ClassVar[np.ufunc]  # Λ(u)
    _log_link: ClassVar[np.ufunc]
    _quantile: ClassVar[np.ufunc]  # u of Λ(u)

    @staticmethod
    @abstractmethod
    def _slopes(u: Array) -> tuple[Array, Array, Array]:
        """The first three derivatives of log Λ at u."""

    @staticmethod
    @abstractmethod
    def _tilt(a: Array, b: Array) -> tuple[Array, Array, Array]:
        """The log Z, mean and variance of N(u; a, b) Λ(u)/Z, (n,) each."""

    @staticmethod
    @abstractmethod
    def _tilt_scalar(a: float, b: float) -> tuple[float, float, float]:
        """:meth:`_tilt` of one pair of floats."""

    @staticmethod
    @abstractmethod
    def _nodes(a: Array, b: Array) -> Iterator[tuple[IntArray, Array, Array]]:
        """Quadrature for E g(u), u ~ N(a, b), g = -log Λ(-u) or a derivative of it."""

    # -------------------------------------------------------------------------------- what all links share

    def log_prob(self, y: Array | float, f: Array | float) -> Array:
        """The log p(y | f), elementwise."""
        return np.asarray(self._log_link(self.scale * np.multiply(y, f)))

    def derivatives(self, y: Array | float, f: Array | float) -> tuple[Array, Array, Array, Array]:
        """The log p(y | f) and its first three derivatives with respect to f, elementwise."""
        sy = self.scale * np.asarray(y, dtype=float)
        u = np.asarray(sy * f)
        d1, d2, d3 = self._slopes(u)
        return self._log_link(u), sy * d1, sy**2 * d2, sy**3 * d3

    def tilted(self, y: Array | float, mean: Array | float, var: Array | float) -> tuple[Array, Array, Array]:
        """The log Z, mean and variance of N(f; mean, var) p(y | f)/Z, elementwise."""
        y, mean, var = _as_floats(y, mean, var)
        return self._tilted(y, self._tilt(*self._in_u(y, mean, var)))

    def tilted_scalar(self, y: float, mean: float, var: float) -> tuple[float, float, float]:
        """:meth:`tilted` for one site, with floats in and out: for loops over sites."""
        s = self.scale
        log_z, centre, spread = self._tilt_scalar(s * y * mean, s * s * var)
        return log_z, y * centre / s, spread / (s * s)

    def powered_tilted(
        self, y: Array | float, mean: Array | float, var: Array | float, power: Array | float
    ) -> tuple[Array, Array, Array]:
        """:meth:`tilted` for the factor p(y | f)^power, 0 < power <= 1, by quadrature."""
        y, mean, var, power = _as_floats(y, mean, var, power)
        a, b = self._in_u(y, mean, var)
        return self._tilted(y, Power(self._log_link, self._slopes).tilt(a, b, power.ravel()))

    def _in_u(self, y: Array, mean: Array, var: Array) -> tuple[Array, Array]:
        """Mean and variance of u, flat."""
        return self.scale * (y * mean).ravel(), self.scale**2 * var.ravel()

    def _tilted(self, y: Array, moments: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        """Log Z and the moments of f from those of u, flat, in the shape of y."""
        log_z, centre, spread = (part.reshape(y.shape) for part in moments)
        return log_z, y * centre / self.scale, spread / self.scale**2

    def expected_log_prob(
        self, y: Array | float, mean: Array | float, var: Array | float
    ) -> tuple[Array, Array, Array]:
        """E log p(y | f) for f ~ N(mean, var), with its derivatives in mean and in var.

        The second derivative in the mean is twice the derivative in var (heat equation). The value and the
        derivative in the mean are right in relative terms, the derivative in var to 1e-12 of scale².
        """
        y, mean, var = _as_floats(y, mean, var)
        sy = self.scale * y
        a = -(sy * mean).ravel()
        moments = np.empty((3, a.size))  # of -log Λ(-u) and its first two derivatives
        for rows, u, log_w in self._nodes(a, self.scale**2 * var.ravel()):
            w = np.exp(log_w)
            d1, d2, _ = self._slopes(-u)
            for moment, g in zip(moments, (-self._log_link(-u), d1, -d2), strict=True):
                moment[rows] = np.sum(w * g, axis=1)
        g0, g1, g2 = moments.reshape(3, *mean.shape)
        return -g0, sy * g1, -0.5 * self.scale**2 * g2

    def draw_labels(self, f: Array, rng: Generator) -> Array:
        p = self.inverse_link(f[..., 0, :])
        return np.where(rng.random(p.shape) < p, 1.0, -1.0)

    # ------------------------------------------------------------------- the interface of all likelihoods

    def log(self, y: Array, f: Array) -> Array:
        return self.log_prob(y, f[..., 0, :])

    def slope(self, y: Array, f: Array) -> tuple[Array, Array]:
        log_p, d1, _, _ = self.derivatives(y, f[:, 0])
        return log_p, d1[:, None]

    def expand(self, y: Array, f: Array) -> Expansion:
        sy = self.scale * y
        u = sy * f[0]
        d1, d2, _ = self._slopes(u)
        return Expansion(self._log_link(u), (sy * d1)[None], np.maximum(-(sy * sy) * d2, 0.0)[None])

    def third(self, y: Array, f: Array, cov: Array) -> Array:
        """½ var ∂³ log p, (1, r)."""
        return np.asarray(0.5 * cov[:, 0, 0] * self.derivatives(y, f[0])[3])[None]

    def average(self, y: Array, mean: Array, cov: Array) -> Averages:
        value, dm, dv = self.expected_log_prob(y, mean[0], cov[:, 0, 0])
        return Averages(value, dm[None], np.maximum(-2.0 * dv, 0.0)[:, None, None])

    def sites(self, y: Array, numbers: Array) -> RowSites:
        return RowSites(b=numbers[1:2], D=numbers[:1])

    def first_site(self, labels: Labels, at: RowMarginals) -> Array:
        """The site for the marginal as a cavity."""
        return self.matched(labels, at.mean[0], at.cov[:, 0, 0])[0]

    def match(self, labels: Labels, numbers: Array, at: RowMarginals) -> tuple[Array, Array]:
        """Sites that match the moments of the factor times the cavity."""
        mean, cov = at.cavity()
        M, V = mean[0], cov[:, 0, 0]
        sites, log_z = self.matched(labels, M, V)
        return sites, log_z - log_site_mass(M, V, numbers[0], numbers[1])

    def matched(self, labels: Labels, M: Array, V: Array) -> tuple[Array, Array]:
        """EP's site (2, r) of the cavity N(M, V), and the log of the factor's mass, (r,).

        With α, β the first and minus the second derivative of log ∫ N(f; M, V) p(y|f)^power by M, t = β/(1 − Vβ) and
        h = (α + Mβ)/(1 − Vβ); no formula divides by V.
        """
        y, V = labels.y, np.maximum(V, 1e-300)
        if labels.plain:
            log_z, mean, var = self.tilted(y, M, V)
        else:
            log_z, mean, var = self.powered_tilted(y, M, V, labels.power)
        _, d1, d2, _ = self.derivatives(y, M)
        small = self.scale**2 * V < SMALL
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            t = np.where(small, -labels.power * d2, (V - var) / (V * var))
            shift = np.where(small, labels.power * d1 + M * t, (mean - M) / var + M * t)
        return np.stack([np.maximum(t, 0.0), shift]), log_z

    def smear(self, labels: Labels, g: Array, rest: Array) -> Array:
        """By Chebyshev expansions of the quadrature (:mod:`gpclass.likelihoods.smeared`)."""
        return smeared.log_smeared(self, labels, g[0], rest[0])

    def smear_slopes(self, labels: Labels, g: Array, rest: Array) -> tuple[Array, Array]:
        first, second = smeared.slopes(self, labels, g[0], rest[0])
        return first[None], second[None]

    def _split(self, y: Array, weights: Array | None, noise: float, noisy: Link | None) -> Split:
        """Rows of weight one by the link's own noise and the rest of it, others as powers with little noise."""
        w = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float)
        own = w == 1.0
        powered = PowerLink(self._log_link, self._slopes)
        return Split(
            precision=np.where(own, self.scale**2 / noise, self.scale**2 / split.noise(w)),
            kind=np.where(own, STEP if noisy is None else 1, 0),
            links=(powered,) if noisy is None else (powered, noisy),
            power=w,
        )

    def link(self, p: Array | float) -> Array:
        """The latent value at which p(y=+1) is p."""
        return np.asarray(self._quantile(np.asarray(p, dtype=float)) / self.scale)

    def inverse_link(self, f: Array | float) -> Array:
        """p(y=+1 | f)."""
        return np.asarray(self._link(self.scale * np.asarray(f, dtype=float)))

    def log_inverse_link(self, f: Array | float) -> tuple[Array, Array]:
        """Both log p(y=+1 | f) and log p(y=-1 | f)."""
        u = self.scale * np.asarray(f, dtype=float)
        return np.asarray(self._log_link(u)), np.asarray(self._log_link(-u))


@dataclass(frozen=True)
class Probit(BinaryLikelihood):
    """p(y | f) = Φ(scale y f)."""

    name: ClassVar[str] = "probit"
    normal_tail: ClassVar[bool] = True

    _link: ClassVar[np.ufunc] = ndtr
    _log_link: ClassVar[np.ufunc] = log_ndtr
    _quantile: ClassVar[np.ufunc] = ndtri
    _nodes = staticmethod(special.probit_quadrature)

    @staticmethod
    def _slopes(u: Array) -> tuple[Array, Array, Array]:
        h, excess, _, kappa = special.hazard_terms(u)
        return h, -h * excess, h * kappa

    @staticmethod
    def _tilt(a: Array, b: Array) -> tuple[Array, Array, Array]:
        root = np.sqrt(1.0 + b)
        z = a / root
        _, excess, tau, _ = special.hazard_terms(z)
        return log_ndtr(z), (z + b * excess) / root, b / (1.0 + b) * (1.0 + b * tau)

    @staticmethod
    def _tilt_scalar(a: float, b: float) -> tuple[float, float, float]:
        root = math.sqrt(1.0 + b)
        z = a / root
        log_z, _, excess, tau = special.hazard_terms_scalar(z)
        return log_z, (z + b * excess) / root, b / (1.0 + b) * (1.0 + b * tau)

    def predictive(self, mean: Array, var: Array, sign: Array) -> Array:
        """Φ(±s m/√(1 + s² v)), in single precision for very many."""
        stretch = sign * self.scale / np.sqrt(1.0 + self.scale**2 * var)
        if len(mean) < MANY:
            return np.asarray(ndtr(mean * stretch))
        if mean.dtype == np.float32 and stretch.size == mean.shape[1]:  # one variance for all components
            return normal_cdf_scaled(mean, stretch.ravel().astype(np.float32))
        return normal_cdf(np.multiply(mean, stretch.astype(np.float32), dtype=np.float32, casting="same_kind"))

    def log_predictive(self, mean: Array | float, var: Array | float) -> tuple[Array, Array]:
        """Log Φ(±s m/√(1 + s² v))."""
        mean, var = _as_floats(mean, var)
        z = self.scale * mean / np.sqrt(1.0 + self.scale**2 * var)
        return np.asarray(log_ndtr(z)), np.asarray(log_ndtr(-z))

    def matched(self, labels: Labels, M: Array, V: Array) -> tuple[Array, Array]:
        """EP's site in closed form: with b = s²V and z = s y M/√(1+b), t = s² h(z)(z + h(z))/(1 + bτ)."""
        if not labels.plain:
            return super().matched(labels, M, V)
        scale, b = self.scale, self.scale**2 * V
        root = np.sqrt(1.0 + b)
        z = scale * labels.y * M / root
        h, excess, tau, _ = special.hazard_terms(z)
        shared = 1.0 / (1.0 + b * tau)
        t = scale**2 * h * excess * shared
        # (α + Mβ)/(1 − Vβ), α = s y h/root, 1 − Vβ = (1 + bτ)/(1 + b)
        return np.stack([t, scale * labels.y * h * root * shared + M * t]), log_ndtr(z)

    def smear(self, labels: Labels, g: Array, rest: Array) -> Array:
        """In closed form: Φ(κ y g), κ = s/√(1 + s²λ)."""
        if not labels.plain:
            return super().smear(labels, g, rest)
        return np.asarray(log_ndtr(self._stretch(labels, rest) * g[0]))

    def smear_slopes(self, labels: Labels, g: Array, rest: Array) -> tuple[Array, Array]:
        if not labels.plain:
            return super().smear_slopes(labels, g, rest)
        kappa = self._stretch(labels, rest)
        z = kappa * g[0]
        d1 = kappa * special.normal_hazard(z)
        return d1[None], (-kappa * d1 * z)[None]  # Φ'' = −z φ

    def _stretch(self, labels: Labels, rest: Array) -> Array:
        return np.asarray(labels.y * self.scale / np.sqrt(1.0 + self.scale**2 * rest[0]))[:, None]

    def split(self, y: Array, weights: Array | None) -> Split:
        """Noise of variance 1/s² and a step."""
        return self._split(y, weights, 1.0, None)

    def orthant(self, y: Array, covariances: list[Array]) -> tuple[Array, Array]:
        """v = y (f + ε), ε ~ N(0, 1/s²), has the covariance D_y (K + I/s²) D_y."""
        K = covariances[0]
        scale = np.sqrt(np.diag(K) + self.scale**-2)
        S = (y / scale)[:, None] * K
        S *= y / scale
        S.flat[:: len(y) + 1] = 1.0
        return np.asarray(S), scale


@dataclass(frozen=True)
class Logit(BinaryLikelihood):
    """p(y | f) = σ(scale y f), σ(u) = 1/(1 + e^-u)."""

    name: ClassVar[str] = "logit"

    _link: ClassVar[np.ufunc] = expit
    _log_link: ClassVar[np.ufunc] = log_expit
    _quantile: ClassVar[np.ufunc] = logit
    _tilt = staticmethod(special.logistic_tilt)
    _tilt_scalar = staticmethod(special.logistic_tilt_scalar)
    _nodes = staticmethod(special.logistic_quadrature)

    @staticmethod
    def _slopes(u: Array) -> tuple[Array, Array, Array]:
        p, q = expit(u), expit(-u)
        return q, -p * q, p * q * (p - q)

    def predictive(self, mean: Array, var: Array, sign: Array) -> Array:
        """By quadrature, in single precision for very many."""
        if len(mean) >= MANY:
            return logistic_average(mean * (sign * self.scale), self.scale**2 * var)
        return np.exp(self.log_predictive(sign * mean, var)[0])

    def rough_average(self, means: Array, covariances: Array) -> Array:
        """In single precision."""
        return logistic_average(means * self.scale, self.scale**2 * covariances[..., 0])

    def split(self, y: Array, weights: Array | None) -> Split:
        """Noise that the logistic function contains, and the rest of it."""
        return self._split(y, weights, noisy_logit.NOISE, noisy_logit.NoisyLogit())

    def log_predictive(self, mean: Array | float, var: Array | float) -> tuple[Array, Array]:
        if not np.any(var):
            return self.log_inverse_link(mean)
        return special.logistic_normal(mean, var, self.scale)


def _as_floats(*values: Array | float) -> list[Array]:
    """Arrays of float64, broadcast against each other."""
    return list(np.broadcast_arrays(*(np.asarray(value, dtype=float) for value in values)))
