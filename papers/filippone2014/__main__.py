"""``python -m papers.filippone2014 [experiment ...] [--full] [--write]``"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from papers.common import Experiment, Section
from papers.filippone2014 import figure1, figure2, ladders, speed, table1
from papers.run import Paper
from papers.run import main as run_all

EXPERIMENTS: dict[str, Experiment] = {
    "figure1": figure1.run,
    "figure2": figure2.run,
    "table1": table1.run,
    "speed": speed.run,
    "ladders": ladders.run,
}
TITLE = "Filippone (2014): kernel parameters by exact-approximate MCMC"
REFERENCE = (
    "Bayesian inference for Gaussian process classifiers with annealing and exact-approximate MCMC: our results beside "
    "the published ones."
)

PAPER = Paper("filippone2014", TITLE, REFERENCE, EXPERIMENTS)


def main(argv: Sequence[str] | None = None, **places: Any) -> list[Section]:
    """The command line."""
    return run_all(PAPER, argv, **places)


if __name__ == "__main__":
    main()
