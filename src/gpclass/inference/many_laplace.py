r"""Laplace's approximation for softmax, joint over the latent values of all C classes.

Maximise Ψ(f) = Σ_i w_i log π_{i,y_i} − ½ Σ_c f_cᵀK_c⁻¹f_c by Newton's method in a = K⁻¹f, where the log
likelihood's curvature is W = D − D R (RᵀDR)⁻¹ RᵀD with D = w π (not diagonal: the classes compete). With
M of :mod:`gpclass.latent.coupled` the step is Δa = r − M K r, r = w(y − π) − a, and

    log q(y) = Ψ(f̂) − ½ log|I + K W|,
    d log q / dK_c = ½ (α_c α_cᵀ − M_cc) + u_c α_cᵀ,    u = s − M K s,
    s_ic = −½ w_i π_ic [ Σ_cc − Σ_a π_a Σ_aa − 2 (Σπ)_c + 2 πᵀΣπ ]   (Σ the C×C posterior covariance at i),

the last term being the mode's own motion. Each factor serves several steps (the chord method).
Cost: C n³ multiply-adds a factor, 2 to 6 factors, 2 C n³ more for a gradient; O(C n²) memory, never nC×nC.
Fails when: as for two classes, the posterior is far from Gaussian.
Reference: Williams & Barber (1998), §4; Rasmussen & Williams (2006), §3.5, whose evidence and gradient are
worked out here for weights and for a kernel a class.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp

from gpclass._typing import Array
from gpclass.latent.coupled import CoupledFactor
from gpclass.latent.many_gaussian import MultiGaussianPosterior
from gpclass.model.many_problem import MultiProblem
from gpclass.posterior import Evidence, Posterior, Report

CHORD_GAIN = 0.2  # keep a factor while each step shrinks the Newton decrement at least this much


@dataclass(frozen=True)
class SoftmaxLaplace:
    """Settings of Laplace's approximation for many classes.

    Parameters
    ----------
    max_iter : int
        Largest number of factorisations.
    tol : float
        Stop when the Newton decrement (twice the gain in Ψ that is still expected) is below this share of Ψ.
    """

    max_iter: int = 50
    tol: float = 1e-14

    name: ClassVar[str] = "laplace"
    likelihood: ClassVar[str] = "softmax"

    def __call__(
        self,
        problem: MultiProblem,
        noise: np.random.Generator | None = None,
        *,
        start: Posterior | None = None,
        gradient: bool = False,
    ) -> MultiGaussianPosterior:
        """Approximate the posterior of ``problem``; ``noise`` is not used."""
        began = time.perf_counter()
        shape = (problem.n_classes, problem.n)
        alpha0 = None
        if isinstance(start, MultiGaussianPosterior) and start.alpha.shape == shape:
            alpha0 = start.alpha
        mode = _find_mode(problem, alpha0, self.max_iter, self.tol)
        log_z = mode.at.psi - mode.factor.half_log_det
        slope = _gradient(problem, mode) if gradient else None
        return MultiGaussianPosterior(
            problem=problem,
            mean=mode.at.f,
            alpha=mode.at.a,
            factor=mode.factor,
            evidence=Evidence(log_z, kind="approximate", gradient=slope),
            report=Report(
                method=self.name,
                converged=mode.converged,
                reason=mode.reason,
                iterations=mode.factorisations,
                seconds=time.perf_counter() - began,
                details={"n_classes": problem.n_classes, "memory_mb": mode.factor.megabytes},
            ),
        )


@dataclass(frozen=True)
class _Point:
    """A trial value of the latents with what the likelihood says there."""

    a: Array  # (C, n)
    f: Array  # (C, n), K a
    pi: Array  # (C, n)
    g: Array  # (C, n), gradient of the log likelihood
    psi: float


@dataclass(frozen=True)
class _Mode:
    at: _Point
    factor: CoupledFactor
    factorisations: int
    converged: bool
    reason: str


def _point(problem: MultiProblem, a: Array, f: Array) -> _Point:
    log_pi = f - logsumexp(f, axis=0)
    pi = np.exp(log_pi)
    log_lik = problem.weighted(log_pi[problem.y, np.arange(problem.n)]).sum()
    return _Point(a, f, pi, problem.weighted(problem.one_hot - pi), float(log_lik - 0.5 * np.vdot(a, f)))


def _find_mode(problem: MultiProblem, alpha0: Array | None, max_iter: int, tol: float) -> _Mode:
    """Newton's method on Ψ, each factor used while its steps still gain."""
    zero = np.zeros((problem.n_classes, problem.n))
    at = _point(problem, zero, zero)
    if alpha0 is not None:
        warm = _point(problem, alpha0, problem.times_K(alpha0))
        at = warm if warm.psi > at.psi else at
    for iteration in range(1, max_iter + 1):
        factor, last = CoupledFactor(problem.K, problem.weighted(at.pi)), np.inf
        first = True
        while True:
            r = at.g - at.a
            step_a = r - factor.solve(problem.times_K(r))
            step_f = problem.times_K(step_a)
            decrement = float(np.vdot(step_f, r))
            if decrement < tol * (1.0 + abs(at.psi)):
                if first:
                    return _Mode(at, factor, iteration, True, "")
                break
            if decrement > CHORD_GAIN * last:
                break
            moved = _line_search(problem, at, step_a, step_f)
            if moved is None:
                if first:
                    fine = decrement < 1e-8
                    return _Mode(at, factor, iteration, fine, "" if fine else "the step was halved 30 times")
                break
            at, last, first = moved, decrement, False
    factor = CoupledFactor(problem.K, problem.weighted(at.pi))
    return _Mode(at, factor, max_iter, False, f"no convergence after {max_iter} factorisations")


def _line_search(problem: MultiProblem, at: _Point, step_a: Array, step_f: Array) -> _Point | None:
    """Halve the step until Ψ does not fall; None if thirty halvings are not enough."""
    size = 1.0
    for _ in range(30):
        trial = _point(problem, at.a + size * step_a, at.f + size * step_f)
        if trial.psi >= at.psi - 1e-13 * (1.0 + abs(at.psi)):
            return trial
        size *= 0.5
    return None


def _gradient(problem: MultiProblem, mode: _Mode) -> Array:
    """d log q / dθ."""
    factor, alpha, pi = mode.factor, mode.at.a, mode.at.pi
    sigma = factor.covariance  # (n, C, C)
    own = np.einsum("icc->ci", sigma) * pi  # π_c Σ_cc
    cross = np.einsum("iab,bi->ai", sigma, pi)  # (Σπ)_a
    mean_own = own.sum(axis=0)
    mean_cross = (pi * cross).sum(axis=0)
    s = -0.5 * problem.weighted(own - pi * (mean_own + 2.0 * cross - 2.0 * mean_cross))
    left = 0.5 * alpha + s - factor.solve(problem.times_K(s))
    return problem.pull(np.outer(left[c], alpha[c]) - 0.5 * block for c, block in enumerate(factor.blocks()))
