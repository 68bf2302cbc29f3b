"""What the samplers of latent values share: chains side by side, their figures, and an annealed evidence.

Chains are the rows of one matrix, so that a step of all is one matrix product; they start from independent
draws of the Gaussian that the coordinates were built around. The order of random numbers, and so the result, is
the same for any number of processes.
Cost: (warmup + draws · thin) steps; memory chains · draws · n.
Reference: Vehtari et al. (2021), Rank-normalization, folding, and localization: an improved R-hat.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from gpclass._typing import Array, Generator, IntArray
from gpclass.inference.annealed import Annealed, Transition, annealed_evidence, ladder
from gpclass.inference.around import AROUND
from gpclass.inference.base import Inference, Way
from gpclass.inference.diagnostics import RHAT_APART, chain_figures
from gpclass.inference.particles import Particles
from gpclass.inference.posteriors import WhiteDraws
from gpclass.latent.coordinates import Target
from gpclass.latent.sites import Start
from gpclass.model.problem import Problem
from gpclass.posterior import INSTEAD, Evidence, Report, too_few

Step: TypeAlias = "Callable[[Particles, Generator, bool], Particles]"
LOOKED_AT = 20  # latent values whose diagnostics are computed, evenly chosen: each costs about a millisecond
EVIDENCE_PARTICLES = 100
BATCH = 20  # effective draws of a batch, at least: the dependence of neighbours then takes 5 % off an error
MOST_BATCHES = 8  # of a chain
SHORT_BATCH = 8  # effective draws of a batch, at least, if longer ones would make fewer than FEW_GROUPS of all chains
FEW_GROUPS = 8


@dataclass(frozen=True)
class ChainSettings(Inference):
    """Length and number of chains.

    Parameters
    ----------
    chains : int
        Chains that run side by side; at least two, four or more for a meaningful R-hat.
    warmup : int
        Steps that are dropped; step sizes are adapted in them.
    draws : int
        Draws kept per chain.
    thin : int
        Steps between kept draws.
    evidence : bool
        Also estimate the evidence, by annealed importance sampling with this sampler's steps.
    """

    chains: int = 8
    warmup: int = 100
    draws: int = 250
    thin: int | None = 1
    evidence: bool = False

    ways: ClassVar[tuple[Way, ...]] = Annealed.ways
    prefers: ClassVar[tuple[str, ...]] = Annealed.prefers
    evidence_kind: ClassVar[str | None] = None
    limits: ClassVar = {"chains": 2, "warmup": 0, "draws": 4}

    def brief(self) -> Self:
        return replace(self, chains=2, warmup=10, draws=20)

    def every(self, problem: Problem) -> int:
        """Steps between kept draws."""
        return self.thin or 1

    def steps_and_draws(self, problem: Problem) -> Iterator[int | None]:
        """For each step of the chains the place of the draw that is kept after it, None where none is.

        The first ``warmup`` steps are the warm-up.
        """
        thin = self.every(problem)
        for i in range(-self.warmup, self.draws * thin):
            yield i // thin if i >= 0 and (i + 1) % thin == 0 else None


class Stepping(ChainSettings):
    """Chains whose latent values another strategy can move, given θ, in white coordinates."""

    steps: ClassVar[bool] = True

    @property
    def moved_around(self) -> str | Inference | None:
        """What those coordinates belong to: the prior, or a Gaussian as :func:`target_around` takes it."""
        return "prior"

    @abstractmethod
    def latent_steps(self, target: Target, state: Particles, rng: Generator, size: float, count: int) -> Particles:
        """Some steps of the latent values given θ, for the strategy that alternates."""


@dataclass(frozen=True)
class WhiteChains(Stepping):
    """Chains that move in the coordinates of a Gaussian.

    Parameters
    ----------
    around : {"ep", "variational", "laplace", "prior"} or Inference, optional
        That Gaussian; by default the best available for the likelihood.
    chains, warmup, draws, thin, evidence
        See :class:`ChainSettings`.
    """

    around: str | Inference | None = None

    limits: ClassVar = {"around": AROUND}

    @property
    def moved_around(self) -> str | Inference | None:
        return self.around

    def latent_steps(self, target: Target, state: Particles, rng: Generator, size: float, count: int) -> Particles:
        for _ in range(count):
            state = self.latent_step(target, state, rng, size)
        return state

    @abstractmethod
    def latent_step(self, target: Target, state: Particles, rng: Generator, size: float) -> Particles:
        """One step of the latent values given θ."""


def run_latent_chains(
    settings: ChainSettings,
    target: Target,
    step: Step,
    rng: Generator,
    start: Start | None,
    *,
    transition: Transition,
    details: Callable[[], dict[str, Any]] = dict,
) -> WhiteDraws:
    """Run the chains of a sampler that moves :class:`Particles`, and report on them."""
    state = Particles.at(target, _start(settings.chains, target, start, rng))
    kept = np.empty((settings.chains, settings.draws, target.dimension))
    log_lik = np.empty((settings.chains, settings.draws))
    for i, draw in enumerate(settings.steps_and_draws(target.problem)):
        state = step(state, rng, i < settings.warmup)
        if draw is not None:
            kept[:, draw], log_lik[:, draw] = state.xi, state.r
    evidence = annealed(target, transition, rng) if settings.evidence else None
    eta = target.prior_coordinates(kept.reshape(-1, kept.shape[2]))
    return collect(settings, target, eta, log_lik, evidence, details())


def annealed(target: Target, transition: Transition, rng: Generator) -> Evidence:
    """The annealed evidence of the problem behind the target."""
    return annealed_evidence(target, ladder(target.problem.n), EVIDENCE_PARTICLES, rng, transition)


def collect(
    settings: ChainSettings,
    target: Target,
    eta: Array,
    log_lik: Array,
    evidence: Evidence | None,
    details: dict[str, Any],
) -> WhiteDraws:
    """The posterior of the draws ``eta`` (chains · draws, k), chain by chain, with their figures."""
    k = eta.shape[1]
    some = np.unique(np.linspace(0, k - 1, min(k, LOOKED_AT)).astype(np.intp))
    latent = target.some_latents(eta, some).reshape(settings.chains, settings.draws, len(some))
    figures = chain_figures(np.concatenate([latent, log_lik[:, :, None]], axis=2))
    total, cure = len(eta), f"raise draws or thin of {type(settings).__name__}, or use inference='exact'"
    cure = INSTEAD if too_few(figures.ess_bulk, total) else cure
    reason, warned = figures.told(RHAT_APART, settings.chains, cure)
    return WhiteDraws(
        target.problem,
        eta,
        weights=np.full(total, 1.0 / total),
        group=chain_batches(np.repeat(np.arange(settings.chains), settings.draws), figures.ess_bulk),
        evidence=evidence,
        report=Report(
            method=settings.name,
            converged=not reason,
            reason=reason,
            iterations=settings.warmup + settings.draws * settings.every(target.problem),
            jitter=target.jitter,
            n_samples=total,
            ess=figures.ess_bulk,
            warnings=warned,
            precise=not (reason or warned),
            details={
                "chains": settings.chains,
                "latent_rhat": figures.rhat,
                "ess_tail": figures.ess_tail,
                "mcse_mean": figures.mcse,
                **target.details,
                **details,
            },
        ),
        roots=target.roots,
    )


def chain_batches(chain: IntArray, ess: float) -> IntArray:
    """Groups of draws that come chain by chain: batches of about ``BATCH`` effective draws, nearly independent.

    ``chain`` (S,) are the chains of the draws, ``ess`` how many of all that the chains made are effective.
    """
    sizes = np.bincount(chain)
    per_chain = np.nan_to_num(ess) / len(sizes)
    few = min(per_chain / SHORT_BATCH, FEW_GROUPS / len(sizes))
    each = int(np.clip(max(per_chain / BATCH, few), 1, MOST_BATCHES))
    batch = np.concatenate([np.arange(size) * each // max(size, 1) for size in sizes])
    return np.asarray(each * chain + batch)


def _start(chains: int, target: Target, start: Start | None, rng: Generator) -> Array:
    """Where the chains start: draws of ``start`` if it has any for these rows, else draws of q."""
    if start is not None and start.eta is not None and start.eta.shape[1] == target.problem.prior.white_dimension():
        assert start.weights is not None
        chosen = rng.choice(len(start.weights), size=chains, p=start.weights)
        return target.from_prior_coordinates(start.eta[chosen], rng)
    return rng.standard_normal((chains, target.dimension))
