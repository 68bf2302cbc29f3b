r"""A Gaussian over u, the Gaussian approximations' posterior under the low-rank prior, and its sums over shards.

Sites of precision s and shift r on g_i = a_iᵀu (:mod:`gpclass.latent.low_rank_rows`) make of u ~ N(0, I)

    q(u) = N(μ, P⁻¹),   P = I + Σ_i s_i a_i a_iᵀ,   P μ = Σ_i r_i a_i,

so that one pass over the rows gives what the next q needs: an m×m and an m-vector. A new point has
E f* = a*ᵀμ and var f* = |L⁻¹a*|² + λ*, P = L Lᵀ.
Cost: n m² multiply-adds a pass for P and as many for the variances, O(m³) for the factor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import lapack, solve_triangular

from gpclass._typing import Array
from gpclass.latent.basis import Basis, blocks, gram, inverse, whiten
from gpclass.latent.low_rank_rows import UPDATES, Labels, Marginals, first_sites
from gpclass.likelihoods.binary import BinaryLikelihood
from gpclass.model.rows import Shard, Sums
from gpclass.numerics.linalg import NotPositiveDefiniteError, factor
from gpclass.numerics.threads import one_thread
from gpclass.posterior import Evidence, LatentMixture, Report

PREDICT_BLOCK = 512  # new points at once


@dataclass(frozen=True, eq=False)
class Q:
    """N(mean, (L Lᵀ)⁻¹) over u."""

    mean: Array  # (m,)
    L: Array  # (m, m), lower factor of the precision, Fortran order
    shift: Array  # (m,), precision times mean

    @classmethod
    def of(cls, precision: Array, shift: Array) -> Q:
        """From Σ s a aᵀ and Σ r a."""
        P = np.array(precision, order="F")
        P.flat[:: len(shift) + 1] += 1.0
        L, info = lapack.dpotrf(P, lower=1, clean=1, overwrite_a=1)
        mean, _ = lapack.dpotrs(L, shift, lower=1)
        # Some factorisations pass NaN on without a word; the mean then has it.
        if info != 0 or not np.isfinite(mean).all():
            raise NotPositiveDefiniteError(
                "the sites are not finite: check the kernel's parameters and the scale of the data"
            )
        return cls(np.asarray(mean), np.asarray(L), shift)

    @property
    def log_mass(self) -> float:
        """Log ∫ N(u; 0, I) exp(shiftᵀu − ½ uᵀ(P − I)u) du."""
        return float(0.5 * self.shift @ self.mean - np.log(np.diag(self.L)).sum())

    @cached_property
    def covariance(self) -> Array:
        """P⁻¹."""
        return inverse(self.L)

    def marginals(self, A: Array) -> tuple[Array, Array]:
        """Mean and variance of a_iᵀu for the rows of A (r, m)."""
        V = whiten(self.L, A.copy())
        return A @ self.mean, np.einsum("ij,ij->i", V, V)

    def distance(self, other: Q) -> float:
        """How far the two are, in standard deviations: means by this precision, and the precisions' relative change."""
        gap = self.L.T @ (self.mean - other.mean)
        ratio = solve_triangular(self.L, other.L, lower=True, check_finite=False)
        change = ratio @ ratio.T
        change.flat[:: len(change) + 1] -= 1.0
        return float(np.sqrt(gap @ gap + 0.5 * np.vdot(change, change)))


@dataclass(frozen=True, eq=False)
class SparseGaussian:
    """The posterior of a Gaussian approximation."""

    basis: Basis
    mean: Array  # (m,), of u
    L: Array  # (m, m), lower factor of the precision of u
    evidence: Evidence
    report: Report
    gradient_Z: Array | None = (
        None  # (m, d), of log Z by the inducing inputs, when the gradient was asked for
    )
    held: tuple[Any, ...] = field(default=(), repr=False)  # shards with their sites, to start neighbours from

    @property
    def n_components(self) -> int:
        """One Gaussian."""
        return 1

    def latent(self, X_new: Array) -> LatentMixture:
        """One Gaussian a point."""
        mean, variance = np.empty(len(X_new)), np.empty(len(X_new))
        q = Q(self.mean, self.L, self.mean)
        with one_thread():
            for start in range(0, len(X_new), PREDICT_BLOCK):
                rows = slice(start, start + PREDICT_BLOCK)
                A, rest = self.basis.features(X_new[rows])
                mean[rows], variance[rows] = q.marginals(A)
                variance[rows] += rest
        return LatentMixture.single(mean, variance)

    def draw(self, X_new: Array, n: int, rng: np.random.Generator) -> Array:
        """Joint draws over X_new, (n, k, 1). Cost: O(k³) for k points."""
        A, root = conditional(self.basis, X_new)
        noise = rng.standard_normal((n, len(self.mean)))
        u = self.mean + solve_triangular(self.L, noise.T, lower=True, trans=1, check_finite=False).T
        return (u @ A.T + rng.standard_normal((n, len(X_new))) @ root.T)[:, :, None]

    def state(self) -> dict[str, Any]:
        """What a file keeps: all but the shards."""
        return {
            "kernel": self.basis.kernel,
            "Z": self.basis.Z,
            "mean": self.mean,
            "L": self.L,
            "evidence": self.evidence,
            "report": self.report,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> SparseGaussian:
        """The posterior, without shards."""
        basis = Basis(state["kernel"], state["Z"])
        return cls(basis, state["mean"], state["L"], state["evidence"], state["report"])


@dataclass(frozen=True)
class Warm:
    """Where a method may start: from sites that a file kept, or from q(u) found on other rows at the same basis."""

    held: tuple[Any, ...]
    method: str
    q: Q | None = None


def starting_sites(start: Any, method: str) -> tuple[Any, ...]:
    """Shards with the sites of a neighbouring posterior of the same method; none if it is another's."""
    if isinstance(start, Warm):
        return start.held if start.method == method else ()
    same = isinstance(start, SparseGaussian) and start.report.method == method
    return start.held if same else getattr(start, "ep_sites", ()) if method == "ep" else ()


def conditional(basis: Basis, X_new: Array) -> tuple[Array, Array]:
    """A (k, m), and a root of the covariance of f(X_new) given u: whole, so that draws are smooth functions."""
    A, _ = basis.features(X_new)
    root, _ = factor(
        basis.covariance(X_new) - A @ A.T,
        what="the covariance of the new points given the inducing values",
        scale=float(np.mean(basis.covariance.diag(X_new))),
    )
    return A, root


# ---- work on shards: pure functions ---------------------------------------------------------------------------


def begin(
    shard: Shard, basis: Basis, likelihood: BinaryLikelihood, kind: str, q: Q | None
) -> tuple[Shard, Sums]:
    """Sites as the marginals under q, or under the prior, ask for; the sums of the first q of these rows."""
    sites = np.empty((2, len(shard)))
    sums = Accumulator(basis.m)
    for rows, A, rest in blocks(shard, basis):
        labels = Labels.of(shard, rows)
        mean, variance = (np.zeros(len(A)), np.einsum("ij,ij->i", A, A)) if q is None else q.marginals(A)
        sites[:, rows] = labels.clear_absent(first_sites(kind, likelihood, labels, mean, variance + rest))
        sums.add(A, rest, sites[:, rows], labels)
    return shard.with_sites(sites), sums.result()


def gather(shard: Shard, basis: Basis, likelihood: BinaryLikelihood) -> tuple[Shard, Sums]:
    """The sums of q for the sites as they are."""
    assert shard.sites is not None
    sums = Accumulator(basis.m)
    for rows, A, rest in blocks(shard, basis):
        sums.add(A, rest, shard.sites[:2, rows], Labels.of(shard, rows))
    return shard.with_sites(shard.sites[:2]), sums.result()


def sweep(
    shard: Shard, basis: Basis, likelihood: BinaryLikelihood, kind: str, q: Q, step: float, remember: int
) -> tuple[Shard, Sums]:
    """New sites for every row, moved by ``step``, from q of the old ones; their sums, and the evidence of the old.

    Beside the new sites the shard keeps the last ``remember`` outcomes of full steps, for :func:`mix`.
    """
    assert shard.sites is not None
    known = min(remember, len(shard.sites) // 2)
    sites, value = np.empty((2 + 2 * known, len(shard))), 0.0
    sites[4:] = shard.sites[2 : 2 * known]
    sums = Accumulator(basis.m)
    for rows, A, rest in blocks(shard, basis):
        labels, old = Labels.of(shard, rows), shard.sites[:2, rows]
        at = Marginals.at(old, rest, *q.marginals(A))
        new, terms = UPDATES[kind](likelihood, labels, at)
        value += float(np.sum(labels.copies * terms))
        new = labels.clear_absent(new)
        sites[:2, rows] = new if step == 1.0 else old + step * (new - old)
        if known:
            sites[2:4, rows] = new
        sums.add(A, rest, sites[:2, rows], labels)
    return shard.with_sites(sites), {**sums.result(), "value": value}


def mix(shard: Shard, basis: Basis, likelihood: BinaryLikelihood, shares: Array) -> tuple[Shard, Sums]:
    """Sites that are a mixture of the kept outcomes, newest first; the newest alone where that is no site."""
    assert shard.sites is not None
    sites = shard.sites.copy()
    outcomes = sites[2 : 2 + 2 * len(shares)].reshape(len(shares), 2, -1)
    mixed = np.einsum("k,kjr->jr", shares, outcomes)
    sites[:2] = np.where(mixed[0] > 0.2 * outcomes[0, 0], mixed, outcomes[0])
    sums = Accumulator(basis.m)
    for rows, A, rest in blocks(shard, basis):
        sums.add(A, rest, sites[:2, rows], Labels.of(shard, rows))
    return shard.with_sites(sites), sums.result()


class Accumulator:
    """Σ s a aᵀ and Σ r a over blocks of rows."""

    def __init__(self, m: int) -> None:
        self.gram = np.zeros((m, m), order="F")
        self.shift = np.zeros(m)

    def add(self, A: Array, rest: Array, sites: Array, labels: Labels) -> None:
        """The rows of one block, with their sites (2, r)."""
        share = labels.copies / (1.0 + rest * sites[0])
        self.gram += gram(A, share * sites[0])
        self.shift += A.T @ (share * sites[1])

    def result(self) -> Sums:
        """Both sums."""
        return {"gram": self.gram, "shift": self.shift}
