"""Weighted draws in an orthant, and what a posterior keeps of them.

A posterior keeps A = (K + I/s²)⁻¹ z, z the noisy latent values of a draw. For two classes it follows from the
coordinates that the sampler draws in, without a solve (the draws are then *duals*), as long as rounding does not show.
Cost: a solve is n²M multiply-adds for M draws, duals half of that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

from gpclass._typing import Array, IntArray
from gpclass.inference.noise import Levelled, NoiseFactor, noise_precision, noisy_latents
from gpclass.inference.redraw import Seed
from gpclass.latent.dense import dense_prior
from gpclass.model.problem import Problem
from gpclass.numerics.products import MANY
from gpclass.numerics.rounded import Rounded, serves
from gpclass.orthant.batches import batches
from gpclass.orthant.plan import Plan
from gpclass.orthant.uniforms import PointSet

MILD = 1e6  # rows × variance over that of the noise, below which duals are accurate to 1e-6
LARGE = 500_000  # numbers, above which they are kept in single precision if that serves
SOLVED = 1000  # draws that are solved for together
ROWS = 128  # of draws that are kept together


@dataclass(frozen=True)
class Drawn:
    """Draws in the orthant, in the problem's order and units."""

    v: Array  # (N, M); none if what a posterior keeps was computed batch by batch
    log_w: Array  # (M,), log_sites included
    group: IntArray  # (M,)
    seed: Seed | None = None  # of all draws
    made: Array | Rounded | None = None  # what a posterior keeps, in the place of v

    @property
    def weights(self) -> Array:
        """Sum to one."""
        return np.asarray(softmax(self.log_w))

    @property
    def seen(self) -> tuple[Array, Array, IntArray]:
        """What the error of probabilities depends on: draws, weights, groups."""
        assert self.made is None
        return self.v, self.weights, self.group

    def A(
        self, problem: Problem, found: NoiseFactor, hubs: np.random.Generator | None, level: bool = True
    ) -> Array | Rounded:
        """The array (L, n, M) that a posterior keeps; ``hubs`` and ``level`` as in ``noisy_latents``.

        For one latent value it takes the place of v.
        """
        if self.made is not None:
            return self.made
        if found.one is None:
            return noisy_latents(problem, found, self.v, hubs, level=level)
        for a in range(0, self.v.shape[1], SOLVED):
            part = slice(a, a + SOLVED)
            self.v[:, part] = noisy_latents(problem, found, self.v[:, part], None)[0]
        return self.v[None]


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
    made = Levelled(problem, found, M, hubs)
    drawn = _draw(plan, M, rng, points, lambda x, part: made.put(plan.box.restore(x), part))
    return replace(drawn, made=made.A)


def draw_duals(problem: Problem, plan: Plan, M: int, rng: np.random.Generator, points: PointSet) -> Drawn:
    """M draws of one latent value: what a posterior keeps of each batch, in single precision if they are many."""
    kept = _Duals(problem, plan, M)
    drawn = _draw(plan, M, rng, points, kept.put, duals=True)
    return replace(drawn, made=kept.A)


def draw_box(plan: Plan, M: int, rng: np.random.Generator, points: PointSet) -> Drawn:
    """M draws in independent randomisations."""
    v = np.empty((len(plan.box.row), M))
    drawn = _draw(plan, M, rng, points, lambda x, part: plan.box.restore(x, out=v[:, part]))
    return replace(drawn, v=v)


def _draw(
    plan: Plan,
    M: int,
    rng: np.random.Generator,
    points: PointSet,
    put: Callable[[Array, slice], object],
    duals: bool = False,
) -> Drawn:
    """M draws in independent randomisations, of which every batch (n, k) is put at its place among all."""
    seed, first = Seed.of(rng), 0
    log_w, group = np.empty(M), np.empty(M, dtype=np.intp)
    for x, *rest in batches(plan, points, M, rng, duals):
        part = slice(first, first + x.shape[1])
        put(x, part)
        log_w[part], group[part] = rest
        first = part.stop
        del x  # before the next ones are drawn
    return Drawn(np.empty((0, M)), log_w, group, seed)


class _Duals:
    """What a posterior keeps of draws of one latent value, from S⁻¹x in the plan's order and units.

    Many are kept in single precision, as deviations from the mean of the guide (:mod:`gpclass.numerics.rounded`). The
    first batch tells whether that serves.
    """

    def __init__(self, problem: Problem, plan: Plan, M: int) -> None:
        self.row, self.factor, self.M = plan.box.row, problem.y / plan.box.scale, M
        guide = plan.proposals[0]
        centre = guide.sites.shift - guide.sites.precision * guide.mean  # S⁻¹ times the guide's mean
        self.base = self.factor * centre[self.row]
        self.largest = float(np.max(dense_prior(problem).K.diagonal()))
        self.A: Array | Rounded | None = None

    def put(self, x: Array, place: slice) -> None:
        """Those of draws with S⁻¹x (n, k), at their place among all."""
        if self.A is None:
            self.A = self._room(x)
        out, base = (self.A[0], None) if isinstance(self.A, np.ndarray) else (self.A.off[:-1], self.base)
        for a in range(0, len(self.row), ROWS):
            part = slice(a, a + ROWS)
            out[part, place] = self._some(x, part, base)

    def _some(self, x: Array, part: slice, base: Array | None) -> Array:
        """Some rows, less the base."""
        found = self.factor[part, None] * x[self.row[part]]
        return found if base is None else np.subtract(found, base[part, None], out=found)

    def _room(self, x: Array) -> Array | Rounded:
        n, M = len(self.row), self.M
        if M >= MANY and n * M > LARGE:
            each = (self._some(x, slice(a, a + ROWS), self.base) for a in range(0, n, ROWS))
            squares = sum(float(np.vdot(one, one)) for one in each)
            if serves(n, np.sqrt(squares / (n * x.shape[1])), self.largest):
                off = np.empty((n + 1, M), dtype=np.float32)
                off[-1] = 1.0
                return Rounded(self.base, off)
        return np.empty((1, n, M))


def has_duals(problem: Problem, plan: Plan) -> bool:
    """Whether the plan's draws may be duals: one latent value, no jitter, and a covariance that is not too large."""
    if problem.n_latents > 1 or not plan.has_duals:
        return False
    variance = float(np.max(dense_prior(problem).K.diagonal() * noise_precision(problem)))
    return problem.n * variance < MILD
