"""A scikit-learn kernel compiled into nodes: value, diagonal and vector-Jacobian products.

    K = k(X, Z; θ),    pullback(G)_k = Σ_ij G_ij ∂K_ij/∂θ_k,    pullback.inputs(G)_i = Σ_j G_ij ∂K_ij/∂x_i

θ is scikit-learn's: the logarithms of the free parameters in the order of ``kernel.theta``, without fixed ones. A
method that knows ∂(its objective)/∂K gets ∂/∂θ for about the cost of the value, for any number of parameters.

Fast: constant, RBF, Matérn, rational quadratic, linear, white, their sums, products and powers, and
``kernels.On``. Only the remaining parts use :mod:`gpclass.covariance._generic`.

Cost: O(n m d) time and, unless K is large, about half an n×n matrix per part besides it, against scikit-learn's n×n×p
gradient array.
Fails when: the kernel is not a function of two points alone (a CompoundKernel raises an error).
Reference: Rasmussen & Williams, Gaussian Processes for Machine Learning (2006), §4.2 and §5.4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.gaussian_process import kernels as sk

from gpclass._typing import Array
from gpclass.covariance import _algebra as algebra
from gpclass.covariance._generic import Generic
from gpclass.covariance._stationary import Gaussian, Profile, Quadratic, Stationary, matern_profile
from gpclass.covariance._tiles import Bound, Node, fold, tiles
from gpclass.kernels import On, at_theta, hyperparameters, positions

LARGE = 2_000_000  # entries of a matrix, above which derivatives keep nothing


class Covariance:
    """A kernel at fixed parameters, to evaluate and differentiate; made by :func:`compile_kernel`.

    Attributes
    ----------
    kernel
        The scikit-learn kernel. Its parameters are copied: later changes have no effect.
    fast : bool
        False if some part uses the generic path.
    """

    def __init__(self, kernel: Any, root: Node, p: int, fast: bool) -> None:
        self.kernel = kernel
        self.fast = fast
        self._root = root
        self._p = p

    def __repr__(self) -> str:
        return f"Covariance({self.kernel!r}, fast={self.fast})"

    def at(self, theta: npt.ArrayLike) -> Covariance:
        """The same kernel with other parameters."""
        return compile_kernel(at_theta(self.kernel, np.asarray(theta, dtype=float)))

    def __call__(self, X: npt.ArrayLike, Z: npt.ArrayLike | None = None) -> Array:
        """k(X, Z), shape (n, m). ``Z=None`` is k(X, X), including white noise."""
        x, z = _points(X, Z)
        return _values(self._root.bind(x, z, keep=False), len(x), len(z), Z is None)

    def diag(self, X: npt.ArrayLike) -> Array:
        """k(x_i, x_i), shape (n,)."""
        x, _ = _points(X, None)
        return np.array(np.broadcast_to(self._root.diag(x), len(x)), dtype=float)

    def value_and_vjp(self, X: npt.ArrayLike, Z: npt.ArrayLike | None = None) -> tuple[Array, Pullback]:
        """k(X, Z), which may be overwritten, and the function that contracts its derivatives.

        What that needs is kept; of a large matrix it is computed again, tile by tile, which takes far less time than
        any use of the matrix.
        """
        x, z = _points(X, Z)
        shape, again = (len(x), len(z), x.shape[1]), self.fast and len(x) * len(z) > LARGE
        bound = self._root.bind(x, z, keep=not again)
        K = _values(bound, len(x), len(z), Z is None)
        return K, Pullback((lambda: self._root.bind(x, z, keep=True)) if again else bound, shape, self._p, Z is None)

    def diag_vjp(self, X: npt.ArrayLike, g: npt.ArrayLike) -> Array:
        """Σ_i g_i dk(x_i, x_i)/dθ, shape (p,)."""
        theta = np.zeros(self._p)
        self._root.diag_pull(_points(X, None)[0], np.asarray(g, dtype=float), theta)
        return theta

    def pairs(self, X: Array, Z: Array) -> tuple[Array, Callable[[Array], Array]]:
        """k(x_i, z_i) of different points X (P, d) and Z (P, d), shape (P,), and its pullback from g (P,) to (p,)."""
        value, pull = self._root.pairs(X, Z)

        def pullback(g: Array) -> Array:
            theta = np.zeros(self._p)
            pull(g, theta)
            return theta

        return np.array(np.broadcast_to(value, len(X)), dtype=float), pullback


class Pullback:
    """Derivatives of Σ_ij G_ij K_ij; may be called repeatedly."""

    def __init__(self, bound: Bound | Callable[[], Bound], shape: tuple[int, int, int], p: int, square: bool) -> None:
        self._bound, self._p, self._square = bound, p, square
        self._n, self._m, self._d = shape

    def __call__(self, G: npt.ArrayLike) -> Array:
        """Σ_ij G_ij ∂K_ij/∂θ, shape (p,). G need not be symmetric."""
        theta = np.zeros(self._p)
        self._moves(G, theta)
        return theta

    def inputs(self, G: npt.ArrayLike) -> Array:
        """Derivative by X, shape (n, d). With ``Z=None`` both arguments vary; otherwise only X."""
        dX, dZ = self._moves(G)
        return dX + dZ if self._square else dX

    def inputs_both(self, G: npt.ArrayLike) -> tuple[Array, Array]:
        """Derivatives by X (n, d) and by Z (m, d)."""
        if self._square:
            raise ValueError("with Z=None there is only one set of points: use pullback.inputs(G)")
        return self._moves(G)

    def _moves(self, G: npt.ArrayLike, theta: Array | None = None) -> tuple[Array, Array]:
        """Add the derivatives by θ to ``theta``; if it is None, return those by X and Z."""
        weights = np.asarray(G, dtype=float)
        if weights.shape != (self._n, self._m):
            raise ValueError(f"G must have the shape of K, {(self._n, self._m)}, not {weights.shape}")
        if self._square and theta is not None and weights.flags.f_contiguous:
            weights = weights.T  # K is symmetric
        dX, dZ = np.zeros((self._n, self._d)), np.zeros((self._m, self._d))
        for tile in tiles(self._n, self._m, self._square):
            bound = self._bound
            if not isinstance(bound, Bound):
                bound = bound()
                bound.value(tile)
            moves = bound.pull(tile, fold(weights, tile, self._square), theta)
            if moves is not None:
                dX[tile.rows] += moves[0]
                dZ[tile.columns] += moves[1]
        return dX, dZ


def compile_kernel(kernel: Any) -> Covariance:
    """Compile a scikit-learn kernel for fast evaluation.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Any kernel of two vectors, with any nesting.
    """
    if isinstance(kernel, type):
        raise TypeError(f"kernel must be an instance, not a class: write {kernel.__name__}()")
    if not isinstance(kernel, sk.Kernel):
        raise TypeError(
            f"kernel must be a scikit-learn kernel, not {type(kernel).__name__}: build one from "
            "sklearn.gaussian_process.kernels, such as ConstantKernel() * RBF(), or from gpclass.kernels"
        )
    generic: list[str] = []
    root, p = _build(kernel, 0, generic)
    return Covariance(kernel, root, p, fast=not generic)


def _build(kernel: Any, start: int, generic: list[str]) -> tuple[Node, int]:
    """The node of a kernel whose parameters begin at θ[start], and their end; ``generic`` receives slow parts."""
    if isinstance(kernel, sk.CompoundKernel):
        raise ValueError(
            "CompoundKernel is a list of kernels, not one covariance: "
            "pass one of its kernels, or combine them with + and *"
        )
    kind = type(kernel)  # the exact type: a subclass may differ
    if kind in (sk.Sum, sk.Product):
        left, middle = _build(kernel.k1, start, generic)
        right, end = _build(kernel.k2, middle, generic)
        if kind is sk.Product and type(left) is algebra.Constant:
            return algebra.Scaled((left, right)), end
        return (algebra.Sum if kind is sk.Sum else algebra.Product)((left, right)), end
    if kind is sk.Exponentiation:
        inner, end = _build(kernel.kernel, start, generic)
        return algebra.Power((inner,), float(kernel.exponent)), end
    if kind is On:
        inner, end = _build(kernel.kernel, start, generic)
        return algebra.Columns(inner, np.asarray(positions(kernel.columns), dtype=np.intp), kernel.take), end
    places, end = _places(kernel, start)
    if kind is sk.ConstantKernel:
        return algebra.Constant(float(kernel.constant_value), places.get("constant_value")), end
    if kind is sk.WhiteKernel:
        return algebra.White(float(kernel.noise_level), places.get("noise_level")), end
    if kind is sk.DotProduct:
        return algebra.Linear(float(kernel.sigma_0), places.get("sigma_0")), end
    if kind is sk.RBF:
        return _stationary(Gaussian(), kernel, places), end
    if kind is sk.Matern:
        return _stationary(matern_profile(float(kernel.nu)), kernel, places), end
    if kind is sk.RationalQuadratic:
        return _stationary(Quadratic(float(kernel.alpha)), kernel, places), end
    generic.append(kind.__name__)
    return Generic(kernel, slice(start, end)), end


def _places(kernel: Any, start: int) -> tuple[dict[str, slice], int]:
    """Where the free parameters of a simple kernel are in θ, from ``start`` on, and where they end."""
    places = {}
    for parameter in hyperparameters(kernel):
        if not parameter.fixed:
            places[parameter.name] = slice(start, start + parameter.n_elements)
            start += parameter.n_elements
    return places, start


def _stationary(profile: Profile, kernel: Any, places: dict[str, slice]) -> Node:
    length_scale = np.squeeze(np.asarray(kernel.length_scale, dtype=float))
    if not np.all(length_scale > 0):
        raise ValueError(f"length scales must be positive, got {length_scale}")
    return Stationary(profile, length_scale, places.get("length_scale"), places.get("alpha"))


def _points(X: npt.ArrayLike, Z: npt.ArrayLike | None) -> tuple[Array, Array]:
    """Both sets of points as float matrices; the second is the same object if Z is None."""
    x = np.ascontiguousarray(X, dtype=float)
    z = x if Z is None else np.ascontiguousarray(Z, dtype=float)
    for name, points in (("X", x), ("Z", z)):
        if points.ndim != 2:
            raise ValueError(f"{name} must be a matrix with one row per point, not of shape {points.shape}: reshape it")
    if x.shape[1] != z.shape[1]:
        raise ValueError(f"X has {x.shape[1]} columns and Z {z.shape[1]}: both need the same columns")
    return x, z


def _values(bound: Bound, n: int, m: int, square: bool) -> Array:
    K = np.empty((n, m))
    for tile in tiles(n, m, square):
        value = bound.value(tile)
        K[tile.rows, tile.columns] = value
        if square and not tile.diagonal:
            K[tile.columns, tile.rows] = value if isinstance(value, float) else value.T
    return K
