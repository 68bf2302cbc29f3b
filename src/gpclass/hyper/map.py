"""Kernel parameters that maximise evidence times prior: Williams and Barber's penalised likelihood.

The maximised density is that of the logarithms of the parameters (:mod:`gpclass.priors`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpclass.hyper.base import Fit, Run
from gpclass.hyper.maximize import Maximize
from gpclass.inference.base import Inference
from gpclass.model.problem import Problem
from gpclass.priors import resolve_priors


@dataclass(frozen=True)
class Map(Maximize):
    """Settings of penalised maximisation; those of :class:`~gpclass.hyper.maximize.Maximize`."""

    name: ClassVar[str] = "map"

    def __call__(self, problem: Problem, inference: Inference, run: Run) -> Fit:
        return self._search(problem, inference, run, resolve_priors(run.priors, problem.names, problem.theta))
