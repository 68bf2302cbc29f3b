r"""Importance sampling from a Gaussian approximation, for many classes.

q(f) is prior times coupled sites in the coordinates of :mod:`gpclass.latent.many_whitened`, each site weakened to 0.8
of its precision about q's mean, because a Gaussian site is thinner than the likelihood in the directions along which
a point is already classified well. The weights exp(r) make it the posterior, and their mean is the evidence without
bias. Softmax starts from Laplace's Gaussian
moved to the mean, multinomial probit (for weights that are no whole numbers) from EP's.
Cost: O(C n² M), and n M links. Fails when: q is a poor guide; see ESS and k-hat.
Reference: Filippone (2014), eq. 7 and 8, for two classes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gpclass.inference.elliptical_slice import Particles
from gpclass.inference.importance import Importance, weighted_posterior
from gpclass.latent.many_gaussian import MultiGaussianPosterior
from gpclass.latent.many_samples import MultiSamplePosterior
from gpclass.latent.many_whitened import SOFTMAX_AROUND, MultiWhitened, whiten_many, whiten_many_around
from gpclass.model.many_problem import MultiProblem
from gpclass.posterior import Posterior

POWER = 0.8  # of the sites


@dataclass(frozen=True)
class SoftmaxImportance(Importance):
    """Settings of importance sampling for softmax; as :class:`gpclass.inference.Importance`.

    Parameters
    ----------
    n_samples : int
        Draws.
    around : {"variational", "laplace", "prior"}
        The importance distribution: Laplace's Gaussian moved to the mean (:mod:`gpclass.latent.centred`), where it
        is, or the prior.
    """

    n_samples: int = 4000
    around: str = "variational"

    likelihood: ClassVar[str] = "softmax"
    gaussians: ClassVar[tuple[str, ...]] = SOFTMAX_AROUND

    def __call__(
        self,
        problem: MultiProblem,  # type: ignore[override]  # that of many classes
        noise: np.random.Generator | None = None,
        *,
        start: Posterior | None = None,
        gradient: bool = False,
    ) -> MultiSamplePosterior:
        """Weighted draws and an unbiased evidence; ``start`` is not used: nothing depends on the past."""
        rng = np.random.default_rng(0) if noise is None else noise
        began = time.perf_counter()
        target, _ = whiten_many_around(problem, self.around, POWER)
        return weighted_draws(target, self.n_samples, rng, self.name, began)


def importance_posterior(
    guide: MultiGaussianPosterior, M: int, rng: np.random.Generator, method: str
) -> MultiSamplePosterior:
    """M draws from the widened guide, weighted to the posterior of its problem."""
    began = time.perf_counter()
    target = whiten_many(guide.problem, guide.alpha, POWER * guide.factor.D)
    return weighted_draws(target, M, rng, method, began)


def weighted_draws(
    target: MultiWhitened, M: int, rng: np.random.Generator, method: str, began: float
) -> MultiSamplePosterior:
    """M draws of q with their weights."""
    state = Particles.draw(target, M, rng)
    found = weighted_posterior(method, target, state.xi, state.r, time.perf_counter() - began)
    assert isinstance(found, MultiSamplePosterior)
    return found
