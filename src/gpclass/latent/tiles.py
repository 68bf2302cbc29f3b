r"""The neighbour prior of very many rows in tiles: one sparse factor per tile, means by conjugate gradients.

The factor of all rows grows faster than their number, in time and in memory. Here the rows are cut by space into tiles
of about equal size, each with a *halo* of the rows around it. Of the Gaussian that sites make of the prior

- the means are those of all rows, by conjugate gradients (:mod:`gpclass.latent.neighbour_means`): exact;
- the variances, predictions, draws and the determinant come from one tile after another, with the rows of its halo
  (:mod:`gpclass.latent.tile_passes`): their error falls with the square of the correlation across the halo.

So Laplace's mode is that of all rows, and EP's sites agree with exact means. First sites are those of each tile as if
it were alone; sweeps over all tiles follow, in which halos have the sites of the tiles that they belong to.

A halo has a width in rows: it has the rows of other tiles that are nearer to the box around the core rows than so many
times the mean distance between rows *where they are*, so that dense rows next to a sparse tile add no more than needed;
and the neighbours of all these. It is widened until it has LEAST of the core's rows. The report has the error of a
standard deviation in one tile, as a halo of twice the width tells it, and warns if it is large.
Cost: O(n) for tiles of fixed size, in time and memory; with several latent values per row the conjugate gradients take
more iterations the more rows there are. A factor is dropped after use, and only its plan is kept, if memory allows. The
passes run on the executor of the rows, one task per tile; the means are found in this process.
Fails when: the range of the kernel holds many more rows than a halo is wide, and labels say little about them:
variances then have an error; a wider halo, or ``tile=0`` for one factor, tells.
References: Vecchia (1988); Cai & Sarkis (1999), A restricted additive Schwarz preconditioner for general sparse linear
systems, for subdomains with overlap whose values are kept at their own rows alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial import cKDTree

from gpclass._typing import Array, IntArray
from gpclass.latent import newton
from gpclass.latent import tile_passes as passes
from gpclass.latent.base import Gaussian
from gpclass.latent.cliques import ELEMENTS, JITTER, SMALLEST, Cliques, random_order, scaled
from gpclass.latent.in_memory import InMemoryPrior, only
from gpclass.latent.local import cut
from gpclass.latent.neighbour_means import Guide, Means, Triangle
from gpclass.latent.neighbours import Neighbours, k_of
from gpclass.latent.sites import Held, SiteRule, labels_of
from gpclass.latent.tile_passes import Spec, Tile
from gpclass.likelihoods.local import RowSites
from gpclass.model.rows import Executor, Local, Work
from gpclass.model.sums import Sums
from gpclass.numerics.linalg import CURE, NotPositiveDefiniteError
from gpclass.numerics.memory import available_memory

if TYPE_CHECKING:
    from gpclass.latent.tiled_gaussian import TiledGaussian
    from gpclass.model.problem import Problem

PER_ROW = 1300.0  # bytes of a tile's plan of its factor, per row with 15 neighbours
LEAF = 64  # rows whose mean distance is the spacing around them
LEAST, DOUBLINGS = 0.2, 14  # rows of a halo over those of its core, at least, and how often it is widened for them
MOST_ROWS = 4.0  # rows of all tiles with their halos, over all rows, up to which tiles pay
SPARE, MOST_KEPT = 0.25, 0.75 * 2**30  # share of the free memory that such plans may take, and bytes


@dataclass(frozen=True, eq=False)
class Layout:
    """Which rows are in which tile."""

    cores: list[IntArray]  # rows of each core, in increasing order
    rows: list[IntArray]  # with those of the halo
    core_of: IntArray  # tile of each row, (n,)
    around: _Around

    @classmethod
    def of(cls, X: Array, near: IntArray, size: int, width: float) -> Layout:
        """Of rows at X (n, d), scaled, with neighbours (n, k), ``size`` rows per core and so wide a halo."""
        cores = [np.sort(rows[rows >= 0]) for rows in cut(X, size)]
        core_of = np.empty(len(X), dtype=np.intp)
        for t, rows in enumerate(cores):
            core_of[rows] = t
        low, high = (np.stack([end(X[rows], axis=0) for rows in cores]) for end in (np.min, np.max))
        around = _Around(X, near, cores, low, high, width * spacings(X))
        return cls(cores, [around.rows(t) for t in range(len(cores))], core_of, around)

    def wider(self, tile: int) -> IntArray:
        """The rows of a tile with a halo of twice the width."""
        return self.around.rows(tile, 2.0)

    @property
    def pays(self) -> bool:
        """Whether halos are not much larger than cores, as they are where rows have many columns."""
        return sum(map(len, self.rows)) < MOST_ROWS * len(self.core_of)

    def largest(self, near: IntArray, X: Array) -> Cliques:
        """The cliques of the tile with most rows."""
        rows = max(self.rows, key=len)
        place = np.full(len(X) + 1, -1, dtype=np.intp)  # the last stands for a missing neighbour
        place[rows] = np.arange(len(rows))
        return Cliques.of(place[near[rows]], X[rows])


@dataclass(frozen=True, eq=False)
class _Around:
    """Where the cores are, and how far their halos reach."""

    X: Array  # (n, d), scaled
    near: IntArray  # (n, k)
    cores: list[IntArray]
    low: Array  # (tiles, d), of the box around each core
    high: Array
    reach: Array  # (n,), the distance from a core within which a row is in its halo

    @cached_property
    def farthest(self) -> Array:
        return np.array([self.reach[rows].max() for rows in self.cores])

    def rows(self, tile: int, times: float = 1.0) -> IntArray:
        """Core and halo of a tile, in increasing order, the halo ``times`` as wide, and wider if it has few rows.

        In one column, or along a line, a halo of so many rows is nearer than what the core depends on.
        """
        core = self.cores[tile]
        for _ in range(DOUBLINGS if self.farthest.max() > 0.0 else 1):
            found = self._within(tile, times)
            if len(found) - len(core) >= times * LEAST * len(core):
                break
            times *= 2.0
        near = self.near[found].ravel()
        return np.unique(np.concatenate([found, near[near >= 0]]))

    def _within(self, tile: int, times: float) -> IntArray:
        low, high, found = self.low[tile], self.high[tile], [self.cores[tile]]
        gaps = np.maximum(np.maximum(self.low - high, low - self.high).max(axis=1), 0.0)  # between the boxes
        for u in np.flatnonzero(gaps <= times * self.farthest):
            rows = self.cores[u]
            if u != tile:
                away = np.maximum(self.X[rows] - high, low - self.X[rows]).max(axis=1)
                found.append(rows[away <= times * self.reach[rows]])
        return np.concatenate(found)


def spacings(X: Array) -> Array:
    """Mean distance (n,) between the rows of X (n, d) around each: of some rows in a box around them."""
    leaves = cut(X, LEAF)
    rows, known = np.where(leaves >= 0, leaves, leaves[:, :1]), leaves >= 0
    side = -np.sort(-np.ptp(X[rows], axis=1), axis=1)  # (leaves, d), the longest first
    count, best = np.log(known.sum(axis=1)), np.zeros(len(leaves))
    volume = np.cumsum(np.log(np.maximum(side, 1e-300)), axis=1)
    for d in range(1, side.shape[1] + 1):  # a side shorter than the spacing does not count
        spacing = np.exp((volume[:, d - 1] - count) / d)
        best = np.where(spacing <= side[:, d - 1], spacing, best)
    some = best[best > 0.0]
    best[best <= 0.0] = np.median(some) if len(some) else 1.0  # equal rows
    out = np.empty(len(X))
    out[leaves[known]] = np.broadcast_to(best[:, None], leaves.shape)[known]
    return out


@dataclass(frozen=True, eq=False)
class TiledPrior(InMemoryPrior):
    """r ~ N(0, Q⁻¹) of all rows, in tiles."""

    problem: Problem
    near: IntArray  # (n, k), −1 for none
    layout: Layout

    @cached_property
    def members(self) -> IntArray:
        """The cliques, (n, k + 1)."""
        return np.column_stack([self.near, np.arange(self.problem.n)]).astype(np.int32)

    @cached_property
    def conditionals(self) -> tuple[list[tuple[Array, Array]], float]:
        """Weights (n, k + 1) and variances (n,) of the rows per kernel, and the jitter that they needed."""
        for jitter in (0.0, JITTER):
            try:
                each = [self._conditionals(covariance, jitter) for covariance in self.problem.covariances]
            except np.linalg.LinAlgError:
                continue
            variances = [covariance.diag(self.problem.X) for covariance in self.problem.covariances]
            if jitter or all(np.all(d >= SMALLEST * v) for (_, d), v in zip(each, variances, strict=True)):
                return each, jitter
        raise NotPositiveDefiniteError(f"the covariance of a row and its neighbours is not positive definite; {CURE}")

    def _conditionals(self, covariance: Any, jitter: float) -> tuple[Array, Array]:
        n, size = self.members.shape
        c, d = np.empty((n, size)), np.empty(n)
        step = max(1, ELEMENTS // size**2)
        for a in range(0, n, step):
            some = slice(a, a + step)
            c[some], d[some] = passes.row_conditionals(covariance, self.problem.X, self.members[some], jitter)
        return c, d

    @cached_property
    def half_log_det(self) -> float:
        """½ log |Q| of all latent values."""
        return -0.5 * float(sum(np.log(d).sum() for _, d in self.per_latent(self.conditionals[0])))

    @cached_property
    def means(self) -> Means:
        """Products with Q, and posterior means."""
        order = random_order(self.problem.n)
        triangles = [Triangle(self.members, c, d, order) for c, d in self.conditionals[0]]
        return Means(self.per_latent(triangles), order)

    def guide(self, found: list[tuple[Array, Array]]) -> Guide:
        """From the weights and variances of the cores of all tiles, which are emptied: memory is needed most here."""
        c, d = (self.at_rows([part[i] for part in found]) for i in range(2))
        found.clear()
        return Guide(self.members, c, d, self.means.order)

    def mean(self, W: Array, b: Array, near: Array | None, share: float) -> Array:
        """Posterior means (n, L) given sites of precisions W and shifts b, to a share of the error of those nearby."""

        def find_guide() -> Guide:
            return self.guide(self.map(passes.guide, W)["guide"])

        return self.means.solve(W, b, near, share, find_guide if self.L == 1 else None)[0]

    # ---- tiles ------------------------------------------------------------------------------------------------

    @cached_property
    def spec(self) -> Spec:
        """What is sent to the tiles."""
        problem, sizes = self.problem, np.cumsum([len(rows) for rows in self.layout.rows])
        most = min(SPARE * available_memory(), MOST_KEPT)
        keep = int(np.sum(PER_ROW * sizes * (self.near.shape[1] / 15.0) < most))
        return Spec(problem.kernel, problem.likelihood, problem.n_classes, self.L, self.conditionals[1], keep)

    def tile(self, rows: IntArray, side: IntArray, number: int) -> Tile:
        """The tile of some rows, in increasing order."""
        X, y, weights = self.problem.rows.everything
        place = np.full(self.problem.n, -1, dtype=np.int32)
        place[rows] = np.arange(len(rows), dtype=np.int32)
        members = self.members[rows]
        members = np.where(members >= 0, place[members], -1)
        c, d = zip(*((c[rows], d[rows]) for c, d in self.conditionals[0]), strict=True)
        own = None if weights is None else weights[rows]
        return Tile(X[rows], y[rows], own, number, None, None, {}, rows, side, members, c, d)

    @cached_property
    def tiles(self) -> list[Tile]:
        """All tiles."""
        return [
            self.tile(passes.short(rows), np.sign(self.layout.core_of[rows] - t).astype(np.int8), t)
            for t, rows in enumerate(self.layout.rows)
        ]

    @cached_property
    def held(self) -> tuple[Executor, list[Any]]:
        """Where the tiles are: on the workers that the rows came from, if any."""
        source = self.problem.rows.source
        executor: Executor = (source and source.executor) or Local()
        return executor, executor.place(self.tiles)

    def map(self, work: Work, *arguments: Any, some: Sequence[int] | None = None) -> Sums:
        """Sums of a pass over the tiles, or over some of them."""
        executor, held = self.held
        if some is not None:
            held = [held[t] for t in some]
        return executor.map_reduce(work, held, self.spec, *arguments)[1]

    def at_rows(self, found: list[Array]) -> Array:
        """Values (n, ...) of the rows, from those of the cores of all tiles."""
        out = np.empty((self.problem.n, *found[0].shape[1:]))
        for rows, values in zip(self.layout.cores, found, strict=True):
            out[rows] = values
        return out

    def of_cores(self, found: list[Array]) -> Array:
        """Values (n, ...) of the rows, from those of core and halo of all tiles."""
        each = zip(self.layout.cores, self.layout.rows, found, strict=True)
        return self.at_rows([values[np.searchsorted(rows, core)] for core, rows, values in each])

    def shares(self, variances: Array, found: list[Array]) -> list[Array]:
        """The variances (n,) of each tile's rows over those that it found itself."""
        return [variances[rows] / own[:, 0, 0] for rows, own in zip(self.layout.rows, found, strict=True)]

    # ---- the prior times sites --------------------------------------------------------------------------------

    def given(self, held: Held, rule: SiteRule) -> TiledGaussian:
        from gpclass.latent.tiled_gaussian import TiledGaussian  # it builds on this module

        (shard,) = held
        f = rule.latents(shard.kept, self.L)
        return TiledGaussian(self, *self.sited(held, rule), None if f is None else np.ascontiguousarray(f.T))

    def begin(self, rule: SiteRule, near: Gaussian | None = None) -> tuple[Held, TiledGaussian]:
        """Rows with the sites of each tile by itself, nearly at its own fixed point."""
        from gpclass.latent.tiled_gaussian import TiledGaussian  # it builds on this module

        shard, _ = only(self.problem.rows.held, self.problem.likelihood)
        sums = self.map(passes.begin, rule)
        if "guide" in sums:
            self.means.guided(self.guide(sums["guide"]))
        numbers = np.ascontiguousarray(self.at_rows([part.T for part in sums["numbers"]]).T)
        held = (shard.with_values(numbers),)
        mean, cov = self.at_rows(sums["mean"]), self.of_cores(sums["cov"])
        share = self.shares(cov[:, 0, 0], sums["cov"]) if self.L == 1 else None
        return held, TiledGaussian(self, *self.sited(held, rule), mean, share, begun=True)

    def times(self, held: Held) -> Held:
        """Rows with f = K (c∘α)."""
        (shard,) = held
        labels, values = labels_of(shard, self.problem.likelihood), shard.kept.copy()
        view = values.reshape(newton.NUMBERS, self.L, -1)
        view[newton.F] = self.means.through((np.asarray(labels.copies) * view[newton.ALPHA]).T).T
        return (shard.with_values(values),)

    def from_vectors(self, vectors: Array) -> TiledGaussian:
        """Precisions and shifts of the sites, and means."""
        L = self.L
        W = vectors[: L * L].reshape(L, L, -1).transpose(2, 0, 1)
        return self.from_kept({"W": W, "b": vectors[L * L : L * L + L], "mean": vectors[L * L + L :]})

    def from_kept(self, kept: dict[str, Array]) -> TiledGaussian:
        from gpclass.latent.tiled_gaussian import TiledGaussian  # it builds on this module

        made = TiledGaussian(self, RowSites(b=kept["b"], full=kept["W"]))
        if "mean" in kept:
            vars(made)["mean_f"] = np.ascontiguousarray(kept["mean"].T)
        return made

    # ---- new points -------------------------------------------------------------------------------------------

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(scaled(self.problem.kernels[0], self.problem.X))

    def tile_of(self, X_new: Array) -> IntArray:
        """The tile of each new point's nearest row, (p,)."""
        return np.asarray(self.layout.core_of[self._tree.query(scaled(self.problem.kernels[0], X_new))[1]])

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: not what other processes find again, or hold."""
        return {name: value for name, value in vars(self).items() if name not in ("means", "held", "tiles")}

    def survey(self) -> dict[str, Any]:
        """Neighbours and tiles."""
        cores, rows = (np.array(list(map(len, sets))) for sets in (self.layout.cores, self.layout.rows))
        form, k, n, because_of = self.problem.form, self.near.shape[1], self.problem.n, {}
        if isinstance(form, Neighbours) and form.k is None:
            why = f"usual for {n} rows" if k == min(k_of(n), n) else "as many as memory and about an hour allow"
            because_of["n_neighbors_because"] = why
        return {
            "n_neighbors": k,
            "n_inducing": 0,
            **because_of,
            "tiles": len(cores),
            "rows_of_a_tile": int(cores.max()),
            "halo_rows": float(np.mean(rows - cores)),
        }
