"""Settings of a climb with inducing inputs."""

from __future__ import annotations

from dataclasses import dataclass

from gpclass._settings import check_settings

STOPS = ("held-out", "evidence")


@dataclass(frozen=True)
class Stages:
    """How evidence is maximised with inducing inputs: from few rows to all (:mod:`gpclass.hyper.staged.ascent`).

    Parameters
    ----------
    stop : {"held-out", "evidence"}
        Whether rows are left out whose log loss ends the ascent, or the evidence alone does.
    window : int
        Iterations over which the log loss must fall by ``gain``.
    gain : float
        See ``window``; where the log loss is small, a fiftieth of it.
    held_out : int
        Rows to leave out during the ascent, at most a tenth of all.
    move_inducing : bool
        Whether the inducing inputs are learned too; with a kernel that has no fast derivative by its inputs they stay.
    few_rows, some_rows : int
        Rows of the first stages; a stage is left out when there are fewer than twice as many rows. ``some_rows`` grow
        fourfold from stage to stage as long as twice as many are there and memory allows.
    """

    stop: str = "held-out"
    window: int = 4
    gain: float = 1e-3
    held_out: int = 2000
    move_inducing: bool = True
    few_rows: int = 2000
    some_rows: int = 6000

    def __post_init__(self) -> None:
        whole = ("window", "held_out", "few_rows", "some_rows")
        check_settings(self, positive=("gain",), whole=whole)
        if self.stop not in STOPS:
            raise ValueError(f"Stages: stop must be one of {STOPS}, got {self.stop!r}")
