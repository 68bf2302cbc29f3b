"""Priors on positive parameters: kernel parameters and the likelihood's scale.

A prior is a density of the parameter x > 0 itself. Optimisers and samplers use θ = log x, whose density is p(x)·x,
where the factor x is the Jacobian; ``log_density(theta)`` is the logarithm of *that*, and ``map`` maximises it. So a
Gamma(a, b) prior has its mode in θ at x = a/b, not at (a − 1)/b.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
from scipy.special import gammaln, logsumexp

from gpclass._settings import NONZERO, REAL, Settings
from gpclass._typing import Array
from gpclass.names import did_you_mean

STEP = 1e-5  # of θ, for the slope of a density that has no formula
NODES, WIDEST = 200, 0.2  # least number of nodes of the integral over a shared mean, largest step in its logarithm
DROP = 40.0  # nats by which the integrand has fallen at both ends
FLOOR = -690.0  # of logarithms, so that their exponentials are not zero


class Prior(Protocol):
    """A prior on one positive parameter x, as a function of θ = log x."""

    def log_density(self, theta: float) -> float:
        """Log density of θ = log x, with the Jacobian."""

    def slope(self, theta: float) -> float:
        """Derivative of ``log_density`` with respect to θ."""

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Draws of θ."""


@dataclass(frozen=True)
class Gamma(Settings, Prior):
    """x ~ Gamma(shape, rate), mean shape / rate."""

    shape: float
    rate: float

    def log_density(self, theta: float) -> float:
        log_norm = self.shape * np.log(self.rate) - gammaln(self.shape)
        return float(self.shape * theta - self.rate * np.exp(theta) + log_norm)

    def slope(self, theta: float) -> float:
        return float(self.shape - self.rate * np.exp(theta))

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        return np.log(rng.gamma(self.shape, 1.0 / self.rate, size))


@dataclass(frozen=True)
class LogNormal(Settings, Prior):
    """log x ~ N(mean, sd²)."""

    mean: float = 0.0
    sd: float = 1.0

    limits: ClassVar = {"mean": REAL}

    def log_density(self, theta: float) -> float:
        z = (theta - self.mean) / self.sd
        return float(-0.5 * z * z - np.log(self.sd) - 0.5 * np.log(2 * np.pi))

    def slope(self, theta: float) -> float:
        return float(-(theta - self.mean) / self.sd**2)

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        return rng.normal(self.mean, self.sd, size)


@dataclass(frozen=True)
class HalfNormal(Settings, Prior):
    """x ~ |N(0, sd²)|."""

    sd: float = 1.0

    def log_density(self, theta: float) -> float:
        z = np.exp(theta) / self.sd
        return float(-0.5 * z * z + theta - np.log(self.sd) + 0.5 * np.log(2 / np.pi))

    def slope(self, theta: float) -> float:
        return float(1.0 - np.exp(2 * theta) / self.sd**2)

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        return np.log(np.abs(rng.normal(0.0, self.sd, size)))


@dataclass(frozen=True)
class InverseGamma(Settings, Prior):
    """1/x ~ Gamma(shape, rate=scale): little mass near zero, so that a length scale keeps away from it."""

    shape: float
    scale: float

    def log_density(self, theta: float) -> float:
        log_norm = self.shape * np.log(self.scale) - gammaln(self.shape)
        return float(-self.shape * theta - self.scale * np.exp(-theta) + log_norm)

    def slope(self, theta: float) -> float:
        return float(-self.shape + self.scale * np.exp(-theta))

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        return -np.log(rng.gamma(self.shape, 1.0 / self.scale, size))


@dataclass(frozen=True)
class HalfStudentT(Settings, Prior):
    """x = scale·|t|, t Student's with ``df`` degrees of freedom: a half normal with a heavy tail."""

    df: float = 4.0
    scale: float = 1.0

    def log_density(self, theta: float) -> float:
        nu, z = self.df, np.exp(theta) / self.scale
        log_norm = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(np.pi * nu) + np.log(2 / self.scale)
        return float(log_norm - 0.5 * (nu + 1) * np.log1p(z * z / nu) + theta)

    def slope(self, theta: float) -> float:
        square = np.exp(2 * theta) / self.scale**2
        return float(1.0 - (self.df + 1) * square / (self.df + square))

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        return np.log(self.scale * np.abs(rng.standard_t(self.df, size)))


@dataclass(frozen=True)
class SharedGamma(Settings, Prior):
    r"""Neal's hierarchy: x^power ~ Gamma with a mean that is itself drawn, once for all parameters of this prior.

    u_i = x_i^power ~ Gamma(shape, mean m), m ~ Gamma(top_shape, mean ``mean``): so length scales with ``power=2``, the
    squares of which are the precisions of Neal's relevances, are alike unless the data differ. m is integrated out,

        p(u) = ∫ p(m) Π_i Gamma(u_i; shape, shape/m) dm,

    by the trapezoid rule in log m over the range where the integrand has its mass, exact to rounding; nothing but θ is
    sampled. Parameters share m if they have equal priors of this class, such as all those of one pattern
    ``"*length_scale*"``.
    Reference: Neal (1999), §3.

    Parameters
    ----------
    mean : float
        Mean of m.
    shape, top_shape : float
        Shapes of u given m, and of m: the smaller, the vaguer. Neal's α is twice that.
    power : float
        Not zero.
    """

    mean: float = 1.0
    shape: float = 0.5
    top_shape: float = 0.5
    power: float = 2.0

    limits: ClassVar = {"power": NONZERO}

    def joint(self, theta: Array) -> tuple[float, Array]:
        """Log density of the θ that share a mean, (k,), and its gradient."""
        phi, k = self.power * theta, len(theta)  # log u
        rate = self.top_shape / self.mean
        tau, log_rise, log_fall, weights = self._nodes(phi, rate)
        mode = log_rise - np.log(rate)  # of log m
        value = (self.top_shape - k * self.shape) * mode - np.exp(log_rise) - np.exp(log_fall) + np.log(weights.sum())
        value += self.top_shape * np.log(rate) - gammaln(self.top_shape)
        value += np.sum(self.shape * (np.log(self.shape) + phi)) + k * (np.log(abs(self.power)) - gammaln(self.shape))
        inverse = np.exp(phi - mode) * (weights @ np.exp(-tau) / weights.sum())  # mean of u/m
        return float(value), np.asarray(self.power * self.shape * (1.0 - inverse))

    def _nodes(self, phi: Array, rate: float) -> tuple[Array, float, float, Array]:
        """Nodes τ about the mode of log m, log B and log C there, and weights.

        With t = log m the logarithm of the integrand is νt − rate·eᵗ − shape·Σu·e⁻ᵗ and a constant. About its mode it
        falls by B(e^τ − 1 − τ) + C(e^−τ − 1 + τ), B − C = ν and BC = rate·shape·Σu. The ends are where one of both
        terms has certainly fallen by ``DROP``.
        """
        nu = self.top_shape - len(phi) * self.shape
        product = np.log(rate * self.shape) + logsumexp(phi)  # log BC
        log_larger = np.log(0.5 * abs(nu) + np.hypot(0.5 * nu, np.exp(0.5 * product)))
        logs = (log_larger, product - log_larger) if nu > 0 else (product - log_larger, log_larger)
        B, C = np.exp(np.maximum(logs, FLOOR))
        far = DROP / np.array([B, C]) + np.sqrt(2.0 * DROP / np.array([B, C]))  # x + e⁻ˣ − 1 is above DROP/B, DROP/C
        near = np.log1p(far)  # eˣ − 1 − x is
        low, high = -min(near[1], far[0]), min(near[0], far[1])
        tau, step = np.linspace(low, high, max(NODES, int((high - low) / WIDEST)), retstep=True)
        weights = step * np.exp(-B * (np.expm1(tau) - tau) - C * (np.expm1(-tau) + tau))
        return tau, float(logs[0]), float(logs[1]), weights

    def log_density(self, theta: float) -> float:
        return self.joint(np.array([theta]))[0]

    def slope(self, theta: float) -> float:
        return float(self.joint(np.array([theta]))[1][0])

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        return self.draw_joint(rng, size, 1)[:, 0]

    def draw_joint(self, rng: np.random.Generator, size: int, k: int) -> Array:
        """Draws of k parameters that share a mean, (size, k)."""
        m = rng.gamma(self.top_shape, self.mean / self.top_shape, (size, 1))
        return np.asarray(np.log(rng.gamma(self.shape, m / self.shape, (size, k))) / self.power)


@dataclass(frozen=True)
class FromScipy(Prior):
    """x > 0 by a continuous distribution of ``scipy.stats``, which ``priors`` also takes as it is, frozen.

    Parameters
    ----------
    name : str
        Its name there, such as ``"lognorm"``.
    arguments : tuple
    keywords : dict
        What it was frozen with.
    """

    name: str
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, frozen: Any) -> FromScipy:
        """From a frozen distribution."""
        return cls(frozen.dist.name, tuple(frozen.args), dict(frozen.kwds))

    @cached_property
    def frozen(self) -> Any:
        """The frozen distribution."""
        from scipy import stats  # imported here to keep the import of the package fast

        known = getattr(stats, self.name, None)
        if not isinstance(known, stats.rv_continuous):
            raise ValueError(f"scipy.stats has no continuous distribution {self.name!r}")
        found = known(*self.arguments, **self.keywords)
        if found.support()[0] < 0:
            raise ValueError(f"the prior {self.name} allows negative values; parameters are positive: give another")
        return found

    def log_density(self, theta: float) -> float:
        return float(self.frozen.logpdf(np.exp(theta)) + theta)

    def slope(self, theta: float) -> float:
        return (self.log_density(theta + STEP) - self.log_density(theta - STEP)) / (2 * STEP)

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        return np.asarray(np.log(self.frozen.rvs(size=size, random_state=rng)))


@dataclass(frozen=True)
class Flat(Prior):
    """Constant density of log x within the kernel's bounds: ``map`` is then ``maximize``."""

    def log_density(self, theta: float) -> float:
        return 0.0

    def slope(self, theta: float) -> float:
        return 0.0

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Raises an error: the density is improper."""
        raise ValueError("a flat prior cannot be drawn from; give a Gamma, LogNormal or HalfNormal prior")


PriorSpec: TypeAlias = "Prior | Mapping[str, Prior] | None"  # a frozen distribution of scipy.stats is a prior too


@dataclass(frozen=True)
class PriorSet:
    """One prior per entry of θ."""

    names: tuple[str, ...]
    priors: tuple[Prior, ...]

    def log_density(self, theta: Array) -> float:
        """Log density of θ."""
        own = sum(self.priors[i].log_density(float(theta[i])) for i in self._own)
        return own + sum(prior.joint(theta[at])[0] for prior, at in self._shared.items())

    def gradient(self, theta: Array) -> Array:
        """Gradient of ``log_density``, (p,)."""
        slope = np.empty(len(self.priors))
        for i in self._own:
            slope[i] = self.priors[i].slope(float(theta[i]))
        for prior, at in self._shared.items():
            slope[at] = prior.joint(theta[at])[1]
        return slope

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Draws of θ, (size, p)."""
        theta = np.empty((size, len(self.priors)))
        for i in self._own:
            theta[:, i] = self.priors[i].draw(rng, size)
        for prior, at in self._shared.items():
            theta[:, at] = prior.draw_joint(rng, size, len(at))
        return theta

    @cached_property
    def _shared(self) -> dict[SharedGamma, list[int]]:
        """The entries of θ that share a mean, by their prior."""
        found: dict[SharedGamma, list[int]] = {}
        for i, prior in enumerate(self.priors):
            if isinstance(prior, SharedGamma):
                found.setdefault(prior, []).append(i)
        return found

    @cached_property
    def _own(self) -> list[int]:
        """The other entries."""
        return [i for i, prior in enumerate(self.priors) if not isinstance(prior, SharedGamma)]


def default_prior(name: str, theta: float) -> Prior:
    """A weak prior centred at a parameter's starting value: log-normal, sd 1.5 for lengths and 2 for the rest.

    So 95 % of it lies within a factor of 20 of the starting length, which ``kernel=None`` derives from the data.
    """
    return LogNormal(theta, 1.5 if "length_scale" in name else 2.0)


def as_prior(given: Any) -> Prior:
    """A prior, or a frozen distribution of ``scipy.stats`` as one."""
    if hasattr(given, "log_density"):
        return given  # type: ignore[no-any-return]
    if hasattr(given, "dist") and hasattr(given, "logpdf"):
        prior = FromScipy.of(given)
        prior.frozen  # noqa: B018 - rejects one that allows negative values
        return prior
    raise ValueError(
        f"priors must be a prior such as LogNormal(0, 1), a frozen distribution of scipy.stats, or a dict of them, got "
        f"{given!r}"
    )


def resolve_priors(spec: PriorSpec, names: Sequence[str], theta: Array) -> PriorSet:
    """The user's priors, expanded to one per parameter.

    ``spec`` is None (defaults), one prior for all, or a mapping from names or patterns such as
    ``"*length_scale*"`` to priors; parameters that no pattern matches get the default.
    """
    spec = {} if spec is None else spec
    if not isinstance(spec, Mapping):
        spec = {"*": spec}
    unused = set(spec)
    chosen: list[Prior] = []
    for name, start in zip(names, theta, strict=True):
        pattern = name if name in spec else next((key for key in spec if fnmatchcase(name, key)), None)
        unused.discard(pattern or "")
        chosen.append(default_prior(name, float(start)) if pattern is None else as_prior(spec[pattern]))
    if unused:
        first = min(unused)
        raise ValueError(
            f"unknown parameter {first!r}{did_you_mean(first, names)} The parameters are {', '.join(names)}"
        )
    return PriorSet(tuple(names), tuple(chosen))
