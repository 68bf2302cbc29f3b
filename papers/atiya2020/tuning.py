"""A §6.5: few draws to tune the kernel, many to predict; and rerunning the best settings with more draws.

Data of A §6.4, problem 2 (two Gaussian classes in the plane, 200 points), kernel β exp(−r²/α²). The evidence
over a grid of (α, β) selects the kernel; its loss is measured against the best of the grid by `exact` with many
draws. Then, at the selected kernel, the probabilities of the test points with few and with many draws are compared
with `exact` with many.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from gpclass.inference import GPCMC, Exact
from gpclass.likelihoods import Probit
from gpclass.model.problem import Problem
from gpclass.predict import predict_proba
from papers.common import Section, Setting, Table, Verdict, tell

ALPHAS = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0)
BETAS = (0.5, 1.0, 2.0, 5.0, 12.0, 30.0)
MANY = 20_000
SHORT_LIST = 4  # A: "three or four best hyperparameter sets, for which on a closer look we rerun"
ADVISED = 20_000  # A: 20,000 to 50,000 draws of gpc-mc to tune
TOO_MUCH = 0.1  # largest acceptable loss of evidence, in nats


def draw_classes(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Class 1 N(0, I), class 2 N(e, Σ0), half each, shuffled."""
    label = rng.permutation(np.arange(n) % 2)
    root = np.linalg.cholesky([[1.0, 0.25], [0.25, 1.0]])
    X = rng.standard_normal((n, 2))
    X[label == 1] = 1.0 + X[label == 1] @ root.T
    return X, 2.0 * label - 1.0


def problem_at(X: Any, y: Any, alpha: float, beta: float) -> Problem:
    """The data under β exp(−r²/α²); scikit-learn's RBF has exp(−½ r²/ℓ²)."""
    kernel = ConstantKernel(beta, "fixed") * RBF(alpha / np.sqrt(2.0), "fixed")
    return Problem.of(X, y, kernel, Probit())


def grid_evidence(X: Any, y: Any, inference: Any, seed: int) -> tuple[np.ndarray, float]:
    """Log evidence over the grid, −inf where every draw died out, and the CPU seconds."""
    begin = time.process_time()
    found = np.full((len(ALPHAS), len(BETAS)), -np.inf)
    for i, alpha in enumerate(ALPHAS):
        for j, beta in enumerate(BETAS):
            found[i, j] = _evidence(problem_at(X, y, alpha, beta), inference, np.random.default_rng([seed, i, j]))
    return found, time.process_time() - begin


def _evidence(problem: Problem, inference: Any, rng: np.random.Generator) -> float:
    try:
        return float(inference(problem, rng).evidence.log_z)
    except ValueError as error:  # no draw survived: P is too small for the particle algorithm
        if "survived" not in str(error):
            raise
        return -np.inf


def short_list(X: Any, y: Any, few: np.ndarray, inference: Any, seed: int) -> tuple[tuple[int, int], float]:
    """The best of the few best, rerun with more draws."""
    begin = time.process_time()
    best = [np.unravel_index(k, few.shape) for k in np.argsort(few, axis=None)[::-1][:SHORT_LIST]]
    rng = np.random.default_rng([seed, 99])
    again = [
        _evidence(problem_at(X, y, ALPHAS[i], BETAS[j]), inference, s)
        for (i, j), s in zip(best, rng.spawn(len(best)), strict=True)
    ]
    i, j = best[int(np.argmax(again))]
    return (int(i), int(j)), time.process_time() - begin


def run(setting: Setting, n: int = 200, few: dict[str, tuple[int, ...]] | None = None) -> Section:
    """The loss from few draws in tuning and in prediction."""
    repeats = setting.count(2, 10)
    few = few or {
        "gpc-mc": setting.choose((1000, 5000, ADVISED), (1000, 5000, ADVISED, 50_000), (1000,)),
        "exact": setting.choose((100, 1000), (100, 1000), (100,)),
    }
    make: dict[str, Callable[[int], Any]] = {
        "gpc-mc": lambda M: GPCMC(M, runs=1),
        "exact": lambda M: Exact(n_samples=M),
    }
    loss: dict[tuple[str, int, str], list[float]] = {}
    cost: dict[tuple[str, int, str], list[float]] = {}
    errors: dict[tuple[str, int], list[float]] = {}
    for r in range(repeats):
        rng = np.random.default_rng([setting.seed, r])
        X, y = draw_classes(n, rng)
        X_new, _ = draw_classes(n, rng)
        truth, _ = grid_evidence(X, y, Exact(n_samples=2000), r)
        top = np.unravel_index(int(truth.argmax()), truth.shape)
        for name, sizes in few.items():
            for M in sizes:
                found, seconds = grid_evidence(X, y, make[name](M), r)
                pick = np.unravel_index(int(found.argmax()), found.shape)
                again, more = short_list(X, y, found, make[name](10 * M), r)
                for how, place, spent in (
                    ("best", pick, seconds),
                    ("best of four, 10x", again, seconds + more),
                ):
                    loss.setdefault((name, M, how), []).append(float(truth.max() - truth[place]))
                    tell("tuning", name, M, how, loss[name, M, how][-1], spent)
                    cost.setdefault((name, M, how), []).append(spent)
        for key, error in _prediction(problem_at(X, y, ALPHAS[top[0]], BETAS[top[1]]), X_new, few, make, r).items():
            errors.setdefault(key, []).append(error)
    return _section(n, repeats, loss, cost, errors)


def _prediction(problem: Problem, X_new: Any, few: Any, make: Any, seed: int) -> dict[tuple[str, int], float]:
    """MAE of the probabilities against exact with many draws."""

    def proba(inference: Any, stream: int) -> Any:
        latent = inference(problem, np.random.default_rng([seed, stream])).latent(X_new)
        return predict_proba(latent, Probit()).proba[:, 1]

    reference = proba(Exact(n_samples=MANY), 1)
    sizes = [(name, M) for name in few for M in (*few[name], 10 * few[name][-1])]
    return {key: float(np.mean(np.abs(proba(make[key[0]](key[1]), 2) - reference))) for key in sizes}


def _section(n: int, repeats: int, loss: Any, cost: Any, errors: Any) -> Section:
    tuned = Table(
        "tuning",
        ("method", "draws", "pick", "data sets", "nats lost, mean", "worst", "CPU s per grid"),
        tuple((*key, repeats, np.mean(loss[key]), max(loss[key]), np.mean(cost[key])) for key in loss),
        f"Evidence lost by picking (α, β) from a grid of {len(ALPHAS) * len(BETAS)} with few draws, n = {n}.",
    )
    predicted = Table(
        "tuning_prediction",
        ("method", "draws", "MAE"),
        tuple((*key, np.mean(found)) for key, found in errors.items()),
        f"At the best (α, β): error of the test probabilities against exact with {MANY:,} draws.",
    )
    verdicts = []
    for name, least in (("gpc-mc", ADVISED), ("exact", 1000)):
        lost = [max(loss[key]) for key in loss if key[0] == name and key[1] >= least]
        if lost:
            of = ", as A advises" if name == "gpc-mc" else ""
            claim = f"tuning with {name}, {least:,} draws or more{of}: evidence lost at worst"
            verdicts.append(Verdict(claim, f"below {TOO_MUCH} nats", f"{max(lost):.3f}", bool(max(lost) < TOO_MUCH)))
    return Section("tuning", "Few draws to tune, many to predict", (tuned, predicted), tuple(verdicts))
