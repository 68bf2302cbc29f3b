"""The demonstration: compare methods on one problem with known truth; a table and a report.

Run ``python -m gpclass.report.demo --out demo``. The data are simulated: a latent Gaussian process on the unit
square, chosen so that the approximations differ visibly. By default one method of each kind is shown;
``--methods`` takes any names of the registry. Cost: about 20 s.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from gpclass import metrics
from gpclass.compare import Comparison, compare
from gpclass.compare.advice import what_went_wrong
from gpclass.compare.run import REFERENCES
from gpclass.datasets import filippone_square
from gpclass.numerics.threads import few_threads

SUMMARY = "Fit every method to one problem, print a table and write a report."
METHODS = ("exact", "ep", "laplace", "variational", "elliptical-slice", "amp")
REPORT = "report.html"
TITLE = "Gaussian process classification: which approximation to trust"


def run_demo(
    out: str | Path = "demo",
    *,
    n: int = 200,
    seed: int = 3,
    methods: Sequence[str] | None = None,
    max_seconds: float = 15.0,
    verbose: int = 0,
) -> tuple[Comparison, Path]:
    """Compare the methods, write ``out/report.html`` and return the comparison and the file's path."""
    from gpclass.report.html import write_report

    data = filippone_square(n, variance=10.0, length_scale=0.3, random_state=seed)
    truth = metrics.log_loss(data.y, data.probability)
    description = (
        f"{n} points of a simulated surface on the unit square, labels drawn with known probabilities. "
        f"Predicting the true probability of every point would have a log loss of {truth:.3f}; no method can be "
        "expected to reach it, since the surface is unknown to all of them."
    )
    names = list(METHODS if methods is None else methods)
    with few_threads(n):
        comparison = compare(
            data.X,
            data.y,
            names,
            cv=3,
            reference=next((name for name in REFERENCES if name in names), None),  # named: never left out
            feature_names=data.feature_names,
            max_seconds=max_seconds,
            random_state=seed,
            verbose=verbose,
        )
        path = write_report(comparison, Path(out) / REPORT, title=TITLE, description=description)
    return comparison, path


def describe(comparison: Comparison, path: Path) -> str:
    """The comparison as text, what each approximation got wrong, and where the report is."""
    width = max(map(len, comparison.results))
    wrong = (f"  {r.name:<{width}}  {what_went_wrong(r, comparison.reference)}" for r in comparison.results.values())
    head = "What each approximation got wrong"
    return "\n".join([str(comparison), "", head, *wrong, "", f"{path} written. Open it in a browser."])


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line of the demonstration."""
    parser = argparse.ArgumentParser(prog="python -m gpclass.report.demo", description=SUMMARY)
    parser.add_argument("--out", default="demo", help="folder for the report (default: demo)")
    parser.add_argument("--n", type=int, default=200, help="number of points (default: 200)")
    parser.add_argument("--seed", type=int, default=3, help="seed for data and folds (default: 3)")
    parser.add_argument("--methods", nargs="+", help="names of inferences (default: one of each kind)")
    options = parser.parse_args(arguments)
    began = time.perf_counter()
    try:
        found = run_demo(**vars(options), verbose=sys.stderr.isatty())
    except (ValueError, ImportError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    print(describe(*found), f"It took {time.perf_counter() - began:.0f} s.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
