"""A Figures 1 and 2: log error against CPU time on problem 3, for the probabilities and for the log evidence.

Methods: the particle algorithm with the soft count, exact, and, if the registry has them, elliptical slice
sampling and Hamiltonian Monte Carlo as the paper ran them: around the prior, 40 steps between draws, a
burn-in of 10 draws, 3 runs; their evidence by annealing from the prior with as many steps as the chains have,
3 runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from gpclass.inference import Exact
from gpclass.inference.annealed import annealed_evidence, ladder
from gpclass.inference.around import target_around
from gpclass.inference.elliptical_step import elliptical_step
from gpclass.inference.hmc import hmc_step
from gpclass.likelihoods import Probit
from gpclass.model.problem import Problem
from gpclass.plots._style import MARKERS, PALETTE, pyplot
from gpclass.registry import INFERENCES, get_inference
from papers.atiya2020.later import Later
from papers.atiya2020.shared import Answer, Linear, classify, linear_kernel, mae, mape, particles
from papers.common import Section, Setting, Table, Verdict, tell
from papers.store import NoTime, cell

NUMBER = 3
SAMPLERS = ("elliptical-slice", "hmc")
SKIP, BURN_IN, RUNS = 40, 10, 3  # A §6.3
WANTED = {"evidence": 100, "probabilities": 10}  # target ratio of CPU time at equal error
Run = Callable[[Linear, int, int], tuple[Answer, Answer]]  # results for probabilities and for the evidence


def exact(problem: Linear, M: int, seed: int) -> tuple[Answer, Answer]:
    """Ours with M draws."""
    answer = classify(problem, Exact(n_samples=M), seed)
    return answer, answer


def gpc_mc(problem: Linear, M: int, seed: int) -> tuple[Answer, Answer]:
    """The paper's, soft count."""
    answer = particles(problem, M, seed)
    return answer, answer


def chains(name: str, skip: int, problem: Linear, draws: int, seed: int) -> tuple[Answer, Answer]:
    """A sampler of latent values as the paper ran it."""
    settings = replace(
        get_inference(name),
        chains=RUNS,
        warmup=skip * BURN_IN,
        draws=draws,
        thin=skip,
        around="prior",
        evidence=False,
    )
    begin = time.process_time()
    data = Problem.of(problem.x[:, None], problem.y, linear_kernel(), Probit())
    posterior = settings(data, np.random.default_rng(seed))
    latent = posterior.latent(problem.x_new[:, None])
    plus, _ = Probit().log_predictive(latent.means[:, :, 0], latent.covariances[:, :, 0, 0])
    sampled = Answer(latent.weights @ np.exp(plus), None, time.process_time() - begin)
    begin = time.process_time()
    step: Any = elliptical_step
    if name == "hmc":
        tuned = posterior.report.details

        def step(target: Any, state: Any, rng: Any, power: float) -> Any:
            return hmc_step(target, state, rng, power, size=tuned["step_size"], leapfrog=tuned["leapfrog"])[0]

    target = target_around(data, "prior")
    evidence = annealed_evidence(target, ladder(data.n, skip * draws), RUNS, np.random.default_rng([seed, 1]), step)
    return sampled, Answer(None, evidence.log_z, time.process_time() - begin)


def _skip(setting: Setting) -> int:
    return int(setting.choose(10, SKIP, 4))


def methods(setting: Setting) -> dict[str, tuple[Run, tuple[int, ...]]]:
    """The methods, with their numbers of draws; samplers only if the registry has them."""
    found: dict[str, tuple[Run, tuple[int, ...]]] = {
        "exact": (exact, setting.choose((250, 1000, 4000, 16_000), (250, 1000, 4000, 16_000), (250, 1000, 4000))),
        "gpc-mc": (gpc_mc, setting.choose((1000, 5000, 25_000), (1000, 10_000, 100_000, 1_000_000), (1000, 5000))),
    }
    for name in SAMPLERS:
        if name in INFERENCES:
            found[name] = (
                partial(chains, name, _skip(setting)),
                setting.choose((10, 50, 250), (10, 50, 250, 1000), (10, 50)),
            )
    return found


@dataclass(frozen=True)
class Point:
    """Averages over the runs of one method with one number of draws."""

    method: str
    draws: int
    runs: int
    mae: float
    mape: float
    seconds: float  # CPU, probabilities
    seconds_evidence: float


def measure(method: str, run: Run, draws: int, repeats: int, seed: int, skip: int) -> Point:
    """Run one method ``repeats`` times, on a new data set each time; every run is stored when it is measured."""
    found = [
        cell(
            "atiya2020",
            f"figures-{method}-{draws}-{r}-{skip if method in SAMPLERS else 0}",
            {"seed": seed, "problem": NUMBER},
            partial(_one, run, draws, seed + r),
        )
        for r in range(repeats)
    ]
    return Point(method, draws, repeats, *map(float, np.mean([list(one.values()) for one in found], axis=0)))


def _one(run: Run, draws: int, seed: int) -> dict[str, float]:
    """Both errors of a run, and the CPU seconds of each."""
    problem = Linear.draw(NUMBER, seed)
    first, second = run(problem, draws, seed)
    return {
        "mae": mae(problem, first),
        "mape": mape(problem, second),
        "seconds": first.seconds,
        "evidence": second.seconds,
    }


def speed_ratio(points: list[Point], what: str) -> tuple[float, float]:
    """Smallest and largest ratio of CPU time at the error of each of our points; theirs falls as time^-½."""
    error, seconds = ("mape", "seconds_evidence") if what == "evidence" else ("mae", "seconds")
    theirs = [p for p in points if p.method == "gpc-mc"]
    cost = np.exp(np.mean([np.log(getattr(p, error) ** 2 * getattr(p, seconds)) for p in theirs]))
    ratios = [cost / (getattr(p, error) ** 2 * getattr(p, seconds)) for p in points if p.method == "exact"]
    return min(ratios), max(ratios)


def figure(points: list[Point], what: str) -> Any:
    """One panel: error against CPU time, both in logs."""
    error, seconds, label = (
        ("mape", "seconds_evidence", "MAPE of the log evidence (%)")
        if what == "evidence"
        else ("mae", "seconds", "MAE of the probabilities")
    )
    fig, ax = pyplot().subplots(figsize=(6.0, 4.2), layout="constrained")
    for i, name in enumerate(dict.fromkeys(p.method for p in points)):
        own = [p for p in points if p.method == name]
        ax.loglog(
            [getattr(p, seconds) for p in own], [getattr(p, error) for p in own],
            color=PALETTE[i], marker=MARKERS[i], label=name,
        )  # fmt: skip
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter("")  # the labels would overlap
    ax.set_xlabel("CPU time of a run (s)")
    ax.set_ylabel(label)
    ax.set_title("Problem 3, linear kernel, n = 400")
    ax.legend(frameon=False)
    return fig


def run(setting: Setting) -> Section:
    """Both figures, and the time of each method for the same error."""
    points, later = [], Later("runs")
    for name, (method, sizes) in methods(setting).items():
        for draws in sizes:
            quick = 10 if name == "exact" and draws <= 4000 else 3 if name == "hmc" else 5
            repeats = setting.count(quick, 10)
            try:
                point = measure(name, method, draws, repeats, setting.seed, _skip(setting))
            except NoTime:
                later.add("P3", name, draws, repeats)
                continue
            points.append(point)
            both = point.seconds + (point.seconds_evidence if name in SAMPLERS else 0.0)
            later.took("P3", name, draws, both)
            tell("figures", *astuple(point))
    if not {"exact", "gpc-mc"} <= {point.method for point in points}:
        raise NoTime("no point of the figures is measured yet; the same command goes on from there")
    table = Table(
        "figures",
        ("method", "draws", "runs", "MAE", "MAPE %", "CPU s", "CPU s, evidence"),
        tuple((p.method, p.draws, p.runs, p.mae, p.mape, p.seconds, p.seconds_evidence) for p in points),
        "The points of both figures. CPU time of fit and prediction together.",
    )
    verdicts = []
    for what, wanted in WANTED.items():
        least, most = speed_ratio(points, what)
        verdicts.append(
            Verdict(
                f"CPU time at equal error, gpc-mc over exact, {what}",
                f"at least {wanted}x",
                f"{least:,.0f}x to {most:,.0f}x over the points of exact",
                bool(least >= wanted),
            )
        )
    return Section(
        "figures",
        "Figures 1 and 2: error against CPU time",
        (table,),
        tuple(verdicts),
        (
            "![Error of the probabilities against CPU time](atiya2020_figure1.png)",
            "![Error of the log evidence against CPU time](atiya2020_figure2.png)",
            "Samplers: 3 chains around the prior, a burn-in of 10 draws, "
            f"{_skip(setting)} steps between draws; their evidence by annealing from the prior.",
            "Time at equal error extrapolates gpc-mc from its measured points, with an error falling as the root of "
            "time.",
            *later.note(),
        ),
        {"figure1": partial(figure, points, "probabilities"), "figure2": partial(figure, points, "evidence")},
    )
