"""Readable constructors for the papers' kernels; each returns a scikit-learn kernel.

``*_bounds`` have the units of their parameter and may be "fixed", as in scikit-learn.
References: Atiya et al. (2020); Williams & Barber (1998); Filippone & Girolami (2014); Röder et al. (2011).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cache
from math import exp, sqrt
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import pdist
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    Hyperparameter,
    Kernel,
    Matern,
    Product,
    RationalQuadratic,
    Sum,
    WhiteKernel,
)

from gpclass._typing import Array

Bounds: TypeAlias = "tuple[float, float] | str"
WIDE = (1e-5, 1e5)  # scikit-learn's default
W_START = exp(-2.0)
MEDIAN_ROWS = 1000  # most rows used for the median distance
PLAIN = (ConstantKernel, DotProduct, Matern, RBF, RationalQuadratic, WhiteKernel)  # with parameters of their own alone


class On(Kernel):  # type: ignore[misc]  # scikit-learn is untyped
    """A kernel on a subset of the columns: k(x[columns], z[columns]); made by :func:`on`.

    Parameters
    ----------
    kernel : scikit-learn kernel
        The kernel of the chosen columns. Anisotropic length scales: one per chosen column.
    columns : sequence of int
        Distinct positions, counted from 0.
    """

    def __init__(self, kernel: Any, columns: Any) -> None:
        self.kernel = kernel
        self.columns = columns

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of this kernel and, if deep, of the inner kernel, as ``kernel__name``."""
        inner = self.kernel.get_params() if deep else {}
        own = {"kernel": self.kernel, "columns": self.columns}
        return own | {f"kernel__{name}": value for name, value in inner.items()}

    @property
    def hyperparameters(self) -> list[Any]:
        """Hyperparameters of the inner kernel, prefixed with ``kernel__``."""
        return [
            Hyperparameter(f"kernel__{h.name}", h.value_type, h.bounds, h.n_elements, h.fixed)
            for h in self.kernel.hyperparameters
        ]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, On) or type(self) is not type(other):
            return False
        return bool(self.kernel == other.kernel) and tuple(self.columns) == tuple(other.columns)

    __hash__ = None  # type: ignore[assignment]  # like all scikit-learn kernels: it is mutable

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """k(X, Y) and, if requested with Y=None, its gradient (n, n, p)."""
        parts = self.take(X), None if Y is None else self.take(Y)
        return self.kernel(*parts, eval_gradient=True) if eval_gradient else self.kernel(*parts)

    def diag(self, X: Any) -> Array:
        """k(x_i, x_i)."""
        return np.asarray(self.kernel.diag(self.take(X)))

    def is_stationary(self) -> bool:
        """Whether the inner kernel is stationary."""
        return bool(self.kernel.is_stationary())

    def take(self, X: Any) -> Array:
        """The chosen columns of X."""
        points = np.atleast_2d(X)
        if max(self.columns) >= points.shape[1]:
            raise ValueError(
                f"the kernel uses column {max(self.columns)}, but the data have {points.shape[1]} "
                "columns, counted from 0; correct the columns given to gpclass.kernels.on"
            )
        return np.asarray(points[:, list(self.columns)])

    def __repr__(self) -> str:
        return f"On({self.kernel!r}, columns={list(self.columns)})"


def on(kernel: Any, columns: int | slice | Sequence[int] | npt.NDArray[np.integer[Any]]) -> On:
    """Restrict a kernel to some columns.

    Parameters
    ----------
    kernel : scikit-learn kernel
    columns : int, slice with an end, or sequence of int
        Positions counted from 0. For the column names of a frame ``df`` write
        ``df.columns.get_indexer(names)``.

    Examples
    --------
    An additive kernel of two columns, and their interaction:

    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from gpclass.kernels import on
    >>> on(RBF(), 0) + on(RBF(), 1)
    On(RBF(length_scale=1), columns=[0]) + On(RBF(length_scale=1), columns=[1])
    >>> on(RBF(), 0) * on(RBF(2.0), 1)
    On(RBF(length_scale=1), columns=[0]) * On(RBF(length_scale=2), columns=[1])
    """
    if not isinstance(kernel, Kernel):
        raise TypeError(f"on() needs a scikit-learn kernel, such as RBF(), not {type(kernel).__name__}")
    return On(kernel, positions(columns))


def positions(columns: Any) -> tuple[int, ...]:
    """Columns as a tuple of distinct positions; raises for ambiguous input."""
    if isinstance(columns, slice):
        if columns.stop is None or columns.stop < 0 or (columns.start or 0) < 0:
            raise ValueError("a slice of columns needs an end, counted from 0, such as slice(0, 3)")
        columns = range(columns.start or 0, columns.stop, columns.step or 1)
    names = [c for c in ([columns] if np.ndim(columns) == 0 else columns) if isinstance(c, str)]
    if names:
        raise ValueError(
            f"columns must be positions, not names such as {names[0]!r}; "
            "for a frame write df.columns.get_indexer(names)"
        )
    chosen = np.atleast_1d(np.asarray(columns))
    if chosen.dtype == bool:
        chosen = np.flatnonzero(chosen)
    if chosen.ndim != 1 or len(chosen) == 0 or not np.issubdtype(chosen.dtype, np.integer):
        raise ValueError(f"columns must be one or more whole numbers, got {columns!r}")
    if chosen.min() < 0 or len(np.unique(chosen)) < len(chosen):
        raise ValueError(f"columns must be distinct and counted from 0, got {chosen.tolist()}")
    return tuple(int(c) for c in chosen)


def parameter_names(kernel: Any) -> list[str]:
    """Names of the entries of ``kernel.theta``, as in scikit-learn; ``[i]`` for vectors."""
    names = []
    for h in kernel.hyperparameters:
        if not h.fixed:
            names += [h.name] if h.n_elements == 1 else [f"{h.name}[{i}]" for i in range(h.n_elements)]
    return names


def hyperparameters(kernel: Any) -> list[Any]:
    """``kernel.hyperparameters``, of plain kernels in a tenth of the time."""
    kind: Any = type(kernel)
    if kind not in PLAIN:
        return list(kernel.hyperparameters)
    return [getattr(kernel, name) for name in _specifications(kind)]


@cache
def _specifications(kind: type[Any]) -> tuple[str, ...]:
    return tuple(name for name in dir(kind) if name.startswith("hyperparameter_"))


def at_theta(kernel: Any, theta: Array) -> Any:
    """``kernel.clone_with_theta(theta)``, which a search calls at every step, in a tenth of the time.

    Parts that have no free parameter, and bounds, are shared with the kernel.
    """
    made, end = _at_theta(kernel, theta, 0)
    if end != len(theta):
        raise ValueError(f"theta has {len(theta)} entries, and the kernel {end} free parameters")
    return made


def _at_theta(kernel: Any, theta: Array, start: int) -> tuple[Any, int]:
    """The kernel whose parameters begin at θ[start], and their end."""
    kind = type(kernel)  # the exact type: a subclass may differ
    if kind in (Sum, Product):
        left, middle = _at_theta(kernel.k1, theta, start)
        right, end = _at_theta(kernel.k2, theta, middle)
        return kind(left, right), end
    if kind in (Exponentiation, On):
        inner, end = _at_theta(kernel.kernel, theta, start)
        return kind(inner, kernel.exponent if kind is Exponentiation else kernel.columns), end
    if kind not in PLAIN:
        end = start + kernel.n_dims
        return kernel.clone_with_theta(theta[start:end]), end
    made = copy(kernel)
    for h in hyperparameters(kernel):
        if not h.fixed:
            values = np.exp(theta[start : start + h.n_elements])
            setattr(made, h.name, values if h.n_elements > 1 else values[0])
            start += h.n_elements
    return made, start


def kernel_text(kernel: Any) -> str:
    """A kernel as text; with one kernel per class, each prefixed with its class number."""
    if isinstance(kernel, CompoundKernel):
        return "; ".join(f"{c}: {part}" for c, part in enumerate(kernel.kernels))
    return str(kernel)


def atiya(alpha: float = 1.0, beta: float = 1.0, *, alpha_bounds: Bounds = WIDE, beta_bounds: Bounds = WIDE) -> Kernel:
    """β exp(−r²/α²). There is no ½ in the exponent, so scikit-learn's length scale is α/√2."""
    _positive(alpha=alpha, beta=beta)
    low_high = alpha_bounds if isinstance(alpha_bounds, str) else tuple(b * (1 / sqrt(2)) for b in alpha_bounds)
    return ConstantKernel(beta, beta_bounds) * RBF(alpha / sqrt(2), low_high)


def williams_barber(
    n_features: int,
    *,
    w: float | npt.ArrayLike = W_START,
    v0: float = 1.0,
    v1: float = 1.0,
    w_bounds: Bounds = (1e-6, 1e4),
    v0_bounds: Bounds = WIDE,
    v1_bounds: Bounds = WIDE,
) -> Kernel:
    """v0 exp(−½ Σ_l w_l (x_l − z_l)²) + v1: one relevance w_l per input, and a bias.

    Standardise the inputs. The defaults are the published starting values, log w_l = −2 and log v0 = 0, for which the
    length scales are e.
    """
    relevance = np.broadcast_to(np.asarray(w, dtype=float), n_features)
    _positive(w=float(relevance.min()), v0=v0, v1=v1)
    # ℓ = w^(−½) reverses the bounds
    bounds = w_bounds if isinstance(w_bounds, str) else (w_bounds[1] ** -0.5, w_bounds[0] ** -0.5)
    return ConstantKernel(v0, v0_bounds) * RBF(relevance**-0.5, bounds) + ConstantKernel(v1, v1_bounds)


def filippone(
    sigma: float = 1.0,
    tau: float | npt.ArrayLike = 1.0,
    *,
    n_features: int | None = None,
    sigma_bounds: Bounds = WIDE,
    tau_bounds: Bounds = WIDE,
) -> Kernel:
    """σ exp(−½ Σ_l (x_l − z_l)²/τ_l²), σ a variance.

    With ``n_features``, or several τ, one length per input.
    """
    length = np.asarray(tau, dtype=float)
    if n_features is not None:
        length = np.broadcast_to(length, n_features).copy()
    _positive(sigma=sigma, tau=float(length.min()))
    scale = float(length) if length.ndim == 0 else length
    return ConstantKernel(sigma, sigma_bounds) * RBF(scale, tau_bounds)


def matern(
    sill: float = 1.0,
    length_scale: float | npt.ArrayLike = 1.0,
    nu: float = 1.5,
    nugget: float = 0.0,
    *,
    sill_bounds: Bounds = WIDE,
    length_scale_bounds: Bounds = WIDE,
    nugget_bounds: Bounds = WIDE,
) -> Kernel:
    """(sill − nugget) Matérn_ν(r) + nugget·1(same point), in geostatistical terms.

    The sill is the total variance, so the structured part has variance sill − nugget, and ``sill_bounds`` bound that
    part. The nugget is a WhiteKernel: it applies to a point with itself, not to another point at the same location.
    ν follows scikit-learn's convention, t = √(2ν) r/ℓ.
    """
    if not 0 <= nugget < sill:
        raise ValueError(f"the nugget must be at least 0 and below the sill, got {nugget} and {sill}")
    _positive(sill=sill, length_scale=float(np.min(np.asarray(length_scale))), nu=nu)
    kernel = ConstantKernel(sill - nugget, sill_bounds) * Matern(length_scale, length_scale_bounds, nu=nu)
    return kernel if nugget == 0 else kernel + WhiteKernel(nugget, nugget_bounds)


def linear(
    variance: float = 1.0, bias: float = 1.0, *, variance_bounds: Bounds = WIDE, bias_bounds: Bounds = WIDE
) -> Kernel:
    """variance·x·z + bias: the prior of f(x) = w·x + b, w_l ~ N(0, variance), b ~ N(0, bias).

    bias=0 omits b.
    """
    if bias < 0:
        raise ValueError(f"bias is a variance and must be at least 0, got {bias}")
    _positive(variance=variance)
    kernel = ConstantKernel(variance, variance_bounds) * DotProduct(0.0, "fixed")
    return kernel if bias == 0 else kernel + ConstantKernel(bias, bias_bounds)


def default_kernel(X: npt.ArrayLike) -> Kernel:
    """Constant · RBF + constant, where the second constant is a learned base rate.

    The initial length scale is the median distance between distinct points (of at most ``MEDIAN_ROWS`` evenly spaced
    rows, so the kernel is deterministic). Its bounds are a factor of a thousand below and above.
    """
    points = np.asarray(X, dtype=float)
    if points.ndim != 2:
        raise ValueError(f"X must be a matrix, one row per point, not of shape {points.shape}: reshape it")
    median = median_distance(points)
    smooth = ConstantKernel(1.0, (1e-3, 1e4)) * RBF(median, (1e-3 * median, 1e3 * median))
    return smooth + ConstantKernel(1.0, (1e-4, 1e3))


def median_distance(X: Array) -> float:
    """Median distance between distinct points; 1 if there are none."""
    if len(X) > MEDIAN_ROWS:
        X = X[np.linspace(0, len(X) - 1, MEDIAN_ROWS).astype(int)]
    distances = pdist(X - X.mean(axis=0)) if len(X) > 1 else np.zeros(0)
    distances = distances[(distances > 0) & np.isfinite(distances)]
    return float(np.median(distances)) if len(distances) else 1.0


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} must be positive, got {value}")
