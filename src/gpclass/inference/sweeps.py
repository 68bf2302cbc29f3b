r"""Sites at their fixed point, all rows at once: what parallel EP and the variational Gaussian share.

Given the Gaussian q that the sites make of the prior, every row computes its own new site from its marginal
(:class:`~gpclass.latent.sites.SiteRule`); the new sites make the next q. If sweeps converge slowly they are mixed by
Anderson's method: the next sites are a mixture of those of the last sweeps, with shares that minimise the change of q.
If they cycle, or a bound falls, steps are damped. A Gaussian may know where sweeps lead without another factor
(:mod:`gpclass.latent.near_sites`); a sweep then goes there. The sites are at their fixed point when the distance of q
from one sweep to the next is below ``tol``. The evidence, stationary in the sites, then has an error of order ``tol``².
Cost: one factorisation and one pass over the rows per sweep; 5 to 30 sweeps, 1 to 4 from the sites of neighbouring
parameters.
Fails when: the steps had to be damped and ``max_sweeps`` were not enough (reported).
References: Minka (2001); Opper & Archambeau (2009); Anderson (1965) for the mixing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from gpclass._typing import Array
from gpclass.inference.base import Inference
from gpclass.inference.posteriors import GaussianPosterior
from gpclass.latent.base import Gaussian
from gpclass.latent.sites import Held, SiteRule, Start
from gpclass.likelihoods.base import Likelihood
from gpclass.model.problem import Problem
from gpclass.model.rows import Shard
from gpclass.model.sums import Sums
from gpclass.numerics.anderson import smallest_residual
from gpclass.numerics.linalg import NotPositiveDefiniteError
from gpclass.posterior import Evidence, Report

SLOWEST = 0.05  # smallest step of a damped sweep
LOOSER, LOOSEST = 1000.0, 1e-3  # tolerance of sites in a search for kernel parameters: times the result's, at most
ROUGH = 0.1  # tolerance of sites behind an evidence that is compared with others far from it
FIRST = 0.7  # step of a careful rule while q still moves far: parallel updates overshoot
FAR = 3.0  # what counts as far, in standard deviations
SLOW = 0.25  # mix if a sweep leaves more than this share of the last change
NEAR = 3.0  # largest change, in standard deviations, at which mixing helps
WHOLE = 2.0  # a sweep that goes as far as one factor tells, over a plain one
PATIENCE = 8  # sweeps before steps are damped, and mixed at any distance
DEPTH = 8  # sweeps that the mixing remembers
LIGHT_CURE = "use likelihood='softmax' with inference='laplace' or 'variational', or weights of 1 or more"
WILDEST = 50.0  # shares whose absolute values sum to more come from rounding


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """Where the sweeps ended."""

    held: Held  # rows with the sites of the Gaussian
    gaussian: Gaussian
    value: float  # evidence, or bound
    sweeps: int
    converged: bool
    change: float
    lost: int = 0  # rows without a cavity
    ahead: Held = ()  # rows with the sites of one more sweep, if they are known

    reason: str = ""  # why it did not converge, if it is not the sites

    def posterior(
        self, problem: Problem, rule: SiteRule, kind: str, gradient: bool, extra: bool = False
    ) -> GaussianPosterior:
        """The fixed point as a posterior; ``extra`` as in :meth:`gpclass.latent.base.Gaussian.gradient`."""
        slope, slope_Z = self.gaussian.gradient(self.held, rule, extra) if gradient else (None, None)
        moved = f"the sites still moved the posterior by {self.change:.1e} after {self.sweeps} sweeps"
        if self.lost:
            moved = f"{self.lost} rows of weight below 1 have no cavity; {LIGHT_CURE}"
        report = Report(
            method=rule.name,
            converged=self.converged,
            reason="" if self.converged else self.reason or moved,
            iterations=self.sweeps,
            jitter=self.gaussian.jitter,
            details=self.gaussian.details,
            warnings=self.gaussian.warnings,
        )
        evidence = Evidence(self.value, None, kind, slope, slope_Z)
        return GaussianPosterior(problem, self.gaussian, evidence, report, self.start(rule))

    def start(self, rule: SiteRule) -> Start:
        """For neighbouring parameters."""
        return Start(rule, self.ahead or self.held, self.gaussian)


class ByFixedPoint(Inference):
    """What inferences whose evidence is stationary in their sites share: the tolerance ``tol`` of the sites."""

    tol: float
    gradient: ClassVar[bool] = True
    stationary: ClassVar[bool] = True

    def guide(self, likelihood: Likelihood) -> Self:
        """Itself with looser sites: the evidence is stationary, so an error of 1e-3 in them is one of 1e-6 in it."""
        return self.with_site_tol(max(self.tol, min(LOOSER * self.tol, LOOSEST)))

    def roughly(self) -> Self:
        return self.with_site_tol(max(self.tol, ROUGH))

    @property
    def site_tol(self) -> float:
        return self.tol

    def with_site_tol(self, tol: float) -> Self:
        return replace(self, tol=tol)  # type: ignore[call-arg]  # a field of the subclasses


def fixed_point(
    problem: Problem,
    rule: SiteRule,
    start: Start | None,
    max_sweeps: int,
    tol: float,
    aim: float | None = None,
) -> FixedPoint:
    """Sweep until q does not change by more than ``tol``, from neighbouring sites if there are any.

    With ``aim``, go on to that smaller change as long as sweeps still gain.
    """
    near = None if start is None else start.of(rule, problem)
    prior = problem.prior.roughly(tol, rule, near is not None and bool(near.held))
    if near is not None and near.held:
        held = near.held
        q = prior.given(held, rule)
    else:
        held, q = prior.begin(rule, None if near is None else near.gaussian)
    tol = max(tol, q.finest)
    q = q.roughly(tol, rule)
    warm = q.begun or (near is not None and (bool(near.held) or q.responds(rule)))
    history, far, near_step = _Mixing(), rule.careful and not warm, rule.step(problem.likelihood)
    slack = problem.likelihood.average_error * problem.rows.count  # of a bound by quadrature
    shrink, last, last_step, best, safe, mixed = 1.0, np.inf, np.inf, -np.inf, (held, q), False
    bound, change, sweeps, rises, slow, stalled, least = None, np.inf, 0, 0, False, 0, np.inf
    for sweeps in range(1, max_sweeps + 1):
        step = shrink * (min(FIRST, near_step) if far else near_step)
        swept = q.sweep(held, rule, step, DEPTH)
        bound = swept.value if rule.bound else None  # an evidence is asked for at the end alone
        if bound is not None and bound < best - slack - 1e-10 * abs(best) and shrink > SLOWEST:
            # The bound fell: return to the previous sites and take a smaller step, or drop the mixing.
            (held, q), shrink, bound, mixed = safe, shrink if mixed else 0.5 * shrink, best, False
            history.clear()
            continue
        change = q.distance(swept.gaussian) / (WHOLE if swept.ahead else step)
        untried = step < 1.0 and q.responds(rule)  # the next sweep may go ahead, however far
        far = rule.careful and change > FAR and not (swept.ahead or untried)
        stalled, least = (0, change) if change < 0.5 * least else (stalled + 1, least)
        if change <= (tol if aim is None else aim) or (change <= tol and stalled > PATIENCE):
            break
        best, safe = (best, safe) if bound is None else (max(bound, best), (held, q))
        if step != last_step:
            history.clear()  # sweeps of another step stand between
        slow = slow or (change > SLOW * last and (change < NEAR or sweeps >= PATIENCE))
        moved, after = swept.held, swept.gaussian
        shares = history.shares(q, after) if slow and not far else None
        mixed = shares is not None
        if shares is not None:
            moved, after = _mixed(problem, rule, swept.held, swept.gaussian, shares)
        rises = rises + 1 if change > last else 0
        if rises >= (1 if stalled > PATIENCE else 2) and sweeps >= PATIENCE:  # it cycles
            shrink, rises, stalled = max(0.5 * shrink, SLOWEST), 0, 0
            history.clear()
        elif shrink < 1.0 and change < 0.7 * last:
            shrink = min(1.0, 1.5 * shrink)
        held, q, last, last_step = moved, after, change, step
    ahead = swept.held if swept.ahead and change <= tol else ()
    value = swept.value if bound is None else bound
    return FixedPoint(held, q, value, sweeps, change <= tol, change, ahead=ahead)


def _mixed(problem: Problem, rule: SiteRule, held: Held, newest: Gaussian, shares: Array) -> tuple[Held, Gaussian]:
    """Rows with a mixture of their last sites, and its Gaussian; the newest alone if that fails."""
    k = rule.numbers(problem.likelihood, problem.n_latents)
    mixed, _ = problem.map(mix_rows, held, rule, k, shares)
    try:
        after = newest.beside(mixed, rule)
        if after.proper:
            return mixed, after
    except NotPositiveDefiniteError:
        pass
    return held, newest


def mix_rows(shard: Shard, likelihood: Likelihood, rule: SiteRule, k: int, shares: Array) -> tuple[Shard, Sums]:
    """Sites that are a mixture of those of the last sweeps, newest first; the newest alone if that is not a site."""
    values = shard.kept.copy()
    past = values[k : k + k * len(shares)].reshape(len(shares), k, -1)
    mixed = rule.unpacked(likelihood, np.tensordot(shares, rule.packed(likelihood, past), axes=1))
    values[:k] = np.where(rule.sound(mixed, past[0]), mixed, past[0])
    return shard.with_values(values), {}


@dataclass
class _Mixing:
    """Anderson's mixing (:mod:`gpclass.numerics.anderson`) as shares of the last sweeps.

    Residuals are the changes of q in units of its own spread.
    """

    changes: list[Sequence[Array]] = field(default_factory=list)

    def shares(self, q: Gaussian, after: Gaussian) -> Array | None:
        """One share per sweep, newest first, summing to one; None while there is nothing to mix."""
        self.changes = [*self.changes[-(DEPTH - 1) :], q.difference(after)]
        if len(self.changes) < 2:
            return None
        gamma = smallest_residual([q.in_units(change) for change in self.changes])
        shares = np.diff(gamma, prepend=0.0, append=1.0)[::-1]
        return shares if np.abs(shares).sum() < WILDEST else None

    def clear(self) -> None:
        """Discard the history, which no longer describes the sites."""
        self.changes = []
