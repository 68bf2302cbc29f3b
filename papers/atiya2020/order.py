"""A §6.2: classes sorted, shuffled, or alternating, before the coordinates are drawn one after another.

The root mean square error of log P over runs on the linear problems, for the paper's two counts and for the
guided sampler in the same orders and in its own (largest site precision first).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpclass.orthant import orthant_probability
from papers import truths
from papers.atiya2020.shared import Linear
from papers.common import Section, Setting, Table, Verdict, tell

DRAWS = {"bootstrap-hard": 10_000, "bootstrap-soft": 10_000, "guided": 1000}
ORDERS = ("sorted", "shuffled", "in turn")


def permutation(order: str, y: Any, rng: np.random.Generator) -> Any:
    """The order of the coordinates."""
    if order == "shuffled":
        return rng.permutation(len(y))
    ranks = np.empty(len(y))
    for label in (-1.0, 1.0):
        ranks[y == label] = rng.permutation(int((y == label).sum()))
    return np.lexsort((ranks, y)) if order == "sorted" else np.lexsort((y, ranks))


def rms_error(number: int, method: str, order: str | None, repeats: int, seed: int) -> float:
    """Root mean square error of log P; an extinct run counts as infinite."""
    gaps = []
    for r in range(repeats):
        p = Linear.draw(number, seed + r)
        S = truths.probit_orthant(np.outer(p.x, p.x), p.y)
        place = None if order is None else permutation(order, p.y, np.random.default_rng([seed, r]))
        found = orthant_probability(S, method=method, n_samples=DRAWS[method], order=place, random_state=seed + r)
        gaps.append(found.log_probability - p.log_evidence)
    return float(np.sqrt(np.mean(np.square(gaps))))


def run(setting: Setting, problems: tuple[int, ...] = (1, 2, 3)) -> Section:
    """Errors by order."""
    problems = (*problems, 4) if setting.full and 4 not in problems else problems
    problems = problems[:2] if setting.quick else problems
    repeats = setting.count(6, 50)
    rows, verdicts = [], []
    for number in problems:
        for method in DRAWS:
            errors = [rms_error(number, method, order, repeats, setting.seed) for order in ORDERS]
            own = rms_error(number, method, None, repeats, setting.seed) if method == "guided" else None
            rows.append((f"P{number}", method, DRAWS[method], repeats, *errors, own))
            tell("order", *rows[-1])
            if method != "guided":
                claim = f"P{number}, {method}: sorted classes are worse than shuffled ones (A §6.2)"
                ratio = errors[0] / errors[1]
                verdicts.append(Verdict(claim, "ratio above 1", f"{ratio:.1f}", bool(ratio > 1)))
    table = Table(
        "order",
        ("problem", "method", "draws", "runs", *ORDERS, "sharpest site first"),
        tuple(rows),
        "Root mean square error of log P, in nats.",
    )
    return Section("order", "Classes sorted, shuffled, alternating", (table,), tuple(verdicts))
