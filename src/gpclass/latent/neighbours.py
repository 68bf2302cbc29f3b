r"""The neighbour prior: inducing inputs for what is smooth, nearest neighbours for the rest.

With u ~ N(0, I_m) at the inducing inputs (:mod:`gpclass.latent.basis`) the latent value of row i is

    f_i = a_iᵀu + r_i,

and r, whose covariance is R(x, x′) = k(x, x′) − a(x)ᵀa(x′), has the conditional distribution of each row given its k
nearest earlier rows alone (:mod:`gpclass.latent.cliques`). One prior with two numbers: k = 0 is the low-rank prior
(FITC), m = 0 Vecchia's approximation, both together are called VIF, and k = n is the dense prior. Sites make of it the
Gaussian of :mod:`gpclass.latent.neighbour_gaussian`. The copies of a weighted row share its latent value.
Cost: O(n k³) for the conditionals and O(n m²) for the features; then one sparse factor
(:mod:`gpclass.numerics.dissection`), whose time and memory grow faster than the rows. More than ``MANY`` rows without
inducing inputs are therefore cut into tiles (:mod:`gpclass.latent.tiles`), at a cost linear in the rows.
Fails when: rows have many columns, so that every row touches all others and the factor is dense (refused in advance if
there is no memory for it).
References: Vecchia (1988); Katzfuss & Guinness (2021), A general framework for Vecchia approximations; Gyger, Furrer &
Sigrist (2025), Vecchia-inducing-points full-scale approximations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.spatial import cKDTree

from gpclass._typing import Array, Generator, IntArray
from gpclass.latent import base
from gpclass.latent.base import Form, Held, SiteRule, labels_of
from gpclass.latent.basis import BLOCK, Basis
from gpclass.latent.cliques import (
    ELEMENTS,
    Cliques,
    Conditionals,
    Root,
    earlier_neighbours,
    neighbours_of,
    pair_products,
    random_order,
    scaled,
)
from gpclass.latent.coordinates import Features
from gpclass.latent.in_memory import InMemoryPrior
from gpclass.latent.inducing import because, check_inducing, choose_inducing, sample_rows
from gpclass.likelihoods.local import RowSites
from gpclass.model.rows import ArraySource, Local, Rows, Source
from gpclass.numerics.memory import available_memory

if TYPE_CHECKING:
    from gpclass.latent.neighbour_gaussian import NeighbourGaussian
    from gpclass.latent.tiles import Layout, TiledPrior
    from gpclass.model.problem import Problem

AUTO = ((10_000, 20), (100_000, 15), (np.inf, 10))  # up to so many rows, so many neighbours by default
FEW, CENTRES = 3000, 6  # rows on which a search of θ begins, and the neighbourhoods that they form
FEWER = 5  # neighbours with which it begins: a factor costs a fifth of one with 15
ENOUGH = 20_000  # rows on which it ends, if there are twice as many: the cost of a factor grows faster than the rows
PAIRS = 500_000  # pairs of rows at once
HELD = 3.0  # numbers that are held, over those of the factor: fronts under way and entries of the inverse
PER_PAIR = 60.0  # bytes per pair of a clique: its place, weights and derivatives
MANY, TILE = 60_000, 20_000  # rows from which they are cut into tiles, and rows of a tile's core
TILED = 200.0  # bytes per row and neighbour with tiles: cliques, weights, what the means need, and halos
FEWER_FACTORS = 15.0  # times fewer factors of all tiles than of one factor: θ is learned on some rows
HOUR = 3e11  # multiply-adds of a factor with which a fit, of some 200 factors and inverses, takes about an hour


@dataclass(frozen=True, eq=False)
class Neighbours(Form):
    """The prior through neighbours and inducing inputs.

    Parameters
    ----------
    k : int, optional
        Neighbours of a row; by default 10 to 20, the fewer the more rows there are, and as many as memory and about an
        hour allow.
    m : int, optional
        Inducing inputs; 0: none. None: as many as explain most of the prior variance.
    how : "kmeans", "random" or (m, d) array
        How the inducing inputs are placed, or where.
    Z : (m, d) array, optional
        The inducing inputs; None until they are placed.
    near : (n, k) array, optional
        Neighbours of the rows, −1 for none; None until they are found.
    tile : int, optional
        Rows per tile, for more rows than that; 0: one factor for all rows. By default 20,000, from 60,000 rows on.
        Inducing inputs beside neighbours have one factor for all rows.
    halo : float
        How many rows wide the halo around a tile is.
    """

    k: int | None = None
    m: int | None = 0
    how: Any = "kmeans"
    Z: Array | None = None
    near: IntArray | None = None
    tile: int | None = None
    halo: float = 15.0

    name: ClassVar[str] = "neighbours"
    offers: ClassVar[frozenset[str]] = frozenset(["given", "evidence", "joint"])
    lacks: ClassVar = {
        "box": "it draws the noisy latent values of all rows, whose n × n covariance neighbours avoid",
        "covariance": "it works with the n × n covariance of the latent values, which neighbours avoid",
        "whitened": "samplers of the latent values of so many rows would not mix",
        "expected": "its expected log density as a function of θ is not implemented with neighbours",
        "latents": "the density of the latent values given θ is not implemented with neighbours",
        "latent_slope": "the density of the latent values given θ is not implemented with neighbours",
    }
    predicts_from_rows: ClassVar[bool] = True
    reads: ClassVar[bool] = True

    @classmethod
    def asked(cls, settings: Any) -> Neighbours | None:
        """With ``n_neighbors``; ``n_inducing`` and ``inducing`` say how many inducing inputs there are beside."""
        k = settings.n_neighbors
        if k is None:
            return None
        m, how = settings.n_inducing, settings.inducing
        if m is None:
            m = 0 if isinstance(how, str) else len(how)
        return cls(None if isinstance(k, str) and k == "auto" else k, None if m == "auto" else m, how)

    @classmethod
    def example(cls, X: Array) -> Neighbours:
        return cls(3, 2, X[:2] + 0.1)

    def checked(self, n: int, d: int, kernels: int) -> Neighbours:
        k, m = self.k, self.m
        if k is not None and (not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 0):
            raise ValueError(f"n_neighbors must be None, 'auto' or a whole number of at least 0, got {k!r}")
        if self.tile is not None and (
            not isinstance(self.tile, (int, np.integer)) or self.tile is True or self.tile < 0
        ):
            raise ValueError(f"tile must be None or a whole number of at least 0, got {self.tile!r}")
        if not self.halo >= 0.0:
            raise ValueError(f"halo must be a number of at least 0, got {self.halo!r}")
        m = 0 if m == 0 else check_inducing("auto" if m is None else m, self.how, n, d)
        k = None if k is None else min(int(k), n)
        form = replace(self, k=k, m=m)
        least = bytes_in_tiles(n, k or 0) if form.tiled(n) else bytes_of_pairs(n, k or 0)
        refuse(least, k or 0, n, d)  # before neighbours are found
        return form

    def tiled(self, n: int) -> int:
        """Rows per tile of n rows; 0 if one factor serves all of them."""
        if self.m != 0 or self.k == 0 or self.tile == 0:
            return 0
        return (TILE if n > MANY else 0) if self.tile is None else (self.tile if n > self.tile else 0)

    @property
    def marks(self) -> tuple[Any, ...]:
        return (self.k, self.m, self.how, self.Z, self.near, self.tile, self.halo)

    @property
    def inducing(self) -> Array | None:
        return self.Z

    @property
    def cure(self) -> str:
        k = self.k if self.near is None else self.near.shape[1]
        return f"raise n_neighbors, for instance to {2 * k if k else 15}"

    def for_other_rows(self) -> Neighbours:
        return replace(self, near=None)

    def rows(self, source: Source) -> Rows:
        """One shard in memory; the executor of the source runs the passes over tiles."""
        whole = source if isinstance(source, ArraySource) else ArraySource(*source.take(np.arange(source.n)))
        return Rows.of(replace(whole, shard_rows=max(1, source.n), executor=source.executor), Local())

    def placed(self, problem: Problem, rng: Generator, at_most: int | None = None) -> Neighbours:
        """Inducing inputs placed once, and neighbours found at the problem's kernel parameters."""
        form, source = self, problem.rows.source
        if self.Z is None and self.m != 0:
            assert source is not None
            known = vars(self).get("_Z")
            if known is None:
                known = choose_inducing(source, problem.kernels[0], self.m, self.how, rng, problem.n_latents)
            form = replace(self, Z=known)
        X, k, auto = scaled(problem.kernels[0], problem.X), self.k, self.k is None
        if k is None:
            k = k_of(problem.n)
        k = min(k, problem.n)
        near = neighbours_of(X, k)  # nearest first, so that fewer are the first ones
        while auto and k > 1 and self._too_much(near[:, :k], X, problem):
            k //= 2
        near = np.ascontiguousarray(near[:, :k])
        same = self.near is not None and np.array_equal(near, self.near)
        return form if same else replace(form, near=near)

    def part(self, problem: Problem, rng: Generator) -> Problem | None:
        """The same rows with fewer neighbours; if these are few, rows around some random ones; else None."""
        k = k_of(problem.n) if self.k is None else self.k
        if k >= 2 * FEWER:
            fewer = replace(problem, form=replace(self, k=FEWER, near=None)).placed(rng)
            vars(self)["_Z"] = fewer.inducing  # the whole has the same
            return fewer
        return None if problem.n < 2 * FEW else _of_all_classes(problem, _around(problem, FEW, rng), rng)

    def stand_in(self, problem: Problem, rng: Generator) -> Problem | None:
        """Random rows for long distances, and rows around a few for short ones, if there are many."""
        if problem.n < 2 * ENOUGH:
            return None
        rows = np.union1d(sample_rows(problem.n, ENOUGH // 2, rng), _around(problem, ENOUGH // 2, rng))
        return _of_all_classes(problem, rows, rng)

    def prior(self, problem: Problem) -> NeighbourPrior | TiledPrior:
        if self.near is None or len(self.near) != problem.n or (self.Z is None and self.m != 0):
            return self.placed(problem, np.random.default_rng(0)).prior(problem)
        layout = self._tiles(problem, self.near) if self.tiled(problem.n) else None
        if layout is not None:
            from gpclass.latent.tiles import TiledPrior  # it builds on this module

            return TiledPrior(problem, self.near, layout)
        known = vars(self).get("_cliques")
        if known is None:  # the same at every θ
            known = Cliques.of(self.near, scaled(problem.kernels[0], problem.X))
            refuse(bytes_of(known, problem), self.near.shape[1], problem.n, problem.n_features)
            vars(self)["_cliques"] = known
        bases = [] if self.Z is None else [Basis(kernel, self.Z) for kernel in problem.kernels]
        return NeighbourPrior(problem, known, bases)

    def _too_much(self, near: IntArray, X: Array, problem: Problem) -> bool:
        layout = self._layout_of(near, X)
        if layout is None:
            return too_much(Cliques.of(near, X), problem)
        cliques, k = layout.largest(near, X), near.shape[1]
        work = len(layout.cores) * cliques.tree.flops * problem.n_latents**3
        return work > FEWER_FACTORS * HOUR or bytes_of(cliques, problem, k) > available_memory()

    def _layout_of(self, near: IntArray, X: Array) -> Layout | None:
        """The tiles of rows at X, scaled; None if one factor serves all of them, or halos would be too large."""
        from gpclass.latent.tiles import Layout  # it builds on this module

        size = self.tiled(len(X))
        layout = Layout.of(X, near, size, self.halo) if size else None
        return None if layout is None or (self.tile is None and not layout.pays) else layout

    def _tiles(self, problem: Problem, near: IntArray) -> Layout | None:
        """The same, found once, if there is memory for the largest."""
        if "_layout" not in vars(self):
            X = scaled(problem.kernels[0], problem.X)
            layout = self._layout_of(near, X)
            if layout is not None:
                cliques = layout.largest(near, X)
                refuse(bytes_of(cliques, problem, near.shape[1]), near.shape[1], problem.n, problem.n_features)
            vars(self)["_layout"] = layout
        found: Layout | None = vars(self)["_layout"]
        return found

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: all except what can be found again."""
        return {name: value for name, value in vars(self).items() if name not in ("_cliques", "_layout", "_Z")}


def _around(problem: Problem, size: int, rng: Generator) -> IntArray:
    """About so many rows around a few random ones, in increasing order."""
    X = scaled(problem.kernels[0], problem.X)
    centres = rng.choice(problem.n, CENTRES, replace=False)
    return np.unique(cKDTree(X).query(X[centres], size // CENTRES)[1])


def _of_all_classes(problem: Problem, rows: IntArray, rng: Generator) -> Problem | None:
    """The problem of some rows, None if these miss a class."""
    few = problem.subset(rows)
    return few.placed(rng) if len(np.unique(few.y)) == len(np.unique(problem.y)) else None


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
        view = values.reshape(base.NEWTON, self.L, -1)
        for c, root in enumerate(self.per_latent(self.roots)):
            view[base.F, c] = root.product(np.asarray(labels.copies) * view[base.ALPHA, c])
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


def k_of(n: int) -> int:
    """Neighbours of each of n rows by default."""
    return next(few for most, few in AUTO if n <= most)


def too_much(cliques: Cliques, problem: Problem) -> bool:
    """Whether factors exceed memory, or take a fit more than about an hour."""
    work = cliques.tree.flops * problem.n_latents**3
    return work > HOUR or bytes_of(cliques, problem) > available_memory()


def bytes_of(cliques: Cliques, problem: Problem, k: int = 0) -> float:
    """Memory of a factor and of what is held beside it, and of the cliques; and of k neighbours of rows in tiles."""
    factor = HELD * 8.0 * cliques.tree.numbers * problem.n_latents**2
    return factor + bytes_of_pairs(cliques.n, cliques.k) + (bytes_in_tiles(problem.n, k) if k else 0.0)


def bytes_of_pairs(n: int, k: int) -> float:
    """Memory of the cliques of n rows with k neighbours each."""
    return PER_PAIR * n * (k + 1) * (k + 2) / 2


def bytes_in_tiles(n: int, k: int) -> float:
    """Memory of n rows with k neighbours each in tiles, beside the factor of one of them."""
    return TILED * n * (k + 1)


def refuse(need: float, k: int, n: int, d: int) -> None:
    """Raise an error that names the cure, if so much memory is not free."""
    have = available_memory()
    if need > have:
        raise ValueError(
            f"{k} neighbours of {n} rows of {d} columns need about {need / 2**30:.1f} GB or more, and "
            f"{have / 2**30:.1f} GB are free; use fewer neighbours, latent_prior='local', or n_inducing alone"
        )
