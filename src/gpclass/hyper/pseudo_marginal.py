r"""Pseudo-marginal Metropolis-Hastings over kernel parameters: exact, with a noisy evidence.

A move from θ to θ' that leaves a density g invariant (:mod:`gpclass.hyper.moves`) is accepted with probability
min(1, z),

    z = [p̃(y|θ') p(θ') / g(θ')] / [p̃(y|θ) p(θ) / g(θ)],

p̃ an unbiased estimate, drawn anew for θ' and *kept* for θ while the chain stays there. The chain targets the
exact posterior of θ for any g and any noise of p̃; both lower the acceptance. Latent values: draws that the accepted
estimate chose by their weights, so predictions integrate θ and f (the particle marginal form). By default g is a fit
of a deterministic posterior, EP's or Laplace's, made in the warm-up and then fixed; for a random walk it is constant.
The estimate does not depend on the past: its sites are a fitted function of θ (:mod:`gpclass.inference.fitted_guide`),
or start from those at one θ, the same for all, if θ is long, far from the mode, or the fit's estimates are noisy. Its
number of particles is fixed before the chains begin, by repeated estimates about the mode that are discarded.
With ``screen`` a proposal first passes a test on a deterministic evidence, and only then is p̃ drawn; each test divides
by the ratio of the one before: still exact, and most estimates of a random walk are saved (delayed acceptance).
Cost: one estimate per iteration; ``exact`` with 32 draws costs no more than EP.
Fails when: the standard deviation of log p̃ (``sd_log_evidence`` of the fit report) is well above one: chains
stick; use ``exact``, or more particles. Heavy tails of p̃ do the same.
Reference: Andrieu & Roberts (2009); Filippone (2014); Christen & Fox (2005) for the screen;
Andrieu, Doucet & Holenstein (2010) for the latent draws.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from gpclass._settings import SHARE
from gpclass._typing import Array
from gpclass.hyper.chains import Record, Sampler, State
from gpclass.hyper.full_bayes import FullBayes, Sampling
from gpclass.hyper.mixture import latent_draw
from gpclass.hyper.moves import Moves, Walk, after, moves_for
from gpclass.hyper.proposal import LogDensity, Mode, find_mode, from_prior, scattered
from gpclass.inference.around import BASES, guide_for
from gpclass.inference.base import Guides, Inference, Outline
from gpclass.inference.ep import EP
from gpclass.inference.fitted_guide import REACH
from gpclass.latent.sites import Start
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import cholesky
from gpclass.posterior import Posterior
from gpclass.priors import PriorSet

START_TOL = 1e-4  # of the sites that all estimates start from
SITE_TOL = 0.01  # of the deterministic evidence, which is stationary in the sites: its own error is 1e-6
FEWEST_WARMUP, PER_PARAMETER, WALK_WARMUP = 16, 6, 300  # iterations of the warm-up, by default
PARTICLES = (32, 64, 128, 256, 512)  # draws per estimate that are tried
NOISE = 0.3  # standard deviation of a log estimate: one below it costs more draws than it saves rejections
PILOTS, REPEATED = 6, 4  # points about the mode at which that is measured, and estimates at each
MOST_GUIDED = 4  # parameters up to which guides of the estimates are fitted
LOOKED_AT = 12  # points at which these are compared with EP's
WIDE = 0.5  # standard deviation of the first proposal, in logs, if chains start from the prior


@dataclass(frozen=True)
class PseudoMarginal(FullBayes):
    """Settings of pseudo-marginal sampling; the warm-up is on the deterministic evidence.

    Parameters
    ----------
    warmup : int, optional
        By default 6 per parameter, at least 16, and 300 for a random walk.
    discard : int
        Further dropped iterations, on the unbiased evidence with the proposal fixed: the chain moves from one density
        to the other.
    proposal : {"fitted", "hmc", "walk"}, optional
        Hamiltonian trajectories on a smooth fit of the deterministic evidence, or on that evidence itself, or a random
        walk (:mod:`gpclass.hyper.moves`). By default the fit up to 20 parameters, else the evidence itself; a walk if
        the evidence has no gradient.
    acceptance : float
        Acceptance that a random walk is tuned to on the deterministic evidence.
    guide : {"laplace", "ep", "variational"}, optional
        That evidence; by default the one closest to the inference's own, such as EP's, and Laplace's for a walk.
    start : {"mode", "prior"}
        Chains start scattered about the mode of the guide's posterior, or from the prior.
    screen : bool, optional
        Draw the estimate only for proposals that pass a first test on a deterministic evidence. With ``exact`` that is
        EP's, which is accurate: half the time is saved, and it is the default. Otherwise it is the guide's; if that
        is inaccurate, chains stick.
    particles : int, optional
        Draws per estimate if the inference does not fix their number (``exact``); by default the fewest of 32, 64, ...,
        512 with which the log of an estimate varies by less than 0.3 about the mode.
    vectors : int
        Latent draws for each of the ``keep`` draws of θ: memory keep · vectors · n.
    approximate : bool
        Allow a biased evidence, such as EP's, for comparison: the chain then samples that approximation.
    """

    chains: int = 4
    warmup: int | None = None
    discard: int = 10
    draws: int | None = None
    proposal: str | None = None
    acceptance: float = 0.25
    guide: str | None = None
    start: str = "mode"
    screen: bool | None = None
    particles: int | None = None
    keep: int = 200
    vectors: int = 4
    default_priors: str = "weak"
    pointwise: bool = False
    approximate: bool = False
    checkpoint: str | os.PathLike[str] | None = None

    first_draws: ClassVar[int] = 200
    name: ClassVar[str] = "pseudo-marginal"
    needs: ClassVar[str] = "unbiased"
    limits: ClassVar = {
        "discard": 0,
        "particles": 1,
        "acceptance": SHARE,
        "guide": tuple(BASES),
        "proposal": ("fitted", "hmc", "walk"),
        "start": ("mode", "prior"),
    }

    @classmethod
    def filippone(cls, **changes: Any) -> PseudoMarginal:
        """The paper's prior and schedule: five chains from it; 2000 iterations tuned, 500 dropped, 1500 kept."""
        settings: dict[str, Any] = {
            "chains": 5,
            "warmup": 2000,
            "discard": 500,
            "draws": 1500,
            "start": "prior",
            "proposal": "walk",
        }
        return cls(**{**settings, "default_priors": "filippone", **changes})

    @classmethod
    def brief(cls) -> PseudoMarginal:
        return cls(chains=2, warmup=3, discard=0, draws=4, start="prior", approximate=True)

    def takes(self, inference: Inference) -> bool:
        return super().takes(inference) or (self.approximate and inference.evidence_kind is not None)

    def with_warmup(self, p: int) -> PseudoMarginal:
        """Itself with a length of the warm-up, by default that of the proposal for p parameters."""
        length = WALK_WARMUP if self.proposal == "walk" else max(FEWEST_WARMUP, PER_PARAMETER * p)
        return replace(self, warmup=length) if self.warmup is None else self

    @property
    def dropped(self) -> int:
        return (self.with_warmup(1).warmup or 0) + self.discard  # for few parameters, by default

    def sampling(self, problem: Problem, inference: Inference, prior: PriorSet) -> Sampling:
        """θ, and f by the draws of the accepted estimates."""
        guide = LogDensity(problem, self._guide(problem, inference.for_chains(PARTICLES[0])), prior)
        wide = Mode(problem.theta, WIDE**2 * np.eye(len(problem.theta)), 0)
        mode = find_mode(guide) if self.start == "mode" else wide
        guide = replace(guide, start=guide.inference(problem.at(mode.theta)).start)
        density = LogDensity(problem, inference, prior, common_start(problem.at(mode.theta), inference))
        density, tried = self._settled(density, mode)
        of = density.inference.posterior_type(problem)
        sampler = MetropolisSampler(self.with_warmup(len(mode.theta)), guide, density, mode, of)
        spent = mode.evaluations + tried + sampler.moves.evaluations
        return Sampling(sampler, density.inference, prior, of, spent)

    def _settled(self, density: LogDensity, mode: Mode) -> tuple[LogDensity, int]:
        """The density with everything fixed that its estimates would find out, and the number of estimates made."""
        screened = self.screen or self.proposal == "walk"  # by EP's evidence at every θ, and EP is the guide
        at_mode, guides = density.problem.at(mode.theta), None if screened else guides_about(density, mode)
        tried = 0 if guides is None else guides.evaluations
        for M in PARTICLES if self.particles is None else [self.particles]:
            inference = density.inference.for_chains(M)
            fixed = replace(density, inference=inference.settled(at_mode))
            if guides is not None:
                guided = replace(fixed, guides=guides.of(fixed.inference))
                spread, made = noise(guided, mode)
                tried += made + 2 * LOOKED_AT
                if spread < NOISE and as_good(guided, fixed, mode):
                    return guided, tried
            if inference == density.inference.for_chains(2 * M) or self.particles is not None:
                break
            spread, made = noise(fixed, mode)
            tried += made
            if spread < NOISE:
                break
        return fixed, tried

    def _guide(self, problem: Problem, inference: Inference) -> Inference:
        """The evidence to tune on: the one asked for, Laplace's for a walk, else the one closest to the inference's."""
        if self.guide is not None or self.proposal == "walk":
            return guide_for(problem.likelihood, self.guide)
        near = inference.guide(problem.likelihood)
        near = near if near.gaussian else guide_for(problem.likelihood)
        return near.with_site_tol(max(near.site_tol, SITE_TOL))


def noise(density: LogDensity, mode: Mode) -> tuple[float, int]:
    """Standard deviation of one log estimate at a θ, over some about the mode; inf if none succeeds; their number."""
    rng, variances, made = np.random.default_rng(0), [], 0
    for _ in range(PILOTS):
        theta = scattered(mode, density, rng)
        found = [density.posterior(theta, rng) for _ in range(REPEATED)]
        logs = [one.evidence.log_z for one in found if one is not None and one.evidence is not None]
        made += len(logs)
        variances += [np.var(logs, ddof=1)] if len(logs) > 1 else []
    return (float(np.sqrt(np.mean(variances))) if variances else np.inf), made


def as_good(guided: LogDensity, own: LogDensity, mode: Mode) -> bool:
    """Whether guided estimates miss none of what the inference's own find, at the edge of where they are used."""
    rng, R = np.random.default_rng(1), cholesky(mode.covariance)
    for _ in range(LOOKED_AT):
        step = rng.standard_normal(len(mode.theta))
        theta = mode.theta + R @ step * (0.99 * REACH / np.linalg.norm(step))
        if guided.log_prior(theta) > -np.inf:
            found, wanted = (density.posterior(theta, np.random.default_rng(0)) for density in (guided, own))
            if wanted is not None and (found is None or _log_z(found) < _log_z(wanted) - NOISE):
                return False
    return True


def _log_z(posterior: Posterior) -> float:
    assert posterior.evidence is not None
    return posterior.evidence.log_z


def guides_about(density: LogDensity, mode: Mode) -> Guides | None:
    """Guides of the estimates as a function of θ, if it has few parameters and the inference offers them."""
    p, rng = len(mode.theta), np.random.default_rng(2)  # other points than those of the pilots
    if p > MOST_GUIDED or density.start is None:
        return None
    points = [mode.theta, *(scattered(mode, density, rng) for _ in range((p + 1) * (p + 2)))]
    try:
        return density.inference.guides(density.problem, density.start, mode.covariance, points)
    except (np.linalg.LinAlgError, ValueError):
        return None


def common_start(problem: Problem, inference: Inference) -> Start | None:
    """The start of every estimate: the sites at one θ of the Gaussian that guides it, if one does."""
    guide = EP() if inference.stochastic else inference.guide(problem.likelihood)
    return guide.with_site_tol(min(guide.site_tol, START_TOL))(problem).start if guide.gaussian else None


@dataclass(frozen=True, eq=False)
class MetropolisSampler(Sampler):
    """Metropolis-Hastings: first on the guide's evidence, then on the estimate."""

    settings: PseudoMarginal
    guide: LogDensity
    density: LogDensity
    mode: Mode
    of: type[Posterior]

    @cached_property
    def moves(self) -> Moves:
        """How θ is proposed."""
        return moves_for(self.guide, self.mode, self.settings.proposal, self.settings.acceptance)

    @cached_property
    def screens(self) -> bool:
        """Whether proposals are screened; by default those of a walk, if the inference has a deterministic evidence."""
        wanted = self.settings.screen
        if wanted is None:
            return isinstance(self.moves, Walk) and self.density.outline(self.mode.theta) is not None
        return wanted

    def first(self, rng: np.random.Generator) -> State:
        scatter = self.settings.start == "mode"
        return self.moves.first(scattered(self.mode, self.guide, rng) if scatter else from_prior(self.guide, rng))

    def step(self, state: State, rng: np.random.Generator, iteration: int) -> tuple[State, Record]:
        if iteration < (self.settings.warmup or 0):
            state, accepted = self.moves.adapting(state, rng, iteration)
            return state, {"accepted": np.asarray(accepted)}
        if "vectors" not in state:
            state = self._switch(state, rng)
        return self._sampling(state, rng, iteration)

    def pool(self, states: list[State]) -> list[State]:
        """One proposal for all chains, fixed from here on."""
        shared = self.moves.pool(states)
        return [{**state, **shared} for state in states]

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
        """Log density by a fresh estimate, with the vectors that represent its latent draws; None if it fails."""
        posterior = self.density.posterior(theta, rng, outline)
        if posterior is None or posterior.evidence is None:
            return None
        vectors, log_z = posterior.pack(self.settings.vectors, rng), posterior.evidence.log_z
        value = np.asarray(log_z + self.density.log_prior(theta))
        return {"log_z": np.asarray(log_z), "value": value, "vectors": vectors}

    def _tested(self, state: State, proposal: Array, rise: float, rng: np.random.Generator) -> tuple[State | None, int]:
        """What the state becomes at the proposal, None if that is rejected, and the evidences that were computed.

        Each test is on the ratio of a density to the one before: the move's own, the screen's, the estimate's.
        """
        if np.array_equal(proposal, state["theta"]) or self.density.log_prior(proposal) == -np.inf:
            return None, 0
        passed, outline = rise, None
        found: State = {"theta": proposal}
        if self.screens:
            guess, outline = self._guess(proposal)
            gain = guess - float(state["guess"])
            if not gain - passed >= np.log(rng.random()):
                return None, 1
            passed, found = gain, {**found, "guess": np.asarray(guess)}
        estimate = self._estimate(proposal, rng, outline)
        computed = 2 if self.screens and outline is None else 1  # an outline is completed, not computed again
        if estimate is None or not float(estimate["value"] - state["value"]) - passed >= np.log(rng.random()):
            return None, computed
        return {**found, **estimate}, computed

    def _sampling(self, state: State, rng: np.random.Generator, iteration: int) -> tuple[State, Record]:
        proposal, rise, moving = self.moves.propose(state, rng)
        found, testing = self._tested(state, proposal, rise, rng)
        state = after(state, moving + testing)
        if found is not None:
            state = {**state, **found}
            state.pop("f", None)
        if self.keeps_latents(iteration) and "f" not in state:
            problem = self.density.problem.at(state["theta"])
            state = {**state, "f": latent_draw(problem, self.of, state["vectors"], rng)}
        f = state["f"] if self.keeps_latents(iteration) else None
        return state, self.record(state, f, float(found is not None), iteration)
