"""The covariance matrices of a dense prior: their values, roots and products, and gradients through them.

One matrix per kernel; latent values that share a kernel share it.
Cost: O(n²) memory per kernel, O(n³) for a root.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import blas

from gpclass._typing import Array
from gpclass.latent.base import per_latent
from gpclass.numerics.linalg import factor

if TYPE_CHECKING:
    from gpclass.model.problem import Problem


class Covariances:
    """Mixin: K_c of L latent values per row, at the rows of a problem."""

    problem: Problem

    @cached_property
    def L(self) -> int:
        """Latent values per row."""
        return self.problem.n_latents

    # ---- the covariances: all that another dense prior has to replace -----------------------------------------

    def values(self) -> list[tuple[Array, Callable[[Array], Array]]]:
        """Per kernel, the covariance at the rows, (n, n), and the function that contracts its derivatives by θ."""
        return [covariance.value_and_vjp(self.problem.X) for covariance in self.problem.covariances]

    def cross(self, X_new: Array) -> list[Array]:
        """Per kernel, the covariance of the rows with new points, (n, m)."""
        return [covariance(self.problem.X, X_new) for covariance in self.problem.covariances]

    def variances(self, X_new: Array) -> list[Array]:
        """Per kernel, the prior variances of new points, (m,)."""
        return [covariance.diag(X_new) for covariance in self.problem.covariances]

    def joint(self, X_new: Array) -> list[Array]:
        """Per kernel, the prior covariance of new points, (m, m)."""
        return [covariance(X_new) for covariance in self.problem.covariances]

    # ---- what follows from them -------------------------------------------------------------------------------

    @cached_property
    def _values(self) -> list[tuple[Array, Callable[[Array], Array]]]:
        return self.values()

    @cached_property
    def covariances(self) -> list[Array]:
        """K_c, L arrays (n, n); the same one L times for a shared kernel."""
        return self.per_latent(self.kernel_matrices)

    @property
    def kernel_matrices(self) -> list[Array]:
        """K once per kernel: one, or one per latent value."""
        return [K for K, _ in self._values]

    @property
    def K(self) -> Array:
        """The covariance that all latent values share, or that of the first."""
        return self.covariances[0]

    def per_latent(self, found: list[Any]) -> list[Any]:
        """One item per latent value, from one per kernel."""
        return per_latent(found, self.L)

    @cached_property
    def _roots(self) -> list[tuple[Array, float]]:
        return [factor(K.T) for K, _ in self._values]  # symmetric, and so in LAPACK's order

    @property
    def roots(self) -> list[Array]:
        """Lower roots of K_c, one per kernel, with the jitter that they needed."""
        return [root for root, _ in self._roots]

    @property
    def root_jitter(self) -> float:
        """The largest jitter of a root."""
        return max(jitter for _, jitter in self._roots)

    def product(self, a: Array) -> Array:
        """K_c a_c for a (L, n) or (L, n, r)."""
        if self.L == 1:
            return np.asarray(self.K @ a[0])[None]
        if len(self._values) == 1 and a.ndim == 2:
            return np.asarray(a @ self.K)  # one product; K is symmetric
        return np.stack([K @ a_c for K, a_c in zip(self.covariances, a, strict=True)])

    def pull(self, G: Iterable[Array]) -> Array:
        """d log Z/dθ from d log Z/dK_c, one (n, n) array per latent value; they may be overwritten."""
        if len(self._values) == 1:
            G = iter(G)
            total = next(G)
            for more in G:
                total += more
            kernel_part = self._values[0][1](total)
            if not self.problem.scale_is_free:
                return kernel_part
            return np.append(kernel_part, 2.0 * float(np.vdot(total, self.K)))
        return np.concatenate([pullback(G_c) for (_, pullback), G_c in zip(self._values, G, strict=True)])


def rank_one(M: Array, left: Array, right: Array) -> Array:
    """left rightᵀ − ½ M, in place if the memory order allows."""
    return np.asarray(blas.dgemm(1.0, left, right, beta=-0.5, c=M, trans_b=True, overwrite_c=True))
