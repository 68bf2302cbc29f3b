r"""Passes over the blocks of the local prior: pure functions of a shard of whole blocks, in any process.

For a group of rows with prior covariance K (block-diagonal over the L latent values) and sites W, b,

    M = (K + W⁻¹)⁻¹ = W^½(I + W^½K W^½)⁻¹W^½,   α = b − M K b,   E f = K α,   cov f = K − K M K,

without the inverse of K or of W (:mod:`gpclass.latent.local_solves`). A shard holds the places of its blocks, one after
another, −1 for a missing one; its labels are their numbers among all places, by which it picks its sites. What it finds
is joined in the order of the blocks, n numbers per pass.
Cost: O(k³ L) per block, or O((k L)³) for sites without a short form, all blocks of a chunk at once; the blocks'
covariances are kept, k numbers per row.
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
from gpclass.latent.local_solves import Solve, solved, times_sites
from gpclass.model.rows import Shard
from gpclass.model.sums import Sums

Solved = tuple[IntArray, Array, list[Array], Array, Solve, Array]


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


def through(K: list[Array], x: Array) -> Array:
    """K x for x (g, s, L, ...)."""
    return np.stack([np.einsum("gij,gj...->gi...", part, x[:, :, c]) for c, part in enumerate(K)], axis=2)


def solved_blocks(shard: Shard, spec: Spec, W: Array, b: Array) -> Iterator[Solved]:
    """Per chunk the places (g, s), features, K, W, the solve and α."""
    for groups, points, K in spec.of_blocks(shard):
        solve = solved(K, W[groups])
        yield groups, points, K, W[groups], solve, b[groups] - solve.times(through(K, b[groups]))


def products(shard: Shard, spec: Spec, alpha: Array) -> tuple[Shard, Sums]:
    """K α at the places of the blocks, (r, L)."""
    return shard, {"f": [through(K, alpha[groups]).reshape(-1, spec.L) for groups, _, K in spec.of_blocks(shard)]}


def moments(shard: Shard, spec: Spec, W: Array, b: Array) -> tuple[Shard, Sums]:
    """E f (r, L) and covariances (r, L, L) at the places of the blocks, and ½ log |I + K W|."""
    means, covariances, half, L = [], [], 0.0, spec.L
    for _, _, K, _, solve, own in solved_blocks(shard, spec, W, b):
        means.append(through(K, own).reshape(-1, L))
        covariances.append(solve.marginals(K).reshape(-1, L, L))
        half += solve.half_log_det
    return shard, {"mean": means, "cov": covariances, "half": half}


def slope(shard: Shard, spec: Spec, W: Array, b: Array, third: Array | None) -> tuple[Shard, Sums]:
    """∂ log Z/∂θ of the blocks, and the derivative by the log of the factor of all kernels."""
    totals: list[Any] = [0.0] * len(spec.kernels)
    scale = 0.0
    for groups, points, K, own_W, solve, alpha in solved_blocks(shard, spec, W, b):
        x = alpha
        if third is not None:
            s = third[groups]
            inner = through(K, s)
            v = inner - through(K, solve.times(inner))
            x = alpha + 2.0 * (s - times_sites(own_W, v))
        weights = [np.zeros(K[0].shape) for _ in spec.kernels]
        for c in range(spec.L):
            own = 0.5 * x[:, :, None, c] * alpha[:, None, :, c] - 0.5 * solve.own(c)
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
