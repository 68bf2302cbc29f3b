"""F Figure 2: the standard deviation r of log10 p̃(y|θ) over θ from the posterior, as n grows.

Points in the unit square, f from the process with σ = 20, τ = .255, balanced classes; four particles. Added here:
importance sampling from EP's Gaussian, and the exact method's guided draws.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.special import logsumexp

from gpclass.datasets.simulate import filippone_square
from gpclass.hyper import HMC
from gpclass.hyper.base import Run
from gpclass.inference import Exact, Laplace
from gpclass.inference.annealed import anneal, ladder
from gpclass.inference.around import target_around
from gpclass.inference.particles import Particles
from gpclass.kernels import filippone
from gpclass.likelihoods import Probit
from gpclass.model.problem import Problem
from gpclass.orthant.plan import bare_plan
from papers.common import Section, Setting, Table, Verdict, tell

PARTICLES = 4


def sampled_weights(problem: Problem, repeats: int, rng: Any, *, around: str) -> Any:
    """Log weights of importance sampling, (repeats, PARTICLES)."""
    return Particles.draw(target_around(problem, around), repeats * PARTICLES, rng).r.reshape(repeats, -1)


def annealed_weights(problem: Problem, repeats: int, rng: Any, *, around: str) -> Any:
    """Log weights of annealed importance sampling: its particles are independent."""
    target = target_around(problem, around)
    return anneal(target, ladder(problem.n), repeats * PARTICLES, rng)[1].reshape(repeats, -1)


def guided_weights(problem: Problem, repeats: int, rng: Any) -> Any:
    """Log weights of the exact method's draws; each estimate uses its own randomised lattice."""
    outline = Exact().for_chains(PARTICLES).outline(problem)
    assert outline is not None
    plan = bare_plan(outline.box, outline.ep)
    _, log_w, group = plan.draw("lattice", [PARTICLES] * repeats, rng)
    return log_w[np.argsort(group, kind="stable")].reshape(repeats, -1)


def spread_of(log_w: Any) -> float:
    """Standard deviation of the log10 of the estimates, one per row of log weights."""
    return float(np.std(logsumexp(log_w, axis=1), ddof=1) / np.log(10.0))


METHODS = {
    "IS (Laplace)": partial(sampled_weights, around="laplace"),
    "AIS (prior)": partial(annealed_weights, around="prior"),
    "AIS (Laplace)": partial(annealed_weights, around="laplace"),
    "IS (EP)": partial(sampled_weights, around="ep"),
    "guided": guided_weights,
}


def run(setting: Setting) -> Section:
    """r for every method and size."""
    sizes = setting.choose((10, 50, 100, 500), (10, 50, 100, 500, 1000), (10, 50, 100))
    n_theta, repeats = setting.choose(6, 50, 4), setting.count(15, 50, 10)
    spread: dict[str, dict[int, Any]] = {label: {} for label in METHODS}
    for n in sizes:
        data = filippone_square(n, random_state=setting.seed)
        y = np.where(np.asarray(data.y) == np.max(data.y), 1.0, -1.0)
        problem = Problem.of(np.asarray(data.X, dtype=float), y, filippone(20.0, 0.255), Probit())
        draws = -(-n_theta // 2)
        settings = HMC(chains=2, warmup=15, draws=draws, default_priors="filippone")
        theta = settings(problem, Laplace(), Run(np.random.default_rng(setting.seed))).posterior.theta
        for label, method in METHODS.items():
            found = [
                spread_of(method(problem.at(x), repeats, np.random.default_rng([setting.seed, n, k])))
                for k, x in enumerate(theta)
            ]
            spread[label][n] = np.array(found)
            tell(n, label, float(np.median(found)))
    rows = tuple((label, n, *np.quantile(r, (0.25, 0.5, 0.75))) for label, by in spread.items() for n, r in by.items())
    last = sizes[-1]
    ours, theirs = (float(np.median(spread[label][last])) for label in ("guided", "AIS (Laplace)"))
    verdict = Verdict(
        f"guided draws at n = {last}", "below AIS from Laplace", f"{ours:.3g} to {theirs:.3g}", ours < theirs
    )
    columns = ("method", "n", "r lower quartile", "r median", "r upper quartile")
    return Section(
        "figure2",
        "Figure 2: spread of the evidence estimate",
        (
            Table(
                "figure2",
                columns,
                rows,
                f"{PARTICLES} particles; {n_theta} θ per size, {repeats} estimates at each.",
            ),
        ),
        (verdict,),
        ("![Spread of the estimates by size and method](filippone2014_figure2.png)",),
        figures={"figure2": lambda: _draw(spread, sizes)},
    )


def _draw(spread: dict[str, dict[int, Any]], sizes: tuple[int, ...]) -> Any:
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8, 4.5), layout="constrained")
    width = 0.15
    for k, (label, by) in enumerate(spread.items()):
        places = np.arange(len(sizes)) + (k - 2) * width
        boxes = axis.boxplot([by[n] for n in sizes], positions=places, widths=0.8 * width, patch_artist=True)
        for box in boxes["boxes"]:
            box.set_facecolor(f"C{k}")
        axis.plot([], [], color=f"C{k}", linewidth=6, label=label)
    axis.set_yscale("log")
    axis.set_xticks(range(len(sizes)), [str(n) for n in sizes])
    axis.set_xlabel("n")
    axis.set_ylabel("r, standard deviation of log10 of the estimate")
    axis.legend()
    return figure
