"""The local prior times sites: blocks of rows, and the k nearest rows of a new point.

The evidence is the sum over the blocks, and its derivative by a block's K is ½ (α αᵀ − M), plus Laplace's implicit part
½ (x αᵀ + α xᵀ), x = s − W cov(f) s, with M and α of :mod:`gpclass.latent.local_passes`, whose passes run on shards of
blocks. A new point has mean k*ᵀα and variance k** − k*ᵀM k*, of the group of its nearest rows.
Cost: O(k³ L) per group, or O((k L)³) for sites without a short form, all groups of a chunk at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np

from gpclass._typing import Array, Generator, IntArray
from gpclass.latent import local_passes as passes
from gpclass.latent.dense import Dense
from gpclass.latent.in_memory import GaussianByMean, only
from gpclass.latent.local import LocalPrior
from gpclass.latent.local_solves import solved
from gpclass.latent.sites import Held, SiteRule
from gpclass.likelihoods.local import precision, symmetric_root
from gpclass.numerics.linalg import CURE, NotPositiveDefiniteError
from gpclass.posterior import LatentMixture

MOST_DRAWN = 6000  # latent values of points and rows, of which joint draws take the covariance: 300 MB


@dataclass(frozen=True, eq=False)
class LocalGaussian(GaussianByMean):
    """The local prior times sites."""

    prior: LocalPrior

    @cached_property
    def _sites(self) -> tuple[Array, Array]:
        """W and b of the places, and of a missing one at the end; W in its short form if it has one.

        The sites of rows that share a place add, and their sum has none.
        """
        prior, D = self.prior, self.sites.D
        if prior.L > 1 and D is not None and len(prior.first) == prior.problem.n:
            return prior.totals((self.copies * D).T), prior.totals(self.b)
        return prior.totals(self.W), prior.totals(self.b)

    @cached_property
    def _found(self) -> tuple[Array, Array, float]:
        """E f (n, L) and covariances (n, L, L) of the rows, and ½ log |I + K W|."""
        prior = self.prior
        sums = prior.map(passes.moments, *self._sites)
        if not np.isfinite(sums["half"]):
            raise NotPositiveDefiniteError(f"the posterior precision is not finite; {CURE}")
        return prior.at_rows(sums["mean"]), prior.at_rows(sums["cov"]), sums["half"]

    @cached_property
    def mean_f(self) -> Array:
        """At the rows, (n, L)."""
        return self._found[0]

    @cached_property
    def covariance(self) -> Array:
        return self._found[1]

    @cached_property
    def half_log_det(self) -> float:
        return self._found[2]

    @property
    def log_mass(self) -> float:
        """Log ∫ prior × sites."""
        return 0.5 * float(np.vdot(self.b, self.mean_f)) - self.half_log_det

    @property
    def jitter(self) -> float:
        return 0.0

    def moved_to(self, held: Held) -> LocalGaussian:
        moved = replace(self, sites=self.sites_at(held))
        for name in ("half_log_det", "covariance"):
            if "_found" in vars(self):
                vars(moved)[name] = getattr(self, name)
        return moved

    # ---- the gradient -----------------------------------------------------------------------------------------

    def gradient(self, held: Held, rule: SiteRule, extra: bool = False) -> tuple[Array, Array | None]:
        sums = self.prior.map(passes.slope, *self._sites, self._third(held) if extra else None)
        theta = sums["theta"]
        return (np.append(theta, sums["scale"]) if self.prior.problem.scale_is_free else theta), None

    def _third(self, held: Held) -> Array:
        """The s of Laplace's evidence, summed over the rows of each place."""
        likelihood = self.prior.problem.likelihood
        _, labels = only(held, likelihood)
        weight = np.asarray(labels.copies) * np.asarray(labels.power)
        s = (weight * likelihood.third(labels.y, np.ascontiguousarray(self.mean_f.T), self.covariance)).T
        return self.prior.totals(s)

    # ---- new points -------------------------------------------------------------------------------------------

    def _new(self, groups: IntArray, X_new: Array) -> tuple[Array, Array]:
        """Means (p, L) and covariances (p, L, L) at points, each from the places of its group (p, k)."""
        prior, L, points = self.prior, self.prior.L, self.prior.points
        W, b = (sites[groups] for sites in self._sites)
        K = prior.per_latent(prior.spec.between(points[groups]))
        solve = solved(K, W)
        P = points[groups].reshape(-1, points.shape[1])
        X_of = np.repeat(X_new, groups.shape[1], axis=0)
        covariances = prior.problem.covariances
        cross = prior.per_latent([covariance.pairs(P, X_of)[0].reshape(groups.shape) for covariance in covariances])
        own = prior.per_latent([covariance.diag(X_new) for covariance in covariances])
        alpha = b - solve.times(passes.through(K, b))
        mean = np.stack([np.einsum("gi,gi->g", cross[c], alpha[:, :, c]) for c in range(L)], axis=1)
        cov = -solve.reduction(cross)
        for c in range(L):
            cov[:, c, c] = np.maximum(cov[:, c, c] + own[c], 0.0)
        return mean, cov

    def means(self, X_new: Array) -> Array:
        return np.asarray(self.latent(X_new).means[0])

    def latent(self, X_new: Array) -> LatentMixture:
        """One Gaussian per point, from its nearest rows."""
        prior, L = self.prior, self.prior.L
        near = prior.nearest(X_new)
        mean, cov = np.empty((len(X_new), L)), np.empty((len(X_new), L, L))
        for some in prior.spec.chunks(len(near), prior.k, prior.problem.n_features):
            mean[some], cov[some] = self._new(near[some], X_new[some])
        return LatentMixture(np.ones(1), mean[None], cov[None], np.zeros(1, dtype=np.intp))

    def draw(self, X_new: Array, n: int, rng: Generator) -> Array:
        """Joint draws over X_new, (n, p, L), under the dense prior of the nearest rows of all points together."""
        prior = self.prior
        near = np.unique(prior.nearest(X_new))
        values = prior.L * (len(near) + len(X_new))
        if values > MOST_DRAWN:
            raise ValueError(
                f"joint draws at {len(X_new)} points need the covariance of {values} latent values, those of the "
                f"{len(near)} rows near them included, and at most {MOST_DRAWN} are drawn; draw at fewer points at "
                "once, or lower k of the local prior"
            )
        dense = replace(prior.problem.subset(prior.first[near]), form=Dense())
        W, b = (sites[near] for sites in self._sites)
        full = W if W.ndim == 3 else precision(W.T)
        return dense.prior.from_kept({"W": full, "b": b.T}).draw(X_new, n, rng)

    def draw_rows(self, rng: Generator) -> Array:
        found, L = [], self.prior.L
        each = (passes.solved_blocks(shard, self.prior.spec, *self._sites) for shard in self.prior.shards)
        for groups, _, K, _, solve, alpha in chain.from_iterable(each):
            g, s = groups.shape
            prior = np.zeros((g, s, L, s, L))
            for c, part in enumerate(K):
                prior[:, :, c, :, c] = part
            flat = prior.reshape(g, s * L, s * L)
            root = symmetric_root(flat - flat @ solve.in_full() @ flat)
            noise = np.einsum("gij,gj->gi", root, rng.standard_normal((g, s * L))).reshape(g, s, L)
            found.append((passes.through(K, alpha) + noise).reshape(-1, L))
        return np.asarray(self.prior.at_rows(found).T.ravel())

    def vectors(self) -> Array:
        """W and b, (L² + L, n)."""
        L = self.prior.L
        return np.vstack([self.W.transpose(1, 2, 0).reshape(L * L, -1), self.b.T])

    def kept(self) -> dict[str, Array]:
        """Sites, all copies together, in their short form if they have one."""
        b, D = np.ascontiguousarray(self.b.T), self.sites.D
        return {"W": self.W, "b": b} if D is None or self.prior.L == 1 else {"D": self.copies * D, "b": b}
