"""R Table 1: five-fold accuracy and seconds of all methods, with parameters nested inside each training fold.

Stand-ins: (a) the doubly stochastic model in eight dimensions, where the true probability is known; (b) buoys of the
seas (rough or not) and the Meuse (zinc above 500 ppm). Seconds are CPU seconds of five fits and predictions with the
parameters found: as in the paper, the search is not included.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gpclass.datasets import load, roeder_field
from gpclass.folds import stratified_folds
from gpclass.geostat import ChordalCoordinates
from papers.common import Section, Setting, Table, Verdict, left_out, missing, read_published, tell
from papers.roeder2011.ladder import CORE, MORE, SCORE_COLUMNS, Effort, answer, pointwise, score_rows

PAPER = read_published(Path(__file__).parent / "published" / "table1.csv")
FOLDS = 5
SIZE = 114  # samples of the paper, at which its seconds are to be beaten
WAVES, MEUSE = "ndbc_waves_snapshot", "meuse"


def stand_ins(seed: int) -> dict[str, tuple[Any, Any, Any]]:
    """Name to coordinates, labels, and true probabilities if known; without the sets that cannot be had."""
    simulated = roeder_field(SIZE, n_features=8, sill=9.0, length_scale=0.5, random_state=seed + 1)
    found = {"simulated, d = 8": (simulated.X, simulated.y, simulated.probability[:, 1])}
    if not missing(WAVES):
        waves = load(WAVES)
        at_sea = ~waves.ids["id_station"].astype(str).str.startswith("45").to_numpy()  # no lakes
        chords = ChordalCoordinates().fit_transform(waves.X.to_numpy()[at_sea])
        found["waves"] = chords, waves.y[at_sea], None
    if not missing(MEUSE):
        meuse = load(MEUSE)
        found["meuse"] = meuse.X[["x", "y"]].to_numpy(), meuse.y, None
    return found


def run(setting: Setting) -> Section:
    """Five folds of every method on every stand-in."""
    effort = setting.choose(
        Effort(), Effort(n_points=30, rounds=2, draws=1000, tol=1e-3), Effort(n_points=8, draws=100, tol=0.01)
    )
    rows, scores, verdicts = [], [], []
    for data, (X, y, truth) in stand_ins(setting.seed).items():
        fold = stratified_folds(y, FOLDS, np.random.default_rng(setting.seed))
        found, seconds = {}, {}
        for name in (*CORE, *MORE):
            p, tuning, spent = np.empty(len(y)), 0.0, 0.0
            for k in range(FOLDS):
                test = fold == k
                p[test], a, b, _ = answer(name, X[~test], y[~test], X[test], setting.seed, effort)
                tuning, spent = tuning + a, spent + b
            found[name], seconds[name] = p, spent
            right = pointwise(y, p)["accuracy"]
            half = 1.96 * np.sqrt(right.mean() * (1 - right.mean()) / len(y))
            like = truth is not None  # the stand-in of the paper's own shape
            theirs = next((r for r in PAPER.rows if like and r["method"] == name), {})
            ratio = spent / seconds["CIK"]
            rows.append(
                (
                    data,
                    name,
                    right.mean(),
                    half,
                    theirs.get("accuracy"),
                    spent,
                    ratio,
                    tuning,
                    theirs.get("seconds"),
                )
            )
            tell("table1", *rows[-1])
        scores += [(data, *row) for row in score_rows(y, found, np.arange(len(y)), setting.seed)]
        if truth is not None:
            scores.append((data, "true probability", *_of_truth(y, truth)))
        verdicts += _judge(data, len(y), found, seconds)
    return Section(
        "table1",
        "Table 1: accuracy and time of the ladder",
        (
            Table(
                "table1",
                ("data", "method", "accuracy", "±", "paper", "s", "× CIK", "s to tune", "paper s"),
                tuple(rows),
                "Five folds, parameters found inside each training fold. Seconds of CPU for five fits and "
                "predictions; the paper's accuracies and seconds refer to its own data and machine.",
            ),
            Table(
                "table1_scores",
                ("data", *SCORE_COLUMNS),
                tuple(scores),
                "Scores of the same predictions; differences from exact with 95 % paired bootstrap intervals.",
            ),
        ),
        tuple(verdicts),
        left_out((WAVES, MEUSE)),
    )


def _of_truth(y: Any, truth: np.ndarray) -> list[Any]:
    cells: list[Any] = []
    for values in pointwise(y, truth).values():
        cells += [float(values.mean()), "–"]
    return cells


def _judge(data: str, n: int, found: dict[str, np.ndarray], seconds: dict[str, float]) -> list[Verdict]:
    same = float(np.mean((found["CIK"] > 0.5) == (found["SIK"] > 0.5)))
    verdicts = [Verdict(f"{data}: CIK and SIK share their decisions", "all points", f"{100 * same:.1f} %", same > 0.99)]
    if n == SIZE:
        theirs, kriging = (PAPER.row(method=method)["seconds"] for method in ("DSGQ", "CIK"))
        verdicts.insert(
            0,
            Verdict(
                f"{data}: DSGQ, five folds of n = {n}, parameters fixed",
                "under 1 s of CPU",
                f"{seconds['DSGQ']:.2f} s, {seconds['DSGQ'] / seconds['CIK']:.0f} × CIK "
                f"(paper: {theirs:.0f} s, {theirs / kriging:.0f} ×)",
                seconds["DSGQ"] < 1.0,
            ),
        )
    return verdicts
