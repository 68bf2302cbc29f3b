"""How many draws a tolerance needs: decided by pilots, never by the draws that count.

A pilot predicts the error of other numbers of draws. If many more than the pilot's are needed, a larger pilot runs
first. The number is fixed by draws that are discarded: an estimate accepted because its own error looked small would be
biased.
Cost: the pilots. If the number of the first is enough, it costs nearly as much as the final draws; every later one is
a quarter of the draws wanted, or as large as the one before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from scipy.special import fdtri

PILOTS = 4  # at most
GROWTH = 5  # of a pilot over the last, at most
WORTH = 4  # draws that are wanted, over those of a later pilot, at least
FAR = 1.5  # times ``tol``, above which no other pilot brings it within reach
SPARE = 1.2  # variance that is wanted over the one that is aimed at: a pilot tells it with an error
SLACK = 1.25  # an error estimate from twenty batches is itself known to 16 %
SURE = 0.975  # probability that draws state the error they were chosen for, were the groups Gaussian

T = TypeVar("T")


class Falling(ABC):
    """How an error falls with the number of draws."""

    @property
    def reach(self) -> float:
        """Draws that can be decided on, over those of the last pilot."""
        return 8.0

    def after(self, earlier: Falling | None) -> Falling:
        """What is known with the earlier pilots; by default the last alone."""
        return self

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

    def wanted(self, tol: float, first: int, most: int) -> int:
        """The draws to make for an error of ``tol``: some spare, unless they come in steps that leave it anyway."""
        return self.needed(tol / float(np.sqrt(SPARE)), first, most)


@dataclass(frozen=True)
class RootLaw(Falling):
    """As the root of the number of draws, with room for the noise of errors stated by few groups.

    The variances that a pilot and the final draws state from G groups each are in a ratio that follows an F
    distribution of G − 1 and G − 1 degrees of freedom. The variances per draw of all pilots are pooled, and one pilot
    alone decides on hardly more than its own number of draws: one of a few may state far too little.
    """

    stated: float  # by M draws
    M: int
    groups: int
    pilots: int = 1

    @property
    def reach(self) -> float:
        return 4.0 if self.pilots > 1 else 1.25

    def after(self, earlier: Falling | None) -> Falling:
        if not isinstance(earlier, RootLaw) or not np.isfinite([self.stated, earlier.stated]).all():
            return self
        M, pilots = self.M + earlier.M, self.pilots + earlier.pilots
        stated = float(np.hypot(self.stated * self.M, earlier.stated * earlier.M)) / M
        return RootLaw(stated, M, self.groups, pilots)

    def error(self, M: int) -> float:
        if self.groups < 2 or not np.isfinite(self.stated):
            return np.inf
        room = fdtri(self.groups - 1, self.groups - 1, SURE)
        return self.stated * float(np.sqrt(room * self.M / M))


@dataclass(frozen=True)
class Enough(Generic[T]):
    """The final draws, and their error as the pilots predict it."""

    drawn: T
    expected: float  # error predicted by the pilots
    met: bool  # whether that meets the tolerance


@dataclass(frozen=True)
class Wanted:
    """The number of draws that pilots decided on."""

    M: int
    expected: float  # error that the pilots predict
    met: bool  # whether that meets the tolerance


def enough(
    draw: Callable[[int, np.random.Generator], T],
    pilot: Callable[[int, np.random.Generator], Falling],
    rng: np.random.Generator,
    *,
    tol: float,
    first: int,
    most: int,
) -> Enough[T]:
    """As many draws as an error of ``tol`` needs, as :func:`how_many` says: ``draw(M, rng)`` makes M."""
    found = how_many(pilot, rng, tol=tol, first=first, most=most)
    return Enough(draw(found.M, rng.spawn(1)[0]), found.expected, found.met)


def how_many(
    pilot: Callable[[int, np.random.Generator], Falling],
    rng: np.random.Generator,
    *,
    tol: float,
    first: int,
    most: int,
    known: Falling | None = None,
) -> Wanted:
    """The number of draws that an error of ``tol`` needs, between ``first`` and ``most``.

    Parameters
    ----------
    pilot : callable
        ``pilot(M, rng)`` makes M draws that do not count: how the error falls.
    rng : Generator
    tol : float
    first, most : int
        Draws of the first pilot, and the largest number allowed.
    known : Falling, optional
        What the first pilot says, if it has been made.
    """
    M, found = first, None
    for _ in range(PILOTS):
        found, known = (known or pilot(M, rng.spawn(1)[0])).after(found), None
        wanted = found.wanted(tol, first, most)
        expected = found.error(wanted)
        if wanted < found.reach * M or found.error(most) > FAR * tol:  # then it will be ``most``
            break
        M = min(GROWTH * M, max(M, wanted // WORTH))
    return Wanted(wanted, expected, bool(expected <= SLACK * tol))
