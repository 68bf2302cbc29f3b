"""An ascent on disk: one .npz file of arrays and JSON, no pickle.

Over all rows it holds the quasi-Newton state, the sites of all rows and the losses of the held-out rows; between
earlier stages, the start of the next one and the random generator. So a resumed ascent equals the uninterrupted one
for any ``random_state`` the second time. The fingerprint is of settings, all labels and weights and some rows.
Cost: one write of 16 n bytes and some m d × 25 per iteration. Fails when: see :mod:`gpclass.hyper.checkpoint`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpclass._typing import Array, IntArray
from gpclass.hyper.checkpoint import of_others, read_archive, write_archive
from gpclass.hyper.staged.stage import Earlier, Stage, Standing, inducing, with_inducing
from gpclass.inference.base import Inference
from gpclass.latent.sites import Start
from gpclass.model.problem import Problem
from gpclass.model.rows import collect_values, put_values
from gpclass.numerics.fingerprint import fingerprint
from gpclass.numerics.lbfgs import Ascent

VERSION = 5


@dataclass(frozen=True)
class Checkpoint:
    """A file and the fingerprint of its problem; without a path nothing is written."""

    path: Path | None
    mark: str

    @classmethod
    def of(cls, path: str | os.PathLike[str] | None, problem: Problem, *settings: Any) -> Checkpoint:
        """The checkpoint of a problem before its inducing inputs are placed, with these settings."""
        if path is None:
            return cls(None, "")
        model = (problem.kernel, problem.theta, problem.bounds, problem.likelihood, *problem.form.marks)
        return cls(Path(path), fingerprint(*problem.rows.marks(), *model, *settings))

    def load(self) -> dict[str, Array] | None:
        """What was written; None if there is no file."""
        if self.path is None or not self.path.exists():
            return None
        head, arrays = read_archive(self.path)
        if head != {"version": VERSION, "mark": self.mark}:
            raise of_others(self.path, "a fit")
        return arrays

    def save(self, stage: Stage, state: Ascent, start: Problem, earlier: int) -> None:
        """Write the state of the stage; ``start`` is where it began, after so many earlier evaluations."""
        if self.path is None:
            return
        problem = stage.problem
        assert stage.accepted is not None
        _, held, rule = stage.accepted.sites
        _, sums = problem.rows.map(collect_values, held, rule.numbers(problem.likelihood, problem.n_latents))
        arrays = {
            **state.arrays(),
            "theta0": start.theta,
            "Z0": inducing(start),
            "unit": stage.unit,
            "earlier_evaluations": np.asarray(earlier),
            "sites": np.concatenate(sums["values"], axis=1),
            "absent": np.empty(0) if stage.absent is None else stage.absent,
            "losses": np.asarray(stage.losses),
            "gained": np.asarray(stage.gained),
            "tol": np.asarray(stage.guide.site_tol),
        }
        write_archive(self.path, {"version": VERSION, "mark": self.mark}, arrays)

    def save_between(self, at: Standing, absent: IntArray | None, rng: np.random.Generator, evaluations: int) -> None:
        """Write the state of the stages before all rows, after so many evaluations."""
        if self.path is None:
            return
        arrays = {
            "theta0": at.problem.theta,
            "Z0": inducing(at.problem),
            "sizes": np.asarray(at.sizes, dtype=np.intp),
            "rng": np.array(json.dumps(rng.bit_generator.state)),
            "earlier_evaluations": np.asarray(evaluations),
            "absent": np.empty(0) if absent is None else absent,
        }
        if at.earlier is not None:
            arrays |= at.earlier.state.arrays()
            arrays |= {"count": np.asarray(at.earlier.count), "unit": at.earlier.unit}
            near = None if at.earlier.near is None else at.earlier.near.gaussian
            if near is not None:
                arrays |= {f"near_{name}": array for name, array in near.kept().items()}
        write_archive(self.path, {"version": VERSION, "mark": self.mark}, arrays)

    @contextmanager
    def saying_how_to_go_on(self) -> Iterator[None]:
        """Add the path of the file to the message of an interrupt."""
        try:
            yield
        except KeyboardInterrupt as stopped:
            if self.path is not None and self.path.exists():
                stopped.add_note(f"fit again with the same checkpoint, {self.path}, to continue")
            raise


def standing(arrays: dict[str, Array], problem: Problem, guide: Inference, rng: np.random.Generator) -> Standing:
    """Where a file says the ascent stood; ``rng`` goes on from there, if it was before the ascent over all rows."""
    earlier, start = None, with_inducing(problem.at(arrays["theta0"]), arrays["Z0"])
    if "sizes" not in arrays:
        return Standing(start, None, ())
    rng.bit_generator.state = json.loads(str(arrays["rng"]))
    if "count" in arrays:
        near = None
        if "near_mean" in arrays:
            kept = {name.removeprefix("near_"): array for name, array in arrays.items() if name.startswith("near_")}
            near = Start(guide.rule, (), start.prior.from_kept(kept))
        earlier = Earlier(Ascent.from_arrays(arrays), float(arrays["count"]), arrays["unit"], near)
    return Standing(start, earlier, tuple(int(rows) for rows in arrays["sizes"]))


def take_up(stage: Stage, arrays: dict[str, Array]) -> Ascent:
    """Restore a stage from a file."""
    state = Ascent.from_arrays(arrays)
    held, _ = stage.problem.rows.map(put_values, stage.problem.rows.held, arrays["sites"])
    stage.near = Start(stage.guide.rule, held)
    stage.unit, stage.losses = arrays["unit"], arrays["losses"].tolist()
    stage.gained = float(arrays["gained"])
    stage.guide = stage.guide.with_site_tol(float(arrays["tol"]))
    return state
