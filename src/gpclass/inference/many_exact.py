r"""The exact posterior of multinomial probit, by draws that EP's sites guide.

p(y|X, θ) is the probability of an orthant of dimension n(C−1) (:mod:`gpclass.latent.many_orthant`), which the
guided sampler of :mod:`gpclass.orthant` integrates without bias; its sites come from
:mod:`gpclass.inference.many_ep`. The gradient is the score identity: with α = M u⁰ of each draw (D = I in
:mod:`gpclass.latent.coupled`), d log p(y)/dK_c = ½ (E[α_c α_cᵀ] − M_cc). Draws are added until the
probabilities at the training points have a Monte Carlo standard error below ``tol``; a pilot that is thrown
away says how many are needed. Weights that are whole numbers are repeated rows; others go through importance
sampling from EP (:mod:`gpclass.inference.many_importance`).

EP, the gradient and prediction keep to n×n matrices. The sampler alone needs dense ones of dimension
N = n(C−1): three N×N arrays and N×M draws; the report states how much.
Cost: EP, N³ for the sampler's factor, N²M multiply-adds for M draws.
Fails when: the weights have a heavy tail (k-hat > 0.7 in the report): the stated error may then be too small.
References: as :mod:`gpclass.inference.exact`; the extension to many classes is this package's own.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gpclass._typing import Array, IntArray
from gpclass.inference.many_ep import MultinomialEP, PointSites, SiteFit, fit_sites
from gpclass.inference.many_importance import importance_posterior
from gpclass.inference.redraw import LatentRecipe, Recipe, Seed, check_alike
from gpclass.latent.coupled import CoupledFactor
from gpclass.latent.many_gaussian import MultiGaussianPosterior
from gpclass.latent.many_orthant import orthant_covariance
from gpclass.latent.many_particles import (
    MultiParticlePosterior,
    anchored,
    latent_moments,
    weights_of_utilities,
)
from gpclass.latent.many_samples import MultiSamplePosterior
from gpclass.model.many_problem import MultiProblem
from gpclass.orthant.batches import batches
from gpclass.orthant.box import Box
from gpclass.orthant.plan import Plan, bare_plan, make_plan
from gpclass.orthant.weights import effective_size, heavy, log_mean, pareto_khat, relative_error
from gpclass.posterior import Evidence, LatentMixture, Posterior, Report
from gpclass.predict.many import many_proba
from gpclass.propagation.sites import SiteApproximation, Sites

EP_TOL = 1e-4  # the sampler corrects EP, so four digits of its sites are enough
LOOK_AT = 60  # training points at which the error of the probabilities is judged
SLACK = 1.25  # an error estimate from twenty batches is itself known to 16 %
DRAWS_IN_MEMORY = 30_000_000  # numbers in all draws of all utilities: 240 MB


@dataclass(frozen=True)
class MultinomialExact:
    """Settings of the exact inference for many classes; as :class:`gpclass.inference.Exact`.

    Parameters
    ----------
    tol : float
        Wanted Monte Carlo standard error of the probabilities at the training points.
    n_samples : int, optional
        A fixed number of draws instead of ``tol``, and no pilot.
    first, max_samples : int
        Draws before ``tol`` is judged, and the most that may be drawn for it.
    """

    tol: float = 1e-3
    n_samples: int | None = None
    first: int = 1000
    max_samples: int = 10_000

    name: ClassVar[str] = "exact"
    likelihood: ClassVar[str] = "multinomial-probit"
    stochastic: ClassVar[bool] = True
    guide: ClassVar[MultinomialEP] = MultinomialEP(tol=1e-4)

    @property
    def for_search(self) -> MultinomialExact:
        """A fixed, moderate number of draws, for steps in θ."""
        return replace(self, n_samples=self.n_samples or self.first)

    def __call__(
        self,
        problem: MultiProblem,
        noise: np.random.Generator | None = None,
        *,
        start: Posterior | None = None,
        gradient: bool = False,
    ) -> MultiParticlePosterior | MultiSamplePosterior:
        """Draw from the posterior of ``problem`` with the random numbers of ``noise``."""
        began = time.perf_counter()
        rng = np.random.default_rng(0) if noise is None else noise
        rows = problem.repeated()
        if rows is None:
            return self._from_ep(problem, rng, start, gradient, began)
        fit = fit_sites(rows, _starting_sites(rows, start), tol=EP_TOL, max_sweeps=60)
        box = _as_box(rows)
        ep = _as_approximation(fit, box)
        plan = make_plan(box, ep, rng) if self.n_samples is None else bare_plan(box, ep)
        factor = unit_factor(rows)
        if self.n_samples is None:
            drawn, expected = self._until(plan, rows, factor, rng)
        else:
            drawn, expected = _draw(plan, self.n_samples, rng), 0.0
        u = anchored(rows, drawn.v)
        slope = _gradient(rows, factor, u, drawn.weights) if gradient else None
        error = relative_error(drawn.log_w, drawn.group)
        hubs = rng.spawn(1)[0]
        recipe, seed = Recipe.of(plan, ep, drawn.seed), Seed.of(hubs)
        return MultiParticlePosterior(
            problem=rows,
            E=factor.E,
            A=weights_of_utilities(factor, u, hubs),
            weights=drawn.weights,
            group=drawn.group,
            evidence=Evidence(log_mean(drawn.log_w), error, "unbiased", slope),
            report=self._report(rows, drawn, plan, expected, fit, time.perf_counter() - began),
            sites=fit.sites,
            recipe=None if recipe is None or seed is None else LatentRecipe(recipe, drawn.weights, seed),
        )

    def _from_ep(
        self,
        problem: MultiProblem,
        rng: np.random.Generator,
        start: Posterior | None,
        gradient: bool,
        began: float,
    ) -> MultiSamplePosterior:
        """Weights that are no whole numbers: importance sampling from EP. Steps in θ follow EP's slope."""
        guide = MultinomialEP(tol=EP_TOL)(problem, start=start, gradient=gradient)
        posterior = importance_posterior(guide, self.n_samples or 4 * self.first, rng, self.name)
        assert posterior.evidence is not None
        return replace(
            posterior,
            evidence=replace(posterior.evidence, gradient=guide.evidence.gradient),
            report=replace(posterior.report, seconds=time.perf_counter() - began),
        )

    def _until(
        self, plan: Plan, problem: MultiProblem, factor: CoupledFactor, rng: np.random.Generator
    ) -> tuple[_Drawn, float]:
        """Draws enough for ``tol`` at some training points, as a pilot foretells, and the error to expect."""
        few = np.unique(np.linspace(0, problem.n - 1, min(problem.n, LOOK_AT)).astype(int))
        X, hubs = problem.X[few], rng.spawn(1)[0]

        def error(drawn: _Drawn) -> float:
            A = weights_of_utilities(factor, anchored(problem, drawn.v), hubs)
            means, variances = latent_moments(problem, factor.E, A, X)
            covariance = variances[None, :, :, None] * np.eye(problem.n_classes)
            mixture = LatentMixture(drawn.weights, means, covariance, drawn.group)
            return float(np.max(many_proba(mixture, problem.likelihood).mcse))

        most = min(self.max_samples, DRAWS_IN_MEMORY // (problem.n_classes * problem.n))
        pilot = error(_draw(plan, self.first, rng.spawn(1)[0]))
        M = int(np.clip(1.2 * self.first * (pilot / self.tol) ** 2, self.first, max(self.first, most)))
        drawn = _draw(plan, M, rng.spawn(1)[0])
        expected = pilot * np.sqrt(self.first / M)
        return drawn, float(expected)

    def _report(
        self, problem: MultiProblem, drawn: _Drawn, plan: Plan, expected: float, fit: SiteFit, seconds: float
    ) -> Report:
        M, N = len(drawn.log_w), plan.box.n
        warnings = []
        if expected > SLACK * self.tol:
            warnings.append(
                f"the Monte Carlo error of the probabilities is up to {expected:.2g}, above tol={self.tol:g}, after "
                f"{M} draws; raise tol or, at the price of slower predictions, Exact(max_samples=...)"
            )
        if heavy(drawn.log_w) and not plan.bounded:
            warnings.append(
                "the weights of the draws have a heavy tail (k-hat > 0.7), so the stated Monte Carlo errors may be too "
                "small; compare with another random_state"
            )
        memory = 8 * (3 * N * N + 2 * problem.n_classes * problem.n * (problem.n + M) + N * M) / 2**20
        return Report(
            method=self.name,
            n_samples=M,
            ess=effective_size(drawn.log_w),
            khat=pareto_khat(drawn.log_w),
            seconds=seconds,
            warnings=tuple(warnings),
            details={
                "ep_log_evidence": fit.log_z,
                "defended": len(plan.shares) > 1,
                "n_classes": problem.n_classes,
                "orthant_dimension": N,
                "memory_mb": memory,
            },
        )


@dataclass(frozen=True)
class _Drawn:
    """Draws in the orthant, in the problem's order and units."""

    v: Array  # (N, M)
    log_w: Array  # (M,)
    group: IntArray  # (M,)
    seed: Seed | None  # of all draws

    @property
    def weights(self) -> Array:
        w = np.exp(self.log_w - self.log_w.max())
        return np.asarray(w / w.sum())


def _draw(plan: Plan, M: int, rng: np.random.Generator) -> _Drawn:
    """M draws in independent randomisations."""
    seed = Seed.of(rng)
    back = np.argsort(plan.order)
    v, log_w, group = np.empty((plan.box.n, M)), [], []
    done = 0
    for x, lw, replicate in batches(plan, "lattice", M, rng):
        v[:, done : done + len(lw)] = plan.box.restore(x).T[back]
        done += len(lw)
        log_w.append(lw)
        group.append(replicate)
    return _Drawn(v, np.concatenate(log_w), np.concatenate(group), seed)


def utilities_drawn_again(problem: MultiProblem, recipe: LatentRecipe) -> Array:
    """The array A (C, n, M) of a posterior, from what its draws were made of."""
    drawn = _draw(recipe.noisy.plan(_as_box(problem)), len(recipe.weights), recipe.noisy.seed.rng())
    check_alike(drawn.weights, recipe.weights)
    return weights_of_utilities(unit_factor(problem), anchored(problem, drawn.v), recipe.seed.rng())


def unit_factor(problem: MultiProblem) -> CoupledFactor:
    """The factor behind (K_c + I)⁻¹."""
    return CoupledFactor(problem.K, np.ones((problem.n_classes, problem.n)))


def _as_box(problem: MultiProblem) -> Box:
    """The orthant in the engine's standard form."""
    S = orthant_covariance(problem)
    scale = np.sqrt(np.diag(S))
    S /= scale[:, None]
    S /= scale
    S.flat[:: len(S) + 1] = 1.0
    zero = np.zeros(len(S))
    return Box(S, zero, np.full(len(S), np.inf), scale, zero, possible=True, jitter=0.0)


def _as_approximation(fit: SiteFit, box: Box) -> SiteApproximation:
    """EP's sites in the units of the box; the covariance is left out, nobody asks for it."""
    sites = Sites(fit.sites.t.ravel() * box.scale**2, fit.sites.h.ravel() * box.scale)
    none = np.empty(0)
    return SiteApproximation(
        sites=sites,
        mean=fit.mean_v.ravel() / box.scale,
        covariance=np.empty((0, 0)),
        log_z=fit.log_z,
        log_sites=np.nan,
        cavity_mean=none,
        cavity_var=none,
        sweeps=fit.sweeps,
        converged=fit.converged,
        change=fit.change,
    )


def _starting_sites(problem: MultiProblem, start: Posterior | None) -> PointSites | None:
    """Sites of a neighbouring posterior."""
    found = None
    if isinstance(start, MultiParticlePosterior):
        found = start.sites
    elif isinstance(start, MultiGaussianPosterior):
        found = start.state.get("sites")
    return found if found is not None and found.t.shape == (problem.n, problem.n_classes - 1) else None


def _gradient(problem: MultiProblem, factor: CoupledFactor, u: Array, w: Array) -> Array:
    """The score, averaged over the draws."""
    alpha = factor.solve(u)  # (C, n, M)
    blocks = enumerate(factor.blocks())
    return problem.pull(0.5 * ((alpha[c] * w) @ alpha[c].T - block) for c, block in blocks)
