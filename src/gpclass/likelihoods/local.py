r"""The input of a likelihood for one row: its latent values' marginal, its site, and the cavity without it.

A site exp(b·f − ½ fᵀW f) replaces one copy of a row's factor; f holds the row's L latent values. The precision W is
written as D, with W = D for L = 1 and W = diag(D) − D Dᵀ/Σ_c D_c for more (invariant to a common shift of all classes:
softmax at a point, and the multinomial probit's sites), or in full.

Arrays of rows have the rows last, (L, r), and matrices first, (r, L, L).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpclass._typing import Array

SHARPEST = 1e-12  # least share of a marginal's precision that a cavity keeps; less is rounding


@dataclass(frozen=True)
class RowSites:
    """Sites of r rows, one copy each."""

    b: Array  # (L, r), shifts
    D: Array | None = None  # (L, r), precisions in the short form of the module
    full: Array | None = None  # (r, L, L), precisions without a short form

    @cached_property
    def W(self) -> Array:
        """Precisions, (r, L, L)."""
        if self.full is not None:
            return self.full
        assert self.D is not None
        return precision(self.D)

    def times(self, f: Array) -> Array:
        """W f for f (L, r)."""
        if self.D is None:
            return np.asarray(np.einsum("rab,br->ar", self.W, f))
        return times_precision(self.D, f)


def precision(D: Array) -> Array:
    """W (r, L, L) of the short form D (L, r)."""
    if len(D) == 1:
        return np.asarray(D.T[:, :, None])
    W = -D.T[:, :, None] * D.T[:, None, :] / np.maximum(D.sum(axis=0), 1e-300)[:, None, None]
    own = range(len(D))
    # If one class has all the weight only rounding remains.
    W[:, own, own] = np.maximum(W[:, own, own] + D.T, 0.0)
    return np.asarray(W)


def times_precision(D: Array, f: Array) -> Array:
    """W f for the short form D (L, n) and f (..., L, n)."""
    Df = D * f
    if len(D) == 1:
        return np.asarray(Df)
    return np.asarray(Df - D * (Df.sum(axis=-2) / D.sum(axis=0))[..., None, :])


@dataclass(frozen=True)
class RowMarginals:
    """The posterior's marginals of r rows, and the sites that they hold."""

    mean: Array  # (L, r)
    cov: Array  # (r, L, L)
    sites: RowSites
    given: tuple[Array, Array] | None = None  # the cavity, if the prior has a form without cancellation

    @property
    def var(self) -> Array:
        """Variances, (L, r)."""
        return np.asarray(np.einsum("rll->lr", self.cov))

    @property
    def expected_log_site(self) -> Array:
        """E[b·f − ½ fᵀW f] of one copy's site, (r,)."""
        second = self.cov + self.mean.T[:, :, None] * self.mean.T[:, None, :]
        linear = np.sum(self.sites.b * self.mean, axis=0)
        return np.asarray(linear - 0.5 * np.einsum("rab,rab->r", self.sites.W, second))

    def cavity(self, count: Array | float = 1.0) -> tuple[Array, Array]:
        """Mean (L, r) and covariance (r, L, L) with ``count`` copies of the site divided out."""
        if self.given is not None:
            return self.given
        if len(self.mean) == 1:
            t, h = count * self.sites.W[:, 0, 0], count * self.sites.b[0]
            var = self.cov[:, 0, 0]
            left = np.maximum(1.0 - var * t, SHARPEST)
            return ((self.mean[0] - var * h) / left)[None], (var / left)[:, None, None]
        k = np.broadcast_to(np.asarray(-np.asarray(count, dtype=float)), self.mean.shape[1])
        m, S = multiplied(self.mean.T, self.cov, self.sites.W, self.sites.b.T, k)
        return m.T, S


def multiplied(m: Array, S: Array, W: Array, b: Array, k: Array) -> tuple[Array, Array]:
    """N(m, S) times k (r,) copies of the sites, or divided by them for k < 0; S may be singular."""
    system = np.eye(m.shape[1]) + k[:, None, None] * (S @ W)
    rhs = np.concatenate([S, (m + k[:, None] * np.einsum("iab,ib->ia", S, b))[:, :, None]], axis=2)
    solved = np.linalg.solve(system, rhs)
    S = solved[:, :, :-1]
    return solved[:, :, -1], 0.5 * (S + S.transpose(0, 2, 1))


def symmetric_root(S: Array) -> Array:
    """The symmetric roots of covariances (..., L, L); continuous in S, as a Cholesky factor's sign is not."""
    values, vectors = np.linalg.eigh(S)
    half = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    return np.asarray(half @ np.swapaxes(vectors, -1, -2))
