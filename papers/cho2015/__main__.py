"""``python -m papers.cho2015 [experiment ...] [--full] [--write]``"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from papers.cho2015 import em, iris, synthetic
from papers.common import Experiment, Section
from papers.run import Paper
from papers.run import main as run_all

EXPERIMENTS: dict[str, Experiment] = {"synthetic": synthetic.run, "iris": iris.run, "em": em.run}
TITLE = "Cho, Kim & Park (2015): many classes by variational EM"
REFERENCE = (
    "New inference for a multiclass Gaussian process classification model using a variational Bayesian EM algorithm "
    "and Laplace approximation: our results beside the published ones."
)

PAPER = Paper("cho2015", TITLE, REFERENCE, EXPERIMENTS)


def main(argv: Sequence[str] | None = None, **places: Any) -> list[Section]:
    """The command line."""
    return run_all(PAPER, argv, **places)


if __name__ == "__main__":
    main()
