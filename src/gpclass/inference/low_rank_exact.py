r"""The exact posterior under the low-rank prior: weighted draws of u from EP's Gaussian.

    p(y) = ∫ N(u; 0, I) Π_i ℓ_i(a_iᵀu)^c_i du,    w = N(u; 0, I) Π ℓ_i^c_i / q(u),   u ~ q = EP's N(μ, P⁻¹),

ℓ_i the likelihood with the row's own rest integrated out. The dimension is m whatever the number of rows, the log
weights are sums over shards, and the more rows there are for each inducing input the closer the posterior is to a
Gaussian: the weights grow more even with n. Draws are mirrored points of randomised lattices; their number is set by
draws that are thrown away, so that the weights' mean stays unbiased. Given u a new value is N(a*ᵀu, λ*).

"Exact" means: for the prior that Z defines, with no approximation but the Monte Carlo error, which is stated. How far
that prior is from the dense one is another question (:mod:`gpclass.hyper.staged.quality`).

Gradient, by the score: ∂ log p(y)/∂a_i = E[c_i (log ℓ_i)' u], ∂ log p(y)/∂λ_i = ½ E[c_i ℓ_i''/ℓ_i].
Cost: EP, then n m M multiply-adds and n M terms of the likelihood for M draws; O(m M) memory beside the rows'.
Fails when: the weights have a heavy tail (k-hat > 0.7 in the report): the stated error may then be too small.
Reference: Filippone & Girolami (2014), for EP as importance distribution.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtri

from gpclass._settings import check_settings
from gpclass._typing import Array, IntArray
from gpclass.inference.exact import ROUNDS, SLACK, look_at
from gpclass.inference.exact_latent import HEAVY
from gpclass.inference.low_rank_sites import FixedPoint, SparseEP, iterate
from gpclass.latent.basis import Basis, blocks
from gpclass.latent.low_rank_gaussian import conditional
from gpclass.latent.low_rank_gradient import RowSums, finish
from gpclass.latent.low_rank_problem import SparseProblem
from gpclass.latent.low_rank_rows import Labels
from gpclass.likelihoods.binary import BinaryLikelihood
from gpclass.likelihoods.smeared import log_smeared, slopes
from gpclass.model.rows import Shard, Sums
from gpclass.orthant.uniforms import REPLICATES, point_sets, replicate_sizes
from gpclass.orthant.weights import effective_size, heavy, log_mean, pareto_khat, relative_error
from gpclass.posterior import Evidence, LatentMixture, Posterior, Report
from gpclass.predict.two import predict_proba

EP_TOL = 1e-3  # the draws correct EP
CELLS = 200_000  # rows × draws worked at once: 1.6 MB an array
DRAWS_IN_MEMORY = 40_000_000  # m × draws
TERMS = 400_000_000  # rows × draws that ``tol`` may ask for: half a minute


@dataclass(frozen=True)
class SparseExact:
    """Settings of the exact inference under the low-rank prior.

    Parameters
    ----------
    tol : float
        Wanted Monte Carlo standard error of the probabilities at the training points.
    n_samples : int, optional
        A fixed number of draws instead of ``tol``.
    first, max_samples : int
        Draws before ``tol`` is judged, and the most that may be drawn for it.
    """

    tol: float = 1e-3
    n_samples: int | None = None
    first: int = 1000
    max_samples: int = 20_000

    name: ClassVar[str] = "exact"
    stochastic: ClassVar[bool] = True
    guide: ClassVar[SparseEP] = SparseEP().guide

    def __post_init__(self) -> None:
        check_settings(self, positive=("tol",), whole=("n_samples", "first", "max_samples"))

    @property
    def for_search(self) -> SparseExact:
        """A fixed, moderate number of draws, for steps in θ."""
        return replace(self, n_samples=self.n_samples or self.first)

    def __call__(
        self,
        problem: SparseProblem,
        noise: np.random.Generator | None = None,
        *,
        start: Posterior | None = None,
        gradient: bool = False,
    ) -> SparseDraws:
        """Draw from the posterior of ``problem`` with the random numbers of ``noise``."""
        began = time.perf_counter()
        rng = np.random.default_rng(0) if noise is None else noise
        ep = iterate(problem, "ep", start, 100, EP_TOL)
        drawn, met = self._draw(problem, ep, rng)
        slope, slope_Z = score(problem, ep.held, drawn) if gradient else (None, None)
        warnings = () if met else (self._unmet(len(drawn.log_w)),)
        if heavy(drawn.log_w):
            warnings = (*warnings, HEAVY)
        return SparseDraws(
            basis=problem.basis,
            U=drawn.U,
            weights=drawn.weights,
            group=drawn.group,
            evidence=Evidence(
                log_mean(drawn.log_w), relative_error(drawn.log_w, drawn.group), "unbiased", slope
            ),
            report=Report(
                method=self.name,
                jitter=problem.basis.jitter,
                n_samples=len(drawn.log_w),
                ess=effective_size(drawn.log_w),
                khat=pareto_khat(drawn.log_w),
                seconds=time.perf_counter() - began,
                warnings=warnings,
                details={"ep_log_evidence": ep.value},
            ),
            gradient_Z=slope_Z,
            ep_sites=ep.held,
        )

    def _draw(self, problem: SparseProblem, ep: FixedPoint, rng: np.random.Generator) -> tuple[Drawn, bool]:
        """As many draws as were asked for, or as the tolerance needs."""
        if self.n_samples is not None:
            return draw(problem, ep, self.n_samples, rng), True
        A, rest = _few(problem)
        M, most = self.first, self.most(problem.basis.m, problem.n)
        drawn = draw(problem, ep, M, rng.spawn(1)[0])
        for _ in range(ROUNDS):
            error = _error(drawn, A, rest, problem.likelihood)
            wanted = int(np.clip(1.2 * M * (error / self.tol) ** 2, self.first, most))
            if wanted <= M and M > self.first:
                break
            M = max(wanted, M)
            drawn = draw(problem, ep, M, rng.spawn(1)[0])
            if _error(drawn, A, rest, problem.likelihood) <= self.tol:
                return drawn, True
        return drawn, _error(drawn, A, rest, problem.likelihood) <= SLACK * self.tol

    def most(self, m: int, n: int) -> int:
        """The most draws of u that are made for n rows, within memory and patience."""
        if self.n_samples is not None:
            return self.n_samples
        return max(self.first, min(self.max_samples, DRAWS_IN_MEMORY // m, TERMS // n))

    def _unmet(self, M: int) -> str:
        return (
            f"the Monte Carlo error of the probabilities is above tol={self.tol:g} after {M} draws; "
            "raise tol, or fix the number of draws with Exact(n_samples=...)"
        )


@dataclass(frozen=True, eq=False)
class SparseDraws:
    """Weighted draws of u."""

    basis: Basis
    U: Array  # (M, m)
    weights: Array  # (M,), sums to one
    group: IntArray  # (M,)
    evidence: Evidence
    report: Report
    gradient_Z: Array | None = None  # (m, d), when the gradient was asked for
    ep_sites: tuple[Any, ...] = ()  # shards with EP's sites, to start neighbours from

    @property
    def n_components(self) -> int:
        """Number of draws."""
        return len(self.weights)

    def latent(self, X_new: Array) -> LatentMixture:
        """One Gaussian a draw and point; all draws share the variance λ*."""
        A, rest = self.basis.features(X_new)
        return LatentMixture(self.weights, (self.U @ A.T)[:, :, None], rest[None, :, None, None], self.group)

    def draw(self, X_new: Array, n: int, rng: np.random.Generator) -> Array:
        """Joint draws over X_new, (n, k, 1)."""
        A, root = conditional(self.basis, X_new)
        chosen = rng.choice(len(self.weights), size=n, p=self.weights)
        return (self.U[chosen] @ A.T + rng.standard_normal((n, len(X_new))) @ root.T)[:, :, None]

    def state(self) -> dict[str, Any]:
        """What a file keeps: all but the shards."""
        kept = ("U", "weights", "group", "evidence", "report")
        return {"kernel": self.basis.kernel, "Z": self.basis.Z, **{key: getattr(self, key) for key in kept}}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> SparseDraws:
        """The draws, without shards."""
        kernel, Z = state.pop("kernel"), state.pop("Z")
        return cls(basis=Basis(kernel, Z), **state)


@dataclass(frozen=True, eq=False)
class Drawn:
    """Draws with their log weights."""

    U: Array  # (M, m)
    log_w: Array  # (M,)
    group: IntArray  # (M,)

    @property
    def weights(self) -> Array:
        """Sum to one."""
        w = np.exp(self.log_w - self.log_w.max())
        return np.asarray(w / w.sum())


def draw(problem: SparseProblem, ep: FixedPoint, M: int, rng: np.random.Generator) -> Drawn:
    """M weighted draws in independent randomisations."""
    sizes = replicate_sizes(M, REPLICATES)
    xi = ndtri(np.hstack(list(point_sets("lattice", problem.basis.m, sizes, rng))))  # (m, M)
    q = ep.q
    U = solve_triangular(q.L, xi, lower=True, trans=1, check_finite=False) + q.mean[:, None]
    _, sums = problem.map_reduce(log_likelihood, ep.held, U)
    prior = 0.5 * (np.einsum("ms,ms->s", xi, xi) - np.einsum("ms,ms->s", U, U))
    log_w = sums["log_likelihood"] + prior - float(np.log(np.diag(q.L)).sum())
    return Drawn(np.ascontiguousarray(U.T), log_w, np.repeat(np.arange(len(sizes)), sizes))


def log_likelihood(shard: Shard, basis: Basis, likelihood: BinaryLikelihood, U: Array) -> tuple[Shard, Sums]:
    """Σ_i c_i log ℓ_i(a_iᵀu) for every draw, U (m, M)."""
    total = np.zeros(U.shape[1])
    for rows, A, rest in blocks(shard, basis):
        labels = Labels.of(shard, rows)
        step = max(1, CELLS // len(A))
        for a in range(0, U.shape[1], step):
            terms = log_smeared(likelihood, labels, A @ U[:, a : a + step], rest)
            total[a : a + step] += np.broadcast_to(labels.copies, len(A)) @ terms
    return shard, {"log_likelihood": total}


def score(problem: SparseProblem, held: tuple[Any, ...], drawn: Drawn) -> tuple[Array, Array | None]:
    """Gradients of the log evidence by θ and Z; None for Z if the kernel has no fast derivative by its inputs."""
    move_Z = problem.covariance.fast
    _, sums = problem.map_reduce(score_rows, held, drawn.U, drawn.weights, move_Z)
    return finish(problem, sums, move_Z)


def score_rows(
    shard: Shard, basis: Basis, likelihood: BinaryLikelihood, U: Array, weights: Array, move_Z: bool
) -> tuple[Shard, Sums]:
    """The sums of the score, U (M, m)."""
    sums, X = RowSums(basis, move_Z), shard.rows()
    for rows, A, rest in blocks(shard, basis):
        labels = Labels.of(shard, rows)
        A_bar, rest_bar = np.zeros_like(A), np.zeros(len(A))
        step = max(1, CELLS // len(A))
        for a in range(0, len(U), step):
            few, w = U[a : a + step], weights[a : a + step]
            d1, bend = slopes(likelihood, labels, A @ few.T, rest)
            A_bar += (d1 * w) @ few
            rest_bar += 0.5 * (bend @ w)
        c = np.broadcast_to(labels.copies, len(A))
        sums.add(X[rows], A, A_bar * c[:, None], rest, c * rest_bar)
    return shard, sums.result()


def _few(problem: SparseProblem) -> tuple[Array, Array]:
    """A and λ of the training rows at which the error is judged."""
    source = problem.data.source
    assert source is not None
    return problem.basis.features(source.take(look_at(problem.n))[0])


def _error(drawn: Drawn, A: Array, rest: Array, likelihood: BinaryLikelihood) -> float:
    """The largest Monte Carlo error of a probability there."""
    mixture = LatentMixture(
        drawn.weights, (drawn.U @ A.T)[:, :, None], rest[None, :, None, None], drawn.group
    )
    return float(np.max(predict_proba(mixture, likelihood).mcse))
