"""The data of one classification problem with C classes, at one value of the parameters.

Every class has a latent function of its own, f_c ~ N(0, K_c), independent before the labels are seen. The
classes share one kernel, or have one each: then the kernel is scikit-learn's ``CompoundKernel``, which is
several kernels side by side, and θ is the concatenation of theirs.
Cost: O(n²) memory for a shared kernel, O(C n²) for one a class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from sklearn.gaussian_process.kernels import CompoundKernel, Kernel

from gpclass._typing import Array, IntArray
from gpclass.covariance import Covariance, compile_kernel
from gpclass.kernels import parameter_names
from gpclass.likelihoods.many import MultiLikelihood
from gpclass.model.problem import Labelled


@dataclass(frozen=True, eq=False)
class MultiProblem(Labelled):
    """C classes: n labelled points, a kernel (shared, or a compound of one a class) and a likelihood."""

    X: Array  # (n, d)
    y: IntArray  # (n,), 0 to C − 1
    n_classes: int
    kernel: Kernel
    likelihood: MultiLikelihood
    weights: Array | None = None  # (n,), positive powers of the likelihood; None: all one

    def __post_init__(self) -> None:
        if isinstance(self.kernel, CompoundKernel) and len(self.kernel.kernels) != self.n_classes:
            raise ValueError(
                f"there are {len(self.kernel.kernels)} kernels and {self.n_classes} classes; give one kernel for all "
                "classes, or a list with one for each, in the order of classes_"
            )

    @property
    def shared(self) -> bool:
        """Whether the classes share one kernel."""
        return not isinstance(self.kernel, CompoundKernel)

    @property
    def theta(self) -> Array:
        """Free parameters, in logs."""
        return np.asarray(self.kernel.theta, dtype=float)

    @property
    def bounds(self) -> Array:
        """Bounds of θ in logs, (p, 2)."""
        return np.asarray(self.kernel.bounds, dtype=float).reshape(-1, 2)

    @cached_property
    def names(self) -> list[str]:
        """Names of θ's entries; those of class c's own kernel begin with c."""
        if self.shared:
            return parameter_names(self.kernel)
        parts = enumerate(self.kernel.kernels)
        return [f"{c}__{name}" for c, kernel in parts for name in parameter_names(kernel)]

    def at(self, theta: Array) -> MultiProblem:
        """The same data at another θ."""
        theta = np.asarray(theta, dtype=float)
        if theta.shape != self.theta.shape:
            raise ValueError(
                f"theta has shape {theta.shape}, the model has {len(self.theta)} parameters: {self.names}"
            )
        if self.shared:
            return replace(self, kernel=self.kernel.clone_with_theta(theta))
        ends = np.cumsum([kernel.n_dims for kernel in self.kernel.kernels])[:-1]
        parts = zip(self.kernel.kernels, np.split(theta, ends), strict=True)
        return replace(self, kernel=CompoundKernel([kernel.clone_with_theta(part) for kernel, part in parts]))

    @cached_property
    def covariances(self) -> list[Covariance]:
        """The kernels with fast values and vector-Jacobian products: one, or one a class."""
        return [compile_kernel(kernel) for kernel in ([self.kernel] if self.shared else self.kernel.kernels)]

    @cached_property
    def _values(self) -> list[tuple[Array, Callable[[Array], Array]]]:
        return [covariance.value_and_vjp(self.X) for covariance in self.covariances]

    @cached_property
    def K(self) -> list[Array]:
        """Covariance of each class's latent values at X: C arrays (n, n), the same one C times if shared."""
        return self.for_each_class([K for K, _ in self._values])

    def for_each_class(self, found: list[Array]) -> list[Array]:
        """One array a class, from one a kernel."""
        return found * self.n_classes if self.shared else found

    def cross(self, X_new: Array) -> list[Array]:
        """Covariance of the latent values at X with those at X_new: (n, m) a class."""
        return self.for_each_class([covariance(self.X, X_new) for covariance in self.covariances])

    def times_K(self, a: Array) -> Array:
        """K_c a_c for every class; a is (C, n) or (C, n, r)."""
        if self.shared and a.ndim == 2:
            return np.asarray(a @ self.K[0])  # one product; K is symmetric
        return np.stack([K @ a_c for K, a_c in zip(self.K, a, strict=True)])

    def pull(self, G: Iterable[Array]) -> Array:
        """d log Z / dθ from d log Z / dK_c, one (n, n) array a class."""
        if not self.shared:
            return np.concatenate([pullback(G_c) for (_, pullback), G_c in zip(self._values, G, strict=True)])
        total = np.zeros((self.n, self.n))
        for G_c in G:
            total += G_c
        return self._values[0][1](total)

    @cached_property
    def one_hot(self) -> Array:
        """Labels as zeros and ones, (C, n)."""
        return np.asarray(np.arange(self.n_classes)[:, None] == self.y, dtype=float)
