r"""Variational Gaussian: the Gaussian q(f) that is closest to the posterior in KL(q || p).

The optimum is the prior times one Gaussian site per row: with E(m, V) = ∫ N(f; m, V) log p(y|f) df of a row's L latent
values, a natural-gradient step of size one sets

    W ← −E_q[∂² log p] = −2 ∂E/∂V,    b ← ∂E/∂m + W m,

W an L×L matrix for softmax. Full steps overshoot in some directions and converge slowly in others when the prior
variance is large, so steps are mixed by Anderson's method and damped if the bound Σ w_i E_i − KL(q || prior) would fall
(:mod:`gpclass.inference.sweeps`). At the optimum d bound / dK = ½(ααᵀ − (K + W⁻¹)⁻¹).
Cost: O(n³) per step dense, 5 to 30 steps; O((Cn)³) for C classes, whose sites have no short form; O(L² n m²) with m
inducing inputs.
Fails when: the bound is loose: kernel parameters that maximise it are biased to where it is tight, and variances
are too small.
Reference: Opper & Archambeau (2009); Khan & Lin (2017) for the step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gpclass._typing import Array, BoolArray, Generator
from gpclass.inference.base import Way
from gpclass.inference.posteriors import GaussianPosterior
from gpclass.inference.sweeps import ByFixedPoint, fixed_point
from gpclass.latent.sites import SiteRule, Start
from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.local import RowMarginals, RowSites
from gpclass.model.problem import Problem
from gpclass.model.rows import Labels


class AverageCurvature(SiteRule):
    """Sites of the average curvature: numbers are W, row by row, then b."""

    name: ClassVar[str] = "variational"
    bound: ClassVar[bool] = True

    def numbers(self, likelihood: Likelihood, L: int) -> int:
        return L * L + L

    def sites(self, likelihood: Likelihood, labels: Labels, numbers: Array) -> RowSites:
        L = _latents(len(numbers))
        if L == 1:
            return RowSites(b=numbers[1:2], D=numbers[:1])
        return RowSites(b=numbers[L * L :], full=numbers[: L * L].reshape(L, L, -1).transpose(2, 0, 1))

    def first(self, likelihood: Likelihood, labels: Labels, at: RowMarginals) -> Array:
        """A full step from the given marginals."""
        return self.update(likelihood, labels, np.empty(0), at)[0]

    def update(self, likelihood: Likelihood, labels: Labels, numbers: Array, at: RowMarginals) -> tuple[Array, Array]:
        """A full step; what each copy adds to the bound is E log p − E log site."""
        found = likelihood.average(labels.y, at.mean, at.cov)
        L = len(at.mean)
        W = found.W.transpose(1, 2, 0).reshape(L * L, -1)
        b = found.slope + np.einsum("rab,br->ar", found.W, at.mean)
        return labels.power * np.concatenate([W, b]), labels.power * found.value - at.expected_log_site

    def sound(self, mixed: Array, newest: Array) -> BoolArray:
        """Precisions whose diagonal has not vanished."""
        L = _latents(len(mixed))
        diagonal = np.arange(L) * (L + 1)
        fine = np.all(mixed[diagonal] > 0.2 * newest[diagonal], axis=0)
        if L > 1:  # a mixture may leave the positive matrices
            W = mixed[: L * L].reshape(L, L, -1).transpose(2, 0, 1)
            least = np.linalg.eigvalsh(W)[:, 0]
            fine &= least > -1e-10 * np.trace(W, axis1=1, axis2=2)
        return np.asarray(fine & np.isfinite(mixed).all(axis=0))


def _latents(numbers: int) -> int:
    """L from L² + L."""
    return int((np.sqrt(1 + 4 * numbers) - 1) / 2 + 0.5)


RULE = AverageCurvature()


@dataclass(frozen=True)
class Variational(ByFixedPoint):
    """Settings of the variational Gaussian approximation.

    Parameters
    ----------
    max_iter : int
        Largest number of natural-gradient steps.
    tol : float
        Stop when a full step moves the posterior by less than this, in its standard deviations.
    """

    max_iter: int = 200
    tol: float = 1e-6

    name: ClassVar[str] = "variational"
    ways: ClassVar[tuple[Way, ...]] = (Way.needs("average", "given"),)
    evidence_kind: ClassVar[str | None] = "bound"

    @property
    def rule(self) -> SiteRule:
        return RULE

    def infer(self, problem: Problem, rng: Generator, start: Start | None, gradient: bool) -> GaussianPosterior:
        found = fixed_point(problem, RULE, start, self.max_iter, self.tol)
        return found.posterior(problem, RULE, "bound", gradient)
