r"""The exact posterior by draws guided by EP's sites, each number with its Monte Carlo error.

If the likelihood is an orthant of noisy latent values (probit, multinomial probit) and the prior is dense, p(y|X, θ)
is the probability of v > 0 under a Gaussian of dimension n max(1, C − 1), and :mod:`gpclass.orthant.guided` draws v one
coordinate after another, each draw weighted so that the weights' mean is unbiased for the ratio of p(y|X, θ) to what
EP's sites integrate to. With z the noisy latents of a draw, the score identity

  ∂ log p(y) / ∂K = ½ (E[R z zᵀ R] − R),   R = (K + I/s²)⁻¹,

gives the gradient. Under the logit, and for fractional weights, v has smooth factors instead of limits
(:mod:`gpclass.likelihoods.split`, :mod:`gpclass.orthant.maps`); for inducing inputs see
:mod:`gpclass.inference.exact_latent`. As many draws are made as the probabilities at the training points need for a
Monte Carlo standard error of ``tol``; the number of draws, the order of coordinates and the strength of the sites are
chosen on separate pilot draws, so that the evidence stays unbiased (:mod:`gpclass.orthant.enough`).

"Exact" means: no approximation except the Monte Carlo error, which is reported and falls with more draws. With
inducing inputs it is exact for the prior that they define.
Cost: EP (some O(n³) sweeps), then N²M multiply-adds for M draws in dimension N; O(N² + NM) memory. With m inducing
inputs n m M multiply-adds.
Fails when: the weights have a heavy tail (k-hat > 0.7 in the report): the reported error may then be too small.
Reference: Atiya, Abdel-Gawad & Fayed (2020) for the orthant form; the guided sampler, and the extension to many
classes, are this package's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gpclass._typing import Array
from gpclass.inference.base import Guides, Inference, Way
from gpclass.inference.drawn import Drawn, draw_box, draw_duals, draw_levelled, has_duals
from gpclass.inference.draws import HEAVY, Law, unmet
from gpclass.inference.ep import EP, RULE
from gpclass.inference.exact_latent import around_ep, through_noisy_values, white_latents
from gpclass.inference.looked import Looked, law_at, mixture_at
from gpclass.inference.noise import NoiseFactor, anchored, noise_factor, noise_precision, one_kernel
from gpclass.inference.outline import LARGE, Known, Outline, unused
from gpclass.inference.posteriors import NoisyDraws, WhiteDraws
from gpclass.inference.redraw import POINTS, LatentRecipe, Recipe, Seed, check_alike
from gpclass.inference.sweeps import FixedPoint
from gpclass.latent.dense import dense_prior
from gpclass.latent.sites import Start, labels_of
from gpclass.likelihoods import Likelihood, Probit, nested
from gpclass.likelihoods.binary import K0
from gpclass.model.problem import Problem
from gpclass.numerics.groups import widening
from gpclass.numerics.linalg import factor
from gpclass.numerics.rounded import Rounded, columns
from gpclass.orthant.box import Box
from gpclass.orthant.earlier import earlier_plan
from gpclass.orthant.enough import Wanted, how_many
from gpclass.orthant.plan import Plan, make_plan, reviewed
from gpclass.orthant.uniforms import PointSet, whole_frames
from gpclass.orthant.weights import KHAT_LIMIT, effective_size, log_mean, pareto_khat, relative_error
from gpclass.posterior import Evidence, Posterior, Report
from gpclass.propagation.sites import SiteApproximation, Sites

SHARPEST = 1e-3  # share of a site's variance that noise leaves, at least
FEW_SWEEPS, ROUGH_TOL = 15, 0.2  # of EP, if many short-lived guides are needed: one to five sweeps do
EP_TOL = 1e-3  # the sampler corrects EP, so three digits of its sites suffice
EP_SWEEPS = 60
MOST = (50_000, 10_000)  # draws for ``tol`` by default, likewise
MOST_OF_U = 20_000  # from EP's Gaussian
TERMS = 400_000_000  # rows × draws that ``tol`` may require: half a minute
DRAWS_IN_MEMORY = 40_000_000  # numbers in all draws: 320 MB per array


@dataclass(frozen=True)
class Exact(Inference):
    """Settings of the exact inference.

    Parameters
    ----------
    tol : float
        Target Monte Carlo standard error of the probabilities at the training points. The estimator sets it from
        its own ``tol``. Pilots, which are discarded, set the number of draws so that the largest is expected there:
        it is no bound of what the final draws state. These state it from a few groups, widened for their number, and
        the largest of many such errors is often above ``tol`` by some ten per cent, though the true ones are not.
        The report warns if the pilots expect more than 1.25 ``tol``, a prediction if it states more than 1.5 ``tol``.
    n_samples : int, optional
        A fixed number of draws instead of ``tol``. Nothing is then chosen by a pilot, so that the evidence is
        unbiased for any data, as pseudo-marginal sampling needs.
    first : int
        Draws of the first pilot.
    max_samples : int, optional
        Largest number of draws for ``tol``; by default 50,000 for two classes, 10,000 for more, 20,000 with
        inducing inputs.
    sweeps : int, optional
        Largest number of EP sweeps; by default until convergence. With this setting they end as soon as sites change by
        a fifth, which makes weights nearly as even for a fraction of the time; any number leaves the draws exact.
    """

    tol: float = 1e-3
    n_samples: int | None = None
    first: int = 1000
    max_samples: int | None = None
    sweeps: int | None = None

    name: ClassVar[str] = "exact"
    ways: ClassVar[tuple[Way, ...]] = (
        Way.needs("orthant match", "box given"),
        Way.needs("split match", "box given"),
        Way.needs("match smear", "given whitened"),
    )
    evidence_kind: ClassVar[str | None] = "unbiased"
    gradient: ClassVar[bool] = True
    stochastic: ClassVar[bool] = True

    def guide(self, likelihood: Likelihood) -> EP:
        """EP, whose evidence is maximised before exact steps finish."""
        return EP().guide(likelihood)

    @property
    def for_search(self) -> Exact:
        return replace(self, n_samples=self.n_samples or self.first)

    def for_chains(self, n_samples: int) -> Exact:
        """A fixed number of draws behind a quick guide, for chains in θ.

        Give every estimate the same start, so that the estimate does not depend on the chain's past.
        """
        return replace(self, n_samples=self.n_samples or n_samples, sweeps=self.sweeps or FEW_SWEEPS)

    def brief(self) -> Exact:
        return replace(self, n_samples=60)

    def with_tol(self, tol: float) -> Exact:
        return self if self.n_samples is not None else replace(self, tol=tol)  # a fixed number of draws needs none

    def coarser(self, tol: float) -> Exact:
        return self.with_tol(max(self.tol, tol))

    def infer(
        self, problem: Problem, rng: np.random.Generator, start: Start | None, gradient: bool
    ) -> NoisyDraws | WhiteDraws:
        """Draw from the posterior, in the orthant if there is one."""
        known = None if start is None else start.known
        if isinstance(known, Known) and known.outline.serves(self, problem):
            # Other numbers than those that θ was chosen with.
            return self.complete(known.outline, unused(rng), gradient=gradient, pilot=known.pilot(self))
        outline = self.outline(problem, start)
        if outline is not None:
            return self.complete(outline, rng, gradient=gradient)
        dense = problem.prior.as_dense() if problem.likelihood.offers() & {"orthant", "split"} else None
        if dense is not None:
            through = self.outline(dense)
            assert through is not None
            return through_noisy_values(problem, through, rng, gradient)
        return around_ep(self, problem, rng, start, gradient)

    def posterior_type(self, problem: Problem) -> type[Posterior]:
        return WhiteDraws if self._noisy(problem) is None else NoisyDraws

    def _noisy(self, problem: Problem) -> Problem | None:
        """The problem with its rows repeated, if its noisy latent values can be drawn one after another."""
        offers = problem.likelihood.offers()
        if "box" not in problem.form.offers or not offers & {"orthant", "split"}:
            return None
        rows = problem.unrolled()
        return rows if rows.weights is None or "split" in offers else None

    def outline(self, problem: Problem, start: Start | None = None) -> Outline | None:
        """The guide alone, to be completed if EP's evidence is promising; None unless noisy values are drawn."""
        rows = self._noisy(problem)
        return None if rows is None else replace(self.guided(rows, self.row_sites(rows, start)), asked=problem)

    def guides(self, problem: Problem, start: Start | None, covariance: Array, points: list[Array]) -> Guides | None:
        from gpclass.inference.fitted_guide import fit_guide  # it builds on this module

        return fit_guide(self, problem, start, covariance, points)

    def guided(self, rows: Problem, found: FixedPoint) -> Outline:
        """The guide of EP's sites on the rows."""
        box = rows.prior.box()
        sites, mean = (_on_the_box if rows.n_latents > 1 else _on_noisy_values)(rows, found, box)
        none, ended = np.empty(0), (found.sweeps, found.converged, found.change)  # no covariance is needed
        ep = SiteApproximation(sites, mean, np.empty((0, 0)), found.value, np.nan, none, none, *ended)
        return Outline(self, rows, ep, found.start(RULE).light, kept=box if box.S.size <= LARGE else None)

    def row_sites(self, problem: Problem, start: Start | None) -> FixedPoint:
        """EP's sites on the rows."""
        most, tol = (EP_SWEEPS, EP_TOL) if self.sweeps is None else (self.sweeps, ROUGH_TOL)
        return EP(tol=tol, max_sweeps=most).sites(problem, start)

    def complete(
        self,
        outline: Outline,
        rng: np.random.Generator,
        *,
        gradient: bool = False,
        look: Looked | None = None,
        points: PointSet = POINTS,
        pilot: Known | None = None,
        earlier: bool = False,
    ) -> NoisyDraws:
        """The posterior by draws from the guide, enough of them for ``tol`` at some rows, or where to ``look``.

        With the ``pilot`` of a search, its draws by the widened plan, no other is made. ``earlier``: as files of
        earlier versions require.
        """
        problem, ep = outline.problem, outline.ep
        plan = self._plan(outline, rng, pilot, earlier)
        duals = not earlier and has_duals(problem, plan)
        wanted, one, hubs, found = Wanted(self.n_samples or 0, 0.0, True), rng, None, None
        if self.n_samples is None:
            wanted = self._wanted(outline, plan, rng, look, points, pilot)
            one = rng.spawn(1)[0]
        if duals:
            drawn = draw_duals(problem, plan, wanted.M, one, points)
        elif one is not rng and problem.n_latents > 1 and not (gradient or earlier) and one_kernel(problem):
            hubs, found = rng.spawn(1)[0], outline.noise
            drawn = draw_levelled(problem, found, plan, wanted.M, one, points, hubs)
        else:
            drawn = draw_box(plan, wanted.M, one, points)
        if hubs is None and problem.n_latents > 1:
            hubs = rng.spawn(1)[0]
        seed = None if hubs is None else Seed.of(hubs)
        found = outline.noise if found is None else found  # after the draws, which need the memory
        A = drawn.A(problem, found, hubs)
        recipe = Recipe.of(plan, ep, drawn.seed, points)
        slope, slope_noise = _score(problem, found, A, drawn) if gradient else (None, None)
        known = None
        if gradient and 3 * plan.box.n**2 < DRAWS_IN_MEMORY:  # a step of an ascent, which may be the last
            seen = mixture_at(problem, found, Looked.at_rows(problem), A, drawn.weights, drawn.group)
            known = Known(outline, drawn.log_w, seen)
        return NoisyDraws(
            problem=problem,
            factor=found,
            A=A,
            weights=drawn.weights,
            group=drawn.group,
            evidence=Evidence(
                log_mean(drawn.log_w),
                relative_error(drawn.log_w, drawn.group),
                "unbiased",
                slope,
                gradient_noise=slope_noise,
            ),
            report=self._report(problem, wanted, drawn, plan, ep),
            start=replace(outline.start, known=known),
            recipe=recipe if hubs is None or recipe is None or seed is None
            else LatentRecipe(recipe, drawn.weights, seed, level=True),
        )  # fmt: skip

    def _plan(self, outline: Outline, rng: np.random.Generator, pilot: Known | None, earlier: bool) -> Plan:
        """How to draw, by EP and draws that do not count."""
        if earlier:
            return earlier_plan(outline.box, outline.ep, rng if self.n_samples is None else None)
        if self.n_samples is not None:
            return outline.widened
        if pilot is None:
            return make_plan(outline.box, outline.ep, rng, widened=lambda: outline.widened)
        return reviewed(outline.widened, outline.box, outline.ep, pilot.log_w, rng)

    def _wanted(
        self,
        outline: Outline,
        plan: Plan,
        rng: np.random.Generator,
        look: Looked | None,
        points: PointSet,
        pilot: Known | None,
    ) -> Wanted:
        """How many draws, in whole frames, and what pilots say of them. Nothing else is left of these."""
        problem, share, most = outline.problem, plan.shares[0], self.most(outline.problem)
        known = None if pilot is None else Law.of(pilot.seen, problem.likelihood, plan.box.n, share)
        laws: list[Callable[..., Law]] = []

        def law(M: int, one: np.random.Generator) -> Law:
            if not laws:
                laws.append(law_at(problem, outline.noise, look or Looked.at_rows(problem), rng, share))
            return laws[0](*draw_box(plan, M, one, points).seen)

        found = how_many(law, rng, tol=self.tol, first=self.first, most=most, known=known)
        return replace(found, M=whole_frames(found.M, plan.box.n, share, most))

    def most(self, problem: Problem) -> int:
        """Largest number of draws within budget and memory."""
        most = self.max_samples or MOST[problem.n_latents > 1]
        return max(self.first, min(most, DRAWS_IN_MEMORY // (problem.n * problem.n_latents)))

    def most_draws(self, problem: Problem, n: int) -> int:
        """From EP's Gaussian, within memory and time."""
        if self.n_samples is not None:
            return self.n_samples
        k = problem.prior.white_dimension()
        return max(self.first, min(self.max_samples or MOST_OF_U, DRAWS_IN_MEMORY // k, TERMS // n))

    def _report(self, problem: Problem, wanted: Wanted, drawn: Drawn, plan: Plan, ep: SiteApproximation) -> Report:
        M, N, L = wanted.M, plan.box.n, problem.n_latents
        warnings, khat = [] if wanted.met else [unmet(wanted.expected, self.tol, M)], pareto_khat(drawn.log_w)
        if khat > KHAT_LIMIT and not plan.bounded:
            warnings.append(HEAVY)
        details: dict[str, Any] = {"ep_log_evidence": ep.log_z, "wider_proposal_added": len(plan.shares) > 1}
        if L > 1:
            memory = 8 * (3 * N * N + 2 * L * problem.n * (problem.n + M) + N * M) / 2**20
            details |= {"n_classes": L, "orthant_dimension": N, "memory_mb": memory}
        return Report(
            method=self.name,
            n_samples=M,
            ess=effective_size(drawn.log_w),
            khat=khat,
            warnings=tuple(warnings),
            details=details,
            precise=wanted.met,
        )


def drawn_again(problem: Problem, found: NoiseFactor, recipe: Recipe | LatentRecipe, weights: Array) -> Array | Rounded:
    """The array A (L, n, M) of a posterior, from the recipe of its draws; ``weights`` are those it had."""
    latent, noisy = (recipe, recipe.noisy) if isinstance(recipe, LatentRecipe) else (None, recipe)
    plan = noisy.plan(problem.prior.box())
    M, rng = len(weights), noisy.seed.rng()
    if latent is not None and latent.level and one_kernel(problem):
        drawn = draw_levelled(problem, found, plan, M, rng, noisy.points, latent.seed.rng())
    elif has_duals(problem, plan):
        drawn = draw_duals(problem, plan, M, rng, noisy.points)
    else:
        drawn = draw_box(plan, M, rng, noisy.points)
    check_alike(drawn.weights, weights)
    if latent is None:
        return drawn.A(problem, found, None)
    return drawn.A(problem, found, latent.seed.rng(), level=latent.level)


def latents_drawn_again(problem: Problem, recipe: LatentRecipe) -> Array:
    """The array eta (S, n) of a posterior under the logit link, from the recipe of its draws.

    For files of versions that drew under a similar probit and weighted the draws.
    """
    near = Probit(K0 * problem.likelihood.scale)
    probit = replace(problem, likelihood=near)
    noise = noise_factor(probit)
    A = np.asarray(drawn_again(probit, noise, recipe.noisy, recipe.weights))
    return white_latents(factor(dense_prior(problem).K)[0], A[0], noise, near.scale, recipe.seed.rng()).T


def _score(problem: Problem, found: NoiseFactor, A: Array | Rounded, drawn: Drawn) -> tuple[Array, Array | None]:
    """The score, averaged over the draws, d log p/dK_c = ½ (E[α_c α_cᵀ] − M_cc), and the covariance of its error.

    α = (K + I/s²)⁻¹ z for two classes. For more α = M u⁰, the mean over the rows' hub utilities, so that the drawn ones
    in ``A`` add no noise; under a shared kernel these are the same in all classes of ``A``, and M_cc = (1 − 1/C) E. The
    error is that between the groups of draws.
    """
    prior, w, alpha = dense_prior(problem), drawn.weights, A
    shared = len(prior.kernel_matrices) == 1
    if found.coupled is not None:
        alpha = A - np.mean(A, axis=0) if shared else found.coupled.solve(anchored(problem, drawn.v))

    def blocks() -> Iterator[Array]:  # twice M_cc; one after another, and after the draws' own, since each is large
        if found.coupled is None:
            yield from found.inverses()
        elif shared:
            yield (prior.L - 1.0) * found.coupled.E[0]
        else:
            yield from found.coupled.blocks()

    def halved() -> Iterator[Array]:
        for block in blocks():
            block *= 0.5
            yield block

    members = [np.flatnonzero(drawn.group == g) for g in np.unique(drawn.group)]
    each = np.array([prior.pull((0.5 * w[of] * a) @ a.T for a in columns(alpha, of)) for of in members])
    slope = each.sum(axis=0) - prior.pull(halved())
    if len(members) < 2:
        return slope, None
    off = each - np.outer([w[of].sum() for of in members], each.sum(axis=0))
    return slope, off.T @ off * (widening(len(members)) ** 2 * len(members) / (len(members) - 1))


def _on_noisy_values(problem: Problem, found: FixedPoint, box: Box) -> tuple[Sites, Array]:
    """EP's sites on f as sites on the standardised noisy values, and the mean of these.

    A site of precision t on f has the variance 1/t − 1/λ on f plus noise of precision λ. The mean of the noisy values
    is that of f plus α/λ, α = K⁻¹E[f].
    """
    (shard,), (mean,), precision = found.held, found.gaussian.marginals.mean, noise_precision(problem)
    t, h = labels_of(shard, problem.likelihood).copies * shard.kept[:2]
    stretch = 1.0 / np.maximum(1.0 - t / precision, SHARPEST)
    mean = mean + (h - t * mean) / precision
    sites = Sites(t * stretch * box.scale**2, problem.y * h * stretch * box.scale)
    return sites, problem.y * mean / box.scale


def _on_the_box(problem: Problem, found: FixedPoint, box: Box) -> tuple[Sites, Array]:
    """EP's sites of many classes and their mean, in the units of the box."""
    (shard,) = found.held
    sites = nested.PointSites.of(shard.kept[: RULE.numbers(problem.likelihood, problem.n_latents)])
    m, Q = nested.differences(problem.y, *found.gaussian.marginals.cavity())
    mean_v = nested.local_moments(m, Q, sites)[0]
    placed = Sites(sites.t.ravel() * box.scale**2, sites.h.ravel() * box.scale)
    return placed, mean_v.ravel() / box.scale
