r"""Sparse symmetric factors by nested dissection with dense fronts: log determinant, solves and selected inverse.

Rows that touch each other (pairs of a sparse symmetric matrix S) lie close together in space. A cut through the rows
leaves a separator, the fewest rows without which no row of one side touches the other (König's theorem); both sides are
cut again, down to leaves. Eliminating sides before separators fills only *fronts*: the own rows of a piece and its
boundary, the later rows that they touch. Each front is a dense matrix

    F = [F_oo F_ob; F_bo F_bb],   RᵀR = F_oo,   H = R⁻ᵀF_ob,   F_bb − HᵀH is added to the parent's front,

so that all work is dense linear algebra on a few hundred matrices. A boundary is in the order of the parent's rows, so
that one triangle of F_bb is enough. Downwards the same fronts give the entries of S⁻¹ in every front (Takahashi's
equations), among them all those where S has entries:

    D = −R⁻¹H,   Σ_ob = D Σ_bb,   Σ_oo = (RᵀR)⁻¹ + Σ_ob Dᵀ.

Every row may have L values: S = blockdiag(Q_1, ..., Q_L) + diag(W_i), W_i an L×L matrix per row.
Cost: for rows in a plane O(n^1.5) time and O(n log n) memory, with small constants: 1.6 Gflop for 10,000 rows with 20
neighbours each, 25 for 50,000. The more dimensions, the larger the separators; at worst the cost is that of one dense
matrix, and :attr:`Dissection.flops` says so in advance.
Fails when: S is not positive definite.
References: George (1973), Nested dissection of a regular finite element mesh; Duff & Reid (1983), The multifrontal
solution of indefinite sparse symmetric linear equations; Takahashi, Fagan & Chin (1973); Pothen & Fan (1990),
Computing the block triangular form of a sparse matrix, for separators of fewest rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from gpclass._typing import Array, BoolArray, IntArray
from gpclass.numerics.linalg import CURE, NotPositiveDefiniteError

LEAF = 100  # rows of a piece that is not cut
NO_GAIN = 0.5  # share of the rows in a separator from which cutting does not pay
COLUMNS = 128  # right-hand sides of a sparse forward solve at once


@dataclass(frozen=True, eq=False)
class Front:
    """Rows that are eliminated together, and those later ones that they touch."""

    own: IntArray  # (o,)
    boundary: IntArray  # (b,)
    parent: int  # −1 for a root
    up: IntArray  # (b,), places of the boundary among the rows of the parent
    pairs: IntArray  # entries of S that enter here
    at: tuple[IntArray, IntArray]  # their places among the rows, the larger one first

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.own) + len(self.boundary)

    @property
    def wide(self) -> tuple[IntArray, IntArray]:
        """The places of the pairs, for products that 32 bits do not hold."""
        return self.at[0].astype(np.intp), self.at[1].astype(np.intp)


@dataclass(frozen=True, eq=False)
class Dissection:
    """Fronts, children before parents, of a matrix with entries at pairs (i, j) of rows, each once, and (i, i)."""

    n: int
    fronts: list[Front]
    front_of: IntArray  # (n,)

    @classmethod
    def of(cls, i: IntArray, j: IntArray, X: Array) -> Dissection:
        """Of pairs i, j (E,) of rows at X (n, d), in coordinates where rows that touch are close."""
        n = len(X)
        both = np.concatenate([i, j]), np.concatenate([j, i])
        touches = csr_array((np.ones(len(both[0]), dtype=np.int32), both), shape=(n, n))
        pieces = _cut(touches, X)[::-1]
        front_of = np.empty(n, dtype=np.intp)
        for f, (own, _, _) in enumerate(pieces):
            front_of[own] = f
        first = np.minimum(front_of[i], front_of[j])
        order: Any = np.argsort(first, kind="stable").astype(np.int32)
        ends = np.searchsorted(first[order], np.arange(len(pieces) + 1))
        last, place, fronts = len(pieces) - 1, np.empty(n, dtype=np.intp), []
        for f, (own, boundary, parent) in enumerate(pieces):
            up = np.empty(0, dtype=np.intp)
            if parent >= 0:
                above = pieces[last - parent]
                place[np.concatenate(above[:2])] = np.arange(len(above[0]) + len(above[1]))
                up = place[boundary]
            place[np.concatenate([own, boundary])] = np.arange(len(own) + len(boundary))
            here = order[ends[f] : ends[f + 1]]
            a, b = place[i[here]], place[j[here]]
            at: Any = np.maximum(a, b).astype(np.int32), np.minimum(a, b).astype(np.int32)
            fronts.append(Front(own, boundary, last - parent if parent >= 0 else -1, up, here, at))
        return cls(n, fronts, front_of)

    def within(self, some: BoolArray, left: BoolArray) -> Dissection:
        """The fronts of the matrix of some rows (n,) alone, with the pairs (E,) that are left, in their numbers.

        Without some rows a separator still separates. Boundaries may have rows that are no longer touched.
        """
        row: IntArray = np.cumsum(some) - 1
        pair: Any = np.cumsum(left, dtype=np.int32) - 1
        cut = [(front.own[some[front.own]], front.boundary[some[front.boundary]]) for front in self.fronts]
        new = np.cumsum([len(own) > 0 for own, _ in cut]) - 1
        place, fronts = np.empty(self.n, dtype=np.intp), []
        front_of = np.empty(int(row[-1]) + 1, dtype=np.intp)
        for f, (front, (own, boundary)) in enumerate(zip(self.fronts, cut, strict=True)):
            if not len(own):
                continue  # its children's boundaries are within its own, and so within the rows of its parent
            parent, up = front.parent, np.empty(0, dtype=np.intp)
            while parent >= 0 and not len(cut[parent][0]):
                parent = self.fronts[parent].parent
            if parent >= 0:
                above = np.concatenate(cut[parent])
                place[above] = np.arange(len(above))
                up = place[boundary]
            here: Any = np.cumsum(some[np.concatenate([front.own, front.boundary])], dtype=np.int32) - 1
            mine = left[front.pairs]
            at = here[front.at[0][mine]], here[front.at[1][mine]]
            after = int(new[parent]) if parent >= 0 else -1
            fronts.append(Front(row[own], row[boundary], after, up, pair[front.pairs[mine]], at))
            front_of[row[own]] = new[f]
        return Dissection(len(front_of), fronts, front_of)

    @property
    def flops(self) -> float:
        """Multiply-adds of a factor with one value per row."""
        o, b = self._sizes
        return float(np.sum(o**3 / 6 + o**2 * b / 2 + o * b**2 / 2))

    @property
    def numbers(self) -> float:
        """Numbers that a factor with one value per row keeps."""
        o, b = self._sizes
        return float(np.sum(o**2 + o * b))

    @property
    def _sizes(self) -> tuple[Array, Array]:
        sizes = np.array([(len(f.own), len(f.boundary)) for f in self.fronts], dtype=float)
        return sizes[:, 0], sizes[:, 1]


def _cut(touches: csr_array, X: Array) -> list[tuple[IntArray, IntArray, int]]:
    """Own rows, boundary and parent of every piece, parents before children."""
    mark, column = np.zeros(len(X), dtype=np.int32), np.full(len(X), -1, dtype=np.intp)

    def touching(rows: IntArray, others: IntArray) -> BoolArray:
        mark[others] = 1
        found = np.asarray(touches[rows] @ mark) > 0
        mark[others] = 0
        return found

    pieces: list[tuple[IntArray, IntArray, int]] = []
    todo = [(np.arange(len(X)), np.empty(0, dtype=np.intp), -1)]
    while todo:
        rows, boundary, parent = todo.pop()
        if len(rows) > LEAF:
            order = rows[np.argsort(X[rows, np.ptp(X[rows], axis=0).argmax()], kind="stable")]
            left, right = order[: len(rows) // 2], order[len(rows) // 2 :]
            on_left, on_right = fewest_rows(_between(touches, left, right, column))
            own = np.concatenate([left[on_left], right[on_right]])
            left, right = left[~on_left], right[~on_right]
            if len(own) < NO_GAIN * len(rows):
                around = np.concatenate([own, boundary])
                above = len(pieces) if len(own) else parent
                todo += [(side, around[touching(around, side)], above) for side in (left, right) if len(side)]
                if len(own):
                    pieces.append((own, boundary, parent))
                continue
        pieces.append((rows, boundary, parent))
    return pieces


def _between(touches: csr_array, left: IntArray, right: IntArray, column: IntArray) -> csr_array:
    """Which rows of the left touch which of the right; ``column`` (n,) is −1 and stays so."""
    found = touches[left]
    column[right] = np.arange(len(right))
    columns = column[found.indices]
    column[right] = -1
    there = columns >= 0
    ends = np.concatenate([[0], np.cumsum(there)])[found.indptr]
    kept = columns[there].astype(np.int32), ends.astype(np.int32)
    return csr_array((np.ones(len(kept[0]), dtype=np.int8), *kept), shape=(len(left), len(right)))


def fewest_rows(edges: csr_array) -> tuple[BoolArray, BoolArray]:
    """The fewest rows and columns of a sparse matrix that hold all of its entries, by König's theorem.

    Every pair of a largest matching needs one of its two: the column if an alternating path from an unmatched row leads
    to it, else the row.
    """
    some = np.diff(edges.indptr) > 0
    column_of = np.asarray(maximum_bipartite_matching(edges, perm_type="column"))
    row_of = np.full(edges.shape[1], -1, dtype=np.intp)
    row_of[column_of[column_of >= 0]] = np.flatnonzero(column_of >= 0)
    reached = some & (column_of < 0)
    columns: BoolArray = np.zeros(edges.shape[1], dtype=bool)
    ends = np.flatnonzero(reached)
    while len(ends):
        new = np.unique(edges[ends].indices)
        new = new[~columns[new]]
        columns[new] = True
        ends = row_of[new]  # matched, all of them: the matching is a largest one
        reached[ends] = True
    return some & ~reached, columns


class SparseFactor:
    """S = blockdiag(Q_c) + diag(W_i) factored.

    Parameters
    ----------
    tree : Dissection
    Q : L arrays (E,)
        Entries at the pairs of the tree; the same array may stand for several latent values.
    W : (n, L, L) array
    """

    def __init__(self, tree: Dissection, Q: Sequence[Array], W: Array) -> None:
        self.tree, self.L = tree, len(Q)
        self.upper: list[Array] = []  # R (o L, o L)
        self.half: list[Array] = []  # H (o L, b L)
        diagonals: list[Array] = []
        waiting: dict[int, list[tuple[IntArray, Array]]] = {}
        for f, front in enumerate(tree.fronts):
            size, k = front.size * self.L, len(front.own) * self.L
            panel: Array = np.zeros((size, k))  # [F_oo F_ob]ᵀ, of which the lower triangle is filled
            flat, (a, b) = panel.ravel(), front.wide
            for c, q in enumerate(Q):
                flat[(a * self.L + c) * k + (b * self.L + c)] = q[front.pairs]
            in_row = self._in_row(panel[:k])
            in_row += W[front.own]
            rest: Array = np.zeros((size - k, size - k))  # F_bb
            for places, update in waiting.pop(f, []):
                own = int(np.searchsorted(places, k))
                _add(panel, places, places[:own], update[:, :own])
                _add(rest, places[own:] - k, places[own:] - k, update[own:, own:])
            # The transposes are in Fortran's order, and their parts contiguous: nothing is copied.
            upper, info = lapack.dpotrf(panel[:k].T, lower=0, clean=1, overwrite_a=1)
            if info != 0:
                raise NotPositiveDefiniteError(f"the posterior precision is not positive definite; {CURE}")
            half = _solved(upper, panel[k:].T, trans=1)
            diagonals.append(upper.diagonal())
            self.upper.append(np.asarray(upper))
            self.half.append(half)
            if front.parent >= 0:
                if rest.size:
                    rest = blas.dsyrk(-1.0, half, beta=1.0, c=rest.T, trans=1, lower=0, overwrite_c=1).T
                waiting.setdefault(front.parent, []).append((self._values(front.up), rest))
        self.half_log_det = float(np.log(np.concatenate(diagonals)).sum())  # ½ log |S|
        if not np.isfinite(self.half_log_det):
            raise NotPositiveDefiniteError(f"the posterior precision is not finite; {CURE}")

    def _values(self, rows: IntArray) -> IntArray:
        """Places of the values of some rows of a front."""
        return np.asarray((rows[:, None] * self.L + np.arange(self.L)).ravel())

    def _in_row(self, block: Array) -> Array:
        """A view (o, L, L) of a matrix (o L, o L): what it has between the values of each row."""
        o = len(block) // self.L
        return np.asarray(np.einsum("iaib->iab", block.reshape(o, self.L, o, self.L)))

    def solve(self, b: Array) -> Array:
        """S⁻¹b for b (n, L, r)."""
        x = self._forward(b.copy(), range(len(self.upper)))
        return self.backward(x)

    def backward(self, x: Array) -> Array:
        """C⁻ᵀx, C Cᵀ = S in the order of elimination, for x (n, L, r), in place."""
        r = x.shape[2]
        for front, upper, half in zip(self.tree.fronts[::-1], self.upper[::-1], self.half[::-1], strict=True):
            own = x[front.own].reshape(-1, r)
            if len(front.boundary):
                own = own - half @ x[front.boundary].reshape(-1, r)
            x[front.own] = _solved(upper, own).reshape(-1, self.L, r)
        return x

    def _forward(self, x: Array, fronts: Sequence[int] | range) -> Array:
        """C⁻¹x in place, where only some fronts are reached."""
        r = x.shape[2]
        for f in fronts:
            front = self.tree.fronts[f]
            own = _solved(self.upper[f], x[front.own].reshape(-1, r), trans=1)
            x[front.own] = own.reshape(-1, self.L, r)
            if len(front.boundary):
                x[front.boundary] -= (self.half[f].T @ own).reshape(-1, self.L, r)
        return x

    def quadratic(self, rows: IntArray, weights: Sequence[Array]) -> Array:
        """B_jᵀS⁻¹B_j (p, L, L), where column c of B_j has ``weights[c][j]`` (k,) at value c of ``rows[j]`` (k,)."""
        p, L = len(rows), self.L
        found = np.zeros((p, L, L))
        order = np.argsort(self.tree.front_of[rows].min(axis=1, initial=len(self.upper)), kind="stable")
        x = np.zeros((self.tree.n, L, COLUMNS * L))
        for begin in range(0, p, COLUMNS):
            here = order[begin : begin + COLUMNS]
            for c, w in enumerate(weights):
                x[rows[here], c, (np.arange(len(here)) * L + c)[:, None]] = w[here]
            reached = self._path(np.unique(self.tree.front_of[rows[here]]))
            self._forward(x, reached)
            for f in reached:
                own = self.tree.fronts[f].own
                v = x[own].reshape(-1, COLUMNS, L)[:, : len(here)]
                found[here] += np.einsum("vja,vjb->jab", v, v)
                x[own] = 0.0
        return found

    def _path(self, fronts: IntArray) -> list[int]:
        """Fronts and all above them, children first."""
        reached = set()
        for f in fronts.tolist():
            while f >= 0 and f not in reached:
                reached.add(f)
                f = self.tree.fronts[f].parent
        return sorted(reached)

    def inverse(self) -> tuple[list[Array], Array]:
        """S⁻¹ at the pairs of the tree, per latent value (E,), and between the values of a row, (n, L, L)."""
        E = sum(len(front.pairs) for front in self.tree.fronts)
        at_pairs = [np.empty(E) for _ in range(self.L)]
        in_row = np.empty((self.tree.n, self.L, self.L))
        for front, panel in self._downwards():
            k, flat, (a, b) = panel.shape[1], panel.ravel(), front.wide
            for c, found in enumerate(at_pairs):
                found[front.pairs] = flat.take((a * self.L + c) * k + (b * self.L + c))
            in_row[front.own] = self._in_row(panel[:k])
        return at_pairs, in_row

    def _downwards(self) -> Iterator[tuple[Front, Array]]:
        """Fronts with the entries of S⁻¹ between all and their own rows, (size L, o L), parents first."""
        children = np.bincount([f.parent + 1 for f in self.tree.fronts], minlength=len(self.upper) + 1)[1:]
        kept: dict[int, Array] = {}  # entries between all rows, while children need them
        for f in range(len(self.upper) - 1, -1, -1):
            front, upper, half = self.tree.fronts[f], self.upper[f], self.half[f]
            size, k = front.size * self.L, len(upper)
            panel: Array = np.empty((size, k))
            inverse = np.asarray(lapack.dtrtri(upper, lower=0)[0])
            np.matmul(inverse, inverse.T, out=panel[:k])
            if len(half.T):
                places, above = self._values(front.up), kept[front.parent]
                around = above.ravel().take(places[:, None] * len(above) + places)
                down = blas.dtrsm(-1.0, upper, half)
                np.matmul(around, down.T, out=panel[k:])
                panel[:k] += down @ panel[k:]
            if front.parent >= 0:
                children[front.parent] -= 1
                if children[front.parent] == 0:
                    del kept[front.parent]
            if children[f]:
                Sigma = kept[f] = np.empty((size, size))
                Sigma[:, :k] = panel
                Sigma[:k, k:] = panel[k:].T
                if len(half.T):
                    Sigma[k:, k:] = around
            yield front, panel


def _add(to: Array, rows: IntArray, columns: IntArray, update: Array) -> None:
    """Add to some rows and columns of a matrix."""
    if update.size:
        np.add.at(to.ravel(), (rows[:, None] * to.shape[1] + columns).ravel(), update.ravel())


def _solved(upper: Array, b: Array, trans: int = 0) -> Array:
    """R⁻¹b, or R⁻ᵀb, in place if b is in Fortran's order."""
    if b.size == 0:
        return np.zeros(b.shape)
    return np.asarray(lapack.dtrtrs(upper, b, lower=0, trans=trans, overwrite_b=1)[0])
