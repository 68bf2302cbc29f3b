r"""The dense prior: N(0, K) with K held as a full matrix, one per kernel.

Times sites it is a :class:`~gpclass.latent.dense_gaussian.DenseGaussian`. Rows are one shard in memory. The copies of a
weighted row share its latent value.
Cost: O(n²) memory per kernel, O(L n³) per factorisation, O(n²) per new point, in blocks of bounded memory.
Fails when: a root of K is needed and K has no factor even with jitter (:mod:`gpclass.numerics.linalg`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.linalg import solve_triangular

from gpclass._typing import Array, Generator
from gpclass.latent import newton
from gpclass.latent.base import Form, Gaussian, LatentPrior
from gpclass.latent.coordinates import Features, GivenLatents, Target
from gpclass.latent.covariances import Covariances
from gpclass.latent.dense_gaussian import DenseGaussian
from gpclass.latent.factors import NEW_POINTS, OneFactor
from gpclass.latent.in_memory import only
from gpclass.latent.inducing import sample_of_classes
from gpclass.latent.sites import Held, SiteRule
from gpclass.likelihoods.local import RowMarginals, RowSites
from gpclass.model.rows import ArraySource, Rows, Source
from gpclass.numerics.linalg import factor

if TYPE_CHECKING:
    from gpclass.model.problem import Problem
    from gpclass.orthant.box import Box

MANY = 600  # rows, from which a search of θ begins on a part of them


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


def dense_prior(problem: Problem) -> DensePrior:
    """The prior of a problem whose form is dense."""
    prior = problem.prior
    if not isinstance(prior, DensePrior):
        raise TypeError(f"a dense prior is needed, and the form is {problem.form.name!r}")
    return prior
