"""Kernels of a scaled distance, k = κ(q) with q = Σ_l (x_l − z_l)²/ℓ_l².

    RBF                 κ = exp(−q/2)
    Matérn ν            κ = 2^(1−ν)/Γ(ν) t^ν K_ν(t), t = √(2ν q); closed forms for ν = ½, 3/2, 5/2
    rational quadratic  κ = (1 + q/2α)^(−α)

Each profile gives κ and its slope κ' = dκ/dq, so every derivative is a contraction of A = G∘κ':

    dΣGK/d log ℓ_l = −2 Σ_ij A_ij (u_il − v_jl)²,    dΣGK/dx_il = (2/ℓ_l) Σ_j A_ij (u_il − v_jl),

with u = x/ℓ, v = z/ℓ. Expanded, both need only the product A v and the row and column sums of A: O(n m d) flops at
the speed of a matrix product, without an n×m×d array. The expansion cancels if |u|² is large compared with the
relevant differences. The loss is ε·max|u|²·max|κ'|; a tile where it exceeds ``LOSS`` is contracted column by column
from the differences themselves (about five times slower). The same holds for q: up to ``DIRECT`` columns the
differences cost no more than the product and are always used; beyond, the product is used only for smooth profiles
and only where it is accurate.

At q = 0 the slope of Matérn ν ≤ 1 is infinite; it multiplies a difference of zero, so it is set to 0 there.
Fails when: ν ≤ ½ and points nearly coincide, where dk/dx does not exist (0 is returned at q = 0).
Reference: Rasmussen & Williams, Gaussian Processes for Machine Learning (2006), §4.2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from gpclass._typing import Array
from gpclass.covariance._bessel import matern_slope, matern_value
from gpclass.covariance._tiles import Bound, Moves, Node, PairPull, Tile, Value

DIRECT = 16  # columns up to which differences are as fast as a matrix product
LOSS = 1e-12  # rounding allowed in a contraction, relative to Σ|G|
EPS = float(np.finfo(float).eps)


class Profile(ABC):
    """κ as a function of the scaled squared distance q."""

    smooth = True  # κ is differentiable in q at 0, so rounding of q is harmless there

    @abstractmethod
    def value(self, q: Array) -> tuple[Array, Any]:
        """κ(q), and intermediate results for the slope. May overwrite q."""

    @abstractmethod
    def slope(self, kept: Any) -> Array:
        """κ'(q), a new array."""

    def own(self, G: Array, kept: Any) -> float:
        """Σ G dκ/d log(own parameter)."""
        return 0.0


class Gaussian(Profile):
    """exp(−q/2)."""

    def value(self, q: Array) -> tuple[Array, Any]:
        q *= -0.5
        K = np.exp(q, out=q)
        return K, K

    def slope(self, kept: Any) -> Array:
        return np.asarray(-0.5 * kept)


class Exponential(Profile):
    """Matérn ν = ½: exp(−√q)."""

    smooth = False

    def value(self, q: Array) -> tuple[Array, Any]:
        r = np.sqrt(q, out=q)
        K = np.exp(-r)
        return K, (K, r)

    def slope(self, kept: Any) -> Array:
        K, r = kept
        with np.errstate(divide="ignore", over="ignore"):
            S = np.divide(K, r)
        S *= -0.5
        S[~np.isfinite(S)] = 0.0
        return np.asarray(S)


class Matern32(Profile):
    """Matérn ν = 3/2: (1 + t) exp(−t), t = √(3q); slope −(3/2) exp(−t)."""

    def value(self, q: Array) -> tuple[Array, Any]:
        q *= 3.0
        t = np.sqrt(q, out=q)
        E = np.exp(-t)
        t += 1.0
        t *= E
        return t, E

    def slope(self, kept: Any) -> Array:
        return np.asarray(-1.5 * kept)


class Matern52(Profile):
    """Matérn ν = 5/2: (1 + t + t²/3) exp(−t), t = √(5q); slope −(5/6)(1 + t) exp(−t)."""

    def value(self, q: Array) -> tuple[Array, Any]:
        q *= 5.0
        t = np.sqrt(q)
        E = np.exp(-t)
        t += 1.0
        q /= 3.0
        q += t
        q *= E
        t *= E
        return q, t

    def slope(self, kept: Any) -> Array:
        return np.asarray((-5.0 / 6.0) * kept)


@dataclass(frozen=True)
class MaternAny(Profile):
    """Matérn of any ν, through Bessel functions."""

    nu: float
    smooth = False

    def value(self, q: Array) -> tuple[Array, Any]:
        q *= 2.0 * self.nu
        t = np.sqrt(q, out=q)
        return matern_value(self.nu, t), t

    def slope(self, kept: Any) -> Array:
        return matern_slope(self.nu, kept)


@dataclass(frozen=True)
class Quadratic(Profile):
    """Rational quadratic (1 + w)^(−α), w = q/2α.

    Slope −½ κ/(1+w); dκ/d log α = α κ (w/(1+w) − log(1+w)).
    """

    alpha: float

    def value(self, q: Array) -> tuple[Array, Any]:
        q /= 2.0 * self.alpha
        K = self._log(q)
        K *= -self.alpha
        np.exp(K, out=K)
        return K, (K, q)

    def slope(self, kept: Any) -> Array:
        K, w = kept
        S = w + 1.0
        np.divide(K, S, out=S)
        S *= -0.5
        return np.asarray(S)

    def own(self, G: Array, kept: Any) -> float:
        K, w = kept
        D = w / (1.0 + w)
        D -= self._log(w)
        D *= K
        return self.alpha * float(np.vdot(G, D))

    def _log(self, w: Array) -> Array:
        """log(1 + w); the plain logarithm is several times faster, and α times its rounding is harmless."""
        return np.asarray(np.log(w + 1.0) if self.alpha < 100 else np.log1p(w))


def matern_profile(nu: float) -> Profile:
    """The profile of Matérn's family with smoothness ν."""
    closed: dict[float, Profile] = {0.5: Exponential(), 1.5: Matern32(), 2.5: Matern52(), inf: Gaussian()}
    if not nu > 0:
        raise ValueError(f"Matern needs nu > 0, got {nu}; 0.5, 1.5, 2.5 and inf are fast")
    return closed.get(nu) or MaternAny(nu)


@dataclass(frozen=True)
class Stationary(Node):
    """κ(q) with one length scale, or one per column."""

    profile: Profile
    length_scale: Array  # () or (d,)
    place: slice | None  # of the length scales in θ
    own_place: slice | None  # of the profile's own parameter

    def bind(self, X: Array, Z: Array, keep: bool) -> Bound:
        if self.length_scale.ndim == 1 and len(self.length_scale) != X.shape[1]:
            raise ValueError(
                f"the kernel has {len(self.length_scale)} length scales and the data {X.shape[1]} columns; "
                "give one length scale for all or one per column, or choose the columns with "
                "gpclass.kernels.on(kernel, columns)"
            )
        centre = X.mean(axis=0)
        U = (X - centre) / self.length_scale
        V = U if Z is X else (Z - centre) / self.length_scale
        return BoundStationary(self, U, V, keep)

    def diag(self, X: Array) -> Value:
        return 1.0

    def diag_pull(self, X: Array, g: Array, theta: Array) -> None:
        """The variance at a point is one."""

    def pairs(self, X: Array, Z: Array) -> tuple[Value, PairPull]:
        squares = ((X - Z) / self.length_scale) ** 2
        K, kept = self.profile.value(squares.sum(axis=1))

        def pull(g: Array, theta: Array) -> None:
            if self.own_place is not None:
                theta[self.own_place] += self.profile.own(g, kept)
            if self.place is not None:
                moved = (g * self.profile.slope(kept)) @ squares
                theta[self.place] += -2.0 * (moved if self.length_scale.ndim else moved.sum())

        return K, pull


class BoundStationary(Bound):
    """A kernel of distance at given points, u = x/ℓ and v = z/ℓ, both centred."""

    def __init__(self, node: Stationary, U: Array, V: Array, keep: bool) -> None:
        self.node, self.U, self.V = node, U, V  # (n, d), (m, d)
        self.u2 = np.einsum("ij,ij->i", U, U)
        self.v2 = self.u2 if V is U else np.einsum("ij,ij->i", V, V)
        self.size = float(self.u2.max(initial=0.0) + self.v2.max(initial=0.0))
        self.direct = not node.profile.smooth or U.shape[1] <= DIRECT or EPS * self.size > LOSS
        self.kept: dict[int, Any] | None = {} if keep else None

    def value(self, tile: Tile) -> Value:
        K, kept = self.node.profile.value(self._q(tile))
        if self.kept is not None:
            self.kept[tile.index] = kept
        return K

    def _q(self, tile: Tile) -> Array:
        """Scaled squared distances, exactly 0 on the diagonal."""
        U, V = self.U[tile.rows], self.V[tile.columns]
        if self.direct:
            return np.asarray(cdist(U, V, "sqeuclidean"))
        q = U @ V.T  # exactly symmetric on a diagonal tile
        q *= -2.0
        q += self.u2[tile.rows][:, None] + self.v2[tile.columns]
        np.maximum(q, 0.0, out=q)
        if tile.diagonal:
            q.flat[:: len(q) + 1] = 0.0
        return np.asarray(q)

    def pull(self, tile: Tile, G: Array, theta: Array | None) -> Moves:
        assert self.kept is not None
        node, kept = self.node, self.kept[tile.index]
        if theta is not None and node.own_place is not None:
            theta[node.own_place] += node.profile.own(G, kept)
        if theta is not None and node.place is None:
            return None
        A = node.profile.slope(kept)
        expand = EPS * self.size * -float(A.min(initial=0.0)) <= LOSS
        A *= G
        if tile.diagonal:
            A.flat[:: len(A) + 1] = 0.0  # they multiply differences of exactly zero
        U, V = self.U[tile.rows], self.V[tile.columns]
        squares, left, right = (_expanded if expand else _direct)(A, U, V, theta is None)
        if theta is None:
            return 2.0 * left / node.length_scale, 2.0 * right / node.length_scale
        assert node.place is not None
        theta[node.place] += -2.0 * (squares if node.length_scale.ndim else squares.sum())
        return None


def _expanded(A: Array, U: Array, V: Array, moves: bool) -> tuple[Array, Array, Array]:
    """Σ_ij A_ij (u_i − v_j)² per column, Σ_j A_ij (u_i − v_j) and Σ_i A_ij (v_j − u_i), by products with A."""
    rows, columns, AV = A.sum(axis=1), A.sum(axis=0), A @ V
    if moves:
        return np.zeros(0), rows[:, None] * U - AV, columns[:, None] * V - A.T @ U
    squares = rows @ U**2 + columns @ V**2 - 2.0 * np.einsum("il,il->l", U, AV)
    return squares, np.zeros(0), np.zeros(0)


def _direct(A: Array, U: Array, V: Array, moves: bool) -> tuple[Array, Array, Array]:
    """The same from the differences, column by column: slower, but without cancellation."""
    d = U.shape[1]
    squares, left, right = np.zeros(d), np.zeros((len(U), d)), np.zeros((len(V), d))
    for l in range(d):
        D = U[:, l, None] - V[:, l]
        AD = A * D
        if moves:
            left[:, l], right[:, l] = AD.sum(axis=1), -AD.sum(axis=0)
        else:
            squares[l] = np.vdot(AD, D)
    return squares, left, right
