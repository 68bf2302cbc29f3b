"""Draws of which a few have all the weight: the stated error covers a shuffle of the rows, and the report says so."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from gpclass.inference import Annealed, Exact, Importance
from gpclass.likelihoods import get_likelihood
from gpclass.model.problem import Problem
from gpclass.posterior import LatentMixture, Report
from gpclass.predict import predict_proba

ROUGH = 1e4 * RBF(1.0) + WhiteKernel(1.0)


def answers(method, kernel, likelihood, weight, C):
    """Reports, probabilities and stated errors at new points, for three orders of the rows."""
    rng = np.random.default_rng(3)
    X, X_new = rng.standard_normal((30, 2)), rng.standard_normal((20, 2))
    y = np.digitize(X[:, 0] + 0.5 * rng.standard_normal(30), [-0.5, 0.5] if C == 3 else [0.0])
    y = y if C == 3 else np.where(y > 0, 1.0, -1.0)
    weights = None if weight is None else np.full(30, weight)
    found = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(30)
        problem = Problem.of(X[order], y[order], kernel, get_likelihood(likelihood), weights, n_classes=C)
        posterior = method(problem)
        found.append((posterior.report, predict_proba(posterior.latent(X_new), problem.likelihood)))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "kernel", "likelihood", "weight", "C"),
    [
        (Annealed(around="prior"), 4.0 * RBF(1.0), "probit", 1e6, 2),
        (Importance(around="prior"), 4.0 * RBF(1.0), "softmax", 1e6, 3),
        (Importance(1000), ROUGH, "softmax", None, 3),
        (Annealed(200), ROUGH, "softmax", None, 3),
        (Exact(n_samples=200), RBF(1.0), "multinomial-probit", 30.0, 3),
    ],
)
def test_few_effective_draws_are_not_an_answer(method, kernel, likelihood, weight, C):
    found = answers(method, kernel, likelihood, weight, C)
    p = np.array([prediction.proba for _, prediction in found])
    mcse = np.array([prediction.mcse for _, prediction in found])
    assert np.ptp(p, axis=0).max() > 0.01  # it is a hard problem
    assert np.all(np.abs(p - p.mean(axis=0)) < 4 * mcse.max(axis=0) + 1e-12)
    for report, prediction in found:
        few = report.ess < 10
        assert report.converged == (not few)
        assert few == ("effective" in report.reason)
        assert not few or prediction.mcse.min() > 0.15
    assert any(not report.converged for report, _ in found)


def test_one_draw_with_all_the_weight_has_no_small_error():
    weights = np.array([1.0, *np.zeros(99)])
    mixture = LatentMixture(weights, np.ones((100, 5, 1)), np.ones((1, 5, 1, 1)), np.arange(100))
    assert predict_proba(mixture, get_likelihood("probit")).mcse.min() == pytest.approx(0.5)
    even = LatentMixture(np.full(100, 0.01), mixture.means, mixture.covariances, mixture.group)
    assert predict_proba(even, get_likelihood("probit")).mcse.max() < 1e-12


@pytest.mark.parametrize(
    ("ess", "draws", "fine"),
    [(9.0, 1000, False), (11.0, 1000, True), (49.0, 20_000, False), (51.0, 20_000, True), (3.0, 4, True)],
)
def test_reports_are_judged_by_their_effective_draws(ess, draws, fine):
    assert Report("any", ess=ess, n_samples=draws).judged(1.0).converged == fine
