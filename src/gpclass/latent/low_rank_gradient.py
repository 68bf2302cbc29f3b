r"""The gradient of an evidence by kernel parameters, likelihood scale and inducing inputs, as sums over shards.

Row by row the derivatives by a_i and λ_i are those of :mod:`gpclass.latent.low_rank_rows`, or of the score
(:func:`score`); :class:`RowSums` takes them to the kernel through :mod:`gpclass.latent.basis`. The scale of the
likelihood multiplies A by itself and λ by its square: ∂ log Z/∂ log s = Σ Ā∘A + 2 Σ λ̄ λ.
Cost: 5 n m² multiply-adds per latent value, L² for several, and the kernel's own derivatives, O(n m d). Memory: a block
of rows by m.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_triangular

from gpclass._typing import Array
from gpclass.latent.basis import Basis, cholesky_pullback, unwhiten
from gpclass.latent.low_rank_rows import row_blocks, seen_blocks
from gpclass.latent.sites import Held, SiteRule
from gpclass.likelihoods.base import Likelihood
from gpclass.model.rows import Shard
from gpclass.model.sums import Sums

if TYPE_CHECKING:
    from gpclass.latent.low_rank_q import Q, Spec
    from gpclass.model.problem import Problem

CELLS = 200_000  # rows × draws at once: 1.6 MB per array


class RowSums:
    """Derivatives by A and λ of blocks of rows, mapped to one kernel's parameters, K_zz and Z."""

    def __init__(self, basis: Basis, move_Z: bool) -> None:
        self.basis, self.move_Z = basis, move_Z
        self.theta = np.zeros(int(basis.kernel.n_dims))
        self.Z = np.zeros(basis.Z.shape)
        self.cross = np.zeros((basis.m, basis.m))  # ÂᵀA
        self.scale = 0.0

    def add(self, X: Array, A: Array, A_bar: Array, rest: Array, rest_bar: Array) -> None:
        """One block; ``A_bar`` (r, m), C order, is overwritten."""
        self.scale += float(np.vdot(A_bar, A)) + 2.0 * float(rest_bar @ rest)
        live = np.where(rest > 0, rest_bar, 0.0)  # λ is 0 if rounding would make it negative
        A_bar -= (2.0 * live).astype(A.dtype)[:, None] * A
        self.cross += A_bar.T @ A
        A_bar = unwhiten(self.basis.L, A_bar.astype(float, copy=False))  # Â L⁻¹
        covariance = self.basis.covariance
        _, pull = covariance.value_and_vjp(X, self.basis.Z)
        self.theta += pull(A_bar) + covariance.diag_vjp(X, live)
        if self.move_Z:
            self.Z += pull.inputs_both(A_bar)[1]


class AllSums:
    """Such sums for every kernel of a prior; latent values that share a kernel add up."""

    def __init__(self, spec: Spec, move_Z: bool) -> None:
        self.kernels = [RowSums(basis, move_Z) for basis in spec.bases]

    def add(self, X: Array, A: list[Array], A_bar: list[Array], rest: Array | list[Array], rest_bar: Array) -> None:
        """One block; A per kernel, derivatives per latent value."""
        if len(self.kernels) == 1:
            total = A_bar[0]
            for more in A_bar[1:]:
                total += more
            self.kernels[0].add(X, A[0], total, rest[0], rest_bar.sum(axis=0))
            return
        for sums, *one in zip(self.kernels, A, A_bar, rest, rest_bar, strict=True):
            sums.add(X, *one)

    def result(self) -> Sums:
        """The sums of a shard, by kernel."""
        names = ("theta", "Z", "cross", "scale")
        return {f"{name} {j}": getattr(sums, name) for j, sums in enumerate(self.kernels) for name in names}


def finish(problem: Problem, spec: Spec, sums: Sums, move_Z: bool) -> tuple[Array, Array | None]:
    """Gradients by θ (p,) and by Z (m, d), from the added sums."""
    parts, by_Z = [], np.zeros(spec.bases[0].Z.shape)
    for j, basis in enumerate(spec.bases):
        L_bar = -solve_triangular(basis.L, sums[f"cross {j}"], lower=True, trans=1, check_finite=False)
        K_bar = cholesky_pullback(basis.L, L_bar)
        K, pull = basis.covariance.value_and_vjp(basis.Z, basis.Z.copy())
        # The jitter is proportional to the mean diagonal.
        K_bar.flat[:: basis.m + 1] += basis.jitter * float(np.trace(K_bar)) / float(np.trace(K))
        parts.append(sums[f"theta {j}"] + pull(K_bar))
        if move_Z:
            first, second = pull.inputs_both(K_bar)
            by_Z += sums[f"Z {j}"] + first + second
    theta = np.concatenate(parts)
    if problem.scale_is_free:
        theta = np.append(theta, sums["scale 0"])
    return theta, by_Z if move_Z else None


def gaussian_gradient(
    problem: Problem, spec: Spec, held: Held, rule: SiteRule, q: Q, nu: Array | None
) -> tuple[Array, Array | None]:
    """Gradients by θ and Z of a Gaussian approximation whose sites the shards hold; None for Z if that is slow.

    With ν the shards hold the implicit part x after the numbers of their sites.
    """
    _, sums = problem.map(gaussian_rows, held, spec, rule, q, nu)
    return finish(problem, spec, sums, spec.moves)


def gaussian_rows(
    shard: Shard, likelihood: Likelihood, spec: Spec, rule: SiteRule, q: Q, nu: Array | None
) -> tuple[Shard, Sums]:
    """The sums of the gradient of a Gaussian approximation at the sites of the shard."""
    sums, X, m, L = AllSums(spec, spec.moves), shard.rows(), spec.m, spec.L
    k, digits = rule.numbers(likelihood, L), spec.bases[0].digits
    cov = q.spread_of_u(digits)
    along = spec.parts(q.mean if nu is None else q.mean + nu)
    mu = spec.parts(q.mean)
    for block, seen in seen_blocks(shard, likelihood, spec, rule):
        each, c = spec.per_latent(block.A), block.labels.count
        alpha = seen.alpha(spec.spread(block.A, q.mean))
        x = None if nu is None else shard.kept[k : k + L, block.rows]
        A_bar, V = [], np.empty((len(c), L, L))
        for a in range(L):
            total = np.zeros_like(each[a])
            for b in range(L):
                B = each[b] @ cov[b * m : (b + 1) * m, a * m : (a + 1) * m]  # Σ_ab a_b
                V[:, a, b] = np.einsum("ij,ij->i", each[a], B)
                B *= -(c * seen.S[:, a, b]).astype(digits)[:, None]
                total += B
            total += np.outer((c * alpha[a]).astype(digits), along[a].astype(digits))
            if x is not None:
                total += np.outer((c * x[a]).astype(digits), mu[a].astype(digits))
            A_bar.append(total)
        lost = np.einsum("rab,rbc,rca->ar", seen.S, V, seen.S) if L > 1 else seen.S[:, 0].T ** 2 * V[:, 0].T
        rest_bar = 0.5 * alpha**2 - 0.5 * (np.einsum("raa->ar", seen.S) - lost)
        if x is not None:
            rest_bar = rest_bar + x * alpha
        sums.add(X[block.rows], block.A, A_bar, block.rest, c * rest_bar)
    return shard, sums.result()


def score(problem: Problem, spec: Spec, U: Array, weights: Array) -> tuple[Array, Array | None]:
    """Gradients of the exact log evidence by θ and Z from weighted draws U (M, L m).

    ∂ log p(y)/∂a_ic = E[c_i ∂_c log ℓ_i u_c], ∂ log p(y)/∂λ_ic = ½ E[c_i ℓ_i,cc/ℓ_i].
    """
    _, sums = problem.map(score_rows, problem.rows.held, spec, U, weights)
    return finish(problem, spec, sums, spec.moves)


def score_rows(shard: Shard, likelihood: Likelihood, spec: Spec, U: Array, weights: Array) -> tuple[Shard, Sums]:
    """The sums of the score."""
    sums, X, L = AllSums(spec, spec.moves), shard.rows(), spec.L
    for block in row_blocks(shard, likelihood, spec):
        labels, each = block.labels, spec.per_latent(block.A)
        A_bar, rest_bar = [np.zeros_like(part) for part in each], np.zeros_like(block.rest)
        step = max(1, CELLS // (L * len(each[0])))
        for begin in range(0, len(U), step):
            few, w = U[begin : begin + step].reshape(-1, L, spec.m), weights[begin : begin + step]
            g = np.stack([each[c] @ few[:, c].T for c in range(L)])  # (L, r, M)
            d1, bend = likelihood.smear_slopes(labels, g, block.rest)
            for c in range(L):
                A_bar[c] += (d1[c] * w) @ few[:, c]
            rest_bar += 0.5 * (bend @ w)
        count = labels.count
        A_bar = [part * count[:, None] for part in A_bar]
        sums.add(X[block.rows], block.A, A_bar, block.rest, count * rest_bar)
    return shard, sums.result()
