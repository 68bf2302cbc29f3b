r"""From a mixture of Gaussians over latent values to probabilities, intervals and Monte Carlo errors.

A posterior gives f(x) ~ Σ_s w_s N(μ_s, v_s). The probability of a class is the link averaged over it,

    p = Σ_s w_s g_s,   g_s = ∫ Λ(f) N(f; μ_s, v_s) df,

summed in logs. Its Monte Carlo error is that of a self-normalised importance average (delta method): with G
independent groups (chains, batches, or single draws) of components that may depend on each other,

    mcse² = G/(G-1) Σ_g ( Σ_{s ∈ g} w_s (g_s - p) )²,

widened for few groups (:func:`gpclass.numerics.groups.group_error`). It is the error of the computed number. The
credible interval differs: it holds p(x) = Λ(f(x)) itself, and comes from the quantiles of the mixture through the
monotone link.

Cost: O(S m) link averages; for quantiles about ten evaluations of the mixture's distribution function, O(S m)
each. Memory is bounded: points are taken in blocks.
Fails when: all components share one group, whose error is unknown (mcse is NaN).
Reference: Owen (2013), Monte Carlo theory, methods and examples, §9.2; Geyer (1992), Practical MCMC.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.special import ndtr, ndtri

from gpclass._typing import Array, IntArray
from gpclass.likelihoods.binary import BinaryLikelihood
from gpclass.numerics.groups import group_error, group_starts, summed
from gpclass.posterior import LatentMixture
from gpclass.predict.results import (
    Prediction,
    Uncertainty,
    even_components,
    log_sum,
    point_blocks,
)

_CELLS = 500_000  # components × points taken at once: 4 MB per array, under 64 MB with all temporaries
RARE = 1e-3  # probabilities below it are summed in logs
EDGE = 1e-16  # keeps a logarithm finite until the sum in logs replaces it
MANY_GROUPS = 64  # above it, sums over groups go by rows instead of one matrix product
QUANTILE_COMPONENTS = 4000  # of a mixture, that its quantiles are solved on
_PRECISION = 1e-10  # of a quantile, in standard deviations of the mixture
_MAX_STEPS = 200


def two_proba(mixture: LatentMixture, likelihood: BinaryLikelihood) -> Prediction:
    """Probabilities of the classes -1 and +1 (in this order) at the points of a mixture, one latent value each."""
    _check_binary(mixture)
    m = mixture.means.shape[1]
    log_proba = np.empty((m, 2))
    mcse = np.full((m, 2), np.nan)
    with np.errstate(divide="ignore"):
        log_w = np.log(mixture.weights)[:, None]
    starts, order = group_starts(mixture.group)
    for points in point_blocks(len(mixture.weights), m, _CELLS):
        mean, var = mixture.means[:, points, 0], mixture.covariances[:, points, 0, 0]
        block = np.arange(points.start, points.stop)
        if len(mixture.weights) > 1:
            p, error = _ordinary(mixture, likelihood, mean, var, starts, order)
            log_proba[block] = np.log(np.column_stack([1.0 - p, p]))
            mcse[block] = error[:, None]
            rare = np.flatnonzero((p < RARE) | (p > 1.0 - RARE))
            if len(rare) == 0:
                continue
            block, mean, var = block[rare], mean[:, rare], var[:, rare]
        plus, minus = likelihood.log_predictive(mean, var)
        log_proba[block, 0] = log_sum(log_w + minus)
        log_proba[block, 1] = log_sum(log_w + plus)
        if len(starts) > 1:
            # Both classes have the same error; the rarer one shows it without cancellation.
            rarer = np.where(log_proba[block, 1] < log_proba[block, 0], plus, minus)
            log_p = log_proba[block].min(axis=1)
            off = np.exp(log_w + (rarer - log_p)) - mixture.weights[:, None]  # (S, r) w_s (g_s - p)/p
            mcse[block] = (np.exp(log_p) * group_error(summed(off, starts, order)))[:, None]
    np.minimum(log_proba, 0.0, out=log_proba)  # weights sum to one except for rounding
    return Prediction(np.exp(log_proba), log_proba, np.maximum(mcse, mixture.least_error))


def _ordinary(
    mixture: LatentMixture,
    likelihood: BinaryLikelihood,
    mean: Array,
    var: Array,
    starts: IntArray,
    order: IntArray,
) -> tuple[Array, Array]:
    """Probability of the class +1 at r points and its error, for probabilities that need no logs.

    Components go in their groups' order, so that sums over groups are matrix products or differences of rows.
    """
    w = mixture.weights
    g = likelihood.predictive(mean, var)  # (S, r)
    p = np.clip(w @ g, EDGE, 1.0 - EDGE)
    if len(starts) == 1:
        return p, np.full(len(p), np.nan)
    if len(starts) <= MANY_GROUPS:
        sums = np.zeros((len(starts), len(w)))
        bounds = np.append(starts, len(w))
        for row, (begin, end) in enumerate(pairwise(bounds)):
            sums[row, order[begin:end]] = w[order[begin:end]]
        return p, group_error(sums @ g - sums.sum(axis=1)[:, None] * p)
    return p, group_error(summed(w[:, None] * (g - p), starts, order))


def two_uncertainty(mixture: LatentMixture, likelihood: BinaryLikelihood, level: float) -> Uncertainty:
    """Probabilities, their Monte Carlo error, and the equal-tailed credible interval of p(x)."""
    prediction = two_proba(mixture, likelihood)
    tail = 0.5 * (1.0 - level)
    low = likelihood.log_inverse_link(mixture_quantile(mixture, tail))
    high = likelihood.log_inverse_link(mixture_quantile(mixture, 1.0 - tail))
    return Uncertainty(
        proba=prediction.proba,
        mcse=prediction.mcse,
        lower=np.exp(np.column_stack([high[1], low[0]])),  # p(-1) falls as f rises
        upper=np.exp(np.column_stack([low[1], high[0]])),
        latent_mean=mixture.mean(),
        latent_sd=np.sqrt(mixture.variance()),
    )


def mixture_quantile(mixture: LatentMixture, level: float) -> Array:
    """The quantile of the (single) latent value at each point, (m,)."""
    _check_binary(mixture)
    means, sds = mixture.means[..., 0], np.sqrt(mixture.covariances[..., 0, 0])
    if len(mixture.weights) == 1:
        return np.asarray(means[0] + ndtri(level) * sds[0])
    weights = mixture.weights
    if len(weights) > QUANTILE_COMPONENTS:  # evenly by weight: sufficient for a limit of an interval
        chosen = even_components(weights, QUANTILE_COMPONENTS)
        means, sds = means[chosen], sds if len(sds) == 1 else sds[chosen]
        weights = np.full(QUANTILE_COMPONENTS, 1.0 / QUANTILE_COMPONENTS)
    out = np.empty(means.shape[1])
    for block in point_blocks(len(weights), means.shape[1], _CELLS):
        out[block] = _solve_quantile(weights, means[:, block], sds[:, block], level)
    return out


def _solve_quantile(w: Array, mu: Array, sd: Array, level: float) -> Array:
    """Root of Σ_s w_s Φ((q - μ_s)/sd_s) = level for r points: Newton's step, or bisection if it leaves the bracket.

    Shapes: w (S,), mu (S, r), sd (1 or S, r). The quantiles of the components bracket that of the mixture.
    """
    at_level = mu + ndtri(level) * sd
    used = w > 0.0
    low, high = at_level[used].min(axis=0), at_level[used].max(axis=0)
    centre = w @ mu
    spread = np.sqrt(w @ (mu - centre) ** 2 + (w @ sd**2 if len(sd) == len(w) else sd[0] ** 2))
    q = np.clip(centre + ndtri(level) * spread, low, high)
    todo = np.flatnonzero(high - low > _PRECISION * spread)
    for _ in range(_MAX_STEPS):
        if len(todo) == 0:
            break
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            z = (q[todo] - mu[:, todo]) / sd[:, todo]  # ±inf if a component has no variance
            z = np.where(np.isnan(z), np.inf, z)  # on such a component its step has been taken
            excess = w @ ndtr(z) - level
            density = w @ (np.exp(-0.5 * z**2) / (np.sqrt(2.0 * np.pi) * sd[:, todo]))
            step = excess / density
        low[todo] = np.where(excess < 0.0, q[todo], low[todo])
        high[todo] = np.where(excess < 0.0, high[todo], q[todo])
        newton = q[todo] - step
        inside = (newton >= low[todo]) & (newton <= high[todo])
        moved = np.where(inside, newton, 0.5 * (low[todo] + high[todo]))
        small = _PRECISION * spread[todo]
        done = (np.abs(step) <= small) | (high[todo] - low[todo] <= small)
        q[todo] = moved
        todo = todo[~done]
    return q


def _check_binary(mixture: LatentMixture) -> None:
    """Two classes have one latent value per point."""
    latents = mixture.means.shape[2]
    if latents != 1:
        raise ValueError(f"two classes need one latent value per point, the mixture has {latents}")
