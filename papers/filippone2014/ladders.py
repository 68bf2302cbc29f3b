"""F §VI, the outlook: temperatures chosen for the problem, beside the paper's geometric ladder at equal cost.

The points of Figure 2. A balanced ladder is found on a pilot at one θ, as a chain over θ does at its start, and used at
other θ; every estimate then costs the same on both ladders. The pilot, paid once, is given in estimates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpclass.datasets.simulate import filippone_square
from gpclass.inference.annealed import PILOT, anneal, balanced, ladder
from gpclass.inference.around import target_around
from gpclass.kernels import filippone
from gpclass.likelihoods import Probit
from gpclass.model.problem import Problem
from papers.common import Section, Setting, Table, Verdict, tell
from papers.filippone2014.figure2 import PARTICLES, spread_of

SIGMA, TAU, SPREAD = 20.0, 0.255, 0.3  # θ of the data, and the standard deviation of log θ about it


def run(setting: Setting) -> Section:
    """Spread of the estimates on both ladders."""
    sizes = setting.choose((50, 100, 200, 500), (10, 50, 100, 500, 1000), (50, 100))
    n_theta, repeats = setting.choose(6, 50, 4), setting.count(50, 50, 20)
    rows, verdicts = [], []
    for around in ("prior", "laplace", "ep"):
        gains = []
        for n in sizes:
            paper, ours, temperatures = compared(n, around, n_theta, repeats, setting.seed)
            gains.append(np.log(ours / paper))
            ratio = mean_ratio(gains[-1])
            rows.append(
                (around, n, temperatures, np.median(paper), np.median(ours), *ratio, PILOT / PARTICLES, n_theta)
            )
            tell("ladders", *rows[-1])
        ratio, error = mean_ratio(np.concatenate(gains))
        verdicts.append(
            Verdict(
                f"from {around}: a balanced ladder's estimates vary less at equal cost, over all sizes and θ",
                "a ratio below 1 by more than two standard errors",
                f"{ratio:.2f}, standard error of its logarithm {error:.2f}",
                bool(np.log(ratio) < -2.0 * error),
            )
        )
    table = Table(
        "ladders",
        (
            *("from", "n", "temperatures", "r geometric", "r balanced", "ratio", "se of its log"),
            *("pilot, in estimates", "θ"),
        ),
        tuple(rows),
        f"r as in Figure 2, the median over θ: standard deviation of log10 of {repeats} estimates of {PARTICLES} "
        "particles. The ratio is the geometric mean over θ.",
    )
    return Section("ladders", "Temperatures chosen on a pilot", (table,), tuple(verdicts))


def mean_ratio(gains: Any) -> tuple[float, float]:
    """Geometric mean of ratios whose logarithms are given, and the standard error of its logarithm."""
    return float(np.exp(np.mean(gains))), float(np.std(gains, ddof=1) / np.sqrt(len(gains)))


def compared(n: int, around: str, n_theta: int, repeats: int, seed: int) -> tuple[Any, Any, int]:
    """r on the paper's ladder and on the balanced one for several θ, and the number of temperatures of both."""
    data = filippone_square(n, random_state=seed)
    y = np.where(np.asarray(data.y) == np.max(data.y), 1.0, -1.0)
    first = Problem.of(np.asarray(data.X, dtype=float), y, filippone(SIGMA, TAU), Probit())
    rng = np.random.default_rng([seed, n])
    geometric = ladder(n)
    even = balanced(target_around(first, around), geometric, rng)
    found: list[list[float]] = [[], []]
    for _ in range(n_theta):
        target = target_around(first.at(first.theta + SPREAD * rng.standard_normal(len(first.theta))), around)
        for kept, beta in zip(found, (geometric, even), strict=True):
            kept.append(spread_of(anneal(target, beta, repeats * PARTICLES, rng)[1].reshape(repeats, -1)))
    return np.array(found[0]), np.array(found[1]), len(geometric) - 1
