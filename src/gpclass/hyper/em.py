r"""Kernel parameters by variational EM: Laplace's posterior, then ascent on the expected log prior.

E-step: q(f) = N(m, V), the Gaussian that the inference finds at θ. M-step: maximise

    Q(θ) = E_q[log p(f | θ)] = −½ Σ_c ( log|K_c| + tr K_c⁻¹(m_c m_cᵀ + V_cc) ) + constant

from the present θ by L-BFGS with line search (the paper takes gradient steps of a fixed size), so that Q, and with
it the bound E_q[log p(y|f)] − KL(q‖p) for that q, never falls. The next E-step may lower it, and the evidence may
fall too, because Laplace's Gaussian does not maximise the bound; both are recorded. The fixed point is where the
explicit part of the evidence's gradient vanishes; ``maximize`` includes the implicit part, so the two differ a little.

Q needs a factor of K itself: the model has a jitter δ = 1e-6 of the mean variance, in both steps, and reports it.
Cost: one inference per iteration, 5 to 15 factorisations of each K in its M-step; 10 to 50 iterations.
Fails when: K is nearly singular: EM then converges slowly; ``maximize`` does not.
Reference: Cho, Kim & Park (2015), equations 19 to 22.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import Bounds, minimize
from sklearn.gaussian_process.kernels import CompoundKernel, WhiteKernel

from gpclass._typing import Array
from gpclass.hyper.base import Fit, Run, Strategy, parameters_at_bounds
from gpclass.inference.base import Inference
from gpclass.latent.base import ExpectedPrior, SiteRule, Start
from gpclass.likelihoods.averages import normal_points
from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.local import RowMarginals, RowSites, symmetric_root
from gpclass.model.problem import Problem, sample_of
from gpclass.model.rows import Labels
from gpclass.posterior import Posterior
from gpclass.progress import progress

JITTER = 1e-6  # of the mean prior variance
POINTS = 256  # of q at a data point, if the likelihood has no averages
LOOK = 2000  # rows whose variance the jitter is relative to


@dataclass(frozen=True)
class EMTrace:
    """The results of every iteration; entry k belongs to the parameters before M-step k."""

    theta: Array  # (T, p)
    evidence: Array  # (T,), log evidence of the inference
    bound: Array  # (T,), E_q log p(y|f) − KL(q‖p)
    gain: Array  # (T,), rise of the M-step's objective, never negative


@dataclass(frozen=True)
class EM(Strategy):
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
    ignores: ClassVar[frozenset[str]] = frozenset(["priors", "n_restarts"])
    needs: ClassVar[str] = "gaussian"

    @property
    def prior_needs(self) -> frozenset[str]:
        return frozenset(["expected"])

    @classmethod
    def brief(cls) -> EM:
        return cls(max_iter=3)

    def __call__(self, problem: Problem, inference: Inference, run: Run) -> Fit:
        if problem.scale_is_free:
            raise ValueError(
                "hyperparameters='em' learns kernel parameters only; fix the scale of the likelihood, or use 'maximize'"
            )
        problem = problem.placed(run.rng)
        noisy, jitter = _with_jitter(problem)
        theta = problem.theta
        last: Start | None = None
        if len(theta):
            theta = np.clip(theta, *problem.bounds.T)
        seed = int(run.rng.integers(2**63))
        rows: list[tuple[Array, float, float, float]] = []
        converged = len(theta) == 0
        with progress(label=f"em ({inference.name})", verbose=run.verbose) as bar:
            while not converged and len(rows) < self.max_iter:
                posterior = inference(noisy.at(theta), np.random.default_rng(seed), start=last)
                last = posterior.start
                q, held, rule = posterior.sites
                moved, gain = self._m_step(noisy, theta, q.expected_prior(held, rule))
                evidence = posterior.evidence.log_z if posterior.evidence is not None else np.nan
                rows.append((theta, evidence, bound(posterior), gain))
                converged = gain < self.tol
                theta = moved
                bar.update(log_evidence=evidence)
        at_end = problem.at(theta)
        posterior = inference(at_end, np.random.default_rng(seed))
        trace = None
        details = dict(posterior.report.details)
        if rows:
            thetas, evidences, bounds, gains = (np.array(column) for column in zip(*rows, strict=True))
            trace = EMTrace(thetas, evidences, bounds, gains)
            details |= {
                "em_iterations": len(rows),
                "em_bound": bound(posterior),
                "em_bound_at_start": float(bounds[0]),
                "em_evidence_at_start": float(evidences[0]),
                "em_falls_of_evidence": int(np.sum(np.diff(evidences) < 0)),
            }
        report = replace(posterior.report, jitter=max(jitter, posterior.report.jitter), details=details)
        last_of = f"the last of {self.max_iter} EM iterations still gained"
        reason = "" if converged else f"{last_of} {rows[-1][3]:.1g} nats"
        figures = {"evaluations": len(rows) + 1, "at_bounds": parameters_at_bounds(at_end) or None}
        return Fit(at_end, posterior.with_report(report), converged, reason, figures, trace=trace)

    def _m_step(self, noisy: Problem, theta: Array, expected: ExpectedPrior) -> tuple[Array, float]:
        before, _ = expected(noisy.at(theta))

        def minus(t: Array) -> tuple[float, Array]:
            try:
                value, slope = expected(noisy.at(t))
            except np.linalg.LinAlgError:
                return 1e12, np.zeros_like(t)
            return -value, -slope

        within: Any = {"bounds": Bounds(*noisy.bounds.T), "options": {"maxiter": self.m_steps}}
        outcome = minimize(minus, theta, jac=True, method="L-BFGS-B", **within)
        gain = -float(outcome.fun) - before
        return (np.asarray(outcome.x), gain) if gain > 0 else (theta, 0.0)


def _with_jitter(problem: Problem) -> tuple[Problem, float]:
    """The same problem with a fixed small nugget, which is not part of θ."""
    X = sample_of(problem, LOOK)
    jitter = JITTER * float(np.mean([kernel.diag(X).mean() for kernel in problem.kernels]))
    noisy = [kernel + WhiteKernel(jitter, "fixed") for kernel in problem.kernels]
    return replace(problem, kernel=noisy[0] if len(noisy) == 1 else CompoundKernel(noisy)), jitter


class BoundOf(SiteRule):
    """The variational bound at the sites of another rule: sites are unchanged, terms are E log p − E log site."""

    name: ClassVar[str] = "bound"

    def __init__(self, rule: SiteRule) -> None:
        self.rule = rule

    def numbers(self, likelihood: Likelihood, L: int) -> int:
        return self.rule.numbers(likelihood, L)

    def sites(self, likelihood: Likelihood, labels: Labels, numbers: Array) -> RowSites:
        return self.rule.sites(likelihood, labels, numbers)

    def first(self, likelihood: Likelihood, labels: Labels, at: RowMarginals) -> Array:
        return self.rule.first(likelihood, labels, at)

    def update(self, likelihood: Likelihood, labels: Labels, numbers: Array, at: RowMarginals) -> tuple[Array, Array]:
        return numbers, labels.power * expected_log(likelihood, labels, at) - at.expected_log_site


def expected_log(likelihood: Likelihood, labels: Labels, at: RowMarginals) -> Array:
    """E log p(y | f) over the rows' marginals, (r,)."""
    if "average" in likelihood.offers():
        return likelihood.average(labels.y, at.mean, at.cov).value
    z = normal_points(len(at.mean), POINTS).T
    f = at.mean.T[:, :, None] + symmetric_root(at.cov) @ np.hstack([z, -z])  # (r, L, nodes)
    return np.asarray(likelihood.log(labels.y, f.transpose(2, 1, 0)).mean(axis=0))


def bound(posterior: Posterior) -> float:
    """E_q log p(y|f) − KL(q‖p) of a Gaussian posterior, without K⁻¹."""
    q, held, rule = posterior.sites
    return q.sweep(held, BoundOf(rule), 1.0, 0).value
