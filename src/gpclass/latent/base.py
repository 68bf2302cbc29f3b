r"""The interface of priors over latent values: what every inference needs of them.

A :class:`Form` is how the prior is represented (dense; low rank through inducing inputs). With a problem it makes a
:class:`LatentPrior`, the joint Gaussian of the latent values at the rows, L per row, which hides its storage.
A prior offers some of

================  ================================================================================
offer             what it gives
================  ================================================================================
``given``         the Gaussian that sites make of it (Laplace, EP, variational)
``whitened``      the posterior in coordinates in which a Gaussian is standard normal (samplers)
``box``           the orthant of noisy latent values (the exact engine, gpc-mc)
``evidence``      an evidence that tells values of θ apart (nelder-mead, hmc, pseudo-marginal)
``joint``         the joint Gaussian of some rows and new points, of two classes (local-exact)
``covariance``    all rows in memory with their covariance matrix (Gibbs, control variables)
``expected``      the expected log density of the latent values as a function of θ (EM)
``latents``       the density of the latent values given θ (alternate)
``latent_slope``  its gradient in θ (alternate by Hamiltonian dynamics)
================  ================================================================================

Members of a prior that belong to an offer other than ``given`` raise ``NotImplementedError`` by default.

``held`` denotes all shards of the rows with the numbers of their sites (:mod:`gpclass.latent.sites`).

A sample weight makes c copies of a row. Values belong to one copy: α is per copy, and f = K (c∘α) for a dense prior,
whose copies share f; with inducing inputs each copy has a separate residual.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import numpy as np

from gpclass._typing import Array, Generator, IntArray
from gpclass.latent.coordinates import Features, GivenLatents, Target
from gpclass.latent.sites import Held, SiteRule, Swept
from gpclass.likelihoods.local import RowMarginals
from gpclass.model.rows import Rows, Source
from gpclass.posterior import LatentMixture

if TYPE_CHECKING:
    from gpclass.latent.joint import Joint, SitedRows
    from gpclass.model.problem import Problem
    from gpclass.orthant.box import Box

ExpectedPrior: TypeAlias = "Callable[[Problem], tuple[float, Array]]"  # E_q log p(f | θ) and its gradient, at θ


T = TypeVar("T")


class Gaussian(ABC):
    """The prior times Gaussian sites."""

    prior: LatentPrior  # of which it is a posterior
    begun: bool = False  # whether its sites, though the first, are near their fixed point

    @property
    def chord(self) -> bool:
        """Whether reusing the factor for ``newton`` after a step is possible and saves time."""
        return False

    @property
    @abstractmethod
    def half_log_det(self) -> float:
        """½ log |I + K W|, all copies counted."""

    @property
    def proper(self) -> bool:
        """Whether its covariance is positive definite; else False, or NotPositiveDefiniteError."""
        return bool(np.isfinite(self.half_log_det))

    @property
    def finest(self) -> float:
        """Relative change of the sites that counts for little beside its own error."""
        return 0.0

    @property
    @abstractmethod
    def jitter(self) -> float:
        """The jitter added to the diagonal of a covariance."""

    @property
    def details(self) -> dict[str, Any]:
        """Figures for the report."""
        return {}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user has to know of it."""
        return ()

    def blocks(self, X_new: Array, most: int) -> list[IntArray] | None:
        """Points of X_new that are best predicted together, about ``most`` numbers; None: any."""
        return None

    @abstractmethod
    def newton(self, held: Held, rule: SiteRule) -> tuple[Held, float]:
        """Newton's step in α and f from the residual, stored after it; and the decrement.

        ``rule`` has the second-order sites at f, of which this is the Gaussian.
        """

    def moved_to(self, held: Held) -> Gaussian:
        """The same spread about the latent values of rows in Newton's layout, if the mean is stored by row."""
        return self

    def responds(self, rule: SiteRule) -> bool:
        """Whether a whole sweep of the rule may go as far as one factor tells."""
        return False

    def roughly(self, tol: float, rule: SiteRule) -> Gaussian:
        """The same with as many digits as the rule's sites to this tolerance need, if that saves time."""
        return self

    def beside(self, held: Held, rule: SiteRule) -> Gaussian:
        """The Gaussian of other sites, with as many digits."""
        return self.prior.given(held, rule)

    @abstractmethod
    def sweep(self, held: Held, rule: SiteRule, step: float, remember: int) -> Swept:
        """New sites for every row, moved by ``step``; those of the last ``remember`` sweeps are stored after them."""

    @abstractmethod
    def distance(self, other: Gaussian) -> float:
        """How far the two Gaussians are, relative to this one's spread."""

    @abstractmethod
    def difference(self, after: Gaussian) -> Sequence[Array]:
        """The change from this Gaussian to another, linear in the sites: small enough to store."""

    @abstractmethod
    def in_units(self, difference: Sequence[Array]) -> Array:
        """A difference as one vector in units of this Gaussian's spread, for mixing."""

    @abstractmethod
    def gradient(self, held: Held, rule: SiteRule, extra: bool = False) -> tuple[Array, Array | None]:
        """∂ log Z/∂θ (p,) for ∂ log Z/∂K = ½ (α αᵀ − (K + W⁻¹)⁻¹), and the same by the inducing inputs, if any.

        With ``extra``, Laplace's implicit part is added: (I + W K)⁻¹ s αᵀ, s = :meth:`Likelihood.third`.
        """

    def expected_prior(self, held: Held, rule: SiteRule) -> ExpectedPrior:
        """E_q[log p(f | θ)], q this Gaussian, without its constant, as a function of the problem at θ."""
        raise NotImplementedError

    @property
    def marginals(self) -> RowMarginals:
        """Of all rows, one copy's site each, if the rows are in memory (``covariance``)."""
        raise NotImplementedError

    @abstractmethod
    def means(self, X_new: Array) -> Array:
        """Means of the latent values at new points, (m, L)."""

    @abstractmethod
    def latent(self, X_new: Array) -> LatentMixture:
        """One Gaussian per new point."""

    def joint(self, rows: SitedRows, X_new: Array) -> Joint:
        """Of some rows, whose sites are part of it, and new points, one latent value each."""
        raise NotImplementedError

    @abstractmethod
    def draw(self, X_new: Array, n: int, rng: Generator) -> Array:
        """Joint draws over X_new, (n, m, L)."""

    @abstractmethod
    def draw_rows(self, rng: Generator) -> Array:
        """One draw in the coordinates of the prior, (k,): the latent values at the rows, or what stands for them."""

    @abstractmethod
    def vectors(self) -> Array:
        """Numbers (r, k) from which :meth:`LatentPrior.from_vectors` makes the Gaussian again."""

    @abstractmethod
    def kept(self) -> dict[str, Array]:
        """What a file stores, to predict the same to the last bit."""


class LatentPrior(ABC):
    """The joint Gaussian of the latent values at the rows, L per row, at one θ."""

    problem: Problem  # at that θ

    def roughly(self, tol: float, rule: SiteRule, near: bool) -> LatentPrior:
        """The same with as many digits in its passes over the rows as the rule's sites to this tolerance need.

        ``near``: whether sweeps begin at neighbouring sites, so that there are few.
        """
        return self

    @abstractmethod
    def given(self, held: Held, rule: SiteRule) -> Gaussian:
        """The Gaussian that the rows' sites make of the prior."""

    @abstractmethod
    def begin(self, rule: SiteRule, near: Gaussian | None = None) -> tuple[Held, Gaussian]:
        """Rows with first sites by the prior's marginals, or by those of a Gaussian nearby; and their Gaussian."""

    def independent(self) -> Iterator[tuple[IntArray, Array]] | None:
        """Groups of rows in memory that are independent of all others, with the covariance of their one latent value.

        None where there are no small ones.
        """
        return None

    @abstractmethod
    def times(self, held: Held) -> Held:
        """Rows with f = K α, for an α found at other parameters (Newton's layout)."""

    @abstractmethod
    def from_vectors(self, vectors: Array) -> Gaussian:
        """The Gaussian of :meth:`Gaussian.vectors`."""

    @abstractmethod
    def from_kept(self, kept: dict[str, Array]) -> Gaussian:
        """The Gaussian of :meth:`Gaussian.kept`."""

    def features(self, X_new: Array, roots: list[Array] | None = None) -> Features:
        """New latent values in terms of white coordinates of the prior (or of other roots of it)."""
        raise NotImplementedError

    def white_dimension(self) -> int:
        """Length of η."""
        raise NotImplementedError

    def joint_root(self, X_new: Array, features: Features) -> list[Array]:
        """Per kernel a root of the covariance of f(X_new) given η."""
        raise NotImplementedError

    def whitened(self, gaussian: Gaussian | None, power: float = 1.0) -> Target:
        """The posterior in coordinates in which a Gaussian, or the prior, is standard normal."""
        raise NotImplementedError

    def score(self, eta: Array, weights: Array) -> tuple[Array, Array | None]:
        """Gradients of the exact log evidence by θ and by the inducing inputs, if any, from weighted draws η (M, k)."""
        raise NotImplementedError

    def given_latents(self) -> GivenLatents:
        """The latent values given θ."""
        raise NotImplementedError

    def centred(self, mode: Callable[[], Gaussian]) -> Gaussian | None:
        """A Gaussian at the posterior's mean from the one at its mode, if the variational one cannot be whitened."""
        return None

    def survey(self) -> dict[str, Any]:
        """Figures for the report on how well the rows are represented."""
        return {}

    def as_dense(self) -> Problem | None:
        """The same problem with full matrices, if they are small and its own form does not draw noisy values."""
        return None

    def box(self) -> Box:
        """The orthant whose probability is the evidence, in the exact engine's standard form."""
        raise NotImplementedError


class Form(ABC):
    """How a prior is represented: settings, without data. A new prior is one file and one row of the registry."""

    name: ClassVar[str]  # by which settings and files know it
    offers: ClassVar[frozenset[str]]  # what its priors give (the module's table)
    lacks: ClassVar[Mapping[str, str]] = {}  # why it does not offer something
    predicts_from_rows: ClassVar[bool]  # whether predictions need the rows, so that a file must store them
    reads: ClassVar[bool] = False  # whether it then takes rows of files or collections too, read into memory
    moves: ClassVar[bool] = False  # whether it has inputs of its own that an ascent of the evidence moves

    @classmethod
    def asked(cls, settings: Any) -> Form | None:
        """The form that parameters of an estimator ask for, other than ``latent_prior``; None if they do not."""
        return None

    @classmethod
    def example(cls, X: Array) -> Form:
        """A small one for these rows, for tests."""
        return cls()

    def checked(self, n: int, d: int, kernels: int) -> Form:
        """The form for n rows of d columns and so many kernels; settings that do not go with them are rejected."""
        return self

    @property
    def marks(self) -> tuple[Any, ...]:
        """What tells it from others of its class: its fields."""
        return tuple(vars(self).values())

    @property
    def inducing(self) -> Array | None:
        """Inputs of its own, (m, d), if it has any and they are placed."""
        return None

    def at(self, Z: Array) -> Form:
        """The same with other inputs of its own, if it ``moves``."""
        raise NotImplementedError

    @property
    def cure(self) -> str:
        """What to do if a fit is far from that of the dense prior; empty if they are not to be compared."""
        return ""

    def for_few_rows(self) -> Form:
        """The same for a part of the rows that fits into memory."""
        return self

    def for_other_rows(self) -> Form:
        """The same without what was found for the rows at hand alone."""
        return self

    def part(self, problem: Problem, rng: Generator) -> Problem | None:
        """A part of the rows on which a search of θ may begin; None if it begins on all of them."""
        return None

    def stand_in(self, problem: Problem, rng: Generator) -> Problem | None:
        """The problem on which θ is learned instead, of other rows and form; None if it is learned on its own."""
        return None

    def patches(self, problem: Problem, rng: Generator, level: bool = False) -> Problem | None:
        """Rows close together, on which θ of a stand-in is adjusted, each group with a ``level`` of its own or not.

        None if there is no need.
        """
        return None

    def without(self, problem: Problem, rows: IntArray, rng: Generator) -> Problem:
        """A problem that predicts some rows without them, as all others would; where there are ``patches``."""
        raise NotImplementedError

    @abstractmethod
    def rows(self, source: Source) -> Rows:
        """Rows as this form needs them."""

    @abstractmethod
    def prior(self, problem: Problem) -> LatentPrior:
        """The prior at the problem's θ."""

    def placed(self, problem: Problem, rng: Generator, at_most: int | None = None) -> Form:
        """The form with everything that depends on the rows' features and on θ chosen, at most so many inputs."""
        return self


def per_latent(found: Sequence[T], L: int) -> list[T]:
    """One item per latent value, from one per kernel: one for all, or L."""
    return list(found) * L if len(found) == 1 else list(found)
