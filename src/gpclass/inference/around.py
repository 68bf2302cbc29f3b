"""Coordinates for samplers: around the prior, or around a Gaussian approximation of the posterior.

The available Gaussians depend on the likelihood: "ep" (two classes, multinomial probit), "laplace"
(two classes, softmax) and "variational" (softmax). With a dense prior the softmax's variational Gaussian is kept in the
short form of its sites, nearly the optimum (:mod:`gpclass.latent.centred`): samplers correct the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpclass.inference.base import Inference
from gpclass.inference.ep import EP
from gpclass.inference.laplace import Laplace
from gpclass.inference.variational import Variational
from gpclass.latent.base import Gaussian
from gpclass.latent.coordinates import Target
from gpclass.latent.sites import Start
from gpclass.likelihoods.base import Likelihood
from gpclass.model.problem import Problem

BASES: Mapping[str, type[Inference]] = {"ep": EP, "variational": Variational, "laplace": Laplace}
AROUND = ("prior", *BASES)


def gaussians_for(likelihood: Likelihood) -> list[str]:
    """Names of the Gaussians available for a likelihood, the best first."""
    return [name for name, base in BASES.items() if base.ways[0].likelihood <= likelihood.offers()]


def guide_for(likelihood: Likelihood, name: str | None = None) -> Inference:
    """A deterministic evidence for tuning: the named one, or by default Laplace's if the likelihood has it."""
    has = gaussians_for(likelihood)
    if not has:
        raise ValueError(
            f"likelihood={likelihood.name!r} has no Gaussian approximation to tune on: it offers neither 'match' nor "
            "'average' nor 'expand' with 'third'; use hyperparameters='fixed' or 'cv'"
        )
    name = name or ("laplace" if "laplace" in has else has[0])
    if name not in has:
        raise ValueError(f"guide={name!r} does not support likelihood={likelihood.name!r}; use one of {_listed(has)}")
    return BASES[name]()


def target_around(
    problem: Problem,
    around: str | Inference | None,
    tol: float | None = None,
    power: float = 1.0,
    start: Start | None = None,
) -> Target:
    """Coordinates around the prior, or around a Gaussian whose sites are weakened to ``power``.

    Parameters
    ----------
    problem : Problem
    around : {"prior", "ep", "variational", "laplace"}, Inference or None
        None: the best available for the likelihood. An inference gives the settings of its Gaussian.
    tol : float, optional
        Sites need no smaller tolerance than this.
    power : float
        Below one: weaker sites, because a Gaussian site is narrower than the likelihood in some directions.
    start : Start, optional
        Sites of a neighbouring posterior to begin from.
    """
    likelihood, names = problem.likelihood, gaussians_for(problem.likelihood)
    if around is None:
        around = names[0] if names else "prior"
    if around == "prior":
        return problem.prior.whitened(None)
    if isinstance(around, Inference):
        base = around
        if not base.gaussian:
            raise ValueError(f"around={base!r} is not a Gaussian approximation; use {_listed(names)}")
        if base.way(type(likelihood), problem.form.offers) is None:
            raise ValueError(f"around={base!r} does not support likelihood={likelihood.name!r}")
    elif around in names:
        base = BASES[around]()
    else:
        raise ValueError(
            f"around={around!r} is not known for likelihood={likelihood.name!r}; use one of "
            f"{_listed(['prior', *names])}"
        )
    return problem.prior.whitened(_gaussian(problem, base, tol, start), power)


def _gaussian(problem: Problem, base: Inference, tol: float | None, start: Start | None) -> Gaussian:
    if isinstance(base, Variational):
        short = problem.prior.centred(lambda: Laplace()(problem).sites[0])
        if short is not None and base != Variational():
            raise ValueError(f"around={base!r}: the short form of its sites has no settings; use around='variational'")
        if short is not None:
            return short
    if isinstance(base, Laplace):
        return base.near_mode(problem, start)
    return base.with_site_tol(max(tol or 0.0, base.site_tol))(problem, start=start).sites[0]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
