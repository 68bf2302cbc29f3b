r"""Laplace's approximation: a Gaussian at the mode of the posterior, for any prior and any number of latent values.

Maximise Ψ(f) = Σ_i w_i log p(y_i|f_i) − ½ fᵀK⁻¹f by Newton's method in the variable α = K⁻¹f. The second-order sites at
f, W = −∂² log p and b = W f + ∂ log p, make of the prior a Gaussian (:mod:`gpclass.latent.base`) whose mean is Newton's
target; with the residual r = ∂ log p − α the step is Δα = (I + W K)⁻¹ r. A step that would lower Ψ is halved. Then

    log q(y) = Ψ(f̂) − ½ log|I + K W|,

and its gradient has an explicit part ½(ααᵀ − (K + W⁻¹)⁻¹) and an implicit one, through f̂. Softmax's W couples the
classes of a row (:mod:`gpclass.likelihoods.local`).

If a factorisation costs much more than a step (a dense prior), each factor is used for several steps as long as they
still gain (the chord method); near a mode known from a neighbouring θ two factorisations suffice, the first of them
with that mode's sites. A Gaussian that only guides draws needs the first alone.
Cost: a factorisation is O(L n³) dense, O(L² n m²) with m inducing inputs; 2 to 8 of them.
Fails when: the posterior is far from Gaussian (few points per class, large kernel variance): probabilities are
then too close to even and the evidence is too low.
Reference: Williams & Barber (1998); Rasmussen & Williams (2006), algorithms 3.1, 3.3 and 5.1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gpclass._typing import Array, Generator
from gpclass.inference.base import Inference, Way
from gpclass.inference.posteriors import GaussianPosterior
from gpclass.inference.sweeps import FixedPoint
from gpclass.latent import newton
from gpclass.latent.base import Gaussian
from gpclass.latent.sites import Held, SiteRule, Start, labels_of
from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.local import RowMarginals, RowSites, times_precision
from gpclass.model.problem import Problem
from gpclass.model.rows import Labels, Shard, blank
from gpclass.model.sums import Sums
from gpclass.numerics.anderson import Mixing

CHORD_GAIN = 0.02  # keep a factor while each step shrinks the Newton decrement at least this much
CLIMB_TOL = 1e-14  # of an ascent: an error of 1e-7 in the mode, which the evidence is proportional to
HALVINGS = 30
ROUGH = 1e-4  # of an evidence that is compared with others far from it
ROUNDING = 1e-12  # share of Ψ: a decrement below it that no longer falls is rounding
SMALL = 1e-8  # nats: a decrement that counts as zero if no step raises Ψ
NEAR = 1e-4  # decrement, in nats, at which a Gaussian guides draws as well as the one at the mode
GUIDE_GAIN = 0.5  # as CHORD_GAIN, if steps are mixed and the last digits do not count
MIXED = 3  # steps that the mixing remembers


class SecondOrder(SiteRule):
    """Sites that expand the likelihood to second order at f; rows keep them with f in Newton's layout."""

    name: ClassVar[str] = "laplace"

    def numbers(self, likelihood: Likelihood, L: int) -> int:
        return newton.NUMBERS * L

    def sites(self, likelihood: Likelihood, labels: Labels, numbers: Array) -> RowSites:
        """W and b at f, as :func:`move` left them."""
        view = numbers.reshape(newton.NUMBERS, -1, numbers.shape[1])
        return RowSites(b=view[newton.SITE_B], D=view[newton.SITE_D])

    def first(self, likelihood: Likelihood, labels: Labels, at: RowMarginals) -> Array:
        numbers = np.zeros((newton.NUMBERS, *at.mean.shape))
        numbers[newton.F] = at.mean
        return look(likelihood, labels, numbers.reshape(-1, at.mean.shape[1]))[0]

    def latents(self, numbers: Array, L: int) -> Array:
        """f, from which Newton's step leads on."""
        return np.asarray(numbers.reshape(newton.NUMBERS, L, -1)[newton.F])

    def update(self, likelihood: Likelihood, labels: Labels, numbers: Array, at: RowMarginals) -> tuple[Array, Array]:
        """A full Newton step; Newton's method proper is :func:`find_mode`."""
        return self.first(likelihood, labels, at), likelihood.expand(labels.y, numbers[: len(at.mean)]).log_p


RULE = SecondOrder()


@dataclass(frozen=True)
class Laplace(Inference):
    """Settings of Laplace's approximation.

    Parameters
    ----------
    max_iter : int
        Largest number of factorisations.
    tol : float
        Stop when the Newton decrement (twice the expected gain in Ψ) is below this share of Ψ.
    """

    max_iter: int = 50
    tol: float = 1e-18

    name: ClassVar[str] = "laplace"
    ways: ClassVar[tuple[Way, ...]] = (Way.needs("expand third", "given"),)
    gradient: ClassVar[bool] = True

    @property
    def rule(self) -> SiteRule:
        return RULE

    def roughly(self) -> Laplace:
        return replace(self, tol=max(self.tol, ROUGH))

    def guide(self, likelihood: Likelihood) -> Laplace:
        """Itself with a mode as accurate as an ascent of the evidence notices."""
        return replace(self, tol=max(self.tol, CLIMB_TOL))

    def near_mode(self, problem: Problem, start: Start | None = None) -> Gaussian:
        """The Gaussian at a point within a hundredth of a standard deviation of the mode, for draws that it guides.

        Its factor is computed only if asked for: often one factorisation, that of the start's sites, is enough.
        """
        held, psi, gaussian = _begin(problem, start)
        for _ in range(self.max_iter):
            gaussian, last, mixing = gaussian or problem.prior.given(held, RULE), np.inf, Mixing(MIXED)
            while True:
                aimed, decrement = gaussian.newton(held, RULE)
                moved = _line_search(problem, mixed(aimed, mixing), psi) if gaussian.chord else None
                if moved is None:  # a mixed step need not go uphill
                    mixing, moved = Mixing(MIXED), _line_search(problem, aimed, psi)
                if moved is None:
                    return gaussian.moved_to(held)
                held, psi = moved
                if decrement < NEAR:
                    return problem.prior.given(held, RULE).moved_to(held)
                if not gaussian.chord or decrement > GUIDE_GAIN * last:
                    break
                last = decrement
            gaussian = None
        return problem.prior.given(held, RULE).moved_to(held)

    def infer(self, problem: Problem, rng: Generator, start: Start | None, gradient: bool) -> GaussianPosterior:
        """Newton's method from zero, or from a neighbouring mode."""
        mode = find_mode(problem, start, self.max_iter, self.tol)
        return mode.posterior(problem, RULE, "approximate", gradient, extra=True)


def find_mode(problem: Problem, start: Start | None, max_iter: int, tol: float) -> FixedPoint:
    """Newton's method on Ψ, each factor used while its steps still gain; the sites there with Laplace's evidence."""
    held, psi, gaussian = _begin(problem, start)
    last_decrement = decrement = np.inf

    def found(gaussian: Gaussian, iterations: int, reason: str = "") -> FixedPoint:
        gaussian = gaussian.moved_to(held)  # the mode itself for its mean: equal there, and free of rounding
        value = psi - gaussian.half_log_det
        return FixedPoint(held, gaussian, value, iterations, not reason, decrement, reason=reason)

    for iteration in range(1, max_iter + 1):
        first, last = gaussian is None, np.inf  # whether the factor is that of the sites here
        gaussian = gaussian or problem.prior.given(held, RULE)
        while True:
            aimed, decrement = gaussian.newton(held, RULE)
            still = abs(decrement) < tol * (1.0 + abs(psi))
            floor = decrement >= last_decrement and abs(decrement) < ROUNDING * (1.0 + abs(psi))
            if still or (floor and first):  # an earlier factor that gained so much tells it too
                return found(gaussian if first else problem.prior.given(held, RULE), iteration)
            if not first and decrement > CHORD_GAIN * last:
                break
            moved = _line_search(problem, aimed, psi)
            if moved is None:
                if first:
                    fine = abs(decrement) < SMALL
                    return found(gaussian, iteration, "" if fine else f"the step was halved {HALVINGS} times")
                break
            (held, psi), last, first = moved, decrement, False
            last_decrement = decrement
            if not gaussian.chord:
                break
        gaussian = None
    gaussian = problem.prior.given(held, RULE)
    return found(gaussian, max_iter, f"no convergence after {max_iter} factorisations")


def _begin(problem: Problem, start: Start | None) -> tuple[Held, float, Gaussian | None]:
    """Rows at a neighbouring mode or its sites, if better than even odds, or at zero; Ψ there; these sites' Gaussian.

    If θ changes, sites lead much nearer to the mode than α. Their factor is then used for the first steps, if factors
    are used for several.
    """
    near = None if start is None else start.of(RULE, problem)
    if near is not None and near.held:
        warm, gaussian = problem.prior.times(near.held), problem.prior.given(near.held, RULE)
        if gaussian.chord:
            warm, _ = problem.map(off_sites, warm)
            warm, _ = gaussian.newton(warm, RULE)
        warm, there = problem.map(move, warm, 1.0 if gaussian.chord else 0.0)
        if there["psi"] > -problem.rows.count * np.log(problem.n_classes):
            return warm, there["psi"], gaussian if gaussian.chord else None
    held, _ = problem.rows.map(blank, problem.rows.held, newton.NUMBERS * problem.n_latents)
    held, sums = problem.map(move, held, 0.0)
    return held, sums["psi"], None


def _line_search(problem: Problem, aimed: Held, psi: float) -> tuple[Held, float] | None:
    """Halve the step until Ψ does not fall; None if thirty halvings are not enough."""
    for halving in range(HALVINGS):
        moved, sums = problem.map(move, aimed, 0.5**halving)
        if sums["psi"] >= psi - 1e-13 * (1.0 + abs(psi)):
            return moved, sums["psi"]
    return None


def mixed(aimed: Held, mixing: Mixing) -> Held:
    """Rows in one shard whose step is mixed with those before by Anderson's method, α telling how far they are."""
    (shard,) = aimed
    values = shard.kept.copy()
    view = values.reshape(newton.NUMBERS, -1)
    here = np.concatenate([view[newton.F], view[newton.ALPHA]])
    step = np.concatenate([view[newton.STEP_F], view[newton.STEP_ALPHA]])
    after = mixing.propose(here, step, scale=np.repeat([0.0, 1.0], len(here) // 2))
    if after is not None and np.isfinite(after).all():
        view[newton.STEP_F], view[newton.STEP_ALPHA] = np.split(after - here, 2)
    return (shard.with_values(values),)


def off_sites(shard: Shard, likelihood: Likelihood) -> tuple[Shard, Sums]:
    """Rows whose residual is that of their sites instead of the likelihood: a Newton step leads to the sites' mean."""
    values = shard.kept.copy()
    view = values.reshape(newton.NUMBERS, -1, values.shape[1])
    view[newton.RESIDUAL] = (
        view[newton.SITE_B] - times_precision(view[newton.SITE_D], view[newton.F]) - view[newton.ALPHA]
    )
    return shard.with_values(values), {}


def look(likelihood: Likelihood, labels: Labels, values: Array) -> tuple[Array, Array]:
    """Rows in Newton's layout with residual and second-order sites at their f; each copy's part of Ψ, (r,)."""
    view = values.reshape(newton.NUMBERS, -1, values.shape[1])
    f, alpha = view[newton.F], view[newton.ALPHA]
    at = likelihood.expand(labels.y, f)
    slope, D = labels.power * at.slope, labels.power * at.D
    view[newton.RESIDUAL] = slope - alpha
    view[newton.SITE_D] = D
    view[newton.SITE_B] = slope + times_precision(D, f)
    return values, labels.power * at.log_p - 0.5 * (alpha * f).sum(axis=0)


def move(shard: Shard, likelihood: Likelihood, step: float) -> tuple[Shard, Sums]:
    """Rows after a step, with what Newton's method needs there; Ψ."""
    values = shard.kept.copy()
    view, labels = values.reshape(newton.NUMBERS, -1, values.shape[1]), labels_of(shard, likelihood)
    if step:
        view[newton.F] += step * view[newton.STEP_F]
        view[newton.ALPHA] += step * view[newton.STEP_ALPHA]
    values, terms = look(likelihood, labels, values)
    return shard.with_values(values), {"psi": float(np.sum(labels.copies * terms))}
