r"""How the error of probabilities falls with the number of draws, from the draws of a pilot.

Draws come in mirrored pairs, whose independent error is known accurately from the pilot's own pairs. Orthogonal
directions (:mod:`gpclass.orthant.uniforms`) remove a share of that variance, the more the more of the n directions a
randomisation has; the share is measured on the rows with the largest errors together. How many draws a tolerance needs
is then decided in :mod:`gpclass.orthant.enough`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpclass.likelihoods.base import Likelihood
from gpclass.numerics.groups import widening
from gpclass.orthant.enough import Falling
from gpclass.orthant.uniforms import directions, mirrored_pairs, replicate_sizes
from gpclass.posterior import LatentMixture
from gpclass.predict import errors_of

TOP = 0.5  # rows whose error is above this share of the largest
MOST_REMOVED = 0.8  # of the variance, by orthogonal directions


@dataclass(frozen=True)
class Law(Falling):
    """How the largest error of some probabilities falls with the number of draws."""

    pairs: float  # error of M draws, were their mirrored pairs independent
    M: int
    n: int  # directions of a draw
    removed: float  # share of the variance that n orthogonal directions remove
    share: float = 1.0  # of the draws, that are in such directions

    @classmethod
    def of(cls, mixture: LatentMixture, likelihood: Likelihood, n: int, share: float = 1.0) -> Law:
        """From the mixture of a pilot's draws at some points."""
        M, groups = len(mixture.weights), len(np.unique(mixture.group))
        alone, grouped = errors_of(mixture, likelihood, mirrored_pairs(mixture.group), mixture.group)
        grouped /= widening(groups)
        top = alone >= TOP * alone.max()
        seen = directions(M, n, share)
        removed = (1.0 - np.sum(grouped[top] ** 2) / np.sum(alone[top] ** 2)) / seen if seen > 0.0 else 0.0
        return cls(float(alone.max()), M, n, float(np.clip(removed, 0.0, MOST_REMOVED)), share)

    def error(self, M: int) -> float:
        """The largest error that M draws will state."""
        left = 1.0 - self.removed * directions(M, self.n, self.share)
        wider = widening(len(replicate_sizes(M, "frames", self.n, self.share)))
        return float(wider * self.pairs * np.sqrt(left * self.M / M))


MORE_DRAWS = (
    "if this is too much, fit with inference=Exact(tol=..., max_samples=...), more draws at the cost of slower "
    "predictions; else raise tol"
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
