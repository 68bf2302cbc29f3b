"""Priors on positive parameters: kernel parameters and the likelihood's scale.

A prior is a density of the parameter x > 0 itself. Optimisers and samplers use θ = log x, whose density is p(x)·x,
where the factor x is the Jacobian; ``log_density(theta)`` is the logarithm of *that*, and ``map`` maximises it. So a
Gamma(a, b) prior has its mode in θ at x = a/b, not at (a − 1)/b.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar, Protocol, TypeAlias

import numpy as np
from scipy.special import gammaln

from gpclass._settings import REAL, Settings
from gpclass._typing import Array
from gpclass.names import did_you_mean


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
class Flat(Prior):
    """Constant density of log x within the kernel's bounds: ``map`` is then ``maximize``."""

    def log_density(self, theta: float) -> float:
        return 0.0

    def slope(self, theta: float) -> float:
        return 0.0

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Raises an error: the density is improper."""
        raise ValueError("a flat prior cannot be drawn from; give a Gamma, LogNormal or HalfNormal prior")


PriorSpec: TypeAlias = "Prior | Mapping[str, Prior] | None"


@dataclass(frozen=True)
class PriorSet:
    """One prior per entry of θ."""

    names: tuple[str, ...]
    priors: tuple[Prior, ...]

    def log_density(self, theta: Array) -> float:
        """Log density of θ."""
        return sum(prior.log_density(float(x)) for prior, x in zip(self.priors, theta, strict=True))

    def gradient(self, theta: Array) -> Array:
        """Gradient of ``log_density``, (p,)."""
        return np.array([prior.slope(float(x)) for prior, x in zip(self.priors, theta, strict=True)])

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Draws of θ, (size, p)."""
        return np.column_stack([prior.draw(rng, size) for prior in self.priors])


def default_prior(name: str, theta: float) -> Prior:
    """A weak prior centred at a parameter's starting value: log-normal, sd 1.5 for lengths and 2 for the rest.

    So 95 % of it lies within a factor of 20 of the starting length, which ``kernel=None`` derives from the data.
    """
    return LogNormal(theta, 1.5 if "length_scale" in name else 2.0)


def resolve_priors(spec: PriorSpec, names: Sequence[str], theta: Array) -> PriorSet:
    """The user's priors, expanded to one per parameter.

    ``spec`` is None (defaults), one prior for all, or a mapping from names or patterns such as
    ``"*length_scale*"`` to priors; parameters that no pattern matches get the default.
    """
    spec = {} if spec is None else spec
    if not isinstance(spec, Mapping):
        if not hasattr(spec, "log_density"):
            raise ValueError(f"priors must be a prior such as LogNormal(0, 1), or a dict of them, got {spec!r}")
        spec = {"*": spec}
    unused = set(spec)
    chosen: list[Prior] = []
    for name, start in zip(names, theta, strict=True):
        pattern = name if name in spec else next((key for key in spec if fnmatchcase(name, key)), None)
        unused.discard(pattern or "")
        chosen.append(default_prior(name, float(start)) if pattern is None else spec[pattern])
    if unused:
        first = min(unused)
        raise ValueError(
            f"unknown parameter {first!r}{did_you_mean(first, names)} The parameters are {', '.join(names)}"
        )
    return PriorSet(tuple(names), tuple(chosen))
