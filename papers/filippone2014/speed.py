"""Effective draws of θ per CPU second: pseudo-marginal with the exact method against annealed sampling.

Glass and thyroid, isotropic. The exact chains use the strategy's defaults: a proposal is screened by EP's evidence,
whose sites then guide the draws. For comparison: the chains of Table I, without screening, and annealed sampling
screened by Laplace's evidence, which is inaccurate if the kernel's variance is large.
"""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import Any

from papers.common import Section, Setting, Table, Verdict, left_out, tell
from papers.filippone2014.shared import ESTIMATORS, FILES, acceptance, chains, effective_size
from papers.filippone2014.table1 import PAPER, SMALL, measured, sizes, tuned_proposal, wanted
from papers.store import cell

WANTED = 5.0
FEWEST = 100  # draws of a chain from which its effective draws say something
OURS, THEIRS = "exact, 64", "AIS, 10"


def run(setting: Setting) -> Section:
    """The annealed chain is the paper's with ten particles from Laplace's Gaussian."""
    rows, verdicts = [], []
    for name in (name for name in SMALL if name in sizes(setting)):
        found = {}
        for label in (OURS, THEIRS):
            found[label, False] = measured(setting, "isotropic", name, label)
            found[label, True] = screen(setting, name, label)
        rates = {}
        for (label, screened), one in found.items():
            size = screened_length(setting, name, label) if screened else sizes(setting)[name]
            draws = size.chains * size.draws
            rates[label, screened] = one["effective"] / (draws * one["seconds"])
            rows.append(
                (
                    *(name, f"{label}, screened" if screened else label, draws, one["percent"]),
                    *(one["effective"], 1e3 * one["seconds"], rates[label, screened]),
                )
            )
        ratio = rates[OURS, True] / rates[THEIRS, False]
        if sizes(setting)[name].draws >= FEWEST:
            verdicts.append(
                Verdict(
                    f"{name}: effective draws per second of exact",
                    f"{WANTED:g} times AIS's",
                    f"{ratio:.1f}",
                    ratio >= WANTED,
                )
            )
    columns = (
        *("data", "estimator", "draws", "accepted %", "effective draws", "CPU ms per iteration"),
        "effective draws per CPU second",
    )
    table = Table("speed", columns, tuple(rows))
    notes = left_out(FILES[name] for name in SMALL if name in wanted(setting))
    return Section("speed", "Effective draws per second", (table,), tuple(verdicts), notes)


def screened_length(setting: Setting, name: str, label: str) -> Any:
    """As in Table I; the screened annealed chains are only for comparison, and half as long."""
    size = sizes(setting)[name]
    return size if label == OURS else replace(size, discard=size.discard // 2, draws=size.draws // 2)


def screen(setting: Setting, name: str, label: str) -> dict[str, Any]:
    """One estimator with screening."""
    size = screened_length(setting, name, label)

    def measure() -> dict[str, Any]:
        tuned = tuned_proposal(setting, "isotropic", name)
        begin = time.process_time()
        outcome = chains(tuned, ESTIMATORS[label], size.chains, size.discard, size.draws, setting.seed + 1, screen=True)
        seconds = (time.process_time() - begin) / (size.chains * (size.discard + size.draws))
        effective = effective_size(outcome.stack("theta"))
        tell("screened", name, label, effective, 1e3 * seconds)
        return {
            "percent": acceptance(outcome.stack("accepted"))[0],
            "effective": effective,
            "seconds": seconds,
        }

    settings = {**asdict(size), "estimator": repr(ESTIMATORS[label]), "seed": setting.seed}
    file = f"{setting.size}-screened-{name}-{label.replace(', ', '-').lower()}"
    return cell(PAPER, file, settings, measure)
