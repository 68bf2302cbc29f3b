"""Weighted draws in an orthant, and what a posterior keeps of them.

A posterior keeps A = (K + I/s²)⁻¹ z, z the noisy latent values of a draw. For two classes it follows from the
coordinates that the sampler draws in, without a solve (the draws are then *duals*), as long as rounding does not show.
Cost: a solve is n²M multiply-adds for M draws, duals half of that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from gpclass._typing import Array, IntArray
from gpclass.inference.noise import Levelled, NoiseFactor, noise_precision, noisy_latents
from gpclass.inference.redraw import Seed
from gpclass.latent.dense import dense_prior
from gpclass.model.problem import Problem
from gpclass.orthant.batches import batches
from gpclass.orthant.plan import Plan
from gpclass.orthant.uniforms import PointSet

MILD = 1e6  # rows × variance over that of the noise, below which duals are accurate to 1e-6


@dataclass(frozen=True)
class Drawn:
    """Draws in the orthant, in the problem's order and units."""

    v: Array  # (N, M); duals are multiplied by the inverse of their covariance
    log_w: Array  # (M,), log_sites included
    group: IntArray  # (M,)
    seed: Seed | None = None  # of all draws
    duals: bool = False
    made: Array | None = None  # what a posterior keeps, if it was computed batch by batch, without v

    @property
    def weights(self) -> Array:
        """Sum to one."""
        return np.asarray(softmax(self.log_w))

    @property
    def seen(self) -> tuple[Array, Array, IntArray]:
        """What the error of probabilities depends on: draws, weights, groups."""
        assert not self.duals
        assert self.made is None
        return self.v, self.weights, self.group

    def A(self, problem: Problem, found: NoiseFactor, hubs: np.random.Generator | None, level: bool = True) -> Array:
        """The array (L, n, M) that a posterior keeps; ``hubs`` and ``level`` as in ``noisy_latents``. Duals change."""
        if self.made is not None:
            return self.made
        if not self.duals:
            return noisy_latents(problem, found, self.v, hubs, level=level)
        a = self.v
        a *= problem.y[:, None]
        return a[None]


def draw_levelled(
    problem: Problem,
    found: NoiseFactor,
    plan: Plan,
    M: int,
    rng: np.random.Generator,
    points: PointSet,
    hubs: np.random.Generator,
) -> Drawn:
    """M draws of many classes that share a kernel: what a posterior keeps of each batch, and not the draws."""
    seed, made, first = Seed.of(rng), Levelled(problem, found, M, hubs), 0
    log_w, group = np.empty(M), np.empty(M, dtype=np.intp)
    for x, *rest in batches(plan, points, M, rng):
        part = slice(first, first + x.shape[1])
        made.put(plan.box.restore(x), part)
        log_w[part], group[part] = rest
        first = part.stop
        del x  # before the next ones are drawn
    return Drawn(np.empty((0, M)), log_w, group, seed, made=made.A)


def draw_box(plan: Plan, M: int, rng: np.random.Generator, points: PointSet, duals: bool = False) -> Drawn:
    """M draws in independent randomisations."""
    seed, box, v, first = Seed.of(rng), plan.box, np.empty((len(plan.box.row), M)), 0
    log_w, group = np.empty(M), np.empty(M, dtype=np.intp)
    for x, *rest in batches(plan, points, M, rng, duals):
        part = slice(first, first + x.shape[1])
        (box.restore_duals if duals else box.restore)(x, out=v[:, part])
        log_w[part], group[part] = rest
        first = part.stop
        del x  # before the next ones are drawn
    return Drawn(v, log_w, group, seed, duals)


def has_duals(problem: Problem, plan: Plan, found: NoiseFactor) -> bool:
    """Whether the plan's draws may be duals: one latent value, no jitter, and a covariance that is not too large."""
    if found.one is None or not plan.has_duals:
        return False
    variance = float(np.max(dense_prior(problem).K.diagonal() * noise_precision(problem)))
    return problem.n * variance < MILD
