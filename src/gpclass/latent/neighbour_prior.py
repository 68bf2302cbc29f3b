r"""The neighbour prior at the rows and at new points, with one sparse precision for all rows.

f = A u + r with u ~ N(0, I) at the inducing inputs, if any, and r ~ N(0, Q⁻¹), Q from the conditional distributions of
the rows given their neighbours (:mod:`gpclass.latent.cliques`). A new point has its k nearest rows for neighbours.
Cost: O(n k³) for the conditionals, O(n m²) for the features; O(k³ + k m) and a search in a tree per new point.
Reference: Vecchia (1988); Gyger, Furrer & Sigrist (2025), Vecchia-inducing-points full-scale approximations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial import cKDTree

from gpclass._typing import Array, IntArray
from gpclass.latent import newton
from gpclass.latent.basis import BLOCK, Basis
from gpclass.latent.cliques import (
    ELEMENTS,
    Cliques,
    Conditionals,
    Root,
    earlier_neighbours,
    pair_products,
    random_order,
    scaled,
)
from gpclass.latent.coordinates import Features
from gpclass.latent.in_memory import InMemoryPrior
from gpclass.latent.inducing import because
from gpclass.latent.neighbours import Neighbours, k_of
from gpclass.latent.sites import Held, SiteRule, labels_of
from gpclass.likelihoods.local import RowSites

if TYPE_CHECKING:
    from gpclass.latent.neighbour_gaussian import NeighbourGaussian
    from gpclass.model.problem import Problem

PAIRS = 500_000  # pairs of rows at once


@dataclass(frozen=True, eq=False)
class NeighbourPrior(InMemoryPrior):
    """f = A u + r, u ~ N(0, I), r ~ N(0, Q⁻¹)."""

    problem: Problem
    cliques: Cliques
    bases: list[Basis]  # none, or one per kernel

    @property
    def m(self) -> int:
        """Inducing inputs."""
        return self.bases[0].m if self.bases else 0

    # ---- the distribution at the rows -------------------------------------------------------------------------

    @cached_property
    def A(self) -> list[Array]:
        """Features (n, m), one array per kernel."""
        return self.features_of(self.problem.X)

    def features_of(self, X: Array) -> list[Array]:
        """Features a(x) (p, m) of points, one array per kernel."""
        if not self.bases:
            return [np.zeros((len(X), 0)) for _ in self.problem.kernels]
        parts = [slice(a, a + BLOCK) for a in range(0, len(X), BLOCK)]
        return [np.concatenate([basis.features(X[rows])[0] for rows in parts]) for basis in self.bases]

    @cached_property
    def conditionals(self) -> list[Conditionals]:
        """Of r, one per kernel."""
        X, i, j = self.problem.X, self.cliques.i, self.cliques.j
        own, found = i == j, []
        for covariance, A in zip(self.problem.covariances, self.A, strict=True):
            R, variances = np.empty(len(i)), covariance.diag(X)
            for begin in range(0, len(i), PAIRS):
                some = slice(begin, begin + PAIRS)
                R[some] = covariance.pairs(X[i[some]], X[j[some]])[0]
            R[own] = variances
            if self.m:
                R -= pair_products(A, A, i, j)
            found.append(Conditionals.of(self.cliques, R, variances))
        return found

    @property
    def jitter(self) -> float:
        """Share of the prior variances, or of K_zz, that was added."""
        return max([*(found.jitter for found in self.conditionals), *(basis.jitter for basis in self.bases)])

    def given(self, held: Held, rule: SiteRule) -> NeighbourGaussian:
        from gpclass.latent.neighbour_gaussian import NeighbourGaussian  # it builds on this module

        return NeighbourGaussian(self, *self.sited(held, rule))

    def times(self, held: Held) -> Held:
        """Rows with f = K (c∘α)."""
        (shard,) = held
        labels, values = labels_of(shard, self.problem.likelihood), shard.kept.copy()
        view = values.reshape(newton.NUMBERS, self.L, -1)
        for c, root in enumerate(self.per_latent(self.roots)):
            view[newton.F, c] = root.product(np.asarray(labels.copies) * view[newton.ALPHA, c])
        return (shard.with_values(values),)

    @cached_property
    def roots(self) -> list[Root]:
        """Products with the prior covariance, one per kernel."""
        order = random_order(self.problem.n)
        each = zip(self.conditionals, self.A, strict=True)
        return [Root(A, np.sqrt(found.d), order, found.B[order][:, order].tocsc()) for found, A in each]

    def from_vectors(self, vectors: Array) -> NeighbourGaussian:
        """Precisions and shifts of the sites."""
        L = self.L
        return self.from_kept({"W": vectors[: L * L].reshape(L, L, -1).transpose(2, 0, 1), "b": vectors[L * L :]})

    def from_kept(self, kept: dict[str, Array]) -> NeighbourGaussian:
        from gpclass.latent.neighbour_gaussian import NeighbourGaussian  # it builds on this module

        return NeighbourGaussian(self, RowSites(b=kept["b"], full=kept["W"]))

    # ---- new points -------------------------------------------------------------------------------------------

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(self._scaled(self.problem.X))

    def _scaled(self, X: Array) -> Array:
        return scaled(self.problem.kernels[0], X)

    def nearest(self, X_new: Array) -> IntArray:
        """The k nearest rows of new points, (p, k)."""
        k = self.cliques.k
        if k == 0:
            return np.empty((len(X_new), 0), dtype=np.intp)
        return np.asarray(self._tree.query(self._scaled(X_new), k)[1], dtype=np.intp).reshape(len(X_new), k)

    def new(self, points: Array, near: IntArray, X_new: Array) -> list[tuple[Array, Array, Array]]:
        """Features (p, m), weights (p, k) on r at the ``near`` ones of points, and variances (p,), per kernel."""
        out = []
        for kernel, covariance in enumerate(self.problem.covariances):
            A = self._features(points, kernel)
            a = self._features(X_new, kernel)
            p, k = near.shape
            b, d = np.empty((p, k)), np.empty(p)
            step = max(1, ELEMENTS // ((k + 1) * max(k + 1, self.m)))
            for begin in range(0, p, step):
                some = slice(begin, begin + step)
                b[some], d[some] = self._condition(covariance, points, A, near[some], X_new[some], a[some])
            out.append((a, b, d))
        return out

    def _features(self, X: Array, kernel: int) -> Array:
        return self.A[kernel] if X is self.problem.X else self.features_of(X)[kernel]

    def _condition(
        self, covariance: Any, points: Array, A: Array, near: IntArray, X_new: Array, a: Array
    ) -> tuple[Array, Array]:
        """Weights on r at the near points, which are as for the rows not nearly dependent, and variances."""
        r, k = near.shape
        known = np.column_stack([near >= 0, np.ones(r, dtype=bool)])
        P = np.concatenate([points[near], X_new[:, None]], axis=1)
        i, j = np.tril_indices(k + 1, -1)
        R = np.zeros((r, k + 1, k + 1))
        R[:, i, j] = covariance.pairs(P[:, i].reshape(-1, P.shape[2]), P[:, j].reshape(-1, P.shape[2]))[0].reshape(
            r, -1
        )
        R += R.transpose(0, 2, 1)
        own = covariance.diag(P.reshape(-1, P.shape[2])).reshape(r, -1)
        R[:, range(k + 1), range(k + 1)] = own
        if self.m:
            F = np.concatenate([A[near], a[:, None]], axis=1)
            R -= F @ F.transpose(0, 2, 1)
        R *= known[:, :, None] & known[:, None, :]
        jitter = max(found.jitter for found in self.conditionals)
        R[:, range(k), range(k)] += np.where(known, jitter * own, 1.0)[:, :k]
        b = np.linalg.solve(R[:, :k, :k], R[:, :k, k:])[:, :, 0]
        return b, np.maximum(R[:, k, k] - np.einsum("rk,rk->r", b, R[:, :k, k]), 0.0)

    def features(self, X_new: Array, roots: list[Array] | None = None) -> Features:
        """In white coordinates (u, ε), r = B⁻¹d^½ε: (m + n, p) numbers per kernel, for few rows."""
        near, X = self.nearest(X_new), self.problem.X
        V, rest = [], []
        for root, (a, b, d) in zip(self.roots, self.new(X, near, X_new), strict=True):
            spread = np.zeros((self.problem.n, len(X_new)))
            np.add.at(spread, (near, np.arange(len(X_new))[:, None]), b)
            V.append(np.vstack([a.T, root.white(spread)]))
            rest.append(d)
        return Features(V, rest)

    def white_dimension(self) -> int:
        return self.L * (self.m + self.problem.n)

    def joint(self, X_new: Array) -> tuple[IntArray, list[tuple[Array, Array, Array]]]:
        """Neighbours of new points among the rows and the new points before each, and their conditionals."""
        X, n = self.problem.X, self.problem.n
        points = np.vstack([X, X_new])
        near = earlier_neighbours(self._scaled(points), self.cliques.k, n)
        return near, self.new(points, near, X_new)

    def survey(self) -> dict[str, Any]:
        """Neighbours, inducing inputs, and the work of a factor."""
        tree, form, k = self.cliques.tree, self.problem.form, self.cliques.k
        n, because_of = self.problem.n, {}
        if isinstance(form, Neighbours) and form.k is None:
            usual = min(k_of(n), n)
            why = f"usual for {n} rows" if k == usual else "as many as memory and about an hour allow"
            because_of["n_neighbors_because"] = why
        if isinstance(form, Neighbours) and form.m is None:
            because_of["n_inducing_because"] = because(self.m, n, self.L)
        return {
            "n_neighbors": k,
            "n_inducing": self.m,
            **because_of,
            "factor_gflops": 2e-9 * tree.flops * self.L**3,
            "factor_mb": 8.0 * tree.numbers * self.L**2 / 2**20,
        }
