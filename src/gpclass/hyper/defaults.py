"""The papers' priors by name, for parameters without a prior from the user.

``filippone``: variances ~ Gamma(1.1, rate 0.1); lengths ~ Gamma(1, 1) if each input has its own, else
Gamma(1, rate 1/√d). ``williams-barber``: log v and log w Gaussian with mean −3 and standard deviation 3, w =
ℓ⁻² being the relevance of an input, so that log ℓ ~ N(1.5, 1.5²). Both are for standardised inputs.
``weak``: log-normal about the starting values. All are densities of θ = log x with the Jacobian
(:mod:`gpclass.priors`).
Reference: Filippone (2014), §V; Williams & Barber (1998), §5.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

import numpy as np

from gpclass.model.problem import Problem
from gpclass.priors import Gamma, LogNormal, Prior, PriorSet, PriorSpec, default_prior, resolve_priors

PAPERS = ("filippone", "williams-barber", "weak")


def priors_for(problem: Problem, spec: PriorSpec, paper: str) -> PriorSet:
    """The user's priors, and the paper's for the other parameters."""
    if spec is not None and not isinstance(spec, Mapping):
        return resolve_priors(spec, problem.names, problem.theta)
    theta = problem.theta
    given = dict(spec or {})
    chosen = resolve_priors(given, problem.names, theta)  # rejects patterns that match nothing
    priors = dict(zip(chosen.names, chosen.priors, strict=True))
    for name, start in zip(problem.names, theta, strict=True):
        if not any(name == pattern or fnmatchcase(name, pattern) for pattern in given):
            priors[name] = _paper_prior(paper, name, float(start), problem)
    return resolve_priors(priors, problem.names, theta)


def _paper_prior(paper: str, name: str, start: float, problem: Problem) -> Prior:
    if paper == "filippone" and "length_scale" in name:
        return Gamma(1.0, 1.0) if "[" in name else Gamma(1.0, 1.0 / np.sqrt(problem.n_features))
    if paper == "filippone" and "constant_value" in name:
        return Gamma(1.1, 0.1)
    if paper == "williams-barber" and "length_scale" in name:
        return LogNormal(1.5, 1.5)
    if paper == "williams-barber" and "constant_value" in name:
        return LogNormal(-3.0, 3.0)
    return default_prior(name, start)
