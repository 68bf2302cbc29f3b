"""Conditional simulation: joint draws of labels over a set of sites, and statistics of the whole set.

Probabilities at single sites do not determine the probability that *any* of them, all, or a tenth exceed: the sites
share the same uncertain field. Draw the latent field jointly over the sites, f_s ~ p(f | y), then the labels given
the field, which are independent (R §4.1):

    P(any) = E[1 − Π_j (1 − p_sj)],   P(all) = E[Π_j p_sj],   P(at least k of m) = E[P(Σ_j y_sj >= k | f_s)]

with p_sj = Λ(f_s(x_j)). The inner probabilities are exact (the last by the recursion for a sum of independent
Bernoulli variables), so only the field is simulated and the error is that of a mean over its draws. With more than two
classes the event is one class against all others; the labels are drawn among all.

Cost: O(m³) once for m sites, O(m²) per draw; another O(m²) per draw for the distribution of the count.
Fails when: the classifier has no posterior to draw from (kriging).
Reference: Chilès & Delfiner (1999), ch. 7; Röder, Tolosana-Delgado & Hamprecht (2011), §4.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from gpclass._html import Tabular
from gpclass._typing import Array, BoolArray, IntArray
from gpclass.estimators.checks import check_memory, generator
from gpclass.estimators.pipelines import final_step, seen_by_final
from gpclass.names import class_index

COUNT_WORK = 500_000_000  # draws × sites² above which counts are taken from the drawn labels


@dataclass(frozen=True)
class Estimate:
    """A probability or a mean with the standard error of the simulation."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:.4g} ± {self.error:.2g}"


@dataclass(frozen=True, eq=False, repr=False)
class Simulation(Tabular):
    """Joint draws over m sites."""

    class_proba: Array  # (S, m, C), probability of each class at each site in each draw of the field
    drawn: IntArray  # (S, m), index of the drawn class
    classes: npt.NDArray[Any]  # (C,)
    at: int  # index of the event's class

    def _head(self) -> Sequence[str]:
        S, m = self.drawn.shape
        return "class", f"share of {m} sites", f"in {S} draws from", "to"

    def _rows(self) -> Sequence[Sequence[str]]:
        share = np.stack([(self.drawn == c).mean(axis=1) for c in range(len(self.classes))])
        return [
            (str(label), *(f"{v:.3g}" for v in (one.mean(), one.min(), one.max())))
            for label, one in zip(self.classes, share, strict=True)
        ]

    @property
    def label(self) -> Any:
        """Class of the event."""
        return self.classes[self.at]

    @property
    def other(self) -> Any:
        """The other class, of two."""
        return self.classes[1 - self.at] if len(self.classes) == 2 else None

    @property
    def proba(self) -> Array:
        """Probability of the event at each site in each draw of the field, (S, m)."""
        return self.class_proba[..., self.at]

    @property
    def occurs(self) -> BoolArray:
        """Whether the event occurs, (S, m)."""
        return np.asarray(self.drawn == self.at)

    @property
    def labels(self) -> npt.NDArray[Any]:
        """The drawn labels, (S, m)."""
        return np.asarray(self.classes[self.drawn])

    def of(self, label: Any) -> Simulation:
        """The same draws with another class as the event."""
        return replace(self, at=class_index(label, self.classes, self.at))

    def shares(self) -> dict[Any, Estimate]:
        """Expected fraction of the sites of every class: averages over a block, if the sites are its cells."""
        return {c: self.of(c).share() for c in self.classes.tolist()}

    def any(self) -> Estimate:
        """Probability that the event occurs at one or more sites."""
        with np.errstate(divide="ignore"):
            none = np.exp(np.log1p(-self.proba).sum(axis=1))
        return _estimate(1.0 - none)

    def all(self) -> Estimate:
        """Probability that it occurs at every site."""
        with np.errstate(divide="ignore"):
            return _estimate(np.exp(np.log(self.proba).sum(axis=1)))

    def at_least(self, share: float) -> Estimate:
        """Probability that it occurs at this fraction of the sites or more."""
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"share must lie between 0 and 1, not {share}")
        m = self.proba.shape[1]
        k = int(np.ceil(share * m - 1e-9))
        return _estimate(self._counts[:, k:].sum(axis=1))

    def share(self) -> Estimate:
        """Expected fraction of the sites."""
        return _estimate(self.proba.mean(axis=1))

    def share_quantile(self, q: npt.ArrayLike) -> Array:
        """Quantiles of the fraction."""
        level = np.asarray(q, dtype=float)
        if not np.all((level >= 0) & (level <= 1)):
            raise ValueError("quantile levels must lie between 0 and 1")
        m = self.proba.shape[1]
        cdf = np.minimum(np.cumsum(self.count_probabilities()), 1.0)
        return np.asarray(np.minimum(np.searchsorted(cdf, level - 1e-12), m) / m)

    def count_probabilities(self) -> Array:
        """Probability of 0, 1, ..., m sites, (m + 1,)."""
        return np.asarray(self._counts.mean(axis=0))

    @cached_property
    def _counts(self) -> Array:
        """Distribution of the count in each draw of the field, (S, m + 1)."""
        S, m = self.proba.shape
        if S * m * m > COUNT_WORK:
            return np.asarray(np.eye(m + 1)[self.occurs.sum(axis=1)])
        return coin_counts(self.proba)


def simulate(clf: Any, X: Any, n_draws: int = 1000, *, label: Any = None, random_state: Any = None) -> Simulation:
    """Draw labels jointly over the sites X.

    Parameters
    ----------
    clf : fitted GPClassifier, or a pipeline that ends in one
    X : array or data frame of shape (m, d)
        The sites; a few thousand at most.
    n_draws : int
        Number of draws of the field.
    label : optional
        The class of the event; the second by default.
    random_state : int, Generator or RandomState, optional

    Examples
    --------
    >>> from gpclass import GPClassifier
    >>> from gpclass.datasets import roeder_field
    >>> data = roeder_field(60, random_state=0)
    >>> clf = GPClassifier(inference="ep").fit(data.X, data.y)
    >>> found = simulate(clf, data.X[:5], 500, random_state=0)
    >>> bool(found.all().value < found.share().value < found.any().value)
    True
    """
    final = final_step(clf)
    if not hasattr(final, "sample_latent"):
        raise ValueError(
            f"{type(final).__name__} has no joint posterior to draw from; fit a GPClassifier "
            "(inference='dsgq' is the model that kriging approximates)"
        )
    check_is_fitted(final)
    at = class_index(label, final.classes_, 1)
    points = seen_by_final(clf, X)
    check_memory(len(points), "take fewer points")
    rng = generator(random_state)
    f = final.sample_latent(points, n_draws, rng)  # (S, m), or (S, m, C)
    if f.ndim == 2:
        p = final.likelihood_.inverse_link(f if at == 1 else -f)
        occurs = rng.random(p.shape) < p
        proba = np.stack([1.0 - p, p] if at == 1 else [p, 1.0 - p], axis=-1)
        return Simulation(proba, np.where(occurs, at, 1 - at), np.asarray(final.classes_), at)
    proba = np.exp(final.likelihood_.log_classes(f))
    drawn = (rng.random(f.shape[:2])[..., None] > np.cumsum(proba, axis=-1)[..., :-1]).sum(axis=-1)
    return Simulation(proba, drawn, np.asarray(final.classes_), at)


def coin_counts(p: Array) -> Array:
    """Distribution of the number of successes of m independent trials with probabilities p (S, m), (S, m + 1)."""
    S, m = p.shape
    out = np.zeros((S, m + 1))
    out[:, 0] = 1.0
    for j in range(m):
        head = p[:, j : j + 1]
        moved = out[:, : j + 1] * head
        out[:, : j + 1] *= 1.0 - head
        out[:, 1 : j + 2] += moved
    return out


def _estimate(values: Array) -> Estimate:
    """Mean over the draws, with its standard error."""
    S = len(values)
    return Estimate(float(values.mean()), float(values.std(ddof=1) / np.sqrt(S)) if S > 1 else float("nan"))
