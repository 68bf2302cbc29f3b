r"""Pseudo-marginal Metropolis-Hastings over kernel parameters: exact, with a noisy evidence.

A proposal θ' ~ π(·|θ) is accepted with probability min(1, z),

    z = p̃(y|θ') p(θ') / [p̃(y|θ) p(θ)],

p̃ an unbiased estimate, drawn anew for θ' and *kept* for θ while the chain stays there. The chain targets the
exact posterior of θ for any noise of p̃; noise lowers the acceptance. Latent values: draws that the accepted
estimate chose by their weights, so predictions integrate θ and f (the particle marginal form). The proposal
is tuned on a deterministic evidence (Laplace's) and then fixed. The estimate does not depend on the past:
its sites start from those at one θ, the same for all, and its number of particles is fixed.
With ``screen`` a proposal first passes a test on a deterministic evidence g(θ), and only then is p̃ drawn;
the second test divides z by the first one's ratio: still exact, and most estimates are saved (delayed
acceptance). With ``exact``, g is EP's evidence, from sites that then guide the draws; otherwise the guide's.
Cost: one estimate per iteration; ``exact`` with 64 draws costs little more than EP.
Fails when: the standard deviation of log p̃ (``sd_log_evidence`` of the fit report) is well above one: chains
stick; use ``exact``, or more particles.
Reference: Andrieu & Roberts (2009); Filippone (2014); Christen & Fox (2005) for the screen;
Andrieu, Doucet & Holenstein (2010) for the latent draws.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from gpclass._settings import SHARE
from gpclass._typing import Array
from gpclass.hyper.chains import Record, Sampler, State
from gpclass.hyper.full_bayes import FullBayes, Sampling
from gpclass.hyper.mixture import latent_draw
from gpclass.hyper.proposal import (
    LogDensity,
    Mode,
    adapted,
    find_mode,
    first_walk,
    from_prior,
    pooled,
    scattered,
    walk,
)
from gpclass.inference.around import BASES, guide_for
from gpclass.inference.base import Inference, Outline
from gpclass.inference.ep import EP
from gpclass.latent.base import Start
from gpclass.model.problem import Problem
from gpclass.posterior import Posterior
from gpclass.priors import PriorSet

START_TOL = 1e-4  # of the sites that all estimates start from
WIDE = 0.5  # standard deviation of the first proposal, in logs, if chains start from the prior


@dataclass(frozen=True)
class PseudoMarginal(FullBayes):
    """Settings of pseudo-marginal sampling; the warm-up is on the deterministic evidence.

    Parameters
    ----------
    discard : int
        Further dropped iterations, on the unbiased evidence with the proposal fixed: the chain moves from one density
        to the other.
    acceptance : float
        Acceptance that the proposal is tuned to on the deterministic evidence.
    guide : {"laplace", "ep", "variational"}, optional
        That evidence; by default Laplace's if the likelihood has it, else EP's.
    start : {"mode", "prior"}
        Chains start scattered about the mode of the guide's posterior, or from the prior.
    screen : bool, optional
        Draw the estimate only for proposals that pass a first test on a deterministic evidence. With ``exact`` that is
        EP's, which is accurate: half the time is saved, and it is the default. Otherwise it is the guide's; if that
        is inaccurate, chains stick.
    particles : int
        Draws per estimate if the inference does not fix their number (``exact``).
    vectors : int
        Latent draws for each of the ``keep`` draws of θ: memory keep · vectors · n.
    approximate : bool
        Allow a biased evidence, such as EP's, for comparison: the chain then samples that approximation.
    """

    chains: int = 4
    warmup: int = 300
    discard: int = 50
    draws: int | None = None
    acceptance: float = 0.25
    guide: str | None = None
    start: str = "mode"
    screen: bool | None = None
    particles: int = 64
    keep: int = 200
    vectors: int = 4
    default_priors: str = "weak"
    approximate: bool = False
    checkpoint: str | os.PathLike[str] | None = None

    first_draws: ClassVar[int] = 500
    name: ClassVar[str] = "pseudo-marginal"
    needs: ClassVar[str] = "unbiased"
    limits: ClassVar = {"discard": 0, "acceptance": SHARE, "guide": tuple(BASES), "start": ("mode", "prior")}

    @classmethod
    def filippone(cls, **changes: Any) -> PseudoMarginal:
        """The paper's prior and schedule: five chains from it; 2000 iterations tuned, 500 dropped, 1500 kept."""
        settings: dict[str, Any] = {"chains": 5, "warmup": 2000, "discard": 500, "draws": 1500, "start": "prior"}
        return cls(**{**settings, "default_priors": "filippone", **changes})

    @classmethod
    def brief(cls) -> PseudoMarginal:
        return cls(chains=2, warmup=3, discard=0, draws=4, start="prior", approximate=True)

    def takes(self, inference: Inference) -> bool:
        return super().takes(inference) or (self.approximate and inference.evidence_kind is not None)

    @property
    def dropped(self) -> int:
        return self.warmup + self.discard

    def sampling(self, problem: Problem, inference: Inference, prior: PriorSet) -> Sampling:
        """θ, and f by the draws of the accepted estimates."""
        inference = inference.for_chains(self.particles)
        guide = LogDensity(problem, guide_for(problem.likelihood, self.guide), prior)
        wide = Mode(problem.theta, WIDE**2 * np.eye(len(problem.theta)), 0)
        mode = find_mode(guide) if self.start == "mode" else wide
        density = LogDensity(problem, inference, prior, common_start(problem.at(mode.theta), inference))
        of = inference.posterior_type(problem)
        sampler = MetropolisSampler(self, guide, density, mode, of)
        return Sampling(sampler, inference, prior, of, mode.evaluations)


def common_start(problem: Problem, inference: Inference) -> Start | None:
    """The start of every estimate: EP at one θ, for an inference guided by EP's sites."""
    return EP(tol=START_TOL)(problem).start if inference.stochastic else None


@dataclass(frozen=True, eq=False)
class MetropolisSampler(Sampler):
    """Random-walk Metropolis-Hastings: first on the guide's evidence, then on the estimate."""

    settings: PseudoMarginal
    guide: LogDensity
    density: LogDensity
    mode: Mode
    of: type[Posterior]

    @cached_property
    def screens(self) -> bool:
        """Whether proposals are screened; by default if the inference has a deterministic evidence."""
        wanted = self.settings.screen
        return self.density.outline(self.mode.theta) is not None if wanted is None else wanted

    def first(self, rng: np.random.Generator) -> State:
        scatter = self.settings.start == "mode"
        theta = scattered(self.mode, self.guide, rng) if scatter else from_prior(self.guide, rng)
        value = self.guide.log_evidence(theta) + self.guide.log_prior(theta)
        return {"theta": theta, "value": np.asarray(value), **first_walk(self.mode)}

    def step(self, state: State, rng: np.random.Generator, iteration: int) -> tuple[State, Record]:
        if iteration < self.settings.warmup:
            return self._adapting(state, rng, iteration)
        if "vectors" not in state:
            state = self._switch(state, rng)
        return self._sampling(state, rng, iteration)

    def pool(self, states: list[State]) -> list[State]:
        """One proposal for all chains, fixed from here on."""
        return [{**state, **pooled(states)} for state in states]

    def _adapting(self, state: State, rng: np.random.Generator, k: int) -> tuple[State, Record]:
        proposal, log_u = walk(state, rng), np.log(rng.random())
        value = self.guide.log_prior(proposal)
        if value > -np.inf:
            value += self.guide.log_evidence(proposal)
        gain = value - float(state["value"])
        if gain >= log_u:
            state = {**state, "theta": proposal, "value": np.asarray(value)}
        chance = float(np.exp(min(gain, 0.0))) if np.isfinite(value) else 0.0
        state = {**state, **adapted(state, chance, self.settings.acceptance, k)}
        return state, {"accepted": np.asarray(float(gain >= log_u))}

    def _switch(self, state: State, rng: np.random.Generator) -> State:
        """The first estimate at the current θ; if it fails, at the mode."""
        for theta in (state["theta"], self.mode.theta):
            found = self._estimate(theta, rng)
            if found is not None:
                return {**state, "theta": theta, "guess": np.asarray(self._guess(theta)[0]), **found}
        raise ValueError("the evidence is not finite at the chains' starting points; give other priors")

    def _guess(self, theta: Array) -> tuple[float, Outline | None]:
        """Log density by a deterministic evidence: that of the estimator's own outline, or the guide's."""
        if not self.screens:
            return np.nan, None
        outline = self.density.outline(theta)
        log_z = self.guide.log_evidence(theta) if outline is None else outline.log_z
        return log_z + self.density.log_prior(theta), outline

    def _estimate(self, theta: Array, rng: np.random.Generator, outline: Outline | None = None) -> State | None:
        """Log density by a fresh estimate, with vectors and a draw of f; None if it fails."""
        posterior = self.density.posterior(theta, rng, outline)
        if posterior is None or posterior.evidence is None:
            return None
        vectors, log_z = posterior.pack(self.settings.vectors, rng), posterior.evidence.log_z
        value = np.asarray(log_z + self.density.log_prior(theta))
        return {"log_z": np.asarray(log_z), "value": value, "vectors": vectors}

    def _pass(
        self, state: State, proposal: Array, log_u: float, rng: np.random.Generator
    ) -> tuple[State | None, float]:
        """The estimate at the proposal, None if it is screened out, and what its gain must reach."""
        if self.density.log_prior(proposal) == -np.inf:
            return None, log_u
        if not self.screens:
            return self._estimate(proposal, rng), log_u
        guess, outline = self._guess(proposal)
        gain = guess - float(state["guess"])
        if not gain >= log_u:
            return None, log_u
        found = self._estimate(proposal, rng, outline)
        return None if found is None else {**found, "guess": np.asarray(guess)}, np.log(rng.random()) + gain

    def _sampling(self, state: State, rng: np.random.Generator, iteration: int) -> tuple[State, Record]:
        proposal, log_u = walk(state, rng), np.log(rng.random())
        found, bar = self._pass(state, proposal, log_u, rng)
        accepted = found is not None and float(found["value"]) - float(state["value"]) >= bar
        if accepted and found is not None:
            state = {**state, "theta": proposal, **found}
            state.pop("f", None)
        if iteration < self.first_kept:
            return state, {"accepted": np.asarray(float(accepted))}
        if "f" not in state:
            problem = self.density.problem.at(state["theta"])
            state = {**state, "f": latent_draw(problem, self.of, state["vectors"], rng)}
        return state, self.record(state, state["f"], accepted, iteration)
