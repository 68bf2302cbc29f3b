"""All other scikit-learn kernels, by blocks: slower, but with bounded memory.

Value: the kernel's own ``__call__`` over each tile, with ``Y=None`` on diagonal tiles to include noise.

Derivative by θ: scikit-learn provides it only for ``Y=None``, so for a tile of different rows and columns the kernel
is called on the stacked points [x_I; x_J] and the off-diagonal block is used. This is exact, at four times the work
of the tile. Blocks are sized so that no gradient array exceeds ``ENTRIES`` numbers. If the kernel has no gradient (no
``eval_gradient``, a wrong shape, an error), or only one-sided differences (``PairwiseKernel``), central differences
of fourth order in θ with step ``STEP_THETA`` are used: relative error 1e-12 to 1e-11 if the kernel varies on the
scale of log θ ~ 1. A kernel that oscillates in θ (a period) needs its own ``eval_gradient``.

Derivative by the inputs: central differences per column, step ``STEP_INPUT`` times the column's spread: 4 d
values of the tile, relative error 1e-10 for a length scale like the column's spread, 5e-9 for a tenth of it.

Fails when: the kernel is not a function of two points (each entry must depend only on its own two rows).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import PairwiseKernel
from sklearn.utils import gen_batches

from gpclass._typing import Array
from gpclass.covariance._tiles import TILE, Bound, Moves, Node, PairPull, Tile, Value
from gpclass.numerics.spread import is_constant

ENTRIES = 2**21  # 16 MB
STEP_THETA = 1e-3
STEP_INPUT = 1e-5
STENCIL = ((-2.0, 1.0 / 12.0), (-1.0, -8.0 / 12.0), (1.0, 8.0 / 12.0), (2.0, -1.0 / 12.0))  # fourth order


@dataclass(frozen=True)
class Generic(Node):
    """A kernel accessed only through its methods."""

    kernel: Any
    place: slice  # of its parameters in θ

    @property
    def p(self) -> int:
        """Number of free parameters."""
        return int(self.place.stop - self.place.start)

    def bind(self, X: Array, Z: Array, keep: bool) -> Bound:
        return BoundGeneric(self, X, Z)

    def diag(self, X: Array) -> Value:
        return np.asarray(self.kernel.diag(X), dtype=float)

    def diag_pull(self, X: Array, g: Array, theta: Array) -> None:
        if self.p and not self.differentiable(X):
            theta[self.place] += self.differences(lambda kernel: g @ kernel.diag(X))
        elif self.p:
            for rows in gen_batches(len(X), 32):
                gradient = self.kernel(X[rows], eval_gradient=True)[1]
                theta[self.place] += np.einsum("i,iik->k", g[rows], gradient)

    def pairs(self, X: Array, Z: Array) -> tuple[Value, PairPull]:
        """As the diagonals of small blocks: the kernel has no other way."""
        blocks = list(gen_batches(len(X), 32))

        def diagonal(kernel: Any) -> Array:
            return np.concatenate([np.diag(kernel(X[rows], Z[rows])) for rows in blocks])

        def pull(g: Array, theta: Array) -> None:
            if self.p and not self.differentiable(X):
                theta[self.place] += self.differences(lambda kernel: g @ diagonal(kernel))
            elif self.p:
                for rows in blocks:
                    k = len(X[rows])
                    gradient = self.kernel(np.vstack([X[rows], Z[rows]]), eval_gradient=True)[1]
                    theta[self.place] += g[rows] @ gradient[np.arange(k), k + np.arange(k)]

        return diagonal(self.kernel), pull

    def differentiable(self, X: Array) -> bool:
        """Whether the kernel provides a reliable gradient."""
        if isinstance(self.kernel, PairwiseKernel):
            return False
        rows = X[:2]
        try:
            _, gradient = self.kernel(rows, eval_gradient=True)
        except Exception:  # a user's kernel may fail in any way: use differences then
            return False
        return np.shape(gradient) == (len(rows), len(rows), self.p) and bool(np.all(np.isfinite(gradient)))

    def differences(self, contracted: Any) -> Array:
        """Derivative of contracted(kernel at θ) by central differences of fourth order."""
        theta = np.array(self.kernel.theta, dtype=float)
        out = np.zeros(self.p)
        for k in range(self.p):
            for steps, weight in STENCIL:
                moved = theta.copy()
                moved[k] += steps * STEP_THETA
                out[k] += weight / STEP_THETA * float(contracted(self.kernel.clone_with_theta(moved)))
        return out


class BoundGeneric(Bound):
    """A generic kernel at given points."""

    def __init__(self, node: Generic, X: Array, Z: Array) -> None:
        self.node, self.X, self.Z = node, X, Z
        self.steps = input_steps(X if Z is X else np.vstack([X, Z]))
        self.differentiable: bool | None = None  # determined when first needed

    def value(self, tile: Tile) -> Value:
        if tile.diagonal:
            K = np.array(self.node.kernel(self.X[tile.rows]), dtype=float)
            return np.asarray(np.triu(K) + np.triu(K, 1).T)  # exactly symmetric for any kernel
        return np.array(self.node.kernel(self.X[tile.rows], self.Z[tile.columns]), dtype=float)

    def pull(self, tile: Tile, G: Array, theta: Array | None) -> Moves:
        if theta is None:
            return self._inputs(tile, G)
        if self.node.p == 0:
            return None
        if self.differentiable is None:
            self.differentiable = self.node.differentiable(self.X)
        x, z = self.X[tile.rows], self.Z[tile.columns]
        if not self.differentiable:
            theta[self.node.place] += self.node.differences(
                lambda kernel: np.vdot(G, kernel(x) if tile.diagonal else kernel(x, z))
            )
            return None
        size = max(1, min(TILE, int(np.sqrt(ENTRIES / self.node.p) / 2)))
        for I, J in product(gen_batches(len(x), size), gen_batches(len(z), size)):
            theta[self.node.place] += self._stacked(x[I], z[J], G[I, J], tile.diagonal and I == J)
        return None

    def _stacked(self, x: Array, z: Array, G: Array, same: bool) -> Array:
        """Σ G dK/dθ from the kernel's own gradient at the stacked points."""
        points = x if same else np.vstack([x, z])
        gradient = np.asarray(self.node.kernel(points, eval_gradient=True)[1])
        block = gradient if same else gradient[: len(x), len(x) :]
        return np.asarray(np.einsum("ij,ijk->k", G, block))

    def _inputs(self, tile: Tile, G: Array) -> Moves:
        x, z = self.X[tile.rows], self.Z[tile.columns]
        dx, dz = np.zeros(x.shape), np.zeros(z.shape)
        kernel = self.node.kernel
        for l, h in enumerate(self.steps):
            step = np.zeros(x.shape[1])
            step[l] = h
            dx[:, l] = np.einsum("ij,ij->i", G, kernel(x + step, z) - kernel(x - step, z)) / (2 * h)
            dz[:, l] = np.einsum("ij,ij->j", G, kernel(x, z + step) - kernel(x, z - step)) / (2 * h)
        return dx, dz


def input_steps(X: Array) -> Array:
    """One step per column, relative to its spread (to its size, or 1, if the column is constant)."""
    size = np.abs(X).max(axis=0, initial=0.0)
    spread = np.where(is_constant(X), np.where(size > 0, size, 1.0), X.std(axis=0))
    return np.asarray(STEP_INPUT * spread)
