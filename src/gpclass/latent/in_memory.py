"""Sweeps and comparison of sites of rows that are one shard in memory, for the dense and the neighbour prior.

A sweep updates the sites of all rows at once, from their marginals; two Gaussians are compared by their sites, in
units of the marginals' standard deviations.
Cost: O(n L²) beside the marginals.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from gpclass._typing import Array
from gpclass.latent import base
from gpclass.latent.base import Gaussian, Held, LatentPrior, SiteRule, Swept, labels_of
from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.local import RowMarginals, RowSites
from gpclass.model.rows import Labels, Shard

FLOOR = 1e-3  # a site below this share of its marginal's precision is compared by its absolute change


@dataclass(frozen=True, eq=False)
class InMemoryGaussian(Gaussian):
    """A prior times the sites of rows in memory."""

    prior: LatentPrior
    sites: RowSites  # of one copy of each row
    copies: Array | float = 1.0

    @property
    @abstractmethod
    def covariance(self) -> Array:
        """Covariance of the latent values of each row, (n, L, L)."""

    @property
    @abstractmethod
    def marginals(self) -> RowMarginals:
        """Of all rows, one copy's site each."""

    @property
    @abstractmethod
    def log_mass(self) -> float:
        """Log ∫ prior × sites."""

    @property
    def W(self) -> Array:
        """Precisions in full, (n, L, L), all copies together."""
        return np.broadcast_to(self.copies, self.prior.problem.n)[:, None, None] * self.sites.W

    def sweep(self, held: Held, rule: SiteRule, step: float, remember: int) -> Swept:
        likelihood = self.prior.problem.likelihood
        shard, labels = only(held, likelihood)
        old = shard.kept[: rule.numbers(likelihood, len(self.sites.b))]
        new, terms = rule.update(likelihood, labels, old, self.marginals)
        moved = new if step == 1.0 else old + step * (new - old)
        value = self.log_mass + float(np.sum(labels.copies * terms))
        next_held = (shard.with_values(base.remembered(shard.kept, moved, remember)),)
        return Swept(next_held, self.prior.given(next_held, rule), value)

    def distance(self, other: Gaussian) -> float:
        """The largest change of a site, relative to itself or to a thousandth of its marginal's precision."""
        sites = self._like(other).sites
        each = zip(self.difference(other), (sites.W, sites.b), self._units, strict=True)
        return max(float(np.max(np.abs(change) / np.maximum(np.abs(new), FLOOR / unit))) for change, new, unit in each)

    def difference(self, after: Gaussian) -> tuple[Array, Array]:
        sites = self._like(after).sites
        return sites.W - self.sites.W, sites.b - self.sites.b

    def in_units(self, difference: Sequence[Array]) -> Array:
        return np.concatenate([(change * unit).ravel() for change, unit in zip(difference, self._units, strict=True)])

    def _like(self, other: Gaussian) -> Self:
        assert isinstance(other, type(self))
        return other

    @cached_property
    def _units(self) -> tuple[Array, Array]:
        """Products (n, L, L) of the marginals' standard deviations, and these, (L, n)."""
        sd = np.sqrt(np.maximum(np.einsum("nll->ln", self.covariance), 1e-300))
        return sd.T[:, :, None] * sd.T[:, None, :], sd


def only(held: Held, likelihood: Likelihood) -> tuple[Shard, Labels]:
    """The one shard of rows in memory, and its labels."""
    (shard,) = held
    return shard, labels_of(shard, likelihood)
