"""Where a normal density times a power of a log-concave factor has its mode and its mass.

Cost: some ten evaluations of the factor. Fails when: the log of the factor is not concave and increasing.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from gpclass._typing import Array

STEPS = 200
CLOSE = 1e-3  # error of a mode, relative to the normal's standard deviation


class Link(Protocol):
    """A factor of one variable, raised to a power w, whose logarithm is concave and increasing."""

    def log(self, u: Array, w: Array | float) -> Array:
        """Its logarithm, elementwise."""

    def slopes(self, u: Array, w: Array | float) -> tuple[Array, Array]:
        """First two derivatives of the logarithm, good enough to find modes."""


def tilted_range(link: Link, a: Array, b: Array | float, w: Array | float, drop: float) -> tuple[Array, Array, Array]:
    """Mode of N(u; a, b²) times the factor, and where the log has fallen by ``drop`` on either side, (P,) each."""
    precision = 1.0 / np.square(b)
    low, mode = a, a
    high = a + link.slopes(a, w)[0] / precision  # the slope of the logarithm falls: its zero is between them
    found = np.zeros(np.shape(a), dtype=bool)
    for i in range(STEPS):
        d1, d2 = link.slopes(mode, w)
        slope = d1 - (mode - a) * precision
        low, high = np.where(slope > 0, mode, low), np.where(slope > 0, high, mode)
        new = mode + slope / (precision - d2)
        halved = (new <= low) | (new >= high) | (i % 3 == 2)  # Newton's steps from one side may be short
        close = np.abs(new - mode) <= CLOSE * b
        new = np.where(halved & ~close, 0.5 * (low + high), new)
        mode = np.where(found, mode, new)
        found |= close
        if found.all():
            break

    def fall(u: Array) -> Array:
        return np.asarray(link.log(u, w) - 0.5 * precision * (u - a) ** 2)

    floor, ends = fall(mode) - drop, []
    for side in (-1.0, 1.0):  # Newton's steps from outside on a concave function come inwards, to the drop
        end = mode + side * np.sqrt(2.0 * drop) * b
        for _ in range(STEPS):
            step = (fall(end) - floor) / (link.slopes(end, w)[0] - (end - a) * precision)
            end = end - step
            if np.all(np.abs(step) <= 0.01 * np.abs(end - mode)):
                break
        ends.append(end)
    return mode, ends[0], ends[1]
