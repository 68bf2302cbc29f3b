"""From a mixture of Gaussians over C latent values per point to probabilities, intervals and errors.

As :mod:`gpclass.predict` for two classes: p_c = Σ_s w_s g_sc with g_sc the link's average over component s,
and mcse_c from the groups' Σ_{s ∈ g} w_s (g_sc − p_c). The credible interval of p_c(x) has no monotone link to
pass through: it is computed from fixed points of the mixture, with an error of a few per cent of its length.
Cost: that of :mod:`gpclass.likelihoods.averages` for S components and m points; 500 links per point for intervals.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpclass._typing import Array
from gpclass.likelihoods.averages import normal_points
from gpclass.likelihoods.base import Likelihood
from gpclass.numerics.groups import group_error, group_starts, summed
from gpclass.posterior import LatentMixture
from gpclass.predict.rare import TINY, to_look_at, unseen
from gpclass.predict.results import (
    Prediction,
    Uncertainty,
    even_components,
    log_sum,
    point_blocks,
)

CELLS = 500_000  # components × points × classes taken at once
POINTS = 512  # points of the mixture for an interval


def many_proba(mixture: LatentMixture, likelihood: Likelihood, errors: bool = True) -> Prediction:
    """Probabilities of the C classes at the points of a mixture."""
    m, C = mixture.means.shape[1], likelihood.n_classes(mixture.means.shape[2])
    log_proba = np.empty((m, C))
    mcse = np.full((m, C), np.nan)
    with np.errstate(divide="ignore"):
        log_w = np.log(mixture.weights)[:, None, None]
    starts, order = group_starts(mixture.group)
    for block in _blocks(mixture):
        each = likelihood.log_averaged(mixture.means[:, block], mixture.covariances[:, block])  # (S, r, C)
        log_proba[block] = np.minimum(log_sum(log_w + each), 0.0)  # weights sum to one except for rounding
        if len(starts) > 1 and errors:
            g = np.exp(each)
            off = mixture.weights[:, None, None] * (g - np.exp(log_proba[block]))
            mcse[block] = np.hypot(group_error(summed(off, starts, order)), _unseen(likelihood, mixture.weights, g))
    return Prediction(np.exp(log_proba), log_proba, np.maximum(mcse, mixture.least_error))


def _unseen(likelihood: Likelihood, w: Array, g: Array) -> Array:
    """Errors (r, C) of sums of w (S,) times g (S, r, C) by draws that were not seen."""
    S, r, C = g.shape
    first = np.argmax(np.einsum("s,src->rc", w, g), axis=1)[None, :, None]
    g = np.where(np.arange(C) == first, 0.0, g)
    g = np.where(np.arange(C) == first, g.sum(axis=2, keepdims=True), g).reshape(S, -1)  # not the first class
    at, found = np.flatnonzero(to_look_at(w, g, w @ g)), np.zeros(r * C)
    found[at] = unseen(likelihood, w, np.log(np.maximum(g[:, at], TINY)))
    return found.reshape(r, C)


def many_uncertainty(mixture: LatentMixture, likelihood: Likelihood, level: float) -> Uncertainty:
    """Probabilities, their Monte Carlo error, and the equal-tailed credible interval of each p_c(x)."""
    prediction = many_proba(mixture, likelihood)
    tail = 0.5 * (1.0 - level)
    lower, upper = np.empty_like(prediction.proba), np.empty_like(prediction.proba)
    for block in _blocks(mixture):
        f, w = _points(mixture, block)
        p = np.exp(likelihood.log_classes(f))  # (N, r, C)
        lower[block], upper[block] = _quantiles(p, w, (tail, 1.0 - tail))
    return Uncertainty(
        proba=prediction.proba,
        mcse=prediction.mcse,
        lower=lower,
        upper=upper,
        latent_mean=mixture.mean(),
        latent_sd=np.sqrt(mixture.variance()),
    )


def _points(mixture: LatentMixture, block: slice) -> tuple[Array, Array]:
    """Weighted points that represent the mixture at some new points: f (N, r, C), w (N,)."""
    means, covariances = mixture.means[:, block], mixture.covariances[:, block]
    S, _, C = means.shape
    weights = mixture.weights
    if S > POINTS:  # one point per component, of as many components as needed, evenly through the weights
        chosen = even_components(weights, POINTS)
        means, weights = means[chosen], np.full(POINTS, 1.0 / POINTS)
        covariances = covariances if len(covariances) == 1 else covariances[chosen]
        S = POINTS
    each = max(1, POINTS // S)
    values, vectors = np.linalg.eigh(covariances)
    R = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]  # (1 or S, r, C, C)
    z = normal_points(C, 1 << int(np.ceil(np.log2(S * each))))[: S * each].reshape(S, each, C)
    f = means[:, None] + np.einsum("srab,seb->sera", np.broadcast_to(R, (S, *R.shape[1:])), z)
    return f.reshape(S * each, *means.shape[1:]), np.repeat(weights / each, each)


def _quantiles(p: Array, w: Array, levels: tuple[float, float]) -> tuple[Array, Array]:
    """Weighted quantiles over the first axis of p (N, r, C)."""
    order = np.argsort(p, axis=0)
    ranked = np.take_along_axis(p, order, axis=0)
    mass = np.cumsum(w[order], axis=0)
    found = []
    for level in levels:
        place = np.minimum((mass < level).sum(axis=0), len(p) - 1)
        found.append(np.take_along_axis(ranked, place[None], axis=0)[0])
    return found[0], found[1]


def _blocks(mixture: LatentMixture) -> Iterator[slice]:
    S, m, C = mixture.means.shape
    return point_blocks(max(S, POINTS) * C, m, CELLS)
