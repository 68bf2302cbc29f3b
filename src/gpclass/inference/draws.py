r"""How many draws a tolerance needs: decided by pilots, never by the final draws.

A pilot of M draws measures the error e of the target; 1.2 M (e/tol)² draws then reduce it to ``tol`` by the root law.
Lattice points converge faster than that, so if many more are needed a larger pilot runs first. The number is fixed by
draws that are discarded: an estimate accepted because its own error looked small would be biased.
Cost: the pilots, together less than half of the final draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

PILOTS = 4  # at most
GROWTH, WORTH = (
    5,
    4,
)  # of a pilot over the last, at most; and of the draws that are wanted over a pilot, at least
SPARE = 1.2  # more draws than the root law asks for
SLACK = 1.25  # an error estimate from twenty batches is itself known to 16 %

T = TypeVar("T")


@dataclass(frozen=True)
class Enough(Generic[T]):
    """The final draws, and their error as the pilots predict it."""

    drawn: T
    expected: float  # error predicted by the last pilot
    met: bool  # whether that meets the tolerance


def enough(
    draw: Callable[[int, np.random.Generator], T],
    error: Callable[[T], float],
    rng: np.random.Generator,
    *,
    tol: float,
    first: int,
    most: int,
) -> Enough[T]:
    """As many draws as an error of ``tol`` needs, between ``first`` and ``most``.

    Parameters
    ----------
    draw : callable
        ``draw(M, rng)`` makes M draws.
    error : callable
        Largest error of the target numbers, estimated from given draws.
    rng : Generator
    tol : float
    first, most : int
        Draws of the first pilot, and the largest number allowed.
    """
    M, e, wanted = first, np.inf, first
    for _ in range(PILOTS):
        e = error(draw(M, rng.spawn(1)[0]))
        wanted = int(np.clip(SPARE * M * (e / tol) ** 2, first, most))
        larger = min(GROWTH * M, wanted // WORTH)
        if larger < 2 * M:
            break
        M = larger
    expected = float(e * np.sqrt(M / wanted))
    return Enough(draw(wanted, rng.spawn(1)[0]), expected, bool(expected <= SLACK * tol))


def unmet(expected: float, tol: float, M: int) -> str:
    """Warnings for the user if the tolerance cannot be met."""
    return (
        f"the Monte Carlo error of the probabilities is about {expected:.2g}, above tol={tol:g}, after {M} draws; "
        "raise tol or, at the cost of slower predictions, Exact(max_samples=...)"
    )


HEAVY = (
    "the weights of the draws have a heavy tail (k-hat > 0.7), so the stated Monte Carlo errors may be too small; "
    "compare with another random_state"
)
