r"""The evidence of a model with its kernel parameters integrated out, from the draws of a chain.

    p(y) = ∫ p(y|θ) p(θ) dθ = E_t [ p̃(y|θ) p(θ) / t(θ) ],

t a Student t with the mean and, widened, the covariance of the chain's draws, p̃ an unbiased estimate of p(y|θ), drawn
anew for each θ: the mean of the weights is unbiased for p(y), and their spread gives its error. Differences between
models are log Bayes factors. A prior counts within the kernel's bounds only, and is not renormalised there.
Cost: one estimate per draw of θ.
Fails when: the posterior of θ has several modes or a tail that the Student t does not cover: see k-hat.
Reference: Geweke (1989), Bayesian inference in econometric models using Monte Carlo integration; Tran et al. (2013),
Importance sampling squared, for the estimate in place of the density.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from gpclass._typing import Array
from gpclass.hyper.proposal import LogDensity
from gpclass.numerics.linalg import cholesky
from gpclass.orthant.weights import effective_size, log_mean, pareto_khat, relative_error

FREEDOM = 5.0  # of the Student t
WIDER = 1.3  # its covariance matrix over that of the draws


@dataclass(frozen=True)
class Integrated:
    """The log evidence with θ integrated out."""

    log_z: float
    error: float  # Monte Carlo standard error of log_z
    ess: float  # effective number of draws
    khat: float
    n_samples: int


def integrated_evidence(density: LogDensity, theta: Array, n_samples: int, rng: np.random.Generator) -> Integrated:
    """Integrate evidence times prior over θ, about the draws ``theta`` (S, p) of its posterior."""
    p = theta.shape[1]
    centre, R = theta.mean(axis=0), cholesky(WIDER * np.atleast_2d(np.cov(theta.T)) + 1e-8 * np.eye(p))
    at = rng.standard_normal((n_samples, p)) / np.sqrt(rng.chisquare(FREEDOM, (n_samples, 1)) / FREEDOM)
    log_w = np.full(n_samples, -np.inf)
    for k, (phi, own) in enumerate(zip(at, rng.spawn(n_samples), strict=True)):
        one = centre + R @ phi
        log_prior = density.log_prior(one)
        posterior = density.posterior(one, own) if log_prior > -np.inf else None
        if posterior is not None and posterior.evidence is not None:
            log_w[k] = posterior.evidence.log_z + log_prior - _log_student(phi, R)
    if not np.isfinite(log_w).any():
        raise ValueError("the evidence is zero at every draw of the kernel parameters")
    error = relative_error(log_w, np.arange(n_samples))
    return Integrated(log_mean(log_w), error, effective_size(log_w), pareto_khat(log_w), n_samples)


def _log_student(phi: Array, R: Array) -> float:
    """Log density of centre + R φ, φ a standard Student t."""
    p = len(phi)
    constant = gammaln((FREEDOM + p) / 2) - gammaln(FREEDOM / 2) - 0.5 * p * np.log(np.pi * FREEDOM)
    return float(constant - np.log(np.diag(R)).sum() - 0.5 * (FREEDOM + p) * np.log1p(phi @ phi / FREEDOM))
