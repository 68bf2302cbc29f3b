r"""Elliptical slice sampling: whole vectors of latent values moved along random ellipses, nothing to tune.

For a target N(ξ; 0, I) exp(β r(ξ)): draw ν ~ N(0, I) and a level log u + β r(ξ), and look on the ellipse ξ
cos a + ν sin a for a point above the level, the bracket of a shrinking towards the current point after each
miss. Murray's sampler has the prior for the Gaussian; any Gaussian q will do, with r = log(likelihood ×
prior / q), and around EP's the ratio is nearly flat, so successive draws are nearly independent. All chains
move together as rows of one matrix: one matrix product a step, whatever their number.
Cost: O(n²) a chain and step, and 2 to 6 evaluations of the n likelihood terms.
Fails when: around the prior with many informative points: the accepted angles are small and chains crawl.
Reference: Murray, Adams & MacKay (2010), Elliptical slice sampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gpclass._typing import Array, IntArray
from gpclass.inference.mcmc import ChainSettings, run_latent_chains
from gpclass.inference.samples import Samples
from gpclass.inference.whitened import AROUND, Target, Whitened, check_around, target_around
from gpclass.model.problem import Problem
from gpclass.posterior import Posterior

MOST_SHRINKS = 200  # the bracket is then below 1e-30 of the circle: rounding, not a sample, stops it


@dataclass
class Particles:
    """The state of M chains or particles: where they are, and the log ratio there."""

    xi: Array  # (M, n)
    f: Array  # (M, n)
    r: Array  # (M,)

    @classmethod
    def draw(cls, target: Target, size: int, rng: np.random.Generator) -> Particles:
        """Independent draws from q."""
        return cls.at(target, rng.standard_normal((size, target.dimension)))

    @classmethod
    def at(cls, target: Target, xi: Array) -> Particles:
        """The state of given ξ."""
        f = target.latents(xi)
        return cls(xi, f, target.log_ratio(f))


def elliptical_step(
    target: Target, state: Particles, rng: np.random.Generator, power: float = 1.0
) -> Particles:
    """One step of every particle; leaves N(ξ; 0, I) exp(power · r) invariant."""
    M = len(state.xi)
    nu = rng.standard_normal(state.xi.shape)
    ellipse = target.spread(nu)  # (M, n)
    gap = state.f - target.m
    level = power * state.r + np.log(rng.random(M))
    angle: Array = np.asarray(rng.uniform(0.0, 2.0 * np.pi, M))
    low, high = angle - 2.0 * np.pi, angle.copy()
    f, r = state.f.copy(), state.r.copy()
    final = np.zeros(M)  # an angle of zero is the current point
    todo: IntArray = np.arange(M)
    for _ in range(MOST_SHRINKS):
        a = angle[todo]
        tried = target.m + gap[todo] * np.cos(a)[:, None] + ellipse[todo] * np.sin(a)[:, None]
        rows = target
        if isinstance(target, Whitened) and target.y.ndim == 2:
            rows = target.with_labels(target.y[todo])
        r_tried = rows.log_ratio(tried)
        hit = power * r_tried > level[todo]
        done = todo[hit]
        f[done], r[done], final[done] = tried[hit], r_tried[hit], a[hit]
        todo = todo[~hit]
        if len(todo) == 0:
            break
        a = angle[todo]
        low[todo] = np.where(a < 0.0, a, low[todo])
        high[todo] = np.where(a >= 0.0, a, high[todo])
        angle[todo] = rng.uniform(low[todo], high[todo])
    xi = state.xi * np.cos(final)[:, None] + nu * np.sin(final)[:, None]
    return Particles(xi, f, r)


@dataclass(frozen=True)
class EllipticalSlice(ChainSettings):
    """Settings of elliptical slice sampling.

    Parameters
    ----------
    around : {"ep", "laplace", "prior"}
        The Gaussian whose ellipses are used; "prior" is Murray's sampler.
    chains, warmup, draws, thin, evidence
        See :class:`~gpclass.inference.mcmc.ChainSettings`.
    """

    thin: int = 3
    around: str = "ep"

    name: ClassVar[str] = "elliptical-slice"
    gaussians: ClassVar[tuple[str, ...]] = AROUND

    def __post_init__(self) -> None:
        super().__post_init__()
        check_around(self.around, self.gaussians)

    def __call__(
        self,
        problem: Problem,
        noise: np.random.Generator | None = None,
        *,
        start: Posterior | None = None,
        gradient: bool = False,
    ) -> Samples:
        """Draw from the posterior of ``problem``; chains start in the Gaussian, or in ``start``'s draws."""
        target = target_around(problem, self.around)

        def step(state: Particles, rng: np.random.Generator, _warming: bool) -> Particles:
            return elliptical_step(target, state, rng)

        return run_latent_chains(self, target, step, noise, start, transition=elliptical_step)
