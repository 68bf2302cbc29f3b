"""What the samplers of latent values share: chains side by side, their figures, and an annealed evidence.

Chains are the rows of one matrix, so that a step of all is one matrix product; they start from independent
draws of the Gaussian that the coordinates were built around. The order of random numbers is fixed, so the
result is too, whatever the number of processes.
Cost: (warmup + draws · thin) steps; memory chains · draws · n.
Reference: Vehtari et al. (2021), Rank-normalization, folding, and localization: an improved R-hat.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from gpclass._typing import Array
from gpclass.inference.samples import SamplePosterior, Samples, chain_figures, looked_at
from gpclass.inference.whitened import Target
from gpclass.latent.many_samples import MultiSamplePosterior
from gpclass.posterior import Evidence, Posterior, Report

if TYPE_CHECKING:
    from gpclass.inference.elliptical_slice import Particles

Step: TypeAlias = "Callable[[Particles, np.random.Generator, bool], Particles]"
Transition: TypeAlias = "Callable[[Any, Particles, np.random.Generator, float], Particles]"
EVIDENCE_PARTICLES = 100


@dataclass(frozen=True)
class ChainSettings:
    """Length and number of chains.

    Parameters
    ----------
    chains : int
        Chains that run side by side; at least two, four or more for an R-hat that says something.
    warmup : int
        Steps that are dropped; step sizes are adapted in them.
    draws : int
        Draws kept a chain.
    thin : int
        Steps between kept draws.
    evidence : bool
        Also estimate the evidence, by annealed importance sampling with this sampler's own steps.
    """

    chains: int = 8
    warmup: int = 100
    draws: int = 250
    thin: int = 1
    evidence: bool = False

    name: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for field, least in (("chains", 2), ("warmup", 0), ("draws", 4), ("thin", 1)):
            value = getattr(self, field)
            if int(value) != value or value < least:
                raise ValueError(
                    f"{type(self).__name__}: {field} must be a whole number from {least}, got {value!r}"
                )


def run_latent_chains(
    settings: ChainSettings,
    target: Target,
    step: Step,
    noise: np.random.Generator | None,
    start: Posterior | None,
    *,
    transition: Transition | None = None,
    details: Callable[[], dict[str, Any]] = dict,
) -> Samples:
    """Run the chains of a sampler that moves :class:`Particles`, and report on them."""
    from gpclass.inference.elliptical_slice import Particles  # it imports this module

    began = time.perf_counter()
    rng = np.random.default_rng(0) if noise is None else noise
    state = Particles.at(target, _start(settings.chains, target, start, rng))
    kept = np.empty((settings.chains, settings.draws, target.dimension))
    log_lik = np.empty((settings.chains, settings.draws))
    for i in range(-settings.warmup, settings.draws * settings.thin):
        state = step(state, rng, i < 0)
        if i >= 0 and (i + 1) % settings.thin == 0:
            kept[:, i // settings.thin] = state.xi
            log_lik[:, i // settings.thin] = state.r
    evidence = None
    if settings.evidence and transition is not None:
        from gpclass.inference.annealed import annealed_evidence, ladder

        evidence = annealed_evidence(target, ladder(len(target.m)), EVIDENCE_PARTICLES, rng, transition)
    eta = target.prior_coordinates(kept.reshape(-1, kept.shape[2]))
    return collect(settings, target, eta, log_lik, evidence, time.perf_counter() - began, details())


def collect(
    settings: ChainSettings,
    target: Target,
    eta: Array,
    log_lik: Array,
    evidence: Evidence | None,
    seconds: float,
    details: dict[str, Any],
) -> Samples:
    """The posterior of the draws ``eta`` (chains · draws, n), chain by chain, with their figures."""
    some = looked_at(eta.shape[1])
    latent = target.some_latents(eta, some).reshape(settings.chains, settings.draws, len(some))
    figures = chain_figures(np.concatenate([latent, log_lik[:, :, None]], axis=2))
    cure = f"raise draws or thin of {type(settings).__name__}, or use inference='exact'"
    total = len(eta)
    return target.as_posterior(
        eta,
        weights=np.full(total, 1.0 / total),
        group=np.repeat(np.arange(settings.chains), settings.draws),
        evidence=evidence,
        report=Report(
            method=settings.name,
            converged=not figures.apart,
            reason=figures.apart,
            iterations=settings.warmup + settings.draws * settings.thin,
            jitter=target.jitter,
            n_samples=total,
            ess=figures.ess_bulk,
            seconds=seconds,
            warnings=figures.warnings(settings.chains, cure),
            details={
                "chains": settings.chains,
                "latent_rhat": figures.rhat,
                "ess_tail": figures.ess_tail,
                "mcse_mean": figures.mcse,
                **target.details,
                **details,
            },
        ),
    )


def _start(chains: int, target: Target, start: Posterior | None, rng: np.random.Generator) -> Array:
    """Where the chains start: draws of ``start`` if it has any for these points, else draws of q."""
    if isinstance(start, (SamplePosterior, MultiSamplePosterior)) and start.eta.shape[1] == len(target.m):
        chosen = rng.choice(len(start.weights), size=chains, p=start.weights)
        return target.from_prior_coordinates(start.eta[chosen], rng)
    return rng.standard_normal((chains, target.dimension))
