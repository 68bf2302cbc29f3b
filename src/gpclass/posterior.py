"""What an inference returns: evidence, a report, and latent values at new points.

Every posterior, whatever made it, answers prediction in one form: a weighted mixture of Gaussians over
the latent values at the new points. Laplace, EP and the variational Gaussian are mixtures of one; a
sampler has one component a draw. Probabilities, intervals and Monte Carlo errors are derived from the
mixture in :mod:`gpclass.predict`, and nowhere else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from gpclass._typing import Array, IntArray

EVIDENCE_KINDS = ("approximate", "bound", "unbiased", "closed-form")


@dataclass(frozen=True)
class Evidence:
    """An estimate of log p(y | X, θ)."""

    log_z: float
    error: float | None = None  # Monte Carlo standard error of log_z; None if deterministic
    kind: str = "approximate"  # one of EVIDENCE_KINDS
    gradient: Array | None = None  # d log_z / dθ in log-parameters, (p,), when asked for

    def __post_init__(self) -> None:
        if self.kind not in EVIDENCE_KINDS:
            raise ValueError(f"evidence kind {self.kind!r} is none of {EVIDENCE_KINDS}")


@dataclass(frozen=True)
class Report:
    """How a computation went. ``None`` means that the figure does not apply to the method."""

    method: str
    converged: bool = True
    reason: str = ""  # why it stopped, when it did not converge
    iterations: int | None = None
    jitter: float = 0.0  # added to the diagonal of a covariance
    n_samples: int | None = None
    ess: float | None = None
    khat: float | None = None
    seconds: float | None = None
    warnings: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)

    def rows(self) -> list[tuple[str, str]]:
        """The figures that apply, as label and text."""
        rows = []
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in ("warnings", "details") or value is None or value == "":
                continue
            if item.name == "jitter" and value == 0.0:
                continue
            rows.append((item.name.replace("_", " "), format_value(value)))
        rows += [(key.replace("_", " "), format_value(value)) for key, value in self.details.items()]
        rows += [("warning", text) for text in self.warnings]
        return rows

    def __str__(self) -> str:
        rows = self.rows()
        width = max(len(label) for label, _ in rows)
        return "\n".join(f"{label:<{width}}  {text}" for label, text in rows)


def format_value(value: Any) -> str:
    """A figure as a reader wants it: yes/no for a flag, four digits for a float."""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (float, np.floating)):
        return f"{value:.4g}"
    return str(value)


@dataclass(frozen=True)
class LatentMixture:
    """Latent values at m new points as a mixture of S Gaussians, L latents a point (1 for two classes)."""

    weights: Array  # (S,), sums to one
    means: Array  # (S, m, L)
    covariances: Array  # (1 or S, m, L, L); one that all components share, or one each
    group: IntArray  # (S,): components that depend on each other share a group (batch, chain)

    @classmethod
    def single(cls, mean: Array, variance: Array) -> LatentMixture:
        """One Gaussian a point, for two classes: mean (m,), variance (m,)."""
        return cls(
            weights=np.ones(1),
            means=mean[None, :, None],
            covariances=variance[None, :, None, None],
            group=np.zeros(1, dtype=np.intp),
        )

    @property
    def deterministic(self) -> bool:
        """True when no Monte Carlo draw stands behind the mixture."""
        return len(self.weights) == 1

    def mean(self) -> Array:
        """Mean of the mixture, (m, L)."""
        return np.asarray(np.einsum("s,sml->ml", self.weights, self.means, optimize=True))

    def variance(self) -> Array:
        """Variance of each latent value, (m, L)."""
        within = np.einsum("smll->sml", self.covariances)
        within = within[0] if len(within) == 1 else np.einsum("s,sml->ml", self.weights, within)
        spread = self.means - self.mean()
        return np.asarray(within + np.einsum("s,sml->ml", self.weights, spread**2))


class Posterior(ABC):
    """The posterior over latent values with the kernel parameters fixed, or a mixture over them."""

    problem: Any  # the :class:`~gpclass.model.problem.Problem` that it belongs to
    evidence: Evidence | None  # the estimate of log p(y | X, θ), if the method has one
    report: Report  # how the computation went

    @property
    def start(self) -> Any:
        """What a neighbouring θ may start from (:class:`gpclass.latent.base.Start`); None where there is nothing."""
        return None

    @property
    @abstractmethod
    def n_components(self) -> int:
        """Number S of Gaussians in the mixtures that ``latent`` gives."""

    @abstractmethod
    def latent(self, X_new: Array) -> LatentMixture:
        """Latent values at X_new (m, d), each point by itself."""

    @abstractmethod
    def draw(self, X_new: Array, n: int, rng: np.random.Generator) -> Array:
        """Joint draws over the points of X_new, (n, m, L)."""

    # ---- for mixtures over θ: a few vectors stand for the latent values given θ -------------------------------

    def pack(self, r: int, rng: np.random.Generator) -> Array:
        """Vectors (r or more, k) that stand for the posterior; draws are chosen by their weights."""
        raise ValueError(f"{type(self).__name__} cannot be integrated over kernel parameters")

    @classmethod
    def unpack(cls, problem: Any, vectors: Array) -> Posterior:
        """The posterior of :meth:`pack`, at the θ of ``problem``."""
        raise ValueError(f"{cls.__name__} cannot be integrated over kernel parameters")

    @classmethod
    def packed_components(cls, vectors: Array) -> int:
        """Number of Gaussians behind packed vectors (r, k)."""
        return len(vectors)

    def latent_draw(self, rng: np.random.Generator) -> Array:
        """One draw of the latent values at the rows, (L n,)."""
        raise ValueError(f"{type(self).__name__} has no latent values at the rows")
