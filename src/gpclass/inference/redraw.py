"""Draws remade from their recipe, so that a saved model need not store its largest array.

The exact engine's n×M draws follow from the guide's sites, the order of the coordinates and the seed: a few times
n numbers instead of n M. A file stores these, and the draws are remade when it is read. The weights are stored too and
must agree: if they do not, this version of NumPy generates other random numbers, and the file is rejected.

Cost: that of the draws, n²M multiply-adds and O(nM) normal tails; EP and the pilot are not repeated.
Fails when: the generator was not made from a seed sequence; there is then no recipe and the draws are stored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpclass._typing import Array, IntArray
from gpclass.orthant.box import Box
from gpclass.orthant.plan import Plan
from gpclass.orthant.proposal import propose
from gpclass.orthant.uniforms import PointSet
from gpclass.propagation.sites import SiteApproximation, Sites

GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
POINTS: PointSet = "frames"  # of the exact engine's draws
ALIKE = 1e-4  # of the largest weight: far above rounding, far below the difference of another draw


@dataclass(frozen=True)
class Seed:
    """Where a generator's children come from: all that draws by ``rng.spawn`` depend on."""

    entropy: int | tuple[int, ...]
    spawn_key: tuple[int, ...]
    spawned: int  # children so far
    generator: str  # numpy's name of the bit generator

    @classmethod
    def of(cls, rng: np.random.Generator) -> Seed | None:
        """That of a generator in its present state; None if it was not made from a seed sequence."""
        seed = getattr(rng.bit_generator, "seed_seq", None)
        name = type(rng.bit_generator).__name__
        if not isinstance(seed, np.random.SeedSequence) or name not in GENERATORS or seed.entropy is None:
            return None
        words = seed.entropy
        return cls(
            words if isinstance(words, int) else tuple(int(word) for word in words),
            tuple(int(key) for key in seed.spawn_key),
            seed.n_children_spawned,
            name,
        )

    def rng(self) -> np.random.Generator:
        """A generator with the same children to come."""
        if self.generator not in GENERATORS:
            raise ValueError(f"{self.generator!r} is not a bit generator")
        seed = np.random.SeedSequence(self.entropy, spawn_key=self.spawn_key, n_children_spawned=self.spawned)
        return np.random.Generator(getattr(np.random, self.generator)(seed))


@dataclass(frozen=True)
class Recipe:
    """Recipe of the draws of a plan."""

    sites: tuple[Sites, ...]  # of each proposal, in the plan's order
    shares: tuple[float, ...]
    order: IntArray  # (n,)
    seed: Seed
    points: PointSet = "lattice"  # as in files of earlier versions

    @classmethod
    def of(cls, plan: Plan, ep: SiteApproximation, seed: Seed | None, points: PointSet) -> Recipe | None:
        """That of a plan made from EP's sites; None without a seed."""
        if seed is None:
            return None
        powers = (plan.power, 0.0)[: len(plan.proposals)]  # the guide, and the tilted prior that defends it
        return cls(tuple(ep.widened(p).take(plan.order) for p in powers), plan.shares, plan.order, seed, points)

    def plan(self, box: Box) -> Plan:
        """The plan again, for the same box in its given order."""
        box = box.take(self.order)
        proposals = tuple(propose(box.S, sites, box.lower, box.upper, box.smooth) for sites in self.sites)
        return Plan(box, self.order, proposals, self.shares, power=np.nan, spread=np.nan, bounded=False)


@dataclass(frozen=True)
class LatentRecipe:
    """Recipe of draws of latent values: draws of the noisy ones, and fresh normals."""

    noisy: Recipe
    weights: Array  # (M,), of the noisy draws, which the remade draws must match
    seed: Seed  # of the normals
    level: bool = False  # whether classes that share a kernel were levelled, not so in files of earlier versions


def check_alike(again: Array, before: Array) -> None:
    """Reject draws whose weights are not those of the original draws."""
    if again.shape != before.shape or not np.max(np.abs(again - before)) <= ALIKE * np.max(before):
        raise ValueError(
            f"the draws cannot be reproduced with NumPy {np.__version__}: fit the model again, or read the file with "
            "the version that wrote it"
        )
