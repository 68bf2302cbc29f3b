"""Credible intervals hold the true probability as often as they say, if data come from the prior."""

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.gaussian_process.kernels import RBF

from gpclass.inference import EP, Exact
from gpclass.likelihoods import Probit
from gpclass.model.problem import Problem
from gpclass.predict import uncertainty

RUNS, ROWS, NEW = 150, 25, 8


def covered(method, slope=1.0):
    """Share of new points whose true probability lies in the 90 % interval; another ``slope`` spoils the labels."""
    inside = []
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-3, 3, (ROWS + NEW, 1))
        kernel = 4.0 * RBF(1.0)
        f = np.linalg.cholesky(kernel(X) + 1e-9 * np.eye(len(X))) @ rng.standard_normal(len(X))
        y = np.where(rng.random(ROWS) < ndtr(slope * f[:ROWS]), 1.0, -1.0)
        problem = Problem.of(X[:ROWS], y, kernel, Probit())
        found = uncertainty(method(problem, rng).latent(X[ROWS:]), Probit(), 0.9)
        p = ndtr(f[ROWS:])
        inside.append((found.lower[:, 1] <= p) & (p <= found.upper[:, 1]))
    return np.mean(inside), np.std(np.mean(inside, axis=1), ddof=1) / np.sqrt(RUNS)


@pytest.mark.slow
@pytest.mark.parametrize("method", [Exact(n_samples=400), EP()], ids=["exact", "ep"])
def test_intervals_hold_the_truth_nine_times_in_ten(method):
    share, error = covered(method)
    assert error < 0.015
    assert abs(share - 0.9) < 3 * error


@pytest.mark.slow
def test_intervals_of_another_model_do_not():
    """Negative control: labels that are noisier than the model knows."""
    share, error = covered(EP(), slope=0.2)
    assert share < 0.9 - 5 * error
