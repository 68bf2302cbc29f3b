r"""Latent values of some rows and of new points under prior and sites, and the same without the sites of these rows.

Without the sites of some rows, of precision T = diag(t) and shift h, N(m, Σ) over their latent values is the cavity

    Σ_c = Σ + Σ T^½ C⁻¹ T^½ Σ,   C = I − T^½ Σ T^½,   m_c = m − Σ_c (h − T m),

and likewise at new points through their covariance with the rows. C = B_c⁻¹ for B_c = I + T^½ Σ_c T^½, so its
eigenvalues lie between 0 and 1. With the exact factors of these rows in place of their sites, the cavity is the prior
of a smaller problem (:class:`Cavity`), in which all other rows count through their sites. It is stated for g = f − m_c,
so that its Gaussian has no mean: the factor of a row is a function of g + m_c.
Cost: O(k³) for k rows. Fails when: C has no factor, if all the information about a row is in sites of rounding error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from gpclass._typing import Array, IntArray
from gpclass.latent.dense_gaussian import DenseGaussian
from gpclass.latent.factors import OneFactor
from gpclass.latent.fixed_matrices import FixedMatrices
from gpclass.model.rows import Rows
from gpclass.numerics.linalg import cholesky

if TYPE_CHECKING:
    from gpclass.model.problem import Problem


@dataclass(frozen=True, eq=False)
class SitedRows:
    """Rows with their sites, one latent value each."""

    X: Array  # (k, d)
    y: npt.NDArray[Any]  # (k,)
    weights: Array | None  # (k,)
    t: Array  # (k,), precisions, all copies of a row together
    h: Array  # (k,), shifts, likewise
    index: IntArray  # (k,), among the rows of the problem

    def take(self, rows: IntArray) -> SitedRows:
        """Some of them."""
        weights = None if self.weights is None else self.weights[rows]
        return SitedRows(self.X[rows], self.y[rows], weights, self.t[rows], self.h[rows], self.index[rows])


@dataclass(frozen=True, eq=False)
class Joint:
    """A Gaussian over the latent values of k rows and of m new points, these one by one."""

    mean: Array  # (k,)
    covariance: Array  # (k, k)
    cross: Array  # (k, m)
    new_mean: Array  # (m,)
    new_variance: Array  # (m,)

    def first(self, k: int) -> Joint:
        """Of the first k rows alone."""
        return replace(self, mean=self.mean[:k], covariance=self.covariance[:k, :k], cross=self.cross[:k])

    def without(self, t: Array, h: Array) -> Joint:
        """With the sites of the rows divided out."""
        root = np.sqrt(t)
        C = -root[:, None] * self.covariance * root
        C.flat[:: len(C) + 1] += 1.0
        L = cholesky(C)
        rows, new = (
            solve_triangular(L, root[:, None] * part, lower=True, check_finite=False)
            for part in (self.covariance, self.cross)
        )
        covariance, cross = self.covariance + rows.T @ rows, self.cross + rows.T @ new
        pull = h - t * self.mean
        return Joint(
            self.mean - covariance @ pull,
            covariance,
            cross,
            self.new_mean - cross.T @ pull,
            self.new_variance + np.einsum("ij,ij->j", new, new),
        )


def dense_joint(gaussian: DenseGaussian, rows: SitedRows, X_new: Array) -> Joint:
    """Under the dense prior: with M = (K + T⁻¹)⁻¹ of all sites, Σ = k − kᵀM k. Cost: O(n² (k + m))."""
    prior, found, i = gaussian.prior, gaussian.factor, rows.index
    assert isinstance(found, OneFactor)
    (cross,), (own,), K = prior.cross(X_new), prior.variances(X_new), prior.K[:, i]
    A, B = (found.site.half_solve(part) for part in (K, cross))
    variance = np.maximum(own - np.einsum("ij,ij->j", B, B), 0.0)
    return Joint(gaussian.mean[0, i], K[i] - A.T @ A, cross[i] - A.T @ B, cross.T @ gaussian.alpha[0], variance)


@dataclass(frozen=True, eq=False)
class Cavity(FixedMatrices):
    """The cavity as prior, N(0, Σ_c) for g = f − m_c."""

    K: Array | None = None  # (k, k)

    name: ClassVar[str] = "cavity"

    def matrices(self, X: Array) -> list[Array]:
        assert self.K is not None
        return [self.K]


def cavity_problem(problem: Problem, rows: SitedRows, cavity: Joint) -> Problem:
    """The problem of some rows of ``problem``, all others in the cavity."""
    form = Cavity(cavity.mean, cavity.covariance)
    return replace(problem, rows=Rows.in_memory(rows.X, rows.y, rows.weights), form=form)
