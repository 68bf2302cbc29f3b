"""What every strategy that samples θ shares: settings, running its chains, figures, warnings, a trace and a mixture.

A strategy is a :class:`FullBayes` that describes what is sampled, a :class:`Sampling`; :func:`sample` does the rest.
Unless ``draws`` is given, chains are doubled in length while R-hat or the effective draws require it.
"""

from __future__ import annotations

import inspect
import os
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gpclass._typing import Array, IntArray
from gpclass.hyper.base import Fit, Run, Strategy
from gpclass.hyper.chains import ChainRun, Sampler, run_chains
from gpclass.hyper.defaults import PAPERS, priors_for
from gpclass.hyper.loo import leave_one_out
from gpclass.hyper.mixture import ThetaMixture
from gpclass.hyper.trace import build_trace
from gpclass.inference.base import Inference
from gpclass.inference.diagnostics import RHAT_LIMIT, chain_figures
from gpclass.model.problem import Problem
from gpclass.numerics.fingerprint import fingerprint
from gpclass.numerics.groups import group_error
from gpclass.posterior import Evidence, Posterior, Report
from gpclass.priors import PriorSet

REPEATS = 20  # evidences at one θ for their standard deviation
DOUBLINGS = 3  # doublings of chains that have not mixed
HELD = "fixed where they were placed before the chains began; not integrated over"
AT_MEAN = "the mean of the sampled log parameters; not integrated over them"


class FullBayes(Strategy):
    """A strategy that samples θ by chains.

    Parameters
    ----------
    chains : int
        Chains; they run in parallel if ``n_jobs`` allows, with the same result.
    warmup : int
        Iterations of each chain that adapt its proposal and are dropped.
    draws : int, optional
        Iterations kept per chain; by default ``first_draws``, doubled up to three times until the chains have mixed.
    keep : int
        Draws of θ that predictions integrate over.
    default_priors : {"filippone", "williams-barber", "weak"}
        Priors of parameters not in the estimator's ``priors``.
    pointwise : bool
        With a dense prior, record a draw of the latent values with every draw of θ, not only with those kept for
        predictions: the trace's pointwise log likelihoods and predictive draws then are as many, and take
        chains × draws × n numbers each.
    checkpoint : path, optional
        File to which chains are saved as they go, and from which they resume.
    """

    chains: int
    warmup: int | None
    draws: int | None
    keep: int
    default_priors: str
    pointwise: bool
    checkpoint: str | os.PathLike[str] | None
    first_draws: ClassVar[int]  # kept per chain before they are first checked
    ignores: ClassVar[frozenset[str]] = frozenset(["n_restarts"])
    limits: ClassVar = {"warmup": 0, "default_priors": tuple(PAPERS)}

    def __init_subclass__(cls) -> None:
        """Put the parameters above in front of those in the docstring of a subclass."""
        super().__init_subclass__()
        rule = "----------\n"
        head, _, own = (inspect.getdoc(cls) or "").partition(rule)
        shared = (inspect.getdoc(FullBayes) or "").partition(rule)[2]
        cls.__doc__ = f"{head}{rule}{shared}\n{own}".replace("``first_draws``", str(cls.first_draws))

    @property
    def length(self) -> int:
        """Iterations kept per chain, at first."""
        return self.first_draws if self.draws is None else self.draws

    @property
    def dropped(self) -> int:
        """Iterations dropped of each chain."""
        return self.warmup or 0

    def __call__(self, problem: Problem, inference: Inference, run: Run) -> Fit:
        if len(problem.theta) == 0:
            raise ValueError(
                f"hyperparameters={self.name!r} samples kernel parameters, and all of this kernel's are fixed; "
                "use hyperparameters='fixed'"
            )
        problem = problem.placed(run.rng)
        prior = priors_for(problem, run.priors, self.default_priors)
        return sample(self, problem, self.sampling(problem, inference, prior), run)

    @abstractmethod
    def sampling(self, problem: Problem, inference: Inference, prior: PriorSet) -> Sampling:
        """What is sampled."""


def _kept(outcome: ChainRun, first: int, keep: int) -> tuple[Array, Array, IntArray]:
    """About ``keep`` draws of θ (S, p) for predictions, evenly over the iterations from ``first`` on.

    With vectors that represent the latent values given each (S, r, n), and their chains (S,).
    """
    theta, vectors, chain = [], [], []
    for k, one in enumerate(outcome.chains):
        at = np.array(one.kept["kept_at"], dtype=np.intp)
        for i in evenly(at, max(1, keep // len(outcome.chains))):
            theta.append(one.kept["theta"][at[i] - first])
            vectors.append(one.kept["vectors"][i])
            chain.append(k)
    return np.stack(theta), np.stack(vectors), np.array(chain, dtype=np.intp)


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
    """What a strategy samples."""

    sampler: Sampler  # moves a chain
    inference: Inference  # gives the evidence at the mean of log θ, if ``has_evidence``
    prior: PriorSet
    of: type[Posterior]  # the class of posteriors that the kept vectors represent
    evaluations: int = 0  # evidences computed before the chains began
    has_evidence: bool = True


def sample(strategy: FullBayes, problem: Problem, sampling: Sampling, run: Run) -> Fit:
    """Run the chains of a strategy; θ's mean (in logs) are the reported parameters, the mixture is the posterior."""
    inference = sampling.inference
    asked: Any = strategy  # a dataclass
    settings = replace(asked, checkpoint=None, draws=1)
    model = (problem.kernel, problem.likelihood, *(problem.form.marks or (np.empty(0),)))
    outcome = run_chains(
        sampling.sampler,
        strategy.chains,
        run.rng,
        n_jobs=run.n_jobs,
        verbose=run.verbose,
        label=f"{strategy.name} ({inference.name})",
        path=strategy.checkpoint,
        seeded=run.seeded,
        fingerprint=fingerprint(*problem.rows.marks(), *model, inference, sampling.prior, settings),
        too_short=_not_mixed,
        doublings=DOUBLINGS if strategy.draws is None else 0,
    )
    theta, accepted = outcome.stack("theta"), outcome.stack("accepted")  # (chains, draws, p), (chains, draws)
    chains, draws, p = theta.shape
    flat = theta.reshape(-1, p)
    at_mean = problem.at(flat.mean(axis=0))
    evidence, sd = None, None
    if sampling.has_evidence:
        evidence, sd = _repeated_evidence(at_mean, inference, run.rng)
    figures = chain_figures(theta)
    spent = sum(int(chain.state.get("evaluations", chain.iteration)) for chain in outcome.chains)
    kept = _kept(outcome, sampling.sampler.first_kept, strategy.keep)
    stats = {"lp": outcome.stack("value"), "log_evidence": outcome.stack("log_z"), "accepted": accepted > 0.5}
    attrs = {
        "strategy": strategy.name,
        "inference": inference.name,
        "interrupted": int(outcome.interrupted),
        "acceptance_rate": float(accepted.mean()),
    }
    latent = outcome.stack("f") if problem.form.predicts_from_rows else None
    theta_f = outcome.at("f_at", "theta", sampling.sampler.first_kept)
    cure = f"give {type(strategy).__name__} more draws than {draws}, or tighter priors"
    reason, warned = figures.told(np.inf if outcome.interrupted else RHAT_LIMIT, chains, cure)
    report = Report(
        method=inference.name,
        precise=not (reason or warned),
        iterations=draws,
        n_samples=chains * draws,
        ess=min(figures.ess_bulk, figures.ess_tail),
        details={
            "chains": chains,
            "theta_mcse": figures.mcse,
            "interrupted": outcome.interrupted,
            **({"n_classes": problem.n_classes} if problem.n_latents > 1 else {}),
            **({"inducing_inputs": HELD} if problem.inducing is not None else {}),
        },
    )
    return Fit(
        at_mean,
        ThetaMixture(at_mean, sampling.of, *kept, evidence, report, sampling.prior),
        converged=not (outcome.interrupted or reason),
        reason="interrupted" if outcome.interrupted else reason,
        figures={
            "acceptance_rate": attrs["acceptance_rate"],
            "rhat": figures.rhat,
            "mixing": figures.verdict(chains * draws),
            "sd_log_evidence": sd,
            "evidence_at": None if evidence is None else AT_MEAN,
            "evaluations": sampling.evaluations + spent,
        },
        warnings=(*_interrupted(strategy, outcome, draws), *warned),
        trace=build_trace(problem, theta, stats, latent, theta_f, run.rng, attrs, leave_one_out(problem, flat)),
    )


def _interrupted(strategy: FullBayes, outcome: ChainRun, draws: int) -> tuple[str, ...]:
    kept = "" if strategy.checkpoint is None else "; fit again with the same checkpoint to continue"
    unfinished = "" if strategy.draws is None else f" of {strategy.draws}"
    return (f"interrupted after {draws}{unfinished} draws per chain{kept}",) if outcome.interrupted else ()


def _not_mixed(theta: Array) -> bool:
    """Whether these chains, (chains, draws, p), would cause a warning."""
    return bool(chain_figures(theta).warnings(len(theta), ""))


def _repeated_evidence(
    problem: Problem, inference: Inference, rng: np.random.Generator
) -> tuple[Evidence | None, float | None]:
    """The evidence at one θ, and the standard deviation of one estimate of its logarithm if it has an error."""
    first = inference(problem, rng).evidence
    if first is None or first.error is None:
        return None if first is None else replace(first, gradient=None), None
    more = (inference(problem, rng).evidence for _ in range(REPEATS - 1))
    logs = np.array([evidence.log_z for evidence in (first, *more) if evidence is not None])
    top = logs.max()
    found = np.exp(logs - top)
    error = float(group_error(found / found.mean() - 1.0) / REPEATS)
    return Evidence(float(top + np.log(found.mean())), error, first.kind), float(logs.std(ddof=1))
