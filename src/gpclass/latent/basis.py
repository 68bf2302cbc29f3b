r"""The prior as low rank plus diagonal, through m inducing inputs Z.

With K_zz = L Lᵀ and u ~ N(0, I_m) the latent value of row i is

    f_i = a_iᵀ u + e_i,    a_i = L⁻¹ k(Z, x_i),    e_i ~ N(0, λ_i) independent,    λ_i = k(x_i, x_i) − |a_i|²,

the fully independent training conditional (FITC): right variances, and right covariances between each row and u.
White noise in the kernel belongs to each row, so it is part of λ and not of K_zz; with Z = X the prior is then the
dense one.

Gradient. A function of the rows with derivatives Ā = ∂F/∂A (n, m), λ held fixed, and λ̄ = ∂F/∂λ (n,) has, with
Â = Ā − 2 diag(λ̄) A,

    ∂F/∂K_xz = Â L⁻¹,    ∂F/∂L = −tril(L⁻ᵀ ÂᵀA),    ∂F/∂k(x_i, x_i) = λ̄_i,

and the derivative by L goes to K_zz through the Cholesky factorisation. Contracting with the derivatives of the kernel
gives those by its parameters and by Z; no array larger than a block of rows by m is made.
In single precision (``single``) a_i and λ_i are computed as always, and a_i is then rounded: products of blocks of
rows take half of the time, the sums over blocks stay in double precision. :func:`rounds_well` says when that serves.
Cost: O(m²) per row for the value and for the gradient, O(m³) once; memory 8 n m bytes if stored, 4 n m in single
precision, else a block.
Fails when: K_zz is singular beyond the allowed jitter (which is reported).
Reference: Snelson & Ghahramani (2006), Sparse Gaussian processes using pseudo-inputs; Naish-Guzman & Holden (2008),
The generalized FITC approximation, for classification; Murray (2016), Differentiation of the Cholesky decomposition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack, solve_triangular
from sklearn.gaussian_process.kernels import Kernel

from gpclass._typing import Array
from gpclass.covariance import Covariance, compile_kernel
from gpclass.model.rows import Shard
from gpclass.numerics.fingerprint import fingerprint
from gpclass.numerics.linalg import factor, lower_inverse, mirror_lower
from gpclass.numerics.rounded import EPSILON

BLOCK = 512  # rows per block: with 300 inducing inputs 1.2 MB, which fits a core's cache; twice as many in single
COLUMNS = 32  # of a triangular solve at once
PANEL = 128  # columns of a product with a triangle, or of one triangle of a symmetric product, at once
LEAST_JITTER = 1e-10  # relative; the same at neighbouring parameters, so that the evidence is smooth
LARGEST = 0.03  # rounding of the sums over rows, in units of the prior's precision, at which single precision serves
STEEPEST = 0.1  # bound of the rounding of the slopes by Z, in nats per length: it is mostly a tenth of this bound

F = TypeVar("F", np.float64, np.float32)


@dataclass(frozen=True, eq=False)
class Basis:
    """The functions a(x) at fixed kernel parameters and inducing inputs. Small: it is sent to the shards."""

    kernel: Kernel
    Z: Array  # (m, d)
    keep: bool = True  # whether shards store their block of A
    single: bool = False  # whether passes over the rows take A in single precision

    @property
    def m(self) -> int:
        """Number of inducing inputs."""
        return len(self.Z)

    @cached_property
    def covariance(self) -> Covariance:
        """The kernel with fast values and derivatives."""
        return compile_kernel(self.kernel)

    @property
    def digits(self) -> type[np.floating[Any]]:
        """The type of the numbers of A in passes over the rows."""
        return np.float32 if self.single else np.float64

    @cached_property
    def key(self) -> str:
        """Key of the stored blocks."""
        return fingerprint(self.kernel, np.asarray(self.kernel.theta), self.Z, self.single)

    @cached_property
    def _factor(self) -> tuple[Array, float]:
        K = self.covariance(self.Z, self.Z.copy())  # as of different points: white noise stays with the rows
        return factor(K, what="the covariance of the inducing inputs", least=LEAST_JITTER)

    @property
    def L(self) -> Array:
        """Lower Cholesky factor of K_zz + jitter."""
        return self._factor[0]

    @property
    def jitter(self) -> float:
        """The jitter added to the diagonal of K_zz."""
        return self._factor[1]

    @cached_property
    def steepness(self) -> float:
        """The largest column of √v L⁻¹, for the prior variance v: how fast a moves with Z."""
        inverse = np.tril(lower_inverse(self.L))
        columns = np.einsum("ij,ij->j", inverse, inverse)
        return float(np.sqrt(columns.max() * self.covariance.diag(self.Z).max()))

    def kept_as(self, keep: bool, single: bool) -> Basis:
        """The same functions, stored or in digits otherwise."""
        other = replace(self, keep=keep, single=single)
        vars(other).update({name: vars(self)[name] for name in ("covariance", "_factor") if name in vars(self)})
        return other

    def features(self, X: Array) -> tuple[Array, Array]:
        """A (r, m) and λ (r,) of the rows of X."""
        A = whiten(self.L, self.covariance(X, self.Z))
        return A, self.rest(X, A)

    def rest(self, X: Array, A: Array) -> Array:
        """λ: the part of each prior variance that the inducing inputs do not explain."""
        return np.asarray(np.maximum(self.covariance.diag(X) - np.einsum("ij,ij->i", A, A), 0.0))

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: the factor, not the compiled kernel."""
        state = dict(vars(self))
        state.pop("covariance", None)
        return state


def rounds_well(rows: float, bases: Sequence[Basis], scale: float = 1.0) -> bool:
    """Whether single precision serves passes over so many rows with one latent value each, times the scale.

    With the prior variance v of scale·f a site of precision S ≤ 1 adds S a aᵀ to P ≥ I, |a|² ≤ v, with a relative error
    of ε each way; these errors add as a random walk, to ε v √n. As the inverse factor of P has norm at most 1, that of
    its product with a is ε √v, and a cavity (1 − v s)⁻¹ ≤ 1 + v, so that v bounds them too. The gradient by Z goes
    through L⁻¹ and takes ε v √n times the largest column of √v L⁻¹. Kernels whose variance changes with x are left in
    double precision: it may be larger at a row than at any inducing input.
    """
    if not all(basis.kernel.is_stationary() for basis in bases):
        return False
    sums = EPSILON * np.sqrt(rows) * scale**2 * max(float(basis.covariance.diag(basis.Z).max()) for basis in bases)
    if not sums <= LARGEST:
        return False
    return all(sums * basis.steepness <= STEEPEST for basis in bases)


def whiten(L: Array, K: Array) -> Array:
    """K L⁻ᵀ for K (r, m) in C order, in place: its rows are L⁻¹ k.

    By blocks of columns, as products alone with the inverses of the small diagonal blocks: as accurate as a solve,
    faster for many rows, and other threads can run.
    """
    for a in range(0, K.shape[1], COLUMNS):
        part = slice(a, a + COLUMNS)
        K[:, part] = (K[:, part] - K[:, :a] @ L[part, :a].T) @ _inverse_of_block(L, part).T
    return K


def unwhiten(L: Array, A: Array) -> Array:
    """A L⁻¹ for A (r, m) in C order, in place: its rows are L⁻ᵀ a; see :func:`whiten`."""
    for a in range((A.shape[1] - 1) // COLUMNS * COLUMNS, -1, -COLUMNS):
        part, after = slice(a, a + COLUMNS), slice(a + COLUMNS, None)
        A[:, part] = (A[:, part] - A[:, after] @ L[after, part]) @ _inverse_of_block(L, part)
    return A


def _inverse_of_block(L: Array, part: slice) -> Array:
    return np.tril(lapack.dtrtri(L[part, part], lower=1)[0])


def times_lower(A: npt.NDArray[F], T: npt.NDArray[F]) -> npt.NDArray[F]:
    """A Tᵀ for A (r, m) and a lower triangle T, without most products with its zeros; other threads can run."""
    found = np.empty_like(A)
    for a in range(0, len(T), PANEL):
        b = min(a + PANEL, len(T))
        np.matmul(A[:, :b], T[a:b, :b].T, out=found[:, a:b])
    return found


def add_gram(upper: Array, A: npt.NDArray[F], weights: Array) -> None:
    """Add Aᵀ diag(weights) A to the upper triangle of a matrix in C order; other threads can run."""
    B = A * weights.astype(A.dtype)[:, None]
    for a in range(0, A.shape[1], PANEL):
        b = min(a + PANEL, A.shape[1])
        upper[a:b, a:] += A[:, a:b].T @ B[:, a:]


def blocks(shard: Shard, bases: Sequence[Basis]) -> Iterator[tuple[slice, list[Array], list[Array]]]:
    """Rows, and A and λ for each basis, block by block; stored in the shard's scratch if the basis requests it."""
    r = len(shard)
    step = BLOCK * (1 + bases[0].single)
    slices = [slice(a, min(a + step, r)) for a in range(0, r, step)]
    if not bases[0].keep:
        shard.scratch.clear()
        X = shard.rows()
        for rows in slices:
            found = [basis.features(X[rows]) for basis in bases]
            yield rows, [A.astype(bases[0].digits, copy=False) for A, _ in found], [rest for _, rest in found]
        return
    kept = [_kept(shard, basis, f"basis {j}", slices) for j, basis in enumerate(bases)]
    for rows in slices:
        yield rows, [A[rows] for A, _ in kept], [rest[rows] for _, rest in kept]


def _kept(shard: Shard, basis: Basis, place: str, slices: Sequence[slice]) -> tuple[Array, Array]:
    """A and λ of all rows of a shard, computed unless stored."""
    r, found = len(shard), shard.scratch.setdefault(place, {})
    if found.get("key") != basis.key:
        X = shard.rows()
        # One copy: the old block is overwritten if it has the right shape.
        if found.get("A") is None or found["A"].shape != (r, basis.m) or found["A"].dtype != basis.digits:
            found.clear()  # before another array of the size is made
            found["A"], found["rest"] = np.empty((r, basis.m), basis.digits), np.empty(r)
        found["key"] = None
        for rows in slices:
            found["A"][rows], found["rest"][rows] = basis.features(X[rows])
        found["key"] = basis.key
    return found["A"], found["rest"]


def cholesky_pullback(L: Array, L_bar: Array) -> Array:
    """∂F/∂K, symmetric, from ∂F/∂L (lower triangle), K = L Lᵀ: L⁻ᵀ Φ(Lᵀ L̄) L⁻¹ made symmetric."""
    S = np.tril(L.T @ np.tril(L_bar))
    S.flat[:: len(S) + 1] *= 0.5
    left = solve_triangular(L, S, lower=True, trans=1, check_finite=False)
    K_bar = solve_triangular(L, left.T, lower=True, trans=1, check_finite=False).T
    return np.asarray(0.5 * (K_bar + K_bar.T))


def inverse(L: Array) -> Array:
    """(L Lᵀ)⁻¹."""
    P, _ = lapack.dpotri(np.asfortranarray(L), lower=1)
    return mirror_lower(np.asarray(P))
