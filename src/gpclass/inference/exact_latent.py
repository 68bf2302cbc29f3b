"""The exact posterior through the latent values: the logit link, and weights that are no whole numbers.

Logit. Φ(k0 u), k0 = 0.5876, is within 0.01 of σ(u), and its posterior is an orthant that
:mod:`gpclass.inference.exact` draws from. Each draw z of the noisy latents gives a draw of f, Gaussian given z,
whose weight is multiplied by Π_i σ(y_i f_i)/Φ(k0 y_i f_i): what results are exact weighted draws under the logit
link. Written in coordinates f = L η with η = η0 + Lᵀ R (z − L η0 − ε0) for fresh standard normals (Matheron's
rule), so a nearly singular K does no harm.

Other weights. p(y_i|f_i)^w_i is no orthant; draws come from EP's Gaussian with importance weights.

The gradient needs no inverse of K either: integrating by parts, ∂ log p(y)/∂K = ½ (E[g gᵀ] + diag E[∂g/∂f]), g = ∂
log p(y|f)/∂f. Cost: as the exact inference, plus some n²M. Fails when: the weights have a heavy tail (σ/Φ is
unbounded where a label is very wrong): k-hat in the report tells.
Reference: Doucet (2010) for Matheron's rule; the reweighted draws are this package's own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import log_ndtr

from gpclass._typing import Array, IntArray
from gpclass.inference.particles import ParticlePosterior
from gpclass.inference.redraw import LatentRecipe, Seed
from gpclass.inference.samples import SamplePosterior
from gpclass.inference.whitened import whiten_around
from gpclass.likelihoods.binary import Probit
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import SiteFactor, factor
from gpclass.orthant.weights import effective_size, heavy, log_mean, pareto_khat, relative_error
from gpclass.posterior import Evidence, LatentMixture, Report
from gpclass.predict.two import predict_proba

K0 = 0.5876  # Φ(K0 u) is the normal distribution function closest to σ(u)


def stretched(problem: Problem) -> Problem:
    """The probit problem whose posterior is close to that of the logit problem."""
    return replace(problem, likelihood=Probit(K0 * problem.likelihood.scale))


def logit_posterior(
    problem: Problem, probit: ParticlePosterior, rng: np.random.Generator, gradient: bool
) -> SamplePosterior:
    """Draws of the logit posterior from those of the stretched probit (of the same rows)."""
    M = probit.n_components
    L, jitter = factor(problem.prior.K)
    seed = Seed.of(rng)
    eta = white_latents(L, probit.A, probit.factor, probit.problem.likelihood.scale, rng)
    f = L @ eta
    u = problem.y[:, None] * f
    change = problem.likelihood.log_prob(1.0, u) - log_ndtr(probit.problem.likelihood.scale * u)
    with np.errstate(divide="ignore"):
        log_w = np.tile(np.log(probit.weights * M) + probit.evidence.log_z, 2) + change.sum(axis=0)
    posterior = _posterior(problem, L, eta.T, f.T, log_w, np.tile(probit.group, 2), jitter, gradient)
    if probit.recipe is None or seed is None:
        return posterior
    return replace(posterior, recipe=LatentRecipe(probit.recipe, probit.weights, seed))


def white_latents(L: Array, A: Array, noise: SiteFactor, scale: float, rng: np.random.Generator) -> Array:
    """Two draws η, f = L η, for each noisy draw z = (K + I/s²) A, (n, 2M).

    They are mirrored about their mean given z: what is linear in f has no error but that of z.
    """
    rest = rng.standard_normal(A.shape)
    noisy = L @ rest
    noisy += rng.standard_normal(A.shape) / scale
    rest -= L.T @ noise.solve(noisy)
    centre = L.T @ A
    return np.hstack([centre + rest, centre - rest])


def importance_posterior(
    problem: Problem, M: int, rng: np.random.Generator, gradient: bool
) -> SamplePosterior:
    """Weighted draws from EP's Gaussian, for any powers of the likelihood."""
    target, _ = whiten_around(problem, "ep")
    half = rng.standard_normal(((M + 1) // 2, problem.n))
    xi = np.vstack([half, -half])
    f = target.latents(xi)
    eta = target.prior_coordinates(xi)
    pair = np.tile(np.arange(len(half)), 2)
    return _posterior(problem, target.L, eta, f, target.log_ratio(f), pair, target.jitter, gradient)


def worst_error(posterior: SamplePosterior, few: IntArray) -> float:
    """Largest Monte Carlo error of a probability at the training points ``few``."""
    f = posterior.eta @ posterior.L[few].T
    still = np.zeros((1, len(few), 1, 1))  # at a training point a draw of f leaves no variance
    mixture = LatentMixture(posterior.weights, f[:, :, None], still, posterior.group)
    return float(np.max(predict_proba(mixture, posterior.problem.likelihood).mcse))


def _posterior(
    problem: Problem,
    L: Array,
    eta: Array,
    f: Array,
    log_w: Array,
    group: IntArray,
    jitter: float,
    gradient: bool,
) -> SamplePosterior:
    w = np.exp(log_w - log_w.max())
    w /= w.sum()
    slope = None
    if gradient:
        _, d1, d2, _ = problem.likelihood.derivatives(problem.y, f)
        g, h = problem.weighted(d1), problem.weighted(d2)  # (M, n)
        G = 0.5 * (g.T @ (w[:, None] * g))
        G.flat[:: problem.n + 1] += 0.5 * (w @ h)
        slope = problem.gradient_from(G)
    return SamplePosterior(
        problem=problem,
        L=L,
        eta=eta,
        weights=w,
        group=group,
        evidence=Evidence(log_mean(log_w), relative_error(log_w, group), "unbiased", slope),
        report=Report(
            method="exact",
            jitter=jitter,
            n_samples=len(w),
            ess=effective_size(log_w),
            khat=pareto_khat(log_w),
            warnings=(HEAVY,) if heavy(log_w) else (),
        ),
    )


HEAVY = (
    "the weights of the draws have a heavy tail (k-hat > 0.7), so the stated Monte Carlo errors may be too small; "
    "compare with another random_state"
)
