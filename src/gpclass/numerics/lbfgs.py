"""A limited-memory quasi-Newton ascent whose state is a few arrays, so that it can be saved and resumed.

Maximises F(x) within bounds. Directions come from the last pairs of steps and gradient changes (two-loop recursion)
on the free variables; a variable on a bound with an outward gradient stays fixed. Steps are limited so that no
variable moves more than ``LONGEST``, and shortened until F increases by a fraction of the predicted increase.
scipy's L-BFGS-B does not expose its state, and an ascent over all rows takes long enough to be interrupted.
Cost: one or two evaluations per iteration, plus O(pairs × variables).
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
RISE = 1e-4  # least fraction of the predicted increase
SHORTEST = 2.0**-12  # shortest step before the ascent stops

Objective: TypeAlias = "Callable[[Array], tuple[float, Array] | None]"  # None if F is undefined


class UndefinedStartError(ValueError):
    """F is not finite where the ascent would begin."""


@dataclass(frozen=True, eq=False)
class Ascent:
    """State of an ascent."""

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

        ``earlier`` maximised a function close to F / ``scale`` in the same variables: its memory is reused for F.
        """
        x = np.clip(x, *bounds.T)
        found = objective(x)
        if found is None:
            message = "the evidence is not finite at the start; standardise the features, or start elsewhere"
            raise UndefinedStartError(message)
        empty = np.empty((0, len(x)))
        memory = (empty, empty) if earlier is None else (earlier.steps, scale * earlier.bends)
        return cls(x, *found, *memory)

    def again(self, objective: Objective) -> Ascent | None:
        """The same state, not stuck, under a more accurate objective; None if that is undefined."""
        found = objective(self.x)
        if found is None:
            return None
        return replace(self, value=found[0], slope=found[1], evaluations=self.evaluations + 1, stuck=False)

    def arrays(self) -> dict[str, Array]:
        """The state as arrays."""
        arrays = {name: getattr(self, name) for name in ("x", "slope", "steps", "bends")}
        numbers = [self.value, self.iterations, self.evaluations, self.stuck]
        return arrays | {"numbers": np.array(numbers, dtype=float)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array]) -> Ascent:
        """The state from :meth:`arrays`."""
        value, iterations, evaluations, stuck = arrays["numbers"]
        parts = (arrays["x"], float(value), arrays["slope"], arrays["steps"], arrays["bends"])
        return cls(*parts, int(iterations), int(evaluations), bool(stuck))


def step(at: Ascent, objective: Objective, bounds: Array) -> Ascent:
    """One iteration; ``stuck`` if no step increases F."""
    low, high = bounds.T
    rests = ((at.x <= low) & (at.slope < 0)) | ((at.x >= high) & (at.slope > 0))
    direction = _direction(at, rests)
    if direction @ at.slope <= 0 and len(at.steps):  # not an ascent direction: clear the memory
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
            value, slope = found
            s, y = moved - at.x, at.slope - slope
            steps, bends = at.steps, at.bends
            if s @ y > 1e-10 * float(np.sqrt((s @ s) * (y @ y))):
                steps, bends = np.vstack([steps, s])[-PAIRS:], np.vstack([bends, y])[-PAIRS:]
            return Ascent(moved, value, slope, steps, bends, at.iterations + 1, at.evaluations + spent)
        if found is None or expected <= 0:
            size *= 0.25
        else:  # the parabola through both values and the slope
            size *= float(np.clip(0.5 * expected / (expected - (found[0] - at.value)), 0.1, 0.6))
    return replace(at, iterations=at.iterations + 1, evaluations=at.evaluations + spent, stuck=True)


def inverse_curvature(at: Ascent, p: int) -> Array:
    """That of minus F by the first p variables, (p, p), as the remembered steps have it."""
    unit = np.eye(p, len(at.x))
    return np.array([_direction(replace(at, slope=one), np.zeros(len(one), dtype=bool))[:p] for one in unit])


def _direction(at: Ascent, rests: Array) -> Array:
    """The two-loop recursion on the free variables."""
    g = np.where(rests, 0.0, at.slope)
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
