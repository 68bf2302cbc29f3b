r"""Sites to start from at a new θ, extrapolated from those at the last ones.

Sites s(θ) at their fixed point are smooth in θ. From those at θ_0 (the newest), ..., θ_k the start at θ is
s_0 + Σ_j a_j (s_j − s_0), in the coordinates in which sites may be mixed, with the a that take Σ_j a_j (θ_j − θ_0) to
θ − θ_0, by least squares with a small penalty of their size. An ascent of three parameters soon has seen every
direction, and its sweeps begin with a third of the error: one to three of eight are saved.
Not for one latent value per row, whose few sweeps end well below their tolerance, which a precise search relies on.
Cost: O(n k). Fails when: steps are long and sites far from linear: a row whose extrapolated site is not sound, and all
rows if |a| is large, keep the newest sites.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from gpclass._typing import Array
from gpclass.latent.sites import Start
from gpclass.model.problem import Problem

LENGTH = 4  # points that are remembered
PENALTY = 0.01  # of the squared size of a, in units of the squared step
ROUNDING = 1e-10  # the same in units of the squared earlier steps
LARGEST = 3.0  # sum of |a|, above which nothing is extrapolated


@dataclass
class Trail:
    """The last points of an ascent, newest first, with the sites found there."""

    points: list[tuple[Array, Start]] = field(default_factory=list)

    def add(self, theta: Array, start: Start | None) -> None:
        """Remember the sites at θ, if they are sites that an approximation steps towards with care."""
        if start is not None and start.rule is not None and start.rule.careful and len(start.held) == 1:
            self.points = [(theta.copy(), start), *self.points[: LENGTH - 1]]

    def start(self, problem: Problem) -> Start | None:
        """Where to start at the parameters of ``problem``; None if too little is known."""
        if len(self.points) < 2 or problem.n_latents == 1 or "covariance" not in problem.form.offers:
            return None
        theta, newest = self.points[0]
        assert newest.rule is not None
        a = _coefficients(np.array([other - theta for other, _ in self.points[1:]]), problem.theta - theta)
        if np.abs(a).sum() > LARGEST:
            return None
        rule, likelihood = newest.rule, problem.likelihood
        k = rule.numbers(likelihood, problem.n_latents)
        values = [start.held[0].kept[:k] for _, start in self.points]
        packed = rule.packed(likelihood, np.stack(values))
        there = rule.unpacked(likelihood, packed[0] + np.tensordot(a, packed[1:] - packed[0], axes=1))
        shard = newest.held[0].with_values(np.where(rule.sound(there, values[0]), there, values[0]))
        return replace(newest, held=(shard,))


def _coefficients(steps: Array, step: Array) -> Array:
    """The a (k,) with aᵀ steps near the step (p,), from steps (k, p)."""
    products = steps @ steps.T  # singular if points repeat, or are more than the parameters
    penalty = PENALTY * float(step @ step) + ROUNDING * float(np.trace(products)) + np.finfo(float).tiny
    return np.asarray(np.linalg.solve(products + penalty * np.eye(len(steps)), steps @ step))
