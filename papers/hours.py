"""Hours of one processor that a paper's own size takes, from the times on our pages.

Each function takes the tables of a section. Particles and iterations cost in proportion to their number, chains of θ
in proportion to the cube of the rows as well.
"""

from __future__ import annotations

from papers.atiya2020.figures import SKIP
from papers.atiya2020.shared import published
from papers.atiya2020.table4 import FULL as LONGEST
from papers.atiya2020.table4 import LARGE, QUICK, SETS
from papers.common import Setting
from papers.filippone2014.table1 import FULL
from papers.pages import MissingRowsError, Row, Tables, number, values
from papers.williams1998.glass import methods as glass_methods

BANKNOTE = 1372  # rows
FOLDS = 10


def _first(t: Tables) -> list[Row]:
    """The rows of the first table, if there is one."""
    if not t:
        raise MissingRowsError("no table")
    return t[0]


def table1(t: Tables) -> float:
    """A Table 1: the hard count at all its numbers of samples, fifty problems."""
    return 50 * _per_draw(t, "hard", "n", "CPU s per problem") * _samples(1) / 3600


def tables23(t: Tables) -> float:
    """A Tables 2 and 3: the hard count at all its numbers of samples, twenty runs."""
    return 20 * _per_draw(t, "gpc-mc-hard, counted", "problem", "CPU s per run") * _samples(2) / 3600


def _samples(table: int) -> float:
    return sum(row["samples"] for row in published(table).rows)


def _per_draw(t: Tables, method: str, by: str, column: str) -> float:
    """Seconds per draw of the row with the most draws, summed over the problems."""
    rows = [row for row in _first(t) if row["method"] == method]
    if not rows:
        raise MissingRowsError(f"no row with {method!r}")
    largest = {row[by]: row for row in sorted(rows, key=lambda row: number(row["draws"]))}
    return sum(number(row[column]) / number(row["draws"]) for row in largest.values())


def table4(t: Tables) -> float:
    """A Table 4: the samplers of the problems with fewer iterations than the paper's, on every parameter set."""

    def ratio(row: Row) -> float:
        size = QUICK if number(row["n"]) < 200 else LARGE
        if row["method"] == "control-variables":
            return LONGEST.controls / size.controls
        return LONGEST.iterations / size.iterations

    rows = [row for row in _first(t) if row["method"] in ("elliptical-slice", "hmc", "control-variables")]
    short = [row for row in rows if number(row["control iterations"]) < LONGEST.controls]
    return len(SETS) * sum(number(row["CPU s per set"]) * ratio(row) for row in short) / 3600


def figures(t: Tables) -> float:
    """A Figures 1 and 2: ten runs of its steps between draws, to a thousand draws and a million particles."""
    hours = 0.0
    for method, draws, more in (("gpc-mc", "25,000", 1), ("elliptical-slice", "250", 2), ("hmc", "250", 2)):
        one = sum(
            values(_first(t), column, method=method, draws=draws)[0] for column in ("CPU s", "CPU s, evidence")[:more]
        )
        points = 1_111_000 / 25_000 if method == "gpc-mc" else (10 + 50 + 250 + 1000) / 250 * SKIP / 10
        hours += 10 * one * points / 3600
    return hours


def acceptance(t: Tables) -> float:
    """F Table I: the rows that are shorter than its chains, or have a part of banknote."""

    def hours(row: Row) -> float:
        size, n = FULL[row["data"]], number(row["n"])
        growth = (BANKNOTE / n) ** 3 if row["data"] == "banknote" else 1.0
        return size.chains * (size.discard + size.draws) * number(row["CPU ms per iteration"]) * growth / 3.6e6

    whole = {"banknote": BANKNOTE}
    return sum(
        hours(row)
        for row in _first(t)
        if row["chains x draws"] != "5 x 1500" or number(row["n"]) < whole.get(row["data"], 0)
    )


def glass(t: Tables) -> float:
    """W's glass: the sampled rows with chains of the full size."""
    few, full = (glass_methods(9, 6, Setting(full=full)) for full in (False, True))
    hours = 0.0
    for name in ("softmax Laplace, HMC, one kernel for all", "Neal's MCMC, softmax"):
        short, long = (
            one.chains * (one.warmup + one.draws) for one in (m[name][-1].hyperparameters for m in (few, full))
        )
        seconds = [number(row["CPU seconds per fold"]) for row in _first(t) if row["method"].startswith(name)]
        hours += FOLDS * sum(seconds) * long / short / 3600
    return hours
