"""A Tables 2 and 3: probabilities and evidence of the linear kernel on one feature, against the closed form (A
eq. 66).

One set of runs, each stored when it is measured, gives both tables: Table 2 is the error of the probabilities, Table 3
that of the log evidence. A run with ``--minutes`` shows the rows with all their runs and names the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from gpclass.inference import Exact
from papers import truths
from papers.atiya2020.counting import count_run
from papers.atiya2020.later import Later
from papers.atiya2020.shared import Linear, classify, mae, mape, particles, published
from papers.common import Section, Setting, Table, Verdict, tell
from papers.store import NoTime, cell

PAPER = "atiya2020"
BEST = 3_000_000
EXACT = (2000, 20_000)
HARD = "gpc-mc-hard, counted"  # both counts are hard, as in A eq. 57 and 61
MOST = {"quick": 3_000_000, "usual": 20_000_000}  # draws times rows of a run; no limit in full
SOFT = 100_000  # most draws of the soft count
PARTICLES = (10_000, 100_000)
COLUMNS = {1: "p1_n100", 2: "p2_n200", 3: "p3_n400", 4: "p4_n800"}


def measure(method: str, number: int, M: int, repeats: int, seed: int) -> tuple[np.ndarray, np.ndarray, float, int]:
    """MAE and MAPE of each run, the CPU seconds of one, and the number of k-hat warnings."""
    found = [
        cell(PAPER, f"linear-{number}-{method}-{M}-{r}".replace(", ", "-"), {"seed": seed}, one)
        for r, one in ((r, partial(_one, method, number, M, seed + r)) for r in range(repeats))
    ]
    errors, percents, seconds, worried = (
        np.array([one[name] for one in found]) for name in ("mae", "mape", "seconds", "worried")
    )
    return errors, percents, float(seconds.mean()), int(worried.sum())


def _one(method: str, number: int, M: int, seed: int) -> dict[str, Any]:
    """One run, of both tables."""
    problem = Linear.draw(number, seed)
    if method == "exact":
        answer = classify(problem, Exact(n_samples=M), seed)
    else:
        answer = particles(problem, M, seed, count_run if method == HARD else None)
    return {
        "mae": mae(problem, answer),
        "mape": mape(problem, answer),
        "seconds": answer.seconds,
        "worried": int(answer.worried),
    }


def plan(number: int, setting: Setting) -> list[tuple[str, int, int]]:
    """Methods, draws and repeats for one problem."""
    n = truths.LINEAR_PROBLEMS[number].n
    rows = []
    for M in setting.choose(PARTICLES, (10_000, 30_000, 100_000, 300_000, 1_000_000, BEST)):
        if setting.full or M * n <= MOST[setting.size]:
            repeats = setting.count(6 if M * n <= 10_000_000 else 3, 20)
            rows += [("gpc-mc", M, repeats)] if M <= SOFT else []  # the paper counts hard
            rows += [(HARD, M, repeats)]
    return rows + [("exact", M, setting.count(5, 20)) for M in EXACT]


def table(which: int, setting: Setting, problems: Sequence[int] = tuple(COLUMNS)) -> Section:
    """Table 2 (MAE of the probabilities) or Table 3 (MAPE of the log evidence)."""
    measure_name, title = {
        2: ("MAE", "Table 2: probabilities, linear kernel"),
        3: ("MAPE %", "Table 3: log evidence, linear kernel"),
    }[which]
    paper = published(which)
    rows, verdicts, later = [], [], Later("runs")
    for number in problems:
        column, best = COLUMNS[number], paper.row(samples=BEST)[COLUMNS[number]]
        for method, M, repeats in plan(number, setting):
            try:
                found = measure(method, number, M, repeats, setting.seed)
            except NoTime:
                later.add(f"P{number}", method, M, repeats)
                continue
            later.took(f"P{number}", method, M, found[2])
            errors, seconds = found[which - 2], found[2]
            error, spread = errors.mean(), errors.std(ddof=1) / np.sqrt(repeats)
            theirs = paper.get(column, samples=M) if method != "exact" else None
            worried = found[3] if method == "exact" else None
            rows.append((f"P{number}", method, M, repeats, error, spread, theirs, best / error, seconds, worried))
            tell(f"table{which}", *rows[-1])
            if method == "exact" and max(EXACT) == M:
                claim = f"P{number}: exact with {M:,} draws against the paper's 3,000,000 ({best} {measure_name})"
                verdicts.append(
                    Verdict(claim, "below", f"{best / error:,.1f}x below ({error:.1e})", bool(error < best))
                )
    if not rows:
        raise NoTime(f"no row of Table {which} is measured yet; the same command goes on from there")
    result = Table(
        f"table{which}",
        (
            "problem",
            "method",
            "draws",
            "runs",
            measure_name,
            "its s.e.",
            "paper's",
            "paper's best / ours",
            "CPU s per run",
            "k-hat warned",
        ),
        tuple(rows),
        "The paper's column is its entry for the same number of samples; its best is the row of 3,000,000.",
    )
    notes, judged = _compared(rows)
    return Section(f"table{which}", title, (result,), (*verdicts, *judged), (*notes, *later.note()))


def _compared(rows: list[tuple[Any, ...]]) -> tuple[list[str], list[Verdict]]:
    """Both counts beside the paper's errors, if both have rows."""
    hard, soft = (_over_paper(rows, method) for method in (HARD, "gpc-mc"))
    if hard is None or soft is None:
        return [], []
    note = (
        "The paper counts twice, in training (eq. 57) and at prediction (eq. 61). The library's predictions average "
        f"the link over the particles (eq. 62), with {soft:.2f} times the paper's error here (geometric mean over the "
        f"rows); with the count at prediction too, in the rows “{HARD}”, it is {hard:.2f} times."
    )
    claim = "hard counts, ours over the paper's error, geometric mean over the table"
    return [note], [Verdict(claim, "within a factor of 1.5", f"{hard:.2f}", bool(1 / 1.5 <= hard <= 1.5))]


def _over_paper(rows: list[tuple[Any, ...]], method: str) -> float | None:
    """Geometric mean of our error over the paper's, of the rows of a method that it has too; None if there are none."""
    logs = [np.log(row[4] / row[6]) for row in rows if row[1] == method and row[6] is not None]
    return float(np.exp(np.mean(logs))) if logs else None


def table2(setting: Setting, problems: Sequence[int] = tuple(COLUMNS)) -> Section:
    """MAE of the probabilities."""
    return table(2, setting, problems)


def table3(setting: Setting, problems: Sequence[int] = tuple(COLUMNS)) -> Section:
    """MAPE of the log evidence."""
    return table(3, setting, problems)
