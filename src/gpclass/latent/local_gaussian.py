r"""The local prior times sites: blocks of rows, and the k nearest rows of a new point.

For a group of rows with prior covariance K (block-diagonal over the L latent values) and sites W, b,

    M = (K + W⁻¹)⁻¹ = W^½(I + W^½K W^½)⁻¹W^½,   α = b − M K b,   E f = K α,   cov f = K − K M K,

without the inverse of K or of W. The evidence is the sum over the blocks, and its derivative by a block's K is
½ (α αᵀ − M), plus Laplace's implicit part ½ (x αᵀ + α xᵀ), x = s − W cov(f) s. A new point has mean k*ᵀα and variance
k** − k*ᵀM k*, of the group of its nearest rows.
Cost: O((k L)³) per group, all groups of a chunk at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpclass._typing import Array, Generator, IntArray
from gpclass.latent.base import Held, SiteRule
from gpclass.latent.dense import Dense
from gpclass.latent.in_memory import GaussianByMean, only
from gpclass.latent.local import LocalPrior
from gpclass.likelihoods.local import symmetric_root
from gpclass.numerics.linalg import CURE, NotPositiveDefiniteError
from gpclass.posterior import LatentMixture

MOST_DRAWN = 6000  # latent values of points and rows, of which joint draws take the covariance: 300 MB


def solved(K: list[Array], W: Array) -> tuple[Array, float]:
    """M (g, s, L, s, L) of groups and the sum of ½ log |I + K W|, from K per latent value (g, s, s) and W."""
    g, s, L, _ = W.shape
    root = np.sqrt(np.maximum(W, 0.0)) if L == 1 else symmetric_root(W)
    if L == 1:
        B = root[:, :, 0] * K[0] * root[:, :, 0].transpose(0, 2, 1)
    else:
        B = np.einsum("giad,dgij,gjde->giaje", root, np.stack(K), root, optimize=True).reshape(g, s * L, s * L)
    B[:, range(s * L), range(s * L)] += 1.0
    try:
        factor = np.linalg.cholesky(B)
    except np.linalg.LinAlgError:
        raise NotPositiveDefiniteError(f"I + W^(1/2) K W^(1/2) is not positive definite; {CURE}") from None
    half_log_det = float(np.log(np.diagonal(factor, axis1=1, axis2=2)).sum())
    inverse = np.linalg.inv(B)
    if L == 1:
        M = root[:, :, 0] * inverse * root[:, :, 0].transpose(0, 2, 1)
    else:
        M = np.einsum("giad,gidje,gjef->giajf", root, inverse.reshape(g, s, L, s, L), root, optimize=True)
    return M.reshape(g, s, L, s, L), half_log_det


def through(K: list[Array], x: Array) -> Array:
    """K x for x (g, s, L, ...)."""
    return np.stack([np.einsum("gij,gj...->gi...", part, x[:, :, c]) for c, part in enumerate(K)], axis=2)


def times(M: Array, x: Array) -> Array:
    """M x for x (g, s, L, ...)."""
    return np.asarray(np.einsum("giajb,gjb...->gia...", M, x, optimize=True))


@dataclass(frozen=True, eq=False)
class LocalGaussian(GaussianByMean):
    """The local prior times sites."""

    prior: LocalPrior

    @cached_property
    def _sites(self) -> tuple[Array, Array]:
        """W and b of the places, and of a missing one at the end."""
        return self.prior.totals(self.W), self.prior.totals(self.b)

    def _of_blocks(self) -> Any:
        """Per chunk the places (g, s), K, W and M, α, and ½ log |I + K W|."""
        prior, (W, b) = self.prior, self._sites
        for some in prior.chunks(prior.blocks):
            groups = prior.blocks[some]
            K = prior.per_latent([part[some] for part in prior.K])
            M, half = solved(K, W[groups])
            yield groups, K, W[groups], M, b[groups] - times(M, through(K, b[groups])), half

    @cached_property
    def _found(self) -> tuple[Array, Array, float]:
        """E f (n, L) and covariances (n, L, L) of the rows, and ½ log |I + K W|."""
        m, L, of = len(self.prior.first), self.prior.L, self.prior.of
        mean, cov, half = np.empty((m + 1, L)), np.empty((m + 1, L, L)), 0.0
        for groups, K, _, M, own, part in self._of_blocks():
            mean[groups], half = through(K, own), half + part
            for a in range(L):
                for e in range(a + 1):
                    found = -np.einsum("gij,gij->gi", K[a] @ M[:, :, a, :, e], K[e])
                    if a == e:
                        found = np.maximum(found + np.diagonal(K[a], axis1=1, axis2=2), 0.0)
                    cov[groups, a, e] = cov[groups, e, a] = found
        if not np.isfinite(half):
            raise NotPositiveDefiniteError(f"the posterior precision is not finite; {CURE}")
        return mean[of], cov[of], half

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
        prior, problem = self.prior, self.prior.problem
        third = self._third(held) if extra else None
        totals = [np.zeros(0)] * len(problem.covariances)
        scale = 0.0
        for groups, K, W, M, alpha, _ in self._of_blocks():
            x = alpha
            if third is not None:
                s = third[groups]
                inner = through(K, s)
                v = inner - through(K, times(M, inner))
                x = alpha + 2.0 * (s - np.einsum("giab,gib->gia", W, v))
            weights = [np.zeros(K[0].shape) for _ in problem.covariances]
            for c in range(prior.L):
                own = 0.5 * x[:, :, None, c] * alpha[:, None, :, c] - 0.5 * M[:, :, c, :, c]
                weights[min(c, len(weights) - 1)] += own
                scale += 2.0 * float(np.sum(own * K[c]))
            for kernel, by_K in enumerate(weights):
                slope = self._pulled(kernel, groups, by_K)
                totals[kernel] = slope if totals[kernel].size == 0 else totals[kernel] + slope
        total = np.concatenate(totals)
        return (np.append(total, scale) if problem.scale_is_free else total), None

    def _third(self, held: Held) -> Array:
        """The s of Laplace's evidence, summed over the rows of each place."""
        likelihood = self.prior.problem.likelihood
        _, labels = only(held, likelihood)
        weight = np.asarray(labels.copies) * np.asarray(labels.power)
        s = (weight * likelihood.third(labels.y, np.ascontiguousarray(self.mean_f.T), self.covariance)).T
        return self.prior.totals(s)

    def _pulled(self, kernel: int, groups: IntArray, by_K: Array) -> Array:
        """From derivatives by K (g, s, s), not symmetric, to those by θ."""
        X, covariance = self.prior.points, self.prior.problem.covariances[kernel]
        s = groups.shape[1]
        i, j = np.tril_indices(s, -1)
        theta = covariance.diag_vjp(X[groups.ravel()], np.diagonal(by_K, axis1=1, axis2=2).ravel())
        if len(i):
            _, pull = covariance.pairs(X[groups[:, i].ravel()], X[groups[:, j].ravel()])
            theta = theta + pull((by_K[:, i, j] + by_K[:, j, i]).ravel())
        return np.asarray(theta)

    # ---- new points -------------------------------------------------------------------------------------------

    def _new(self, groups: IntArray, X_new: Array) -> tuple[Array, Array]:
        """Means (p, L) and covariances (p, L, L) at points, each from the places of its group (p, k)."""
        prior, L, points = self.prior, self.prior.L, self.prior.points
        W, b = (sites[groups] for sites in self._sites)
        K = prior.per_latent(prior.covariances_of(points, groups))
        M, _ = solved(K, W)
        P = points[groups].reshape(-1, points.shape[1])
        X_of = np.repeat(X_new, groups.shape[1], axis=0)
        covariances = prior.problem.covariances
        cross = prior.per_latent([covariance.pairs(P, X_of)[0].reshape(groups.shape) for covariance in covariances])
        own = prior.per_latent([covariance.diag(X_new) for covariance in covariances])
        alpha = b - times(M, through(K, b))
        mean = np.stack([np.einsum("gi,gi->g", cross[c], alpha[:, :, c]) for c in range(L)], axis=1)
        cov = np.empty((len(X_new), L, L))
        for a in range(L):
            for e in range(L):
                cov[:, a, e] = -np.einsum("gi,gij,gj->g", cross[a], M[:, :, a, :, e], cross[e], optimize=True)
            cov[:, a, a] = np.maximum(cov[:, a, a] + own[a], 0.0)
        return mean, cov

    def means(self, X_new: Array) -> Array:
        return np.asarray(self.latent(X_new).means[0])

    def latent(self, X_new: Array) -> LatentMixture:
        """One Gaussian per point, from its nearest rows."""
        prior, L = self.prior, self.prior.L
        near = prior.nearest(X_new)
        mean, cov = np.empty((len(X_new), L)), np.empty((len(X_new), L, L))
        for some in prior.chunks(near):
            mean[some], cov[some] = self._new(near[some], X_new[some])
        return LatentMixture(np.ones(1), mean[None], cov[None], np.zeros(1, dtype=np.intp))

    def draw(self, X_new: Array, n: int, rng: Generator) -> Array:
        """Joint draws over X_new, (n, p, L), under the dense prior of the nearest rows of all points together."""
        prior, (W, b) = self.prior, self._sites
        near = np.unique(prior.nearest(X_new))
        values = prior.L * (len(near) + len(X_new))
        if values > MOST_DRAWN:
            raise ValueError(
                f"joint draws at {len(X_new)} points need the covariance of {values} latent values, those of the "
                f"{len(near)} rows near them included, and at most {MOST_DRAWN} are drawn; draw at fewer points at "
                "once, or lower k of the local prior"
            )
        dense = replace(prior.problem.subset(prior.first[near]), form=Dense())
        return dense.prior.from_kept({"W": W[near], "b": b[near].T}).draw(X_new, n, rng)

    def draw_rows(self, rng: Generator) -> Array:
        L = self.prior.L
        f = np.empty((len(self.prior.first) + 1, L))
        for groups, K, _, M, alpha, _ in self._of_blocks():
            g, s = groups.shape
            prior = np.zeros((g, s, L, s, L))
            for c, part in enumerate(K):
                prior[:, :, c, :, c] = part
            flat = prior.reshape(g, s * L, s * L)
            root = symmetric_root(flat - flat @ M.reshape(flat.shape) @ flat)
            noise = np.einsum("gij,gj->gi", root, rng.standard_normal((g, s * L))).reshape(g, s, L)
            f[groups] = through(K, alpha) + noise
        return np.asarray(f[self.prior.of].T.ravel())

    def vectors(self) -> Array:
        """W and b, (L² + L, n)."""
        L = self.prior.L
        return np.vstack([self.W.transpose(1, 2, 0).reshape(L * L, -1), self.b.T])

    def kept(self) -> dict[str, Array]:
        """Sites, all copies together."""
        return {"W": self.W, "b": np.ascontiguousarray(self.b.T)}
