r"""Groups of rows given their sites: products with M = (K + W⁻¹)⁻¹ for small dense groups, all at once.

K is block-diagonal over the L latent values of a row, W block-diagonal over the rows. In full, M is one matrix of order
s L per group. If W has the short form D of :mod:`gpclass.likelihoods.local` (softmax, multinomial probit), the latent
values are coupled by one matrix of order s alone: with E_c = D_c^½ (I + D_c^½ K_c D_c^½)⁻¹ D_c^½ and G = Σ_c E_c,

    M_ce = δ_ce E_c − E_c G⁻¹ E_e,    log |I + K W| = Σ_c log |I + D_c^½ K_c D_c^½| + log |G| − log |Σ_c D_c|.

Cost: O((s L)³) per group in full, O(s³ L) in the short form.
Fails when: the precisions are not finite.
Reference: Williams & Barber (1998); Rasmussen & Williams (2006), section 3.5.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gpclass._typing import Array
from gpclass.likelihoods.local import symmetric_root, times_precision
from gpclass.numerics.linalg import CURE, NotPositiveDefiniteError


class Solve(Protocol):
    """Products with M of g groups of s rows, and ½ log |I + K W|, all groups together."""

    half_log_det: float

    def times(self, x: Array) -> Array:
        """M x for x (g, s, L)."""

    def own(self, c: int) -> Array:
        """M_cc (g, s, s)."""

    def marginals(self, K: list[Array]) -> Array:
        """Covariances (g, s, L, L) of the rows, the diagonal of K − K M K, from K per latent value (g, s, s)."""

    def reduction(self, cross: list[Array]) -> Array:
        """k_cᵀ M_ce k_e (g, L, L), for covariances k_c (g, s) of one point per group."""

    def in_full(self) -> Array:
        """M, (g, s L, s L), the latent values of a row together."""


@dataclass(frozen=True, eq=False)
class Full(Solve):
    """M as one matrix per group."""

    M: Array  # (g, s, L, s, L)
    half_log_det: float

    def times(self, x: Array) -> Array:
        return np.asarray(np.einsum("giajb,gjb->gia", self.M, x, optimize=True))

    def own(self, c: int) -> Array:
        return self.M[:, :, c, :, c]

    def marginals(self, K: list[Array]) -> Array:
        g, s, L = self.M.shape[:3]
        cov = np.empty((g, s, L, L))
        for a in range(L):
            for e in range(a + 1):
                found = -np.einsum("gij,gij->gi", K[a] @ self.M[:, :, a, :, e], K[e])
                if a == e:
                    found = np.maximum(found + np.diagonal(K[a], axis1=1, axis2=2), 0.0)
                cov[:, :, a, e] = cov[:, :, e, a] = found
        return cov

    def reduction(self, cross: list[Array]) -> Array:
        L = len(cross)
        out = np.empty((len(self.M), L, L))
        for a in range(L):
            for e in range(L):
                out[:, a, e] = np.einsum("gi,gij,gj->g", cross[a], self.M[:, :, a, :, e], cross[e], optimize=True)
        return out

    def in_full(self) -> Array:
        g, s, L = self.M.shape[:3]
        return self.M.reshape(g, s * L, s * L)


@dataclass(frozen=True, eq=False)
class Short(Solve):
    """M_ce = δ_ce E_c − U_cᵀ U_e."""

    E: Array  # (g, L, s, s)
    U: Array  # (g, L, s, s)
    half_log_det: float

    def times(self, x: Array) -> Array:
        by_latent = x.transpose(0, 2, 1)[..., None]  # (g, L, s, 1)
        shared = (self.U @ by_latent).sum(axis=1, keepdims=True)
        found = self.E @ by_latent - self.U.transpose(0, 1, 3, 2) @ shared
        return np.asarray(found[..., 0].transpose(0, 2, 1))

    def own(self, c: int) -> Array:
        return np.asarray(self.E[:, c] - self.U[:, c].transpose(0, 2, 1) @ self.U[:, c])

    def marginals(self, K: list[Array]) -> Array:
        T = np.stack([self.U[:, c] @ part for c, part in enumerate(K)], axis=1)
        cov = np.einsum("gaji,geji->giae", T, T, optimize=True)
        for c, part in enumerate(K):
            alone = np.diagonal(part, axis1=1, axis2=2) - np.einsum("gij,gij->gi", part @ self.E[:, c], part)
            cov[:, :, c, c] = np.maximum(cov[:, :, c, c] + alone, 0.0)
        return np.asarray(cov)

    def reduction(self, cross: list[Array]) -> Array:
        k = np.stack(cross, axis=1)[..., None]  # (g, L, s, 1)
        shared = (self.U @ k)[..., 0]
        out = -shared @ shared.transpose(0, 2, 1)
        own = range(len(cross))
        out[:, own, own] += (k * (self.E @ k)).sum(axis=(2, 3))
        return out

    def in_full(self) -> Array:
        g, L, s, _ = self.E.shape
        M = -np.einsum("gaji,gejk->giake", self.U, self.U, optimize=True)
        for c in range(L):
            M[:, :, c, :, c] += self.E[:, c]
        return np.asarray(M.reshape(g, s * L, s * L))


def solved(K: list[Array], W: Array) -> Solve:
    """From K per latent value (g, s, s), and W in full (g, s, L, L) or in the short form (g, s, L)."""
    return _short(K, W) if W.ndim == 3 else _full(K, W)


def times_sites(W: Array, x: Array) -> Array:
    """W x for x (g, s, L), W in either form; 0 for a row without a site."""
    if W.ndim == 4:
        return np.asarray(np.einsum("giab,gib->gia", W, x))
    D = np.where(W.sum(axis=2, keepdims=True) > 0, W, 1.0)
    found = times_precision(D.reshape(-1, D.shape[2]).T, x.reshape(-1, D.shape[2]).T).T.reshape(x.shape)
    return np.where(W.sum(axis=2, keepdims=True) > 0, found, 0.0)


def _full(K: list[Array], W: Array) -> Full:
    g, s, L, _ = W.shape
    root = np.sqrt(np.maximum(W, 0.0)) if L == 1 else symmetric_root(W)
    if L == 1:
        B = root[:, :, 0] * K[0] * root[:, :, 0].transpose(0, 2, 1)
    else:
        B = np.einsum("giad,dgij,gjde->giaje", root, np.stack(K), root, optimize=True).reshape(g, s * L, s * L)
    inverse, half_log_det = _inverse(B)
    if L == 1:
        M = root[:, :, 0] * inverse * root[:, :, 0].transpose(0, 2, 1)
    else:
        M = np.einsum("giad,gidje,gjef->giajf", root, inverse.reshape(g, s, L, s, L), root, optimize=True)
    return Full(M.reshape(g, s, L, s, L), half_log_det)


def _short(K: list[Array], D: Array) -> Short:
    D = np.maximum(D, 0.0)
    total = D.sum(axis=2)
    none = total <= 0.0  # a missing row
    D, total = D.transpose(0, 2, 1), np.where(none, 1.0, total)  # (g, L, s), (g, s)
    root, share = np.sqrt(D), np.sqrt(D / total[:, None])
    inverse, half = _inverse(root[..., None] * np.stack(K, axis=1) * root[:, :, None])
    E = root[..., None] * inverse * root[:, :, None]
    # G between the roots of its limit Σ D for K = 0, so that its own determinant is the one that is wanted.
    G = (share[..., None] * inverse * share[:, :, None]).sum(axis=1)
    s = range(G.shape[1])
    G[:, s, s] += none
    factor = _cholesky(G)
    half += float(np.log(np.diagonal(factor, axis1=1, axis2=2)).sum())
    U = np.linalg.inv(factor)[:, None] @ (share[..., None] * inverse * root[:, :, None])
    return Short(E, U, half)


def _inverse(B: Array) -> tuple[Array, float]:
    """(I + B)⁻¹ of symmetric B (..., s, s), overwritten, and the sum of ½ log |I + B|."""
    s = range(B.shape[-1])
    B[..., s, s] += 1.0
    half_log_det = float(np.log(np.diagonal(_cholesky(B), axis1=-2, axis2=-1)).sum())
    return np.asarray(np.linalg.inv(B)), half_log_det


def _cholesky(B: Array) -> Array:
    try:
        return np.asarray(np.linalg.cholesky(B))
    except np.linalg.LinAlgError:
        raise NotPositiveDefiniteError(f"I + W^(1/2) K W^(1/2) is not positive definite; {CURE}") from None
