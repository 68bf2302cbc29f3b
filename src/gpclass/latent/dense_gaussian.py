r"""The dense prior times sites: what one factor of n×n matrices gives of it.

With α = K⁻¹ E[f] and M = (K + W⁻¹)⁻¹ of the sites' precision W (:mod:`gpclass.latent.factors`): E[f*] = k*ᵀα and
cov f* = k** − k*ᵀM k*. Every evidence here has ∂ log Z/∂K_c = ½ (α_c α_cᵀ − M_cc), plus u_c α_cᵀ for Laplace.
Cost: O(n²) memory per kernel, O(L n³) per factorisation, O(n²) per new point, in blocks of bounded memory.
Fails when: as in :mod:`gpclass.latent.dense`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from gpclass._typing import Array, Generator
from gpclass.latent import newton
from gpclass.latent.base import ExpectedPrior
from gpclass.latent.coupled import CoupledFactor
from gpclass.latent.covariances import rank_one
from gpclass.latent.factors import Factor, FullFactor, OneFactor
from gpclass.latent.in_memory import InMemoryGaussian, only
from gpclass.latent.near_sites import Response, matching, settled
from gpclass.latent.sites import Held, SiteRule
from gpclass.likelihoods.local import RowMarginals
from gpclass.model.rows import Labels
from gpclass.posterior import LatentMixture

if TYPE_CHECKING:
    from gpclass.latent.dense import DensePrior
    from gpclass.latent.joint import Joint, SitedRows

WELL_CONDITIONED = 1e5  # condition of the n×n form of many classes, above which rounding would move their mode
MOST_FULL = 10_000  # latent values for which one full matrix of them fits in memory
RESPONSIVE = 500  # rows, from which a sweep of sites that need care goes as far as one factor tells
ROUGH = 1e-3  # tolerance of sites, from which variances and slopes are in single precision
CHORD_FROM = 150  # latent values, from which a factor is used for several Newton steps
BLOCK_ELEMENTS = 4_000_000  # L × n × (points per block), about 32 MB


@dataclass(frozen=True, eq=False)
class DenseGaussian(InMemoryGaussian):
    """The dense prior times sites."""

    prior: DensePrior
    made: Factor | None = None  # the factor, if it exists already
    known: tuple[Array, Array] | None = None  # α and mean, if known more accurately than from the sites
    rough: bool = False  # whether variances and slopes are needed to three digits alone; α, mean and mass have all

    @property
    def chord(self) -> bool:
        return self.prior.problem.n * self.prior.L >= CHORD_FROM

    @property
    def half_log_det(self) -> float:
        return self.factor.half_log_det

    @property
    def jitter(self) -> float:
        return self.factor.jitter

    @cached_property
    def factor(self) -> Factor:
        """Of the prior times sites, computed when first needed."""
        if self.made is not None:
            return self.made
        if self.prior.L == 1:
            return OneFactor(self.prior.K, self.t, self.rough)
        if self.sites.D is not None:
            short = CoupledFactor(self.prior.covariances, self.D)
            if short.condition < WELL_CONDITIONED or self.D.size > MOST_FULL:
                return short
        return FullFactor(self.prior.covariances, self.W)

    def roughly(self, tol: float, rule: SiteRule) -> DenseGaussian:
        return replace(self, rough=True) if self.responds(rule) and tol >= ROUGH else self

    def beside(self, held: Held, rule: SiteRule) -> DenseGaussian:
        return replace(self.prior.given(held, rule), rough=self.rough)

    def responds(self, rule: SiteRule) -> bool:
        """Whether sites need care, and a factorisation costs more than iterations with its inverse."""
        return rule.careful and self.prior.L == 1 and self.prior.problem.n >= RESPONSIVE

    def ahead(self, old: Array, new: Array, rule: SiteRule, labels: Labels) -> Array:
        """By the response of this Gaussian (:mod:`gpclass.latent.near_sites`)."""
        if not self.responds(rule):
            return new
        assert isinstance(self.factor, OneFactor)
        likelihood, site = self.prior.problem.likelihood, self.factor.site
        response = Response(site.rough_B_inverse, self.t, self.mean[0], self.covariance[:, 0, 0], labels.copies)
        return settled(response, old, new, matching(rule, likelihood, labels))

    @cached_property
    def alpha(self) -> Array:
        """K⁻¹ mean, all copies together, (L, n)."""
        return self.known[0] if self.known is not None else self.shrunk(self.copies * self.sites.b)

    @cached_property
    def mean(self) -> Array:
        """At the rows, (L, n)."""
        return self.known[1] if self.known is not None else self.prior.product(self.alpha)

    @property
    def log_mass(self) -> float:
        """Log ∫ prior × sites."""
        return 0.5 * float(np.vdot(self.copies * self.sites.b, self.mean)) - self.half_log_det

    @property
    def details(self) -> dict[str, Any]:
        L = self.prior.L
        return {} if L == 1 else {"n_classes": L, "memory_mb": self.factor.megabytes}

    @property
    def D(self) -> Array:
        """Precisions in the short form, (L, n), all copies together."""
        if self.prior.L == 1:
            return self.t[None]
        if self.sites.D is None:
            raise ValueError("these sites have no short form; use around='laplace'")
        return np.asarray(self.copies * self.sites.D)

    @property
    def t(self) -> Array:
        """Precisions of one latent value per row, (n,), all copies together."""
        return np.asarray(self.copies * self.sites.W[:, 0, 0])

    @property
    def h(self) -> Array:
        """Shifts of one latent value per row, (n,), all copies together."""
        return np.asarray(self.copies * self.sites.b[0])

    @property
    def covariance(self) -> Array:
        """Covariance of the latent values of each row, (n, L, L)."""
        return self.factor.covariance

    def moved_to(self, held: Held) -> DenseGaussian:
        shard, labels = only(held, self.prior.problem.likelihood)
        view = shard.kept.reshape(newton.NUMBERS, self.prior.L, -1)
        f, alpha = view[newton.F], view[newton.ALPHA]
        sites = replace(self.sites, b=alpha + self.sites.times(f))  # sites whose Gaussian has this mean
        made = vars(self).get("factor", self.made)  # if it is known: a guide needs none
        return replace(self, sites=sites, made=made, known=(labels.copies * alpha, f))

    def shrunk(self, r: Array) -> Array:
        """(I + W K)⁻¹ r for r (L, n)."""
        return r - self.factor.solve(self.prior.product(r))

    def newton(self, held: Held, rule: SiteRule) -> tuple[Held, float]:
        """Δα = (I + W K)⁻¹ r from the residual r: the same factor works at neighbouring points."""
        shard, labels = only(held, self.prior.problem.likelihood)
        values = shard.kept.copy()
        view = values.reshape(newton.NUMBERS, self.prior.L, -1)
        r = labels.copies * view[newton.RESIDUAL]
        step = self.shrunk(r)
        view[newton.STEP_F] = self.prior.product(step)
        view[newton.STEP_ALPHA] = step / labels.copies
        return (shard.with_values(values),), float(np.vdot(view[newton.STEP_F], r))

    @property
    def marginals(self) -> RowMarginals:
        """Of all rows, one copy's site each."""
        return RowMarginals(self.mean, self.covariance, self.sites)

    def gradient(self, held: Held, rule: SiteRule, extra: bool = False) -> tuple[Array, Array | None]:
        """G_c = (½ α_c + u_c) α_cᵀ − ½ M_cc, contracted with the kernels' derivatives."""
        left, blocks = 0.5 * self.alpha, self.factor.blocks()
        first = next(blocks)  # before the covariance of the rows, which follows from what it needs
        if extra:
            likelihood = self.prior.problem.likelihood
            _, labels = only(held, likelihood)
            weight = np.asarray(labels.copies) * np.asarray(labels.power)
            s = likelihood.third(labels.y, self.mean, self.covariance)
            left = left + self.shrunk(weight * s)
        each = zip(chain([first], blocks), left, self.alpha, strict=True)
        return self.prior.pull(rank_one(M, a[:, None], b[:, None]) for M, a, b in each), None

    def expected_prior(self, held: Held, rule: SiteRule) -> ExpectedPrior:
        from gpclass.latent.expected_prior import DenseExpected  # it builds on this module

        return DenseExpected.of_gaussian(self)

    def means(self, X_new: Array) -> Array:
        return self._means(self.prior.per_latent(self.prior.cross(X_new)))

    def _means(self, cross: list[Array]) -> Array:
        return np.stack([k.T @ a for k, a in zip(cross, self.alpha, strict=True)], axis=1)

    def latent(self, X_new: Array) -> LatentMixture:
        """One Gaussian per point, with the covariance between the latent values of a point."""
        m, L, problem = len(X_new), self.prior.L, self.prior.problem
        mean, covariance = np.empty((m, L)), np.empty((m, L, L))
        step = max(1, BLOCK_ELEMENTS // (problem.n * L))
        for start in range(0, m, step):
            block = slice(start, start + step)
            new = X_new[block]
            cross = self.prior.per_latent(self.prior.cross(new))
            diag = self.prior.per_latent(self.prior.variances(new))
            mean[block] = self._means(cross)
            covariance[block] = self.factor.predict(cross, diag)
        return LatentMixture(np.ones(1), mean[None], covariance[None], np.zeros(1, dtype=np.intp))

    def joint(self, rows: SitedRows, X_new: Array) -> Joint:
        from gpclass.latent.joint import dense_joint  # it builds on this module

        return dense_joint(self, rows, X_new)

    def draw(self, X_new: Array, n: int, rng: Generator) -> Array:
        """Joint draws over X_new, (n, m, L). Cost: O(L m³) for m points."""
        cross = self.prior.per_latent(self.prior.cross(X_new))
        prior = self.prior.per_latent(self.prior.joint(X_new))
        return self._means(cross) + self.factor.draw(cross, prior, n, rng)

    def draw_rows(self, rng: Generator) -> Array:
        if self.prior.L > 1 and self.sites.D is None:
            return np.asarray(self.draw(self.prior.problem.X, 1, rng)[0].T.ravel())
        target = self.prior.whitened(self)
        return np.asarray(target.latents(rng.standard_normal((1, target.dimension)))[0])

    def vectors(self) -> Array:
        """t and h (2, n); D and α (2L, n); or W and b (L² + L, n)."""
        if self.prior.L == 1:
            return np.stack([self.t, self.h])
        if self.sites.D is not None:
            return np.vstack([self.D, self.alpha])
        L = self.prior.L
        return np.vstack([self.W.transpose(1, 2, 0).reshape(L * L, -1), self.copies * self.sites.b])

    def kept(self) -> dict[str, Array]:
        """Sites, mean and α, all copies together."""
        b = self.copies * self.sites.b
        if self.sites.D is None:
            return {"W": self.W, "b": b}
        return {"D": self.D, "b": b, "alpha": self.alpha, "mean": self.mean}
