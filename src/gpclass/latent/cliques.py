r"""Neighbours of rows among earlier rows, and the covariances that their conditional distributions need.

In a random order each row i has the k nearest earlier rows N(i); row and neighbours together are its *clique*. With
covariances R between the rows of a clique,

    r_i | r_N ~ N(b_iᵀr_N, d_i),   b_i = R_NN⁻¹R_Ni,   d_i = R_ii − b_iᵀR_Ni,

and with c_i = (1, −b_i) the joint precision is Q = Σ_i c_i c_iᵀ/d_i, with entries at the pairs of rows that share a
clique. Each such pair is listed once, so that the kernel is evaluated once per pair.

Nearest is meant in the kernel's own scaled distance: for a stationary kernel these are the rows of largest correlation.
Cost: O(n k log n) for the search, O(n k³) for the conditionals, in blocks of bounded memory.
Fails when: the kernel is not a decreasing function of one scaled distance; neighbours are then not the best, which
costs accuracy only.
References: Vecchia (1988); Guinness (2018), Permutation and grouping methods for sharpening Gaussian process
approximations, for the order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import splu
from scipy.spatial import cKDTree
from sklearn.gaussian_process.kernels import Kernel

from gpclass._typing import Array, IntArray
from gpclass.numerics.dissection import Dissection
from gpclass.numerics.linalg import CURE, NotPositiveDefiniteError

ELEMENTS = 2_000_000  # numbers of a block of cliques at once, 16 MB
SMALLEST = 1e-9  # share of a prior variance that a conditional variance needs
JITTER = 1e-8  # share of the prior variances that is added to them, if one is smaller


def scaled(kernel: Kernel, X: Array) -> Array:
    """Rows divided by the kernel's length scales, if it has one per column: it falls equally in all directions."""
    for name, value in kernel.get_params().items():
        if name.endswith("length_scale") and np.size(value) == X.shape[1] > 1:
            return np.asarray(X / np.asarray(value, dtype=float))
    return X


def random_order(n: int) -> IntArray:
    """The order of n rows, the same at every call."""
    return np.random.default_rng(0).permutation(n)


def earlier_neighbours(X: Array, k: int, first: int = 0) -> IntArray:
    """The k nearest rows of X (n, d) before each, for rows from ``first`` on: (n − first, k), −1 for none."""
    n = len(X)
    found = np.full((n, k), -1, dtype=np.intp)
    begin = min(n, max(4 * k, 1))
    if first < begin:
        gaps = np.square(X[:begin, None] - X[None, :begin]).sum(axis=2)
        gaps[np.triu_indices(begin)] = np.inf
        nearest = np.argsort(gaps, axis=1, kind="stable")[:, :k]
        known = np.take_along_axis(gaps, nearest, axis=1) < np.inf
        found[:begin, : nearest.shape[1]] = np.where(known, nearest, -1)
    while begin < n:
        end = min(2 * begin, n)
        rows = np.arange(max(begin, first), end)
        if len(rows) and k:
            tree, wanted = cKDTree(X[:end]), 3 * k + 8
            while len(rows):  # at least half of the nearest rows are earlier, on average
                near: IntArray = np.asarray(tree.query(X[rows], min(wanted, end))[1])
                early = near < rows[:, None]
                enough = early.sum(axis=1) >= k
                order = np.argsort(~early[enough], axis=1, kind="stable")[:, :k]
                found[rows[enough]] = np.take_along_axis(near[enough], order, axis=1)
                rows, wanted = rows[~enough], 2 * wanted
        begin = end
    return found[first:]


def neighbours_of(X: Array, k: int) -> IntArray:
    """Neighbours (n, k) of the rows of X (n, d) in a random order."""
    order = random_order(len(X))
    near = earlier_neighbours(X[order], k)
    found = np.empty_like(near)
    found[order] = np.where(near >= 0, order[near], -1)
    return found


@dataclass(frozen=True, eq=False)
class Cliques:
    """The cliques of n rows: k neighbours each, then the row itself."""

    members: IntArray  # (n, k + 1), −1 for none
    X: Array  # (n, d), scaled

    @classmethod
    def of(cls, neighbours: IntArray, X: Array) -> Cliques:
        """From neighbours (n, k) of the rows at X (n, d)."""
        return cls(np.column_stack([neighbours, np.arange(len(X))]), X)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.members)

    @property
    def k(self) -> int:
        """Neighbours of a row."""
        return int(self.members.shape[1]) - 1

    @cached_property
    def triangle(self) -> tuple[IntArray, IntArray]:
        """Places of the pairs within a clique, the lower triangle."""
        return np.tril_indices(self.k + 1)

    @cached_property
    def _pairs(self) -> tuple[IntArray, IntArray, IntArray]:
        a, b = (self.members[:, places] for places in self.triangle)
        low, high = np.minimum(a, b), np.maximum(a, b)
        code = np.where(low < 0, -1 - (high < 0) * (self.triangle[0] == self.triangle[1]), high * self.n + low)
        values, slots = np.unique(code, return_inverse=True)
        absent = int(np.sum(values < 0))
        E = len(values) - absent
        slots = np.asarray(slots).reshape(code.shape) - absent
        slots[code == -1] = E
        slots[code == -2] = E + 1
        return values[absent:] // self.n, values[absent:] % self.n, slots.astype(np.int32)

    @property
    def i(self) -> IntArray:
        """Larger row of each pair, (E,)."""
        return self._pairs[0]

    @property
    def j(self) -> IntArray:
        """Smaller row of each pair, (E,); the same where the pair is one row."""
        return self._pairs[1]

    @property
    def slots(self) -> IntArray:
        """Pair of each entry of the lower triangle of each clique; E and E + 1 for rows that are missing."""
        return self._pairs[2]

    @cached_property
    def tree(self) -> Dissection:
        """The fronts of matrices with entries at the pairs."""
        return Dissection.of(self.i, self.j, self.X)

    def blocks(self) -> list[slice]:
        """Rows in blocks of bounded memory."""
        step = max(1, ELEMENTS // (self.k + 1) ** 2)
        return [slice(a, min(a + step, self.n)) for a in range(0, self.n, step)]

    def gather(self, values: Array, rows: slice, missing: float = 1.0) -> Array:
        """Symmetric matrices (r, k + 1, k + 1) of values (E,) of pairs; missing rows are independent of the others."""
        a, b = self.triangle
        flat = np.append(values, [0.0, missing])[self.slots[rows]]
        full = np.empty((len(flat), self.k + 1, self.k + 1))
        full[:, a, b] = flat
        full[:, b, a] = flat
        return full

    def scatter(self, values: Array) -> Array:
        """Sums (E,) by pair of values (n, number of pairs of a clique)."""
        E = len(self.i)
        return np.asarray(np.bincount(self.slots.ravel(), values.ravel(), minlength=E + 2)[:E], dtype=float)

    def outer(self, left: Array, right: Array) -> Array:
        """Products left_a right_b over the lower triangle of cliques, from arrays (r, k + 1)."""
        a, b = self.triangle
        return np.asarray(left[:, a] * right[:, b])

    def sparse(self, values: Array) -> csr_array:
        """The matrix (n, n) with values (n, k + 1) at each row's clique."""
        known = self.members >= 0
        ends = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
        return csr_array((values[known], self.members[known], ends), shape=(self.n, self.n))


@dataclass(frozen=True, eq=False)
class Conditionals:
    """The conditional distributions of all rows under one covariance R."""

    cliques: Cliques
    R: Array  # (E,), at the pairs
    c: Array  # (n, k + 1), −b and 1
    d: Array  # (n,)
    jitter: float  # share of the prior variances that was added to those of R

    @classmethod
    def of(cls, cliques: Cliques, R: Array, variances: Array) -> Conditionals:
        """From R (E,) and the prior variances of the rows (n,); jitter is added if a row is nearly determined."""
        own = cliques.i == cliques.j
        for jitter in (0.0, JITTER):
            shifted = R.copy()
            shifted[own] += jitter * variances
            c, d = np.empty(cliques.members.shape), np.empty(cliques.n)
            try:
                for rows in cliques.blocks():
                    c[rows], d[rows] = conditionals(cliques.gather(shifted, rows))
            except np.linalg.LinAlgError:
                continue
            if jitter or np.all(d >= SMALLEST * variances):
                return cls(cliques, shifted, c, d, jitter)
        raise NotPositiveDefiniteError(f"the covariance of a row and its neighbours is not positive definite; {CURE}")

    @cached_property
    def Q(self) -> Array:
        """The precision at the pairs, (E,)."""
        return self.cliques.scatter(self.cliques.outer(self.c / self.d[:, None], self.c))

    @property
    def half_log_det(self) -> float:
        """½ log |Q|."""
        return -0.5 * float(np.log(self.d).sum())

    @cached_property
    def B(self) -> csr_array:
        """Rows c_i: Q = Bᵀdiag(1/d)B."""
        return self.cliques.sparse(self.c)

    def slope(self, second: Array, low_rank: Array, other: Array) -> tuple[Array, csr_array, Array]:
        """Derivatives of E[log N(r; 0, Q⁻¹)] by R, if E[r rᵀ] is S + (U Vᵀ + V Uᵀ)/2.

        Given S at the pairs (E,) and U, V (n, p). With M that moment within a clique, s = cᵀM c, w = s/d² − 1/d and
        y = R_NN⁻¹(M c)_N/d, the derivative by the clique's R is ½ (w c cᵀ + y cᵀ + c yᵀ). Returned are the sums by pair
        (E,), of both triangles, the sparse matrix with rows y_i, and w (n,).
        """
        cliques, k = self.cliques, self.cliques.k
        a, b = cliques.triangle
        twice = np.where(a == b, 0.5, 1.0)
        near = [np.asarray(self.B @ part) for part in (low_rank, other)]
        y, w = np.zeros(self.c.shape), np.empty(cliques.n)
        by_pair = np.empty(cliques.slots.shape)
        rows_at_once = max(1, ELEMENTS // ((k + 1) * max(k + 1, low_rank.shape[1])))
        for begin in range(0, cliques.n, rows_at_once):
            rows = slice(begin, begin + rows_at_once)
            c, d, members = self.c[rows], self.d[rows], cliques.members[rows]
            Mc = np.einsum("rab,rb->ra", cliques.gather(second, rows, 0.0), c)
            Mc += 0.5 * np.einsum("rap,rp->ra", low_rank[members], near[1][rows])
            Mc += 0.5 * np.einsum("rap,rp->ra", other[members], near[0][rows])
            Mc[members < 0] = 0.0
            w[rows] = np.einsum("ra,ra->r", c, Mc) / d**2 - 1.0 / d
            if k:
                R = cliques.gather(self.R, rows)[:, :k, :k]
                y[rows, :k] = np.linalg.solve(R, Mc[:, :k, None])[:, :, 0] / d[:, None]
            by_pair[rows] = w[rows, None] * c[:, a] * c[:, b] + y[rows][:, a] * c[:, b] + c[:, a] * y[rows][:, b]
        return cliques.scatter(by_pair * twice), cliques.sparse(y), w


def conditionals(R: Array) -> tuple[Array, Array]:
    """Weights (r, k + 1), −b and 1, and variances (r,) of the last of k + 1 values given the others, covariance R."""
    k = R.shape[1] - 1
    L = np.linalg.cholesky(R)
    c: Array = np.ones(R.shape[:2])
    if k:
        c[:, :k] = -np.linalg.solve(L[:, :k, :k].transpose(0, 2, 1), L[:, k, :k, None])[:, :, 0]
    return c, np.asarray(L[:, k, k] ** 2)


class Root:
    """K = A Aᵀ + B⁻¹ diag(d) B⁻ᵀ as products, through B in the order in which it is triangular."""

    def __init__(self, A: Array, sd: Array, order: IntArray, B: Any) -> None:
        self.A, self.sd, self.order = A, sd[order], order
        options = {"SymmetricMode": True, "DiagPivotThresh": 0.0}
        self.factor: Any = splu(B, permc_spec="NATURAL", diag_pivot_thresh=0.0, options=options)

    def product(self, x: Array) -> Array:
        """K x for x (n,)."""
        back = self.factor.solve(x[self.order], trans="T")
        out = np.empty_like(x)
        out[self.order] = self.factor.solve(self.sd**2 * back)
        return np.asarray(out + self.A @ (self.A.T @ x))

    def white(self, x: Array) -> Array:
        """d^½ B⁻ᵀx, by the order of the rows, for x (n, p)."""
        back = self.factor.solve(np.asfortranarray(x[self.order]), trans="T")
        return np.asarray(self.sd[:, None] * back)


def pair_products(A: Array, B: Array, i: IntArray, j: IntArray) -> Array:
    """a_iᵀb_j of pairs of rows, (E,)."""
    out, step = np.empty(len(i)), max(1, ELEMENTS // max(1, A.shape[1]))
    for begin in range(0, len(i), step):
        some = slice(begin, begin + step)
        out[some] = np.einsum("em,em->e", A[i[some]], B[j[some]])
    return out
