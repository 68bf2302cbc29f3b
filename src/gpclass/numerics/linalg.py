"""Factorisations; jitter is added only here.

Nothing here inverts a covariance K. With sites of precision t the factored matrix is ``B = I + T^(1/2) K T^(1/2)``,
whose eigenvalues are at least one, so a nearly singular K is harmless. If a factor of K itself is needed,
:func:`factor` adds the smallest sufficient jitter and returns it.
Cost: O(n^3) per factorisation, O(n^2) memory.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas, lapack

from gpclass._typing import Array, BoolArray

LARGE_B = 1e4  # diagonal of B, above which single precision shows in traces with its inverse
JITTERS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6)  # tried in turn, relative to the mean of the diagonal

BLOCK = 2**15  # numbers of a matrix that are computed together
SMALL = 64  # rows of a triangle that LAPACK inverts as fast as products do
MANY = 1500  # rows of a triangle, above which its inverse needs no memory beside it
FEW = 400  # rows of a factor whose inverse is kept until it has been used again

F = TypeVar("F", np.float64, np.float32)

CURE = "standardise the features, check that the kernel is a valid covariance function, or add a WhiteKernel to it"


class NotPositiveDefiniteError(ValueError):
    """The matrix is not a covariance, even with the largest jitter."""


def cholesky(A: Array, overwrite: bool = False) -> Array:
    """Lower Cholesky factor of A (reads only its lower triangle); ``LinAlgError`` if A is not positive definite.

    ``overwrite``: in the memory of A, if that is in Fortran order.
    """
    L, info = lapack.dpotrf(A, lower=1, clean=1, overwrite_a=int(overwrite))
    if info != 0:
        raise np.linalg.LinAlgError(f"the leading minor of order {info} is not positive definite")
    return np.asarray(L)


def factor(
    K: Array, *, what: str = "the covariance matrix", scale: float | None = None, least: float = 0.0
) -> tuple[Array, float]:
    """Lower Cholesky factor of K + jitter·I with the smallest jitter of ``JITTERS`` that works, and that jitter.

    Jitters below ``least`` are skipped, for a factor that must be smooth in K.

    Jitter is relative to ``scale``, by default the mean of the diagonal. For a difference of covariances, which may be
    zero up to rounding, pass the scale of its terms.
    """
    scale = float(np.mean(np.diag(K))) if scale is None else scale
    for relative in (jitter for jitter in JITTERS if jitter >= least):
        jitter = relative * scale
        shifted = np.array(K, order="F")
        shifted[np.diag_indices(len(K))] += jitter
        try:
            return cholesky(shifted, overwrite=True), jitter
        except np.linalg.LinAlgError:
            continue
    raise NotPositiveDefiniteError(
        f"{what} is not positive definite, even with {JITTERS[-1]:g} of its mean diagonal added to the diagonal; {CURE}"
    )


def lower_solve(L: Array, b: Array) -> Array:
    """L^-1 b for b (n, m), which is overwritten if its rows are contiguous: solved from the right, without copies."""
    return np.asarray(blas.dtrsm(1.0, L, b.T, side=1, lower=1, trans_a=1, overwrite_b=1)).T


def triangular_product(L: Array, b: Array, transposed: bool = False) -> Array:
    """L b, or Lᵀ b, for a lower triangular L and b (n, r)."""
    return np.asarray(blas.dtrmm(1.0, L, b, lower=1, trans_a=int(transposed)))


def triangular_solve(L: Array, b: Array, transposed: bool = False) -> Array:
    """L⁻¹ b, or L⁻ᵀ b, for a lower triangular L and b (n, r)."""
    return np.asarray(lapack.dtrtrs(L, b, lower=1, trans=int(transposed))[0])


def one_plus_gram(L: Array, d: Array) -> Array:
    """Lower Cholesky factor of I + Lᵀ diag(d) L for a lower triangular L, in two thirds of n³."""
    if np.any(d < 0.0):
        B = np.asfortranarray(L.T @ (d[:, None] * L))
    else:
        B, _ = lapack.dlauum(np.multiply(np.sqrt(d)[:, None], L, order="F"), lower=1, overwrite_c=1)
    B[np.diag_indices(len(d))] += 1.0
    return cholesky(B, overwrite=True)


class SiteFactor:
    """The Gaussian N(0, K) multiplied by sites of precision t >= 0.

    Holds the factor of B = I + T^(1/2) K T^(1/2), from which all quantities of a Gaussian approximation follow.
    """

    def __init__(self, K: Array, t: Array) -> None:
        self.K = K
        with np.errstate(invalid="ignore"):  # a precision below 0 has no root, and B below no factor
            self.root = np.sqrt(t)
        B, step = np.empty(K.shape), max(1, BLOCK // len(K))
        for a in range(0, len(K), step):  # above the diagonal alone, in blocks that stay in a cache
            part = B[a : a + step, a:]
            np.multiply(self.root[a : a + step, None], K[a : a + step, a:], out=part)
            part *= self.root[a:]
        B.flat[:: len(t) + 1] += 1.0
        # The lower triangle of its transpose, in LAPACK's order: factored in place, no copy.
        L, info = lapack.dpotrf(B.T, lower=1, clean=1, overwrite_a=1)
        if info != 0:
            raise NotPositiveDefiniteError(
                f"I + T^(1/2) K T^(1/2) is not positive definite: K, up to {np.max(np.diag(K)):.2g}, is not a "
                f"covariance matrix, or is too large for its rounding; {CURE}"
            )
        self.L = L

    @cached_property
    def half_log_det(self) -> float:
        """½ log |B|."""
        return float(np.log(np.diag(self.L)).sum())

    def solve(self, b: Array) -> Array:
        """(K + T^-1)^-1 b without inverting t: T^(1/2) B^-1 T^(1/2) b, for b (n,) or (n, m)."""
        if b.ndim == 1:  # in place, without the overhead of LAPACK's solver for several vectors
            x = blas.dtrsv(self.L, self.root * b, lower=1, overwrite_x=1)
            return np.asarray(self.root * blas.dtrsv(self.L, x, lower=1, trans=1, overwrite_x=1))
        x, _ = lapack.dpotrs(self.L, self.root[:, None] * b, lower=1)
        return np.asarray(self.root[:, None] * np.asarray(x))

    def half_solve(self, b: Array) -> Array:
        """A with AᵀA = bᵀ (K + T^-1)^-1 b, for b (n, m)."""
        return lower_solve(self.L, self.root[:, None] * b)

    def rough_half_solve(self, b: Array) -> npt.NDArray[np.float32]:
        """The same in single precision, in half of the time: AᵀA to about 6e-8 √n of the prior variances."""
        scaled = np.multiply(self.root[:, None], b, dtype=np.float32, casting="same_kind")
        L = self.L.astype(np.float32, order="F")
        return np.asarray(blas.strsm(1.0, L, scaled.T, side=1, lower=1, trans_a=1, overwrite_b=1)).T

    @cached_property
    def _B_inverse(self) -> Array:
        """B^-1 = L^-T L^-1, full and symmetric."""
        inverse = vars(self).pop("_L_inverse", None)
        return gram(lower_inverse(self.L) if inverse is None else inverse)

    @cached_property
    def rough_B_inverse(self) -> npt.NDArray[np.float32]:
        """B^-1 from the factor in single precision, full and symmetric, in a third of the time.

        Its error is about that of single precision times the norm of L.
        """
        if "_B_inverse" in vars(self):
            return self._B_inverse.astype(np.float32).T
        return gram(lower_inverse(self.L.astype(np.float32), overwrite=True)).T

    @property
    def inverse(self) -> Array:
        """(K + T^-1)^-1 as a symmetric matrix, a new array per call."""
        return self.write_inverse(np.empty(self.K.shape).T)

    def inverse_alone(self) -> Array:
        """The same with no memory beside it: for a factor of which nothing else of the kind will be asked."""
        R = gram(lower_inverse(self.L))
        R *= self.root
        R *= self.root[:, None]
        return R

    def write_inverse(self, out: Array) -> Array:
        """The inverse, written into ``out``."""
        np.multiply(self._B_inverse if out.flags.f_contiguous else self._B_inverse.T, self.root, out=out)
        out *= self.root[:, None]
        return out

    @property
    def rough_inverse(self) -> Array:
        """The same in single precision's digits; in all if B is so large that a trace would show them."""
        if float((self.root**2 * self.K.diagonal()).max()) > LARGE_B:
            return self.inverse
        R = self.rough_B_inverse.T * self.root
        R *= self.root[:, None]
        return np.asarray(R, dtype=float)

    @cached_property
    def leverage(self) -> Array:
        """t_i P_ii in [0, 1), the share of point i's own site in its posterior: 1 − (B^-1)_ii, B^-1 = L^-T L^-1."""
        if "_B_inverse" in vars(self):  # known already
            return np.asarray(1.0 - np.diag(self._B_inverse))
        inverse = lower_inverse(self.L)
        if len(inverse) <= FEW:  # a gradient may follow
            vars(self)["_L_inverse"] = inverse
        return np.asarray(1.0 - np.einsum("ij,ij->j", inverse, inverse))

    @property
    def rough_leverage(self) -> Array:
        """The same to about 1e-6."""
        return np.asarray(1.0 - np.diag(self.rough_B_inverse).astype(float))

    def variances(self, at: BoolArray) -> Array:
        """Posterior variances of some points, of the diagonal of P = (K^-1 + T)^-1."""
        A = self.half_solve(self.K[:, at])
        return np.asarray(np.diag(self.K)[at] - np.einsum("ij,ij->j", A, A))


def lower_inverse(L: npt.NDArray[F], overwrite: bool = False) -> npt.NDArray[F]:
    """The inverse of a lower triangle in Fortran order, by halves: [A 0; C B]⁻¹ = [A⁻¹ 0; −B⁻¹ C A⁻¹ B⁻¹].

    LAPACK's own takes up to twice as long for some hundred rows; for many it needs no memory beside the result.
    """
    inverse = L if overwrite else L.copy(order="F")
    single = inverse.dtype == np.float32
    invert, multiply = (lapack.strtri, blas.strmm) if single else (lapack.dtrtri, blas.dtrmm)
    if len(L) > MANY:
        return np.asarray(invert(inverse, lower=1, overwrite_c=1)[0])
    _invert(inverse, invert, multiply)
    return inverse


def _invert(L: npt.NDArray[F], invert: Any, multiply: Any) -> None:
    half = len(L) // 2
    if len(L) <= SMALL:
        L[:] = invert(L, lower=1)[0]
        return
    A, C, B = L[:half, :half], L[half:, :half], L[half:, half:]
    _invert(A, invert, multiply)
    _invert(B, invert, multiply)
    C[:] = multiply(1.0, A, multiply(-1.0, B, C, lower=1), lower=1, side=1, overwrite_b=1)


def gram(V: npt.NDArray[F]) -> npt.NDArray[F]:
    """VᵀV of a lower triangle V in Fortran order, which is overwritten; full and symmetric."""
    return mirror_lower(lower_gram(V))


def lower_gram(V: npt.NDArray[F]) -> npt.NDArray[F]:
    """The lower triangle of the same."""
    multiply = lapack.slauum if V.dtype == np.float32 else lapack.dlauum
    return np.asarray(multiply(V, lower=1, overwrite_c=1)[0])


@lru_cache(maxsize=8)
def _above_diagonal(n: int) -> BoolArray:
    return ~np.tri(n, dtype=bool)


def mirror_lower(A: npt.NDArray[F]) -> npt.NDArray[F]:
    """Copy the lower triangle of A (in Fortran order) over the upper one, in place, by blocks."""
    n, step = len(A), 256
    for start in range(0, n, step):
        stop = min(start + step, n)
        block = A[start:stop, start:stop]
        np.copyto(block, block.T.copy(), where=_above_diagonal(stop - start))
        A[start:stop, stop:] = A[stop:, start:stop].T
    return A


def mirror_upper(P: Array) -> Array:
    """A symmetric matrix from the upper triangle of P."""
    full = np.triu(P)
    full += np.triu(P, 1).T
    return full
