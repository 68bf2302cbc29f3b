r"""Kernel parameters by variational EM: Laplace's posterior, then ascent on the expected log prior.

E-step: q(f) = N(m, V), the Gaussian that the inference finds at θ. M-step: climb

    Q(θ) = E_q[log p(f | θ)] = −½ Σ_c ( log|K_c| + tr K_c⁻¹(m_c m_cᵀ + V_cc) ) + constant

from the present θ by L-BFGS with line search (the paper takes gradient steps of a fixed size), so that Q, and with
it the bound E_q[log p(y|f)] − KL(q‖p) for that q, never falls. The next E-step may lower it, and the evidence may
fall too, because Laplace's Gaussian does not maximise the bound; both are recorded. The fixed point is where the
explicit part of the evidence's gradient vanishes; that of ``maximize`` counts the mode's motion as well, so the two
differ a little.

Q needs a factor of K itself: the model is given the jitter δ = 1e-6 of the mean variance, in both steps, and says so.
Cost: one inference an iteration, 5 to 15 factorisations of each K in its M-step; 10 to 50 iterations.
Fails when: K is nearly singular, where EM creeps (each step moves θ little); ``maximize`` does not.
Reference: Cho, Kim & Park (2015), equations 19 to 22.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import lapack
from scipy.optimize import minimize
from sklearn.gaussian_process.kernels import CompoundKernel, WhiteKernel

from gpclass._typing import Array
from gpclass.hyper.base import Fit, Inference, Run, parameters_at_bounds
from gpclass.inference.gaussian import GaussianPosterior
from gpclass.latent.many_gaussian import MultiGaussianPosterior
from gpclass.likelihoods.averages import normal_points
from gpclass.model.many_problem import MultiProblem
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import cholesky, mirror_lower
from gpclass.progress import progress

JITTER = 1e-6  # of the mean prior variance
POINTS = 256  # of q at a data point, for the expected log likelihood of many classes


@dataclass(frozen=True)
class EMTrace:
    """What every iteration found; entry k belongs to the parameters before M-step k."""

    theta: Array  # (T, p)
    evidence: Array  # (T,), log evidence of the inference
    bound: Array  # (T,), E_q log p(y|f) − KL(q‖p)
    gain: Array  # (T,), rise of the M-step's objective, never negative


@dataclass(frozen=True)
class EM:
    """Settings of variational EM.

    Parameters
    ----------
    max_iter : int
        Largest number of iterations.
    tol : float
        Stop when an M-step raises its objective by less than this many nats.
    m_steps : int
        L-BFGS iterations in an M-step.
    """

    max_iter: int = 100
    tol: float = 5e-3
    m_steps: int = 5

    name: ClassVar[str] = "em"

    def __call__(self, problem: Problem, inference: Inference, run: Run) -> Fit:
        """Alternate the two steps from the kernel's own parameters."""
        if getattr(problem, "scale_is_free", False):
            raise ValueError(
                "hyperparameters='em' learns kernel parameters only; fix the scale of the likelihood, or use 'maximize'"
            )
        noisy, jitter = _with_jitter(problem)
        low, high = problem.bounds.T if len(problem.theta) else (problem.theta, problem.theta)
        theta, last = np.clip(problem.theta, low, high), None
        seed = int(run.rng.integers(2**63))
        rows: list[tuple[Array, float, float, float]] = []
        converged = len(theta) == 0
        with progress(label=f"em ({inference.name})", verbose=run.verbose) as bar:
            while not converged and len(rows) < self.max_iter:
                posterior = inference(noisy.at(theta), np.random.default_rng(seed), start=last)
                moments = _moments(posterior)
                moved, gain = self._m_step(noisy, theta, moments)
                evidence = posterior.evidence.log_z if posterior.evidence is not None else np.nan
                rows.append((theta, evidence, _bound(posterior), gain))
                converged = gain < self.tol
                theta, last = moved, posterior
                bar.update(log_evidence=evidence)
        return self._fit(problem, inference, theta, rows, seed, jitter, converged)

    def _m_step(self, noisy: Problem, theta: Array, moments: list[Array]) -> tuple[Array, float]:
        """Climb Q; the new parameters and how much Q rose."""
        before, _ = _objective(noisy, theta, moments)

        def minus(t: Array) -> tuple[float, Array]:
            try:
                value, slope = _objective(noisy, t, moments)
            except np.linalg.LinAlgError:
                return 1e12, np.zeros_like(t)
            return -value, -slope

        outcome = minimize(
            minus,
            theta,
            jac=True,
            method="L-BFGS-B",
            bounds=[(low, high) for low, high in noisy.bounds],
            options={"maxiter": self.m_steps},
        )
        gain = -float(outcome.fun) - before
        return (np.asarray(outcome.x), gain) if gain > 0 else (theta, 0.0)

    def _fit(
        self,
        problem: Problem,
        inference: Inference,
        theta: Array,
        rows: list[tuple[Array, float, float, float]],
        seed: int,
        jitter: float,
        converged: bool,
    ) -> Fit:
        at_end = problem.at(theta)
        posterior: Any = inference(at_end, np.random.default_rng(seed))
        trace = None
        details = dict(posterior.report.details)
        if rows:
            thetas, evidences, bounds, gains = (np.array(column) for column in zip(*rows, strict=True))
            trace = EMTrace(thetas, evidences, bounds, gains)
            details |= {
                "em_iterations": len(rows),
                "em_bound": _bound(posterior),
                "em_bound_at_start": float(bounds[0]),
                "em_evidence_at_start": float(evidences[0]),
                "em_falls_of_evidence": int(np.sum(np.diff(evidences) < 0)),
            }
        report = replace(posterior.report, jitter=max(jitter, posterior.report.jitter), details=details)
        hit = parameters_at_bounds(at_end, theta)
        return Fit(
            at_end,
            replace(posterior, report=report),
            converged,
            ""
            if converged
            else f"the last of {self.max_iter} EM iterations still gained {rows[-1][3]:.1g} nats",
            {"evaluations": len(rows) + 1, "at_bounds": hit or None},
            trace=trace,
        )


def _with_jitter(problem: Any) -> tuple[Any, float]:
    """The same problem with a fixed small nugget, which has no place in θ."""
    kernels = problem.kernel.kernels if isinstance(problem.kernel, CompoundKernel) else [problem.kernel]
    jitter = JITTER * float(np.mean([kernel.diag(problem.X).mean() for kernel in kernels]))
    noisy = [kernel + WhiteKernel(jitter, "fixed") for kernel in kernels]
    return replace(problem, kernel=noisy[0] if len(noisy) == 1 else CompoundKernel(noisy)), jitter


def _moments(posterior: Any) -> list[Array]:
    """m_c m_cᵀ + V_cc, for each class that has a kernel of its own, or their sum for a shared one."""
    if isinstance(posterior, GaussianPosterior):
        K = posterior.problem.prior.K
        A = posterior.factor.half_solve(K)
        return [np.outer(posterior.mean, posterior.mean) + K - A.T @ A]
    if not isinstance(posterior, MultiGaussianPosterior):
        raise ValueError(
            "hyperparameters='em' needs an inference with a Gaussian posterior; use inference='laplace' or 'ep'"
        )
    problem, found = posterior.problem, []
    for c, block in enumerate(posterior.factor.blocks()):
        K, m = problem.K[c], posterior.mean[c]
        found.append(np.outer(m, m) + K - K @ block @ K)
    return [np.sum(found, axis=0)] if problem.shared else found


def _objective(noisy: Any, theta: Array, moments: list[Array]) -> tuple[float, Array]:
    """Q without its constant, and its gradient."""
    problem = noisy.at(theta)
    many = isinstance(problem, MultiProblem)
    copies = problem.n_classes if many and problem.shared else 1
    value, G = 0.0, []
    for c, S in enumerate(moments):
        K = problem.K[c] if many else problem.prior.K
        L = cholesky(K)
        inverse = mirror_lower(np.asarray(lapack.dpotri(L, lower=1)[0]))
        KS = inverse @ S
        value += -copies * np.log(np.diag(L)).sum() - 0.5 * np.trace(KS)
        G.append(0.5 * (KS @ inverse - copies * inverse))
    if many:
        first = problem._values[0][1](G[0]) if problem.shared else problem.pull(G)
        return float(value), first
    return float(value), problem.prior.pullback(G[0])


def _bound(posterior: Any) -> float:
    """E_q log p(y|f) − KL(q‖p), free of K⁻¹: KL = ½ αᵀm − ½ tr MK + ½ log|I + KW|."""
    if isinstance(posterior, GaussianPosterior):
        problem, factor = posterior.problem, posterior.factor
        expected = problem.likelihood.expected_log_prob(problem.y, posterior.mean, factor.variances)[0]
        taken = float(factor.leverage.sum())
        quadratic = float(posterior.alpha @ posterior.mean)
        total = float(problem.weighted(expected).sum())
        return total - 0.5 * (quadratic - taken) - float(factor.half_log_det)
    task, coupled = posterior.problem, posterior.factor
    taken = sum(float(np.vdot(block, K)) for block, K in zip(coupled.blocks(), task.K, strict=True))
    quadratic = float(np.vdot(posterior.alpha, posterior.mean))
    values, vectors = np.linalg.eigh(coupled.covariance)
    R = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    z = normal_points(task.n_classes, POINTS).T
    f = posterior.mean.T[:, :, None] + R @ np.hstack([z, -z])  # (n, C, nodes)
    log_p = task.likelihood.log_prob(np.ascontiguousarray(f.transpose(2, 0, 1)))
    expected = log_p[:, np.arange(task.n), task.y].mean(axis=0)
    total = float(task.weighted(expected).sum())
    return total - 0.5 * (quadratic - taken) - float(coupled.half_log_det)
