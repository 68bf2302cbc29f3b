"""The orthant of the noisy latent values of a dense prior, in the exact engine's standard form.

The noisy values v lie in the orthant v > 0, or have smooth factors if the likelihood (or a weight) has no orthant.
Cost: O(N²) memory for dimension N.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpclass._typing import Array
from gpclass.latent.dense import DensePrior

if TYPE_CHECKING:
    from gpclass.orthant.box import Box


def noisy_box(prior: DensePrior, mean: Array | None = None) -> Box:
    """The orthant whose probability is the evidence; ``mean`` (n,) is added to the latent values by their factors."""
    from gpclass.orthant.box import Box  # its layer is above
    from gpclass.orthant.maps import SmoothFactors

    problem, smooth = prior.problem, None
    if problem.weights is None and "orthant" in problem.likelihood.offers():
        S, scale = problem.likelihood.orthant(problem.y, prior.covariances)
        lower = np.zeros(len(S)) if mean is None else -problem.y * mean / scale
    else:
        y, split = problem.y, problem.likelihood.split(problem.y, problem.weights)
        beside = np.zeros(len(y)) if mean is None else y * mean
        scale = np.sqrt(np.diag(prior.K) + 1.0 / split.precision)
        S = (y / scale)[:, None] * prior.K * (y / scale)
        S.flat[:: len(S) + 1] = 1.0
        lower = np.where(split.kind < 0, -beside / scale, -np.inf)
        s = problem.likelihood.scale
        smooth = SmoothFactors(split.links, split.kind, s * scale, split.power, s * beside)
    zero, infinite = np.zeros(len(S)), np.full(len(S), np.inf)
    return Box(S, lower, infinite, scale, zero, np.arange(len(S)), smooth=smooth)
