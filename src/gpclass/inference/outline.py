"""What the exact inference knows of a problem before the first draw, and what does not depend on draws.

A search that ends with an exact evaluation, and the fit that follows at the same parameters, share it; and the draws of
that evaluation, which do not count, are the pilot that says how many the fit needs. They are not kept, only what they
say of the probabilities at some rows.
Cost: EP; a factorisation for each of the noise and the plan, when first asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from gpclass._typing import Array
from gpclass.inference.noise import NoiseFactor, noise_factor
from gpclass.inference.posteriors import NoisyDraws
from gpclass.latent.sites import Start
from gpclass.model.problem import Problem
from gpclass.orthant.box import Box, BoxAnew
from gpclass.orthant.plan import PILOT_EVEN, POWER, POWER_OF_MANY, Plan, bare_plan
from gpclass.orthant.uniforms import REPLICATES
from gpclass.orthant.weights import effective_size
from gpclass.posterior import LatentMixture
from gpclass.propagation.sites import SiteApproximation

if TYPE_CHECKING:
    from gpclass.inference.exact import Exact  # it builds on this module

LARGE = 2_000_000  # numbers of a covariance, above which it is not kept


@dataclass(frozen=True)
class Outline:
    """What is known of a problem before the first draw: EP's guide, and with it EP's evidence."""

    settings: Exact
    problem: Problem  # its rows, repeated by their weights
    ep: SiteApproximation  # on the box's coordinates
    start: Start  # EP's sites on the rows
    asked: Problem | None = None  # the problem as it was given
    kept: Box | None = None  # the orthant, if it is small

    @property
    def noise(self) -> NoiseFactor:
        """Behind (K + Λ⁻¹)⁻¹; a large one is made anew, since draws need the memory, and none of this."""
        return self._noise if self.problem.n**2 * self.problem.n_latents <= LARGE else noise_factor(self.problem)

    @cached_property
    def _noise(self) -> NoiseFactor:
        return noise_factor(self.problem)

    @property
    def box(self) -> Box | BoxAnew:
        """The orthant; a large one is made anew, which takes less time than any use of it."""
        return BoxAnew(len(self.ep.mean), self.problem.prior.box) if self.kept is None else self.kept

    @cached_property
    def widened(self) -> Plan:
        """The plan that depends on no draws."""
        power = POWER if self.problem.n_latents == 1 else POWER_OF_MANY
        return bare_plan(self.box, self.ep, power=power)

    def serves(self, settings: Exact, problem: Problem) -> bool:
        """Whether these settings would find the same for a problem."""
        if self.asked is None or self.asked.rows is not problem.rows or self.settings.sweeps != settings.sweeps:
            return False
        return all(getattr(self.asked, part) == getattr(problem, part) for part in ("kernel", "likelihood", "form"))

    @property
    def log_z(self) -> float:
        """EP's log evidence; it does not depend on any random number."""
        return self.ep.log_z

    def complete(self, rng: np.random.Generator) -> NoisyDraws:
        """The posterior by draws from the guide."""
        return self.settings.complete(self, rng)


@dataclass(frozen=True, eq=False)
class Known:
    """What one evaluation leaves for another one at the same parameters: of its draws no more than a pilot tells."""

    outline: Outline
    log_w: Array  # (M,), of draws by the widened plan
    seen: LatentMixture  # of the same draws, where errors of probabilities are measured

    def pilot(self, settings: Exact) -> Known | None:
        """The same, if it is the first pilot of these settings, and so uneven that its plan is not another one."""
        M = settings.first
        if settings.n_samples is not None or len(self.log_w) != M:
            return None
        return self if effective_size(self.log_w) < PILOT_EVEN * M else None


def unused(rng: np.random.Generator) -> np.random.Generator:
    """Other random numbers than those of draws by such a generator, which are its first children's."""
    return rng.spawn(2 * REPLICATES + 2)[-1]
