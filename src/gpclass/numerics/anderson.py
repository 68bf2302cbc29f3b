"""Anderson's mixing: the next point of a fixed-point iteration from what the last ones led to.

A map takes the points x_0, ..., x_k to x_j + r_j. Were it linear, the residual at x_k − Σ γ_j (x_{j+1} − x_j) would be
r_k − Σ γ_j (r_{j+1} − r_j); the γ that make it smallest give the next point

    x_k + step·r_k − Σ γ_j (x_{j+1} − x_j + step (r_{j+1} − r_j)).

Cost: O(N depth²) for N numbers, a least-squares problem of ``depth`` unknowns.
Fails when: the map is far from linear between the points; the caller judges the proposal, and clears the past.
References: Anderson (1965), Iterative procedures for nonlinear integral equations; Walker & Ni (2011), Anderson
acceleration for fixed-point iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gpclass._typing import Array

DEPENDENT = 1e-10  # differences of residuals that are combinations of the others up to this are left out


def smallest_residual(residuals: Sequence[Array]) -> Array:
    """The γ (k,) that make r_k − Σ γ_j (r_{j+1} − r_j) smallest, from r_0, ..., r_k (N,)."""
    return np.asarray(np.linalg.lstsq(np.diff(residuals, axis=0).T, residuals[-1], rcond=DEPENDENT)[0])


@dataclass
class Mixing:
    """The last points of an iteration, and the residuals of the map there."""

    depth: int  # differences that are looked at
    least: int = 2  # points before anything is mixed
    points: list[Array] = field(default_factory=list)
    residuals: list[Array] = field(default_factory=list)

    def propose(
        self, x: Array, residual: Array, *, scale: Array | float = 1.0, step: float = 1.0
    ) -> Array | None:
        """The next point (N,) from x and the map's residual there; None while there are too few to mix.

        Residuals are compared in units of 1/``scale``, and the map is followed ``step`` of the way.
        """
        self.points = [*self.points[-self.depth :], x]
        self.residuals = [*self.residuals[-self.depth :], residual]
        if len(self.points) < self.least:
            return None
        gamma = smallest_residual([scale * r for r in self.residuals])
        steps = np.diff(self.points, axis=0) + step * np.diff(self.residuals, axis=0)
        return np.asarray(x + step * residual - gamma @ steps)

    def clear(self) -> None:
        """Forget: the residuals no longer tell of where the iteration is."""
        self.points, self.residuals = [], []
