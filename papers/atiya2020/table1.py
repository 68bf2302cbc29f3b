"""A Table 1: the orthant probability of covariances with ones on the diagonal and d_i d_j elsewhere.

The truth is a one-dimensional integral (A eq. 63). Columns: the paper's hard and soft counts, and the guided sampler.
Every problem is stored when it is measured. A run with ``--minutes`` shows the rows with all their problems, and names
the others with the time that these take.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import numpy as np

from gpclass.orthant import orthant_probability
from papers import truths
from papers.atiya2020.later import Later
from papers.atiya2020.shared import published
from papers.common import Section, Setting, Table, Verdict, tell
from papers.store import NoTime, cell

PAPER = "atiya2020"
BEST = 3_000_000  # the paper's most accurate row
GUIDED = (1000, 10_000)
WANTED = {50: 30, 200: 200, 500: 500}  # target factor below the paper's best entry
HARD_SIZES = (50, 200)  # where the hard count must agree with the table; elsewhere within the table's own errors
HARD_DRAWS = (10_000, 100_000)
FEWER = 2.0  # times less than the paper's, from which on the page says so
SOFT = 100_000  # most draws of the soft count
METHODS = {"hard": "bootstrap-hard", "soft": "bootstrap-soft", "guided": "guided"}


def measure(n: int, method: str, M: int, repeats: int, seed: int) -> tuple[np.ndarray, float]:
    """Absolute percentage errors of log P over problems, and the CPU seconds of one."""
    found = [
        cell(PAPER, f"table1-{n}-{method}-{M}-{r}", {"seed": seed}, partial(_one, n, method, M, r, seed))
        for r in range(repeats)
    ]
    return np.array([one["error"] for one in found]), float(np.mean([one["seconds"] for one in found]))


def _one(n: int, method: str, M: int, r: int, seed: int) -> dict[str, float]:
    """One problem."""
    begin, d = time.process_time(), truths.product_problem(n, np.random.default_rng([seed, n, r]))
    truth = truths.product_correlation_log_probability(d)
    found = orthant_probability(
        truths.product_correlation(d), method=METHODS[method], n_samples=M, random_state=seed + r
    )
    return {"error": 100 * abs(found.log_probability / truth - 1), "seconds": time.process_time() - begin}


def plan(n: int, setting: Setting) -> list[tuple[str, int, int]]:
    """Methods, draws and repeats at one dimension."""
    sizes = sorted(int(row["samples"]) for row in published(1).rows)
    if setting.full:
        rows = [
            (count, M, setting.count(50, 50))
            for M in sizes
            for count in ("hard", "soft")
            if count == "hard" or M <= SOFT  # the paper counts hard
        ]
    else:  # for the verdicts, and the soft count if cheap
        few = setting.count(50 if n <= 200 else 20, 50, 4 if n <= 200 else 2)
        rows = [(count, 10_000, few) for count in ("hard", "soft")]
        rows += (
            [("hard", 100_000, setting.count(50 if n <= 50 else 20, 50, 2))] if n <= setting.choose(200, 0, 50) else []
        )
    return rows + [("guided", M, setting.count(50, 50, 4)) for M in GUIDED]


def naive(n: int, M: int, repeats: int, seed: int) -> tuple[int, float]:
    """Problems with any of M draws of the whole vector in the orthant (A §4), and the median of log10 1/P."""
    hits, sizes = 0, []
    for r in range(repeats):
        d = truths.product_problem(n, np.random.default_rng([seed, n, r]))
        sizes.append(-truths.product_correlation_log_probability(d) / np.log(10.0))
        hits += any_inside(d, M, np.random.default_rng([seed, n, r, 4]))
    return hits, float(np.median(sizes))


def any_inside(d: np.ndarray, M: int, rng: np.random.Generator) -> bool:
    """Whether any of M vectors v_i = d_i u + √(1 − d_i²) e_i is positive; one that is outside is drawn no further."""
    u = rng.standard_normal(M)
    for slope in d:
        u = u[slope * u + np.sqrt(1.0 - slope**2) * rng.standard_normal(len(u)) > 0]
    return len(u) > 0


def run(setting: Setting, dimensions: Sequence[int] = truths.PRODUCT_SIZES) -> Section:
    """MAPE by method and number of draws, beside the paper's."""
    paper = published(1)
    rows, verdicts, later = [], [], Later("problems")
    for n in dimensions:
        for method, M, repeats in plan(n, setting):
            try:
                errors, seconds = measure(n, method, M, repeats, setting.seed)
            except NoTime:
                later.add(f"n = {n}", method, M, repeats)
                continue
            later.took(f"n = {n}", method, M, seconds)
            error, spread = errors.mean(), errors.std(ddof=1) / np.sqrt(repeats)
            theirs = None if method == "guided" else paper.get(f"n{n}", samples=M)
            rows.append((n, method, M, repeats, error, spread, theirs, seconds))
            tell("table1", *rows[-1])
            theirs_spread = None if theirs is None else paper.get(f"n{n}_se", samples=M)
            verdicts += _judge(n, method, M, error, spread, theirs, paper.row(samples=BEST)[f"n{n}"], theirs_spread)
    if not rows:
        raise NoTime("no row of Table 1 is measured yet; the same command goes on from there")
    table = Table(
        "table1",
        ("n", "method", "draws", "problems", "MAPE %", "its s.e.", "paper's MAPE %", "CPU s per problem"),
        tuple(rows),
        "MAPE (%) of log P; the paper's column is its hard count with the same number of draws. CPU seconds are those "
        "of the version that measured a row: rows kept from earlier runs may take less now.",
    )
    notes = (
        "The paper's best row, 3,000,000 samples: "
        + ", ".join(f"{paper.row(samples=BEST)[f'n{n}']} % (n = {n})" for n in dimensions) + ".",
        *better(rows),
        *later.note(),
    )  # fmt: skip
    draws, problems = setting.choose(100_000, 1_000_000, 20_000), setting.count(5, 50)
    found = [(n, draws, problems, *naive(n, draws, problems, setting.seed)) for n in dimensions]
    plain = Table(
        "table1_naive",
        ("n", "draws", "problems", "problems with any draw in the orthant", "median log10 of 1/P"),
        tuple(found),
        "Naive Monte Carlo, the share of whole vectors in the orthant: without a draw there is no estimate at all.",
    )
    return Section("table1", "Table 1: orthant probabilities", (table, plain), tuple(verdicts), notes)


def better(rows: Sequence[tuple]) -> tuple[str, ...]:
    """Where our hard count with the most draws is well below the paper's, and what its standard errors say of that."""
    paper, said = published(1).row(samples=BEST), []
    for n, method, M, _, error, *_ in rows:
        if method == "hard" and M == BEST and paper[f"n{n}"] > FEWER * error:
            mean, se = paper[f"n{n}"], paper[f"n{n}_se"]
            said.append(
                f"{mean / error:.2g} times smaller at n = {n} ({error:.2g} % against {mean} %, whose standard error is "
                f"{se} %, {se / mean:.0%} of it)"
            )
    if not said:
        return ()
    return (
        f"With {BEST:,} draws the error of our hard count is {' and '.join(said)}; an average that one outlying "
        "problem makes has a standard error as large as itself, so that a few of the paper's problems, which are not "
        "published, may account for the difference.",
    )


def _judge(
    n: int,
    method: str,
    M: int,
    error: float,
    spread: float,
    theirs: float | None,
    best: float,
    theirs_spread: float | None = None,
) -> list[Verdict]:
    if method == "guided" and max(GUIDED) == M:
        claim = f"n = {n}: guided with {M:,} particles below the paper's best MAPE of {best} %"
        ratio = best / error
        return [Verdict(claim, f"{WANTED[n]}x", f"{ratio:,.0f}x ({error:.1e} %)", bool(ratio >= WANTED[n]))]
    if method == "hard" and theirs is not None and theirs_spread and n not in HARD_SIZES and M in (*HARD_DRAWS, BEST):
        z = (error - theirs) / np.hypot(spread, theirs_spread)
        measured = (
            f"{error:.2g} ± {spread:.1g} % against {theirs} ± {theirs_spread:.1g} %, {error / theirs:.2g} of it, "
            f"{z:+.1f} standard errors"
        )
        claim = f"n = {n}: hard count with {M:,} draws agrees with its table, whose own error is large"
        return [Verdict(claim, "within two standard errors of the difference", measured, bool(abs(z) <= 2.0))]
    if method == "hard" and theirs is not None and n in HARD_SIZES and M in HARD_DRAWS:
        claim = f"n = {n}: hard count with {M:,} draws of the size of its table"
        low, high = (error - 2 * spread) / theirs, (error + 2 * spread) / theirs
        measured = f"{error / theirs:.2f} ± {spread / theirs:.2f} of {theirs} %"
        wanted = "within a factor of 2, or two standard errors of that"
        return [Verdict(claim, wanted, measured, bool(low <= 2 and high >= 0.5))]
    return []
