"""Keep the kernel parameters as they are given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpclass.hyper.base import Fit, Inference, Run
from gpclass.model.problem import Problem


@dataclass(frozen=True)
class Fixed:
    """No search: one inference at the kernel's own parameters."""

    name: ClassVar[str] = "fixed"

    def __call__(self, problem: Problem, inference: Inference, run: Run) -> Fit:
        """Run ``inference`` once."""
        return Fit(problem, inference(problem, run.rng), figures={"evaluations": 1})
