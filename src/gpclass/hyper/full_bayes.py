"""What every strategy that samples θ shares: running its chains and making figures, warnings, a trace and a mixture.

A strategy describes what is sampled, a :class:`Sampling`; :func:`sample` does the rest. Unless ``draws`` is given,
chains are doubled in length while R-hat or the effective draws require it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gpclass._typing import Array, IntArray
from gpclass.hyper.base import Fit, Run
from gpclass.hyper.chains import ChainRun, Sampler, run_chains
from gpclass.hyper.loo import leave_one_out
from gpclass.hyper.mixture import ThetaMixture
from gpclass.hyper.trace import build_trace
from gpclass.inference.base import Inference
from gpclass.inference.diagnostics import ChainFigures, chain_figures
from gpclass.model.problem import Problem
from gpclass.numerics.fingerprint import fingerprint
from gpclass.posterior import Evidence, Posterior, Report
from gpclass.priors import PriorSet

REPEATS = 20  # evidences at one θ for their standard deviation
DOUBLINGS = 3  # doublings of chains that have not mixed


class OfLength:
    """Settings whose chains are as long as ``draws``, or as needed."""

    draws: int | None
    first_draws: ClassVar[int]  # before they are first checked

    @property
    def length(self) -> int:
        """Iterations kept per chain, at first."""
        return self.first_draws if self.draws is None else self.draws


@dataclass(frozen=True)
class Schedule:
    """Which iterations keep vectors: at most about ``keep`` in all, evenly spaced."""

    first: int
    every: int

    @classmethod
    def of(cls, first: int, draws: int, chains: int, keep: int) -> Schedule:
        """Spread ``keep`` over all chains."""
        return cls(first, max(1, -(-draws * chains // keep)))

    def __contains__(self, iteration: int) -> bool:
        return iteration >= self.first and (iteration - self.first) % self.every == 0


def check_lengths(settings: object, **least: int) -> None:
    """Reject invalid lengths of chains."""
    for name, low in least.items():
        value = getattr(settings, name)
        if value is None and name == "draws":  # as many as needed
            continue
        if value is None or int(value) != value or value < low:
            raise ValueError(
                f"{type(settings).__name__}: {name} must be a whole number of at least {low}, got {value!r}"
            )


def need_parameters(problem: Problem, name: str) -> None:
    """Reject a problem without free parameters."""
    if len(problem.theta) == 0:
        raise ValueError(
            f"hyperparameters={name!r} samples kernel parameters, and all of this kernel's are fixed; "
            "use hyperparameters='fixed'"
        )


def run_fingerprint(problem: Problem, inference: Inference, prior: PriorSet, *settings: Any) -> str:
    """Fingerprint of chains: data, model, inference, priors and settings."""
    Z = problem.inducing
    model = (problem.kernel, problem.likelihood, np.empty(0) if Z is None else Z)
    return fingerprint(*problem.rows.marks(), *model, inference, prior, *settings)


@dataclass(frozen=True)
class Kept:
    """Draws of θ that predictions integrate over, with vectors that represent the latent values given each."""

    theta: Array  # (S, p)
    vectors: Array  # (S, r, n)
    chain: IntArray  # (S,)

    @classmethod
    def of(cls, outcome: ChainRun, first: int, keep: int) -> Kept:
        """About ``keep`` of all, evenly over the iterations from ``first`` on."""
        theta, vectors, chain = [], [], []
        for k, one in enumerate(outcome.chains):
            at = np.array(one.kept["kept_at"], dtype=np.intp)
            for i in evenly(at, max(1, keep // len(outcome.chains))):
                theta.append(one.kept["theta"][at[i] - first])
                vectors.append(one.kept["vectors"][i])
                chain.append(k)
        return cls(np.stack(theta), np.stack(vectors), np.array(chain, dtype=np.intp))


def evenly(at: IntArray, most: int) -> IntArray:
    """Positions in the increasing ``at`` of at most ``most`` values with roughly even gaps.

    A chain that was extended with other settings has its vectors at other gaps: the widest is used.
    """
    if len(at) < 2 or most < 2:
        return np.arange(min(len(at), most))
    gap = max(int(np.diff(at).max()), (at[-1] - at[0]) / (most - 1))
    wanted = at[0] + gap * np.arange(int((at[-1] - at[0]) / gap + 1e-9) + 1)
    after = np.clip(np.searchsorted(at, wanted), 1, len(at) - 1)
    return np.unique(np.where(wanted - at[after - 1] <= at[after] - wanted, after - 1, after))


@dataclass(frozen=True, eq=False)
class Sampling:
    """What a strategy samples.

    Parameters
    ----------
    sampler : Sampler
        Moves a chain; its records hold what :func:`record` names, ``f`` (latent values at the training points) if
        the trace includes them, and at those of a :class:`Schedule` ``kept_at`` (the iteration) and ``vectors``.
    inference : Inference
        Gives the evidence at the mean of log θ, if ``has_evidence``.
    prior : PriorSet
    of : type
        The class of posteriors that the kept vectors represent.
    evaluations : int
        Evidences computed before the chains began.
    """

    sampler: Sampler
    inference: Inference
    prior: PriorSet
    of: type[Posterior]
    evaluations: int = 0
    has_evidence: bool = True


def sample(strategy: Any, problem: Problem, sampling: Sampling, run: Run) -> Fit:
    """Run the chains of a strategy; θ's mean (in logs) are the reported parameters, the mixture is the posterior."""
    inference = sampling.inference
    outcome = run_chains(
        sampling.sampler,
        strategy.chains,
        run.rng,
        n_jobs=run.n_jobs,
        verbose=run.verbose,
        label=f"{strategy.name} ({inference.name})",
        path=strategy.checkpoint,
        fingerprint=run_fingerprint(
            problem, inference, sampling.prior, replace(strategy, checkpoint=None, draws=1)
        ),
        too_short=_not_mixed,
        doublings=DOUBLINGS if strategy.draws is None else 0,
    )
    evidence, sd = None, None
    if sampling.has_evidence:
        evidence, sd = evidence_at_mean(problem, inference, outcome, run.rng)
    theta = outcome.stack("theta")  # (chains, draws, p)
    chains, draws, p = theta.shape
    figures = chain_figures(theta)
    at_mean = problem.at(theta.reshape(-1, p).mean(axis=0))
    spent = sum(int(chain.state.get("evaluations", chain.iteration)) for chain in outcome.chains)
    kept = Kept.of(outcome, sampling.sampler.first_kept, strategy.keep)
    report = Report(
        method=inference.name,
        iterations=draws,
        n_samples=chains * draws,
        ess=min(figures.ess_bulk, figures.ess_tail),
        details={
            "chains": chains,
            "theta_mcse": figures.mcse,
            "interrupted": outcome.interrupted,
            **({"n_classes": problem.n_classes} if problem.n_latents > 1 else {}),
        },
    )
    return Fit(
        at_mean,
        _mixture(at_mean, sampling.of, kept, evidence, report),
        converged=not (outcome.interrupted or figures.apart),
        reason="interrupted" if outcome.interrupted else figures.apart,
        figures={
            "acceptance_rate": float(outcome.stack("accepted").mean()),
            "rhat": figures.rhat,
            "sd_log_evidence": sd,
            "evaluations": sampling.evaluations + spent,
        },
        warnings=_warnings(strategy, outcome, figures, chains, draws),
        trace=_trace(strategy, problem, inference, outcome, run.rng),
    )


def _mixture(
    problem: Problem, of: type[Posterior], kept: Kept, evidence: Evidence | None, report: Report
) -> ThetaMixture:
    return ThetaMixture(problem, of, kept.theta, kept.vectors, kept.chain, evidence, report)


def _warnings(
    strategy: Any, outcome: ChainRun, figures: ChainFigures, chains: int, draws: int
) -> tuple[str, ...]:
    cure = f"give {type(strategy).__name__} more draws than {draws}, or tighter priors"
    warned = () if draws < 4 else figures.warnings(chains, cure)
    if outcome.interrupted:
        kept = "" if strategy.checkpoint is None else "; fit again with the same checkpoint to continue"
        unfinished = "" if strategy.draws is None else f" of {strategy.draws}"
        return (f"interrupted after {draws}{unfinished} draws per chain{kept}", *warned)
    return warned


def _not_mixed(theta: Array) -> bool:
    """Whether these chains, (chains, draws, p), would cause a warning."""
    return bool(chain_figures(theta).warnings(len(theta), ""))


def _trace(
    strategy: Any, problem: Problem, inference: Inference, outcome: ChainRun, rng: np.random.Generator
) -> Any:
    theta, accepted = outcome.stack("theta"), outcome.stack("accepted")
    stats = {
        "lp": outcome.stack("value"),
        "log_evidence": outcome.stack("log_z"),
        "accepted": accepted > 0.5,
    }
    attrs = {
        "strategy": strategy.name,
        "inference": inference.name,
        "interrupted": int(outcome.interrupted),
        "acceptance_rate": float(accepted.mean()),
    }
    rows = problem.form.predicts_from_rows and "f" in outcome.chains[0].kept
    latent = outcome.stack("f") if rows else None
    loo = leave_one_out(problem, theta.reshape(-1, theta.shape[-1]))
    return build_trace(problem, theta, stats, latent, rng, attrs, loo)


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
    """What every iteration adds to the trace."""
    return {
        "theta": theta,
        "value": np.asarray(value),
        "log_z": np.asarray(log_z),
        "accepted": np.asarray(float(accepted)),
    }
