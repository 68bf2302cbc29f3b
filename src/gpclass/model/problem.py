"""The data of one classification problem, checked and encoded once, at one value of the parameters.

θ is one vector: the free kernel parameters in scikit-learn's order, then the likelihood's scale if it is
free; all in logs. :meth:`Problem.at` moves to another θ; the covariance is computed when first asked for.

The likelihood sees scale·f, so a model with scale s and covariance K is the model with scale 1 and s²K, and
every inference here respects that: d log Z / d log s = 2 Σ_ij G_ij K_ij, where G = d log Z / dK. No
inference needs to know of the scale's gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas
from sklearn.gaussian_process.kernels import Kernel

from gpclass._typing import Array
from gpclass.covariance import Covariance, compile_kernel
from gpclass.kernels import parameter_names
from gpclass.likelihoods.binary import BinaryLikelihood
from gpclass.model.labels import copied_rows
from gpclass.numerics.linalg import SiteFactor

SCALE_NAME = "likelihood__scale"
MOST_COPIES = 4  # rows for each point, on average, up to which copies are worth having as rows


@dataclass(frozen=True)
class DensePrior:
    """N(0, K) with K held as a full matrix. Cost: O(n²) memory, O(n³) a factorisation."""

    K: Array  # (n, n)
    pullback: Callable[[Array], Array]  # (n, n) -> (p,)

    def with_sites(self, t: Array) -> SiteFactor:
        """The prior times Gaussian sites of precision t (n,)."""
        return SiteFactor(self.K, t)

    def gradient(self, factor: SiteFactor, left: Array, right: Array) -> tuple[Array, float]:
        """Contract G = left rightᵀ − ½ (K + T⁻¹)⁻¹ with ∂K/∂θ, and with K itself.

        Every evidence in this package has a gradient of this form; left and right are (n, r), r small.
        """
        G = factor.inverse
        G = blas.dgemm(1.0, left, right, beta=-0.5, c=G, trans_b=True, overwrite_c=True)
        return self.pullback(G), float(np.vdot(G, self.K))


class Parameters:
    """Mixin: θ, the free parameters of a kernel and, if it is free, the likelihood's scale, in logs."""

    kernel: Kernel
    likelihood: BinaryLikelihood

    @cached_property
    def scale_is_free(self) -> bool:
        """Whether the likelihood's scale is part of θ."""
        return not isinstance(self.likelihood.scale_bounds, str)

    @property
    def theta(self) -> Array:
        """Free parameters, in logs."""
        theta = np.asarray(self.kernel.theta, dtype=float)
        return np.append(theta, np.log(self.likelihood.scale)) if self.scale_is_free else theta

    @property
    def bounds(self) -> Array:
        """Bounds of θ in logs, (p, 2)."""
        bounds = np.asarray(self.kernel.bounds, dtype=float).reshape(-1, 2)
        if self.scale_is_free:
            bounds = np.vstack([bounds, np.log(np.asarray(self.likelihood.scale_bounds, dtype=float))])
        return bounds

    @cached_property
    def names(self) -> list[str]:
        """Names of θ's entries, as scikit-learn names kernel parameters."""
        return parameter_names(self.kernel) + ([SCALE_NAME] if self.scale_is_free else [])

    def parts_at(self, theta: Array) -> tuple[Kernel, BinaryLikelihood]:
        """Kernel and likelihood at another θ."""
        theta = np.asarray(theta, dtype=float)
        if theta.shape != self.theta.shape:
            raise ValueError(
                f"theta has shape {theta.shape}, the model has {len(self.theta)} parameters: {self.names}"
            )
        likelihood = self.likelihood
        if self.scale_is_free:
            theta, likelihood = theta[:-1], likelihood.with_scale(float(np.exp(theta[-1])))
        return self.kernel.clone_with_theta(theta), likelihood


class Labelled:
    """Mixin: n labelled points, each with a weight."""

    X: Array  # (n, d)
    y: npt.NDArray[Any]  # (n,)
    weights: Array | None  # (n,), powers of the likelihood; None: all one

    @property
    def n(self) -> int:
        """Number of points."""
        return len(self.y)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.X.shape[1])

    def weighted(self, values: Array) -> Array:
        """Multiply per-point terms (..., n) of the log likelihood by the sample weights."""
        return values if self.weights is None else self.weights * values

    def repeated(self) -> Self | None:
        """Whole-number weights as repeated rows; None where one is no whole number or the rows are too many."""
        if self.weights is None:
            return self
        rows = copied_rows(self.weights, MOST_COPIES * self.n)
        if rows is None:
            return None
        return replace(self, X=self.X[rows], y=self.y[rows], weights=None)  # type: ignore[type-var]  # a dataclass


@dataclass(frozen=True, eq=False)
class Problem(Labelled, Parameters):
    """Two classes: n labelled points, a kernel and a likelihood."""

    X: Array  # (n, d)
    y: Array  # (n,), -1 or +1
    kernel: Kernel
    likelihood: BinaryLikelihood
    weights: Array | None = None  # (n,), powers of the likelihood; None: all one

    def at(self, theta: Array) -> Problem:
        """The same data at another θ."""
        kernel, likelihood = self.parts_at(theta)
        return replace(self, kernel=kernel, likelihood=likelihood)

    @cached_property
    def covariance(self) -> Covariance:
        """The kernel with fast values and vector-Jacobian products."""
        return compile_kernel(self.kernel)

    @cached_property
    def prior(self) -> DensePrior:
        """The prior over the latent values at X."""
        return DensePrior(*self.covariance.value_and_vjp(self.X))

    def cross(self, X_new: Array) -> Array:
        """Covariance of the latent values at X with those at X_new, (n, m)."""
        return self.covariance(self.X, X_new)

    def gradient_from(self, G: Array) -> Array:
        """d log Z / dθ from d log Z / dK = G, (n, n)."""
        kernel_part = self.prior.pullback(G)
        if not self.scale_is_free:
            return kernel_part
        return np.append(kernel_part, 2.0 * float(np.vdot(G, self.prior.K)))

    def gradient(self, factor: SiteFactor, left: Array, right: Array) -> Array:
        """d log Z / dθ for an evidence with d log Z / dK = left rightᵀ − ½ (K + T⁻¹)⁻¹."""
        kernel_part, along_K = self.prior.gradient(factor, left, right)
        return np.append(kernel_part, 2.0 * along_K) if self.scale_is_free else kernel_part
