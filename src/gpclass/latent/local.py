r"""The local prior: rows in blocks that are independent of each other, and every new point from its nearest rows.

The rows are cut into blocks of about k that lie close together in the kernel's scaled distance. Within a block the
prior is the dense one, so that every cost is linear in the rows, whatever the number of columns. The blocks give the
evidence, its gradient and the sites of the rows (:mod:`gpclass.latent.local_gaussian`). A new point does not belong to
a block: its Gaussian is that of its k nearest rows under the dense prior, with these sites. With k = n it is the dense
prior. Equal rows have one latent value, if the kernel has no white noise: they are one *place*, their sites add, and
blocks and nearest rows are those of places.

The evidence of the blocks says little about what lies further apart than their rows. So ``maximize`` and ``map`` learn
the kernel parameters on some of the rows of every class, with inducing inputs or, in up to three columns, with
neighbours (:func:`search_form`), at a cost that does not grow with the rows; and on up to a thousand rows under the
dense prior. Few rows, and inducing inputs, do not show the detail that all rows do. So θ is then adjusted on
*patches*: random places, each with its nearest ones among all, at the density at which new points are predicted
(:mod:`gpclass.hyper.patches`).
Cost: O(n k²) per sweep, and O(k³) and a search in a tree per new point; n k numbers in memory.
Fails when: a field is smooth over distances that hold many more than k rows: what the others say is lost there, and
patches adjust θ to short distances alone. The report compares with the dense prior. With white noise and more than k
equal rows, a random k of them predict. With one kernel per class, blocks and nearest rows are found by the first
kernel's length scales for all.
References: Tresp (2000) for the blocks; Vecchia (1988); Allison et al. (2023), Leveraging locality and robustness to
achieve massively scalable Gaussian process regression, for kernel parameters of few rows and predictions of the
nearest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.spatial import cKDTree
from sklearn.gaussian_process.kernels import CompoundKernel, ConstantKernel, Kernel

from gpclass._typing import Array, Generator, IntArray
from gpclass.latent import newton
from gpclass.latent.base import Form
from gpclass.latent.cliques import random_order, scaled
from gpclass.latent.dense import Dense
from gpclass.latent.in_memory import InMemoryPrior
from gpclass.latent.inducing import FEW_COLUMNS, sample_of_classes
from gpclass.latent.local_passes import Spec, products
from gpclass.latent.low_rank import LowRank
from gpclass.latent.neighbours import Neighbours
from gpclass.latent.sites import Held, SiteRule, labels_of
from gpclass.likelihoods.local import RowSites
from gpclass.model.rows import ArraySource, Executor, Local, Rows, Shard, Source, Work, shard_size
from gpclass.model.sums import Sums
from gpclass.numerics.memory import available_memory

if TYPE_CHECKING:
    from gpclass.latent.local_gaussian import LocalGaussian
    from gpclass.model.problem import Problem

FEW = 10_000  # rows on which θ is learned
FULL = 1000  # rows up to which their prior is dense
INDUCING, FEWEST_INDUCING, NEIGHBOURS = 300, 50, 15
PATCHED, PATCH = 6000, 60  # places of all patches, at most, and of one, at least
FEWEST_PATCHES = 10
LEVEL = 25.0  # variance of the level of a patch's latent values
AROUND = 4  # times the places of a patch, among which those of no other are taken
SAME = 1e-10  # share of a variance below which white noise is none
PER_ROW = 40  # numbers per row beside its features and its block's covariances: sites, marginals and history


@dataclass(frozen=True, eq=False)
class LocalBlocks(Form):
    """The prior in blocks, with predictions from the nearest rows.

    Parameters
    ----------
    k : int
        Rows of a block, at most, and rows that predict a new point.
    blocks : (B, s) array, optional
        Rows of each block, −1 for none; None until they are found.
    """

    k: int = 60
    blocks: IntArray | None = None

    name: ClassVar[str] = "local"
    offers: ClassVar[frozenset[str]] = frozenset(["given"])
    lacks: ClassVar = {
        "evidence": "the evidence of its blocks says little about longer distances; use hyperparameters='maximize' or "
        "'map', which learn θ on some rows under another prior, 'cv' or 'fixed'",
        "box": "it draws the noisy latent values of all rows, whose n × n covariance the local prior avoids",
        "covariance": "it works with the n × n covariance of the latent values, which the local prior avoids",
        "whitened": "a new point has no latent values in common with the rows' blocks, so that draws do not predict it",
        "expected": "its expected log density as a function of θ is not implemented with the local prior",
        "latents": "the density of the latent values given θ is not implemented with the local prior",
        "latent_slope": "the density of the latent values given θ is not implemented with the local prior",
        "joint": "the joint Gaussian of rows of different blocks and new points is not defined under the local prior",
    }
    predicts_from_rows: ClassVar[bool] = True
    reads: ClassVar[bool] = True

    @classmethod
    def example(cls, X: Array) -> LocalBlocks:
        return cls(len(X))  # one block: with more, a new point's rows are not those of the evidence

    def checked(self, n: int, d: int, kernels: int) -> LocalBlocks:
        if not isinstance(self.k, (int, np.integer)) or isinstance(self.k, bool) or self.k < 1:
            raise ValueError(f"k of the local prior must be a whole number of at least 1, got {self.k!r}")
        k, have = min(int(self.k), n), available_memory()
        need = LocalBlocks(k).bytes_of(n, d, kernels)
        if need > have:
            raise ValueError(
                f"the local prior of {n} rows of {d} columns needs about {need / 2**30:.1f} GB, and "
                f"{have / 2**30:.1f} GB are free; lower its k, or use n_inducing, which reads rows as it goes"
            )
        return replace(self, k=k)

    def bytes_of(self, n: int, d: int, kernels: int) -> float:
        """Memory for n rows of d columns: their features, scaled and in blocks too, covariances, sites."""
        return 8.0 * n * (self.k * kernels + PER_ROW + 3 * d)

    @property
    def marks(self) -> tuple[Any, ...]:
        return (self.k, self.blocks)

    @property
    def cure(self) -> str:
        return f"raise k of the local prior, for instance to {2 * self.k}"

    def for_other_rows(self) -> LocalBlocks:
        return replace(self, blocks=None)

    def rows(self, source: Source) -> Rows:
        """One shard in memory; the executor of the source runs the passes over the blocks."""
        whole = source if isinstance(source, ArraySource) else ArraySource(*source.take(np.arange(source.n)))
        return Rows.of(replace(whole, shard_rows=max(1, source.n), executor=source.executor), Local())

    def placed(self, problem: Problem, rng: Generator, at_most: int | None = None) -> LocalBlocks:
        """Blocks at the problem's kernel parameters."""
        first = first_rows(places(problem))
        blocks = cut(scaled(problem.kernels[0], problem.X[first]), self.k)
        same = self.blocks is not None and np.array_equal(blocks, self.blocks)
        return self if same else replace(self, blocks=blocks)

    def stand_in(self, problem: Problem, rng: Generator) -> Problem:
        """Some rows of every class, under the form of :func:`search_form`."""
        few = problem.subset(sample_of_classes(np.asarray(problem.y), FEW, rng))
        form = search_form(few.n, few.n_features, few.n_latents)
        return replace(few, form=form.checked(few.n, few.n_features, len(few.kernels)))

    def patches(self, problem: Problem, rng: Generator, level: bool = False) -> Problem | None:
        """Random places with their nearest ones, as independent blocks, each with a level of its own if asked for.

        At most half of all places; None if all rows have been searched under a prior as detailed, or there are too few.
        """
        if not patched(problem.n, problem.n_features):
            return None
        of = places(problem)
        points = scaled(problem.kernels[0], problem.X[first_rows(of)])
        size = max(self.k, PATCH)
        count = patched(len(points), problem.n_features) // size
        if count < FEWEST_PATCHES:
            return None
        groups = groups_of_nearest(points, size, count, rng)
        number = np.full(len(points), groups.size)
        number[groups.ravel()] = np.arange(groups.size)
        order = np.argsort(number[of], kind="stable")
        rows = order[: int(np.sum(number[of] < groups.size))]
        blocks = np.arange(groups.size).reshape(groups.shape)
        kernel = levelled(problem.kernel) if level else problem.kernel
        return replace(problem.subset(rows), kernel=kernel, form=replace(self, blocks=blocks))

    def without(self, problem: Problem, rows: IntArray, rng: Generator) -> Problem:
        """The rows that predict some others, without these."""
        rest = np.setdiff1d(np.arange(problem.n), rows)
        tree = cKDTree(scaled(problem.kernels[0], problem.X[rest]))
        near = tree.query(scaled(problem.kernels[0], problem.X[rows]), min(self.k, len(rest)))[1]
        return problem.subset(rest[np.unique(near)]).placed(rng)

    def prior(self, problem: Problem) -> LocalPrior:
        blocks, of = self.blocks, places(problem)
        m = int(of.max()) + 1
        if blocks is None or int(np.sum(blocks >= 0)) != m:
            return self.placed(problem, np.random.default_rng(0)).prior(problem)
        return LocalPrior(problem, blocks, min(self.k, m), of)


def search_form(n: int, d: int, L: int) -> Form:
    """The prior under which θ is learned on n rows of d columns with L latent values.

    The cost of a sweep with m inducing inputs grows with L(L+1)/2 m²: more latent values get fewer of them.
    """
    if n <= FULL:
        return Dense()
    m = max(FEWEST_INDUCING, round(INDUCING / (L * (L + 1) / 2) ** 0.5))
    return Neighbours(NEIGHBOURS) if d <= FEW_COLUMNS else LowRank(m=min(m, -(-n // 10)))


def levelled(kernel: Kernel) -> Kernel:
    """The kernel, or one per class, with a constant: the same parameters, and a level that rows have in common."""
    if isinstance(kernel, CompoundKernel):
        return CompoundKernel([levelled(one) for one in kernel.kernels])
    return kernel + ConstantKernel(LEVEL, "fixed")


def patched(n: int, d: int) -> int:
    """How many of n places of d columns may be in patches: none if all were searched under a prior as detailed."""
    return 0 if n <= (FEW if d <= FEW_COLUMNS else FULL) else min(PATCHED, n // 2)


def equal_rows(X: Array) -> IntArray:
    """A number (n,) for each row of X that equal rows share, in the order of their first ones."""
    bits = np.ascontiguousarray(X, dtype=float) + 0.0  # −0 is 0
    seen: dict[bytes, int] = {}
    numbers = (seen.setdefault(row.tobytes(), len(seen)) for row in bits)
    return np.fromiter(numbers, dtype=np.intp, count=len(bits))


def places(problem: Problem) -> IntArray:
    """The place of each row (n,): one for equal rows, whose latent values are then equal.

    White noise makes these differ: each row is then a place of its own, and equal ones are in random order.
    """
    X, at = problem.X, equal_rows(problem.X)
    own = ((covariance.pairs(X, X)[0], covariance.diag(X)) for covariance in problem.covariances)
    if all(np.allclose(pair, variance, rtol=SAME, atol=0.0) for pair, variance in own):
        return at
    of = np.empty_like(at)
    of[np.lexsort((random_order(len(X)), at))] = np.argsort(at, kind="stable")
    return of


def first_rows(of: IntArray) -> IntArray:
    """The first row of each place."""
    first = np.empty(int(of.max()) + 1, dtype=np.intp)
    first[of[::-1]] = np.arange(len(of))[::-1]
    return first


def cut(X: Array, k: int) -> IntArray:
    """Blocks (B, s) of at most k of the rows of X (n, d), equal in size to one row, −1 for none."""
    found: list[IntArray] = []
    todo = [(np.arange(len(X)), -(-len(X) // k))]
    while todo:
        rows, parts = todo.pop()
        if parts == 1:
            found.append(rows)
            continue
        order = rows[np.argsort(X[rows, np.ptp(X[rows], axis=0).argmax()], kind="stable")]
        left = parts // 2
        at = len(rows) * left // parts
        todo += [(order[:at], left), (order[at:], parts - left)]
    blocks = np.full((len(found), max(map(len, found))), -1, dtype=np.intp)
    for block, rows in zip(blocks, found, strict=True):
        block[: len(rows)] = rows
    return blocks


def groups_of_nearest(points: Array, size: int, count: int, rng: Generator) -> IntArray:
    """Up to ``count`` groups (g, size): random points, each with its nearest, that are in no group before."""
    tree, free = cKDTree(points), np.ones(len(points), dtype=bool)
    groups: list[IntArray] = []
    for centre in rng.permutation(len(points)):
        if len(groups) == count:
            break
        if free[centre]:
            near = np.asarray(tree.query(points[centre], min(AROUND * size, len(points)))[1], dtype=np.intp)
            near = near[free[near]][:size]
            if len(near) == size:
                groups.append(near)
                free[near] = False
    return np.array(groups, dtype=np.intp).reshape(-1, size)


@dataclass(frozen=True, eq=False)
class LocalPrior(InMemoryPrior):
    """Independent blocks of places."""

    problem: Problem
    blocks: IntArray  # (B, s), −1 for none
    k: int  # places that predict a new point
    of: IntArray  # place of each row, (n,)

    @cached_property
    def first(self) -> IntArray:
        """One row of each place."""
        return first_rows(self.of)

    @cached_property
    def points(self) -> Array:
        """The places, (m, d)."""
        return np.asarray(self.problem.X[self.first])

    def totals(self, values: Array) -> Array:
        """Sums over the rows of each place, from (n, ...), and zero for a missing one at the end."""
        out = np.zeros((len(self.first) + 1, *values.shape[1:]))
        np.add.at(out, self.of, values)
        return out

    @cached_property
    def spec(self) -> Spec:
        """What is sent to the shards."""
        return Spec(self.problem.kernels, self.blocks.shape[1], self.L)

    @cached_property
    def shards(self) -> list[Shard]:
        """The blocks, in shards of about as many rows as those of an array."""
        s, made = self.blocks.shape[1], []
        step = max(1, shard_size(self.problem.n) // s)
        for first in range(0, len(self.blocks), step):
            places = self.blocks[first : first + step].ravel()
            made.append(Shard(self.points[places], places, first=first * s))
        return made

    @cached_property
    def _held(self) -> tuple[Executor, list[Any]]:
        """Where the blocks are: on the workers that the rows came from, if any."""
        source = self.problem.rows.source
        executor: Executor = (source and source.executor) or Local()
        return executor, executor.place(self.shards)

    def map(self, work: Work, *arguments: Any) -> Sums:
        """Sums of a pass over the blocks."""
        executor, held = self._held
        return executor.map_reduce(work, held, self.spec, *arguments)[1]

    def at_rows(self, found: list[Array]) -> Array:
        """Values (n, ...) of the rows, from those at the places of all blocks."""
        values = np.concatenate(found)
        out = np.empty((len(self.first) + 1, *values.shape[1:]))
        out[self.blocks.ravel()] = values
        return np.asarray(out[self.of])

    def independent(self) -> Iterator[tuple[IntArray, Array]]:
        block_of = np.empty(len(self.first), dtype=np.intp)
        for number, block in enumerate(self.blocks):
            block_of[block[block >= 0]] = number
        order = np.argsort(block_of[self.of], kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(block_of[self.of][order])) + 1):
            places, at = np.unique(self.of[rows], return_inverse=True)
            (K,) = self.spec.between(self.points[places][None])
            yield rows, K[0][np.ix_(at, at)]

    def given(self, held: Held, rule: SiteRule) -> LocalGaussian:
        from gpclass.latent.local_gaussian import LocalGaussian  # it builds on this module

        return LocalGaussian(self, *self.sited(held, rule))

    def times(self, held: Held) -> Held:
        """Rows with f = K (c∘α)."""
        (shard,) = held
        labels, values = labels_of(shard, self.problem.likelihood), shard.kept.copy()
        view = values.reshape(newton.NUMBERS, self.L, -1)
        alpha = self.totals((np.asarray(labels.copies) * view[newton.ALPHA]).T)
        view[newton.F] = self.at_rows(self.map(products, alpha)["f"]).T
        return (shard.with_values(values),)

    def from_vectors(self, vectors: Array) -> LocalGaussian:
        """Precisions and shifts of the sites."""
        L = self.L
        return self.from_kept({"W": vectors[: L * L].reshape(L, L, -1).transpose(2, 0, 1), "b": vectors[L * L :]})

    def from_kept(self, kept: dict[str, Array]) -> LocalGaussian:
        from gpclass.latent.local_gaussian import LocalGaussian  # it builds on this module

        return LocalGaussian(self, RowSites(b=kept["b"], D=kept.get("D"), full=kept.get("W")))

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(scaled(self.problem.kernels[0], self.points))

    def nearest(self, X_new: Array) -> IntArray:
        """The k nearest places of new points, (p, k)."""
        found = self._tree.query(scaled(self.problem.kernels[0], X_new), self.k)[1]
        return np.asarray(found, dtype=np.intp).reshape(len(X_new), self.k)

    def survey(self) -> dict[str, Any]:
        """Blocks, and rows that predict a new point."""
        return {"blocks": len(self.blocks), "rows_of_a_block": self.blocks.shape[1], "rows_of_a_prediction": self.k}
