"""Keep the kernel parameters as they are given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpclass.hyper.base import Fit, Run, Strategy
from gpclass.inference.base import Inference
from gpclass.model.problem import Problem


@dataclass(frozen=True)
class Fixed(Strategy):
    """No search: one inference at the kernel's own parameters; inducing inputs are placed and fixed."""

    name: ClassVar[str] = "fixed"
    ignores: ClassVar[frozenset[str]] = frozenset(["priors", "n_restarts"])

    @property
    def keeps_start(self) -> bool:
        return True

    def __call__(self, problem: Problem, inference: Inference, run: Run) -> Fit:
        problem = problem.placed(run.rng)
        return Fit(problem, inference(problem, run.rng), figures={"evaluations": 1})
