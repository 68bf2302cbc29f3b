"""Effective draws of θ for a second of CPU: pseudo-marginal with the exact engine against annealed sampling."""

from __future__ import annotations

import time

from papers.common import Section, Setting, Table, Verdict, tell
from papers.filippone2014.shared import ESTIMATORS, chains, data_set, effective_size, tune

WANTED = 5.0


def run(setting: Setting) -> Section:
    """Glass and thyroid, isotropic; the annealed chain is the paper's with ten particles."""
    draws, n_chains = setting.choose((150, 2), (1500, 4))
    rows, verdicts = [], []
    for name in ("glass", "thyroid"):
        tuned = tune(data_set(name, "isotropic"), setting.choose(300, 2000), setting.seed)
        rates = {}
        for label in ("exact, 64", "AIS, 10"):
            begin = time.process_time()
            outcome = chains(tuned, ESTIMATORS[label], n_chains, 0, draws, setting.seed)
            seconds = time.process_time() - begin
            size = effective_size(outcome)
            rates[label] = size / seconds
            rows.append((name, label, n_chains * draws, size, seconds, rates[label]))
            tell(*rows[-1])
        ratio = rates["exact, 64"] / rates["AIS, 10"]
        verdicts.append(
            Verdict(
                f"{name}: effective draws a second",
                f"{WANTED:g} times AIS's",
                f"{ratio:.1f}",
                ratio >= WANTED,
            )
        )
    columns = ("data", "estimator", "iterations", "effective draws", "CPU seconds", "effective a second")
    return Section(
        "speed", "Effective draws a second", (Table("speed", columns, tuple(rows)),), tuple(verdicts)
    )
