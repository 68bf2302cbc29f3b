"""Sites of the rows: how a rule describes and updates them, what a sweep gives, and what a neighbouring θ starts from.

Rows store their numbers in shards (:mod:`gpclass.model.rows`); ``held`` denotes all shards with some values. A
:class:`SiteRule` defines how these numbers describe a site, and how a sweep changes it: Laplace, EP and variational
inference have one each, and every prior sweeps with any of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from gpclass._typing import Array, BoolArray
from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.local import RowMarginals, RowSites
from gpclass.model.rows import Labels, Shard

if TYPE_CHECKING:
    from gpclass.latent.base import Gaussian
    from gpclass.model.problem import Problem

Held: TypeAlias = "tuple[Any, ...]"  # shards with values, in any process


class SiteRule(ABC):
    """How an approximation describes and updates the site of each row. Picklable: it is sent to the rows."""

    name: ClassVar[str]
    careful: ClassVar[bool] = False  # whether sweeps of all rows overshoot while far from the fixed point
    bound: ClassVar[bool] = False  # whether the value is a lower bound that no sweep may lower

    @abstractmethod
    def numbers(self, likelihood: Likelihood, L: int) -> int:
        """Numbers per row that describe a site."""

    @abstractmethod
    def sites(self, likelihood: Likelihood, labels: Labels, numbers: Array) -> RowSites:
        """The sites, one copy each, that numbers (k, r) describe."""

    @abstractmethod
    def first(self, likelihood: Likelihood, labels: Labels, at: RowMarginals) -> Array:
        """Numbers (k, r) of sites to start from, given the prior's marginals or those of a neighbouring posterior."""

    @abstractmethod
    def update(self, likelihood: Likelihood, labels: Labels, numbers: Array, at: RowMarginals) -> tuple[Array, Array]:
        """Numbers of the new sites, and what each copy adds to the evidence or bound at the old ones, (r,)."""

    def step(self, likelihood: Likelihood) -> float:
        """Step of a site towards its update in a sweep near the fixed point."""
        return 1.0

    def latents(self, numbers: Array, L: int) -> Array | None:
        """Latent values (L, r) that the numbers hold beside the sites, if any."""
        return None

    def packed(self, likelihood: Likelihood, numbers: Array) -> Array:
        """Numbers (..., k, r) in coordinates in which sites may be mixed."""
        return numbers

    def unpacked(self, likelihood: Likelihood, packed: Array) -> Array:
        """Numbers (k, r) from such coordinates."""
        return packed

    def sound(self, mixed: Array, newest: Array) -> BoolArray:
        """Rows whose mixtures of earlier sites are valid sites, (r,), in addition to the newest ones (k, r)."""
        return np.asarray(np.isfinite(mixed).all(axis=0))


@dataclass(frozen=True, eq=False)
class Swept:
    """Result of one sweep over all rows."""

    held: Held  # with the new sites, followed by those of the last sweeps
    gaussian: Gaussian  # of the new sites
    found: float | Callable[[], float]  # evidence or bound at the old sites, or how to find it if that costs much
    ahead: bool = False  # whether the new sites are as far as the old Gaussian's response tells

    @cached_property
    def value(self) -> float:
        """Evidence or bound at the old sites."""
        return self.found() if callable(self.found) else self.found


@dataclass(frozen=True, eq=False)
class Start:
    """What an inference at a neighbouring θ may start from: sites of the rows, or weighted draws."""

    rule: SiteRule | None = None  # of the sites
    held: Held = ()  # rows with their sites; empty if the sites are of other rows
    gaussian: Gaussian | None = None  # that the sites make of the prior: its marginals give sites of other rows
    eta: Array | None = None  # (S, k), draws in white coordinates of the prior
    weights: Array | None = None  # (S,), of the draws
    n: int | None = None  # rows that have the sites, if the Gaussian, which tells, is left out
    known: Any = None  # what an inference at this θ leaves for another one there

    @property
    def light(self) -> Start:
        """Without the Gaussian, and its n×n factors, if the rows have sites: for other θ and the same rows."""
        return replace(self, gaussian=None, n=self._rows, known=None) if self.held else self

    def at(self, problem: Problem) -> Start | None:
        """The Gaussian that the sites make at the parameters of ``problem``, of the same rows: for other rows."""
        if self.rule is None or not self.held or self._rows not in (None, problem.n):
            return None
        return Start(self.rule, (), problem.prior.given(self.held, self.rule))

    @property
    def _rows(self) -> int | None:
        return self.n if self.gaussian is None else self.gaussian.prior.problem.n

    def of(self, rule: SiteRule, problem: Problem) -> Start | None:
        """What it has for a rule: sites of the rows of ``problem``, or the Gaussian alone; None if they are others."""
        if self.rule is None or self.rule.name != rule.name:
            return None
        return self if self._rows in (None, problem.n) else replace(self, held=())


def labels_of(shard: Shard, likelihood: Likelihood, rows: slice = slice(None)) -> Labels:
    """Labels and weights of rows of a shard, as the likelihood takes them."""
    return Labels.of(shard, rows, likelihood.powers)


def remembered(old: Array, new: Array, remember: int) -> Array:
    """Values after a sweep: the new sites, followed by those of the last sweeps, newest first."""
    k = len(new)
    known = min(remember, len(old) // k)
    return new if known == 0 else np.concatenate([new, new, old[k : known * k]])
