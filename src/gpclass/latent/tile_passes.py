r"""Passes over the tiles of the neighbour prior: pure functions of one tile, in any process.

A tile has *core* rows, which belong to it alone, and a *halo* of rows of other tiles around them. With the weights c_i
and variances d_i of its rows (:mod:`gpclass.latent.cliques`), T all its rows and missing neighbours left out, its
precision is

    S_T = Σ_{i∈T} c_i c_iᵀ/d_i + W_T,

of which one sparse factor gives the variances of the core rows: other rows are missing from the sum, and what they
would change at the core falls with the square of the correlation across the halo. With the tiles in a fixed order, the
determinant of all rows is a product over tiles of that of the core rows given the earlier tiles, with the later ones
integrated out; so tile t adds

    ½ log |S_T at its core and later rows| − ½ log |S_T at its later rows|.

The selected inverse has the covariances within the cliques, so that it also gives the posterior's own weights and
variances of the core rows given their neighbours: the guide of the means (:mod:`gpclass.latent.neighbour_means`).
Cost: one factor and its selected inverse per tile (:mod:`gpclass.numerics.dissection`), and two smaller factors for the
determinant.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array, tril
from sklearn.gaussian_process.kernels import Kernel

from gpclass._typing import Array, IntArray
from gpclass.latent.cliques import conditionals, scaled
from gpclass.latent.near_sites import matching, settled
from gpclass.latent.neighbour_gaussian import NeighbourGaussian
from gpclass.latent.neighbour_prior import NeighbourPrior
from gpclass.latent.sites import Held, SiteRule, labels_of
from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.local import RowMarginals, RowSites
from gpclass.model.rows import Shard
from gpclass.model.sums import Sums
from gpclass.numerics.dissection import Dissection, SparseFactor

FIRST = 0.7  # step of the first sweep of a tile by itself, if its rule is careful
ENOUGH = 0.5  # relative change of its sites at which such sweeps end: the exchange with other tiles moves them again
MOST = 8  # sweeps, at most
TOGETHER = 5000  # cliques at once
ADDED = (0.0, 1e-8, 1e-5)  # share of the variances that is added to those of a clique, if it is not positive definite


@dataclass(frozen=True, eq=False)
class Tile(Shard):
    """Core and halo rows, in increasing order, with the conditional distributions of the rows."""

    rows_of_all: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int32))  # (r,), their indices
    side: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int8))  # (r,), −1: earlier tile, 0: core, 1
    members: IntArray = field(default_factory=lambda: np.empty((0, 1), dtype=np.int32))  # (r, k + 1), −1 for none
    weights_of: tuple[Array, ...] = ()  # c (r, k + 1), per kernel
    variances: tuple[Array, ...] = ()  # d (r,), per kernel

    @property
    def core(self) -> Any:
        """Places of the core rows."""
        return self.side == 0


@dataclass(frozen=True, eq=False)
class Spec:
    """What is sent to the tiles: the model, and how many of them keep the plan of their factor."""

    kernel: Kernel
    likelihood: Likelihood
    n_classes: int
    L: int
    jitter: float
    keep: int

    def prior(self, tile: Tile) -> TilePrior:
        """The prior of a tile's rows."""
        known: TilePrior | None = tile.scratch.get("prior")
        if known is None:
            known = TilePrior.of(tile, self)
            if 0 <= tile.first < self.keep:
                tile.scratch["prior"] = known
        return known


@dataclass(frozen=True, eq=False)
class Pattern:
    """The pairs of a tile's rows that share a clique, (i, j) with j ≤ i."""

    i: IntArray  # (E,)
    j: IntArray
    X: Array  # (r, d), scaled
    k: int

    @cached_property
    def tree(self) -> Dissection:
        """The fronts of matrices with entries at the pairs."""
        return Dissection.of(self.i, self.j, self.X)


@dataclass(frozen=True, eq=False)
class TileConditionals:
    """Σ c cᵀ/d at the pairs."""

    Q: Array  # (E,)
    half_log_det: float
    jitter: float


@dataclass(frozen=True, eq=False)
class TilePrior(NeighbourPrior):
    """The neighbour prior of a tile, without the neighbours that it misses."""

    cliques: Any  # a Pattern
    found: tuple[TileConditionals, ...] = ()

    @classmethod
    def of(cls, tile: Tile, spec: Spec) -> TilePrior:
        """From the weights and variances of the tile's rows."""
        from gpclass.model.problem import Problem  # it builds on this package

        problem = Problem.of(tile.rows(), tile.y, spec.kernel, spec.likelihood, tile.weights, spec.n_classes)
        pattern, values = _precisions(tile, scaled(problem.kernels[0], problem.X))
        each = zip(values, tile.variances, strict=True)
        found = tuple(TileConditionals(Q, -0.5 * float(np.log(d).sum()), spec.jitter) for Q, d in each)
        return cls(problem, pattern, [], found)

    @cached_property
    def conditionals(self) -> Any:
        return list(self.found)

    def given(self, held: Held, rule: SiteRule) -> NeighbourGaussian:
        return NeighbourGaussian(self, *self.sited(held, rule))

    def times_precision(self, x: Array) -> Array:
        """Q x for x (r, L)."""
        i, j, out = self.cliques.i, self.cliques.j, np.zeros_like(x)
        off = i != j
        for c, one in enumerate(self.per_latent(self.conditionals)):
            out[:, c] = np.bincount(i, one.Q * x[j, c], minlength=len(x))
            out[:, c] += np.bincount(j[off], one.Q[off] * x[i[off], c], minlength=len(x))
        return out

    def centred(self, W: Array, mean: Array) -> NeighbourGaussian:  # type: ignore[override]  # of other arguments
        """The Gaussian with sites of these precisions (r, L, L), all copies together, and this mean (r, L)."""
        b = self.times_precision(mean) + np.einsum("rab,rb->ra", W, mean)
        return NeighbourGaussian(self, RowSites(b=np.ascontiguousarray(b.T), full=W))

    def half_log_det_of_core(self, tile: Tile, W: Array) -> float:
        """What the tile adds to ½ log |S|."""
        total, Q = 0.0, [one.Q for one in self.per_latent(self.conditionals)]
        for some, sign in ((tile.side >= 0, 1.0), (tile.side > 0, -1.0)):
            if np.any(some):
                both = some[self.cliques.i] & some[self.cliques.j]
                tree = self.cliques.tree.within(some, both)
                total += sign * SparseFactor(tree, [q[both] for q in Q], W[some]).half_log_det
        return total


def posterior_conditionals(tile: Tile, pattern: Pattern, P: Array) -> tuple[Array, Array]:
    """Weights (core, k + 1), −b and 1, and variances (core,) given the neighbours, from covariances P at the pairs."""
    code, core = pattern.i.astype(np.int64) * len(tile) + pattern.j, np.flatnonzero(tile.core)
    a, b = np.tril_indices(tile.members.shape[1])
    c, d = np.empty((len(core), tile.members.shape[1])), np.empty(len(core))
    for begin in range(0, len(core), TOGETHER):
        members = tile.members[core[begin : begin + TOGETHER]].astype(np.int64)
        low, high = np.minimum(members[:, a], members[:, b]), np.maximum(members[:, a], members[:, b])
        known = low >= 0
        at = np.searchsorted(code, np.where(known, high * len(tile) + low, 0))  # the first pair is (0, 0)
        R = np.empty((len(members), c.shape[1], c.shape[1]))
        R[:, a, b] = R[:, b, a] = np.where(known, P[at], a == b)
        some = slice(begin, begin + TOGETHER)
        c[some], d[some] = _conditionals_of_any(R)
    return c, d


def _conditionals_of_any(R: Array) -> tuple[Array, Array]:
    """Those of covariances (r, k + 1, k + 1) with rounding errors; rows count as independent if all else fails."""
    own = np.einsum("raa->ra", R)
    for added in ADDED:
        shifted = R.copy()
        np.einsum("raa->ra", shifted)[:] += added * own
        try:
            return conditionals(shifted)
        except np.linalg.LinAlgError:
            continue
    c: Array = np.zeros(own.shape)
    c[:, -1] = 1.0
    return c, own[:, -1].copy()


def short(indices: Any) -> IntArray:
    """Indices in 32 bits."""
    found: IntArray = np.asarray(indices).astype(np.int32)
    return found


def _precisions(tile: Tile, X: Array) -> tuple[Pattern, list[Array]]:
    """The pattern of S_T and, per kernel, Σ c cᵀ/d at its pairs."""
    r, known = len(tile), tile.members >= 0
    ends = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
    code, values = None, []
    for c, d in zip((None, *tile.weights_of), (None, *tile.variances), strict=True):
        data = np.ones(int(ends[-1])) if c is None or d is None else (c / np.sqrt(d)[:, None])[known]
        C = csr_array((data, tile.members[known], ends), shape=(r, r))
        Q = tril((C.T @ C).tocsr(), format="csr")
        Q.sort_indices()
        rows = np.repeat(np.arange(r), np.diff(Q.indptr))
        if code is None:
            code, i, j = rows * r + Q.indices, short(rows), short(Q.indices)
            continue
        if Q.nnz == len(code):
            values.append(Q.data)
        else:  # an entry that vanishes is not stored
            full = np.zeros(len(code))
            full[np.searchsorted(code, rows * r + Q.indices)] = Q.data
            values.append(full)
    return Pattern(i, j, X, tile.members.shape[1] - 1), values


# ---- the passes ------------------------------------------------------------------------------------------------------


def begin(tile: Tile, spec: Spec, rule: SiteRule) -> tuple[Shard, Sums]:
    """Sites (k, core) near the tile's own fixed point, means of the core, covariances of core and halo; the guide."""
    prior = spec.prior(tile)
    held, q = prior.begin(rule)
    assert isinstance(q, NeighbourGaussian)
    for sweep in range(MOST):
        swept = q.sweep(held, rule, FIRST if rule.careful and sweep == 0 else rule.step(spec.likelihood), 0)
        change = q.distance(swept.gaussian)
        last, held = q, swept.held
        assert isinstance(swept.gaussian, NeighbourGaussian)
        q = swept.gaussian
        if change < ENOUGH:
            break
    core, near = tile.core, {}
    if spec.L == 1:
        near = {"guide": [posterior_conditionals(tile, prior.cliques, last._inverse[0][0])]}
    return tile, {"numbers": [held[0].kept[:, core]], "mean": [last.mean_f[core]], "cov": [last.covariance], **near}


def moments(tile: Tile, spec: Spec, W: Array, determinant: bool) -> tuple[Shard, Sums]:
    """Covariances (r, L, L) of core and halo and, if asked for, the core's part of ½ log |S|."""
    prior = spec.prior(tile)
    own = W[tile.rows_of_all]
    q = NeighbourGaussian(prior, RowSites(b=np.zeros((spec.L, len(tile))), full=own))
    half = prior.half_log_det_of_core(tile, own) if determinant else 0.0
    return tile, {"cov": [q._inverse[1]], "half": half}


def guide(tile: Tile, spec: Spec, W: Array) -> tuple[Shard, Sums]:
    """Weights and variances of the core rows given their neighbours, at sites of these precisions; one latent value."""
    prior = spec.prior(tile)
    q = NeighbourGaussian(prior, RowSites(b=np.zeros((1, len(tile))), full=W[tile.rows_of_all]))
    return tile, {"guide": [posterior_conditionals(tile, prior.cliques, q._inverse[0][0])]}


def determinant(tile: Tile, spec: Spec, W: Array) -> tuple[Shard, Sums]:
    """The core's part of ½ log |S| alone."""
    return tile, {"half": spec.prior(tile).half_log_det_of_core(tile, W[tile.rows_of_all])}


def ahead(
    tile: Tile, spec: Spec, rule: SiteRule, numbers: Array, mean: Array, share: list[Array] | None
) -> tuple[Shard, Sums]:
    """Variances of core and halo, sites as far as the tile's factor tells, and about their means, for the core.

    One latent value per row. ``numbers`` (k, n) are the sites of all rows, ``mean`` (n, 1) their means. ``share`` has
    per tile the variances of its rows, over those that it found itself, at earlier sites: in the halo they differ.
    """
    prior, rows, core = spec.prior(tile), tile.rows_of_all, tile.core
    labels, old = labels_of(tile, spec.likelihood), numbers[:, rows]
    q = NeighbourGaussian(prior, rule.sites(spec.likelihood, labels, old), labels.copies)
    found = q.covariance
    around = found if share is None else found * share[tile.first][:, None, None]
    at = RowMarginals(np.ascontiguousarray(mean[rows].T), around, q.sites)
    first = rule.update(spec.likelihood, labels, old, at)[0]
    response = q.response(labels.copies)
    response.mean, response.variance = mean[rows, 0], np.maximum(around[:, 0, 0], np.finfo(float).tiny)
    new, after = settled(response, old, first, matching(rule, spec.likelihood, labels)), response.mean
    for _ in range(2):
        after, variance = response.marginals(new - old, after)
    known = {"cov": [found], "numbers": [new[:, core]], "mean": [after[core, None]], "variance": [variance[core]]}
    return tile, {**known, "plain": int(new is first)}


def row_conditionals(covariance: Any, X: Array, members: IntArray, jitter: float) -> tuple[Array, Array]:
    """Weights (r, k + 1) and variances (r,) of rows given their neighbours, cliques ``members`` (r, k + 1) of X."""
    r, size = members.shape
    known = members >= 0
    P = X[members]
    a, b = np.tril_indices(size, -1)
    R = np.zeros((r, size, size))
    R[:, a, b] = covariance.pairs(P[:, a].reshape(-1, X.shape[1]), P[:, b].reshape(-1, X.shape[1]))[0].reshape(r, -1)
    R += R.transpose(0, 2, 1)
    own = covariance.diag(P.reshape(-1, X.shape[1])).reshape(r, size)
    R *= known[:, :, None] & known[:, None, :]
    R[:, range(size), range(size)] = np.where(known, (1.0 + jitter) * own, 1.0)
    return conditionals(R)
