r"""EP's guide of the exact engine as a smooth function of θ, for chains that need an estimate at every θ they visit.

The guide at θ is a site of precision t_k and shift h_k on each standardised noisy value, and their mean m_k. In
coordinates φ = R⁻¹(θ − θ₀) of a Gaussian N(θ₀, R Rᵀ) each of log t_k, h_k / √t_k and m_k is fitted by a quadratic in φ,
by least squares to EP's own at points that are drawn from that Gaussian once. An estimate then needs no sweep of EP.
Any guide that is a function of θ alone leaves the estimates unbiased and chains exact; how even the weights are tells
how good it is. Further than ``REACH`` from θ₀, where a quadratic extrapolates, there is no guide, and EP is run.
Cost: EP at some points, at least as many as a quadratic has coefficients, (p + 1)(p + 2)/2; then O(n p²) per guide.
Fails when: p is large, so that most of the posterior is far from θ₀ in φ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import lstsq, solve_triangular

from gpclass._typing import Array
from gpclass.inference.exact import Exact
from gpclass.inference.outline import Outline
from gpclass.latent.sites import Start
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import cholesky
from gpclass.propagation.sites import SiteApproximation, Sites

REACH = 2.0  # in standard deviations
FAINTEST = 1e-12  # precision of a site


@dataclass(frozen=True, eq=False)
class FittedGuide:
    """Guides of one problem at any θ near θ₀."""

    settings: Exact  # of the estimates
    problem: Problem
    centre: Array  # θ₀ (p,)
    root: Array  # R (p, p)
    coefficients: Array  # (1 + p + p(p + 1)/2, 3N)
    start: Start  # EP's sites at θ₀
    evaluations: int  # of EP, for the fit

    def __call__(self, theta: Array) -> Outline | None:
        """The guide at θ; None if that is far from θ₀."""
        at = solve_triangular(self.root, theta - self.centre, lower=True)
        if at @ at > REACH**2:
            return None
        log_t, z, mean = (_quadratic(at[None]) @ self.coefficients).reshape(3, -1)
        t, rows, none = np.exp(log_t), self.problem.at(theta).unrolled(), np.empty(0)
        sites = Sites(t, np.sqrt(t) * z)
        # Neither the covariance nor the evidence of EP is known.
        ep = SiteApproximation(sites, mean, np.empty((0, 0)), np.nan, np.nan, none, none, 0, True, 0.0)
        return Outline(self.settings, rows, ep, self.start)

    def of(self, settings: Exact) -> FittedGuide:
        """The same for another number of draws."""
        return replace(self, settings=settings)


def fit_guide(
    settings: Exact, problem: Problem, start: Start | None, covariance: Array, points: list[Array]
) -> FittedGuide | None:
    """The fit to EP's guides at θ₀, the first of the ``points``, and the others; None if the engine has no such guide.

    Every EP begins at ``start``.
    """
    converging, R = replace(settings, sweeps=None), cholesky(covariance)
    found = [converging.outline(problem.at(theta), start) for theta in points]
    outlines = [one for one in found if one is not None]
    if len(outlines) < len(points):
        return None
    at = solve_triangular(R, (np.stack(points) - points[0]).T, lower=True).T
    coefficients, *_ = lstsq(_quadratic(at), np.stack([_packed(one.ep) for one in outlines]))
    return FittedGuide(settings, problem, points[0], R, np.asarray(coefficients), outlines[0].start, len(points))


def _packed(ep: SiteApproximation) -> Array:
    """What is fitted, (3N,)."""
    t = np.maximum(ep.sites.precision, FAINTEST)
    return np.concatenate([np.log(t), ep.sites.shift / np.sqrt(t), ep.mean])


def _quadratic(at: Array) -> Array:
    """The terms of a quadratic at points (N, p)."""
    i, j = np.triu_indices(at.shape[1])
    return np.hstack([np.ones((len(at), 1)), at, at[:, i] * at[:, j]])
