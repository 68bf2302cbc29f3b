"""A §6.4: seconds of Table 4's methods by parameter set, over those of the first two sets.

A reports control variables about ten times as slow at α = 0.5 as at α = 5, at the same number of iterations, and its
own method equally fast everywhere. The seconds are those of Table 4's cells, on the problems that have control
variables: nothing is measured twice.
"""

from __future__ import annotations

import numpy as np

from papers.atiya2020.table4 import BY_SIZE, CONTROLS_UP_TO, REAL, SETS, measured, task
from papers.common import Section, Setting, Table, left_out, missing, tell

FIRST = 2  # sets with which the others are compared
SECONDS = -1  # place in a cell


def run(setting: Setting) -> Section:
    """Seconds of every method and parameter set, the geometric mean over the problems."""
    wanted = BY_SIZE[: setting.repeats or setting.choose(4, 7, 2)]
    numbers = [number for number in wanted if number not in REAL or not missing(REAL[number])]
    numbers = [number for number in numbers if len(task(number).y) <= CONTROLS_UP_TO]
    cells = [[measured(setting, number, alpha, beta) for alpha, beta in SETS] for number in numbers]
    rows = []
    for method in cells[0][0]:
        log = np.log([[one[method][SECONDS] for one in each] for each in cells])  # (problems, sets)
        above = log - np.log(np.exp(log[:, :FIRST]).mean(axis=1, keepdims=True))
        for k, (alpha, beta) in enumerate(SETS):
            ratio, se = float(above[:, k].mean()), float(above[:, k].std(ddof=1) / np.sqrt(len(numbers)))
            rows.append((method, alpha, beta, len(numbers), float(np.exp(ratio)), ratio, se))
            tell("times", *rows[-1])
    columns = ("method", "α", "β", "problems", "× sets 1, 2", "log of × sets 1, 2", "se")
    note = f"Problems {', '.join(map(str, sorted(numbers)))} of Table 4, which have control variables."
    return Section(
        "times",
        "Table 4's seconds by parameter set",
        (Table("times", columns, tuple(rows), "CPU seconds over those of the first two parameter sets."),),
        notes=(note, *left_out(REAL[number] for number in wanted if number in REAL)),
    )
