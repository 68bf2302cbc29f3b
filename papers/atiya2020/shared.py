"""Problems, runs and errors shared by several experiments of the paper."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.gaussian_process.kernels import DotProduct

from gpclass import GPClassifier
from gpclass.inference import GPCMC
from papers import truths
from papers.common import Published, read_published

HERE = Path(__file__).parent
RUN = 50_000  # draws per run of the particle algorithm; P is averaged over several runs (A §6.1)


def published(table: int) -> Published:
    """One of the paper's tables."""
    return read_published(HERE / "published" / f"table{table}.csv")


def linear_kernel() -> DotProduct:
    """A eq. 65."""
    return DotProduct(0.0, "fixed")


@dataclass(frozen=True)
class Linear:
    """One data set of A §6.2, with the truth."""

    x: Any  # (n,)
    y: Any  # (n,)
    x_new: Any  # (m,)
    probability: Any  # (m,), of y* = 1
    log_evidence: float

    @classmethod
    def draw(cls, number: int, seed: int) -> Linear:
        """Problem 1 to 4, run ``seed``."""
        x, y, x_new, _ = truths.LINEAR_PROBLEMS[number].draw(np.random.default_rng([number, seed]))
        return cls(
            x, y, x_new,
            truths.linear_kernel_probability(x, y, x_new), truths.linear_kernel_log_evidence(x, y),
        )  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """The result of a method on a data set, and its cost."""

    probability: Any  # (m,)
    log_evidence: float | None
    seconds: float  # of CPU
    worried: bool = False  # the fit warned of heavy-tailed weights (k-hat)


Run = Callable[[Linear, int, int], Answer]  # problem, draws, seed


def classify(problem: Linear, inference: Any, seed: int) -> Answer:
    """Fit the estimator with its kernel fixed, and predict the test points."""
    begin = time.process_time()
    clf = GPClassifier(linear_kernel(), inference=inference, hyperparameters="fixed", tol=1.0, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # counted below
        clf.fit(problem.x[:, None], problem.y)
    probability = clf.predict_proba(problem.x_new[:, None])[:, 1]
    worried = any("k-hat" in text for text in clf.fit_report_.warnings)
    return Answer(probability, clf.log_evidence_, time.process_time() - begin, worried)


def particles(problem: Linear, M: int, seed: int, one: Run | None = None) -> Answer:
    """The paper's algorithm with M draws, in runs of bounded memory: the library's, or ``one`` run of another kind."""
    one, runs = one or _soft, -(-M // RUN)
    seeds = np.random.SeedSequence([seed, M]).generate_state(runs)
    found = [one(problem, M // runs, int(s)) for s in seeds]
    log_p = np.array([answer.log_evidence for answer in found])
    if not np.isfinite(log_p).any():
        raise ValueError(f"no particle survived in any of {runs} runs of {M // runs}: more draws are needed")
    weight = np.exp(log_p - logsumexp(log_p))
    return Answer(
        weight @ np.array([answer.probability for answer in found]),
        float(logsumexp(log_p) - np.log(runs)),
        sum(answer.seconds for answer in found),
    )


def _soft(problem: Linear, M: int, seed: int) -> Answer:
    return classify(problem, GPCMC(M, runs=1), seed)


def mae(problem: Linear, answer: Answer) -> float:
    """Mean absolute error of the probabilities, A eq. 67."""
    return float(np.mean(np.abs(answer.probability - problem.probability)))


def mape(problem: Linear, answer: Answer) -> float:
    """Absolute error of the log evidence in per cent, A eq. 64; NaN if a method has no evidence."""
    if answer.log_evidence is None:
        return float("nan")
    return 100 * abs(answer.log_evidence / problem.log_evidence - 1)
