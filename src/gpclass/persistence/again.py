"""Stand-ins for what a file need not hold, because it is better computed again on reading.

Factors follow from the prior and n numbers; the exact engine's draws, which may be many millions of numbers, from
the guide's sites and the seed (:mod:`gpclass.inference.redraw`). Each stand-in is written in their place, and its
``from_state`` gives them back.

Cost: on reading, one factorisation, or the draws without what led to them. Fails when: the draws come out otherwise,
which their weights tell.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from gpclass._typing import Array
from gpclass.inference.exact import drawn_again, latents_drawn_again
from gpclass.inference.many_exact import unit_factor, utilities_drawn_again
from gpclass.inference.redraw import LatentRecipe, Recipe
from gpclass.latent.coupled import CoupledFactor
from gpclass.model.many_problem import MultiProblem
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import SiteFactor, factor
from gpclass.numerics.threads import few_threads

LARGE = 500_000  # numbers (4 MB) above which draws are made again rather than kept


def lightened(state: dict[str, Any]) -> dict[str, Any]:
    """Factors and large arrays of draws, by what they can be made of again."""
    priors = [item for item in state.values() if isinstance(item, Problem) and "prior" in vars(item)]
    for key, item in state.items():
        if isinstance(item, SiteFactor):
            owner = next((p for p in priors if getattr(p.prior, "K", None) is item.K), None)
            state[key] = item if owner is None else SitesOf(owner, item.root)
        elif isinstance(item, CoupledFactor):  # it keeps no K: the problem beside it is its own
            state[key] = CoupledSitesOf(
                next(p for p in state.values() if isinstance(p, MultiProblem)), item.D
            )
    recipe, A = state.get("recipe"), state.get("A")
    if isinstance(recipe, Recipe) and isinstance(A, np.ndarray) and A.size > LARGE:
        state["A"] = DrawsOf(state["problem"], state["factor"], recipe, state["weights"])
    if isinstance(recipe, LatentRecipe):
        problem = state["problem"]
        if isinstance(problem, MultiProblem) and A is not None and A.size > LARGE:
            state |= {"A": UtilitiesOf(problem, recipe), "E": InversesOf(problem)}
        elif isinstance(problem, Problem) and state["eta"].size > LARGE:
            state |= {"eta": LatentsOf(problem, recipe), "L": RootOf(problem)}
    return state


@dataclass(frozen=True)
class SitesOf:
    """Stands for a factor of a problem's own prior: n numbers instead of n², factored again on reading."""

    problem: Problem
    root: Array  # (n,), roots of the site precisions

    def state(self) -> dict[str, Any]:
        """Both fields."""
        return {"problem": self.problem, "root": self.root}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> SiteFactor:
        """The factor; the square root of a square is exact in binary arithmetic."""
        return SiteFactor(state["problem"].prior.K, state["root"] ** 2)


@dataclass(frozen=True)
class CoupledSitesOf:
    """The same for sites that couple the classes: C n numbers instead of C n²."""

    problem: MultiProblem
    D: Array  # (C, n)

    def state(self) -> dict[str, Any]:
        """Both fields."""
        return {"problem": self.problem, "D": self.D}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> CoupledFactor:
        """The factor."""
        return CoupledFactor(state["problem"].K, state["D"])


@dataclass(frozen=True)
class DrawsOf:
    """Stands for the draws of the exact engine: a few times n numbers instead of n M, drawn again on reading."""

    problem: Problem
    factor: SiteFactor | SitesOf
    recipe: Recipe
    weights: Array  # (M,), which the draws must have again

    def state(self) -> dict[str, Any]:
        """All fields."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Array:
        """The draws, with as many threads as the fit had."""
        with few_threads(state["problem"].n):
            return drawn_again(**state)


@dataclass(frozen=True)
class LatentsOf:
    """The same for draws of the latent values under the logit link."""

    problem: Problem
    recipe: LatentRecipe

    def state(self) -> dict[str, Any]:
        """Both fields."""
        return {"problem": self.problem, "recipe": self.recipe}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Array:
        """The draws, with as many threads as the fit had."""
        with few_threads(state["problem"].n):
            return latents_drawn_again(**state)


@dataclass(frozen=True)
class RootOf:
    """Stands for the Cholesky root of a problem's prior covariance."""

    problem: Problem

    def state(self) -> dict[str, Any]:
        """The problem."""
        return {"problem": self.problem}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Array:
        """The root, with as many threads as the fit had."""
        with few_threads(state["problem"].n):
            return factor(state["problem"].prior.K)[0]


@dataclass(frozen=True)
class UtilitiesOf(LatentsOf):
    """The same for draws of the utilities of many classes."""

    problem: MultiProblem  # type: ignore[assignment]  # another kind of problem

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Array:
        """The draws, with as many threads as the fit had."""
        with few_threads(state["problem"].n):
            return utilities_drawn_again(**state)


@dataclass(frozen=True)
class InversesOf:
    """Stands for the inverses (K_c + I)⁻¹ of a problem of many classes."""

    problem: MultiProblem

    def state(self) -> dict[str, Any]:
        """The problem."""
        return {"problem": self.problem}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Array:
        """The inverses, with as many threads as the fit had."""
        with few_threads(state["problem"].n):
            return unit_factor(state["problem"]).E
