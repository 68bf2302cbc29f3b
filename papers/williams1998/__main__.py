"""``python -m papers.williams1998 [experiment ...] [--full] [--write]``"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from papers.common import Experiment, Section
from papers.run import Paper
from papers.run import main as run_all
from papers.williams1998 import glass, neal, two_classes

EXPERIMENTS: dict[str, Experiment] = {
    "crabs": two_classes.crabs,
    "splits": two_classes.splits,
    "pima": two_classes.pima,
    "relevance": two_classes.relevance,
    "neal": neal.run,
    "glass": glass.run,
}
TITLE = "Williams & Barber (1998): Bayesian classification with Gaussian processes"
REFERENCE = (
    "The digits of the paper's scan are illegible; the published numbers here are recalled from the literature, for "
    "orientation."
)

PAPER = Paper("williams1998", TITLE, REFERENCE, EXPERIMENTS)


def main(argv: Sequence[str] | None = None, **places: Any) -> list[Section]:
    """The command line."""
    return run_all(PAPER, argv, **places)


if __name__ == "__main__":
    main()
