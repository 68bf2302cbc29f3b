"""The paper's experiment with repeats: 114 samples of 8 features, five folds, on many sets instead of one.

So that the differences between the methods have a standard error, each repeat is a new set with its own five folds: of
the doubly stochastic model itself in eight dimensions, and of storms on a simulated sea (:mod:`papers.roeder2011.sea`),
where the covariance is that of the paper's first experiment: ν = 10, l = 0.4, s = 0.17, s0 = 0, with l and c0 or k0 by
nested cross-validation for AMP and DSGQ. Every set is stored when it is done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gpclass.datasets import roeder_field
from gpclass.folds import stratified_folds
from gpclass.geostat import VariogramModel
from papers.common import Section, Setting, Table, Verdict, tell
from papers.roeder2011.ladder import CORE, Effort, answer, pointwise
from papers.roeder2011.sea import simulate_sea
from papers.roeder2011.table1 import FOLDS, PAPER
from papers.store import cell

SCORES = ("accuracy", "log loss")
N = 114
FEWEST = 5  # sets from which a standard error says something
FIRST = VariogramModel(sill=0.17, length_scale=0.4, smoothness=10.0)  # of the paper's first experiment
Drawn = tuple[Any, Any, Any]  # features, labels, true probabilities


def model_field(seed: int) -> Drawn:
    """A set of the doubly stochastic model itself."""
    data = roeder_field(N, n_features=8, sill=9.0, length_scale=0.5, random_state=seed)
    return data.X, data.y, data.probability[:, 1]


def stormy_sea(seed: int) -> Drawn:
    """Eight pixels of simulated maps of wave heights, a storm or not."""
    sea = simulate_sea(N, seed)
    return sea.features, sea.y, sea.probability


def one_set(draw: Callable[[int], Drawn], seed: int, effort: Effort) -> dict[str, list[float]]:
    """Accuracy and log loss of every method on one set, by five folds; and of the true probability."""
    X, y, truth = draw(seed)
    fold = stratified_folds(y, FOLDS, np.random.default_rng(seed))
    methods = {name: (name, effort) for name in CORE}
    if effort.given is not None:  # kriging depends on its covariance, which belongs to the paper's data
        methods["CIK, own variogram"] = "CIK", replace(effort, given=None)
    found = {}
    for label, (name, how) in methods.items():
        p = np.empty(len(y))
        for k in range(FOLDS):
            test = fold == k
            p[test] = answer(name, X[~test], y[~test], X[test], seed, how)[0]
        found[label] = _scores(y, p)
    return {**found, "true probability": _scores(y, truth)}


def _scores(y: Any, p: Any) -> list[float]:
    each = pointwise(y, p)
    return [float(each[name].mean()) for name in SCORES]


def run(setting: Setting) -> Section:
    """On the doubly stochastic model."""
    section = compared("repeats", model_field, None, setting)
    return replace(section, title="Table 1 with repeats, on the doubly stochastic model")


def storms(setting: Setting) -> Section:
    """On a simulated sea, with the covariance of the paper's first experiment."""
    section = compared("storms", stormy_sea, FIRST, setting)
    note = "Maps of the sea, and how labels come about: `papers/roeder2011/sea.py`; Figure 5 shows the pixels."
    return replace(section, title="Table 1 with repeats, on storms of a simulated sea", notes=(note,))


def compared(kind: str, draw: Callable[[int], Drawn], model: VariogramModel | None, setting: Setting) -> Section:
    """Means over the sets, and differences from CIK on the same sets with their standard errors."""
    effort = setting.choose(Effort(n_points=12, draws=100), Effort(), Effort(n_points=6, draws=60, tol=0.02))
    effort, sets = replace(effort, given=model), []
    for r in range(setting.count(10, 30, 2)):
        settings = {"effort": repr(effort), "scores": SCORES, "seed": setting.seed + r, "own": model is not None}
        name = f"{setting.size}-{kind}-{setting.seed + r}"
        sets.append(cell("roeder2011", name, settings, partial(one_set, draw, setting.seed + r, effort)))
        tell(kind, r, *(f"{name} {scores[0]:.3f}" for name, scores in sets[-1].items()))
    scores = {name: np.array([one[name] for one in sets]) for name in sets[0]}
    theirs = {row["method"]: row["accuracy"] for row in PAPER.rows}
    rows = []
    for name, found in scores.items():
        gap = found - scores["CIK"]
        error = gap.std(axis=0, ddof=1) / np.sqrt(len(gap))
        rows.append(
            (
                *(name, found[:, 0].mean(), theirs.get(name), gap[:, 0].mean(), error[0]),
                *(found[:, 1].mean(), gap[:, 1].mean(), error[1], len(sets)),
            )
        )
    columns = (
        *("method", "accuracy", "paper's, its data", "minus CIK's", "se"),
        *("log loss", "minus CIK's ", "se ", "sets"),
    )
    by = {row[0]: row for row in rows}
    verdicts = [
        Verdict(
            f"{name} is at least as accurate as CIK over the sets (the paper: {theirs[name]} and {theirs['CIK']})",
            "a difference above minus two standard errors",
            f"{by[name][3]:+.3f}, standard error {by[name][4]:.3f}",
            bool(by[name][3] > -2.0 * by[name][4]),
        )
        for name in ("AMP", "DSGQ")
        if len(sets) >= FEWEST
    ]
    table = Table(kind, columns, tuple(rows), f"{len(sets)} sets of {N} samples and 8 features, five folds each.")
    return Section(kind, "", (table,), tuple(verdicts))
