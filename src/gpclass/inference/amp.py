"""Aitchison's maximum posterior: the mode of the latent field, taken for the field itself.

The doubly stochastic model with success probability σ(c0 φ) has its posterior mode where (R eq. 20)

    −Σ⁻¹φ + c0 (y − σ(c0 φ)) = 0,   y ∈ {0, 1},

and the prediction is simple kriging of that mode, φ* = σ*ᵀΣ⁻¹φ, p = σ(c0 φ*): no average over the uncertainty of φ.
The mode is Laplace's for the logit link with scale c0, so Newton's method of :mod:`gpclass.inference.laplace`
finds it, here with a tighter stopping rule. Only c0²Σ matters: c0 and the sill are one parameter (R Remark 3).

The posterior is one component of variance zero: intervals have no width, probabilities are more extreme than
those of any method that averages. A point has no evidence; Laplace's at the same mode is reported, so that kernel
parameters can be maximised. The paper finds them by cross-validation (``hyperparameters="cv"``).

Cost: O(n³) per factorisation, 3 to 8 of them; O(n) per new point. Fails when: the latent field is very uncertain;
the probabilities are then overconfident.
Reference: Röder, Tolosana-Delgado & Hamprecht (2011), §4.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gpclass._typing import Generator
from gpclass.inference.base import Inference, Way
from gpclass.inference.laplace import RULE, find_mode, move
from gpclass.inference.posteriors import ModePosterior
from gpclass.inference.sweeps import FixedPoint
from gpclass.latent import newton
from gpclass.latent.sites import Held, SiteRule, Start, labels_of
from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.binary import Logit
from gpclass.model.problem import Problem
from gpclass.model.rows import Shard
from gpclass.model.sums import Sums
from gpclass.posterior import Posterior

STATIONARY = 1e-9  # largest residual of R eq. 20 at which the mode counts as found, in units of c0
POLISH = 4  # steps at most; each squares the residual until rounding


@dataclass(frozen=True)
class AMP(Inference):
    """Settings of Aitchison's maximum posterior.

    Parameters
    ----------
    c0 : float, optional
        Scale of the logistic function, p = σ(c0 φ). None: that of the estimator's likelihood, 1 by default.
    c0_bounds : (float, float) or "fixed"
        Range in which a strategy may move c0.
    max_iter : int
        Largest number of factorisations.
    """

    c0: float | None = None
    c0_bounds: tuple[float, float] | str = "fixed"
    max_iter: int = 50

    limits: ClassVar = {"c0_bounds": ("fixed",)}
    name: ClassVar[str] = "amp"
    ways: ClassVar[tuple[Way, ...]] = (Way.needs("expand third", "given"),)
    only_two: ClassVar[str] = "it is the mode of one latent field under the logistic link"
    prefers: ClassVar[tuple[str, ...]] = ("logit",)
    gradient: ClassVar[bool] = True

    @property
    def rule(self) -> SiteRule:
        return RULE

    @property
    def own_likelihood(self) -> Logit:
        return Logit(1.0 if self.c0 is None else self.c0, self.c0_bounds)

    @property
    def scale_is_given(self) -> bool:
        return self.c0 is not None

    def posterior_type(self, problem: Problem) -> type[Posterior]:
        return ModePosterior

    def infer(self, problem: Problem, rng: Generator, start: Start | None, gradient: bool) -> ModePosterior:
        mode, residual = _polished(problem, find_mode(problem, start, self.max_iter, 1e-18))
        near, found = residual <= STATIONARY, mode.posterior(problem, RULE, "approximate", gradient, extra=True)
        report = replace(
            found.report,
            method=self.name,
            converged=near,
            reason="" if near else f"{found.report.reason}; R eq. 20 holds to {residual:.1e}".lstrip("; "),
            details={"stationarity": residual},
        )
        return ModePosterior(problem, found.gaussian, found.evidence, report, found.start)


def _polished(problem: Problem, mode: FixedPoint) -> tuple[FixedPoint, float]:
    """The mode φ after a few final steps, with the existing factor if that saves time; and the residual of R eq. 20.

    Laplace stops by the gain in the objective, which near the mode is the square of the residual and so cannot
    resolve a residual of 1e-8.
    """
    held, gaussian, residual = mode.held, mode.gaussian, stationarity(problem, mode.held)
    for _ in range(POLISH):
        gaussian = gaussian if gaussian.chord else problem.prior.given(held, RULE)
        moved, _ = problem.map(move, gaussian.newton(held, RULE)[0], 1.0)
        new_residual = stationarity(problem, moved)
        if not new_residual < residual:
            break
        held, residual = moved, new_residual
    return replace(mode, held=held, gaussian=gaussian.moved_to(held)), residual


def stationarity(problem: Problem, held: Held) -> float:
    """Largest entry of −Σ⁻¹φ + c0 (y − σ(c0 φ)), y in {0, 1}, divided by c0 (R eq. 20)."""
    return float(problem.map(_residual, held)[1]["max_residual"]) / problem.likelihood.scale


def _residual(shard: Shard, likelihood: Likelihood) -> tuple[Shard, Sums]:
    (residual,) = shard.kept.reshape(newton.NUMBERS, 1, -1)[newton.RESIDUAL]
    return shard, {"max_residual": float(np.max(np.abs(labels_of(shard, likelihood).clear_absent(residual))))}
