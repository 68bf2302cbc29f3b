r"""Passes over the blocks of the local prior: pure functions of a shard of whole blocks, in any process.

For a group of rows with prior covariance K (block-diagonal over the L latent values) and sites W, b,

    M = (K + W⁻¹)⁻¹ = W^½(I + W^½K W^½)⁻¹W^½,   α = b − M K b,   E f = K α,   cov f = K − K M K,

without the inverse of K or of W. A shard holds the places of its blocks, one after another, −1 for a missing one; its
labels are their numbers among all places, by which it picks its sites. What it finds is joined in the order of the
blocks, n numbers per pass.
Cost: O((k L)³) per block, all blocks of a chunk at once; the blocks' covariances are kept, k numbers per row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from gpclass._typing import Array, IntArray
from gpclass.covariance import Covariance, compile_kernel
from gpclass.latent.base import per_latent
from gpclass.latent.cliques import ELEMENTS
from gpclass.likelihoods.local import symmetric_root
from gpclass.model.rows import Shard, Sums
from gpclass.numerics.linalg import CURE, NotPositiveDefiniteError

Solved = tuple[IntArray, Array, list[Array], Array, Array, Array, float]


@dataclass(frozen=True, eq=False)
class Spec:
    """What is sent to the shards: the kernels, the rows of a block and the latent values of a row."""

    kernels: list[Kernel]
    s: int
    L: int

    @cached_property
    def covariances(self) -> list[Covariance]:
        """The kernels with fast values and derivatives."""
        return [compile_kernel(kernel) for kernel in self.kernels]

    def between(self, points: Array) -> list[Array]:
        """Covariances (g, s, s) between the points (g, s, d) of each group, one array per kernel."""
        g, s, d = points.shape
        i, j = np.tril_indices(s, -1)
        out = []
        for covariance in self.covariances:
            K = np.empty((g, s, s))
            K[:, range(s), range(s)] = covariance.diag(points.reshape(-1, d)).reshape(g, s)
            if len(i):
                left, right = points[:, i].reshape(-1, d), points[:, j].reshape(-1, d)
                K[:, i, j] = K[:, j, i] = covariance.pairs(left, right)[0].reshape(g, -1)
            out.append(K)
        return out

    def chunks(self, g: int, s: int, d: int) -> Iterator[slice]:
        """Groups of s rows of d columns in chunks of bounded memory."""
        step = max(1, ELEMENTS // (s**2 * max(self.L**2, d // 4)))  # the kernel takes pairs by column
        return (slice(a, min(a + step, g)) for a in range(0, g, step))

    def of_blocks(self, shard: Shard) -> Iterator[tuple[IntArray, Array, list[Array]]]:
        """Per chunk the places (g, s), their features (g, s, d), and K per latent value."""
        groups = np.asarray(shard.y).reshape(-1, self.s)
        points = shard.rows().reshape(*groups.shape, -1)
        for some in self.chunks(*points.shape):
            key = f"K {some.start}"
            if key not in shard.scratch:
                shard.scratch[key] = self.between(points[some])
            yield groups[some], points[some], per_latent(shard.scratch[key], self.L)

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: not the compiled kernels."""
        return {name: value for name, value in vars(self).items() if name != "covariances"}


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


def solved_blocks(shard: Shard, spec: Spec, W: Array, b: Array) -> Iterator[Solved]:
    """Per chunk the places (g, s), features, K, W and M, α, and ½ log |I + K W|."""
    for groups, points, K in spec.of_blocks(shard):
        M, half = solved(K, W[groups])
        yield groups, points, K, W[groups], M, b[groups] - times(M, through(K, b[groups])), half


def products(shard: Shard, spec: Spec, alpha: Array) -> tuple[Shard, Sums]:
    """K α at the places of the blocks, (r, L)."""
    return shard, {"f": [through(K, alpha[groups]).reshape(-1, spec.L) for groups, _, K in spec.of_blocks(shard)]}


def moments(shard: Shard, spec: Spec, W: Array, b: Array) -> tuple[Shard, Sums]:
    """E f (r, L) and covariances (r, L, L) at the places of the blocks, and ½ log |I + K W|."""
    means, covariances, half, L = [], [], 0.0, spec.L
    for groups, _, K, _, M, own, part in solved_blocks(shard, spec, W, b):
        cov = np.empty((*groups.shape, L, L))
        for a in range(L):
            for e in range(a + 1):
                found = -np.einsum("gij,gij->gi", K[a] @ M[:, :, a, :, e], K[e])
                if a == e:
                    found = np.maximum(found + np.diagonal(K[a], axis1=1, axis2=2), 0.0)
                cov[:, :, a, e] = cov[:, :, e, a] = found
        means.append(through(K, own).reshape(-1, L))
        covariances.append(cov.reshape(-1, L, L))
        half += part
    return shard, {"mean": means, "cov": covariances, "half": half}


def slope(shard: Shard, spec: Spec, W: Array, b: Array, third: Array | None) -> tuple[Shard, Sums]:
    """∂ log Z/∂θ of the blocks, and the derivative by the log of the factor of all kernels."""
    totals: list[Any] = [0.0] * len(spec.kernels)
    scale = 0.0
    for groups, points, K, own_W, M, alpha, _ in solved_blocks(shard, spec, W, b):
        x = alpha
        if third is not None:
            s = third[groups]
            inner = through(K, s)
            v = inner - through(K, times(M, inner))
            x = alpha + 2.0 * (s - np.einsum("giab,gib->gia", own_W, v))
        weights = [np.zeros(K[0].shape) for _ in spec.kernels]
        for c in range(spec.L):
            own = 0.5 * x[:, :, None, c] * alpha[:, None, :, c] - 0.5 * M[:, :, c, :, c]
            weights[min(c, len(weights) - 1)] += own
            scale += 2.0 * float(np.sum(own * K[c]))
        for kernel, by_K in enumerate(weights):
            totals[kernel] = totals[kernel] + _pulled(spec.covariances[kernel], points, by_K)
    return shard, {"theta": np.concatenate(totals), "scale": scale}


def _pulled(covariance: Covariance, points: Array, by_K: Array) -> Array:
    """From derivatives by K (g, s, s), not symmetric, to those by θ."""
    _, s, d = points.shape
    i, j = np.tril_indices(s, -1)
    theta = covariance.diag_vjp(points.reshape(-1, d), np.diagonal(by_K, axis1=1, axis2=2).ravel())
    if len(i):
        _, pull = covariance.pairs(points[:, i].reshape(-1, d), points[:, j].reshape(-1, d))
        theta = theta + pull((by_K[:, i, j] + by_K[:, j, i]).ravel())
    return np.asarray(theta)
