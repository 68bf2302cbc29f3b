"""What every strategy for the kernel parameters takes and returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from gpclass._settings import Settings
from gpclass.inference.base import Inference
from gpclass.kernels import kernel_text
from gpclass.latent.base import Form
from gpclass.model.problem import Problem
from gpclass.posterior import Posterior, Report
from gpclass.priors import PriorSpec

AT_BOUND = 1e-6  # distance of a log parameter from its bound that counts as none


@dataclass(frozen=True)
class Run:
    """What the estimator passes to a strategy in addition to the problem."""

    rng: np.random.Generator
    priors: PriorSpec = None
    n_restarts: int = 0
    n_jobs: int | None = None
    verbose: int = 0
    seeded: bool = True  # whether rng stands for a seed that was asked for


@dataclass(frozen=True)
class FitReport(Report):
    """How a fit went: the strategy's figures on top of the inference's. Prints as a short table."""

    hyperparameters: str = ""
    likelihood: str = ""
    n_points: int | None = None
    n_features: int | None = None
    kernel: str = ""
    log_evidence: float | None = None
    log_evidence_error: float | None = None
    evidence_kind: str = ""
    evidence_at: str | None = None  # parameters that it belongs to, if these were sampled
    evaluations: int | None = None  # evaluations of the evidence
    at_bounds: tuple[str, ...] | None = None  # parameters that ended on a bound
    acceptance_rate: float | None = None
    rhat: float | None = None
    mixing: str | None = None  # how well chains have mixed, in words
    sd_log_evidence: float | None = None


@dataclass(frozen=True)
class Fit:
    """The outcome of a strategy."""

    problem: Problem  # at the chosen parameters
    posterior: Posterior
    converged: bool = True
    reason: str = ""
    figures: dict[str, Any] = field(default_factory=dict)  # fields of FitReport set by the strategy
    warnings: tuple[str, ...] = ()
    trace: Any = None

    def with_details(self, details: dict[str, Any]) -> Fit:
        """The fit with more figures in its posterior's report."""
        report = replace(self.posterior.report, details={**self.posterior.report.details, **details})
        return replace(self, posterior=self.posterior.with_report(report))

    def report(self, strategy: str, advice: tuple[str, ...], seconds: float) -> FitReport:
        """How the fit went, the inference's own report included."""
        problem, evidence, inner = self.problem, self.posterior.evidence, self.posterior.report
        own = {f.name: getattr(inner, f.name) for f in fields(inner)}
        own |= {
            "converged": self.converged and inner.converged,
            "reason": "; ".join(text for text in (self.reason, inner.reason) if text),
            "seconds": seconds,
            "warnings": (*self.warnings, *inner.warnings, *advice),
        }
        return FitReport(
            **own,
            hyperparameters=strategy,
            likelihood=problem.likelihood.name,
            n_points=problem.n,
            n_features=problem.n_features,
            kernel=kernel_text(problem.kernel),
            log_evidence=None if evidence is None else evidence.log_z,
            log_evidence_error=None if evidence is None else evidence.error,
            evidence_kind="" if evidence is None else evidence.kind,
            **self.figures,
        )


NEEDS: Mapping[str, tuple[Callable[[Inference], bool], str]] = {
    "nothing": (lambda asked: True, "nothing"),
    "gradient": (lambda asked: asked.gradient, "the gradient of the evidence"),
    "evidence": (lambda asked: asked.evidence_kind is not None, "an evidence"),
    "gaussian": (lambda asked: asked.gaussian, "one Gaussian with a deterministic evidence"),
    "unbiased": (lambda asked: asked.evidence_kind in ("unbiased", "closed-form"), "an unbiased evidence"),
    "steps": (
        lambda asked: asked.steps or asked.gaussian,
        "moves of the latent values step by step in white coordinates of the prior",
    ),
}  # what a strategy may need of an inference


class Strategy(Settings, ABC):
    """How θ is found: a frozen dataclass of settings, callable."""

    name: ClassVar[str]  # by which settings and files know it
    needs: ClassVar[str] = "nothing"  # a key of NEEDS
    ignores: ClassVar[frozenset[str]] = frozenset()  # of ``priors`` and ``n_restarts``, what it has no use for

    @property
    def prior_needs(self) -> frozenset[str]:
        """What these settings need of the prior, in addition to the inference's needs (:mod:`gpclass.latent.base`)."""
        return frozenset(["evidence"] if self.needs in ("evidence", "gaussian", "unbiased") else [])

    @property
    def keeps_start(self) -> bool:
        """Whether the kernel's values are used as given, free or not, rather than as a starting point."""
        return False

    @abstractmethod
    def __call__(self, problem: Problem, inference: Inference, run: Run) -> Fit:
        """Choose or sample θ and return the posterior."""

    @classmethod
    def brief(cls) -> Self:
        """Settings for a run of seconds, for tests; the defaults, unless they take longer."""
        return cls()

    def takes(self, inference: Inference) -> bool:
        """Whether the inference has what this strategy needs."""
        return NEEDS[self.needs][0](inference)

    def why_not(self, inference: Inference) -> str:
        """Why the inference is rejected."""
        what = NEEDS[self.needs][1]
        return f"hyperparameters={self.name!r} needs {what}, which inference={inference.name!r} does not have"

    def lacks(self, form: type[Form]) -> str:
        """Why a form of the prior is rejected; empty if it is not."""
        missing = sorted(self.prior_needs - form.offers)
        reasons = "; ".join(form.lacks.get(offer, f"it needs {offer!r} of the prior") for offer in missing)
        return reasons and f"hyperparameters={self.name!r} does not run with the prior {form.name!r}: {reasons}"


def parameters_at_bounds(problem: Problem) -> tuple[str, ...]:
    """Names of the parameters that lie on one of their bounds, if these differ."""
    each = zip(problem.names, problem.theta, problem.bounds, strict=True)
    free = ((name, x, low, high) for name, x, (low, high) in each if low < high)
    return tuple(name for name, x, low, high in free if x <= low + AT_BOUND or x >= high - AT_BOUND)
