"""Kriging systems: linear prediction of values at sites from a covariance, for any number of values at once.

With Σ = k(X, X), σ = k(X, x*), k* = k(x*, x*), about a known mean m (simple kriging)::

    v̂ = m + λᵀ(v − m),   λ = Σ⁻¹σ,   variance k* − σᵀΣ⁻¹σ,

and with an unknown constant mean (ordinary kriging, Σ_i λ_i = 1)::

    λ = Σ⁻¹(σ + 1·μ),   μ = (1 − 1ᵀΣ⁻¹σ) / (1ᵀΣ⁻¹1),   variance k* − σᵀΣ⁻¹σ + (1 − 1ᵀΣ⁻¹σ)² / (1ᵀΣ⁻¹1).

The nugget (white noise of the kernel) is in Σ and in k*. ``exact=True`` also includes it in σ if x* is a site,
so that kriging returns the value there; ``exact=False`` treats it as measurement error and smooths (both as in
gstools); N labels at one site then divide it by N.

Cost: O(n³) once and O(n²) per new point; with k neighbours O(k³) per new point, solved in batches: the points are
sorted by a k-d tree, a batch shares one covariance matrix of all its neighbours, and its small systems are gathered
from it. Fails when: sites coincide (merge them first) or the covariance is singular even with jitter.

Reference: R §2.1; Chilès & Delfiner (1999), ch. 3; Dubrule (1983), Math. Geology 15, for leave-one-out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.linalg import lapack, solve_triangular
from sklearn.neighbors import KDTree
from sklearn.utils import gen_batches

from gpclass._typing import Array, IntArray
from gpclass.covariance import Covariance
from gpclass.numerics.linalg import factor

CELLS = 4_000_000  # entries of a block of cross-covariances
UNION = 2048  # most distinct neighbours of a batch


@dataclass(frozen=True)
class KrigingSystem:
    """Sites with a covariance; the weights are common to all values at the sites."""

    X: Array  # (n, d), distinct
    covariance: Covariance
    trials: Array  # (n,), labels at each site
    exact: bool = True
    ordinary: bool = False
    neighbours: int | None = None
    metric_scale: Array | float = 1.0  # coordinates are divided by it in the neighbour search
    _local_jitter: list[float] = field(default_factory=lambda: [0.0], repr=False, compare=False)

    @cached_property
    def nugget(self) -> Array:
        """White noise at the sites, (n,): the diagonal minus the cross-covariance of the kernel."""
        blocks = (self.X[rows] for rows in gen_batches(len(self.X), 64))
        smooth = np.concatenate([np.diag(self.covariance(x, x)) for x in blocks])
        whole = self.covariance.diag(self.X)
        return np.asarray(np.where(whole - smooth > 1e-12 * whole, whole - smooth, 0.0))  # ignore rounding

    def _sites(self, index: IntArray | slice) -> Array:
        """Σ of the chosen sites."""
        K = self.covariance(self.X[index])
        if not self.exact:
            K.flat[:: len(K) + 1] -= (self.nugget * (1.0 - 1.0 / self.trials))[index]
        return K

    def _coincident(self, Z: Array) -> IntArray:
        """For each new point the index of the coincident site, or −1, (m,)."""
        if not self.exact or not np.any(self.nugget > 0):
            return np.full(len(Z), -1, dtype=np.intp)
        both = np.vstack([self.X, Z]) + 0.0  # −0 becomes 0
        _, label = np.unique(both, axis=0, return_inverse=True)
        label = label.ravel()
        owner = np.full(label.max() + 1, -1, dtype=np.intp)
        owner[label[: len(self.X)]] = np.arange(len(self.X))
        return owner[label[len(self.X) :]]

    def _cross(self, Z: Array) -> Array:
        """σ for each new point, (n, m)."""
        S = self.covariance(self.X, Z)
        at = self._coincident(Z)
        (j,) = np.nonzero(at >= 0)
        S[at[j], j] += self.nugget[at[j]]
        return S

    @cached_property
    def _factored(self) -> tuple[Array, float]:
        return factor(self._sites(slice(None)), what="the covariance of the sites")

    @property
    def jitter(self) -> float:
        """The largest jitter added to the diagonal of Σ, or of a neighbourhood solved so far."""
        return self._factored[1] if self.neighbours is None else self._local_jitter[0]

    def _solve(self, B: Array) -> Array:
        x, _ = lapack.dpotrs(self._factored[0], B, lower=1)
        return np.asarray(x).reshape(B.shape)

    def weights(self, Z: Array) -> Array:
        """Kriging weights λ of all sites, (m, n)."""
        if self.neighbours is not None:
            full = np.zeros((len(Z), len(self.X)))
            for rows, index, lam, _ in self._local(Z):
                full[rows[:, None], index] = lam
            return full
        lam = self._solve(self._cross(Z))
        if self.ordinary:
            a = self._solve(np.ones(len(self.X)))
            lam = lam + np.outer(a, (1.0 - lam.sum(axis=0)) / a.sum())
        return np.asarray(lam.T)

    def predict(self, Z: Array, V: Array, mean: Array) -> Array:
        """Kriged values (m, q) of site values V (n, q) about mean (q,), which ordinary kriging ignores."""
        if self.neighbours is not None:
            return self._from_neighbours(Z, V, mean)
        centre = mean
        if self.ordinary:  # the mean that it implies
            a = self._solve(np.ones(len(V)))
            centre = np.asarray(a @ V / a.sum())
        dual = self._solve(V - centre)  # (n, q)
        return np.vstack([centre + self._cross(block).T @ dual for block in self._blocks(Z)])

    def variance(self, Z: Array) -> Array:
        """Kriging variance at new points, (m,); never negative."""
        if self.neighbours is not None:
            out = np.empty(len(Z))
            for rows, _, _, variance in self._local(Z):
                out[rows] = variance
            return out
        parts = []
        L = self._factored[0]
        one = solve_triangular(L, np.ones(len(L)), lower=True, check_finite=False)
        for block in self._blocks(Z):
            half = solve_triangular(L, self._cross(block), lower=True, check_finite=False)
            value = self.covariance.diag(block) - np.einsum("ij,ij->j", half, half)
            if self.ordinary:
                value += (1.0 - one @ half) ** 2 / (one @ one)
            parts.append(value)
        return np.asarray(np.maximum(np.concatenate(parts), 0.0))

    def leave_one_out(self, V: Array, mean: Array) -> Array:
        """Each site's values predicted from the other sites, (n, q)."""
        if self.neighbours is not None:
            return self._from_neighbours(self.X, V, mean, leave_out=True)
        inverse, _ = lapack.dpotri(self._factored[0], lower=1)
        precision = np.diag(inverse).copy()
        if not self.ordinary:
            return np.asarray(V - self._solve(V - mean) / precision[:, None])
        a = self._solve(np.ones(len(V)))
        residual = self._solve(V) - np.outer(a, a @ V / a.sum())
        return np.asarray(V - residual / (precision - a**2 / a.sum())[:, None])

    def _from_neighbours(self, Z: Array, V: Array, mean: Array, leave_out: bool = False) -> Array:
        """λᵀv about the mean, for ordinary kriging about zero, (m, q)."""
        out, centre = np.empty((len(Z), V.shape[1])), np.zeros_like(mean) if self.ordinary else mean
        for rows, index, lam, _ in self._local(Z, leave_out):
            out[rows] = centre + np.einsum("bk,bkq->bq", lam, V[index] - centre)
        return out

    def _blocks(self, Z: Array) -> Iterator[Array]:
        return (Z[rows] for rows in gen_batches(len(Z), max(1, CELLS // len(self.X))))

    @cached_property
    def _tree(self) -> KDTree:
        return KDTree(self.X / self.metric_scale)

    def _local(self, Z: Array, leave_out: bool = False) -> Iterator[tuple[IntArray, IntArray, Array, Array]]:
        """Batches of new points: their rows, neighbours (b, k), weights (b, k), variances (b,)."""
        assert self.neighbours is not None  # checked by the callers
        k = min(self.neighbours, len(self.X) - int(leave_out))
        at = np.full(len(Z), -1, dtype=np.intp) if leave_out else self._coincident(Z)
        scaled = Z / self.metric_scale
        order = np.asarray(KDTree(scaled, leaf_size=64).get_arrays()[1], dtype=np.intp)
        step = max(1, CELLS // (4 * k * k))
        todo = [order[rows] for rows in gen_batches(len(Z), step)][::-1]
        while todo:
            rows = todo.pop()
            index = self._tree.query(scaled[rows], k + int(leave_out), return_distance=False)
            index = _without_self(index, rows) if leave_out else index
            union, place = np.unique(index, return_inverse=True)
            if len(union) > UNION and len(rows) > 1:  # too large for one covariance matrix: halve it
                todo += [rows[len(rows) // 2 :], rows[: len(rows) // 2]]
                continue
            place = place.reshape(index.shape)  # (b, k), positions within the union
            lam, variance = self._solve_batch(Z[rows], index, union, place, at[rows])
            yield rows, index, lam, variance

    def _solve_batch(
        self, Z: Array, index: IntArray, union: IntArray, place: IntArray, at: IntArray
    ) -> tuple[Array, Array]:
        """Weights (b, k) and variances (b,) of b small systems."""
        K = self._sites(union)[place[:, :, None], place[:, None, :]]  # (b, k, k)
        s = self.covariance(self.X[union], Z)[place, np.arange(len(Z))[:, None]]  # (b, k)
        s = s + np.where(index == at[:, None], self.nugget[index], 0.0)
        solved, jitter = _batch_solve(K, np.stack([s, np.ones_like(s)], axis=-1))  # (b, k, 2)
        self._local_jitter[0] = max(self._local_jitter[0], jitter)
        lam = solved[..., 0]
        variance = self.covariance.diag(Z) - np.einsum("bk,bk->b", lam, s)
        if self.ordinary:
            short, total = 1.0 - lam.sum(axis=1), solved[..., 1].sum(axis=1)
            lam = lam + solved[..., 1] * (short / total)[:, None]
            variance = variance + short**2 / total
        return lam, np.maximum(variance, 0.0)


def _without_self(index: IntArray, rows: IntArray) -> IntArray:
    """Drop from each row of (b, k + 1) neighbours the point itself (or the last one), leaving (b, k)."""
    own = index == rows[:, None]
    own[~own.any(axis=1), -1] = True
    return np.asarray(index[~own].reshape(len(index), -1))


def _batch_solve(K: Array, B: Array) -> tuple[Array, float]:
    """Solve K_b x = B_b for every b; jitter only systems that are not positive definite, and return the largest."""
    jitter = np.zeros(len(K))
    try:
        np.linalg.cholesky(K)  # LU would not detect a slightly indefinite system
    except np.linalg.LinAlgError:
        jitter = np.array([factor(block, what="the covariance of a neighbourhood")[1] for block in K])
        K = K + jitter[:, None, None] * np.eye(K.shape[-1])
    return np.asarray(np.linalg.solve(K, B)), float(jitter.max(initial=0.0))
