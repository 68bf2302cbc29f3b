r"""Elliptical slice sampling: whole vectors of latent values moved along random ellipses, nothing to tune.

The step is that of :mod:`gpclass.inference.elliptical_step`. Murray's sampler uses the prior as the Gaussian; any
Gaussian q works, with r = log(likelihood × prior / q), and around EP's the ratio is nearly flat, so successive draws
are nearly independent.
Cost: O(n²) per chain and step, and 2 to 6 evaluations of the n likelihood terms.
Fails when: around the prior with many informative points: the accepted angles are small and chains mix slowly.
Reference: Murray, Adams & MacKay (2010), Elliptical slice sampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpclass._typing import Generator
from gpclass.inference.around import target_around
from gpclass.inference.elliptical_step import elliptical_step
from gpclass.inference.mcmc import WhiteChains, run_latent_chains
from gpclass.inference.particles import Particles
from gpclass.inference.posteriors import WhiteDraws
from gpclass.latent.coordinates import Target
from gpclass.latent.sites import Start
from gpclass.model.problem import Problem

THIN = (3, 6)  # by default, for one latent value per row and for several


@dataclass(frozen=True)
class EllipticalSlice(WhiteChains):
    """Settings of elliptical slice sampling.

    Parameters
    ----------
    around : {"ep", "variational", "laplace", "prior"} or Inference, optional
        The Gaussian whose ellipses are used; "prior" is Murray's sampler. By default the best for the likelihood.
    thin : int, optional
        Steps between kept draws; by default 3 for two classes and 6 for more.
    chains, warmup, draws, evidence
        See :class:`~gpclass.inference.mcmc.ChainSettings`.
    """

    thin: int | None = None

    name: ClassVar[str] = "elliptical-slice"

    def every(self, problem: Problem) -> int:
        return self.thin or THIN[problem.n_latents > 1]

    def infer(self, problem: Problem, rng: Generator, start: Start | None, gradient: bool) -> WhiteDraws:
        target = target_around(problem, self.around)

        def step(state: Particles, rng: Generator, _warming: bool) -> Particles:
            return elliptical_step(target, state, rng)

        return run_latent_chains(self, target, step, rng, start, transition=elliptical_step)

    def latent_step(self, target: Target, state: Particles, rng: Generator, size: float) -> Particles:
        return elliptical_step(target, state, rng)
