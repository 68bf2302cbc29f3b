r"""Importance sampling of the evidence and of the posterior from a Gaussian approximation.

    p(y|θ) ≈ 1/M Σ_m w_m,   w = p(y|f) N(f; 0, K) / q(f),   f ~ q

is unbiased for any q; the weighted draws represent the posterior. In whitened coordinates the weight is exp(r) of
:mod:`gpclass.latent.base`.
For many classes each site is weakened to 0.8 of its precision about q's mean, because a Gaussian site is narrower than
the likelihood in the directions along which a point is already classified well.
Cost: one Gaussian approximation, then L n² per draw (L n m with m inducing inputs) and n likelihood terms.
Fails when: n is large and the posterior is not Gaussian: the weights' variance grows exponentially with n,
and for sites sharper than the likelihood it is infinite. The effective size and k-hat show it.
Reference: Filippone (2014), eq. 7 and 8; Filippone & Girolami (2014).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from scipy.special import softmax

from gpclass._typing import Array, Generator
from gpclass.inference.around import AROUND, BASES, gaussians_for, target_around
from gpclass.inference.base import Inference, Way
from gpclass.inference.particles import Particles
from gpclass.inference.posteriors import WhiteDraws
from gpclass.latent.coordinates import Target
from gpclass.latent.sites import Start
from gpclass.likelihoods.base import Likelihood
from gpclass.model.problem import Problem
from gpclass.orthant.weights import effective_size, heavy, log_mean, pareto_khat, relative_error
from gpclass.posterior import UNRELIABLE, Evidence, Report

POWER = 0.8  # of the sites, with several latent values per row
SITE_TOL = 1e-3  # of EP's sites: draws correct the rest
DRAWS = (1000, 4000)  # by default, for one latent value per row and for several


@dataclass(frozen=True)
class Importance(Inference):
    """Settings of importance sampling.

    Parameters
    ----------
    n_samples : int, optional
        Draws, N_imp in the paper; by default 1000 for two classes and 4000 for more.
    around : {"ep", "variational", "laplace", "prior"} or Inference, optional
        The importance distribution, or an inference whose Gaussian it is; the paper uses Laplace's. By default the best
        for the likelihood: EP's, or for softmax the variational Gaussian.
    """

    n_samples: int | None = None
    around: str | Inference | None = None

    name: ClassVar[str] = "importance"
    ways: ClassVar[tuple[Way, ...]] = (Way.needs("log", "whitened covariance"), Way.needs("smear", "whitened"))
    prefers: ClassVar[tuple[str, ...]] = ("probit", "logit", "softmax", "multinomial-probit")
    evidence_kind: ClassVar[str | None] = "unbiased"
    gradient: ClassVar[bool] = True
    gradient_needs: ClassVar[frozenset[str]] = frozenset(["smear"])
    limits: ClassVar = {"around": AROUND}

    def brief(self) -> Self:
        return replace(self, n_samples=50)

    def guide(self, likelihood: Likelihood) -> Inference:
        """The Gaussian behind the draws, or the best one if they are around the prior."""
        if isinstance(self.around, Inference):
            return self.around
        names = [self.around] if self.around in BASES else gaussians_for(likelihood)
        return BASES[str(names[0])]().guide(likelihood) if names else self

    def infer(self, problem: Problem, rng: Generator, start: Start | None, gradient: bool) -> WhiteDraws:
        """Weighted draws and an unbiased evidence.

        ``start`` only saves steps to the Gaussian. For estimates that are independent, give all the same one.
        """
        several = problem.n_latents > 1
        target = target_around(problem, self.around, SITE_TOL, POWER if several else 1.0, start)
        state = Particles.draw(target, self.n_samples or DRAWS[several], rng)
        return weighted_posterior(self.name, target, state.xi, state.r, gradient)


def weighted_evidence(log_w: Array) -> Evidence:
    """The unbiased evidence of independent log weights, with the standard error of its logarithm."""
    return Evidence(log_mean(log_w), relative_error(log_w, np.arange(len(log_w))), kind="unbiased")


def weighted_posterior(
    method: str, target: Target, xi: Array, log_w: Array, gradient: bool, iterations: int | None = None
) -> WhiteDraws:
    """The posterior of independent weighted draws, with their figures."""
    ess, found = effective_size(log_w), []
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # if all large weights but one underflow
        khat, tail = pareto_khat(log_w), heavy(log_w)
    if len(log_w) >= 2 * UNRELIABLE and (ess < UNRELIABLE or tail):
        found.append(
            f"the importance weights are uneven: {ess:.0f} effective of {len(log_w)} draws, k-hat "
            f"{khat:.2f}; raise n_samples, or use inference='annealed' or 'exact'"
        )
    eta, weights, evidence = target.prior_coordinates(xi), softmax(log_w), weighted_evidence(log_w)
    slope, slope_Z = target.problem.prior.score(eta, weights) if gradient else (None, None)
    return WhiteDraws(
        target.problem,
        eta,
        weights=weights,
        group=np.arange(len(log_w)),
        evidence=replace(evidence, gradient=slope, gradient_Z=slope_Z),
        report=Report(
            method=method,
            iterations=iterations,
            jitter=target.jitter,
            n_samples=len(log_w),
            ess=ess,
            khat=khat,
            warnings=tuple(found),
            details=target.details,
        ),
        roots=target.roots,
    )
