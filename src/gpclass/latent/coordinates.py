"""White coordinates of the latent values: new values in terms of them, the posterior in them, densities given θ.

A prior has coordinates η ~ N(0, I), from which the latent values follow, f = root η; a Gaussian approximation has ξ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.linalg import solve_triangular

from gpclass._typing import Array, Generator, IntArray

if TYPE_CHECKING:
    from gpclass.latent.base import LatentPrior
    from gpclass.model.problem import Problem


@dataclass(frozen=True, eq=False)
class Features:
    """New latent values given white coordinates η of the prior: f_c* = V_cᵀ η_c + residual."""

    V: Sequence[Array]  # (k, m) per kernel: one, or one per class
    rest: Sequence[Array]  # (m,) per kernel, variances of the residual


class Target(ABC):
    """The posterior as N(ξ; 0, I) exp(r(f)), f = m + A ξ: what samplers move in.

    ``f`` is the argument of :meth:`log_ratio`: latent values at the rows, or values at the inducing inputs.
    """

    problem: Problem  # whose posterior it is
    m: Array  # mean of q
    jitter: float  # added to the diagonal of a covariance

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Of ξ."""

    @property
    def details(self) -> dict[str, Any]:
        """For the report."""
        return {}

    @abstractmethod
    def latents(self, xi: Array) -> Array:
        """f of ξ, (M, len(m))."""

    @abstractmethod
    def spread(self, xi: Array) -> Array:
        """f − m of ξ."""

    @abstractmethod
    def prior_coordinates(self, xi: Array) -> Array:
        """The white coordinates η of the prior, (M, k)."""

    @abstractmethod
    def from_prior_coordinates(self, eta: Array, rng: Generator | None = None) -> Array:
        """ξ of η; further coordinates of ξ are drawn, or set to their mean without a generator."""

    @abstractmethod
    def log_likelihood(self, f: Array) -> Array:
        """Log p(y | f), (M,)."""

    @abstractmethod
    def log_guide(self, f: Array) -> Array:
        """Log of q over the prior, (M,)."""

    def log_ratio(self, f: Array) -> Array:
        """r(f), (M,): the log weight of a draw from q."""
        return np.asarray(self.log_likelihood(f) - self.log_guide(f))

    @abstractmethod
    def log_ratio_and_slope(self, f: Array) -> tuple[Array, Array]:
        """r(f), (M,), and its gradient in ξ."""

    @abstractmethod
    def some_latents(self, eta: Array, some: IntArray) -> Array:
        """Some latent values of η, for diagnostics, (M, len(some))."""

    @property
    def roots(self) -> list[Array] | None:
        """Roots of the prior that η belongs to, if not the problem's own."""
        return None

    def of_chains(self, chains: IntArray) -> Self:
        """The target of some of the chains; the same for all, unless each has separate labels."""
        return self


@dataclass(frozen=True, eq=False)
class GivenLatents(ABC):
    """The latent values at one θ, or what stands for them, f_c = root_c η_c, and what moves of θ need given them."""

    prior: LatentPrior  # at that θ
    roots: list[Array]  # triangular, one per latent value

    def latents(self, eta: Array) -> Array:
        """f of η, both (k,)."""
        return np.concatenate([L @ e for L, e in zip(self.roots, self._split(eta), strict=True)])

    def white(self, f: Array) -> Array:
        """η of f."""
        pairs = zip(self.roots, self._split(f), strict=True)
        return np.concatenate([solve_triangular(L, f_c, lower=True, check_finite=False) for L, f_c in pairs])

    def log_density(self, white: Array) -> float:
        """Log p(f | θ) without its constant, for the η of f."""
        return -0.5 * float(white @ white) - sum(float(np.log(np.diag(L)).sum()) for L in self.roots)

    @abstractmethod
    def log_likelihood(self, f: Array) -> float:
        """Log p(y | f)."""

    def slope(self, f: Array, white: Array) -> Array:
        """Gradient of log p(f | θ) + log p(y|f) in θ, f held (``latent_slope``)."""
        raise NotImplementedError

    def _split(self, values: Array) -> list[Array]:
        return np.split(values, len(self.roots))
