"""F Table I: acceptance rates, by data set, covariance and estimator of the evidence.

One proposal for all, tuned on Laplace's evidence. The reference is the chain with EP's deterministic evidence: the
acceptance "as if the likelihood were known exactly". Every cell is stored when measured (:mod:`papers.store`), so an
interrupted run continues where it stopped.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from gpclass.hyper.proposal import Mode
from papers.common import Section, Setting, Table, Verdict, left_out, missing, tell
from papers.filippone2014.shared import (
    ESTIMATORS,
    FILES,
    Tuned,
    acceptance,
    chains,
    data_set,
    effective_size,
    estimator,
    published,
    tune,
)
from papers.store import cell

PAPER = "filippone2014"
COVARIANCES = ("isotropic", "ard")
REPEATS, PLACES = 10, 8  # estimates at each of some θ for the standard deviation of their logarithm


@dataclass(frozen=True)
class Size:
    """Length of a cell's chains."""

    chains: int
    discard: int
    draws: int
    rows: int | None = None  # most rows of the data set


FULL = {
    "glass": Size(5, 500, 1500),
    "thyroid": Size(5, 500, 1500),
    "breast": Size(2, 50, 400),
    "pima": Size(2, 50, 400),
    "banknote": Size(2, 50, 400, 400),
}
SMALL, LARGE = ("glass", "thyroid"), ("breast", "pima", "banknote")
TUNING = {**dict.fromkeys(SMALL, 2000), **dict.fromkeys(LARGE, 500)}
USUAL = {"glass": Size(2, 20, 120), "thyroid": Size(2, 20, 120)}
QUICK = {"glass": Size(2, 10, 30)}


def run(setting: Setting) -> Section:
    """All rows of the table for the chosen size."""
    paper, rows, verdicts = published(), [], []
    for covariance in COVARIANCES:
        for name in sizes(setting):
            found = {label: measured(setting, covariance, name, label) for label in ESTIMATORS}
            for label, one in found.items():
                theirs = _published(paper, covariance, label, name)
                size = length_of(setting, name, label)
                length = f"{size.chains} x {size.draws}"
                rows.append(
                    (
                        *(covariance, name, one["n"], label, length, one["percent"], one["error"]),
                        *(one["spread"], *theirs, one["sd"], one["seconds"] * 1e3),
                    )
                )
            verdicts.append(_verdict(covariance, name, found))
    columns = (
        *("covariance", "data", "n", "estimator", "chains x draws", "accepted %", "se", "sd over chains"),
        *("published", "its sd", "sd of log evidence", "CPU ms per iteration"),
    )
    lengths = {name: tuning_length(setting, name) for name in sizes(setting)}
    note = (
        "Rows without a published number are ours: EP's evidence is deterministic and only the reference. Proposals "
        "were tuned on Laplace's evidence for "
        + ", ".join(f"{n:,} iterations ({name})" for name, n in lengths.items())
        + "; where that is short for the number of parameters, chains of all estimators accept less or mix slowly."
    )
    notes = (note, *left_out(FILES[name] for name in _wanted(setting)))
    return Section("table1", "Table I: acceptance", (Table("table1", columns, tuple(rows)),), tuple(verdicts), notes)


def sizes(setting: Setting) -> dict[str, Size]:
    """Data sets that can be had, and the lengths of their chains."""
    return {name: size for name, size in _wanted(setting).items() if not missing(FILES[name])}


def _wanted(setting: Setting) -> dict[str, Size]:
    return dict(setting.choose(USUAL, FULL, QUICK))


def length_of(setting: Setting, name: str, label: str) -> Size:
    """Length of the chains of one cell: shorter for IS and AIS, except those in the speed comparison."""
    size = sizes(setting)[name]
    if not setting.full or "IS" not in label or (label == "AIS, 10" and name in SMALL):
        return size
    return replace(size, **({"discard": 100, "draws": 500} if name in SMALL else {"discard": 20, "draws": 100}))


def tuning_length(setting: Setting, name: str) -> int:
    """Iterations of the preliminary run."""
    return int(setting.choose(300, TUNING[name], 150))


def tuned_proposal(setting: Setting, covariance: str, name: str) -> Tuned:
    """The proposal common to all estimators of one data set."""
    size, iterations = sizes(setting)[name], tuning_length(setting, name)
    problem = data_set(name, covariance, size.rows)

    def measure() -> dict[str, Any]:
        tuned = tune(problem, iterations, setting.seed)
        tell("tuned", covariance, name, tuned.acceptance)
        return {
            "theta": tuned.mode.theta,
            "covariance": tuned.mode.covariance,
            "acceptance": tuned.acceptance,
        }

    settings = {"rows": size.rows, "iterations": iterations, "seed": setting.seed}
    found = cell(PAPER, _file(setting, covariance, name, "tuned"), settings, measure)
    mode = Mode(np.array(found["theta"]), np.array(found["covariance"]), 0)
    return Tuned(problem, mode, found["acceptance"])


def measured(setting: Setting, covariance: str, name: str, label: str) -> dict[str, Any]:
    """One cell: acceptance in percent, its error, its spread, and the noise of the estimator."""
    size = length_of(setting, name, label)

    def measure() -> dict[str, Any]:
        tuned = tuned_proposal(setting, covariance, name)
        begin = time.process_time()
        outcome = chains(tuned, ESTIMATORS[label], size.chains, size.discard, size.draws, setting.seed + 1)
        seconds = (time.process_time() - begin) / (size.chains * (size.discard + size.draws))
        percent, error, spread = acceptance(outcome)
        sd = _noise(tuned, label, outcome.stack("theta"), setting.seed)
        tell(covariance, name, label, percent, error, sd, 1e3 * seconds)
        return {
            "n": tuned.problem.n,
            "percent": percent,
            "error": error,
            "spread": spread,
            "sd": sd,
            "effective": effective_size(outcome),
            "seconds": seconds,
        }

    settings = {**asdict(size), "estimator": repr(ESTIMATORS[label]), "seed": setting.seed}
    return cell(PAPER, _file(setting, covariance, name, label), settings, measure)


def _noise(tuned: Tuned, label: str, theta: Any, seed: int) -> float | None:
    """Root mean square over some θ of the chains of the standard deviation of the log evidence; None: no noise."""
    if label == "EP's evidence":
        return None
    flat, density = theta.reshape(-1, theta.shape[-1]), estimator(tuned, ESTIMATORS[label])
    few = flat[np.linspace(0, len(flat) - 1, PLACES).astype(int)]
    found = [[density.posterior(x, np.random.default_rng([seed, k])) for k in range(REPEATS)] for x in few]
    logs = [[one.evidence.log_z for one in some if one is not None] for some in found]
    return float(np.sqrt(np.mean([np.var(some, ddof=1) for some in logs])))


def _file(setting: Setting, covariance: str, name: str, label: str) -> str:
    plain = label.replace("'s ", " ").replace(", ", " ").replace(" ", "-").lower()
    return f"{setting.size}-{covariance}-{name}-{plain}"


def _published(paper: Any, covariance: str, label: str, name: str) -> tuple[float | None, float | None]:
    kind, _, size = label.partition(", ")
    if kind not in ("IS", "AIS"):
        return None, None
    key = {"covariance": covariance, "n_imp": float(size), "estimator": kind}
    return paper.get(name, **key), paper.get(f"{name}_sd", **key)


def _verdict(covariance: str, name: str, found: dict[str, dict[str, Any]]) -> Verdict:
    ep, exact = found["EP's evidence"], found["exact, 64"]
    error = (ep["error"] ** 2 + exact["error"] ** 2) ** 0.5
    return Verdict(
        f"{name}, {covariance}: exact with 64 draws accepts as if the evidence were known",
        f"at least {ep['percent']:.1f} - 5 - 2 x {error:.1f} %",
        f"{exact['percent']:.1f} %",
        exact["percent"] >= ep["percent"] - 5.0 - 2.0 * error,
    )
