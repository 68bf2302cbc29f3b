"""F Table I: acceptance rates, by data set, covariance and estimator of the evidence.

One proposal for all, tuned on Laplace's evidence. The reference is the chain with EP's deterministic evidence: the
acceptance "as if the likelihood were known exactly". Every chain is stored when it is done (:mod:`papers.store`), so an
interrupted run continues where it stopped; rows and proposals of the full size can be kept for good
(:mod:`papers.keep`). A full run with ``--minutes`` shows the rows that are complete, and of sets that it has not
reached those of the usual size, if these were measured.
"""

from __future__ import annotations

import time
from contextlib import suppress
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
    settled,
    tune,
)
from papers.store import NoTime, cell

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


FULL = dict.fromkeys(FILES, Size(5, 500, 1500))  # the paper's, for every row and set, banknote whole
SMALL = ("glass", "thyroid")  # those of the comparison of speed
LARGE = Size(2, 100, 400)
USUAL = {
    **dict.fromkeys(SMALL, Size(2, 20, 120)),
    **{"breast": LARGE, "pima": LARGE, "banknote": replace(LARGE, rows=400)},
}
QUICK = {"glass": Size(2, 10, 30)}


def run(setting: Setting) -> Section:
    """All rows of the table, at the chosen size as far as there is time."""
    paper, rows, verdicts, later = published(), [], [], []
    tuned, short = [], 0.0
    for name, covariance in ((name, covariance) for name in sizes(setting) for covariance in COVARIANCES):
        largest = _largest(setting, covariance, name)
        if largest is None:
            later.append(f"{name} {covariance}")
            continue
        each, found = largest
        size = sizes(each)[name]
        length = f"{size.chains} x {size.draws}"
        for label, one in found.items():
            theirs = _published(paper, covariance, label, name)
            rows.append(
                (
                    *(covariance, name, one["n"], label, length, one["percent"], one["error"]),
                    *(one["spread"], *theirs, one["sd"], one["seconds"] * 1e3),
                )
            )
        verdicts.append(_verdict(covariance, name, found))
        tuned.append(f"{name} {covariance} {100 * tuned_proposal(each, covariance, name).acceptance:.0f} %")
        short += _hours(name, covariance, found) if setting.full and not each.full else 0.0
    if not rows:
        raise NoTime("no row of Table I is measured yet; the same command goes on from there")
    columns = (
        *("covariance", "data", "n", "estimator", "chains x draws", "accepted %", "se", "sd over chains"),
        *("published", "its sd", "sd of log evidence", "CPU ms per iteration"),
    )
    notes = [
        "Rows without a published number are ours: EP's evidence is deterministic and only the reference. Proposals "
        "were tuned on Laplace's evidence, then scaled until the chain with EP's evidence accepts 20 to 30 %, before "
        f"anything was compared: {', '.join(tuned)}.",
    ]
    if short:
        notes.append(
            "The paper has 5 chains of 1500 draws after 500 in every row, and banknote whole. Rows with fewer were not "
            f"reached: at its size they take about {short:.0f} hours of one processor, by the times of this table and "
            "the cube of n."
        )
    notes += [f"Not measured yet, and so not shown: {', '.join(later)}."] if later else []
    notes += left_out(FILES[name] for name in wanted(setting))
    table = Table("table1", columns, tuple(rows))
    return Section("table1", "Table I: acceptance", (table,), tuple(verdicts), tuple(notes))


def _largest(setting: Setting, covariance: str, name: str) -> tuple[Setting, dict[str, dict[str, Any]]] | None:
    """The rows of a set at this size, or if the time is over at the usual one, as far as they are stored."""
    for each in dict.fromkeys((setting, replace(setting, full=False))):
        with suppress(NoTime):
            return each, {label: measured(each, covariance, name, label) for label in ESTIMATORS}
    return None


def _hours(name: str, covariance: str, found: dict[str, dict[str, Any]]) -> float:
    """What the rows of a set take at the paper's size, by their time per iteration and the cube of n."""
    n, size = data_set(name, covariance).n, FULL[name]
    iterations = size.chains * (size.discard + size.draws)
    return sum(iterations * one["seconds"] * (n / one["n"]) ** 3 for one in found.values()) / 3600.0


def sizes(setting: Setting) -> dict[str, Size]:
    """Data sets that can be had, and the lengths of their chains."""
    return {name: size for name, size in wanted(setting).items() if not missing(FILES[name])}


def wanted(setting: Setting) -> dict[str, Size]:
    """Data sets of the size of a run, whether they can be had or not."""
    found: dict[str, Size] = setting.choose(USUAL, FULL, QUICK)
    return {name: replace(size, chains=setting.repeats or size.chains) for name, size in found.items()}


def tuning_length(setting: Setting) -> int:
    """Iterations of the preliminary run."""
    return int(setting.choose(300, 2000, 150))


def tuned_proposal(setting: Setting, covariance: str, name: str) -> Tuned:
    """The proposal common to all estimators of one data set."""
    size, iterations = sizes(setting)[name], tuning_length(setting)
    problem = data_set(name, covariance, size.rows)

    def measure() -> dict[str, Any]:
        tuned = settled(tune(problem, iterations, setting.seed), setting.choose(200, 500, 100), setting.seed)
        tell("tuned", covariance, name, tuned.acceptance)
        return {
            "theta": tuned.mode.theta,
            "covariance": tuned.mode.covariance,
            "acceptance": tuned.acceptance,
        }

    settings = {"rows": size.rows, "iterations": iterations, "settled": True, "seed": setting.seed}
    found = cell(PAPER, _file(setting, covariance, name, "tuned"), settings, measure)
    mode = Mode(np.array(found["theta"]), np.array(found["covariance"]), 0)
    return Tuned(problem, mode, found["acceptance"])


def measured(setting: Setting, covariance: str, name: str, label: str) -> dict[str, Any]:
    """One row, of its chains: acceptance in percent, its error, its spread, and the noise of the estimator."""
    size, tuned = sizes(setting)[name], tuned_proposal(setting, covariance, name)
    settings = {**_settings(size, label, setting), "chains": size.chains}

    def assemble() -> dict[str, Any]:
        found = [one_chain(setting, covariance, name, label, r) for r in range(size.chains)]
        percent, error, spread = acceptance([one["accepted"] for one in found])
        theta = np.array([one["theta"] for one in found])
        file = _file(setting, covariance, name, f"{label} noise")
        sd = cell(PAPER, file, settings, lambda: {"sd": _noise(tuned, label, theta, setting.seed)})["sd"]
        return {
            "n": tuned.problem.n,
            "percent": percent,
            "error": error,
            "spread": spread,
            "sd": sd,
            "effective": effective_size(theta),
            "seconds": float(np.mean([one["seconds"] for one in found])),
        }

    return cell(PAPER, _file(setting, covariance, name, f"{label} row"), settings, assemble, assembled=True)


def one_chain(setting: Setting, covariance: str, name: str, label: str, r: int) -> dict[str, Any]:
    """Whether each move of a chain was accepted, its θ, and its CPU seconds per iteration."""
    size = sizes(setting)[name]

    def measure() -> dict[str, Any]:
        tuned = tuned_proposal(setting, covariance, name)
        begin, seed = time.process_time(), setting.seed + 1 + 1000 * r
        outcome = chains(tuned, ESTIMATORS[label], 1, size.discard, size.draws, seed)
        seconds = (time.process_time() - begin) / (size.discard + size.draws)
        taken = outcome.stack("accepted")[0]
        tell(covariance, name, label, f"chain {r}", 100.0 * float(taken.mean()), 1e3 * seconds)
        return {"accepted": taken.astype(int), "theta": outcome.stack("theta")[0], "seconds": seconds}

    return cell(PAPER, _file(setting, covariance, name, f"{label} {r}"), _settings(size, label, setting), measure)


def _settings(size: Size, label: str, setting: Setting) -> dict[str, Any]:
    return {**asdict(replace(size, chains=1)), "estimator": repr(ESTIMATORS[label]), "seed": setting.seed}


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
