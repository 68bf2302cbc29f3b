"""Anderson mixing: the next point of a fixed-point iteration, extrapolated from the last ones.

A map takes the points x_0, ..., x_k to x_j + r_j. If it were linear, the residual at x_k − Σ γ_j (x_{j+1} − x_j) would
be r_k − Σ γ_j (r_{j+1} − r_j); the γ that minimise its norm give the next point

    x_k + step·r_k − Σ γ_j (x_{j+1} − x_j + step (r_{j+1} − r_j)).

Cost: O(N depth²) for N numbers, a least-squares problem of ``depth`` unknowns.
Fails when: the map is far from linear between the points; the caller checks the proposal, and clears the history.
References: Anderson (1965), Iterative procedures for nonlinear integral equations; Walker & Ni (2011), Anderson
acceleration for fixed-point iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gpclass._typing import Array

DEPENDENT = 1e-10  # tolerance for dropping linearly dependent differences of residuals


def smallest_residual(residuals: Sequence[Array]) -> Array:
    """The γ (k,) that minimise the norm of r_k − Σ γ_j (r_{j+1} − r_j), from r_0, ..., r_k (N,)."""
    return np.asarray(np.linalg.lstsq(np.diff(residuals, axis=0).T, residuals[-1], rcond=DEPENDENT)[0])


@dataclass
class Mixing:
    """The last points of an iteration, and the residuals of the map there."""

    depth: int  # number of differences used
    least: int = 2  # points before mixing starts
    points: list[Array] = field(default_factory=list)
    residuals: list[Array] = field(default_factory=list)

    def propose(self, x: Array, residual: Array, *, scale: Array | float = 1.0, step: float = 1.0) -> Array | None:
        """The next point (N,) from x and the map's residual there; None while there are too few points.

        Residuals are compared in units of 1/``scale``; ``step`` is the damping of the map.
        """
        self.points = [*self.points[-self.depth :], x]
        self.residuals = [*self.residuals[-self.depth :], residual]
        if len(self.points) < self.least:
            return None
        gamma = smallest_residual([scale * r for r in self.residuals])
        steps = np.diff(self.points, axis=0) + step * np.diff(self.residuals, axis=0)
        return np.asarray(x + step * residual - gamma @ steps)

    def clear(self) -> None:
        """Clear the history, whose residuals are no longer representative."""
        self.points, self.residuals = [], []
