"""The exact posterior of the probit classifier, by draws that EP's sites guide.

p(y|X, θ) is the probability of the orthant v > 0 under v ~ N(0, D_y (K + I/s²) D_y). :mod:`gpclass.orthant.guided`
draws v one coordinate after another, each draw weighted so that the weights' mean is unbiased for the ratio of
p(y|X, θ) to what EP's sites integrate to. The weighted draws answer predictions
(:mod:`gpclass.inference.particles`), and the score identity

  ∂ log p(y) / ∂K = ½ (E[R z zᵀ R] − R),   R = (K + I/s²)⁻¹, z = y∘v,

gives the gradient. Draws are added until the probabilities at the training points have a Monte Carlo standard
error below ``tol``; the number of draws, the order of coordinates and the strength of the sites are chosen on
pilot draws that are not used otherwise, so that the evidence stays unbiased.

"Exact" means: no approximation but the Monte Carlo error, which is stated, and which more draws make as small as
you like.
Cost: EP (some O(n³) sweeps), then n²M multiply-adds for M draws; O(n² + nM) memory.
Fails when: the weights have a heavy tail (k-hat > 0.7 in the report): the stated error may then be too small.
Reference: Atiya, Abdel-Gawad & Fayed (2020) for the orthant form; the guided sampler is this package's own.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gpclass._settings import check_settings
from gpclass._typing import Array, IntArray
from gpclass.inference.ep import EP
from gpclass.inference.exact_latent import (
    HEAVY,
    importance_posterior,
    logit_posterior,
    stretched,
    white_latents,
    worst_error,
)
from gpclass.inference.gaussian import GaussianPosterior
from gpclass.inference.particles import ParticlePosterior, as_box, noise_factor
from gpclass.inference.redraw import LatentRecipe, Recipe, Seed, check_alike
from gpclass.inference.samples import SamplePosterior
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import SiteFactor, factor
from gpclass.orthant.batches import batches
from gpclass.orthant.box import Box, BoxFactors
from gpclass.orthant.plan import Plan, bare_plan, make_plan
from gpclass.orthant.weights import effective_size, heavy, log_mean, pareto_khat, relative_error
from gpclass.posterior import Evidence, LatentMixture, Posterior, Report
from gpclass.predict.two import predict_proba
from gpclass.propagation import expectation_propagation, refined_sites
from gpclass.propagation.sites import SiteApproximation, Sites

FEW_SWEEPS = 2  # of EP, where many guides are wanted and none for long
EP_TOL = 1e-4  # the sampler corrects EP, so four digits of its sites are enough
LOOK_AT = 200  # training points at which the error of the probabilities is judged
ROUNDS = 4  # of drawing anew with more draws
GROWTH = 5  # at most, a round: lattice points need fewer draws than the root law says
SLACK = 1.25  # an error estimate from twenty batches is itself known to 16 %
DRAWS_IN_MEMORY = 40_000_000  # numbers in all draws: 320 MB an array


@dataclass(frozen=True)
class Outline:
    """What is known of a problem before the first draw: EP's guide, and with it EP's evidence."""

    problem: Problem  # its rows, repeated by their weights
    box: Box
    ep: SiteApproximation

    @property
    def log_z(self) -> float:
        """EP's log evidence; it does not depend on any random number."""
        return self.ep.log_z


@dataclass(frozen=True)
class Exact:
    """Settings of the exact inference.

    Parameters
    ----------
    tol : float
        Wanted Monte Carlo standard error of the probabilities at the training points. The estimator sets it from
        its own ``tol``.
    n_samples : int, optional
        A fixed number of draws instead of ``tol``. Nothing is then chosen by a pilot, so that the evidence is
        unbiased whatever the data, as pseudo-marginal sampling needs.
    first, max_samples : int
        Draws before ``tol`` is judged, and the most that may be drawn for it.
    sweeps : int, optional
        Sweeps of EP at most; by default until it has converged. After two the draws are as even, for a third of the
        time, and any number leaves them exact. Where sweeps are few and a start is given, its sites are taken over
        with a few parallel updates.
    """

    tol: float = 1e-3
    n_samples: int | None = None
    first: int = 1000
    max_samples: int = 50_000
    sweeps: int | None = None

    name: ClassVar[str] = "exact"
    stochastic: ClassVar[bool] = True
    guide: ClassVar[EP] = EP(tol=1e-4)  # climbs to the kernel parameters before exact steps finish

    def __post_init__(self) -> None:
        check_settings(self, positive=("tol",), whole=("n_samples", "first", "max_samples", "sweeps"))

    @property
    def for_search(self) -> Exact:
        """A fixed, moderate number of draws, for steps in θ."""
        return replace(self, n_samples=self.n_samples or self.first)

    def for_chains(self, n_samples: int) -> Exact:
        """A fixed number of draws behind a quick guide, for chains in θ.

        Give every estimate the same start: then the guide, and with it the estimate, does not depend on the chain's
        past.
        """
        return replace(self, n_samples=self.n_samples or n_samples, sweeps=self.sweeps or FEW_SWEEPS)

    def __call__(
        self,
        problem: Problem,
        noise: np.random.Generator | None = None,
        *,
        start: Posterior | None = None,
        gradient: bool = False,
    ) -> ParticlePosterior | SamplePosterior:
        """Draw from the posterior of ``problem`` with the random numbers of ``noise``."""
        began = time.perf_counter()
        rng = np.random.default_rng(0) if noise is None else noise
        rows = problem.repeated()
        if rows is not None and rows.likelihood.name == "probit":
            return self.complete(self._outline(rows, start), rng, gradient=gradient, began=began)
        posterior = self._latent(problem, rows, rng, start, gradient)
        return replace(posterior, report=replace(posterior.report, seconds=time.perf_counter() - began))

    def _latent(
        self,
        problem: Problem,
        rows: Problem | None,
        rng: np.random.Generator,
        start: Posterior | None,
        gradient: bool,
    ) -> SamplePosterior:
        """The logit link, or weights that are no whole numbers; the first draws tell how many are needed."""
        target = problem if rows is None else rows
        most = self._most(target.n)

        def draws(M: int) -> SamplePosterior:
            if rows is None:
                return importance_posterior(problem, M, rng.spawn(1)[0], gradient)
            half = replace(self, n_samples=(M + 1) // 2)
            probit = half.complete(half._outline(stretched(rows), start), rng.spawn(1)[0])
            return logit_posterior(rows, probit, rng.spawn(1)[0], gradient)

        if self.n_samples is not None:
            return draws(self.n_samples)
        few = look_at(target.n)
        M, posterior = self.first, draws(self.first)
        for _ in range(ROUNDS):
            wanted = _needed(worst_error(posterior, few), M, self, most)
            if wanted <= M and M > self.first:
                break
            M = max(wanted, M)
            posterior = draws(M)
            if worst_error(posterior, few) <= self.tol:
                return posterior
        if worst_error(posterior, few) > SLACK * self.tol:
            report = posterior.report
            posterior = replace(
                posterior, report=replace(report, warnings=(*report.warnings, self._unmet(M)))
            )
        return posterior

    def outline(self, problem: Problem, start: Posterior | None = None) -> Outline | None:
        """The guide alone, to be completed if EP's evidence makes it worth while; None unless the link is probit."""
        rows = problem.repeated()
        return None if rows is None or rows.likelihood.name != "probit" else self._outline(rows, start)

    def _outline(self, rows: Problem, start: Posterior | None) -> Outline:
        box = as_box(rows)
        return Outline(rows, box, self._guide(box, starting_sites(rows, start)))

    def complete(
        self,
        outline: Outline,
        rng: np.random.Generator,
        *,
        gradient: bool = False,
        began: float | None = None,
    ) -> ParticlePosterior:
        """Draws in the orthant behind a guide."""
        problem, box, ep = outline.problem, outline.box, outline.ep
        began = time.perf_counter() if began is None else began
        plan = make_plan(box, ep, rng) if self.n_samples is None else bare_plan(box, ep)
        factor = noise_factor(problem)
        if self.n_samples is not None:
            drawn = _Drawn.empty(problem.n).grown(plan, self.n_samples, rng)
            met = True
        else:
            drawn, met = _until(plan, problem, factor, self, rng)
        A = factor.solve(problem.y[:, None] * drawn.v)
        w = drawn.weights
        slope = problem.gradient(factor, A * (0.5 * w), A) if gradient else None
        log_z = log_mean(drawn.log_w)
        error = relative_error(drawn.log_w, drawn.group)
        return ParticlePosterior(
            problem=problem,
            factor=factor,
            A=A,
            weights=w,
            group=drawn.group,
            evidence=Evidence(log_z, error, "unbiased", slope),
            report=self._report(drawn, plan, met, time.perf_counter() - began, ep),
            sites=ep.sites,
            recipe=Recipe.of(plan, ep, drawn.seed),
        )

    def _guide(self, box: Box, start: Sites | None) -> SiteApproximation:
        """EP's sites, or quick ones where few sweeps are asked for; a function of the box and the start alone."""
        factors = BoxFactors(box.lower, box.upper)
        if self.sweeps is None:
            return expectation_propagation(box.S, factors, start=start, tol=EP_TOL)
        quick = None if start is None else refined_sites(box.S, factors, start)
        if quick is not None:
            return quick
        return expectation_propagation(box.S, factors, max_sweeps=self.sweeps, tol=EP_TOL)

    def _most(self, n: int) -> int:
        """The most draws that budget and memory allow."""
        return max(self.first, min(self.max_samples, DRAWS_IN_MEMORY // n))

    def _unmet(self, M: int) -> str:
        return (
            f"the Monte Carlo error of the probabilities is above tol={self.tol:g} after {M} draws; "
            "raise Exact(max_samples=...) or tol"
        )

    def _report(self, drawn: _Drawn, plan: Plan, met: bool, seconds: float, ep: SiteApproximation) -> Report:
        warnings = []
        if not met:
            warnings.append(self._unmet(len(drawn.log_w)))
        if heavy(drawn.log_w) and not plan.bounded:
            warnings.append(HEAVY)
        return Report(
            method=self.name,
            n_samples=len(drawn.log_w),
            ess=effective_size(drawn.log_w),
            khat=pareto_khat(drawn.log_w),
            seconds=seconds,
            warnings=tuple(warnings),
            details={"ep_log_evidence": ep.log_z, "defended": len(plan.shares) > 1},
        )


@dataclass(frozen=True)
class _Drawn:
    """Draws so far, in the problem's order and units."""

    v: Array  # (n, M)
    log_w: Array  # (M,), log_sites included
    group: IntArray  # (M,)
    seed: Seed | None = None  # of all draws, when they were made in one go

    @classmethod
    def empty(cls, n: int) -> _Drawn:
        return cls(np.empty((n, 0)), np.empty(0), np.empty(0, dtype=np.intp))

    @property
    def weights(self) -> Array:
        w = np.exp(self.log_w - self.log_w.max())
        return np.asarray(w / w.sum())

    def grown(self, plan: Plan, M: int, rng: np.random.Generator) -> _Drawn:
        """M more draws, in independent randomisations."""
        back = np.argsort(plan.order)
        seed = Seed.of(rng) if not len(self.group) else None
        v, log_w, group = [self.v], [self.log_w], [self.group]
        last = int(self.group.max()) + 1 if len(self.group) else 0
        for x, lw, replicate in batches(plan, "lattice", M, rng):
            v.append(plan.box.restore(x).T[back])
            log_w.append(lw)
            group.append(replicate + last)
        return _Drawn(np.hstack(v), np.concatenate(log_w), np.concatenate(group), seed)


def drawn_again(problem: Problem, factor: SiteFactor, recipe: Recipe, weights: Array) -> Array:
    """The array A (n, M) of a posterior, from what its draws were made of; ``weights`` are those it had."""
    drawn = _Drawn.empty(problem.n).grown(recipe.plan(as_box(problem)), len(weights), recipe.seed.rng())
    check_alike(drawn.weights, weights)
    return factor.solve(problem.y[:, None] * drawn.v)


def latents_drawn_again(problem: Problem, recipe: LatentRecipe) -> Array:
    """The array eta (S, n) of a posterior under the logit link, from what its draws were made of."""
    probit = stretched(problem)
    noise = noise_factor(probit)
    A = drawn_again(probit, noise, recipe.noisy, recipe.weights)
    L, _ = factor(problem.prior.K)
    return white_latents(L, A, noise, probit.likelihood.scale, recipe.seed.rng()).T


def _until(
    plan: Plan, problem: Problem, factor: SiteFactor, settings: Exact, rng: np.random.Generator
) -> tuple[_Drawn, bool]:
    """Draw until the probabilities at the training points have the wanted error, or the budget is spent.

    The number of draws is set by draws that are thrown away, so that the weights' mean stays unbiased: a pilot, and
    again where the error turns out larger than the pilot said.
    """
    few = look_at(problem.n)
    to_latent = problem.y * factor.solve(problem.prior.K[:, few]).T  # (few, n): E[f | v] = to_latent v
    variance = np.maximum(
        np.diag(problem.prior.K)[few] - np.einsum("ij,ji->i", to_latent * problem.y, problem.prior.K[:, few]),
        0.0,
    )

    def error(drawn: _Drawn) -> float:
        mixture = LatentMixture(
            drawn.weights, (to_latent @ drawn.v).T[:, :, None], variance[None, :, None, None], drawn.group
        )
        return float(np.max(predict_proba(mixture, problem.likelihood).mcse))

    M, most = settings.first, settings._most(problem.n)
    drawn = _Drawn.empty(problem.n).grown(plan, M, rng.spawn(1)[0])
    for _ in range(ROUNDS):
        wanted = _needed(error(drawn), M, settings, most)
        if wanted <= M and M > settings.first:
            break
        M = max(wanted, M)
        drawn = _Drawn.empty(problem.n).grown(plan, M, rng.spawn(1)[0])
        if error(drawn) <= settings.tol:
            return drawn, True
    return drawn, error(drawn) <= SLACK * settings.tol


def look_at(n: int) -> IntArray:
    """Training points at which the error of the probabilities is judged."""
    return np.unique(np.linspace(0, n - 1, min(n, LOOK_AT)).astype(np.intp))


def _needed(error: float, M: int, settings: Exact, most: int) -> int:
    """Draws that bring an error measured with M down to the tolerance, with something to spare."""
    wanted = 1.2 * M * (error / settings.tol) ** 2
    return int(np.clip(wanted, settings.first, min(most, GROWTH * M)))


def starting_sites(problem: Problem, start: Posterior | None) -> Sites | None:
    """Sites for the standardised v from those of a neighbouring posterior, on v or on f."""
    if (
        isinstance(start, ParticlePosterior)
        and start.sites is not None
        and len(start.sites.shift) == problem.n
    ):
        return start.sites
    if not isinstance(start, GaussianPosterior) or len(start.t) != problem.n:
        return None
    # A site N(f; m, 1/t) on f is a site N(z; m, 1/t − 1/s²) on z = f + ε; then the sign and the scale.
    noise = problem.likelihood.scale**-2
    stretch = 1.0 / np.maximum(1.0 - noise * start.t, 1e-9)
    scale = np.sqrt(np.diag(problem.prior.K) + noise)
    return Sites(start.t * stretch * scale**2, problem.y * start.h * stretch * scale)
