"""Effective draws of θ for a second of CPU: pseudo-marginal with the exact engine against annealed sampling."""

from __future__ import annotations

import time

from papers.common import Section, Setting, Table, Verdict, tell
from papers.filippone2014.shared import ESTIMATORS, chains, data_set, effective_size, tune

WANTED = 5.0
ROWS = (("exact, 64", False), ("exact, 64", True), ("AIS, 10", False), ("AIS, 10", True))


def run(setting: Setting) -> Section:
    """Glass and thyroid, isotropic; the annealed chain is the paper's with ten particles, also screened."""
    draws, n_chains = setting.choose((400, 2), (1500, 4))
    rows, verdicts = [], []
    for name in ("glass", "thyroid"):
        tuned = tune(data_set(name, "isotropic"), setting.choose(300, 2000), setting.seed)
        rates = {}
        for label, screen in ROWS:
            begin = time.process_time()
            outcome = chains(tuned, ESTIMATORS[label], n_chains, 0, draws, setting.seed, screen)
            seconds = time.process_time() - begin
            size = effective_size(outcome)
            shown = f"{label}, screened" if screen else label
            rates[shown] = size / seconds
            rows.append((name, shown, n_chains * draws, size, seconds, rates[shown]))
            tell(*rows[-1])
        ratio = max(rates["exact, 64"], rates["exact, 64, screened"]) / rates["AIS, 10"]
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
