r"""Factors behind dense Gaussians: K times sites, for one latent value per row and for several.

Every :class:`Factor` gives M = (K + W⁻¹)⁻¹, K the block-diagonal prior covariance of L latent
values per row and W the sites' precision, an L×L matrix per row:

- :class:`OneFactor`: L = 1;
- :class:`~gpclass.latent.coupled.CoupledFactor`: W in the short form, n×n matrices only;
- :class:`FullFactor`: any W; one matrix of nL×nL, O((nL)³).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from scipy.linalg import lapack, solve_triangular

from gpclass._typing import Array, Generator
from gpclass.likelihoods.local import symmetric_root
from gpclass.numerics.linalg import CURE, NotPositiveDefiniteError, SiteFactor, mirror_lower
from gpclass.numerics.linalg import factor as jittered

WEAK, WEAK_ROUGH = 1e-5, 1e-3  # leverage below which rounding would show in a variance, in double and single precision
NEW_POINTS = "the posterior covariance of the new points"


class Factor(ABC):
    """The prior times sites."""

    half_log_det: float  # ½ log |I + K W|
    jitter: float = 0.0  # added to the diagonal of a matrix

    @abstractmethod
    def solve(self, b: Array) -> Array:
        """M b, for b (L, n) or (L, n, r)."""

    @property
    @abstractmethod
    def covariance(self) -> Array:
        """Posterior covariance of the latent values of each row, (n, L, L)."""

    @abstractmethod
    def blocks(self) -> Iterator[Array]:
        """The diagonal blocks M_cc (n, n), one after the other; each a new array."""

    @abstractmethod
    def predict(self, cross: Sequence[Array], prior: Sequence[Array]) -> Array:
        """Covariances (m, L, L) at new points, from k(X, X_new) (n, m) and variances (m,) per latent value."""

    @abstractmethod
    def draw(self, cross: Sequence[Array], prior: Sequence[Array], n: int, rng: Generator) -> Array:
        """Joint draws about the mean, (n, m, L), from cross and prior covariances (m, m) per latent value."""

    @property
    @abstractmethod
    def megabytes(self) -> float:
        """Memory that predictions need."""


class OneFactor(Factor):
    """One latent value per row: sites of precision t (n,)."""

    def __init__(self, K: Array, t: Array, rough: bool = False) -> None:
        self.site = SiteFactor(K, t)
        self.rough = rough  # whether variances and blocks are needed to three digits alone
        self.half_log_det = self.site.half_log_det

    def solve(self, b: Array) -> Array:
        return self.site.solve(b[0])[None]

    @cached_property
    def covariance(self) -> Array:
        """Posterior variances, (n, 1, 1); from the leverage if a site is strong, to avoid cancellation."""
        t = self.site.root**2
        leverage = self.site.rough_leverage if self.rough else self.site.leverage
        strong = leverage > (WEAK_ROUGH if self.rough else WEAK)
        variance = np.where(strong, leverage / np.where(strong, t, 1.0), 0.0)
        if not strong.all():
            variance[~strong] = self.site.variances(~strong)
        return np.asarray(np.maximum(variance, 0.0))[:, None, None]

    def blocks(self) -> Iterator[Array]:
        yield self.site.rough_inverse if self.rough else self.site.inverse

    def predict(self, cross: Sequence[Array], prior: Sequence[Array]) -> Array:
        A = self.site.half_solve(cross[0])
        return np.asarray(np.maximum(prior[0] - np.einsum("ij,ij->j", A, A), 0.0))[:, None, None]

    def draw(self, cross: Sequence[Array], prior: Sequence[Array], n: int, rng: Generator) -> Array:
        A = self.site.half_solve(cross[0])
        L, _ = jittered(prior[0] - A.T @ A, what=NEW_POINTS, scale=float(np.mean(np.diag(prior[0]))))
        return np.asarray(rng.standard_normal((n, A.shape[1])) @ L.T)[:, :, None]

    @property
    def megabytes(self) -> float:
        return float(self.site.L.nbytes / 2**20)


class FullFactor(Factor):
    """L latent values per row, sites of any precision W (n, L, L)."""

    def __init__(self, K: Sequence[Array], W: Array) -> None:
        self.K, self.root = K, symmetric_root(W)
        n, L, _ = W.shape
        B = np.zeros((L, n, L, n))
        for a in range(L):
            for b in range(a + 1):
                for c in range(L):
                    B[a, :, b] += self.root[:, a, c, None] * K[c] * self.root[:, c, b]
        flat = B.reshape(L * n, L * n)
        flat.flat[:: L * n + 1] += 1.0
        factor, info = lapack.dpotrf(flat, lower=1, clean=1)
        if info != 0:
            raise NotPositiveDefiniteError(f"I + W^(1/2) K W^(1/2) is not positive definite; {CURE}")
        self.L = np.asarray(factor)
        self.half_log_det = float(np.log(np.diag(self.L)).sum())

    def _rooted(self, b: Array) -> Array:
        """W^½ b for b (L, n, r)."""
        return np.asarray(np.einsum("iab,bir->air", self.root, b))

    def solve(self, b: Array) -> Array:
        shape = b.shape
        b = b.reshape(*shape[:2], -1)
        x, _ = lapack.dpotrs(self.L, self._rooted(b).reshape(len(self.L), -1), lower=1)
        return self._rooted(np.asarray(x).reshape(b.shape)).reshape(shape)

    def _half(self, cross: Sequence[Array]) -> list[Array]:
        """Per latent value V_c (nL, m) with V_aᵀV_b = k_aᵀ M_ab k_b."""
        found = []
        for c, k in enumerate(cross):
            rooted = (self.root[:, :, c].T[:, :, None] * k).reshape(len(self.L), -1)
            found.append(np.asarray(solve_triangular(self.L, rooted, lower=True, check_finite=False)))
        return found

    @cached_property
    def covariance(self) -> Array:
        return self.predict(self.K, [np.diag(K) for K in self.K])

    def blocks(self) -> Iterator[Array]:
        """The diagonal blocks of W^½ B⁻¹ W^½."""
        n, L, _ = self.root.shape
        inverse = mirror_lower(np.asarray(lapack.dpotri(self.L, lower=1)[0])).reshape(L, n, L, n)
        for c in range(L):
            M = np.zeros((n, n))
            for a in range(L):
                for b in range(L):
                    M += self.root[:, c, a, None] * inverse[a, :, b] * self.root[:, b, c]
            yield M

    def predict(self, cross: Sequence[Array], prior: Sequence[Array]) -> Array:
        found, own = -products(self._half(cross)), range(len(cross))
        found[:, own, own] = np.maximum(found[:, own, own] + np.stack(prior, axis=1), 0.0)
        return found

    def draw(self, cross: Sequence[Array], prior: Sequence[Array], n: int, rng: Generator) -> Array:
        V, L = np.hstack(self._half(cross)), len(cross)
        m = cross[0].shape[1]
        joint = -(V.T @ V)
        for c in range(L):
            joint[c * m : (c + 1) * m, c * m : (c + 1) * m] += prior[c]
        scale = float(np.mean([np.mean(np.diag(p)) for p in prior]))
        root, _ = jittered(0.5 * (joint + joint.T), what=NEW_POINTS, scale=scale)
        return (rng.standard_normal((n, L * m)) @ root.T).reshape(n, L, m).swapaxes(1, 2)

    @property
    def megabytes(self) -> float:
        return self.L.nbytes / 2**20


def products(V: Sequence[Array]) -> Array:
    """The column-wise products V_aᵀV_b, (m, L, L), of arrays (k, m)."""
    L = len(V)
    found = np.empty((V[0].shape[1], L, L))
    for a in range(L):
        for b in range(a + 1):
            found[:, a, b] = found[:, b, a] = np.einsum("ji,ji->i", V[a], V[b])
    return found
