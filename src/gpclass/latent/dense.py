r"""The dense prior: N(0, K) with K held as a full matrix, one per kernel.

With α = K⁻¹ E[f] and M = (K + W⁻¹)⁻¹ of the sites' precision W (:mod:`gpclass.latent.factors`): E[f*] = k*ᵀα and
cov f* = k** − k*ᵀM k*. Every evidence here has ∂ log Z/∂K_c = ½ (α_c α_cᵀ − M_cc), plus u_c α_cᵀ for Laplace.
Rows are one shard in memory. The copies of a weighted row share its latent value.
Cost: O(n²) memory per kernel, O(L n³) per factorisation, O(n²) per new point, in blocks of bounded memory.
Fails when: a root of K is needed and K has no factor even with jitter (:mod:`gpclass.numerics.linalg`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.linalg import solve_triangular

from gpclass._typing import Array, Generator
from gpclass.latent import newton
from gpclass.latent.base import ExpectedPrior, Form, Gaussian, LatentPrior
from gpclass.latent.coordinates import Features, GivenLatents, Target
from gpclass.latent.coupled import CoupledFactor
from gpclass.latent.covariances import Covariances, rank_one
from gpclass.latent.factors import NEW_POINTS, Factor, FullFactor, OneFactor
from gpclass.latent.in_memory import InMemoryGaussian, only
from gpclass.latent.inducing import sample_of_classes
from gpclass.latent.near_sites import Response, matching, settled
from gpclass.latent.sites import Held, SiteRule
from gpclass.likelihoods.local import RowMarginals, RowSites
from gpclass.model.rows import ArraySource, Labels, Rows, Source
from gpclass.numerics.linalg import factor
from gpclass.posterior import LatentMixture

if TYPE_CHECKING:
    from gpclass.latent.joint import Joint, SitedRows
    from gpclass.model.problem import Problem
    from gpclass.orthant.box import Box

WELL_CONDITIONED = 1e5  # condition of the n×n form of many classes, above which rounding would move their mode
MOST_FULL = 10_000  # latent values for which one full matrix of them fits in memory
RESPONSIVE = 500  # rows, from which a sweep of sites that need care goes as far as one factor tells
ROUGH = 1e-3  # tolerance of sites, from which variances and slopes are in single precision
MANY = 600  # rows, from which a search of θ begins on a part of them
CHORD_FROM = 150  # latent values, from which a factor is used for several Newton steps
BLOCK_ELEMENTS = 4_000_000  # L × n × (points per block), about 32 MB


@dataclass(frozen=True)
class Dense(Form):
    """The prior as full covariance matrices."""

    name: ClassVar[str] = "dense"
    offers: ClassVar[frozenset[str]] = frozenset(
        ["given", "evidence", "whitened", "box", "joint", "covariance", "expected", "latents", "latent_slope"]
    )
    predicts_from_rows: ClassVar[bool] = True

    @classmethod
    def asked(cls, settings: Any) -> Dense:
        return Dense()  # whatever they are: the default

    def rows(self, source: Source) -> Rows:
        """One shard in memory."""
        whole = source if isinstance(source, ArraySource) else ArraySource(*source.take(np.arange(source.n)))
        return Rows.in_memory(whole.X, whole.y, whole.weights)

    def part(self, problem: Problem, rng: Generator) -> Problem | None:
        """A third of the rows, at a ninth to a twenty-seventh of the cost; None if there are few anyway.

        The same rows whatever the random state: the maximum is found without any other random number.
        """
        if problem.n < MANY:
            return None
        rows = sample_of_classes(np.asarray(problem.y), problem.n // 3, np.random.default_rng(0))
        return problem.subset(rows) if 2 * len(rows) < problem.n else None

    def prior(self, problem: Problem) -> DensePrior:
        return DensePrior(problem)


@dataclass(frozen=True, eq=False)
class DensePrior(Covariances, LatentPrior):
    """N(0, K_c) for each of L latent values per row."""

    problem: Problem

    # ---- Gaussians --------------------------------------------------------------------------------------------

    def given(self, held: Held, rule: SiteRule) -> DenseGaussian:
        likelihood = self.problem.likelihood
        shard, labels = only(held, likelihood)
        sites = rule.sites(likelihood, labels, shard.kept[: rule.numbers(likelihood, self.L)])
        return DenseGaussian(self, sites, labels.copies)

    def begin(self, rule: SiteRule, near: Gaussian | None = None) -> tuple[Held, Gaussian]:
        n, L, likelihood = self.problem.n, self.L, self.problem.likelihood
        shard, labels = only(self.problem.rows.held, likelihood)
        flat = RowSites(b=np.zeros((L, n)), D=np.zeros((L, n)))
        mean, cov = np.zeros((L, n)), np.zeros((n, L, L))
        cov[:, range(L), range(L)] = np.stack([np.diag(K) for K in self.covariances], axis=1)
        if isinstance(near, DenseGaussian) and near.prior.L == L:
            expected = near.latent(self.problem.X)
            mean, cov = np.ascontiguousarray(expected.means[0].T), expected.covariances[0]
        numbers = rule.first(likelihood, labels, RowMarginals(mean, cov, flat))
        held = (shard.with_values(numbers),)
        return held, self.given(held, rule)

    def times(self, held: Held) -> Held:
        """Rows with f = K (c∘α)."""
        shard, labels = only(held, self.problem.likelihood)
        values = shard.kept.copy()
        view = values.reshape(newton.NUMBERS, self.L, -1)
        view[newton.F] = self.product(labels.copies * view[newton.ALPHA])
        return (shard.with_values(values),)

    def from_vectors(self, vectors: Array) -> DenseGaussian:
        """t and h; or D and α; or W and b."""
        n, L = self.problem.n, self.L
        if L == 1:
            t, h = vectors
            found = OneFactor(self.K, t)
            Kh = self.K @ h
            mean = Kh - self.K @ found.site.solve(Kh)
            known = ((h - t * mean)[None], mean[None])
            return DenseGaussian(self, RowSites(h[None], t[None]), 1.0, found, known)
        if len(vectors) == 2 * L:
            D, alpha = np.split(vectors, 2)
            return self.from_kept({"D": D, "alpha": alpha})
        W, b = vectors[: L * L].reshape(L, L, n).transpose(2, 0, 1), vectors[L * L :]
        return DenseGaussian(self, RowSites(b=b, full=W))

    def from_kept(self, kept: dict[str, Array]) -> DenseGaussian:
        if "W" in kept:
            return DenseGaussian(self, RowSites(b=kept["b"], full=kept["W"]))
        D, alpha = kept["D"], kept["alpha"]
        mean = kept["mean"] if "mean" in kept else self.product(alpha)
        b = kept["b"] if "b" in kept else alpha + RowSites(alpha, D).times(mean)
        return DenseGaussian(self, RowSites(b=b, D=D), 1.0, None, (alpha, mean))

    # ---- white coordinates ------------------------------------------------------------------------------------

    def features(self, X_new: Array, roots: list[Array] | None = None) -> Features:
        """V = L⁻¹ k(X, X_new): |v|² ≤ k**, so a nearly singular K costs no accuracy."""
        each = zip(roots or self.roots, self.cross(X_new), strict=True)
        V = [np.asarray(solve_triangular(L, cross, lower=True, check_finite=False)) for L, cross in each]
        own = zip(self.variances(X_new), V, strict=True)
        return Features(V, [np.maximum(k - np.einsum("ij,ij->j", v, v), 0.0) for k, v in own])

    def white_dimension(self) -> int:
        return self.L * self.problem.n

    def joint_root(self, X_new: Array, features: Features) -> list[Array]:
        """Roots of k(X_new) − VᵀV."""
        each = zip(self.joint(X_new), features.V, strict=True)
        return [factor(K - V.T @ V, what=NEW_POINTS, scale=float(np.mean(np.diag(K))))[0] for K, V in each]

    def whitened(self, gaussian: Gaussian | None, power: float = 1.0) -> Target:
        """Coordinates of :mod:`gpclass.latent.whitened`."""
        from gpclass.latent.whitened import whiten  # it builds on this module

        if gaussian is None:
            return whiten(self.problem)
        assert isinstance(gaussian, DenseGaussian)
        return whiten(self.problem, gaussian.alpha, power * gaussian.D)

    def score(self, eta: Array, weights: Array) -> tuple[Array, Array | None]:
        """By parts, free of K⁻¹: ∂ log p(y)/∂K_c = ½ (E[g_c g_cᵀ] + diag E[∂g_c/∂f_c]), g = ∂ log p(y|f)/∂f."""
        n, L, likelihood = self.problem.n, self.L, self.problem.likelihood
        _, labels = only(self.problem.rows.held, likelihood)
        each = np.split(eta, L, axis=1)
        f = np.stack([root @ part.T for root, part in zip(self.per_latent(self.roots), each, strict=True)])
        first, bend = likelihood.smear_slopes(labels, f, np.zeros((L, n)))
        count = labels.count[:, None]
        g, change = count * first, count * (bend - first**2)

        def blocks() -> Iterable[Array]:
            for c in range(L):
                G = 0.5 * ((g[c] * weights) @ g[c].T)
                G.flat[:: n + 1] += 0.5 * (change[c] @ weights)
                yield G

        return self.pull(blocks()), None

    def given_latents(self) -> GivenLatents:
        from gpclass.latent.given_latents import DenseLatents  # it builds on this module

        return DenseLatents(self, self.per_latent(self.roots))

    def centred(self, mode: Callable[[], Gaussian]) -> Gaussian | None:
        """Of several latent values, whose variational sites have no short form (:mod:`gpclass.latent.centred`)."""
        from gpclass.latent.centred import centred  # it builds on this module

        return None if self.L == 1 else centred(self, mode())

    def box(self) -> Box:
        """Of :mod:`gpclass.latent.noisy_box`."""
        from gpclass.latent.noisy_box import noisy_box  # it builds on this module

        return noisy_box(self)


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


def dense_prior(problem: Problem) -> DensePrior:
    """The prior of a problem whose form is dense."""
    prior = problem.prior
    if not isinstance(prior, DensePrior):
        raise TypeError(f"a dense prior is needed, and the form is {problem.form.name!r}")
    return prior
