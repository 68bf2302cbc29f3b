r"""The gradient of an evidence by kernel parameters, likelihood scale and inducing inputs, as sums over shards.

Every Gaussian approximation here has ∂ log Z/∂K = left rightᵀ − ½(K + T⁻¹)⁻¹ on the latent values, K = A Aᵀ + Λ. Row by
row, with s, α, v of :mod:`gpclass.latent.low_rank_rows`, Σ the covariance of u, and (for Laplace alone) the implicit part x,

    ∂ log Z/∂a_i = α_i (μ + ν) + x_i μ − s_i Σ a_i,   ν = Σ_i x_i a_i,   Σ_i α_i a_i = μ,
    ∂ log Z/∂λ_i = ½ α_i² + x_i α_i − ½ (s_i − s_i² v_i),

which :class:`RowSums` takes to the kernel through :mod:`gpclass.latent.basis`. The scale of the likelihood multiplies
A by itself and λ by its square: ∂ log Z/∂ log s = Σ Ā∘A + 2 Σ λ̄ λ.
Cost: 5 n m² multiply-adds, and the kernel's own derivatives, O(n m d). Memory: a block of rows by m.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from gpclass._typing import Array
from gpclass.latent.basis import Basis, blocks, cholesky_pullback, unwhiten
from gpclass.latent.low_rank_gaussian import Q
from gpclass.latent.low_rank_problem import SparseProblem
from gpclass.latent.low_rank_rows import Labels, Marginals
from gpclass.likelihoods.binary import BinaryLikelihood
from gpclass.model.rows import Shard, Sums


class RowSums:
    """Derivatives by A and λ of blocks of rows, taken to the kernel's parameters, K_zz and Z."""

    def __init__(self, basis: Basis, move_Z: bool) -> None:
        self.basis, self.move_Z = basis, move_Z
        p = int(basis.kernel.n_dims)
        self.theta = np.zeros(p)
        self.Z = np.zeros(basis.Z.shape)
        self.cross = np.zeros((basis.m, basis.m))  # ÂᵀA
        self.scale = 0.0

    def add(self, X: Array, A: Array, A_bar: Array, rest: Array, rest_bar: Array) -> None:
        """One block; ``A_bar`` (r, m), C order, is used up."""
        self.scale += float(np.vdot(A_bar, A)) + 2.0 * float(rest_bar @ rest)
        live = np.where(rest > 0, rest_bar, 0.0)  # λ is held at 0 where rounding would take it below
        A_bar -= (2.0 * live)[:, None] * A
        self.cross += A_bar.T @ A
        A_bar = unwhiten(self.basis.L, A_bar)  # Â L⁻¹
        covariance = self.basis.covariance
        _, pull = covariance.value_and_vjp(X, self.basis.Z)
        self.theta += pull(A_bar) + covariance.diag_vjp(X, live)
        if self.move_Z:
            self.Z += pull.inputs_both(A_bar)[1]

    def result(self) -> Sums:
        """The sums of a shard."""
        return {"theta": self.theta, "Z": self.Z, "cross": self.cross, "scale": self.scale}


def finish(problem: SparseProblem, sums: Sums, move_Z: bool) -> tuple[Array, Array | None]:
    """Gradients by θ (p,) and by Z (m, d), from the added sums."""
    basis = problem.basis
    L_bar = -solve_triangular(basis.L, sums["cross"], lower=True, trans=1, check_finite=False)
    K_bar = cholesky_pullback(basis.L, L_bar)
    K, pull = basis.covariance.value_and_vjp(basis.Z, basis.Z.copy())
    # The jitter is a share of the mean diagonal and moves with it.
    K_bar.flat[:: basis.m + 1] += basis.jitter * float(np.trace(K_bar)) / float(np.trace(K))
    theta = sums["theta"] + pull(K_bar)
    if problem.scale_is_free:
        theta = np.append(theta, sums["scale"])
    if not move_Z:
        return theta, None
    first, second = pull.inputs_both(K_bar)
    return theta, sums["Z"] + first + second


def gaussian_rows(
    shard: Shard, basis: Basis, likelihood: BinaryLikelihood, slope: Slope, move_Z: bool
) -> tuple[Shard, Sums]:
    """The sums of the gradient of a Gaussian approximation at the sites of the shard."""
    assert shard.sites is not None
    sums, X = RowSums(basis, move_Z), shard.rows()
    q, cov = slope.q, slope.q.covariance
    for rows, A, rest in blocks(shard, basis):
        labels = Labels.of(shard, rows)
        B = A @ cov
        at = Marginals.at(shard.sites[:2, rows], rest, A @ q.mean, np.einsum("ij,ij->i", A, B))
        c = np.broadcast_to(labels.copies, len(rest))
        rest_bar = 0.5 * at.alpha**2 - 0.5 * (at.s - at.s**2 * at.var)
        B *= -(c * at.s)[:, None]
        B += np.outer(c * at.alpha, q.mean + slope.nu)
        if slope.implicit:
            x = shard.sites[2, rows]
            B += np.outer(c * x, q.mean)
            rest_bar += x * at.alpha
        sums.add(X[rows], A, B, rest, c * rest_bar)
    return shard, sums.result()


@dataclass(frozen=True, eq=False)
class Slope:
    """What the gradient's rows need to know: q, and for Laplace ν, x being the shards' third number a row."""

    q: Q
    nu: Array | float = 0.0
    implicit: bool = False


def gaussian_gradient(
    problem: SparseProblem, held: tuple[Any, ...], slope: Slope
) -> tuple[Array, Array | None]:
    """Gradients by θ and Z of a Gaussian approximation whose sites the shards hold; None for Z if that is slow."""
    move_Z = problem.covariance.fast
    _, sums = problem.map_reduce(gaussian_rows, held, slope, move_Z)
    return finish(problem, sums, move_Z)
