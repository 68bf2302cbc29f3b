"""Coordinates for samplers: around the prior, or around a Gaussian approximation of the posterior.

The available Gaussians depend on the likelihood: "ep" (two classes, multinomial probit), "laplace"
(two classes, softmax) and "variational" (softmax). With a dense prior the softmax's variational Gaussian is kept in the
short form of its sites, nearly the optimum (:mod:`gpclass.latent.centred`): samplers correct the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpclass.inference.base import Inference
from gpclass.inference.ep import EP
from gpclass.inference.laplace import Laplace
from gpclass.inference.variational import Variational
from gpclass.latent.base import Gaussian, Target
from gpclass.latent.dense import DenseGaussian
from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.local import RowSites
from gpclass.model.problem import Problem

BASES: Mapping[str, Callable[[], Inference]] = {"ep": EP, "variational": Variational, "laplace": Laplace}
AROUND = ("prior", *BASES)


def gaussians_for(likelihood: Likelihood) -> list[str]:
    """Names of the Gaussians available for a likelihood, the best first."""
    return [name for name, base in BASES.items() if base().ways[0].likelihood <= likelihood.offers()]


def check_around(around: str | None) -> None:
    """Reject an unknown name; None means the best available."""
    if around is not None and around not in AROUND:
        raise ValueError(f"around={around!r} is not known; use one of {', '.join(map(repr, AROUND))}")


def target_around(problem: Problem, around: str | None, tol: float | None = None, power: float = 1.0) -> Target:
    """Coordinates around the prior, or around a Gaussian whose sites are weakened to ``power``.

    Parameters
    ----------
    problem : Problem
    around : {"prior", "ep", "variational", "laplace"} or None
        None: the best available for the likelihood.
    tol : float, optional
        Tolerance of the Gaussian; its default if None.
    power : float
        Below one: weaker sites, because a Gaussian site is narrower than the likelihood in some directions.
    """
    names = gaussians_for(problem.likelihood)
    around = names[0] if around is None else around
    if around == "prior":
        return problem.prior.whitened(None)
    if around not in names:
        raise ValueError(
            f"around={around!r} is not known for likelihood={problem.likelihood.name!r}; "
            f"use one of {', '.join(map(repr, ['prior', *names]))}"
        )
    return problem.prior.whitened(weakened(_gaussian(problem, around, tol), power))


def _gaussian(problem: Problem, around: str, tol: float | None) -> Gaussian:
    centred = problem.prior.centred(lambda: Laplace()(problem).sites[0]) if around == "variational" else None
    base = BASES[around]()
    return centred or (base if tol is None else base.with_site_tol(tol))(problem).sites[0]


def weakened(gaussian: Gaussian, power: float) -> Gaussian:
    """The Gaussian with its sites weakened about its mean; unchanged under a low-rank prior."""
    if power == 1.0 or not isinstance(gaussian, DenseGaussian) or gaussian.sites.D is None:
        return gaussian
    D = power * gaussian.D
    b = gaussian.alpha + RowSites(gaussian.alpha, D).times(gaussian.mean)
    return gaussian.prior.from_kept({"D": D, "alpha": gaussian.alpha, "mean": gaussian.mean, "b": b})
