r"""Kernel parameters by variational EM: Laplace's posterior, then ascent on the expected log prior.

E-step: q(f) = N(m, V), the Gaussian that the inference finds at θ. M-step: maximise

    Q(θ) = E_q[log p(f | θ)] = −½ Σ_c ( log|K_c| + tr K_c⁻¹(m_c m_cᵀ + V_cc) ) + constant

from the present θ by L-BFGS with line search (``step``: the paper's gradient steps of a fixed size), so that Q, and
with it the bound E_q[log p(y|f)] − KL(q‖p) for that q, never falls. The next E-step may lower it, and the evidence may
fall too, because Laplace's Gaussian does not maximise the bound; both are recorded.

Where K is nearly singular Q is sharply curved, and M-steps gain thousandths of a nat far from the end. But Q's slope at
the present θ is that of the evidence with the sites held: for ep and variational the slope of the evidence itself, for
laplace all but the part through the moving mode. So after the first M-step θ follows that slope by quasi-Newton steps
(:mod:`gpclass.numerics.lbfgs`); an M-step is taken again where none of them rises. The fixed point is the same, Q's
slope zero: for ep and variational an optimum of ``maximize``, for laplace near it. EM stops when slope and curvature
promise less than ``tol`` nats and the last step changed the evidence by less; the report has that promise (``em_gap``),
Q's slope and the evidence's own.

Q needs a factor of K itself: the model has a jitter δ = 1e-6 of the mean variance, in both steps, and reports it.
Cost: one inference and one factorisation of each K per iteration, 10 to 30 iterations; 5 to 20 more in an M-step.
Fails when: not accelerated and K is nearly singular: thousands of iterations.
References: Cho, Kim & Park (2015), equations 19 to 22; Jamshidian & Jennrich (1997), Acceleration of the EM algorithm
by using quasi-Newton methods.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import Bounds, minimize
from sklearn.gaussian_process.kernels import CompoundKernel, WhiteKernel

from gpclass._typing import Array
from gpclass.hyper.base import Fit, Run, Strategy, parameters_at_bounds
from gpclass.inference.base import Inference
from gpclass.latent.base import ExpectedPrior
from gpclass.latent.sites import SiteRule, Start
from gpclass.likelihoods.averages import normal_points
from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.local import RowMarginals, RowSites, symmetric_root
from gpclass.model.problem import Problem, sample_of
from gpclass.model.rows import Labels
from gpclass.numerics.lbfgs import PAIRS, Ascent, inverse_curvature, step
from gpclass.posterior import Posterior
from gpclass.progress import progress

JITTER = 1e-6  # of the mean prior variance
POINTS = 256  # of q at a data point, if the likelihood has no averages
ALLOWED = 1.0  # nats that Laplace's evidence may fall in a step
LOOK = 2000  # rows whose variance the jitter is relative to


@dataclass(frozen=True)
class EMTrace:
    """The results of every iteration; entry k belongs to the parameters before step k."""

    theta: Array  # (T, p)
    evidence: Array  # (T,), log evidence of the inference
    bound: Array  # (T,), E_q log p(y|f) − KL(q‖p)
    gain: Array  # (T,), rise of Q in an M-step, or half of slope times step; never negative


@dataclass(frozen=True)
class EM(Strategy):
    """Settings of variational EM.

    Parameters
    ----------
    max_iter : int
        Largest number of iterations.
    tol : float
        Stop when slope and curvature promise a rise of the evidence of less than this many nats, and the last step
        changed it by less.
    m_steps : int
        L-BFGS iterations in an M-step.
    accelerate : bool
        Whether to take quasi-Newton steps after the first M-step.
    step : float, optional
        Take steps of this size along Q's gradient in place of M-steps, as in the paper's equation 22.
    """

    max_iter: int = 100
    tol: float = 1e-3
    m_steps: int = 5
    accelerate: bool = True
    step: float | None = None

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
        theta, seed = problem.theta, int(run.rng.integers(2**63))
        climb = _Climb(self, noisy, inference, seed)
        if len(theta):
            with progress(label=f"em ({inference.name})", verbose=run.verbose) as bar:
                theta = climb.run(theta, bar)
        at_end = problem.at(theta)
        with_slope = bool(climb.rows) and not inference.why_no_gradient(problem.likelihood)
        posterior = inference(at_end, np.random.default_rng(seed), gradient=with_slope)
        trace, details = None, dict(posterior.report.details)
        if climb.rows:
            thetas, evidences, bounds, gains = (np.array(column) for column in zip(*climb.rows, strict=True))
            trace = EMTrace(thetas, evidences, bounds, gains)
            details |= {
                "em_iterations": len(climb.rows),
                "em_m_steps": climb.m_steps,
                "em_bound": bound(posterior),
                "em_bound_at_start": float(bounds[0]),
                "em_evidence_at_start": float(evidences[0]),
                "em_falls_of_evidence": int(np.sum(np.diff(evidences) < 0)),
                "em_gap": climb.gap,
                "em_slope": climb.steepest,
            }
            evidence = posterior.evidence
            if with_slope and evidence is not None and evidence.gradient is not None:
                details["em_evidence_slope"] = float(np.abs(_inward(evidence.gradient, theta, problem.bounds)).max())
        report = replace(posterior.report, jitter=max(jitter, posterior.report.jitter), details=details)
        converged = climb.converged or len(theta) == 0
        reason = "" if converged else f"after {self.max_iter} EM iterations the slope promises {climb.gap:.1g} nats"
        figures = {"evaluations": climb.looks + 1, "at_bounds": parameters_at_bounds(at_end) or None}
        return Fit(at_end, posterior.with_report(report), converged, reason, figures, trace=trace)


@dataclass(frozen=True, eq=False)
class _Look:
    """The E-step at one θ."""

    theta: Array
    evidence: float
    bound: float
    expected: ExpectedPrior
    slope: Array  # of Q


@dataclass
class _Climb:
    """The iterations of one fit."""

    settings: EM
    noisy: Problem
    inference: Inference
    seed: int
    rows: list[tuple[Array, float, float, float]] = field(default_factory=list)
    m_steps: int = 0
    looks: int = 0  # E-steps
    gap: float = np.inf  # nats that slope and curvature promise
    steepest: float = np.inf  # slope of Q, where the bounds do not hold it
    converged: bool = False
    start: Start | None = None

    def run(self, theta: Array, bar: Any) -> Array:
        """The last θ."""
        here = self._look(np.clip(theta, *self.noisy.bounds.T))
        none, calm = np.empty((0, len(theta))), False
        at = Ascent(here.theta, here.evidence, here.slope, none, none)
        while True:
            bar.update(log_evidence=here.evidence)
            inward = _inward(here.slope, here.theta, self.noisy.bounds)
            self.steepest = float(np.abs(inward).max())
            if len(at.steps) or self.steepest == 0.0:
                self.gap = 0.5 * float(inward @ inverse_curvature(at, len(inward)) @ inward)
            self.converged = calm and self.gap < self.settings.tol
            if self.converged or len(self.rows) == self.settings.max_iter:
                return here.theta
            found = self._extrapolate(at, here) if self.rows else None
            at, there, gain = found if found is not None else self._plain(at, here)
            self.rows.append((here.theta, here.evidence, here.bound, gain))
            calm = abs(there.evidence - here.evidence) < self.settings.tol
            here = there

    def _look(self, theta: Array) -> _Look:
        problem = self.noisy.at(theta)
        posterior = self.inference(problem, np.random.default_rng(self.seed), start=self.start)
        self.start, self.looks = posterior.start, self.looks + 1
        q, held, rule = posterior.sites
        expected = q.expected_prior(held, rule)
        evidence = posterior.evidence.log_z if posterior.evidence is not None else np.nan
        return _Look(theta, evidence, bound(posterior), expected, expected(problem)[1])

    def _extrapolate(self, at: Ascent, here: _Look) -> tuple[Ascent, _Look, float] | None:
        """A quasi-Newton step along Q's slope; None if none rises, or none is wanted."""
        if not self.settings.accelerate or self.settings.step is not None:
            return None
        seen: list[_Look] = []

        def objective(x: Array) -> tuple[float, Array] | None:
            try:
                found = self._look(x)
            except np.linalg.LinAlgError:
                return None
            seen.append(found)
            if self.inference.stationary:
                return found.evidence, found.slope
            if found.evidence < here.evidence - ALLOWED:
                return None
            # the slope is not the evidence's: its integral along the step, by the trapezium
            return at.value + 0.5 * float((at.slope + found.slope) @ (x - at.x)), found.slope

        after = step(at, objective, self.noisy.bounds)
        return None if after.stuck else (after, seen[-1], 0.5 * float(here.slope @ (after.x - at.x)))

    def _plain(self, at: Ascent, here: _Look) -> tuple[Ascent, _Look, float]:
        """An M-step, or the paper's step; the change of slope over it is remembered."""
        x, gain = self._m_step(here)
        self.m_steps += 1
        there = self._look(x)
        s, y = x - at.x, at.slope - there.slope
        bent = bool(s @ y > 0)
        steps, bends = (np.vstack([old, new])[-PAIRS:] if bent else old for old, new in ((at.steps, s), (at.bends, y)))
        return Ascent(x, there.evidence, there.slope, steps, bends), there, gain

    def _m_step(self, here: _Look) -> tuple[Array, float]:
        """The next θ, and the rise of Q."""
        before, bounds = here.expected(self.noisy.at(here.theta))[0], self.noisy.bounds
        if self.settings.step is not None:
            moved = np.clip(here.theta + self.settings.step * here.slope, *bounds.T)
            return moved, max(here.expected(self.noisy.at(moved))[0] - before, 0.0)

        def minus(t: Array) -> tuple[float, Array]:
            try:
                value, slope = here.expected(self.noisy.at(t))
            except np.linalg.LinAlgError:
                return 1e12, np.zeros_like(t)
            return -value, -slope

        within: Any = {"bounds": Bounds(*bounds.T), "options": {"maxiter": self.settings.m_steps}}
        outcome = minimize(minus, here.theta, jac=True, method="L-BFGS-B", **within)
        gain = -float(outcome.fun) - before
        return (np.asarray(outcome.x), gain) if gain > 0 else (here.theta, 0.0)


def _inward(slope: Array, theta: Array, bounds: Array) -> Array:
    """The slope without the parts that lead out of the bounds."""
    out = ((theta <= bounds[:, 0]) & (slope < 0)) | ((theta >= bounds[:, 1]) & (slope > 0))
    return np.where(out, 0.0, slope)


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
