"""Settings of evidence maximisation with inducing inputs."""

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
        Whether the log loss of held-out rows ends the ascent, or the evidence alone.
    window : int
        Iterations over which the log loss must fall by ``gain``.
    gain : float
        See ``window``; if the log loss is small, a fiftieth of it.
    held_out : int
        Rows to hold out during the ascent, at most a tenth of all.
    move_inducing : bool
        Whether the inducing inputs are learned too; fixed with a kernel without fast derivative by its inputs.
    few_rows, some_rows : int
        Rows of the first stages; a stage is skipped if there are fewer than twice as many rows. ``some_rows`` grow
        fourfold from stage to stage while twice as many exist and memory allows.
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
