"""Sites of rows that are one shard in memory: sweeps, comparison and steps, for dense, neighbour and local priors.

A sweep updates the sites of all rows at once, from their marginals; two Gaussians are compared by their sites, in
units of the marginals' standard deviations.
Cost: O(n L²) beside the marginals.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from gpclass._typing import Array
from gpclass.latent import newton
from gpclass.latent.base import Gaussian, LatentPrior, per_latent
from gpclass.latent.sites import Held, SiteRule, Swept, labels_of, remembered
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
        first = new
        if step == 1.0:
            new = self.ahead(old, first, rule, labels)
        moved = new if step == 1.0 else old + step * (new - old)
        value = self.log_mass + float(np.sum(labels.copies * terms))
        next_held = (shard.with_values(remembered(shard.kept, moved, remember)),)
        return Swept(next_held, self.beside(next_held, rule), value, ahead=new is not first)

    def ahead(self, old: Array, new: Array, rule: SiteRule, labels: Labels) -> Array:
        """The new numbers of all sites, or others nearer to the fixed point, if they are known without a new factor."""
        return new

    def distance(self, other: Gaussian) -> float:
        return float(np.max(self.moves(other)))

    def moves(self, other: Gaussian) -> Array:
        """Change of each row's site (n,), relative to itself or to a thousandth of its marginal's precision."""
        sites = self._like(other).sites
        each = zip(self.difference(other), (sites.W, sites.b), self._units, strict=True)
        W, b = (np.abs(change) / np.maximum(np.abs(new), FLOOR / unit) for change, new, unit in each)
        return np.asarray(np.maximum(W.max(axis=(1, 2)), b.max(axis=0)))

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


@dataclass(frozen=True, eq=False)
class GaussianByMean(InMemoryGaussian):
    """One whose steps and α follow from its mean at the rows."""

    @property
    @abstractmethod
    def mean_f(self) -> Array:
        """At the rows, (n, L)."""

    @property
    def b(self) -> Array:
        """Shifts, (n, L), all copies together."""
        return np.ascontiguousarray((self.copies * self.sites.b).T)

    @property
    def alpha(self) -> Array:
        """Of each row, all copies together, (n, L): K⁻¹ mean, if rows do not share a latent value."""
        return np.asarray(self.b - np.einsum("nab,nb->na", self.W, self.mean_f))

    @property
    def details(self) -> dict[str, Any]:
        L = len(self.sites.b)
        return {} if L == 1 else {"n_classes": L}

    @property
    def marginals(self) -> RowMarginals:
        return RowMarginals(np.ascontiguousarray(self.mean_f.T), self.covariance, self.sites)

    def newton(self, held: Held, rule: SiteRule) -> tuple[Held, float]:
        """Newton's target is the mean of this Gaussian."""
        shard, labels = only(held, self.prior.problem.likelihood)
        copies, values = np.asarray(labels.copies), shard.kept.copy()
        view = values.reshape(newton.NUMBERS, len(self.sites.b), -1)
        view[newton.STEP_F] = self.mean_f.T - view[newton.F]
        view[newton.STEP_ALPHA] = self.alpha.T / copies - view[newton.ALPHA]
        return (shard.with_values(values),), float(np.sum(copies * view[newton.STEP_F] * view[newton.RESIDUAL]))

    def sites_at(self, held: Held) -> RowSites:
        """Sites whose Gaussian has the rows' f for its mean."""
        (shard,) = held
        view = shard.kept.reshape(newton.NUMBERS, len(self.sites.b), -1)
        return replace(self.sites, b=view[newton.ALPHA] + self.sites.times(view[newton.F]))


class InMemoryPrior(LatentPrior):
    """A prior whose rows are one shard, and which starts at its own variances."""

    @property
    def L(self) -> int:
        """Latent values per row."""
        return self.problem.n_latents

    def per_latent(self, found: list[Any]) -> list[Any]:
        """One item per latent value, from one per kernel."""
        return per_latent(found, self.L)

    def sited(self, held: Held, rule: SiteRule) -> tuple[RowSites, Array | float]:
        """Sites of one copy of each row, and the copies."""
        likelihood = self.problem.likelihood
        shard, labels = only(held, likelihood)
        return rule.sites(likelihood, labels, shard.kept[: rule.numbers(likelihood, self.L)]), labels.copies

    def begin(self, rule: SiteRule, near: Gaussian | None = None) -> tuple[Held, Gaussian]:
        n, L, likelihood = self.problem.n, self.L, self.problem.likelihood
        shard, labels = only(self.problem.rows.held, likelihood)
        flat = RowSites(b=np.zeros((L, n)), D=np.zeros((L, n)))
        cov = np.zeros((n, L, L))
        variances = self.per_latent([covariance.diag(self.problem.X) for covariance in self.problem.covariances])
        cov[:, range(L), range(L)] = np.stack(variances, axis=1)
        held = (shard.with_values(rule.first(likelihood, labels, RowMarginals(np.zeros((L, n)), cov, flat))),)
        return held, self.given(held, rule)


def only(held: Held, likelihood: Likelihood) -> tuple[Shard, Labels]:
    """The one shard of rows in memory, and its labels."""
    (shard,) = held
    return shard, labels_of(shard, likelihood)
