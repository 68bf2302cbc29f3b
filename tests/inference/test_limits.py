"""Limits of the kernel's parameters, as docs/methods/exact.md states them."""

import numpy as np
import pytest
from scipy.special import betaln
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from gpclass.inference import GPCMC, Exact
from gpclass.likelihoods import Probit
from gpclass.model.problem import Problem
from gpclass.predict import predict_proba

X = np.array([[0.0], [0.8], [1.5]])
Y = np.array([1.0, -1.0, 1.0])
NEW = np.array([[0.4]])
FAR, NEAR = 1e5, 1e-5


def answer(inference, alpha, beta, y=Y):
    """The log evidence with its standard error, and the probability at the new point."""
    problem = Problem.of(X, y, ConstantKernel(beta) * RBF(alpha), Probit())
    posterior = inference(problem, np.random.default_rng(0))
    proba = predict_proba(posterior.latent(NEW), problem.likelihood).proba[0, 1]
    return posterior.evidence.log_z, posterior.evidence.error or 0.0, proba


def orthant(R):
    """P(v > 0) of three variables with these correlations."""
    return (1 / 8) + (np.arcsin(R[0, 1]) + np.arcsin(R[0, 2]) + np.arcsin(R[1, 2])) / (4 * np.pi)


@pytest.mark.parametrize("inference", [Exact(n_samples=4000), GPCMC(20_000)], ids=["exact", "gpc-mc"])
def test_limits_of_length_and_variance(inference):
    for alpha, beta in ((NEAR, 2.0), (1.0, NEAR**2)):  # rows apart, or no signal: guessing
        log_z, error, proba = answer(inference, alpha, beta)
        assert log_z == pytest.approx(-3 * np.log(2), abs=5 * error + 1e-4)
        assert proba == pytest.approx(0.5, abs=0.01)
    log_z, error, proba = answer(inference, FAR, 1.0)  # one value for all: Laplace's rule of succession
    assert log_z == pytest.approx(betaln(3, 2), abs=5 * error + 1e-4)
    assert proba == pytest.approx(3 / 5, abs=0.01)
    log_z, error, _ = answer(inference, 1.0, FAR**2)  # the sign of f alone
    R = np.outer(Y, Y) * RBF(1.0)(X)
    assert log_z == pytest.approx(np.log(orthant(R)), abs=5 * error + 1e-4)


def test_one_certain_value_for_all_rows():
    assert answer(Exact(n_samples=4000), 1e7, 1e8, np.ones(3))[0] == pytest.approx(np.log(0.5), abs=0.01)
    assert answer(Exact(n_samples=4000), 1e7, 1e8)[0] < -6.0  # both labels: to zero
