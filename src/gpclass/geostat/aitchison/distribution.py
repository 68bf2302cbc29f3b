"""Distributions on ]0,1[: the Aitchison distribution and its special case, the normal.

The Aitchison distribution has, with x = logit z, the log-density::

    log f(z) = θ1 log z + θ2 log(1 − z) + ψ x² − κ,     κ = log ∫ exp(...) dz / (z (1 − z))

with respect to Aitchison's measure dz / (z (1 − z)) = dx; the density with respect to Lebesgue's measure is
f(z) / (z (1 − z)). ψ = 0 gives the Beta(θ1, θ2) distribution, θ1 + θ2 = 0 the normal on ]0,1[. (R eq. 8
prints the normaliser as ∫ e^(−L) dz, which is incorrect.) It is the posterior of a probability with a
normal prior after y1 successes and y2 failures.

All integrals are over x, in logs, by Gauss–Legendre panels whose width is limited by the curvature of the
log-density and by the poles of the logistic function (at ±iπ); they are accurate to about 1e-13.

Cost: O(P) for P quadrature nodes, a few hundred usually. Fails when: ψ > 0, or ψ = 0 with θ1 ≤ 0 or θ2 ≤ 0
(no finite integral), or when the density is so flat that more than ``MAX_PANELS`` panels would be needed.
For ψ < 0 any θ is valid; with θ1 + θ2 < 0 the density may have two modes.

Reference: Aitchison (1982), J. R. Statist. Soc. B 44; R §3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import expit, log_expit, logit, logsumexp

from gpclass._typing import Array, IntArray

NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)
CUT = 80.0  # nats below the maximum at which the tails are cut off
MAX_PANELS = 200_000
MEASURES = ("lebesgue", "aitchison")


class InvalidDistributionError(ValueError):
    """The parameters do not give a proper density."""


@dataclass(frozen=True)
class Aitchison:
    """The Aitchison distribution A(θ1, θ2, ψ) on ]0,1[.

    Parameters
    ----------
    theta1, theta2 : float
        Exponents of z and 1 − z.
    psi : float
        Coefficient of logit(z)²; at most 0.
    """

    theta1: float
    theta2: float
    psi: float

    def __post_init__(self) -> None:
        if not all(np.isfinite([self.theta1, self.theta2, self.psi])):
            raise InvalidDistributionError("theta1, theta2 and psi must be finite")
        if self.psi > 0:
            raise InvalidDistributionError(f"psi = {self.psi:g} > 0: no finite integral; take psi <= 0")
        if self.psi == 0 and min(self.theta1, self.theta2) <= 0:
            raise InvalidDistributionError(
                "psi = 0 (a Beta distribution) needs theta1 > 0 and theta2 > 0; "
                f"got {self.theta1:g} and {self.theta2:g}; with psi < 0 any theta is valid"
            )

    @staticmethod
    def normal(location: float, variance: float, scale: float = 1.0) -> Aitchison:
        """The normal on ]0,1[ whose coordinate logit(z)/c0 is N(location, variance) (R eq. 6)."""
        if not (variance > 0 and scale > 0 and np.isfinite([location, variance, scale]).all()):
            raise InvalidDistributionError("variance and scale must be positive, location finite")
        tilt = location / (scale * variance)
        return Aitchison(tilt, -tilt, -1.0 / (2.0 * scale**2 * variance))

    def update(self, successes: float, failures: float) -> Aitchison:
        """The posterior after y1 successes and y2 failures: conjugate, with the same ψ."""
        if min(successes, failures) < 0:
            raise ValueError("successes and failures must not be negative")
        return Aitchison(self.theta1 + successes, self.theta2 + failures, self.psi)

    def _log_density(self, x: Array) -> Array:
        """The log-density with respect to dx at logits x."""
        return self._log_kernel(x) - self.log_normaliser

    def _log_kernel(self, x: Any) -> Array:
        """L at logits x: the log-density with respect to dx, without its constant."""
        return np.asarray(self.theta1 * log_expit(x) + self.theta2 * log_expit(-x) + self.psi * x**2)

    def _slope(self, x: Any) -> Any:
        """L′ at logits x."""
        return self.theta1 - (self.theta1 + self.theta2) * expit(x) + 2.0 * self.psi * x

    @property
    def log_normaliser(self) -> float:
        """κ = log ∫ exp(L) dz / (z (1 − z))."""
        return float(logsumexp(self._panel_masses))

    def logpdf(self, z: npt.ArrayLike, measure: str = "lebesgue") -> Array:
        """Log-density at z, with respect to Lebesgue's or Aitchison's measure."""
        _check_measure(measure)
        array = np.asarray(z, dtype=float)
        inside = (array > 0) & (array < 1)
        x = logit(np.where(inside, array, 0.5))
        value = self._log_density(x)
        if measure == "lebesgue":
            value = value - log_expit(x) - log_expit(-x)
        return np.asarray(np.where(inside, value, -np.inf))

    def pdf(self, z: npt.ArrayLike, measure: str = "lebesgue") -> Array:
        """Density at z, with respect to Lebesgue's or Aitchison's measure."""
        return np.exp(self.logpdf(z, measure))

    @cached_property
    def _window(self) -> tuple[float, float]:
        """Logits beyond which the density is below exp(−CUT) of its maximum."""
        t1, t2, psi = self.theta1, self.theta2, self.psi
        # L lies within (|θ1|+|θ2|) log 2 of −θ1 max(−x,0) − θ2 max(x,0) + ψx², whose level sets are known.
        slack = CUT + 2.0 * (abs(t1) + abs(t2)) * np.log(2.0)
        steepest = max(-t1, -t2)
        top = 0.0 if steepest <= 0 else steepest**2 / (-4.0 * psi)
        wide = -_parabola_root(-t1, psi, top - slack), _parabola_root(-t2, psi, top - slack)
        if t1 + t2 < 0:
            return wide  # not log-concave: keep the wide window
        mode = self._stationary_points(wide)[0]
        level = self._log_kernel(mode) - CUT

        def above(x: float) -> float:
            return float(self._log_kernel(x) - level)

        left = brentq(above, wide[0], mode) if above(wide[0]) < 0 else wide[0]
        right = brentq(above, mode, wide[1]) if above(wide[1]) < 0 else wide[1]
        return float(left), float(right)

    @cached_property
    def _edges(self) -> Array:
        """Edges of the quadrature panels, in logits, (P + 1,)."""
        curvature = abs(self.theta1 + self.theta2) / 4.0 + 2.0 * abs(self.psi)
        width = min(2.0, 2.0 / np.sqrt(curvature)) if curvature > 0 else 2.0
        low, high = self._window
        n_panels = int(np.ceil((high - low) / width))
        if n_panels > MAX_PANELS:
            raise InvalidDistributionError(
                f"the density is too flat or too wide for quadrature ({n_panels} panels over logits "
                f"{low:.3g}..{high:.3g}); use a smaller variance or larger theta"
            )
        return np.linspace(low, high, max(n_panels, 8) + 1)

    @cached_property
    def _nodes(self) -> Array:
        """Quadrature nodes in logits, (P, 20)."""
        half = np.diff(self._edges)[:, None] / 2.0
        return np.asarray(self._edges[:-1, None] + half * (NODES + 1.0))

    @cached_property
    def _log_masses(self) -> Array:
        """log(weight × exp(L)) at the nodes, (P, 20)."""
        half = np.diff(self._edges)[:, None] / 2.0
        return np.asarray(self._log_kernel(self._nodes) + np.log(half) + np.log(WEIGHTS))

    @cached_property
    def _panel_masses(self) -> Array:
        """Log mass of each panel, (P,)."""
        return np.asarray(logsumexp(self._log_masses, axis=1))

    @cached_property
    def _panel_cdf(self) -> Array:
        """P(x <= edge) at the panel edges, (P + 1,)."""
        mass = np.exp(self._panel_masses - self.log_normaliser)
        return np.asarray(np.concatenate([[0.0], np.cumsum(mass)]) / mass.sum())

    def _partial(self, panel: IntArray, x: Array) -> Array:
        """Mass between the left edge of each panel and x, (m,)."""
        left = self._edges[panel]
        half = (x - left) / 2.0
        nodes = left[:, None] + half[:, None] * (NODES + 1.0)
        return np.asarray(half * (np.exp(self._log_kernel(nodes) - self.log_normaliser) @ WEIGHTS))

    def expect(self, values: npt.ArrayLike) -> float:
        """Expectation of a function given by its values at ``self.grid``."""
        mass = np.exp(self._log_masses.ravel() - self.log_normaliser)
        return float(np.asarray(values, dtype=float).ravel() @ mass)

    @property
    def grid(self) -> Array:
        """The quadrature nodes, as probabilities."""
        return np.asarray(expit(self._nodes.ravel()))

    def moment(self, order: int) -> float:
        """E[Z^order]."""
        return self.expect(np.exp(order * log_expit(self._nodes)))

    def mean(self) -> float:
        """E[Z]."""
        return self.moment(1)

    def var(self) -> float:
        """Variance of Z."""
        return self.expect((expit(self._nodes) - self.mean()) ** 2)

    def centre(self) -> float:
        """Mean in Aitchison's geometry: logit⁻¹(E[logit Z])."""
        return float(expit(self.expect(self._nodes)))

    def logit_var(self) -> float:
        """Variance of logit Z."""
        return self.expect((self._nodes - self.expect(self._nodes)) ** 2)

    def cdf(self, z: npt.ArrayLike) -> Array:
        """P(Z <= z)."""
        array = np.asarray(z, dtype=float)
        flat = np.clip(array.ravel(), 0.0, 1.0)
        with np.errstate(divide="ignore"):
            x = np.clip(logit(flat), self._edges[0], self._edges[-1])
        panel = np.clip(np.searchsorted(self._edges, x, side="right") - 1, 0, len(self._edges) - 2)
        value = self._panel_cdf[panel] + self._partial(panel, x)
        value = np.where(flat <= 0, 0.0, np.where(flat >= 1, 1.0, np.clip(value, 0.0, 1.0)))
        return np.asarray(value.reshape(array.shape))

    def ppf(self, q: npt.ArrayLike) -> Array:
        """Quantiles: the z with P(Z <= z) = q."""
        array = np.asarray(q, dtype=float)
        if not np.all((array >= 0) & (array <= 1)):
            raise ValueError("quantile levels must lie in [0, 1]")
        return np.asarray(expit(self._logit_ppf(array.ravel())).reshape(array.shape))

    def _logit_ppf(self, q: Array) -> Array:
        """Quantiles of logit Z, (m,): the panel from the table, then bisection and Newton inside it."""
        panel = np.clip(np.searchsorted(self._panel_cdf, q, side="right") - 1, 0, len(self._edges) - 2)
        low, high = self._edges[panel], self._edges[panel + 1]
        wanted = q - self._panel_cdf[panel]
        x = (low + high) / 2.0
        for _ in range(60):
            excess = self._partial(panel, x) - wanted
            low, high = np.where(excess < 0, x, low), np.where(excess < 0, high, x)
            newton = x - excess / np.exp(self._log_kernel(x) - self.log_normaliser)
            step = np.where((newton > low) & (newton < high), newton, (low + high) / 2.0)
            if np.all(np.abs(step - x) <= 1e-13 * (1.0 + np.abs(x))):
                break
            x = step
        return np.asarray(np.where(q <= 0, -np.inf, np.where(q >= 1, np.inf, x)))

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        """N independent draws, by inversion of the distribution function."""
        return np.asarray(expit(self._logit_ppf(rng.random(n))))

    def mode(self, measure: str = "aitchison") -> float:
        """The mode of the density with respect to the measure.

        For Lebesgue's measure the exponents are one less, and for ψ = 0 the density may be infinite at an end of the
        interval, which is then the mode; a density that is infinite at both ends has no mode.
        """
        _check_measure(measure)
        drop = 0.0 if measure == "aitchison" else 1.0
        t1, t2 = self.theta1 - drop, self.theta2 - drop
        if self.psi == 0:
            if max(t1, t2) <= 0:
                raise InvalidDistributionError("the Lebesgue density is flat or infinite at both ends")
            return 0.0 if t1 <= 0 else 1.0 if t2 <= 0 else t1 / (t1 + t2)
        shifted = Aitchison(t1, t2, self.psi)
        points = shifted._stationary_points(shifted._window)
        return float(expit(points[int(np.argmax(shifted._log_kernel(np.array(points))))]))

    def _stationary_points(self, window: tuple[float, float]) -> list[float]:
        """Roots of L′ inside the window: one when θ1 + θ2 >= 0, up to three otherwise."""
        if self.theta1 + self.theta2 >= 0:
            grid = np.array(window)
        else:  # L′ varies on a scale ≥ 1 around 0 and is linear outside
            grid = np.unique(np.clip(np.append(np.linspace(-45.0, 45.0, 1801), window), *window))
        value = self._slope(grid)
        down = np.flatnonzero((value[:-1] >= 0) & (value[1:] < 0))  # maxima only
        return [float(brentq(self._slope, grid[i], grid[i + 1], xtol=1e-14)) for i in down]


def _check_measure(measure: str) -> None:
    if measure not in MEASURES:
        raise ValueError(f"measure must be one of {MEASURES}, not {measure!r}")


def _parabola_root(slope: float, psi: float, level: float) -> float:
    """The t >= 0 beyond which slope·t + ψt² (ψ <= 0) stays below level; 0 if it never exceeds it."""
    inside = slope**2 + 4.0 * psi * level
    if inside < 0 or (level >= 0 and slope <= 0):
        return 0.0
    if psi == 0:
        return level / slope
    root = np.sqrt(inside)  # two forms of one root, both without cancellation
    return float((slope + root) / (-2.0 * psi)) if slope >= 0 else float(2.0 * level / (slope - root))
