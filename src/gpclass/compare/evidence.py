"""Bayes factors between fitted models: their evidence with the kernel parameters integrated out.

Each model must have sampled its kernel parameters on the same labels; see :mod:`gpclass.hyper.integrated`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpclass._html import html_table
from gpclass.estimators.checks import generator
from gpclass.estimators.pipelines import final_step
from gpclass.estimators.task import chosen_inference
from gpclass.hyper.integrated import Integrated, integrated_evidence
from gpclass.hyper.mixture import ThetaMixture
from gpclass.hyper.proposal import LogDensity
from gpclass.hyper.pseudo_marginal import common_start
from gpclass.orthant.weights import KHAT_LIMIT

PARTICLES = 64  # draws per estimate


@dataclass(frozen=True)
class EvidenceComparison:
    """Integrated log evidence of each model, with Monte Carlo errors; prints as a table, the best model first."""

    models: dict[str, Integrated]

    def log_bayes_factor(self, one: str, other: str) -> tuple[float, float]:
        """Log of p(y | one) / p(y | other), and its Monte Carlo standard error."""
        a, b = self.models[one], self.models[other]
        return a.log_z - b.log_z, float(np.hypot(a.error, b.error))

    @property
    def probabilities(self) -> dict[str, float]:
        """Posterior probabilities of the models, if all were equally probable before."""
        logs = np.array([one.log_z for one in self.models.values()])
        shares = np.exp(logs - logs.max())
        return dict(zip(self.models, (shares / shares.sum()).tolist(), strict=True))

    def rows(self) -> list[tuple[str, str]]:
        """One row per model."""
        best = max(self.models.values(), key=lambda one: one.log_z)
        found = []
        for name, one in sorted(self.models.items(), key=lambda item: -item[1].log_z):
            less = "" if one is best else f", {one.log_z - best.log_z:.2f} against the best"
            sure = "" if not one.khat > KHAT_LIMIT else f"; k-hat {one.khat:.2f}: the error may be too small"
            share = self.probabilities[name]
            found.append((name, f"log p(y) {one.log_z:.2f} ± {one.error:.2f}{less}, probability {share:.3g}{sure}"))
        return found

    def __str__(self) -> str:
        width = max(map(len, self.models))
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self.rows())

    def _repr_html_(self) -> str:
        """A table, in notebooks."""
        return html_table(self.rows())


def compare_evidence(models: Mapping[str, Any], *, n_samples: int = 200, random_state: Any = 0) -> EvidenceComparison:
    """Compare models by p(y), their kernel parameters integrated out: Bayes factors with Monte Carlo errors.

    Parameters
    ----------
    models : mapping from names to fitted classifiers
        Each fitted to the same labels with kernel parameters sampled, such as
        ``GPClassifier(kernel, hyperparameters="pseudo-marginal")``. Their priors count: wide ones cost evidence.
    n_samples : int
        Draws of the kernel parameters per model.
    random_state : int, Generator or None

    Returns
    -------
    EvidenceComparison
    """
    if not models:
        raise ValueError("give at least one fitted model")
    rng, found, labels = generator(random_state), {}, None
    for name, model in models.items():
        clf = final_step(model)
        mixture = getattr(clf, "posterior_", None)
        if not isinstance(mixture, ThetaMixture) or mixture.prior is None:
            raise ValueError(
                f"model {name!r} has no sampled kernel parameters with their priors; fit it with "
                "hyperparameters='pseudo-marginal', 'hmc' or 'alternate' in this version"
            )
        inference = chosen_inference(clf).for_chains(PARTICLES)
        if inference.evidence_kind is None:
            raise ValueError(f"model {name!r}: inference={inference.name!r} has no evidence")
        problem = mixture.problem
        if labels is not None and not np.array_equal(labels, problem.y):
            raise ValueError(f"model {name!r} was fitted to other labels than the first one")
        labels = problem.y if labels is None else labels
        start = common_start(problem, inference)
        density = LogDensity(problem, inference, mixture.prior, start)
        found[name] = integrated_evidence(density, mixture.theta, n_samples, rng.spawn(1)[0])
    return EvidenceComparison(found)
