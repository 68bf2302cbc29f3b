"""The result of an inference: evidence, a report, and latent values at new points.

Every posterior predicts in one form: a weighted mixture of Gaussians over the latent values at the new points.
Laplace, EP and the variational Gaussian are mixtures with one component; a sampler has one component per draw.
Probabilities, intervals and Monte Carlo errors are computed from the mixture only in :mod:`gpclass.predict`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gpclass._html import html_table
from gpclass._typing import Array, IntArray

if TYPE_CHECKING:
    from gpclass.latent.base import Gaussian
    from gpclass.latent.sites import Held, SiteRule, Start
    from gpclass.model.problem import Problem

TOO_FEW = 10.0  # effective draws below which neither their mean nor their spread is known
UNRELIABLE = 50.0  # effective draws below which probabilities are unreliable, whatever their stated error
COLLAPSED = 0.005  # share of the draws that are effective, below which the proposal has failed
CELLS = 250_000  # components × latent values whose variance is computed at once, which stay in a cache
IMPRECISE = "but less precise than asked for (see the warnings)"
INSTEAD = "use inference='ep' or 'laplace' instead"
EVIDENCE_KINDS = ("approximate", "bound", "unbiased", "closed-form")


@dataclass(frozen=True)
class Evidence:
    """An estimate of log p(y | X, θ)."""

    log_z: float
    error: float | None = None  # Monte Carlo standard error of log_z; None if deterministic
    kind: str = "approximate"  # one of EVIDENCE_KINDS
    gradient: Array | None = None  # d log_z / dθ in log-parameters, (p,), if requested
    gradient_Z: Array | None = None  # d log_z / dZ by the prior's own inputs, (m, d), if requested and it has any
    gradient_noise: Array | None = None  # covariance of the Monte Carlo error of the gradient, (p, p), if known

    def __post_init__(self) -> None:
        if self.kind not in EVIDENCE_KINDS:
            raise ValueError(f"evidence kind must be one of {EVIDENCE_KINDS}, not {self.kind!r}")


@dataclass(frozen=True)
class Report:
    """Diagnostics of a computation. ``None`` means that an entry does not apply to the method."""

    method: str
    converged: bool = True
    reason: str = ""  # why it stopped, if it did not converge
    iterations: int | None = None
    jitter: float = 0.0  # added to the diagonal of a covariance
    n_samples: int | None = None
    ess: float | None = None
    khat: float | None = None
    seconds: float | None = None
    warnings: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    precise: bool = True  # whether the precision was reached that a tolerance, or mixing chains, ask for

    def judged(self, seconds: float) -> Report:
        """With the time it took; not converged if a few of the draws have nearly all the weight."""
        if self.ess is None or self.n_samples is None or not self.converged:  # one reason, with one remedy
            return replace(self, seconds=seconds)
        if not too_few(self.ess, self.n_samples, min(max(TOO_FEW, COLLAPSED * self.n_samples), UNRELIABLE)):
            return replace(self, seconds=seconds)
        reason = f"only {self.ess:.1f} effective of {self.n_samples} draws; {INSTEAD}"
        return replace(self, seconds=seconds, converged=False, reason=reason)

    def rows(self) -> list[tuple[str, str]]:
        """The entries that apply, as label and text."""
        rows = []
        for item in fields(self):
            value = getattr(self, item.name)
            absent = value is None or value == "" or (item.name == "jitter" and value == 0.0)
            if item.name == "converged":
                rows.append((item.name, self.verdict))
            elif not absent and item.name not in ("warnings", "details", "precise"):
                rows.append((item.name.replace("_", " "), format_value(value)))
        rows += [(key.replace("_", " "), format_value(value)) for key, value in self.details.items()]
        rows += [("warning", text) for text in self.warnings]
        return rows

    @property
    def verdict(self) -> str:
        """One of: yes, no, and yes without the precision that was asked for."""
        return format_value(self.converged) + ("" if self.precise or not self.converged else ", " + IMPRECISE)

    def _repr_html_(self) -> str:
        """A table, in notebooks."""
        return html_table(self.rows())

    def __str__(self) -> str:
        rows = self.rows()
        width = max(len(label) for label, _ in rows)
        return "\n".join(f"{label:<{width}}  {text}" for label, text in rows)


def too_few(effective: float, draws: int, fewest: float = TOO_FEW) -> bool:
    """Whether a few of the draws have nearly all the weight."""
    return effective < min(fewest, 0.5 * draws)


def format_value(value: Any) -> str:
    """A value as text: yes/no for a flag, four digits for a float."""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (float, np.floating)):
        return f"{value:.4g}"
    return str(value)


@dataclass(frozen=True)
class LatentMixture:
    """Latent values at m new points as a mixture of S Gaussians, L latents per point (1 for two classes)."""

    weights: Array  # (S,), sums to one
    means: Array  # (S, m, L)
    covariances: Array  # (1 or S, m, L, L); shared, or one per component
    group: IntArray  # (S,): dependent components share a group (batch, chain)
    truncation: Array | None = None  # (m,), error of a probability by rows left out of the draws; None: none are

    @classmethod
    def single(cls, mean: Array, variance: Array) -> LatentMixture:
        """One Gaussian per point, for two classes: mean (m,), variance (m,)."""
        group = np.zeros(1, dtype=np.intp)
        return cls(np.ones(1), mean[None, :, None], variance[None, :, None, None], group)

    @property
    def least_error(self) -> float:
        """The largest error of a mean of the effective draws' probabilities, if they are too few to show it; else 0."""
        effective = 1.0 / float(self.weights @ self.weights)
        return float(0.5 / np.sqrt(effective)) if too_few(effective, len(self.weights)) else 0.0

    def mean(self) -> Array:
        """Mean of the mixture, (m, L)."""
        return self._averaged(self.means)

    def variance(self) -> Array:
        """Variance of each latent value, (m, L)."""
        return self.moments()[1]

    def moments(self) -> tuple[Array, Array]:
        """Mean and variance of each latent value, (m, L) both."""
        within = np.einsum("smll->sml", self.covariances)
        within = within[0] if len(within) == 1 else np.einsum("s,sml->ml", self.weights, within)
        mean, found = self.mean(), np.empty(self.means.shape[1:])
        step = max(1, CELLS // (len(self.means) * self.means.shape[2]))
        for begin in range(0, len(found), step):
            block = slice(begin, begin + step)
            spread = self.means[:, block] - mean[block].astype(self.means.dtype)
            spread *= spread
            found[block] = self._averaged(spread)
        return mean, np.asarray(within + found)

    def _averaged(self, numbers: Array) -> Array:
        """The weighted mean of numbers (S, m, L); those in single precision are not copied to double."""
        if numbers.dtype == np.float64:
            return np.asarray(np.einsum("s,sml->ml", self.weights, numbers, optimize=True))
        w = self.weights.astype(np.float32)
        return np.stack([(w @ numbers[..., c]).astype(np.float64) for c in range(numbers.shape[2])], axis=1)


class Posterior(ABC):
    """The posterior over latent values with the kernel parameters fixed, or a mixture over them."""

    problem: Problem  # that it belongs to
    evidence: Evidence | None  # the estimate of log p(y | X, θ), if the method has one
    report: Report  # how the computation went

    @property
    def start(self) -> Start | None:
        """What an inference at a neighbouring θ may start from; None if there is nothing."""
        return None

    @property
    def sites(self) -> tuple[Gaussian, Held, SiteRule]:
        """The Gaussian, the rows with its sites and their rule, of an inference that has a rule."""
        start = self.start
        if start is None or start.gaussian is None or start.rule is None:
            raise TypeError(
                f"{self.report.method} gave no Gaussian with its sites as start, as an inference with a rule must"
            )
        return start.gaussian, start.held, start.rule

    def with_report(self, report: Report) -> Self:
        """The same posterior with another report."""
        made = copy(self)
        object.__setattr__(made, "report", report)  # posteriors are frozen dataclasses
        return made

    @property
    @abstractmethod
    def n_components(self) -> int:
        """Number S of Gaussians in the mixtures returned by ``latent``."""

    @abstractmethod
    def latent(self, X_new: Array) -> LatentMixture:
        """Marginal latent values at each point of X_new (m, d)."""

    def blocks(self, X_new: Array, most: int) -> list[IntArray]:
        """Indices of the points of X_new that :meth:`latent` takes together, about ``most`` numbers in memory."""
        step = max(1, most // max(self.n_components * self.problem.n_latents, self.problem.n))
        every = np.arange(len(X_new))
        return [every[begin : begin + step] for begin in range(0, len(X_new), step)]

    @abstractmethod
    def draw(self, X_new: Array, n: int, rng: np.random.Generator) -> Array:
        """Joint draws over the points of X_new, (n, m, L)."""

    # ---- for mixtures over θ: a few vectors stand for the latent values given θ -------------------------------

    def pack(self, r: int, rng: np.random.Generator) -> Array:
        """Vectors (any number, k) that stand for the posterior: r draws, chosen by their weights, if it has draws."""
        raise ValueError(f"{type(self).__name__} cannot be integrated over kernel parameters")

    @classmethod
    def unpack(cls, problem: Problem, vectors: Array) -> Posterior:
        """The posterior of :meth:`pack`, at the θ of ``problem``."""
        raise ValueError(f"{cls.__name__} cannot be integrated over kernel parameters")

    @classmethod
    def packed_components(cls, vectors: Array) -> int:
        """Number of Gaussians behind packed vectors (r, k)."""
        return len(vectors)

    def latent_draw(self, rng: np.random.Generator) -> Array:
        """One draw in the coordinates of the prior, (k,): the latent values at the rows, or what stands for them."""
        raise ValueError(f"{type(self).__name__} has no latent values at the rows")
