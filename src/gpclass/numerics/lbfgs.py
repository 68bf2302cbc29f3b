"""A limited-memory quasi-Newton ascent whose state is a few arrays, so that it can be written down and taken up again.

Maximises F(x) within bounds. Directions come from the last pairs of steps and changes of the gradient (two-loop
recursion) on the variables that are free to move; a variable on a bound that the gradient pushes against rests. Steps
are cut so that no variable moves more than ``LONGEST``, and shortened until F rises by a share of what its slope says.
scipy's L-BFGS-B keeps its state to itself, and an ascent over all rows takes long enough to be interrupted.
Cost: one or two evaluations an iteration, O(pairs × variables) of its own.
Reference: Nocedal & Wright (2006), Numerical Optimization, algorithms 7.4 and 3.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from gpclass._typing import Array

PAIRS = 12  # steps remembered
LONGEST = 1.5  # largest change of one variable in a step
RISE = 1e-4  # share of the expected rise that a step must have
SHORTEST = 2.0**-12  # of a step, after which the ascent gives up

Objective: TypeAlias = "Callable[[Array], tuple[float, Array] | None]"  # None where there is no value


@dataclass(frozen=True, eq=False)
class Ascent:
    """Where an ascent stands."""

    x: Array  # (k,)
    value: float
    slope: Array  # (k,), gradient of F
    steps: Array  # (pairs, k), newest last
    bends: Array  # (pairs, k), changes of minus the gradient
    iterations: int = 0
    evaluations: int = 1
    stuck: bool = False

    @classmethod
    def start(
        cls, x: Array, objective: Objective, bounds: Array, earlier: Ascent | None = None, scale: float = 1.0
    ) -> Ascent:
        """Evaluate at the start.

        ``earlier`` climbed a function like F / ``scale``, of the same variables: its memory tells of F's curvature.
        """
        x = np.clip(x, *bounds.T)
        found = objective(x)
        if found is None:
            raise ValueError(
                "the evidence is not finite at the starting parameters; start from other kernel parameters"
            )
        if earlier is not None:
            return cls(x, *found, earlier.steps, scale * earlier.bends)
        empty = np.empty((0, len(x)))
        return cls(x, *found, empty, empty)

    def again(self, objective: Objective) -> Ascent | None:
        """Where it stands, not stuck, by an objective that has grown more accurate; None where that has no value."""
        found = objective(self.x)
        if found is None:
            return None
        return replace(self, value=found[0], slope=found[1], evaluations=self.evaluations + 1, stuck=False)

    def arrays(self) -> dict[str, Array]:
        """All of it as arrays."""
        numbers = np.array([self.value, self.iterations, self.evaluations, self.stuck], dtype=float)
        return {
            "x": self.x,
            "slope": self.slope,
            "steps": self.steps,
            "bends": self.bends,
            "numbers": numbers,
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array]) -> Ascent:
        """What :meth:`arrays` gave."""
        value, iterations, evaluations, stuck = arrays["numbers"]
        parts = (arrays["x"], float(value), arrays["slope"], arrays["steps"], arrays["bends"])
        return cls(*parts, int(iterations), int(evaluations), bool(stuck))


def step(at: Ascent, objective: Objective, bounds: Array) -> Ascent:
    """One iteration; ``stuck`` where no step rises."""
    low, high = bounds.T
    rests = ((at.x <= low) & (at.slope < 0)) | ((at.x >= high) & (at.slope > 0))
    direction = _direction(at, rests)
    if direction @ at.slope <= 0 and len(at.steps):  # the memory misleads: forget it
        at = replace(at, steps=at.steps[:0], bends=at.bends[:0])
        direction = _direction(at, rests)
    longest = float(np.abs(direction).max())
    if longest == 0.0:
        return replace(at, iterations=at.iterations + 1, stuck=True)
    size, spent = min(1.0, LONGEST / longest), 0
    while size > SHORTEST * min(1.0, LONGEST / longest):
        moved = np.clip(at.x + size * direction, low, high)
        expected = float((moved - at.x) @ at.slope)
        spent += 1
        found = objective(moved)
        if found is not None and found[0] >= at.value + RISE * expected:
            return _moved(at, moved, found, spent)
        if found is None or expected <= 0:
            size *= 0.25
        else:  # the parabola through both values and the slope
            size *= float(np.clip(0.5 * expected / (expected - (found[0] - at.value)), 0.1, 0.6))
    return replace(at, iterations=at.iterations + 1, evaluations=at.evaluations + spent, stuck=True)


def _direction(at: Ascent, rests: Array) -> Array:
    """The two-loop recursion on the variables that may move."""
    g = np.where(rests, 0.0, at.slope)
    if not len(at.steps):
        return np.asarray(g * (0.3 / max(float(np.abs(g).max()), 1e-300)))
    S, Y = np.where(rests, 0.0, at.steps), np.where(rests, 0.0, at.bends)
    curvature = np.einsum("kj,kj->k", S, Y)
    use = np.flatnonzero(curvature > 1e-12 * np.einsum("kj,kj->k", Y, Y))
    if not len(use):
        return np.asarray(g * (0.3 / max(float(np.abs(g).max()), 1e-300)))
    shares = {}
    r = g.copy()
    for k in use[::-1]:
        shares[k] = float(S[k] @ r) / curvature[k]
        r -= shares[k] * Y[k]
    last = use[-1]
    r *= curvature[last] / float(Y[last] @ Y[last])
    for k in use:
        r += (shares[k] - float(Y[k] @ r) / curvature[k]) * S[k]
    return r


def _moved(at: Ascent, x: Array, found: tuple[float, Array], spent: int) -> Ascent:
    value, slope = found
    s, y = x - at.x, at.slope - slope
    steps, bends = at.steps, at.bends
    if s @ y > 1e-10 * float(np.sqrt((s @ s) * (y @ y))):
        steps, bends = np.vstack([steps, s])[-PAIRS:], np.vstack([bends, y])[-PAIRS:]
    return Ascent(x, value, slope, steps, bends, at.iterations + 1, at.evaluations + spent)
