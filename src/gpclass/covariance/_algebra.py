"""Kernels that are not functions of distance, and sums, products, powers and column subsets of kernels.

Constant k = c; white noise k = s·1(same point of the same set); linear k = σ₀² + x·z; and the chain rules

    d(k1 + k2) = dk1 + dk2,   d(k1 k2) = k2 dk1 + k1 dk2,   d(k^p) = p k^(p−1) dk.

Cost: a few passes over the matrix. Fails when: a power is fractional and the kernel negative (NaN, as in
scikit-learn). Reference: Rasmussen & Williams, Gaussian Processes for Machine Learning (2006), §4.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpclass._typing import Array, IntArray
from gpclass.covariance._tiles import Bound, Moves, Node, Tile, Value, add_moves


@dataclass(frozen=True)
class Constant(Node, Bound):
    """k = c; it is its own bound form, since it does not depend on the points."""

    c: float
    place: int | None  # index in θ, None if fixed

    def bind(self, X: Array, Z: Array, keep: bool) -> Bound:
        return self

    def value(self, tile: Tile) -> Value:
        return self.c

    def pull(self, tile: Tile, G: Array, theta: Array | None) -> Moves:
        if theta is not None and self.place is not None:
            theta[self.place] += self.c * float(np.sum(G))
        return None

    def diag(self, X: Array) -> Value:
        return self.c

    def diag_pull(self, X: Array, g: Array, theta: Array | None) -> Array | None:
        if theta is not None and self.place is not None:
            theta[self.place] += self.c * float(np.sum(g))
        return None


@dataclass(frozen=True)
class White(Node, Bound):
    """k = s if row and column are the same point of the same set, not merely equal points."""

    s: float
    place: int | None

    def bind(self, X: Array, Z: Array, keep: bool) -> Bound:
        return self

    def value(self, tile: Tile) -> Value:
        return self.s * np.eye(*tile.shape) if tile.diagonal else 0.0

    def pull(self, tile: Tile, G: Array, theta: Array | None) -> Moves:
        if theta is not None and self.place is not None and tile.diagonal:
            theta[self.place] += self.s * float(np.trace(G))
        return None

    def diag(self, X: Array) -> Value:
        return self.s

    def diag_pull(self, X: Array, g: Array, theta: Array | None) -> Array | None:
        if theta is not None and self.place is not None:
            theta[self.place] += self.s * float(np.sum(g))
        return None


@dataclass(frozen=True)
class Linear(Node):
    """k = σ₀² + x·z."""

    sigma_0: float
    place: int | None

    def bind(self, X: Array, Z: Array, keep: bool) -> Bound:
        return BoundLinear(self, X, Z)

    def diag(self, X: Array) -> Value:
        return np.asarray(np.einsum("ij,ij->i", X, X) + self.sigma_0**2)

    def diag_pull(self, X: Array, g: Array, theta: Array | None) -> Array | None:
        if theta is None:
            return np.asarray(2.0 * g[:, None] * X)
        if self.place is not None:
            theta[self.place] += 2.0 * self.sigma_0**2 * float(np.sum(g))
        return None


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
        if self.node.place is not None:
            theta[self.node.place] += 2.0 * self.node.sigma_0**2 * float(np.sum(G))
        return None


@dataclass(frozen=True)
class Sum(Node):
    """k = k1 + k2."""

    left: Node
    right: Node

    def bind(self, X: Array, Z: Array, keep: bool) -> Bound:
        return BoundSum(self.left.bind(X, Z, keep), self.right.bind(X, Z, keep))

    def diag(self, X: Array) -> Value:
        return self.left.diag(X) + self.right.diag(X)

    def diag_pull(self, X: Array, g: Array, theta: Array | None) -> Array | None:
        a = self.left.diag_pull(X, g, theta)
        b = self.right.diag_pull(X, g, theta)
        return b if a is None else a if b is None else a + b


@dataclass(frozen=True)
class BoundSum(Bound):
    """A sum at given points."""

    left: Bound
    right: Bound

    def value(self, tile: Tile) -> Value:
        return self.left.value(tile) + self.right.value(tile)

    def pull(self, tile: Tile, G: Array, theta: Array | None) -> Moves:
        return add_moves(self.left.pull(tile, G, theta), self.right.pull(tile, G, theta))


@dataclass(frozen=True)
class Product(Node):
    """k = k1 k2."""

    left: Node
    right: Node

    def bind(self, X: Array, Z: Array, keep: bool) -> Bound:
        return BoundProduct(self.left.bind(X, Z, keep), self.right.bind(X, Z, keep), {} if keep else None)

    def diag(self, X: Array) -> Value:
        return self.left.diag(X) * self.right.diag(X)

    def diag_pull(self, X: Array, g: Array, theta: Array | None) -> Array | None:
        a = self.left.diag_pull(X, g * self.right.diag(X), theta)
        b = self.right.diag_pull(X, g * self.left.diag(X), theta)
        return b if a is None else a if b is None else a + b


@dataclass(frozen=True)
class BoundProduct(Bound):
    """A product at given points; keeps the two values of each tile (without copies)."""

    left: Bound
    right: Bound
    kept: dict[int, tuple[Value, Value]] | None

    def value(self, tile: Tile) -> Value:
        a, b = self.left.value(tile), self.right.value(tile)
        if self.kept is not None:
            self.kept[tile.index] = a, b
        return a * b

    def pull(self, tile: Tile, G: Array, theta: Array | None) -> Moves:
        assert self.kept is not None
        a, b = self.kept[tile.index]
        return add_moves(self.left.pull(tile, G * b, theta), self.right.pull(tile, G * a, theta))


@dataclass(frozen=True)
class Power(Node):
    """k = base^p; p is not a parameter."""

    base: Node
    p: float

    def bind(self, X: Array, Z: Array, keep: bool) -> Bound:
        return BoundPower(self.base.bind(X, Z, keep), self.p, {} if keep else None)

    def diag(self, X: Array) -> Value:
        return self.base.diag(X) ** self.p

    def diag_pull(self, X: Array, g: Array, theta: Array | None) -> Array | None:
        return self.base.diag_pull(X, g * _power_slope(self.base.diag(X), self.p), theta)


@dataclass(frozen=True)
class BoundPower(Bound):
    """A power at given points."""

    base: Bound
    p: float
    kept: dict[int, Value] | None

    def value(self, tile: Tile) -> Value:
        a = self.base.value(tile)
        if self.kept is not None:
            self.kept[tile.index] = a
        return a**self.p

    def pull(self, tile: Tile, G: Array, theta: Array | None) -> Moves:
        assert self.kept is not None
        return self.base.pull(tile, G * _power_slope(self.kept[tile.index], self.p), theta)


def _power_slope(a: Value, p: float) -> Array:
    """Derivative p a^(p−1), 0 at a = 0 for p < 1: the kernel is zero there for all parameters."""
    with np.errstate(divide="ignore"):
        slope = p * np.power(a, p - 1)
    return np.asarray(np.where(np.equal(a, 0), 0.0, slope) if p < 1 else slope)


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

    def diag_pull(self, X: Array, g: Array, theta: Array | None) -> Array | None:
        part = self.inner.diag_pull(self.take(X), g, theta)
        return None if part is None else _spread(part, self.columns, X.shape[1])


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
