"""The interface of inferences: the posterior over latent values with θ fixed.

An inference is a callable frozen dataclass of settings. It declares what it needs of a likelihood and of a prior
(:attr:`Inference.ways`) and what it provides to strategies (an evidence of some kind, a gradient, a Gaussian, steps).
A new one is a file with a subclass that implements :meth:`Inference.infer`, and one row of the registry.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from gpclass._settings import Settings
from gpclass._typing import Array, Generator
from gpclass.inference.posteriors import GaussianPosterior, WhiteDraws
from gpclass.latent.sites import SiteRule, Start
from gpclass.likelihoods.base import Likelihood
from gpclass.model.problem import Problem
from gpclass.posterior import Posterior


@dataclass(frozen=True)
class Way:
    """One combination of offers that an inference can work with."""

    likelihood: frozenset[str]
    prior: frozenset[str]

    @classmethod
    def needs(cls, likelihood: str = "", prior: str = "") -> Way:
        """From names separated by spaces."""
        return cls(frozenset(likelihood.split()), frozenset(prior.split()))


class Outline(Protocol):
    """What an inference knows of a problem before its first draw."""

    @property
    def log_z(self) -> float:
        """A deterministic evidence."""

    def complete(self, rng: Generator) -> Posterior:
        """The posterior, by draws."""


class Guides(Protocol):
    """Outlines at any θ, each a function of θ alone."""

    @property
    def evaluations(self) -> int:
        """Number of EP fits that made them."""

    def __call__(self, theta: Array) -> Outline | None:
        """The outline at θ, whose ``log_z`` may be unknown; None where there is none."""

    def of(self, settings: Any) -> Guides:
        """The same for an inference with another number of draws."""


@dataclass(frozen=True)
class Inference(Settings, ABC):
    """Inference with θ fixed."""

    name: ClassVar[str]  # by which settings and files know it
    ways: ClassVar[tuple[Way, ...]]  # alternative requirements on likelihood and prior; one of them suffices
    only_two: ClassVar[str] = ""  # why it takes two classes only; empty if it takes more
    # likelihoods that "auto" tries, in this order
    prefers: ClassVar[tuple[str, ...]] = ("probit", "logit", "multinomial-probit", "softmax")

    evidence_kind: ClassVar[str | None] = "approximate"  # kind of its evidence, None if it has none
    gradient: ClassVar[bool] = False  # whether the evidence has a gradient in θ
    gradient_needs: ClassVar[frozenset[str]] = frozenset()  # what that needs of the likelihood, beyond ``ways``
    stationary: ClassVar[bool] = False  # whether the evidence does not change with the sites, to first order
    steps: ClassVar[bool] = False  # whether latent values can be moved step by step, given θ
    stochastic: ClassVar[bool] = False  # whether it draws until the estimator's ``tol`` is met

    def __call__(
        self,
        problem: Problem,
        noise: Generator | None = None,
        *,
        start: Start | None = None,
        gradient: bool = False,
    ) -> Posterior:
        """The posterior of ``problem``.

        Parameters
        ----------
        problem : Problem
        noise : Generator, optional
            Source of randomness; a fixed one by default.
        start : Start, optional
            Of the posterior of a neighbouring problem, for methods that can use it.
        gradient : bool
            Whether to compute the gradient of the evidence.

        Returns
        -------
        Posterior
        """
        refused = self.why_no_gradient(problem.likelihood) if gradient else ""
        if refused:
            raise ValueError(refused)
        began = time.perf_counter()
        rng = np.random.default_rng(0) if noise is None else noise
        posterior = self.infer(problem, rng, start, gradient)
        return posterior.with_report(posterior.report.judged(time.perf_counter() - began))

    @abstractmethod
    def infer(self, problem: Problem, rng: Generator, start: Start | None, gradient: bool) -> Posterior:
        """The posterior; the interface of :meth:`__call__`, which measures the time."""

    def why_no_gradient(self, likelihood: Likelihood) -> str:
        """Why the evidence has no gradient with a likelihood; empty if it has one."""
        missing = self.gradient_needs - likelihood.offers()
        if self.gradient and not missing:
            return ""
        of = f" under likelihood={likelihood.name!r}, which does not offer {', '.join(map(repr, sorted(missing)))}"
        return f"the evidence of inference={self.name!r} has no gradient{of if self.gradient else ''}"

    def brief(self) -> Self:
        """Itself with settings for a run of a second, for tests; unchanged unless its own take longer."""
        return self

    # ---- what strategies may request --------------------------------------------------------------------------

    @property
    def rule(self) -> SiteRule | None:
        """How sites are described, if the posterior is the prior times Gaussian sites, with a deterministic evidence.

        :meth:`infer` then returns a :class:`GaussianPosterior` with its ``start``, such as that of
        :meth:`gpclass.inference.sweeps.FixedPoint.posterior`.
        """
        return None

    @property
    def gaussian(self) -> bool:
        """Whether the posterior is one Gaussian and the evidence deterministic."""
        return self.rule is not None

    def guide(self, likelihood: Likelihood) -> Inference:
        """A cheaper inference for the first part of an ascent; itself by default."""
        return self

    @property
    def for_search(self) -> Self:
        """Itself with a fixed, moderate amount of work, for steps in θ."""
        return self

    def for_chains(self, n_samples: int) -> Self:
        """Itself with a fixed number of draws, for unbiased estimates in chains over θ."""
        return self

    def settled(self, problem: Problem) -> Self:
        """Itself with what it would find out at every θ found at this one, for chains over θ."""
        return self

    def with_tol(self, tol: float) -> Self:
        """Itself with the estimator's tolerance, if it draws until that is met."""
        return self

    def coarser(self, tol: float) -> Self:
        """Itself with no more draws than probabilities of this error need, if it draws until a tolerance is met."""
        return self

    def most_draws(self, problem: Problem, n: int) -> int:
        """Largest number of draws that it makes for n rows like those of ``problem``; 0 if it is deterministic."""
        return 0

    @property
    def site_tol(self) -> float:
        """How far sites may be from their fixed point; 0 without such a setting."""
        return 0.0

    def with_site_tol(self, tol: float) -> Self:
        """Itself with another ``site_tol``, if it has such a setting."""
        return self

    def roughly(self) -> Self:
        """Itself with an evidence accurate to a fraction of a nat, to compare parameters far from each other."""
        return self

    def outline(self, problem: Problem, start: Start | None = None) -> Outline | None:
        """What is known before the first draw, with a deterministic ``log_z``; None if nothing is."""
        return None

    def guides(self, problem: Problem, start: Start | None, covariance: Array, points: list[Array]) -> Guides | None:
        """Outlines as a function of θ, fitted to those at some points, the first being the centre; None if not offered.

        ``covariance`` (p, p) is that of the θ at which they will be used.
        """
        return None

    def posterior_type(self, problem: Problem) -> type[Posterior]:
        """The class of the posterior of ``problem``, without computing it."""
        return GaussianPosterior if self.gaussian else WhiteDraws

    @property
    def own_likelihood(self) -> Likelihood | None:
        """The likelihood that these settings define, if any (AMP's c0, DSGQ's k0)."""
        return None

    @property
    def scale_is_given(self) -> bool:
        """Whether the settings fix the scale of the likelihood, which the estimator's must not contradict."""
        return False

    @classmethod
    def way(cls, likelihood: type[Likelihood], prior: frozenset[str]) -> Way | None:
        """The first way that goes with a likelihood and a prior's offers; None if there is none."""
        offers = likelihood.offers()
        return next((way for way in cls.ways if way.likelihood <= offers and way.prior <= prior), None)
