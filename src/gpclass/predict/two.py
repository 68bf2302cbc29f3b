r"""From a mixture of Gaussians over latent values to probabilities, intervals and Monte Carlo errors.

A posterior gives f(x) ~ Σ_s w_s N(μ_s, v_s). The probability of a class is the link averaged over it,

    p = Σ_s w_s g_s,   g_s = ∫ Λ(f) N(f; μ_s, v_s) df,

summed in logs. Its Monte Carlo error is that of a self-normalised importance average (delta method): with G
independent groups (chains, batches, or single draws) of components that may depend on each other,

    mcse² = G/(G-1) Σ_g ( Σ_{s ∈ g} w_s (g_s - p) )²,

widened for few groups (:func:`gpclass.numerics.groups.group_error`), and where few draws carry p for those that were
not seen (:mod:`gpclass.predict.rare`). It is the error of the computed number. The credible interval differs: it holds
p(x) = Λ(f(x)) itself, and comes from the quantiles of the mixture through the monotone link.

Cost: O(S m) link averages; for quantiles one pass that gathers the components in bins, and a few evaluations of the
distribution function of these. Memory is bounded: points are taken in blocks.
Fails when: all components share one group, whose error is unknown (mcse is NaN).
Reference: Owen (2013), Monte Carlo theory, methods and examples, §9.2; Geyer (1992), Practical MCMC.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from gpclass._typing import Array, BoolArray, IntArray
from gpclass.likelihoods.base import Likelihood
from gpclass.numerics.fast_normal import normal_cdf
from gpclass.numerics.groups import group_error, group_starts, summed
from gpclass.numerics.products import MANY
from gpclass.posterior import LatentMixture
from gpclass.predict.rare import carried_by_few, to_look_at, unseen
from gpclass.predict.results import (
    Prediction,
    Uncertainty,
    log_sum,
    point_blocks,
)

Single = npt.NDArray[Any]  # in single precision, or double

_CELLS = 2_000_000  # components × points taken at once: 8 or 16 MB per array
_BINNED_CELLS = 125_000  # likewise, of bins: several passes over each
RARE = 1e-5  # probabilities of the rarer class below it are summed in logs
FEW_RARE = 1e-3  # likewise, of either class
EDGE = 1e-16  # keeps a logarithm finite until the sum in logs replaces it
SINGLE = 3e-7  # least error that is stated of averages in single precision
SAMPLED = 16  # one of so many components tells which class is the rarer one
MANY_RUNS = 256  # of components of one group, above which they are put into their order
LONG = 256  # components summed at once in single precision, whose rounding grows with them
MANY_GROUPS = 64  # above it, sums over groups go by rows instead of one matrix product
BINNED = 500  # components of a mixture, above which its quantiles are solved on bins
BINS = 64
FINE = 1e4  # means in units of a bin, above which rounding may move them out of their bins
_PRECISION = 1e-10  # of a quantile, in standard deviations of the mixture
_BINNED_PRECISION = 1e-4  # likewise, on bins
NARROW = 1e3  # standard deviations of the narrowest component that count as one of the mixture, at most
_MAX_STEPS = 200


def two_proba(mixture: LatentMixture, likelihood: Likelihood, errors: bool = True) -> Prediction:
    """Probabilities of the classes -1 and +1 (in this order) at the points of a mixture, one latent value each."""
    _check_binary(mixture)
    m = mixture.means.shape[1]
    log_proba = np.empty((m, 2))
    mcse = np.full((m, 2), np.nan)
    with np.errstate(divide="ignore"):
        log_w = np.log(mixture.weights)[:, None]
    starts, order = group_starts(mixture.group)
    errors = errors and len(starts) > 1
    some = starts if errors else starts[:: 1 + len(starts) // MANY_GROUPS]  # sums of a few groups, if no errors
    for points in point_blocks(len(mixture.weights), m, _CELLS):
        mean, var = mixture.means[:, points, 0], mixture.covariances[:, points, 0, 0]
        block = np.arange(points.start, points.stop)
        rare = np.full(len(block), True)  # summed in logs
        if len(mixture.weights) > 1:
            # Of many components the rarer class is averaged, in single precision; of few, the second one.
            many = len(mixture.weights) >= MANY
            second = mean[::SAMPLED].mean(axis=0) < 0.0 if many else np.full(len(block), True)
            p, error, g = _ordinary(mixture, likelihood, mean, var, second, some, order)
            log_p, log_q = np.log(p), np.log(1.0 - p)
            log_proba[block] = np.column_stack([np.where(second, log_q, log_p), np.where(second, log_p, log_q)])
            mcse[block] = np.maximum(error, SINGLE)[:, None] if g.dtype == np.float32 else error[:, None]
            rare = np.minimum(p, 1.0 - p) < (RARE if many else FEW_RARE)
            again = rare | to_look_at(mixture.weights, g, p) if errors else rare
            if not again.any():
                continue
            block, mean, var, rare = block[again], mean[:, again], var[:, again], rare[again]
        plus, minus = likelihood.log_predictive(mean, var)
        # compress keeps the order of memory, and so that of the sums
        log_proba[block[rare], 0] = log_sum(np.compress(rare, log_w + minus, axis=1))
        log_proba[block[rare], 1] = log_sum(np.compress(rare, log_w + plus, axis=1))
        if errors:
            # Both classes have the same error; the rarer one shows it without cancellation.
            rarer = np.where(log_proba[block, 1] < log_proba[block, 0], plus, minus)
            log_p = log_proba[block].min(axis=1)
            share = np.exp(log_w + (rarer - log_p))  # (S, r) w_s g_s / p
            error = np.exp(log_p) * group_error(summed(share - mixture.weights[:, None], starts, order))
            few = carried_by_few(share)
            error[few] = np.hypot(error[few], unseen(likelihood, mixture.weights, rarer[:, few]))
            mcse[block] = error[:, None]
    np.minimum(log_proba, 0.0, out=log_proba)  # weights sum to one except for rounding
    return Prediction(np.exp(log_proba), log_proba, np.maximum(mcse, mixture.least_error), mixture.truncation)


def _ordinary(
    mixture: LatentMixture,
    likelihood: Likelihood,
    mean: Array,
    var: Array,
    second: BoolArray,
    starts: IntArray,
    order: IntArray,
) -> tuple[Array, Array, Array]:
    """Probability of one class at r points (+1 where ``second``), its error, and each component's, without logs.

    If there are many groups, their sums are those of rows in their order.
    """
    g = likelihood.predictive(mean, var, np.where(second, 1.0, -1.0))  # (S, r)
    w = mixture.weights
    if len(starts) > MANY_GROUPS:
        p = np.clip(w @ np.asarray(g, dtype=np.float64), EDGE, 1.0 - EDGE)
        return p, group_error(summed(w[:, None] * (g - p), starts, order)), g
    sums = _sums(w, g, starts, order)
    p = np.clip(sums.sum(axis=0), EDGE, 1.0 - EDGE)
    return p, group_error(sums - np.add.reduceat(w[order], starts)[:, None] * p), g


def _sums(w: Array, g: Single, starts: IntArray, order: IntArray) -> Array:
    """The sums of w times g (S, r) over each group, (G, r), in double precision.

    By runs of components that are neighbours in memory and of one group; others are put into their order first. Up to
    ``LONG`` of a run of g in single precision are summed in it, good to 5e-7 of the sum; these are added in double.
    """
    label = np.empty(len(w), dtype=np.intp)
    label[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(w)))
    begins = np.flatnonzero(np.diff(label, prepend=-1))
    if len(begins) > MANY_RUNS:
        w, g, label, begins = w[order], g[order], label[order], starts
    sums = np.zeros((len(starts), g.shape[1]))
    kind = g.dtype if g.flags.f_contiguous else np.float64  # a sum of rows, one by one, would be less accurate
    w = w.astype(kind, copy=False)
    for begin, end in pairwise([*begins.tolist(), len(w)]):
        for first in range(begin, end, LONG):
            some = slice(first, min(first + LONG, end))
            sums[label[begin]] += w[some] @ g[some].astype(kind, copy=False)
    return sums


def two_uncertainty(mixture: LatentMixture, likelihood: Likelihood, level: float) -> Uncertainty:
    """Probabilities, their Monte Carlo error, and the equal-tailed credible interval of p(x)."""
    prediction = two_proba(mixture, likelihood)
    tail = 0.5 * (1.0 - level)
    mean, variance = mixture.moments()
    quantiles = mixture_quantiles(mixture, (tail, 1.0 - tail), (mean[:, 0], variance[:, 0]))
    low, high = map(likelihood.log_inverse_link, quantiles)
    return Uncertainty(
        proba=prediction.proba,
        mcse=prediction.mcse,
        lower=np.exp(np.column_stack([high[1], low[0]])),  # p(-1) falls as f rises
        upper=np.exp(np.column_stack([low[1], high[0]])),
        latent_mean=mean,
        latent_sd=np.sqrt(variance),
        truncation=mixture.truncation,
    )


def mixture_quantile(mixture: LatentMixture, level: float) -> Array:
    """The quantile of the (single) latent value at each point, (m,)."""
    return mixture_quantiles(mixture, (level,))[0]


def mixture_quantiles(
    mixture: LatentMixture, levels: tuple[float, ...], moments: tuple[Array, Array] | None = None
) -> list[Array]:
    """Quantiles of the (single) latent value at each point, (m,) each; its mean and variance (m,), if known."""
    _check_binary(mixture)
    means, variances = mixture.means[..., 0], mixture.covariances[..., 0, 0]
    if len(mixture.weights) == 1:
        return [np.asarray(means[0] + ndtri(level) * np.sqrt(variances[0])) for level in levels]
    if len(mixture.weights) > BINNED and len(variances) == 1:
        low, mass, at, sd = _binned(mixture.weights, means, variances)
        about = None if moments is None else (moments[0] - low, np.sqrt(moments[1]))
        return [low + _solve_quantile(mass, at, sd, level, _BINNED_PRECISION, about) for level in levels]
    found = np.empty((len(levels), means.shape[1]))
    for block in point_blocks(len(mixture.weights), means.shape[1], _CELLS):
        for row, level in zip(found, levels, strict=True):
            row[block] = _solve_quantile(mixture.weights, means[:, block], np.sqrt(variances[:, block]), level)
    return list(found)


def _binned(w: Array, mu: Array, var: Array) -> tuple[Array, Single, Single, Single]:
    """Components of one variance per point, gathered in equal bins of their means.

    The least mean of each point and, in single precision, weights, means above it, and standard deviations. Moved to
    the middle of its bin, of width h, a mean varies by h²/12 more (Sheppard), which is taken from the variance of the
    components; if they have less, draws fill their bins. What is left of the width, a sixty-fourth of the range, moves
    a limit by less than a few draws do.
    """
    m = mu.shape[1]
    mass, low, width = np.empty((m, BINS), dtype=np.float32), np.empty(m), np.empty(m)
    weights = w[:0]
    for block in point_blocks(len(w), m, _BINNED_CELLS):
        part, first = mu[:, block], BINS * np.arange(block.stop - block.start)  # first bin of each point
        low[block], high = part.min(axis=0), part.max(axis=0)
        width[block] = np.maximum((high - low[block]) / (BINS - 1), 1e-30)
        place = part - (low[block] - (first + 0.5) * width[block]).astype(mu.dtype)
        place *= (1.0 / width[block]).astype(mu.dtype)
        if np.any(np.maximum(np.abs(low[block]), np.abs(high)) > FINE * width[block]):  # rounding is as large as a bin
            np.clip(place, first, first + (BINS - 0.5), out=place)
        bins = place.T.astype(np.int32).astype(np.intp).ravel()  # faster by two steps
        weights = np.tile(w, len(first)) if len(weights) != len(bins) else weights
        mass[block] = np.bincount(bins, weights, BINS * len(first)).reshape(-1, BINS)
    at = (width * np.arange(BINS)[:, None]).astype(np.float32)
    return low, mass.T.copy(), at, np.sqrt(np.maximum(var - width**2 / 12.0, width**2 / 12.0)).astype(np.float32)


def _solve_quantile(
    w: Single,
    mu: Single,
    sd: Single,
    level: float,
    precision: float = _PRECISION,
    about: tuple[Array, Array] | None = None,
) -> Array:
    """Root of Σ_s w_s Φ((q - μ_s)/sd_s) = level for r points: Newton's step, or bisection if it leaves the bracket.

    Shapes: w (S,) or (S, r), mu (S, r), sd (1 or S, r), all in double or all in single precision. The quantiles of the
    components bracket that of the mixture. After a step h the error is about h² over twice the scale of the density,
    which is no less than a component's standard deviation over the few of these that it is away. ``about``: mean and
    standard deviation of the mixture, from which the first guess is made.
    """
    single, narrowest = mu.dtype == np.float32, sd.min(axis=0)

    def average(values: Array, points: IntArray | slice = slice(None)) -> Array:
        return np.asarray(w @ values if w.ndim == 1 else np.sum(w[:, points] * values, axis=0))

    z_level = float(ndtri(level))
    at_level = mu + z_level * sd
    low, high = at_level.min(axis=0), at_level.max(axis=0)
    if about is None:
        centre = average(mu)
        spread = np.sqrt(average((mu - centre) ** 2) + (average(sd**2) if len(sd) == len(w) else sd[0] ** 2))
    else:
        centre, spread = about
    off: Single = ((mu - centre) / np.maximum(spread, 1e-30)).astype(mu.dtype)
    skewness = np.clip(average(off * off * off), -1.0, 1.0)  # of the means, for Cornish and Fisher's first guess
    q = np.asarray(np.clip(centre + (z_level + (z_level**2 - 1.0) / 6.0 * skewness) * spread, low, high), dtype=float)
    near = precision * spread
    if not single:  # where components are narrow, a small step is a large one of the distribution function
        rounding = 4.0 * np.finfo(float).eps * np.maximum(np.abs(low), np.abs(high))
        near = np.maximum(np.minimum(near, NARROW * precision * narrowest), rounding)
    todo = np.flatnonzero(high - low > near)
    for _ in range(_MAX_STEPS):
        if len(todo) == 0:
            break
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            z: Single = (q[todo].astype(mu.dtype) - mu[:, todo]) / sd[:, todo]  # ±inf if a component has no variance
            z[np.isnan(z)] = np.inf  # on such a component its step has been taken
            excess = average(normal_cdf(z.copy()) if single else ndtr(z), todo) - level
            z *= z
            z *= -0.5
            np.exp(z, out=z)
            z /= sd[:, todo]
            step = np.sqrt(2.0 * np.pi) * excess / average(z, todo)
        low[todo] = np.where(excess < 0.0, q[todo], low[todo])
        high[todo] = np.where(excess < 0.0, high[todo], q[todo])
        newton = q[todo] - step
        inside = (newton >= low[todo]) & (newton <= high[todo])
        moved = np.where(inside, newton, 0.5 * (low[todo] + high[todo]))
        small = near[todo]
        done = (np.abs(step) <= small) | (high[todo] - low[todo] <= small)
        done |= inside & (np.abs(step) <= np.sqrt(0.5 * small * narrowest[todo]))
        q[todo] = moved
        todo = todo[~done]
    return np.asarray(q)


def _check_binary(mixture: LatentMixture) -> None:
    """Two classes have one latent value per point."""
    latents = mixture.means.shape[2]
    if latents != 1:
        raise ValueError(f"two classes need one latent value per point, the mixture has {latents}")
