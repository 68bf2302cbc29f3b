"""An ascent on disk: one .npz file of arrays and JSON, no pickle.

Over all rows it holds the quasi-Newton state, the sites of all rows and the looks at the left-out rows; between the
stages before, what the next one starts from and the random generator. So an ascent that is taken up is the ascent that
would have been, whatever ``random_state`` is the second time. A crash while writing leaves the old file whole; a
fingerprint of settings, all labels and weights and some rows is checked.
Cost: one write of 16 n bytes and some m d × 25 per iteration. Fails when: the file is damaged or belongs to something
else (refused).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpclass._typing import Array, IntArray
from gpclass.hyper.checkpoint import read_archive, write_archive
from gpclass.hyper.staged.stage import Earlier, Stage, Standing, collect_sites, put_sites
from gpclass.latent.low_rank_gaussian import Q, Warm
from gpclass.latent.low_rank_problem import SparseProblem
from gpclass.numerics.fingerprint import fingerprint
from gpclass.numerics.lbfgs import Ascent

VERSION = 5


@dataclass(frozen=True)
class Checkpoint:
    """A file and what it belongs to."""

    path: Path
    mark: str

    @classmethod
    def of(cls, path: Path, problem: SparseProblem, *settings: Any) -> Checkpoint:
        """The checkpoint of a problem before its inducing inputs are placed, with these settings."""
        source = problem.data.source
        assert source is not None
        rows = [(fingerprint(s.y), fingerprint(s.weights)) for s in source.shards()]
        model = (problem.kernel, problem.theta, problem.bounds, problem.likelihood)
        placing = (problem.start.m, problem.start.how)
        return cls(path, fingerprint(problem.n, problem.X, rows, *model, *placing, *settings))

    def load(self) -> dict[str, Array] | None:
        """What was written; None if there is no file."""
        if not self.path.exists():
            return None
        head, arrays = read_archive(self.path)
        if head != {"version": VERSION, "mark": self.mark}:
            raise ValueError(
                f"checkpoint {str(self.path)!r} holds a fit of other data or settings; remove it or give another path"
            )
        return arrays

    def save(self, stage: Stage, state: Ascent, start: SparseProblem, earlier: int) -> None:
        """Write where the stage stands; ``start`` is where it began, after so many earlier evaluations."""
        found, data = stage.accepted, stage.problem.data
        _, sums = data.executor.map_reduce(collect_sites, found.held, None, None)
        rows = 2 if found.report.method != "laplace" else None
        arrays = {
            **state.arrays(),
            "theta0": start.theta,
            "Z0": start.Z,
            "unit": stage.unit,
            "earlier_evaluations": np.asarray(earlier),
            "sites": np.concatenate([part[:rows] for part in sums["sites"]], axis=1),
            "absent": np.empty(0) if stage.absent is None else stage.absent,
            "losses": np.asarray(stage.losses),
            "gained": np.asarray(stage.gained),
            "tol": np.asarray(stage.guide.tol),
        }
        self._write(arrays)

    def save_between(
        self, at: Standing, absent: IntArray | None, rng: np.random.Generator, evaluations: int
    ) -> None:
        """Write where the stages before all rows stand, after so many evaluations."""
        arrays = {
            "theta0": at.problem.theta,
            "Z0": at.problem.Z,
            "sizes": np.asarray(at.sizes, dtype=np.intp),
            "rng": np.array(json.dumps(rng.bit_generator.state)),
            "earlier_evaluations": np.asarray(evaluations),
            "absent": np.empty(0) if absent is None else absent,
        }
        if at.earlier is not None:
            arrays |= at.earlier.state.arrays() | {
                "count": np.asarray(at.earlier.count),
                "unit": at.earlier.unit,
            }
            near = None if at.earlier.near is None else at.earlier.near.q
            arrays |= {} if near is None else {"near_mean": near.mean, "near_L": near.L}
        self._write(arrays)

    def _write(self, arrays: dict[str, Any]) -> None:
        write_archive(self.path, {"version": VERSION, "mark": self.mark}, arrays)


@contextmanager
def saying_how_to_go_on(checkpoint: Checkpoint | None) -> Iterator[None]:
    """Whoever presses Ctrl-C is told that the file is there."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        if checkpoint is not None and checkpoint.path.exists():
            stopped.add_note(f"fit again with the same checkpoint, {checkpoint.path}, to go on")
        raise


def between_stages(kept: dict[str, Array] | None) -> bool:
    """Whether a file was written before the ascent over all rows."""
    return kept is not None and "sizes" in kept


def standing(
    arrays: dict[str, Array], problem: SparseProblem, method: str, rng: np.random.Generator
) -> Standing:
    """Where a file says the stages before all rows stood; ``rng`` goes on from there."""
    rng.bit_generator.state = json.loads(str(arrays["rng"]))
    earlier = None
    if "count" in arrays:
        near = None
        if "near_mean" in arrays:
            mean = arrays["near_mean"]
            near = Warm((), method, Q(mean, np.asfortranarray(arrays["near_L"]), mean))
        earlier = Earlier(Ascent.from_arrays(arrays), float(arrays["count"]), arrays["unit"], near)
    sizes = tuple(int(rows) for rows in arrays["sizes"])
    return Standing(problem.at(arrays["theta0"], arrays["Z0"]), earlier, sizes)


def take_up(stage: Stage, arrays: dict[str, Array]) -> Ascent:
    """Put a stage where a file says it was."""
    state = Ascent.from_arrays(arrays)
    held = stage.problem.over(put_sites, arrays["sites"]).data.held
    stage.accepted = Warm(held, stage.guide.name)
    stage.losses = arrays["losses"].tolist()
    stage.gained = float(arrays["gained"])
    stage.guide = replace(stage.guide, tol=float(arrays["tol"]))
    return state
