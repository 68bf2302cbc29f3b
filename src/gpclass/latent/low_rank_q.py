r"""The Gaussian over u, the whitened values at the inducing inputs, and the sums over rows that make it.

    q(u) = N(μ, P⁻¹),   P = I + Σ_i (S_i ⊗ a_i a_iᵀ),   P μ = Σ_i r_i ⊗ a_i,

for sites seen from u with precision S_i and shift r_i (:mod:`gpclass.latent.low_rank_rows`), all L latent functions
together.
Cost: L(L+1)/2 m² multiply-adds per row for P, O((Lm)³) for the factor; O((Lm)²) memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack, solve_triangular

from gpclass._typing import Array
from gpclass.latent.base import per_latent
from gpclass.latent.basis import Basis, add_gram, inverse, times_lower
from gpclass.latent.low_rank_rows import Block, Seen
from gpclass.model.sums import Sums
from gpclass.numerics.linalg import NotPositiveDefiniteError, lower_inverse, mirror_upper

NOT_FINITE = "the sites are not finite: check the kernel's parameters and the scale of the data"


@dataclass(frozen=True, eq=False)
class Spec:
    """What work on a shard needs of the prior. Small: it is sent to the shards."""

    bases: list[Basis]  # one, or one per latent value
    L: int

    @property
    def m(self) -> int:
        """Inducing inputs."""
        return self.bases[0].m

    @property
    def moves(self) -> bool:
        """Whether every kernel has a fast derivative by its inputs, so that the inducing inputs can be moved."""
        return all(basis.covariance.fast for basis in self.bases)

    def per_latent(self, found: list[Array]) -> list[Array]:
        """One item per latent value, from one per basis."""
        return per_latent(found, self.L)

    def parts(self, u: Array) -> Array:
        """A vector over u as (L, m)."""
        return u.reshape(self.L, -1)

    def project(self, A: list[Array], x: Array) -> Array:
        """Σ_i x_ic a_ic, (L m,), for x (L, r)."""
        each = zip(self.per_latent(A), x, strict=True)
        return np.concatenate([A_c.T @ x_c.astype(A_c.dtype) for A_c, x_c in each], dtype=float)

    def spread(self, A: list[Array], u: Array) -> Array:
        """a_icᵀ u_c, (L, r)."""
        each = zip(self.per_latent(A), self.parts(u), strict=True)
        return np.stack([A_c @ u_c.astype(A_c.dtype) for A_c, u_c in each], dtype=float)

    def rest(self, rest: list[Array]) -> Array:
        """λ, (L, r)."""
        return np.stack(self.per_latent(rest))


@dataclass(frozen=True, eq=False)
class Q:
    """N(mean, (L Lᵀ)⁻¹) over u, all latent functions concatenated."""

    mean: Array  # (L m,)
    L: Array  # (L m, L m), lower factor of the precision, Fortran order
    shift: Array  # (L m,), precision times mean
    gram: Array | None = None  # the precision less the prior's, lower triangle, if stored

    @classmethod
    def of(cls, precision: Array, shift: Array) -> Q:
        """From Σ S ⊗ a aᵀ (its lower triangle) and Σ r ⊗ a."""
        P = np.array(precision, order="F")
        P.flat[:: len(shift) + 1] += 1.0
        L, info = lapack.dpotrf(P, lower=1, clean=1, overwrite_a=1)
        mean, _ = lapack.dpotrs(L, shift, lower=1)
        # Some factorisations propagate NaN silently; the mean then has it.
        if info != 0 or not np.isfinite(mean).all():
            raise NotPositiveDefiniteError(NOT_FINITE)
        return cls(np.asarray(mean), np.asarray(L), shift, precision)

    def widened(self, power: float) -> Q:
        """The same mean, and the sites' precision times ``power``."""
        if power == 1.0:
            return self
        precision = power * (self.L @ self.L.T)
        precision.flat[:: len(precision) + 1] -= power
        return Q.of(precision, precision @ self.mean + self.mean)

    @property
    def log_mass(self) -> float:
        """Log ∫ N(u; 0, I) exp(shiftᵀu − ½ uᵀ(P − I)u) du."""
        return float(0.5 * self.shift @ self.mean - np.log(np.diag(self.L)).sum())

    @cached_property
    def covariance(self) -> Array:
        """P⁻¹."""
        return inverse(self.L)

    def root(self, digits: npt.DTypeLike) -> npt.NDArray[Any]:
        """L⁻¹ in these digits. Its norm is at most 1, since P ≥ I: products with it are as accurate as solves."""
        return self._single_inverse if digits == np.float32 else self._inverse

    def spread_of_u(self, digits: npt.DTypeLike) -> npt.NDArray[Any]:
        """P⁻¹ in these digits."""
        return self._single_covariance if digits == np.float32 else self.covariance

    @cached_property
    def _inverse(self) -> Array:
        return lower_inverse(self.L)

    @cached_property
    def _single_inverse(self) -> npt.NDArray[np.float32]:
        return self._inverse.astype(np.float32)

    @cached_property
    def _single_covariance(self) -> npt.NDArray[np.float32]:
        return self.covariance.astype(np.float32)

    def marginals(self, spec: Spec, A: list[Array]) -> tuple[Array, Array]:
        """Mean (L, r) and covariance (r, L, L) of g in the rows of A."""
        if spec.L == 1:
            V = times_lower(A[0], self.root(A[0].dtype))
            return spec.spread(A, self.mean), np.einsum("ij,ij->i", V, V).astype(float)[:, None, None]
        m, each, covariance = spec.m, spec.per_latent(A), self.spread_of_u(A[0].dtype)
        V = np.empty((len(each[0]), spec.L, spec.L))
        for a in range(spec.L):
            for b in range(a + 1):
                block = covariance[a * m : (a + 1) * m, b * m : (b + 1) * m]
                V[:, a, b] = V[:, b, a] = np.einsum("ij,ij->i", each[a] @ block, each[b])
        return spec.spread(A, self.mean), V

    def distance(self, other: Q) -> float:
        """How far the two are, in standard deviations: means by this precision, and the precisions' relative change."""
        gap = self.L.T @ (self.mean - other.mean)
        ratio = solve_triangular(self.L, other.L, lower=True, check_finite=False)
        change = ratio @ ratio.T
        change.flat[:: len(change) + 1] -= 1.0
        return float(np.sqrt(gap @ gap + 0.5 * np.vdot(change, change)))

    def whitened(self, gram: Array, shift: Array) -> Array:
        """A change of precision (lower triangle) and shift in units of q."""
        whole_gram = mirror_upper(gram.T)
        half = solve_triangular(self.L, whole_gram, lower=True, check_finite=False)
        whole = solve_triangular(self.L, half.T, lower=True, check_finite=False)
        pull = solve_triangular(self.L, shift - whole_gram @ self.mean, lower=True, check_finite=False)
        return np.append(whole.ravel() * np.sqrt(0.5), pull)

    def draws(self, noise: Array) -> Array:
        """u (M, L m) from standard normals (M, L m)."""
        spread = solve_triangular(self.L, noise.T, lower=True, trans=1, check_finite=False).T
        return np.asarray(self.mean + spread)


class Accumulator:
    """Σ S ⊗ a aᵀ and Σ r ⊗ a over blocks of rows, copies counted."""

    def __init__(self, spec: Spec) -> None:
        k = spec.L * spec.m
        self.spec = spec
        self.upper = np.zeros((k, k))
        self.shift = np.zeros(k)

    def add(self, block: Block, seen: Seen) -> None:
        """The rows of one block."""
        spec, m, A, labels = self.spec, self.spec.m, block.A, block.labels
        if spec.L == 1:
            add_gram(self.upper, A[0], labels.copies * seen.S[:, 0, 0])
        else:
            each = spec.per_latent(A)
            for a in range(spec.L):
                for b in range(a + 1):
                    weight = labels.copies * seen.S[:, a, b]
                    part = self.upper[b * m : (b + 1) * m, a * m : (a + 1) * m]
                    if a == b:
                        add_gram(part, each[a], weight)
                    else:
                        part += (each[b] * weight.astype(each[b].dtype)[:, None]).T @ each[a]
        self.shift += spec.project(A, labels.copies * seen.shift)

    def result(self) -> Sums:
        """Both sums; of the first the lower triangle counts."""
        return {"gram": self.upper.T, "shift": self.shift}
