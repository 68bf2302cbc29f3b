r"""The exact posterior with inducing inputs, and wherever noisy latent values cannot be drawn.

Up to a thousand rows, noisy values are drawn under the full matrices of the low-rank prior, and u given each of them.
Otherwise draws come from EP's Gaussian, with importance weights: its dimension is L m for any number of rows, so that
the weights become more even with n. EP's Gaussian is too narrow far out. So its sites are weakened about the same mean,
and a share of the draws comes from nearly the prior about that mean; every draw is weighted by the mixture (the balance
heuristic). Points are those of randomised lattices.

The gradient needs no inverse of K (:meth:`gpclass.latent.base.LatentPrior.score`).
Cost: EP, then n m M multiply-adds and n M terms of the likelihood for M draws. Fails when: the weights have a heavy
tail: see k-hat in the report.
Reference: Filippone & Girolami (2014) for EP as importance distribution; Doucet (2010) for Matheron's rule, by which
:func:`white_latents` remakes the draws of older files.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import softmax

from gpclass._typing import Array
from gpclass.inference.draws import HEAVY, Law, unmet
from gpclass.inference.ep import RULE
from gpclass.inference.looked import look_at
from gpclass.inference.noise import NoiseFactor
from gpclass.inference.posteriors import WhiteDraws
from gpclass.inference.redraw import POINTS
from gpclass.latent.low_rank_dense import draw_inducing
from gpclass.latent.sites import Start
from gpclass.model.problem import Problem
from gpclass.orthant.enough import Enough, enough
from gpclass.orthant.uniforms import normal_sets, replicate_sizes, whole_frames
from gpclass.orthant.weights import effective_size, heavy, log_mean, pareto_khat, relative_error
from gpclass.posterior import Evidence, Report

if TYPE_CHECKING:
    from gpclass.inference.exact import Exact
    from gpclass.inference.outline import Outline

# Powers of EP's sites, about EP's mean: EP's Gaussian is too narrow, and much too narrow far out.
POWERS = (0.9, 0.02)
WHOLE = (
    "fractional weights of more than two classes are drawn from EP's Gaussian, which fits badly here; round them to "
    "whole numbers, or leave them out and use decide(X, costs) where errors cost differently"
)
DEFENCE = 0.1  # share of the draws from the wider one, which keeps weights bounded


def through_noisy_values(
    problem: Problem, outline: Outline, rng: np.random.Generator, gradient: bool = False
) -> WhiteDraws:
    """Draws of u from noisy latent values of the same rows: ``outline`` is of the low-rank prior's full matrices."""
    noisy = outline.complete(rng)
    eta = draw_inducing(outline.problem, np.asarray(noisy.A), noisy.factor.inverses(), rng)
    posterior = WhiteDraws(problem, eta, noisy.weights, noisy.group, noisy.evidence, noisy.report)
    return _with_gradient(posterior) if gradient else posterior


def _with_gradient(posterior: WhiteDraws) -> WhiteDraws:
    assert posterior.evidence is not None
    slope, slope_Z = posterior.problem.prior.score(posterior.eta, posterior.weights)
    return replace(posterior, evidence=replace(posterior.evidence, gradient=slope, gradient_Z=slope_Z))


def around_ep(
    settings: Exact, problem: Problem, rng: np.random.Generator, start: Start | None, gradient: bool
) -> WhiteDraws:
    """Weighted draws from EP's Gaussian, for any powers of the likelihood and any prior."""
    ep = settings.row_sites(problem, start)
    targets = [problem.prior.whitened(ep.gaussian, power) for power in POWERS]
    k = targets[0].dimension

    def draws(M: int, rng: np.random.Generator) -> WhiteDraws:
        sizes = np.array(replicate_sizes(M, POINTS, k, 1.0 - DEFENCE))
        wide = np.maximum(np.rint(DEFENCE * sizes), 1).astype(int)
        f, eta, groups = [], [], []
        for target, size in zip(targets, (sizes - wide, wide), strict=True):
            xi = np.hstack(list(normal_sets(POINTS, k, size.tolist(), rng))).T
            f.append(target.latents(xi))
            eta.append(target.prior_coordinates(xi))
            groups.append(np.repeat(np.arange(len(size)), size))
        together, share = np.vstack(f), wide.sum() / M
        guides = [target.log_guide(together) for target in targets]
        mixture = np.logaddexp(guides[0] + np.log1p(-share), guides[1] + np.log(share))
        log_w, group = targets[0].log_likelihood(together) - mixture, np.concatenate(groups)
        return WhiteDraws(
            problem=problem,
            eta=np.vstack(eta),
            weights=softmax(log_w),
            group=group,
            evidence=Evidence(log_mean(log_w), relative_error(log_w, group), "unbiased"),
            report=Report(
                method=settings.name,
                jitter=targets[0].jitter,
                n_samples=M,
                ess=effective_size(log_w),
                khat=pareto_khat(log_w),
                warnings=(HEAVY,) if heavy(log_w) else (),
                details={"ep_log_evidence": ep.value},
            ),
            guide=Start(RULE, ep.held, ep.gaussian),
        )

    if settings.n_samples is not None:
        got = Enough(draws(settings.n_samples, rng), 0.0, True)
    else:
        X, most = problem.rows.take(look_at(problem))[0], settings.most_draws(problem, problem.n)

        def pilot(M: int, rng: np.random.Generator) -> Law:
            return Law.of(draws(M, rng).latent(X), problem.likelihood, k, 1.0 - DEFENCE)

        def final(M: int, rng: np.random.Generator) -> WhiteDraws:
            return draws(whole_frames(M, k, 1.0 - DEFENCE, most), rng)

        got = enough(final, pilot, rng, tol=settings.tol, first=settings.first, most=most)
    posterior = got.drawn
    if not got.met:
        whole = {
            "orthant",
            "box",
        } <= problem.likelihood.offers() | problem.form.offers
        told = (unmet(got.expected, settings.tol, len(posterior.weights)), *([WHOLE] if whole else []))
        report = replace(posterior.report, warnings=(*posterior.report.warnings, *told), precise=False)
        posterior = replace(posterior, report=report)
    return _with_gradient(posterior) if gradient else posterior


def white_latents(L: Array, A: Array, noise: NoiseFactor, scale: float, rng: np.random.Generator) -> Array:
    """Two draws η, f = L η, for each noisy draw z = (K + I/s²) A, (n, 2M).

    They are mirrored about their mean given z: functions linear in f have no error except that of z.
    """
    rest = rng.standard_normal(A.shape)
    noisy = L @ rest
    noisy += rng.standard_normal(A.shape) / scale
    rest -= L.T @ noise.solve(noisy[None])[0]
    centre = L.T @ A
    return np.hstack([centre + rest, centre - rest])
