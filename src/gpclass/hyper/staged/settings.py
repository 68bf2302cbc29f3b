"""Settings of evidence maximisation with inducing inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpclass._settings import Settings


@dataclass(frozen=True)
class Stages(Settings):
    """How evidence is maximised with inducing inputs: from few rows to all (:mod:`gpclass.hyper.staged.ascent`).

    Parameters
    ----------
    stop : {"held-out", "evidence"}
        Whether the log loss of held-out rows ends the ascent, or the evidence alone.
    window : int
        Iterations over all rows in which the log loss must fall by ``gain``. The log loss of a few rows of a rare
        class goes up and down for some iterations before it falls again.
    gain : float
        See ``window``; if the log loss is small, a two-hundredth of it.
    held_out : int
        Rows to hold out during the ascent, at most a tenth of all. They come back for its last iterations, if
        they are more than a 160th of all.
    move_inducing : bool
        Whether the inducing inputs are learned too; fixed with a kernel without fast derivative by its inputs.
    few_rows, some_rows : int
        Rows of the first stages; a stage is skipped if there are fewer than twice as many rows. ``some_rows`` grow
        fourfold from stage to stage while twice as many exist and memory allows.
    """

    stop: str = "held-out"
    window: int = 12
    gain: float = 3e-4
    held_out: int = 2000
    move_inducing: bool = True
    few_rows: int = 2000
    some_rows: int = 6000

    limits: ClassVar = {"stop": ("held-out", "evidence")}
