r"""One elliptical slice step of many chains at once.

For a target N(ξ; 0, I) exp(β r(ξ)): draw ν ~ N(0, I) and a level log u + β r(ξ), and look on the ellipse ξ
cos a + ν sin a for a point above the level, the bracket of a shrinking towards the current point after each
miss. All chains move together as rows of one matrix: one matrix product per step for any number of chains.
Reference: Murray, Adams & MacKay (2010), Elliptical slice sampling.
"""

from __future__ import annotations

from typing import Protocol, Self

import numpy as np

from gpclass._typing import Array, Generator, IntArray
from gpclass.inference.particles import Particles

MOST_SHRINKS = 200  # the bracket is then below 1e-30 of the circle: only rounding can cause that


class Ellipses(Protocol):
    """What the step needs of a :class:`~gpclass.latent.coordinates.Target`."""

    @property
    def m(self) -> Array:
        """Mean of the Gaussian."""

    def spread(self, xi: Array, /) -> Array:
        """f − m of ξ."""

    def log_ratio(self, f: Array, /) -> Array:
        """r(f), (M,)."""

    def of_chains(self, chains: IntArray, /) -> Self:
        """That of some of the chains."""


def elliptical_step(target: Ellipses, state: Particles, rng: Generator, power: float = 1.0) -> Particles:
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
        r_tried = target.of_chains(todo).log_ratio(tried)
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
