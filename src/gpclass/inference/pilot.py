"""Draws of a search that become the pilot of the final ones.

A search ends with steps on the exact evidence, of a fixed number of draws each. The last of them is at the θ that is
chosen: its guide and plan are those of the final draws, and its draws, which do not count, say how many are needed.
Cost: three N×N matrices are kept from one step to the next, if they are not too large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpclass.model.problem import Problem
from gpclass.orthant.plan import PILOT_EVEN, Plan
from gpclass.orthant.uniforms import REPLICATES
from gpclass.orthant.weights import effective_size

if TYPE_CHECKING:
    from gpclass.inference.exact import Drawn, Outline  # it builds on this module


@dataclass(frozen=True, eq=False)
class Pilot:
    """Draws at one θ, with what they were made from."""

    outline: Outline
    plan: Plan
    drawn: Drawn

    def serves(self, problem: Problem, M: int) -> bool:
        """Whether it is of this problem and has M draws, so uneven that final draws are made by its plan."""
        own, log_w = self.outline.problem, self.drawn.log_w
        same = own.rows is problem.rows and own.kernel == problem.kernel and own.likelihood == problem.likelihood
        return same and len(log_w) == M and effective_size(log_w) < PILOT_EVEN * M

    @staticmethod
    def unused(rng: np.random.Generator) -> np.random.Generator:
        """Other random numbers than the pilot's, which are those of the first children of such a generator."""
        return rng.spawn(2 * REPLICATES + 2)[-1]
