r"""Expectation propagation: Gaussian sites that match moments of the true factors.

With the sites at their fixed point, d log Z / dK = ½(ααᵀ − (K + T⁻¹)⁻¹), α = K⁻¹ E[f]. The likelihood
matches a row's site: in closed form (probit), by quadrature (logit), nested (multinomial probit,
:mod:`gpclass.likelihoods.nested`). All rows are updated at once (:mod:`gpclass.inference.sweeps`); if that does not
converge and a dense or local prior has one latent value per row, one after another in blocks
(:mod:`gpclass.propagation`).
Cost: n³ per sweep dense, 8 to 16 sweeps from a cold start, 4 to 10 from neighbouring sites (4 to 6, and 1 to 3, from
500 rows on, :mod:`gpclass.latent.near_sites`); 2 L C n³ for many classes, 5 to 20 sweeps; O(L² n m²) with m inducing
inputs.
Fails when: an error estimate is needed. log Z is usually right to a few hundredths of a nat and the probabilities
to about 0.001, but EP gives no error; compare with ``exact``.
Reference: Minka (2001); Rasmussen & Williams (2006), section 3.6; Filippone & Girolami (2014) on its quality
as an importance distribution; Naish-Guzman & Holden (2008) for inducing inputs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gpclass._typing import Array, BoolArray, Generator, IntArray
from gpclass.inference.base import Way
from gpclass.inference.posteriors import GaussianPosterior
from gpclass.inference.sweeps import ByFixedPoint, FixedPoint, fixed_point
from gpclass.latent.dense import dense_prior
from gpclass.latent.in_memory import InMemoryGaussian
from gpclass.latent.sites import Held, SiteRule, Start, labels_of
from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.binary import BinaryLikelihood
from gpclass.likelihoods.local import RowMarginals, RowSites
from gpclass.likelihoods.many import without_cavity
from gpclass.model.problem import Problem
from gpclass.model.rows import Labels
from gpclass.propagation import expectation_propagation
from gpclass.propagation.factors import TINY
from gpclass.propagation.sites import SiteApproximation, Sites

PARALLEL = 20  # sweeps of all rows at once, before rows are visited one after another
POWERED = 60  # the same for rows with fractional powers, of which one at a time costs thirty times as much
FINER, FINAL = (
    0.01,
    1e-6,
)  # share of a tolerance this small (a final fit's), to which sites under a dense prior are found
ROUNDED = 0.01  # standard deviations by which rounding may move a posterior that is called converged
CURE = "use a smaller prior variance, or add a WhiteKernel"
ASTRAY = 1.0  # relative change of a site in the last sweep, after which they are too


class MomentMatching(SiteRule):
    """Sites, their numbers and updates by the likelihood's own matching."""

    name: ClassVar[str] = "ep"
    careful: ClassVar[bool] = True

    def numbers(self, likelihood: Likelihood, L: int) -> int:
        return likelihood.site_numbers(L)

    def sites(self, likelihood: Likelihood, labels: Labels, numbers: Array) -> RowSites:
        return likelihood.sites(labels.y, numbers)

    def first(self, likelihood: Likelihood, labels: Labels, at: RowMarginals) -> Array:
        return likelihood.first_site(labels, at)

    def update(self, likelihood: Likelihood, labels: Labels, numbers: Array, at: RowMarginals) -> tuple[Array, Array]:
        return likelihood.match(labels, numbers, at)

    def step(self, likelihood: Likelihood) -> float:
        return likelihood.site_step

    def packed(self, likelihood: Likelihood, numbers: Array) -> Array:
        return likelihood.pack_sites(numbers)

    def unpacked(self, likelihood: Likelihood, packed: Array) -> Array:
        return likelihood.unpack_sites(packed)

    def sound(self, mixed: Array, newest: Array) -> BoolArray:
        """Precisions (the first half of the numbers) that have not vanished."""
        half = len(mixed) // 2
        return np.asarray(np.all(mixed[:half] > 0.2 * newest[:half], axis=0) & np.isfinite(mixed).all(axis=0))


RULE = MomentMatching()


@dataclass(frozen=True)
class LikelihoodFactors:
    """The factors p(y_i | f_i)^power_i that sequential EP's sites replace."""

    likelihood: BinaryLikelihood
    y: Array  # (n,)
    power: Array | None = None  # (n,), in ]0, 1]; None: all one

    def tilted(self, mean: Array, var: Array) -> tuple[Array, Array, Array]:
        """Log normaliser, mean and variance of N(f; mean, var) p(y|f), for all points."""
        if self.power is None:
            return self.likelihood.tilted(self.y, mean, var)
        return self.likelihood.powered_tilted(self.y, mean, var, self.power)

    def tilted_one(self, i: int, mean: float, var: float) -> tuple[float, float, float]:
        """The same for point i."""
        if self.power is None or self.power[i] == 1.0:
            return self.likelihood.tilted_scalar(self.y[i], mean, var)
        log_z, m, v = self.likelihood.powered_tilted(self.y[i : i + 1], mean, var, self.power[i])
        return float(log_z[0]), float(m[0]), float(v[0])


@dataclass(frozen=True)
class EP(ByFixedPoint):
    """Settings of expectation propagation.

    Parameters
    ----------
    max_sweeps : int
        Largest number of passes over all sites: all at once, and again one after another.
    tol : float
        Stop when every site (dense prior), or the posterior in its standard deviations (inducing inputs), changes by
        less than this in a sweep, relatively.
    block : int
        Sites updated one after the other on their own marginal between updates of the full covariance, if updating all
        rows at once does not converge.
    """

    max_sweeps: int = 100
    tol: float = 1e-6
    block: int = 64

    name: ClassVar[str] = "ep"
    ways: ClassVar[tuple[Way, ...]] = (Way.needs("match", "given"),)

    @property
    def rule(self) -> SiteRule:
        return RULE

    def infer(self, problem: Problem, rng: Generator, start: Start | None, gradient: bool) -> GaussianPosterior:
        return self.sites(problem, start).posterior(problem, RULE, "approximate", gradient)

    def sites(self, problem: Problem, start: Start | None = None) -> FixedPoint:
        """The fixed point alone."""
        full, likelihood = "covariance" in problem.form.offers, problem.likelihood
        aim = FINER * self.tol if full and self.tol <= FINAL else None
        if isinstance(likelihood, BinaryLikelihood):
            groups = problem.prior.independent()
            if full or groups is not None:
                plain = labels_of(problem.rows.held[0], likelihood).plain
                most = PARALLEL if plain else POWERED
                found = fixed_point(problem, RULE, start, min(self.max_sweeps, most), self.tol, aim)
                if found.converged:
                    return found
                if groups is not None:
                    return self._sequential_where_astray(problem, groups, found)
                near_by = found.sweeps < most and found.change < ASTRAY
                return found if near_by else self._sequential(problem, likelihood)
        found = fixed_point(problem, RULE, start, self.max_sweeps, self.tol, aim)
        if not full or likelihood.powers:
            return found
        labels = labels_of(found.held[0], likelihood)
        lost = int(without_cavity(labels, found.gaussian.marginals.cavity()[1]).sum())
        return replace(found, lost=lost, converged=found.converged and not lost)

    def _sequential(self, problem: Problem, likelihood: BinaryLikelihood) -> FixedPoint:
        """Sites one after another, in blocks, from none."""
        (shard,) = problem.rows.held
        labels = labels_of(shard, likelihood)
        found = self._one_by_one(dense_prior(problem).K, labels, likelihood)
        held: Held = (shard.with_values(_each(found.sites, labels)),)
        return FixedPoint(
            held, problem.prior.given(held, RULE), found.log_z, found.sweeps, found.converged, found.change
        )

    def _sequential_where_astray(
        self, problem: Problem, groups: Iterable[tuple[IntArray, Array]], all_at_once: FixedPoint
    ) -> FixedPoint:
        """Sites one after another in those groups of independent rows that are not at their fixed point.

        Every group's evidence is by a factor that large variances do not round; the prior's own may, which is told.
        """
        likelihood, before, (shard,) = problem.likelihood, all_at_once.gaussian, all_at_once.held
        assert isinstance(likelihood, BinaryLikelihood)
        assert isinstance(before, InMemoryGaussian)
        moves = before.moves(before.sweep(all_at_once.held, RULE, 1.0, 1).gaussian)
        labels, numbers = labels_of(shard, likelihood), shard.kept[:2].copy()
        mean, var, log_z, change, sweeps = np.empty(len(moves)), np.empty(len(moves)), 0.0, 0.0, 0
        for rows, K in groups:
            own, move = labels.take(rows), moves[rows].max()
            astray = not move <= self.tol  # also if it is not a number
            begin = Sites(*(own.copies * numbers[:, rows])) if move <= ASTRAY else None
            found = self._one_by_one(K, own, likelihood, begin, self.max_sweeps if astray else 0)
            mean[rows], var[rows], log_z = found.mean, found.covariance.diagonal(), log_z + found.log_z
            if astray:
                numbers[:, rows] = _each(found.sites, own)
                change, sweeps = max(change, found.change), max(sweeps, found.sweeps)
        held: Held = (shard.with_values(numbers),)
        q = problem.prior.given(held, RULE)
        assert isinstance(q, InMemoryGaussian)
        rounded = _apart(q.marginals, mean, var)
        reason = "" if rounded <= ROUNDED else f"rounding moves the posterior by {rounded:.1e}: {CURE}"
        converged = change <= self.tol and not reason
        return FixedPoint(held, q, log_z, all_at_once.sweeps + sweeps, converged, change, reason=reason)

    def _one_by_one(
        self,
        K: Array,
        labels: Labels,
        likelihood: BinaryLikelihood,
        start: Sites | None = None,
        max_sweeps: int | None = None,
    ) -> SiteApproximation:
        return expectation_propagation(
            K,
            LikelihoodFactors(likelihood, labels.y, None if labels.plain else np.asarray(labels.power)),
            copies=None if isinstance(labels.copies, float) else labels.copies,
            start=start,
            max_sweeps=self.max_sweeps if max_sweeps is None else max_sweeps,
            block=self.block,
            tol=self.tol,
        )


def _each(sites: Sites, labels: Labels) -> Array:
    """Numbers (2, n) of one copy's site of each row."""
    return np.stack([sites.precision, sites.shift]) / np.maximum(labels.copies, TINY)


def _apart(at: RowMarginals, mean: Array, var: Array) -> float:
    """Largest difference of marginals of one latent value, in standard deviations, and of these, relatively."""
    sd = np.sqrt(np.maximum(var, TINY))
    return float(np.max(np.maximum(np.abs(at.mean[0] - mean), np.abs(np.sqrt(at.cov[:, 0, 0]) - sd)) / sd))
