"""Kernels that are not functions of distance, and sums, products, powers and column subsets of kernels.

Constant k = c; white noise k = s·1(same point of the same set); linear k = σ₀² + x·z; and the chain rules

    d(k1 + k2) = dk1 + dk2,   d(k1 k2) = k2 dk1 + k1 dk2,   d(k^p) = p k^(p−1) dk.

Cost: a few passes over the matrix. Fails when: a power is fractional and the kernel negative (NaN, as in
scikit-learn). Reference: Rasmussen & Williams, Gaussian Processes for Machine Learning (2006), §4.2.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from gpclass._typing import Array, IntArray
from gpclass.covariance._tiles import Bound, Moves, Node, PairPull, Tile, Value, add_moves


@dataclass(frozen=True)
class Constant(Node, Bound):
    """k = c; it is its own bound form, since it does not depend on the points."""

    c: float
    place: slice | None  # in θ, None if fixed

    def bind(self, X: Array, Z: Array, keep: bool) -> Bound:
        return self

    def value(self, tile: Tile) -> Value:
        return self.c

    def pull(self, tile: Tile, G: Array, theta: Array | None) -> Moves:
        if theta is not None:
            self.diag_pull(G, G, theta)
        return None

    def diag(self, X: Array) -> Value:
        return self.c

    def diag_pull(self, X: Array, g: Array, theta: Array) -> None:
        if self.place is not None:
            theta[self.place] += self.c * float(np.sum(g))

    def pairs(self, X: Array, Z: Array) -> tuple[Value, PairPull]:
        return self.c, lambda g, theta: self.diag_pull(X, g, theta)


@dataclass(frozen=True)
class White(Constant):
    """k = c if row and column are the same point of the same set, not merely equal points."""

    def value(self, tile: Tile) -> Value:
        return self.c * np.eye(*tile.shape) if tile.diagonal else 0.0

    def pull(self, tile: Tile, G: Array, theta: Array | None) -> Moves:
        return super().pull(tile, np.diag(G), theta) if tile.diagonal else None

    def pairs(self, X: Array, Z: Array) -> tuple[Value, PairPull]:
        return 0.0, lambda g, theta: None


@dataclass(frozen=True)
class Linear(Node):
    """k = σ₀² + x·z."""

    sigma_0: float
    place: slice | None

    def bind(self, X: Array, Z: Array, keep: bool) -> Bound:
        return BoundLinear(self, X, Z)

    def diag(self, X: Array) -> Value:
        return np.asarray(np.einsum("ij,ij->i", X, X) + self.sigma_0**2)

    def diag_pull(self, X: Array, g: Array, theta: Array) -> None:
        if self.place is not None:
            theta[self.place] += 2.0 * self.sigma_0**2 * float(np.sum(g))

    def pairs(self, X: Array, Z: Array) -> tuple[Value, PairPull]:
        value = np.einsum("ij,ij->i", X, Z) + self.sigma_0**2
        return np.asarray(value), lambda g, theta: self.diag_pull(X, g, theta)


@dataclass(frozen=True)
class BoundLinear(Bound):
    """The linear kernel at given points."""

    node: Linear
    X: Array
    Z: Array

    def value(self, tile: Tile) -> Value:
        K = self.X[tile.rows] @ self.Z[tile.columns].T
        K += self.node.sigma_0**2
        return np.asarray(K)

    def pull(self, tile: Tile, G: Array, theta: Array | None) -> Moves:
        if theta is None:
            return G @ self.Z[tile.columns], G.T @ self.X[tile.rows]
        self.node.diag_pull(self.X, G, theta)  # the slope by σ₀ is the same everywhere
        return None


@dataclass(frozen=True)
class Combined(Node):
    """A function of the values of other kernels, with the chain rule for all such functions."""

    parts: tuple[Node, ...]
    linear = False  # whether the weights do not depend on the values

    @abstractmethod
    def combine(self, *values: Value) -> Value:
        """The value from those of the parts."""

    @abstractmethod
    def weights(self, G: Array, *values: Value) -> Iterable[Array]:
        """Weights of the derivatives of each part, given those of the combination."""

    def bind(self, X: Array, Z: Array, keep: bool) -> Bound:
        kept: dict[int, list[Value]] | None = {} if keep and not self.linear else None
        return BoundCombined(self, [part.bind(X, Z, keep) for part in self.parts], kept)

    def diag(self, X: Array) -> Value:
        return self.combine(*(part.diag(X) for part in self.parts))

    def diag_pull(self, X: Array, g: Array, theta: Array) -> None:
        weights = self.weights(g, *(part.diag(X) for part in self.parts))
        for part, w in zip(self.parts, weights, strict=True):
            part.diag_pull(X, w, theta)

    def pairs(self, X: Array, Z: Array) -> tuple[Value, PairPull]:
        values, pulls = zip(*(part.pairs(X, Z) for part in self.parts), strict=True)

        def pull(g: Array, theta: Array) -> None:
            for pull_part, w in zip(pulls, self.weights(g, *values), strict=True):
                pull_part(w, theta)

        return self.combine(*values), pull


@dataclass(frozen=True)
class BoundCombined(Bound):
    """A combination at given points; keeps the parts' values of each tile (without copies)."""

    node: Combined
    parts: list[Bound]
    kept: dict[int, list[Value]] | None  # None if the derivative does not need them

    def value(self, tile: Tile) -> Value:
        values = [part.value(tile) for part in self.parts]
        if self.kept is not None:
            self.kept[tile.index] = values
        return self.node.combine(*values)

    def pull(self, tile: Tile, G: Array, theta: Array | None) -> Moves:
        weights = self.node.weights(G, *(() if self.kept is None else self.kept[tile.index]))
        pulled = (part.pull(tile, w, theta) for part, w in zip(self.parts, weights, strict=True))
        return reduce(add_moves, pulled)


class Sum(Combined):
    """k = k1 + k2."""

    linear = True

    def combine(self, *values: Value) -> Value:
        return values[0] + values[1]

    def weights(self, G: Array, *values: Value) -> Iterable[Array]:
        return G, G


class Product(Combined):
    """k = k1 k2."""

    def combine(self, *values: Value) -> Value:
        return values[0] * values[1]

    def weights(self, G: Array, *values: Value) -> Iterable[Array]:
        return G * values[1], G * values[0]


class Scaled(Product):
    """k = c k2, the most common product, whose slope by c needs no matrix of weights."""

    def bind(self, X: Array, Z: Array, keep: bool) -> Bound:
        constant, inner = self.parts
        assert isinstance(constant, Constant)
        return BoundScaled(constant, inner.bind(X, Z, keep), {} if keep else None)


@dataclass(frozen=True)
class BoundScaled(Bound):
    """A kernel times a constant at given points."""

    constant: Constant
    inner: Bound
    kept: dict[int, Value] | None

    def value(self, tile: Tile) -> Value:
        value = self.inner.value(tile)
        if self.kept is not None:
            self.kept[tile.index] = value
        return self.constant.c * value

    def pull(self, tile: Tile, G: Array, theta: Array | None) -> Moves:
        if theta is not None and self.constant.place is not None:
            assert self.kept is not None
            value = self.kept[tile.index]
            # Not np.vdot: its last digits depend on where the arrays lie in memory.
            total = np.einsum("ij,ij->", G, value) if isinstance(value, np.ndarray) else np.sum(G) * value
            theta[self.constant.place] += self.constant.c * float(total)
        return self.inner.pull(tile, self.constant.c * G, theta)


@dataclass(frozen=True)
class Power(Combined):
    """k = base^p; p is not a parameter."""

    p: float

    def combine(self, *values: Value) -> Value:
        return values[0] ** self.p

    def weights(self, G: Array, *values: Value) -> Iterable[Array]:
        with np.errstate(divide="ignore"):
            slope = self.p * np.power(values[0], self.p - 1)
        if self.p < 1:  # where the kernel is zero, it is so for all parameters
            slope = np.where(np.equal(values[0], 0), 0.0, slope)
        return (G * slope,)


@dataclass(frozen=True)
class Columns(Node):
    """k(x, z) = inner(x[columns], z[columns])."""

    inner: Node
    columns: IntArray
    take: Callable[[Array], Array]  # X[:, columns], checked

    def bind(self, X: Array, Z: Array, keep: bool) -> Bound:
        x = self.take(X)
        z = x if Z is X else self.take(Z)
        return BoundColumns(self.inner.bind(x, z, keep), self.columns, X.shape[1])

    def diag(self, X: Array) -> Value:
        return self.inner.diag(self.take(X))

    def diag_pull(self, X: Array, g: Array, theta: Array) -> None:
        self.inner.diag_pull(self.take(X), g, theta)

    def pairs(self, X: Array, Z: Array) -> tuple[Value, PairPull]:
        return self.inner.pairs(self.take(X), self.take(Z))


@dataclass(frozen=True)
class BoundColumns(Bound):
    """A kernel on chosen columns, at given points."""

    inner: Bound
    columns: IntArray
    d: int

    def value(self, tile: Tile) -> Value:
        return self.inner.value(tile)

    def pull(self, tile: Tile, G: Array, theta: Array | None) -> Moves:
        moves = self.inner.pull(tile, G, theta)
        if moves is None:
            return None
        return _spread(moves[0], self.columns, self.d), _spread(moves[1], self.columns, self.d)


def _spread(part: Array, columns: IntArray, d: int) -> Array:
    """Scatter the derivatives by the chosen columns into all d columns."""
    full = np.zeros((len(part), d))
    full[:, columns] = part  # `On` ensures that the columns are distinct
    return full
