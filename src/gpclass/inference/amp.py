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

from gpclass._typing import Array, Generator
from gpclass.inference.base import Inference, Way
from gpclass.inference.laplace import Laplace
from gpclass.inference.posteriors import GaussianPosterior, ModePosterior
from gpclass.latent.dense import DenseGaussian
from gpclass.likelihoods.binary import Logit
from gpclass.model.problem import Problem
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

    name: ClassVar[str] = "amp"
    ways: ClassVar[tuple[Way, ...]] = (Way.needs("expand third", "given covariance"),)
    only_two: ClassVar[str] = "it is the mode of one latent field under the logistic link"
    prefers: ClassVar[tuple[str, ...]] = ("logit",)
    gradient: ClassVar[bool] = True
    gaussian: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.own_likelihood  # which checks the bounds

    @property
    def own_likelihood(self) -> Logit:
        return Logit(1.0 if self.c0 is None else self.c0, self.c0_bounds)

    @property
    def scale_is_given(self) -> bool:
        return self.c0 is not None

    def posterior_type(self, problem: Problem) -> type[Posterior]:
        return ModePosterior

    def infer(self, problem: Problem, rng: Generator, start: Posterior | None, gradient: bool) -> ModePosterior:
        found = Laplace(max_iter=self.max_iter, tol=1e-18)(problem, start=start, gradient=gradient)
        gaussian, residual = _polished(problem, found)
        near = residual <= STATIONARY
        report = replace(
            found.report,
            method=self.name,
            converged=near,
            reason="" if near else f"{found.report.reason}; R eq. 20 holds to {residual:.1e}".lstrip("; "),
            details={"stationarity": residual},
        )
        return ModePosterior(**(vars(found) | {"gaussian": gaussian, "report": report}))


def _polished(problem: Problem, found: GaussianPosterior) -> tuple[DenseGaussian, float]:
    """The Gaussian at the mode φ, and the residual of R eq. 20 after a few final steps with the existing factor.

    Laplace stops by the gain in the objective, which near the mode is the square of the residual and so cannot
    resolve a residual of 1e-8. Each step costs O(n²).
    """
    gaussian = found.gaussian
    assert isinstance(gaussian, DenseGaussian)
    residual = stationarity(problem, gaussian.mean[0], gaussian.alpha[0])
    for _ in range(POLISH):
        slope = problem.weighted(problem.likelihood.expand(problem.y, gaussian.mean).slope)
        alpha = gaussian.alpha + gaussian.shrunk(slope - gaussian.alpha)
        moved = replace(gaussian, made=gaussian.factor, known=(alpha, gaussian.prior.product(alpha)))
        new_residual = stationarity(problem, moved.mean[0], moved.alpha[0])
        if not new_residual < residual:
            break
        gaussian, residual = moved, new_residual
    return gaussian, residual


def stationarity(problem: Problem, f: Array, alpha: Array) -> float:
    """Largest entry of −Σ⁻¹φ + c0 (y − σ(c0 φ)), y in {0, 1}, divided by c0 (R eq. 20)."""
    slope = problem.likelihood.expand(problem.y, f[None]).slope[0]
    return float(np.max(np.abs(problem.weighted(slope) - alpha)) / problem.likelihood.scale)
