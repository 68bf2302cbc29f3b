"""Laplace's approximation: a Gaussian at the mode of the posterior.

Maximise Ψ(f) = Σ w_i log p(y_i|f_i) − ½ fᵀK⁻¹f by Newton's method in the variable a = K⁻¹f, with
B = I + W^½ K W^½, W = −∂² log p. Then log q(y) = Ψ(f̂) − ½ log|B|; its gradient has an explicit part
½(ααᵀ − (K + W⁻¹)⁻¹) and an implicit one, through f̂.

A factorisation is O(n³) and a solve with it O(n²), so each factor serves several steps (the chord method) as
long as they still gain; near a mode known from a neighbouring θ two factorisations suffice.
Cost: O(n³) a factorisation, 2 to 6 of them; O(n²) memory.
Fails when: the posterior is far from Gaussian (few points a class, large kernel variance): probabilities are
then too close to ½ and the evidence is too low.
Reference: Williams & Barber (1998); Rasmussen & Williams (2006), algorithms 3.1 and 5.1.
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
from gpclass.numerics.linalg import SiteFactor
from gpclass.posterior import Evidence, Posterior, Report

CHORD_GAIN = 0.2  # keep a factor while each step shrinks the Newton decrement at least this much


@dataclass(frozen=True)
class Laplace:
    """Settings of Laplace's approximation.

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
        alpha0 = start.alpha if isinstance(start, GaussianPosterior) else None
        mode = _find_mode(problem, alpha0, self.max_iter, self.tol)
        factor = mode.factor
        log_z = mode.psi - factor.half_log_det
        slope = None
        if gradient:
            # ∂ log q / ∂f̂_i = ½ P_ii ∂³ log p, with P_ii = leverage_i / W_i free of cancellation.
            ratio = np.divide(mode.d3, mode.W, out=np.zeros_like(mode.W), where=mode.W > 0)
            s = 0.5 * factor.leverage * ratio
            u = s - factor.solve(problem.prior.K @ s)
            slope = problem.gradient(factor, (0.5 * mode.alpha + u)[:, None], mode.alpha[:, None])
        return GaussianPosterior(
            problem=problem,
            mean=mode.f,
            alpha=mode.alpha,
            t=mode.W,
            h=mode.W * mode.f + mode.alpha,
            factor=factor,
            evidence=Evidence(log_z, kind="approximate", gradient=slope),
            report=Report(
                method=self.name,
                converged=mode.converged,
                reason="" if mode.converged else mode.reason,
                iterations=mode.factorisations,
                seconds=time.perf_counter() - began,
            ),
        )


@dataclass(frozen=True)
class _Mode:
    f: Array  # (n,)
    alpha: Array  # (n,), K⁻¹f
    W: Array  # (n,), −∂² log p at f
    d3: Array  # (n,), ∂³ log p at f
    psi: float
    factor: SiteFactor  # at W
    factorisations: int
    converged: bool
    reason: str


def _find_mode(problem: Problem, alpha0: Array | None, max_iter: int, tol: float) -> _Mode:
    """Newton's method on Ψ, each factor used while its steps still gain."""
    K = problem.prior.K
    a = np.zeros(problem.n) if alpha0 is None or len(alpha0) != problem.n else alpha0
    f = K @ a
    psi, g, W, d3 = _psi(problem, a, f)
    if alpha0 is not None and psi < (at_zero := _psi(problem, np.zeros(problem.n), np.zeros(problem.n)))[0]:
        a, f = np.zeros(problem.n), np.zeros(problem.n)
        psi, g, W, d3 = at_zero
    reason = f"no convergence after {max_iter} factorisations"
    for iteration in range(1, max_iter + 1):
        factor, last = problem.prior.with_sites(W), np.inf
        first = True
        while True:
            # Newton's step in a: with residual r = g − a, Δa = r − (K + W⁻¹)⁻¹ K r.
            r = g - a
            step_a = r - factor.solve(K @ r)
            step_f = K @ step_a
            decrement = float(step_f @ r)
            if decrement < tol * (1.0 + abs(psi)):
                if first:
                    return _Mode(f, a, W, d3, psi, factor, iteration, True, "")
                break
            if decrement > CHORD_GAIN * last:
                break
            moved = _line_search(problem, a, f, psi, step_a, step_f)
            if moved is None:
                if first:
                    return _Mode(
                        f, a, W, d3, psi, factor, iteration, decrement < 1e-8, "the step was halved 30 times"
                    )
                break
            a, f, psi, g, W, d3 = moved
            last, first = decrement, False
    return _Mode(f, a, W, d3, psi, problem.prior.with_sites(W), max_iter, False, reason)


def _psi(problem: Problem, a: Array, f: Array) -> tuple[float, Array, Array, Array]:
    """Ψ, and the log likelihood's first, minus second and third derivatives."""
    log_p, d1, d2, d3 = (problem.weighted(x) for x in problem.likelihood.derivatives(problem.y, f))
    return float(log_p.sum() - 0.5 * (a @ f)), d1, np.maximum(-d2, 0.0), d3


def _line_search(
    problem: Problem, a: Array, f: Array, psi: float, step_a: Array, step_f: Array
) -> tuple[Array, Array, float, Array, Array, Array] | None:
    """Halve the step until Ψ does not fall; None if thirty halvings are not enough."""
    size = 1.0
    for _ in range(30):
        a_new, f_new = a + size * step_a, f + size * step_f
        psi_new, g, W, d3 = _psi(problem, a_new, f_new)
        if psi_new >= psi - 1e-13 * (1.0 + abs(psi)):
            return a_new, f_new, psi_new, g, W, d3
        size *= 0.5
    return None
