"""Variational Gaussian: the Gaussian q(f) that is closest to the posterior in KL(q || p).

The optimum has covariance (K⁻¹ + T)⁻¹ with T diagonal, so 2n numbers (t, h) describe it. With
E_i(m, v) = ∫ N(f; m, v) log p(y_i|f) df, a natural-gradient step of size ρ is
  t ← (1 − ρ) t − 2ρ ∂E/∂v,   h ← (1 − ρ) h + ρ (∂E/∂m − 2 m ∂E/∂v).
The full step ρ = 1 overshoots in some directions and crawls in others when the prior variance is large, so steps are
mixed by Anderson's method (:mod:`gpclass.numerics.anderson`); where the bound Σ w_i E_i − KL(q || prior) would fall, ρ is halved
instead. At the optimum d bound / dK = ½(ααᵀ − (K + T⁻¹)⁻¹).
Cost: O(n³) a step, 5 to 30 steps; O(n²) memory.
Fails when: the bound is a lower bound on log p(y), so kernel parameters that maximise it are drawn to where
it is tight; variances are too small.
Reference: Opper & Archambeau (2009); Khan & Lin (2017) for the step.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gpclass._settings import check_settings
from gpclass._typing import Array
from gpclass.inference.gaussian import GaussianPosterior
from gpclass.model.problem import Problem
from gpclass.numerics.anderson import Mixing
from gpclass.numerics.linalg import SiteFactor
from gpclass.posterior import Evidence, Posterior, Report

DEPTH = 6  # steps that the mixing remembers


@dataclass(frozen=True)
class Variational:
    """Settings of the variational Gaussian approximation.

    Parameters
    ----------
    max_iter : int
        Largest number of natural-gradient steps.
    tol : float
        Stop when the bound and every site change by less than this, relatively, in a full step.
    """

    max_iter: int = 200
    tol: float = 1e-8

    name: ClassVar[str] = "variational"

    def __post_init__(self) -> None:
        check_settings(self, positive=("tol",), whole=("max_iter",))

    def __call__(
        self,
        problem: Problem,
        noise: np.random.Generator | None = None,
        *,
        start: Posterior | None = None,
        gradient: bool = False,
    ) -> GaussianPosterior:
        """Approximate the posterior of ``problem``; ``noise`` is not used."""
        began = time.perf_counter()
        if isinstance(start, GaussianPosterior) and len(start.t) == problem.n:
            t, h = start.t, start.h
        else:
            # At q = prior the step of size one is the best first guess.
            _, dm, dv = _expectations(problem, np.zeros(problem.n), np.diag(problem.prior.K).copy())
            t, h = -2.0 * dv, dm
        state, history = _evaluate(problem, t, h), Mixing(DEPTH, least=3)
        converged, reason, iterations = False, f"no convergence after {self.max_iter} steps", 0
        while iterations < self.max_iter:
            iterations += 1
            t_new, h_new = -2.0 * state.dv, state.dm - 2.0 * state.mean * state.dv
            change = _relative(t_new - state.t, state.t) + _relative(h_new - state.h, state.h)
            if change < self.tol:
                converged = True
                break
            step = _ascend(problem, state, t_new, h_new, history)
            if step is None:
                converged = change < 1e3 * self.tol
                reason = f"the bound no longer rises, sites still move by {change:.1e}"
                break
            state = step
        alpha = state.h - state.t * state.mean
        slope = problem.gradient(state.factor, 0.5 * alpha[:, None], alpha[:, None]) if gradient else None
        return GaussianPosterior(
            problem=problem,
            mean=state.mean,
            alpha=alpha,
            t=state.t,
            h=state.h,
            factor=state.factor,
            evidence=Evidence(state.bound, kind="bound", gradient=slope),
            report=Report(
                method=self.name,
                converged=converged,
                reason="" if converged else reason,
                iterations=iterations,
                seconds=time.perf_counter() - began,
            ),
        )


@dataclass(frozen=True)
class _State:
    t: Array
    h: Array
    mean: Array
    dm: Array  # ∂E/∂m, weighted
    dv: Array  # ∂E/∂v, weighted
    bound: float
    factor: SiteFactor


def _evaluate(problem: Problem, t: Array, h: Array) -> _State:
    """The bound at sites (t, h), and the expected log likelihood's derivatives there."""
    factor = problem.prior.with_sites(t)
    K = problem.prior.K
    alpha = h - factor.solve(K @ h)  # K⁻¹ mean
    mean, variance = K @ alpha, np.maximum(factor.variances, 0.0)
    E, dm, dv = _expectations(problem, mean, variance)
    # KL = ½(log|B| − Σ t_i P_ii + αᵀ mean), since tr K⁻¹P = n − Σ t_i P_ii.
    kl = factor.half_log_det + 0.5 * (alpha @ mean - t @ variance)
    return _State(t, h, mean, dm, np.minimum(dv, 0.0), float(E.sum() - kl), factor)


def _expectations(problem: Problem, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
    """Weighted expected log likelihood and its derivatives in mean and variance."""
    E, dm, dv = problem.likelihood.expected_log_prob(problem.y, mean, variance)[:3]
    return problem.weighted(E), problem.weighted(dm), problem.weighted(dv)


def _ascend(problem: Problem, state: _State, t_new: Array, h_new: Array, history: Mixing) -> _State | None:
    """A step towards (t_new, h_new) that does not lower the bound: mixed if that works, else halved from one."""
    n, floor = len(t_new), state.bound - 1e-12 * (1.0 + abs(state.bound))
    mixed = history.propose(np.append(state.t, state.h), np.append(t_new - state.t, h_new - state.h))
    if mixed is not None and np.all(mixed[:n] >= 0):
        moved = _evaluate(problem, mixed[:n], mixed[n:])
        if moved.bound >= floor:
            return moved
    size = 1.0
    while size > 1e-3:
        moved = _evaluate(problem, state.t + size * (t_new - state.t), state.h + size * (h_new - state.h))
        if moved.bound >= floor:
            return moved
        size *= 0.5
    history.clear()
    return None


def _relative(change: Array, size: Array) -> float:
    """Largest change relative to the size of the vector."""
    return float(np.max(np.abs(change)) / max(np.max(np.abs(size)), 1e-300))
