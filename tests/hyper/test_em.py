"""EM converges in the evidence, to the optimum of the climb where both maximise the same function."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier
from gpclass.datasets import atiya_gaussians
from gpclass.hyper import EM


def kernel(lengths=1.0):
    return ConstantKernel(1.0, (1e-3, 1e4)) * RBF(lengths, (1e-2, 1e2))


def moons():
    return make_moons(40, noise=0.25, random_state=0)


def gaussians():
    train, _ = atiya_gaussians(5, random_state=0)
    return train.X, train.y


def flowers():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X)[::5], y[::5]


def fit(data, inference, strategy="maximize", kernels=None):
    return GPClassifier(kernels or kernel(), inference=inference, hyperparameters=strategy, random_state=0).fit(*data())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "inference"), [(moons, "ep"), (moons, "variational"), (gaussians, "variational"), (flowers, "variational")]
)
def test_em_ends_at_the_optimum_of_the_evidence(data, inference):
    best, em = fit(data, inference), fit(data, inference, "em")
    assert em.log_evidence_ > best.log_evidence_ - 0.01
    details = em.fit_report_.details
    assert details["em_gap"] < 1e-3
    assert details["em_slope"] == pytest.approx(details["em_evidence_slope"], abs=1e-3)
    assert details["em_iterations"] <= 20
    assert np.all(np.diff(em.trace_.evidence) >= 0)


@pytest.mark.parametrize("kernels", [None, [kernel() for _ in range(3)]], ids=["shared", "own"])
def test_em_with_laplace_ends_where_the_expected_prior_has_no_slope(kernels):
    """The rest of the evidence's slope comes through the mode; it is reported."""
    data = flowers if kernels else moons
    details = fit(data, "laplace", "em", kernels).fit_report_.details
    assert details["em_slope"] < 0.03
    assert details["em_evidence_slope"] > 0.3


def short(**settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit(moons, "laplace", EM(**settings))


@pytest.mark.slow
def test_plain_em_reaches_the_same_point_slowly_and_says_when_it_does_not():
    quick, slow, stopped = short(), short(accelerate=False, max_iter=40), short(accelerate=False, max_iter=10)
    assert not stopped.fit_report_.converged
    assert "promises" in stopped.fit_report_.reason
    assert stopped.fit_report_.details["em_m_steps"] == 10
    ends = [abs(one.kernel_.theta - quick.kernel_.theta).max() for one in (stopped, slow)]
    assert ends[1] < 0.95 * ends[0]
    assert quick.fit_report_.details["em_iterations"] < 20


def test_the_papers_update_steps_along_the_gradient():
    trace = short(step=1e-3, max_iter=4).trace_
    moved = np.diff(trace.theta, axis=0)
    assert np.all(trace.gain > 0)
    assert np.abs(moved).max() < 0.2
    once, double = (short(max_iter=1, step=step).kernel_.theta for step in (1e-3, 2e-3))
    np.testing.assert_allclose(once, trace.theta[1])
    np.testing.assert_allclose(double - trace.theta[0], 2.0 * moved[0])
