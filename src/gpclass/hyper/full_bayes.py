"""What every strategy that samples θ does after its chains have run: figures, warnings, trace and the mixture."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpclass._typing import Array
from gpclass.hyper.base import Fit, Inference, Run
from gpclass.hyper.chains import ChainRun
from gpclass.hyper.checkpoint import fingerprint
from gpclass.hyper.loo import leave_one_out
from gpclass.hyper.mixture import ThetaMixture, thinned
from gpclass.hyper.trace import build_trace
from gpclass.inference.samples import chain_figures
from gpclass.posterior import Evidence, Report
from gpclass.priors import PriorSet
from gpclass.problem import Problem

REPEATS = 20  # evidences at one θ for their standard deviation


@dataclass(frozen=True)
class Schedule:
    """Which iterations leave vectors behind: at most about ``keep`` in all, evenly spaced."""

    first: int
    every: int

    @classmethod
    def of(cls, first: int, draws: int, chains: int, keep: int) -> Schedule:
        """Spread ``keep`` over all chains."""
        return cls(first, max(1, -(-draws * chains // keep)))

    def __contains__(self, iteration: int) -> bool:
        return iteration >= self.first and (iteration - self.first) % self.every == 0


def check_lengths(settings: object, **least: int) -> None:
    """Refuse lengths of chains that are none."""
    for name, low in least.items():
        value = getattr(settings, name)
        if int(value) != value or value < low:
            raise ValueError(
                f"{type(settings).__name__}: {name} must be a whole number of at least {low}, got {value!r}"
            )


def need_parameters(problem: Any, name: str) -> None:
    """Refuse to sample nothing, and problems of many classes."""
    if not isinstance(problem, Problem):
        raise ValueError(
            f"hyperparameters={name!r} samples kernel parameters of two-class problems; for more classes use 'map' or "
            "'em', or sklearn.multiclass.OneVsRestClassifier"
        )
    if len(problem.theta) == 0:
        raise ValueError(
            f"hyperparameters={name!r} samples kernel parameters, and all of this kernel's are fixed; "
            "use hyperparameters='fixed'"
        )


def run_fingerprint(problem: Problem, inference: Inference, prior: PriorSet, *settings: Any) -> str:
    """What chains are of: data, model, inference, priors and settings."""
    return fingerprint(
        problem.X,
        problem.y,
        problem.weights,
        problem.kernel,
        problem.likelihood,
        inference,
        prior,
        *settings,
    )


def finish(
    strategy: Any,
    problem: Problem,
    inference: Inference,
    outcome: ChainRun,
    kind: str,
    run: Run,
    *,
    evaluations: int,
    evidence: Evidence | None = None,
    sd_log_evidence: float | None = None,
) -> Fit:
    """The fit: θ's mean (in logs) as the reported parameters, the mixture as the posterior."""
    theta = outcome.stack("theta")  # (chains, draws, p)
    chains, draws, p = theta.shape
    figures = chain_figures(theta)
    accepted = float(outcome.stack("accepted").mean())
    cure = f"raise draws of {type(strategy).__name__}, or give tighter priors"
    warned = () if draws < 4 else figures.warnings(chains, cure)
    if outcome.interrupted:
        warned = (f"interrupted after {draws} of {strategy.draws} draws a chain", *warned)
    at_mean = problem.at(theta.reshape(-1, p).mean(axis=0))
    stats: dict[str, Any] = {
        name: outcome.stack(key)
        for name, key in (("lp", "value"), ("log_evidence", "log_z"), ("accepted", "accepted"))
    }
    stats["accepted"] = stats["accepted"] > 0.5
    latent = outcome.stack("f") if "f" in outcome.chains[0].kept else None
    attrs = {
        "strategy": strategy.name,
        "inference": inference.name,
        "interrupted": int(outcome.interrupted),
        "acceptance_rate": accepted,
    }
    loo = leave_one_out(problem, theta.reshape(-1, p))
    trace = build_trace(problem, theta, stats, latent, run.rng, attrs, loo)
    report = Report(
        method=inference.name,
        iterations=strategy.draws,
        n_samples=chains * draws,
        ess=min(figures.ess_bulk, figures.ess_tail),
        details={"chains": chains, "theta_mcse": figures.mcse, "interrupted": outcome.interrupted},
    )
    mixture = thinned(_mixture(at_mean, kind, outcome, evidence, report), strategy.keep)
    return Fit(
        at_mean,
        mixture,
        converged=not outcome.interrupted,
        reason="interrupted" if outcome.interrupted else "",
        figures={
            "acceptance_rate": accepted,
            "rhat": figures.rhat,
            "sd_log_evidence": sd_log_evidence,
            "evaluations": evaluations,
        },
        warnings=warned,
        trace=trace,
    )


def _mixture(
    problem: Problem, kind: str, outcome: ChainRun, evidence: Evidence | None, report: Report
) -> ThetaMixture:
    theta, vectors, chain = [], [], []
    for k, one in enumerate(outcome.chains):
        theta += one.kept["kept_theta"]
        vectors += one.kept["vectors"]
        chain += [k] * len(one.kept["vectors"])
    return ThetaMixture(
        problem, kind, np.stack(theta), np.stack(vectors), np.array(chain, dtype=np.intp), evidence, report
    )


def evidence_at_mean(
    problem: Problem, inference: Inference, outcome: ChainRun, rng: np.random.Generator
) -> tuple[Evidence | None, float | None]:
    """The evidence at the mean of log θ, and the standard deviation of one estimate of its logarithm."""
    theta = outcome.stack("theta")
    at_mean = problem.at(theta.reshape(-1, theta.shape[-1]).mean(axis=0))
    first = inference(at_mean, rng).evidence
    if first is None or first.error is None:
        return None if first is None else replace(first, gradient=None), None
    logs = np.array([first.log_z, *(_log_z(inference, at_mean, rng) for _ in range(REPEATS - 1))])
    top = logs.max()
    mean = np.exp(logs - top)
    error = float(mean.std(ddof=1) / mean.mean() / np.sqrt(REPEATS))
    return Evidence(float(top + np.log(mean.mean())), error, first.kind), float(logs.std(ddof=1))


def _log_z(inference: Inference, problem: Problem, rng: np.random.Generator) -> float:
    evidence = inference(problem, rng).evidence
    return -np.inf if evidence is None else evidence.log_z


def record(theta: Array, value: float, log_z: float, accepted: float) -> dict[str, Array]:
    """What every iteration leaves in the trace."""
    return {
        "theta": theta,
        "value": np.asarray(value),
        "log_z": np.asarray(log_z),
        "accepted": np.asarray(float(accepted)),
    }
