"""Draws of two kernel parameters beside a product rule over them."""

import numpy as np
from scipy.special import logsumexp

from gpclass.inference.diagnostics import array_stats
from gpclass.priors import LogNormal, resolve_priors

PRIORS = {"k1__constant_value": LogNormal(0.5, 0.7), "k2__length_scale": LogNormal(0.0, 0.5)}
NAMES = list(PRIORS)


def draws_of(fit):
    """Log parameters, (chains, draws, 2)."""
    return np.log(np.stack([fit.trace.groups["posterior"][name] for name in NAMES], axis=-1))


class Quadrature:
    """A product rule over the prior's bulk, with the evidence at every θ of it."""

    def __init__(self, problem, log_evidence, size=13):
        prior = resolve_priors(PRIORS, problem.names, problem.theta)
        a, b = np.linspace(0.5 - 2.8, 0.5 + 2.8, size), np.linspace(-2.0, 2.0, size)
        self.theta = np.stack(np.meshgrid(a, b, indexing="ij"), -1).reshape(-1, 2)
        self.log_evidence = np.array([log_evidence(problem.at(x)) for x in self.theta])
        self.log_prior = np.array([prior.log_density(x) for x in self.theta])

    def weights(self, power=1.0):
        """Posterior weights of θ, the likelihood raised to a power."""
        log_p = power * self.log_evidence + self.log_prior
        return np.exp(log_p - logsumexp(log_p))

    def moments(self, power=1.0):
        """Mean and standard deviation of both log parameters."""
        w = self.weights(power)
        mean = w @ self.theta
        return mean, np.sqrt(w @ (self.theta - mean) ** 2)


def agrees(draws, mean, sd, bound=4.0):
    """Whether mean and standard deviation of the draws are within Monte Carlo error of the truth."""
    stats = array_stats()
    per = np.moveaxis(draws, -1, 0)
    gap_mean = np.abs(per.mean(axis=(1, 2)) - mean) / stats.mcse(per)
    gap_sd = np.abs(per.std(axis=(1, 2)) - sd) / stats.mcse(per, method="sd")
    return bool(max(gap_mean.max(), gap_sd.max()) < bound)
