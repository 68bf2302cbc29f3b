"""A problem under the low-rank prior: shards of rows, a kernel, a likelihood and inducing inputs.

The same vector θ as the dense problem: the free kernel parameters in scikit-learn's order, then the likelihood's
scale if it is free, in logs. The inducing inputs Z stand beside θ, so that every strategy that moves θ alone works with
Z held; the sparse ascent (:mod:`gpclass.hyper.staged.stage`) moves both.

A saved problem keeps no rows: predictions need none of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from gpclass._typing import Array, IntArray
from gpclass.covariance import Covariance
from gpclass.latent.basis import Basis
from gpclass.latent.inducing import MOST, check_inducing, choose_inducing, sample_rows
from gpclass.likelihoods.binary import BinaryLikelihood
from gpclass.model.problem import Parameters
from gpclass.model.rows import ArraySource, Executor, Local, Source, Sums, Work
from gpclass.numerics.memory import available_memory

KEPT = 0.4  # share of the free memory that kept blocks may take
LOOK = 2000  # rows to look at
NO_ROWS = "this model was read from a file, which keeps no rows: fit again to evaluate at other parameters"


@dataclass(frozen=True, eq=False)
class Data:
    """Rows in shards, placed with an executor."""

    n: int
    d: int
    held: tuple[Any, ...]  # references to the shards, without sites
    executor: Executor
    source: Source | None = None
    count: float = 0.0  # of the rows' weights

    @classmethod
    def of(cls, source: Source, executor: Executor | None = None) -> Data:
        """Cut a source and place its shards."""
        chosen: Executor = executor or getattr(source, "executor", None) or Local()
        shards = source.shards()
        count = sum(len(s) if s.weights is None else float(np.sum(s.weights)) for s in shards)
        return cls(source.n, source.d, tuple(chosen.place(shards)), chosen, source, float(count))

    def state(self) -> dict[str, Any]:
        """What a file keeps: the numbers, not the rows."""
        return {"n": self.n, "d": self.d, "count": self.count}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Data:
        """The numbers, without rows."""
        return cls(state["n"], state["d"], (), Local(), None, state["count"])


@dataclass(frozen=True, eq=False)
class Start:
    """How inducing inputs are placed: how many (None: as many as it takes), and how (or where)."""

    m: int | None = None
    how: Any = "kmeans"


@dataclass(frozen=True, eq=False)
class SparseProblem(Parameters):
    """Two classes, n rows in shards, m inducing inputs."""

    data: Data
    kernel: Kernel
    likelihood: BinaryLikelihood
    Z: Array  # (m, d); without rows until the inducing inputs are placed
    start: Start = Start()
    keep: bool = True  # whether shards keep their block of A (n m numbers in all)

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.data.n

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.data.d

    def at(self, theta: Array, Z: Array | None = None) -> SparseProblem:
        """The same data at another θ, and at other inducing inputs if they are given."""
        kernel, likelihood = self.parts_at(theta)
        return replace(self, kernel=kernel, likelihood=likelihood, Z=self.Z if Z is None else Z)

    def placed(self, rng: np.random.Generator, at_most: int | None = None) -> SparseProblem:
        """The same problem with inducing inputs placed at its kernel parameters, or at most so many of them."""
        source, m, how = self._source, self.start.m, self.start.how
        if at_most is not None and isinstance(how, str):
            m = at_most if m is None else min(m, at_most)
        Z = choose_inducing(source, self.kernel, m, how, rng)
        if at_most is not None and len(Z) > at_most:
            Z = Z[sample_rows(len(Z), at_most, rng)]
        return replace(self, Z=Z)

    def part(self, rows: int, rng: np.random.Generator, without: IntArray | None = None) -> SparseProblem:
        """The same model on a random part of the rows, less those that it must not see, in memory."""
        chosen = sample_rows(self.n, rows, rng)
        if without is not None:
            chosen = np.setdiff1d(chosen, without, assume_unique=True)
        X, y, weights = self.take(chosen)
        return replace(self, data=Data.of(ArraySource(X, y, weights)), keep=True)

    def take(self, rows: IntArray) -> tuple[Array, Array, Array | None]:
        """X, y and weights of some rows, given in increasing order."""
        return self._source.take(rows)

    def over(self, work: Work, *arguments: Any) -> SparseProblem:
        """The same problem with every shard changed by some work."""
        held, _ = self.data.executor.map_reduce(work, self.data.held, None, None, *arguments)
        return replace(self, data=replace(self.data, held=tuple(held)))

    @property
    def X(self) -> Array:
        """Some of the rows, (k, d): to look at."""
        return self._source.take(sample_rows(self.n, LOOK, np.random.default_rng(0)))[0]

    @property
    def _source(self) -> Source:
        if self.data.source is None:
            raise ValueError(NO_ROWS)
        return self.data.source

    @cached_property
    def basis(self) -> Basis:
        """The functions a(x)."""
        return Basis(self.kernel, self.Z, self.keep)

    @property
    def covariance(self) -> Covariance:
        """The kernel with fast values and derivatives."""
        return self.basis.covariance

    def map_reduce(self, work: Work, held: tuple[Any, ...], *arguments: Any) -> tuple[tuple[Any, ...], Sums]:
        """Work on every shard, told of the basis and the likelihood first."""
        if not held:
            raise ValueError(NO_ROWS)
        new, sums = self.data.executor.map_reduce(work, held, self.basis, self.likelihood, *arguments)
        return tuple(new), sums


def make_problem(
    source: Source, kernel: Kernel, likelihood: BinaryLikelihood, n_inducing: Any, inducing: Any
) -> SparseProblem:
    """A problem from checked rows and a user's settings, before its inducing inputs are placed."""
    m = check_inducing(n_inducing, inducing, source.n, source.d)
    keep = 8.0 * source.n * (m or MOST) < KEPT * available_memory()
    return SparseProblem(
        Data.of(source), kernel, likelihood, np.empty((0, source.d)), Start(m, inducing), keep
    )
