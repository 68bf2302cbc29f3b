"""What limits the error of `exact`: Monte Carlo noise, and the effect of the point set.

The same sites and the same number of draws, from random points, from the randomised lattice in 25 independent
randomisations (as in `exact`, to estimate the error), from the lattice in 5, and from Sobol's
sequence.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpclass.inference.noise import noise_factor
from gpclass.likelihoods import Probit
from gpclass.model.problem import Problem
from gpclass.orthant.plan import Plan, bare_plan, fit_sites
from gpclass.orthant.uniforms import replicate_sizes
from gpclass.orthant.weights import log_mean
from papers.atiya2020.shared import Answer, Linear, linear_kernel, mae, mape, published
from papers.common import Section, Setting, Table, Verdict

CHOICES: dict[str, tuple[Any, int]] = {
    "random": ("random", 25),
    "lattice, 25 shifts": ("lattice", 25),
    "lattice, 5 shifts": ("lattice", 5),
    "sobol, 25 scrambles": ("sobol", 25),
}
COLUMN = {1: "p1_n100", 3: "p3_n400"}


def answer(problem: Linear, plan: Plan, data: Problem, kind: Any, sizes: list[int], seed: int) -> Answer:
    """Probabilities and evidence from draws of one point set."""
    x, log_w, _ = plan.draw(kind, sizes, np.random.default_rng(seed))
    v = plan.box.restore(x)  # (n, M)
    w = np.exp(log_w - log_w.max())
    factor, cross = noise_factor(data), data.covariance(data.X, problem.x_new[:, None])
    means = factor.solve((data.y[:, None] * v)[None])[0].T @ cross
    variance = data.covariance.diag(problem.x_new[:, None]) - np.einsum("ij,ij->j", cross, factor.solve(cross[None])[0])
    plus, _ = Probit().log_predictive(means, np.maximum(variance, 0.0)[None])
    return Answer(w @ np.exp(plus) / w.sum(), log_mean(log_w), 0.0)


def run(setting: Setting, problems: tuple[int, ...] = (1, 3), M: int = 5000) -> Section:
    """Errors by point set."""
    M, repeats = setting.choose(M, 20_000), setting.count(8, 20)
    rows, verdicts = [], []
    for number in problems:
        errors: dict[str, list[tuple[float, float]]] = {name: [] for name in CHOICES}
        for r in range(repeats):
            problem = Linear.draw(number, setting.seed + r)
            data = Problem.of(problem.x[:, None], problem.y, linear_kernel(), Probit())
            box = data.prior.box()
            plan = bare_plan(box, fit_sites(box), defend=False)
            for name, (kind, shifts) in CHOICES.items():
                got = answer(problem, plan, data, kind, replicate_sizes(M, shifts), setting.seed + r)
                errors[name].append((mae(problem, got), mape(problem, got)))
        mean = {name: np.mean(found, axis=0) for name, found in errors.items()}
        rows += [(f"P{number}", name, M, repeats, *map(float, found)) for name, found in mean.items()]
        ratio = mean["random"] / mean["lattice, 25 shifts"]
        verdicts.append(
            Verdict(
                f"P{number}: error of the probabilities, random points over the lattice", "above 1",
                f"{ratio[0]:.1f} (of the evidence {ratio[1]:.1f})", bool(ratio[0] > 1),
            )
        )  # fmt: skip
    best = ", ".join(f"{published(2).row(samples=3e6)[COLUMN[i]]} (P{i})" for i in problems)
    table = Table(
        "points",
        ("problem", "points", "draws", "runs", "MAE", "MAPE %"),
        tuple(rows),
        f"Errors of `exact`'s draws by point set. The paper's best MAE: {best}.",
    )
    return Section("points", "What limits the error: point sets", (table,), tuple(verdicts))
