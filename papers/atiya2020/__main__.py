"""``python -m papers.atiya2020 [experiment ...] [--full] [--write]``"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from papers.atiya2020 import annealing, figures, order, points, predicted_error, table1, table4, tables23, times, tuning
from papers.common import Experiment, Section
from papers.run import Paper
from papers.run import main as run_all

EXPERIMENTS: dict[str, Experiment] = {
    "table1": table1.run,
    "table2": tables23.table2,
    "table3": tables23.table3,
    "table4": table4.run,
    "times": times.run,
    "annealing": annealing.run,
    "figures": figures.run,
    "predicted-error": predicted_error.run,
    "order": order.run,
    "tuning": tuning.run,
    "points": points.run,
}
TITLE = "Atiya, Abdel-Gawad & Fayed (2020): exact classification by particles"
REFERENCE = (
    "A new Monte Carlo based exact algorithm for the Gaussian process classification problem: "
    "our results beside the published ones."
)

PAPER = Paper("atiya2020", TITLE, REFERENCE, EXPERIMENTS)


def main(argv: Sequence[str] | None = None, **places: Any) -> list[Section]:
    """The command line."""
    return run_all(PAPER, argv, **places)


if __name__ == "__main__":
    main()
