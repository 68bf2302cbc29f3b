r"""How many draws a tolerance needs: decided by pilots, never by the final draws.

A pilot of M draws predicts the error of other numbers of draws. Draws come in mirrored pairs, whose independent error
is known accurately from the pilot's own pairs. Orthogonal directions (:mod:`gpclass.orthant.uniforms`) remove a share
of that variance, the more the more of the n directions a randomisation has; the share is measured on the rows with
the largest errors together. If many more draws than the pilot's are needed, a larger pilot runs first. The number is
fixed by draws that are discarded: an estimate accepted because its own error looked small would be biased.
Cost: the pilots, together less than half of the final draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from gpclass.likelihoods.base import Likelihood
from gpclass.numerics.groups import widening
from gpclass.orthant.uniforms import directions, mirrored_pairs, replicate_sizes
from gpclass.posterior import LatentMixture
from gpclass.predict import errors_of

PILOTS = 4  # at most
GROWTH = 5  # of a pilot over the last, at most
WORTH = 4  # draws that are wanted, over those of a pilot, at least
FAR = 1.5  # times ``tol``, above which no other pilot brings it within reach
SPARE = 1.2  # more draws than predicted
TOP = 0.5  # rows whose error is above this share of the largest
MOST_REMOVED = 0.8  # of the variance, by orthogonal directions
SLACK = 1.25  # an error estimate from twenty batches is itself known to 16 %

T = TypeVar("T")


@dataclass(frozen=True)
class Enough(Generic[T]):
    """The final draws, and their error as the pilots predict it."""

    drawn: T
    expected: float  # error predicted by the last pilot
    met: bool  # whether that meets the tolerance


@dataclass(frozen=True)
class Law:
    """How the largest error of some probabilities falls with the number of draws."""

    pairs: float  # error of M draws, were their mirrored pairs independent
    M: int
    n: int  # directions of a draw
    removed: float  # share of the variance that n orthogonal directions remove

    @classmethod
    def of(cls, mixture: LatentMixture, likelihood: Likelihood, n: int) -> Law:
        """From the mixture of a pilot's draws at some points."""
        M, groups = len(mixture.weights), len(np.unique(mixture.group))
        alone, grouped = errors_of(mixture, likelihood, mirrored_pairs(mixture.group), mixture.group)
        grouped /= widening(groups)
        top = alone >= TOP * alone.max()
        share = directions(M, n)
        removed = (1.0 - np.sum(grouped[top] ** 2) / np.sum(alone[top] ** 2)) / share if share > 0.0 else 0.0
        return cls(float(alone.max()), M, n, float(np.clip(removed, 0.0, MOST_REMOVED)))

    def error(self, M: int) -> float:
        """The largest error that M draws will state."""
        left = 1.0 - self.removed * directions(M, self.n)
        wider = widening(len(replicate_sizes(M, "orthogonal", self.n)))
        return float(wider * self.pairs * np.sqrt(left * self.M / M))

    def needed(self, tol: float, first: int, most: int) -> int:
        """The fewest draws with an error of ``tol``, between ``first`` and ``most``."""
        low, high = first, most
        while high - low > 1:
            M = (low + high) // 2
            low, high = (low, M) if self.error(M) <= tol else (M, high)
        return low if self.error(low) <= tol else high


def enough(
    draw: Callable[[int, np.random.Generator], T],
    law: Callable[[T], Law],
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


MORE_DRAWS = (
    "if this is too much, fit with inference=Exact(max_samples=...), more draws at the cost of slower predictions; "
    "else raise tol"
)


def unmet(expected: float, tol: float, M: int) -> str:
    """Warnings for the user if the tolerance cannot be met."""
    return (
        f"the Monte Carlo error of the probabilities is about {expected:.2g}, above tol={tol:g}, after {M} draws; "
        f"{MORE_DRAWS}"
    )


HEAVY = (
    "the weights of the draws have a heavy tail (k-hat > 0.7), so the stated Monte Carlo errors may be too small; "
    "compare with another random_state"
)
