r"""Posterior means under the neighbour prior of very many rows, by conjugate gradients.

The precision of the rows is S = BᵀD⁻¹B + W with B sparse and, in the order of the rows, triangular
(:mod:`gpclass.latent.cliques`), so that products with S and solves with B need n k numbers alone. S x = b is solved by
conjugate gradients with the preconditioner Bᵀ(D⁻¹ + W)B, which has the same eigenvalues as S up to what the sites
change. Every row may have L values: W is an L×L matrix per row, and B and D are those of each value's kernel.

That preconditioner takes a row's innovation for what its own site says of it, while the sites of all later rows that
depend on it do: the more rows within the kernel's range, the worse. If the covariances P = S⁻¹ within the cliques are
known, at these sites or others nearby (:mod:`gpclass.latent.tile_passes`), a *guide* is much better: the posterior's
own conditional distributions given the neighbours, b̃_i = P_NN⁻¹P_Ni and d̃_i = P_ii − b̃_iᵀP_Ni, make B̃ᵀD̃⁻¹B̃, of all
matrices with such a factor the one whose Gaussian is nearest to that of S.
Cost: O(n k L) an iteration. A digit takes some 20 iterations at 20,000 rows and 60 at 160,000; with a guide one or
two, for any number of rows.
Fails when: S is not positive definite.
References: Kündig & Sigrist (2025), Iterative methods for Vecchia-Laplace approximations for latent Gaussian process
models, for the first preconditioner; Schäfer, Katzfuss & Owhadi (2021), Sparse Cholesky factorization by
Kullback-Leibler minimization, for the guide.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import splu

from gpclass._typing import Array, IntArray
from gpclass.numerics.linalg import CURE, NotPositiveDefiniteError

MOST = 3000  # iterations
PATIENCE = 60  # iterations from which a guide pays, which costs as much as some 200
BLOCK = 2**16  # rows at once where all of them would need a copy
ROUNDING = 1e-12  # share of the size of a solution at which rounding is left


class Triangle:
    """Q = BᵀD⁻¹B of one kernel, rows in the order in which B is triangular.

    Parameters
    ----------
    members : (n, k + 1) array
        Neighbours of each row, −1 for none, and the row itself, in the order of the rows.
    c, d : (n, k + 1) and (n,) array
        Weights and conditional variances of the rows, not in that order.
    order : (n,) array
        The rows in their order.
    """

    def __init__(self, members: IntArray, c: Array, d: Array, order: IntArray) -> None:
        self.B = _triangular(members, c, order)
        self.d = d[order]

    @cached_property
    def _lu(self) -> Any:
        return _factored(self.B)

    def product(self, x: Array) -> Array:
        """Q x for x (n,)."""
        return np.asarray(self.B.T @ (np.asarray(self.B @ x) / self.d))

    def down(self, x: Array) -> Array:
        """B⁻ᵀx."""
        return np.asarray(self._lu.solve(x, trans="T"))

    def up(self, x: Array) -> Array:
        """B⁻¹x."""
        return np.asarray(self._lu.solve(x))


class Guide:
    """P = B̃⁻¹D̃B̃⁻ᵀ, near the covariance of one value per row; arguments as of :class:`Triangle`."""

    def __init__(self, members: IntArray, c: Array, d: Array, order: IntArray) -> None:
        self.lu, self.d = _factored(_triangular(members, c, order)), d[order]

    def product(self, x: Array) -> Array:
        """P x for x (n, 1)."""
        return np.asarray(self.lu.solve(self.d * self.lu.solve(x[:, 0], trans="T")))[:, None]


def _triangular(members: IntArray, c: Array, order: IntArray) -> csr_array:
    """The matrix with weights c (n, k + 1) at each row's clique, in the order of the rows; made by blocks of rows."""
    n = len(order)
    place = np.empty(n, dtype=np.int32)
    place[order] = np.arange(n, dtype=np.int32)
    ends = np.zeros(n + 1, dtype=np.int32)
    np.cumsum(np.count_nonzero(members >= 0, axis=1)[order], out=ends[1:])
    values, columns = np.empty(ends[-1]), np.empty(ends[-1], dtype=np.int32)
    for begin in range(0, n, BLOCK):
        rows = order[begin : begin + BLOCK]
        known, some = members[rows] >= 0, slice(ends[begin], ends[min(begin + BLOCK, n)])
        values[some], columns[some] = c[rows][known], place[members[rows][known]]
    return csr_array((values, columns, ends), shape=(n, n))


def _factored(B: csr_array) -> Any:
    columns = B.tocsc()
    del B  # free, if the caller does not hold it
    options = {"SymmetricMode": True, "DiagPivotThresh": 0.0}
    return splu(columns, permc_spec="NATURAL", diag_pivot_thresh=0.0, options=options)


class Means:
    """Products with Q, and means given sites, of n rows with L values each.

    Parameters
    ----------
    triangles : L triangles
        The same object where latent values share a kernel.
    order : (n,) array
        The rows in their order.
    """

    def __init__(self, triangles: Sequence[Triangle], order: IntArray) -> None:
        self.triangles, self.order = triangles, order
        self.guide: Guide | None = None

    def guided(self, guide: Guide) -> None:
        """Use a guide from now on, in place of the factor of B."""
        self.guide = guide
        self._forget()

    def _forget(self) -> None:
        """Drop the factors of B, which are found again if asked for."""
        for one in self.triangles:
            vars(one).pop("_lu", None)

    def product(self, x: Array) -> Array:
        """Q x for x (n, L)."""
        out = np.empty_like(x)
        out[self.order] = self._times(x[self.order])
        return out

    def through(self, x: Array) -> Array:
        """Q⁻¹x for x (n, L)."""
        out, x = np.empty_like(x), x[self.order]
        each = [one.up(one.d * one.down(np.ascontiguousarray(x[:, c]))) for c, one in enumerate(self.triangles)]
        out[self.order] = np.stack(each, axis=1)
        return out

    def _times(self, x: Array) -> Array:
        each = [one.product(np.ascontiguousarray(x[:, c])) for c, one in enumerate(self.triangles)]
        return np.stack(each, axis=1)

    def solve(
        self, W: Array, b: Array, near: Array | None, share: float, find_guide: Callable[[], Guide] | None = None
    ) -> tuple[Array, int]:
        """S⁻¹b (n, L), to this share of the error of ``near`` (zero if None), and the iterations.

        Errors are meant in the norm of S, that is, in standard deviations. ``find_guide`` is called if there is none
        and it pays.
        """
        W, b = W[self.order], b[self.order]

        def times(x: Array) -> Array:
            return np.asarray(self._times(x) + np.einsum("nab,nb->na", W, x))

        x = np.zeros_like(b) if near is None else near[self.order]
        first, most = b if near is None else b - times(x), MOST
        if self.guide is None and find_guide is not None:
            most = min(PATIENCE, MOST)
        found = _gradients(times, self._conditioner(W), x, first, first, b, share, most)
        if not found.enough and find_guide is not None and self.guide is None:
            self._forget()  # memory is needed most while a guide is found
            self.guided(find_guide())
            after = _gradients(times, self._conditioner(W), found.x, found.residual, first, b, share, MOST)
            found = replace(after, iterations=found.iterations + after.iterations)
        if not found.enough:
            warnings.warn(
                f"the means of {len(x)} rows are not found to their tolerance after {MOST} iterations of conjugate "
                "gradients: rows and their neighbours are nearly dependent; add WhiteKernel(1e-4) to the kernel, or "
                "use one factor for all rows, latent_prior=Neighbours(k, tile=0)",
                stacklevel=2,
            )
        out = np.empty_like(x)
        out[self.order] = found.x
        return out, found.iterations

    def _conditioner(self, W: Array) -> Callable[[Array], Array]:
        """The preconditioner of S with these precisions of sites, in the order of the rows."""
        if self.guide is not None:
            return self.guide.product
        L = W.shape[1]
        inner = W + np.stack([1.0 / one.d for one in self.triangles], axis=1)[:, :, None] * np.eye(L)
        scale = 1.0 / inner if L == 1 else np.linalg.inv(inner)

        def conditioned(r: Array) -> Array:
            z = np.stack([one.down(np.ascontiguousarray(r[:, c])) for c, one in enumerate(self.triangles)], axis=1)
            z = np.einsum("nab,nb->na", scale, z)
            return np.stack([one.up(np.ascontiguousarray(z[:, c])) for c, one in enumerate(self.triangles)], axis=1)

        return conditioned


@dataclass(frozen=True, eq=False)
class Solution:
    """Where conjugate gradients ended."""

    x: Array
    residual: Array
    iterations: int
    enough: bool


def _gradients(
    times: Callable[[Array], Array],
    conditioned: Callable[[Array], Array],
    x: Array,
    r: Array,
    first: Array,
    b: Array,
    share: float,
    most: int,
) -> Solution:
    """From x, with residual r, to a share of the error that the residual ``first`` tells of, if not to rounding."""
    z = conditioned(r)
    begun = np.vdot(first, z if first is r else conditioned(first))
    whole = begun if first is b else np.vdot(b, conditioned(b))
    enough, now, p = max(share**2 * float(begun), ROUNDING**2 * float(whole)), float(np.vdot(r, z)), z
    if not np.isfinite(now):
        raise NotPositiveDefiniteError(f"the posterior precision is not finite; {CURE}")
    for iteration in range(most):
        if now <= enough:
            return Solution(x, r, iteration, True)
        Sp = times(p)
        step = now / float(np.vdot(p, Sp))
        if not step > 0.0:
            raise NotPositiveDefiniteError(f"the posterior precision is not positive definite; {CURE}")
        x = x + step * p
        r = r - step * Sp
        z = conditioned(r)
        before, now = now, float(np.vdot(r, z))
        p = z + (now / before) * p
    return Solution(x, r, most, now <= enough)
