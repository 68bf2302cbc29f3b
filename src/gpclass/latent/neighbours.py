r"""The neighbour prior: inducing inputs for what is smooth, nearest neighbours for the rest.

With u ~ N(0, I_m) at the inducing inputs (:mod:`gpclass.latent.basis`) the latent value of row i is

    f_i = a_iᵀu + r_i,

and r, whose covariance is R(x, x′) = k(x, x′) − a(x)ᵀa(x′), has the conditional distribution of each row given its k
nearest earlier rows alone (:mod:`gpclass.latent.cliques`, :mod:`gpclass.latent.neighbour_prior`). One prior with two
numbers: k = 0 is the low-rank prior (FITC), m = 0 Vecchia's approximation, both together are called VIF, and k = n is
the dense prior. Sites make of it the Gaussian of :mod:`gpclass.latent.neighbour_gaussian`. The copies of a weighted row
share its latent value.
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
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.spatial import cKDTree

from gpclass._typing import Array, Generator, IntArray
from gpclass.latent.base import Form
from gpclass.latent.basis import Basis
from gpclass.latent.cliques import (
    Cliques,
    neighbours_of,
    scaled,
)
from gpclass.latent.inducing import check_inducing, choose_inducing, sample_rows
from gpclass.model.rows import ArraySource, Local, Rows, Source
from gpclass.numerics.memory import available_memory

if TYPE_CHECKING:
    from gpclass.latent.neighbour_prior import NeighbourPrior
    from gpclass.latent.tiles import Layout, TiledPrior
    from gpclass.model.problem import Problem

AUTO = ((3_000, 40), (10_000, 20), (100_000, 15), (np.inf, 10))  # up to so many rows, so many neighbours by default
FEW, CENTRES = 3000, 6  # rows on which a search of θ begins, and the neighbourhoods that they form
FEWER = 5  # neighbours with which it begins: a factor costs a fifth of one with 15
ENOUGH = 20_000  # rows on which it ends, if there are twice as many: the cost of a factor grows faster than the rows
HELD = 3.0  # numbers that are held, over those of the factor: fronts under way and entries of the inverse
PAIRS = 3e7  # n k² above which k near n is refused: seconds become hours
PER_PAIR = 60.0  # bytes per pair of a clique: its place, weights and derivatives
RARE = 20  # rows of a class that these miss, if rows are in tiles
MANY, TILE = 250_000, 20_000  # rows beyond which they are cut into tiles, and rows of a tile's core
TILED = 200.0  # bytes per row and neighbour with tiles: cliques, weights, what the means need, and halos
FEWER_FACTORS = 15.0  # times fewer factors of all tiles than of one factor: θ is learned on some rows
HOUR = 3e11  # multiply-adds of a factor with which a fit, of some 200 factors and inverses, takes about an hour


@dataclass(frozen=True, eq=False)
class Neighbours(Form):
    """The prior through neighbours and inducing inputs.

    Parameters
    ----------
    k : int, optional
        Neighbours of a row; by default 10 to 40, the fewer the more rows there are, and as many as memory and about an
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
        Rows per tile, for more rows than that; 0: one factor for all rows. By default 20,000, beyond 250,000 rows.
        Inducing inputs beside neighbours have one factor for all rows.
    halo : float
        How many rows wide the halo around a tile is, at least.
    unit : (d,) array, optional
        Factors of the columns with which the rows are cut into tiles; None until neighbours are found.
    """

    k: int | None = None
    m: int | None = 0
    how: Any = "kmeans"
    Z: Array | None = None
    near: IntArray | None = None
    tile: int | None = None
    halo: float = 15.0
    unit: Array | None = None

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
        if isinstance(self.halo, (bool, str)) or not self.halo >= 0.0:
            raise ValueError(f"halo must be a number of at least 0, got {self.halo!r}")
        m = 0 if m == 0 else check_inducing("auto" if m is None else m, self.how, n, d)
        k = None if k is None else min(int(k), n)
        if k is not None and float(n) * k * k > PAIRS and 4 * k > n:
            raise ValueError(
                f"{k} neighbours of {n} rows take longer than the dense prior, which is the same with all rows as "
                "neighbours: leave n_neighbors out, or give 10 to 40"
            )
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
        return (self.k, self.m, self.how, self.Z, self.near, self.tile, self.halo, self.unit)

    @property
    def inducing(self) -> Array | None:
        return self.Z

    @property
    def cure(self) -> str:
        k = self.k if self.near is None else self.near.shape[1]
        return f"raise n_neighbors, for instance to {2 * k if k else 15}"

    def for_other_rows(self) -> Neighbours:
        return replace(self, near=None, unit=None)

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
        if self.near is not None and np.array_equal(near, self.near):
            return form
        unit = scaled(problem.kernels[0], np.ones((1, problem.n_features)))[0] if self.tiled(problem.n) else None
        return replace(form, near=near, unit=unit)

    def part(self, problem: Problem, rng: Generator) -> Problem | None:
        """The same rows with fewer neighbours; if these are few, rows around some random ones; else None."""
        k = k_of(problem.n) if self.k is None else self.k
        if k >= 2 * FEWER:
            fewer = replace(problem, form=replace(self, k=FEWER, near=None)).placed(rng)
            vars(self)["_Z"] = fewer.inducing  # the whole has the same
            return fewer
        return None if problem.n < 2 * FEW else _of_all_classes(problem, _around(problem, FEW, rng), rng)

    def stand_in(self, problem: Problem, rng: Generator) -> Problem | None:
        """Random rows for long distances, and rows around a few for short ones, if there are many.

        Tiles have no gradient: few rows that are in tiles are taken all, and rows of rare classes are added, with one
        factor for them.
        """
        tiled = self.tiled(problem.n)
        if problem.n < 2 * ENOUGH and not tiled:
            return None
        problem = replace(problem, form=replace(self, tile=0, near=None, unit=None)) if tiled else problem
        if problem.n <= ENOUGH:
            return problem.placed(rng)
        rows = np.union1d(sample_rows(problem.n, ENOUGH // 2, rng), _around(problem, ENOUGH // 2, rng))
        few, y = _of_all_classes(problem, rows, rng), np.asarray(problem.y)
        if few is None and tiled:
            missing = [rng.permutation(np.flatnonzero(y == label))[:RARE] for label in np.setdiff1d(y, y[rows])]
            few = _of_all_classes(problem, np.union1d(rows, np.concatenate(missing)), rng)
        return few

    def prior(self, problem: Problem) -> NeighbourPrior | TiledPrior:
        if self.near is None or len(self.near) != problem.n or (self.Z is None and self.m != 0):
            return self.placed(problem, np.random.default_rng(0)).prior(problem)
        from gpclass.latent.neighbour_prior import NeighbourPrior  # it builds on this module

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
            X = scaled(problem.kernels[0], problem.X) if self.unit is None else problem.X * self.unit
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
