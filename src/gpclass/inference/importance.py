r"""Importance sampling of the evidence and of the posterior from a Gaussian approximation.

    p(y|θ) ≈ 1/M Σ_m w_m,   w = p(y|f) N(f; 0, K) / q(f),   f ~ q

is unbiased whatever q; the draws with their weights stand for the posterior. In whitened coordinates the
weight is exp(r) of :mod:`gpclass.inference.whitened`.
Cost: one Gaussian approximation, then M n² for the draws and M n likelihood terms.
Fails when: n is large and the posterior is not Gaussian: the weights' variance grows exponentially with n,
and for sites sharper than the likelihood it is infinite. The effective size and k-hat tell.
Reference: Filippone (2014), eq. 7 and 8; Filippone & Girolami (2014).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gpclass._typing import Array
from gpclass.inference.elliptical_slice import Particles
from gpclass.inference.samples import Samples
from gpclass.inference.whitened import AROUND, Target, check_around, target_around
from gpclass.model.problem import Problem
from gpclass.orthant.weights import effective_size, heavy, log_mean, pareto_khat, relative_error
from gpclass.posterior import Evidence, Posterior, Report

FEWEST_EFFECTIVE = 50  # effective draws below which probabilities are worth little


@dataclass(frozen=True)
class Importance:
    """Settings of importance sampling.

    Parameters
    ----------
    n_samples : int
        Draws, N_imp in the paper.
    around : {"ep", "laplace", "prior"}
        The importance distribution; the paper has Laplace's.
    """

    n_samples: int = 1000
    around: str = "ep"

    name: ClassVar[str] = "importance"
    gaussians: ClassVar[tuple[str, ...]] = AROUND

    def __post_init__(self) -> None:
        check_particles(self, self.n_samples)
        check_around(self.around, self.gaussians)

    def __call__(
        self,
        problem: Problem,
        noise: np.random.Generator | None = None,
        *,
        start: Posterior | None = None,
        gradient: bool = False,
    ) -> Samples:
        """Weighted draws and an unbiased evidence; ``start`` is not used: nothing depends on the past."""
        began = time.perf_counter()
        rng = np.random.default_rng(0) if noise is None else noise
        target = target_around(problem, self.around)
        state = Particles.draw(target, self.n_samples, rng)
        return weighted_posterior(self.name, target, state.xi, state.r, time.perf_counter() - began)


def check_particles(settings: object, n_samples: int) -> None:
    """Refuse a number of particles that is none."""
    if int(n_samples) != n_samples or n_samples < 1:
        raise ValueError(
            f"{type(settings).__name__}: n_samples must be a whole number of at least 1, got {n_samples!r}"
        )


def weighted_evidence(log_w: Array) -> Evidence:
    """The unbiased evidence of independent log weights, with the standard error of its logarithm."""
    return Evidence(log_mean(log_w), relative_error(log_w, np.arange(len(log_w))), kind="unbiased")


def weighted_posterior(
    method: str, target: Target, xi: Array, log_w: Array, seconds: float, iterations: int | None = None
) -> Samples:
    """The posterior of independent weighted draws, with their figures."""
    ess = effective_size(log_w)
    found = []
    if len(log_w) >= 2 * FEWEST_EFFECTIVE and (ess < FEWEST_EFFECTIVE or heavy(log_w)):
        found.append(
            f"the importance weights are uneven: {ess:.0f} effective of {len(log_w)} draws, k-hat "
            f"{pareto_khat(log_w):.2f}; raise n_samples, or use inference='annealed' or 'exact'"
        )
    weights = np.exp(log_w - log_w.max())
    return target.as_posterior(
        target.prior_coordinates(xi),
        weights=weights / weights.sum(),
        group=np.arange(len(log_w)),
        evidence=weighted_evidence(log_w),
        report=Report(
            method=method,
            iterations=iterations,
            jitter=target.jitter,
            n_samples=len(log_w),
            ess=ess,
            khat=pareto_khat(log_w),
            seconds=seconds,
            warnings=tuple(found),
            details=target.details,
        ),
    )
