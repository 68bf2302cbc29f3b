"""``python -m papers.roeder2011 [experiment ...] [--full] [--write]``; data in ``$GPCLASS_DATA``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from papers.common import Experiment, Section
from papers.roeder2011 import figures, held_out, repeats, table1
from papers.run import Paper
from papers.run import main as run_all

EXPERIMENTS: dict[str, Experiment] = {
    "table1": table1.run,
    "repeats": repeats.run,
    "storms": repeats.storms,
    "figures": figures.run,
    "jura": held_out.jura,
    "walker": held_out.walker,
}
TITLE = "Röder, Tolosana-Delgado & Hamprecht (2011): indicator kriging and the doubly stochastic model"
REFERENCE = (
    "The paper's wave heights (114 samples, 8 pixels) are not public; these are stand-ins: the doubly stochastic "
    "model itself, real waves, and three maps. Only the labels are used, never the underlying variable."
)

PAPER = Paper("roeder2011", TITLE, REFERENCE, EXPERIMENTS)


def main(argv: Sequence[str] | None = None, **places: Any) -> list[Section]:
    """The command line."""
    return run_all(PAPER, argv, **places)


if __name__ == "__main__":
    main()
