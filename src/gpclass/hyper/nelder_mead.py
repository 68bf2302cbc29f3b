"""Kernel parameters that maximise an evidence without gradient: Nelder and Mead's simplex over common random numbers.

Every evaluation of log p(y|X, θ) uses the same random numbers, so that an evidence with Monte Carlo error is one
function of θ, and differences between neighbouring θ are far less noisy than the values. The simplex stops when its
values differ by less than ``tol`` nats, or by less than the evidence's own standard error at the best point. The
maximum is a little optimistic: it is the largest of noisy values, and one seed's.
Cost: 20 to 40 inferences per parameter. Fails when: there are more than about six parameters (use an inference with a
gradient and ``maximize``), or the evidence is too noisy to tell neighbours apart; a θ at which the inference fails
counts as the worst.
References: Nelder & Mead (1965); Atiya, Abdel-Gawad & Fayed (2020), section 6.5, for few draws while tuning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize

from gpclass._typing import Array
from gpclass.hyper.base import Fit, Run, Strategy, parameters_at_bounds
from gpclass.inference.base import Inference
from gpclass.model.problem import Problem
from gpclass.progress import progress

WORST = 1e12  # minus the evidence where the inference fails


@dataclass(frozen=True)
class NelderMead(Strategy):
    """Settings of the climb.

    Parameters
    ----------
    max_evaluations : int
        Largest number of inferences.
    tol : float
        Stop when the evidences of the simplex differ by less than this many nats.
    first : float
        Edge of the first simplex, in log parameters.
    """

    max_evaluations: int = 200
    tol: float = 0.01
    first: float = 0.5

    name: ClassVar[str] = "nelder-mead"
    needs: ClassVar[str] = "evidence"
    limits: ClassVar = {"max_evaluations": 1}

    @classmethod
    def brief(cls) -> NelderMead:
        return cls(max_evaluations=4)

    def __call__(self, problem: Problem, inference: Inference, run: Run) -> Fit:
        problem = problem.placed(run.rng)
        seed, low, high = int(run.rng.integers(2**63)), *problem.bounds.T
        theta, search, errors = problem.theta, inference.for_search, []

        with progress(label=f"nelder-mead ({inference.name})", verbose=run.verbose) as bar:

            def minus(t: Array) -> float:
                try:
                    found = search(problem.at(t), np.random.default_rng(seed)).evidence
                except (ValueError, np.linalg.LinAlgError):
                    return WORST
                if found is None or not np.isfinite(found.log_z):
                    return WORST
                errors.append(found.error or 0.0)
                bar.update(log_evidence=found.log_z)
                return -found.log_z

            converged, reason, evaluations = True, "", 1
            if len(theta):
                theta = np.clip(theta, low, high)
                corners = np.vstack([theta, theta + self.first * np.eye(len(theta))])
                corners = np.where(corners > high, corners - 2.0 * self.first, corners)
                options: Any = {
                    "initial_simplex": np.clip(corners, low, high),
                    "maxfev": self.max_evaluations,
                    "fatol": self.tol,
                    "xatol": np.inf,
                }
                outcome: Any = minimize(
                    minus, theta, method="Nelder-Mead", bounds=list(zip(low, high, strict=True)), options=options
                )
                theta, evaluations = np.asarray(outcome.x), int(outcome.nfev) + 1
                spread = float(np.ptp(outcome.final_simplex[1]))
                noise = float(np.median(errors)) if errors else 0.0
                converged = bool(outcome.success) or spread <= noise
                reason = "" if converged else f"the evidences of the simplex still differ by {spread:.2g} nats"
        at_end = problem.at(theta)
        posterior = inference(at_end, np.random.default_rng(seed))
        figures = {"evaluations": evaluations, "at_bounds": parameters_at_bounds(at_end) or None}
        return Fit(at_end, posterior, converged, reason, figures)
