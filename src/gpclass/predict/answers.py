"""Predictions of any likelihood: through its one latent value for two classes, or through one per class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from gpclass._typing import Array, Generator, IntArray
from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.local import symmetric_root
from gpclass.numerics.groups import group_error, group_starts, summed
from gpclass.posterior import LatentMixture, Posterior
from gpclass.predict.many import many_proba, many_uncertainty
from gpclass.predict.results import Prediction, Uncertainty
from gpclass.predict.two import two_proba, two_uncertainty

BLOCK_ELEMENTS = 8_000_000  # components × points of one mixture: 32 or 64 MB

T = TypeVar("T", Prediction, Uncertainty)


def predict_proba(mixture: LatentMixture, likelihood: Likelihood, errors: bool = True) -> Prediction:
    """Probabilities of the classes, in their order, at the points of a mixture.

    Parameters
    ----------
    mixture : LatentMixture
        Latent values at m points.
    likelihood : Likelihood
        The link to average.
    errors : bool
        Whether the Monte Carlo errors are needed.
    """
    return (two_proba if likelihood.monotone else many_proba)(mixture, likelihood, errors)


def uncertainty(mixture: LatentMixture, likelihood: Likelihood, level: float = 0.9) -> Uncertainty:
    """Probabilities, their Monte Carlo error, and the equal-tailed credible interval of p(x).

    Parameters
    ----------
    mixture : LatentMixture
        Latent values at m points.
    likelihood : Likelihood
        The link.
    level : float
        Posterior probability that the interval holds, between 0 and 1.
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level is the probability of the interval and must lie between 0 and 1, got {level!r}")
    return (two_uncertainty if likelihood.monotone else many_uncertainty)(mixture, likelihood, level)


def errors_of(mixture: LatentMixture, likelihood: Likelihood, *groupings: IntArray) -> list[Array]:
    """Monte Carlo errors of the probabilities, (m, 1 or C), under several groupings of the components at once."""
    g = likelihood.rough_average(mixture.means, mixture.covariances)
    off = mixture.weights[:, None, None] * (g - np.einsum("s,smc->mc", mixture.weights, g))
    return [group_error(summed(off, *group_starts(group))) for group in groupings]


def counted(latent: LatentMixture, likelihood: Likelihood, rng: Generator) -> Array:
    """Shares of the classes, (m, C), by a hard count: one label drawn for each component of the mixture.

    A's equation 61. Its expectation is that of :func:`predict_proba`, which averages the link instead (equation 62) and
    has less noise: with M equal components the count adds a standard error of √(p(1 − p)/M).
    """
    S, m, L = latent.means.shape
    root = symmetric_root(latent.covariances)
    f = latent.means + (root @ rng.standard_normal((S, m, L, 1)))[..., 0]
    drawn = likelihood.draw_labels(np.swapaxes(f, 1, 2), rng)
    each = [likelihood.encode(np.full(1, c))[0] for c in range(likelihood.n_classes(L))]
    return np.stack([latent.weights @ (drawn == y) for y in each], axis=1)


def in_blocks(X_new: Array, posterior: Posterior, answer: Callable[[LatentMixture], T]) -> T:
    """Answer for the points of X_new in blocks, so that a mixture of many components fits into memory."""
    blocks = posterior.blocks(X_new, BLOCK_ELEMENTS)
    parts = [answer(posterior.latent(X_new[points])) for points in blocks]
    if len(parts) == 1:
        return parts[0]
    place = np.argsort(np.concatenate(blocks))
    every: dict[str, list[Any]] = {name: [getattr(part, name) for part in parts] for name in vars(parts[0])}
    known = {name: each for name, each in every.items() if each[0] is not None}
    return type(parts[0])(**{name: np.concatenate(each)[place] for name, each in known.items()})
