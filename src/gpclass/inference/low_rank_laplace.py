r"""Laplace's approximation under the low-rank prior: a Gaussian at the mode, by Newton's method over shards.

The latent values have the prior N(0, A Aᵀ + Λ). Each row keeps its place f_i and α = K⁻¹f, both of which move along
straight lines, so that Ψ(f) = Σ log p(y_i|f_i) − ½ αᵀf costs O(n) along a step. At f the second-order sites
t = −∂² log p, h = t f + ∂ log p make a Gaussian q(u) (:mod:`gpclass.latent.low_rank_gaussian`), whose mean gives Newton's
target: f = aᵀμ + λα, α = r − s aᵀμ. A step that would lower Ψ is halved. With Z = X this is the dense approximation.

The evidence Ψ(f̂) − ½ log|B| has ½ log|B| = ½ log|P| + ½ Σ log(1 + λt); its gradient's implicit part, through f̂, is
x = b − (K + T⁻¹)⁻¹ K b with b = ½ P_ff ∂³ log p: three more passes over the rows.
Cost: n m² multiply-adds a step (no variances are needed), 4 to 8 steps; 5 n m² for the gradient and some n m.
Fails when: the posterior is far from Gaussian; probabilities are then too close to ½.
Reference: Williams & Barber (1998); Vanhatalo, Pietiläinen & Vehtari (2010), for FITC.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gpclass._settings import check_settings
from gpclass._typing import Array
from gpclass.latent.basis import Basis, blocks
from gpclass.latent.low_rank_gaussian import Accumulator, Q, SparseGaussian, starting_sites
from gpclass.latent.low_rank_gradient import Slope, gaussian_gradient
from gpclass.latent.low_rank_problem import SparseProblem
from gpclass.latent.low_rank_rows import Labels, Marginals
from gpclass.likelihoods.binary import BinaryLikelihood
from gpclass.model.rows import Shard, Sums
from gpclass.posterior import Evidence, Posterior, Report

HALVINGS = 30
ROUNDING = 1e-12  # share of Ψ: a decrement below it that no longer falls is rounding


@dataclass(frozen=True)
class SparseLaplace:
    """Settings of Laplace's approximation under the low-rank prior.

    Parameters
    ----------
    max_iter : int
        Largest number of Newton steps.
    tol : float
        Stop when the Newton decrement (twice the gain in Ψ that is still expected) is below this share of Ψ.
    """

    max_iter: int = 50
    tol: float = 1e-18

    name: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        check_settings(self, positive=("tol",), whole=("max_iter",))

    def __call__(
        self,
        problem: SparseProblem,
        noise: np.random.Generator | None = None,
        *,
        start: Posterior | None = None,
        gradient: bool = False,
    ) -> SparseGaussian:
        """Approximate the posterior of ``problem``; ``noise`` is not used."""
        began = time.perf_counter()
        mode = find_mode(problem, starting_sites(start, self.name), self)
        slope, slope_Z = None, None
        if gradient:
            held, nu = implicit(problem, mode)
            slope, slope_Z = gaussian_gradient(problem, held, Slope(mode.q, nu, implicit=True))
        return SparseGaussian(
            basis=problem.basis,
            mean=mode.q.mean,
            L=mode.q.L,
            evidence=Evidence(mode.log_z, kind="approximate", gradient=slope),
            report=Report(
                method=self.name,
                converged=mode.converged,
                reason="" if mode.converged else mode.reason,
                iterations=mode.steps,
                jitter=problem.basis.jitter,
                seconds=time.perf_counter() - began,
            ),
            gradient_Z=slope_Z,
            held=mode.held,
        )


@dataclass(frozen=True, eq=False)
class Mode:
    """Where Newton's method ended."""

    held: tuple[Any, ...]  # shards with (f, α, target of f, target of α)
    q: Q
    log_z: float
    steps: int
    converged: bool
    reason: str = ""


def find_mode(problem: SparseProblem, start: tuple[Any, ...], settings: SparseLaplace) -> Mode:
    """Newton's method on Ψ with step-halving."""
    held, _ = problem.map_reduce(rest_at_zero, problem.data.held)
    if start:
        _, sums = problem.map_reduce(project_alpha, start)
        placed, _ = problem.map_reduce(place, start, sums["projected"])
        warm, cold = (problem.map_reduce(psi, h, 0.0)[1]["psi"] for h in (placed, held))
        held = placed if warm > cold else held
    reason = f"no convergence after {settings.max_iter} steps"
    steps, last = 0, np.inf
    while True:
        steps += 1
        _, sums = problem.map_reduce(curvature, held)
        value = sums["psi"]
        q = Q.of(sums["gram"], sums["shift"])
        log_z = value - float(np.log(np.diag(q.L)).sum()) - sums["half_log"]
        aimed, sums = problem.map_reduce(aim, held, q)
        floor = sums["decrement"] >= last and sums["decrement"] < ROUNDING * (1.0 + abs(value))
        if floor or sums["decrement"] < settings.tol * (1.0 + abs(value)):
            return Mode(held, q, log_z, steps, True)
        last = sums["decrement"]
        if steps == settings.max_iter:
            return Mode(held, q, log_z, steps, False, reason)
        for halving in range(HALVINGS):
            moved, tried = problem.map_reduce(psi, aimed, 0.5**halving)
            if tried["psi"] >= value - 1e-13 * (1.0 + abs(value)):
                held = moved
                break
        else:
            small = sums["decrement"] < 1e-8
            return Mode(held, q, log_z, steps, small, f"the step was halved {HALVINGS} times")


# ---- work on shards -------------------------------------------------------------------------------------------


def rest_at_zero(shard: Shard, basis: Basis, likelihood: BinaryLikelihood) -> tuple[Shard, Sums]:
    """The place f = 0."""
    return shard.with_sites(np.zeros((4, len(shard)))), {}


def project_alpha(shard: Shard, basis: Basis, likelihood: BinaryLikelihood) -> tuple[Shard, Sums]:
    """Aᵀα, for an α that was found at other parameters."""
    assert shard.sites is not None
    total = np.zeros(basis.m)
    for rows, A, _ in blocks(shard, basis):
        total += A.T @ (Labels.of(shard, rows).copies * shard.sites[1, rows])
    return shard, {"projected": total}


def place(shard: Shard, basis: Basis, likelihood: BinaryLikelihood, projected: Array) -> tuple[Shard, Sums]:
    """The place f = K α."""
    assert shard.sites is not None
    state = shard.sites.copy()
    for rows, A, rest in blocks(shard, basis):
        state[0, rows] = A @ projected + rest * state[1, rows]
    return shard.with_sites(state), {}


def derivatives(likelihood: BinaryLikelihood, labels: Labels, f: Array) -> tuple[Array, Array, Array, Array]:
    """Log p of one copy, and its first, minus second and third derivatives."""
    log_p, d1, d2, d3 = (labels.power * part for part in likelihood.derivatives(labels.y, f))
    return log_p, d1, np.maximum(-d2, 0.0), d3


def curvature(shard: Shard, basis: Basis, likelihood: BinaryLikelihood) -> tuple[Shard, Sums]:
    """Sums of the second-order sites, Ψ, and the rows' part of ½ log|B|."""
    assert shard.sites is not None
    sums, value, half_log = Accumulator(basis.m), 0.0, 0.0
    for rows, A, rest in blocks(shard, basis):
        labels, (f, alpha) = Labels.of(shard, rows), shard.sites[:2, rows]
        log_p, d1, t, _ = derivatives(likelihood, labels, f)
        value += float(np.sum(labels.copies * (log_p - 0.5 * alpha * f)))
        half_log += 0.5 * float(np.sum(labels.copies * np.log1p(rest * t)))
        sums.add(A, rest, np.stack([t, t * f + d1]), labels)
    return shard, {**sums.result(), "psi": value, "half_log": half_log}


def aim(shard: Shard, basis: Basis, likelihood: BinaryLikelihood, q: Q) -> tuple[Shard, Sums]:
    """Newton's target, and the decrement."""
    assert shard.sites is not None
    state, decrement = shard.sites.copy(), 0.0
    for rows, A, rest in blocks(shard, basis):
        labels, (f, alpha) = Labels.of(shard, rows), state[:2, rows]
        _, d1, t, _ = derivatives(likelihood, labels, f)
        mean = A @ q.mean
        state[3, rows] = (t * (f - mean) + d1) / (1.0 + rest * t)
        state[2, rows] = mean + rest * state[3, rows]
        decrement += float(np.sum(labels.copies * (state[2, rows] - f) * (d1 - alpha)))
    return shard.with_sites(state), {"decrement": decrement}


def psi(shard: Shard, basis: Basis, likelihood: BinaryLikelihood, step: float) -> tuple[Shard, Sums]:
    """The place a step towards the target, and Ψ there."""
    assert shard.sites is not None
    f, alpha, f_new, alpha_new = shard.sites
    f, alpha = f + step * (f_new - f), alpha + step * (alpha_new - alpha)
    labels = Labels.of(shard, slice(None))
    log_p = labels.power * likelihood.log_prob(labels.y, f)
    value = float(np.sum(labels.copies * (log_p - 0.5 * alpha * f)))
    return shard.with_sites(np.stack([f, alpha, f_new, alpha_new])), {"psi": value}


def implicit(problem: SparseProblem, mode: Mode) -> tuple[tuple[Any, ...], Array]:
    """Shards with (t, h, x), x the implicit part of the gradient, and ν = Σ x a."""
    held, sums = problem.map_reduce(third_order, mode.held, mode.q)
    held, sums = problem.map_reduce(times_prior, held, sums["b"])
    towards = mode.q.covariance @ sums["y"]
    held, sums = problem.map_reduce(take_out, held, towards)
    return held, sums["nu"]


def third_order(shard: Shard, basis: Basis, likelihood: BinaryLikelihood, q: Q) -> tuple[Shard, Sums]:
    """Sites (t, h, b), b = ½ P_ff ∂³ log p; Σ b a."""
    assert shard.sites is not None
    state, total = np.empty((3, len(shard))), np.zeros(basis.m)
    for rows, A, rest in blocks(shard, basis):
        labels, f = Labels.of(shard, rows), shard.sites[0, rows]
        _, d1, t, d3 = derivatives(likelihood, labels, f)
        sites = np.stack([t, t * f + d1])
        _, variance = Marginals.at(sites, rest, *q.marginals(A)).latent
        state[:2, rows], state[2, rows] = sites, 0.5 * variance * d3
        total += A.T @ (labels.copies * state[2, rows])
    return shard.with_sites(state), {"b": total}


def times_prior(
    shard: Shard, basis: Basis, likelihood: BinaryLikelihood, projected: Array
) -> tuple[Shard, Sums]:
    """Sites (t, h, b, y), y = K b; Σ s y a."""
    assert shard.sites is not None
    state, total = np.empty((4, len(shard))), np.zeros(basis.m)
    state[:3] = shard.sites
    for rows, A, rest in blocks(shard, basis):
        t, _, b = shard.sites[:, rows]
        state[3, rows] = A @ projected + rest * b
        total += A.T @ (Labels.of(shard, rows).copies * t / (1 + rest * t) * state[3, rows])
    return shard.with_sites(state), {"y": total}


def take_out(shard: Shard, basis: Basis, likelihood: BinaryLikelihood, towards: Array) -> tuple[Shard, Sums]:
    """Sites (t, h, x), x = b − (K + T⁻¹)⁻¹ y; Σ x a."""
    assert shard.sites is not None
    state, total = shard.sites[:3].copy(), np.zeros(basis.m)
    for rows, A, rest in blocks(shard, basis):
        t, _, b, y = shard.sites[:, rows]
        state[2, rows] = b - t / (1 + rest * t) * (y - A @ towards)
        total += A.T @ (Labels.of(shard, rows).copies * state[2, rows])
    return shard.with_sites(state), {"nu": total}
