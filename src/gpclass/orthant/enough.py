"""How many draws a tolerance needs: decided by pilots, never by the draws that count.

A pilot predicts the error of other numbers of draws. If many more than the pilot's are needed, a larger pilot runs
first. The number is fixed by draws that are discarded: an estimate accepted because its own error looked small would be
biased.
Cost: the pilots, together less than half of the final draws.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

PILOTS = 4  # at most
GROWTH = 5  # of a pilot over the last, at most
WORTH = 4  # draws that are wanted, over those of a pilot, at least
FAR = 1.5  # times ``tol``, above which no other pilot brings it within reach
SPARE = 1.2  # more draws than predicted
SLACK = 1.25  # an error estimate from twenty batches is itself known to 16 %

T = TypeVar("T")


class Falling(ABC):
    """How an error falls with the number of draws."""

    @abstractmethod
    def error(self, M: int) -> float:
        """The error that M draws will state."""

    def needed(self, tol: float, first: int, most: int) -> int:
        """The fewest draws with an error of ``tol``, between ``first`` and ``most``."""
        low, high = first, most
        while high - low > 1:
            M = (low + high) // 2
            low, high = (low, M) if self.error(M) <= tol else (M, high)
        return low if self.error(low) <= tol else high


@dataclass(frozen=True)
class RootLaw(Falling):
    """As the root of the number of draws."""

    stated: float  # by M draws
    M: int

    def error(self, M: int) -> float:
        return self.stated * float(np.sqrt(self.M / M)) if np.isfinite(self.stated) else np.inf


@dataclass(frozen=True)
class Enough(Generic[T]):
    """The final draws, and their error as the pilots predict it."""

    drawn: T
    expected: float  # error predicted by the last pilot
    met: bool  # whether that meets the tolerance


def enough(
    draw: Callable[[int, np.random.Generator], T],
    law: Callable[[T], Falling],
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
    law : callable
        How the error of the target numbers falls, from given draws.
    rng : Generator
    tol : float
    first, most : int
        Draws of the first pilot, and the largest number allowed.
    """
    M = first
    for _ in range(PILOTS):
        found = law(draw(M, rng.spawn(1)[0]))
        wanted = int(np.clip(SPARE * found.needed(tol, first, most), first, most))
        larger = min(GROWTH * M, wanted // WORTH)
        if larger < 2 * M or found.error(most) > FAR * tol:  # then it will be ``most``
            break
        M = larger
    expected = found.error(wanted)
    return Enough(draw(wanted, rng.spawn(1)[0]), expected, bool(expected <= SLACK * tol))
