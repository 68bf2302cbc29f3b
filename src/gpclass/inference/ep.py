"""Expectation propagation: Gaussian sites that match moments of the true factors, one point at a time.

The work is in :mod:`gpclass.propagation`; here the factors are the likelihood's, on the latent values f. For the
probit link the moments are in closed form, for the logit by quadrature. With the sites at their fixed point,
d log Z / dK = ½(ααᵀ − (K + T⁻¹)⁻¹), α = K⁻¹ E[f].
Cost: O(n³) a sweep, 3 to 10 sweeps from a cold start, 1 to 3 from neighbouring sites; O(n²) memory.
Fails when: nothing here is exact; log Z is usually right to a few hundredths of a nat, and the probabilities
to about 0.001, but nothing in EP says so. Use ``exact`` to know.
Reference: Minka (2001); Rasmussen & Williams (2006), section 3.6; Filippone & Girolami (2014) on its quality
as an importance distribution.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gpclass._settings import check_settings
from gpclass._typing import Array
from gpclass.inference.gaussian import GaussianPosterior
from gpclass.likelihoods.binary import BinaryLikelihood
from gpclass.model.problem import Problem
from gpclass.posterior import Evidence, Posterior, Report
from gpclass.propagation import expectation_propagation
from gpclass.propagation.sites import Sites


@dataclass(frozen=True)
class LikelihoodFactors:
    """The factors p(y_i | f_i) that EP's sites stand for."""

    likelihood: BinaryLikelihood
    y: Array  # (n,)
    power: Array | None = None  # (n,), in ]0, 1]: factors p(y_i | f_i)^power_i; None: all one

    def tilted(self, mean: Array, var: Array) -> tuple[Array, Array, Array]:
        """Log normaliser, mean and variance of N(f; mean, var) p(y|f), for all points."""
        if self.power is None:
            return self.likelihood.tilted(self.y, mean, var)
        return self.likelihood.powered_tilted(self.y, mean, var, self.power)

    def tilted_one(self, i: int, mean: float, var: float) -> tuple[float, float, float]:
        """The same for point i."""
        if self.power is None or self.power[i] == 1.0:
            return self.likelihood.tilted_scalar(self.y[i], mean, var)
        log_z, m, v = self.likelihood.powered_tilted(self.y[i : i + 1], mean, var, self.power[i])
        return float(log_z[0]), float(m[0]), float(v[0])


def as_copies(weights: Array | None) -> tuple[Array | None, Array | None]:
    """A weight w as ⌈w⌉ copies of the factor raised to the power w/⌈w⌉: copies and powers.

    So a whole number is that many rows, each with a site of its own, and w < 1 one site for a weaker factor.
    """
    if weights is None:
        return None, None
    copies = np.ceil(weights)
    power = weights / copies
    return copies, None if np.all(power == 1.0) else power


@dataclass(frozen=True)
class EP:
    """Settings of expectation propagation.

    Parameters
    ----------
    max_sweeps : int
        Largest number of passes over all sites.
    tol : float
        Stop when log Z and every site change by less than this, relatively, in a sweep.
    block : int
        Sites that are updated one after the other on their own marginal before the full covariance is.
    """

    max_sweeps: int = 100
    tol: float = 1e-6
    block: int = 64

    name: ClassVar[str] = "ep"

    def __post_init__(self) -> None:
        check_settings(self, positive=("tol",), whole=("max_sweeps", "block"))

    @property
    def guide(self) -> EP:
        """Itself with looser sites: log Z is stationary in them, so an error of 1e-4 there is one of 1e-8 in it."""
        return replace(self, tol=100 * self.tol)

    def __call__(
        self,
        problem: Problem,
        noise: np.random.Generator | None = None,
        *,
        start: Posterior | None = None,
        gradient: bool = False,
    ) -> GaussianPosterior:
        """Approximate the posterior of ``problem``; ``noise`` is not used."""
        began = time.perf_counter()
        sites = None
        if isinstance(start, GaussianPosterior) and len(start.t) == problem.n:
            sites = Sites(start.t, start.h)
        copies, power = as_copies(problem.weights)
        result = expectation_propagation(
            problem.prior.K,
            LikelihoodFactors(problem.likelihood, problem.y, power),
            copies=copies,
            start=sites,
            block=self.block,
            max_sweeps=self.max_sweeps,
            tol=self.tol,
        )
        t, h = result.sites.precision, result.sites.shift
        factor = problem.prior.with_sites(t)
        alpha = h - t * result.mean
        slope = problem.gradient(factor, 0.5 * alpha[:, None], alpha[:, None]) if gradient else None
        return GaussianPosterior(
            problem=problem,
            mean=result.mean,
            alpha=alpha,
            t=t,
            h=h,
            factor=factor,
            evidence=Evidence(result.log_z, kind="approximate", gradient=slope),
            report=Report(
                method=self.name,
                converged=result.converged,
                reason=""
                if result.converged
                else f"sites still moved by {result.change:.1e} after {result.sweeps} sweeps",
                iterations=result.sweeps,
                seconds=time.perf_counter() - began,
            ),
        )
