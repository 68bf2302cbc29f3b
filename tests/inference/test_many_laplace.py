"""Many classes: softmax Laplace against a direct Newton on nC×nC matrices, gradients by differences."""

import numpy as np
import pytest
from scipy.special import logsumexp, softmax
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, DotProduct, Matern
from sklearn.gaussian_process.kernels import ConstantKernel as Constant

from gpclass import GPClassifier
from gpclass.inference import Importance, Laplace, LatentHMC
from gpclass.likelihoods import Softmax
from gpclass.model.problem import Problem

OWN = [2.0 * RBF(0.8), 1.5 * Matern(1.1, nu=1.5), 0.7 * RBF(1.5) + Constant(0.4)]


def problem(n=25, C=3, kernel=None, seed=0, weights=None, likelihood=None):
    """A small problem with C classes in the plane."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    centres = rng.standard_normal((C, 2))
    y = np.argmax(X @ centres.T + 0.5 * rng.standard_normal((n, C)), axis=1)
    y[:C] = np.arange(C)
    kernel = 2.0 * RBF(0.9) if kernel is None else kernel
    return Problem.of(X, y, kernel, likelihood or Softmax(), weights, n_classes=C)


def kernels_of(task):
    """One kernel per class."""
    return task.kernel.kernels if isinstance(task.kernel, CompoundKernel) else [task.kernel] * task.n_classes


def laplace(task, **settings):
    return Laplace(tol=1e-20)(task, **settings)


def dense_laplace(task, X_new):
    """The slow obvious version: Newton on nC×nC matrices; evidence, mean and covariance at X_new."""
    C, n = task.n_classes, task.n
    w = np.ones(n) if task.weights is None else task.weights
    K = np.zeros((C * n, C * n))
    cross = np.zeros((C * n, C * len(X_new)))
    prior = np.zeros((C * len(X_new), C * len(X_new)))
    for c, k in enumerate(kernels_of(task)):
        own, new = slice(c * n, (c + 1) * n), slice(c * len(X_new), (c + 1) * len(X_new))
        K[own, own], cross[own, new], prior[new, new] = k(task.X), k(task.X, X_new), k(X_new)
    target = (np.arange(C)[:, None] == task.y).ravel()
    f = np.zeros(C * n)
    for _ in range(100):
        pi = softmax(f.reshape(C, n), axis=0)
        W = np.zeros((C, n, C, n))
        for i in range(n):
            W[:, i, :, i] = w[i] * (np.diag(pi[:, i]) - np.outer(pi[:, i], pi[:, i]))
        W = W.reshape(C * n, C * n)
        g = np.tile(w, C) * (target - pi.ravel())
        step = np.linalg.solve(np.eye(C * n) + K @ W, K @ (W @ f + g)) - f
        f = f + step
        if np.abs(step).max() < 1e-13:
            break
    log_pi = f.reshape(C, n) - logsumexp(f.reshape(C, n), axis=0)
    log_lik = np.sum(w * log_pi[task.y, np.arange(n)])
    # At the mode K^-1 f is g, and a solve with the nearly singular K is avoided.
    log_z = log_lik - 0.5 * g @ f - 0.5 * np.linalg.slogdet(np.eye(C * n) + K @ W)[1]
    M = W @ np.linalg.inv(np.eye(C * n) + K @ W)
    mean = (cross.T @ g).reshape(C, -1).T
    covariance = (prior - cross.T @ M @ cross).reshape(C, len(X_new), C, len(X_new))
    return log_z, mean, np.einsum("aibi->iab", covariance), covariance


WEIGHTS = np.random.default_rng(3).uniform(0.3, 2.5, 25)


@pytest.mark.parametrize("kernel", [None, CompoundKernel(OWN)])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_softmax_laplace_is_the_direct_newton(kernel, weights):
    task = problem(kernel=kernel, weights=weights)
    new = np.random.default_rng(1).standard_normal((4, 2))
    log_z, mean, covariance, _ = dense_laplace(task, new)
    found = laplace(task)
    latent = found.latent(new)
    assert found.report.converged
    assert found.evidence.log_z == pytest.approx(log_z, abs=1e-9)
    np.testing.assert_allclose(latent.means[0], mean, atol=1e-8)
    np.testing.assert_allclose(latent.covariances[0], covariance, atol=1e-8)
    at_data = dense_laplace(task, task.X)
    np.testing.assert_allclose(found.gaussian.covariance, at_data[2], atol=1e-8)


@pytest.mark.parametrize("kernel", [None, CompoundKernel(OWN)])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_softmax_gradient_is_that_of_differences(kernel, weights):
    task = problem(kernel=kernel, weights=weights)
    slope = laplace(task, gradient=True).evidence.gradient
    assert slope.shape == task.theta.shape
    for k in range(len(slope)):
        h = np.zeros(len(slope))
        h[k] = 1e-5
        up, down = (laplace(task.at(task.theta + s * h)).evidence.log_z for s in (1, -1))
        difference = (up - down) / 2e-5
        assert slope[k] == pytest.approx(difference, rel=1e-5, abs=1e-6)


def test_softmax_survives_classes_of_no_probability():
    """A huge kernel variance drives π to 0 and 1: evidence and gradient stay finite and right."""
    task = problem(n=40, C=4, kernel=1e4 * RBF(0.5))
    found = laplace(task, gradient=True)
    assert np.all(np.isfinite(found.evidence.gradient))
    h = np.array([1e-4, 0.0])
    up, down = (laplace(task.at(task.theta + s * h)).evidence.log_z for s in (1, -1))
    assert found.evidence.gradient[0] == pytest.approx((up - down) / 2e-4, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "degree"), [(1.0, 4), (1e2, 1), (1e4, 1)])
def test_softmax_mode_with_large_kernel(scale, degree):
    X, y = load_iris(return_X_y=True)
    X, y, shuffled = scale * X[::3], y[::3], np.random.default_rng(0).permutation(50)
    one, other = (
        GPClassifier(DotProduct() ** degree, inference="laplace", hyperparameters="fixed").fit(X[rows], y[rows])
        for rows in (np.arange(50), shuffled)
    )
    assert one.fit_report_.converged
    assert np.mean(one.posterior_.gaussian.mean.argmax(axis=0) == y) > 0.9
    assert one.log_evidence_ == pytest.approx(other.log_evidence_, abs=1e-4)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("method", [Importance(500), LatentHMC(chains=2, warmup=20, draws=20)])
def test_samplers_with_large_kernel_answer_or_warn(method, recwarn):
    X, y = load_iris(return_X_y=True)
    fit = GPClassifier(DotProduct(), inference=method, hyperparameters="fixed", random_state=0)
    fit.fit(1e2 * X[::3], y[::3])
    assert np.isfinite(fit.predict_proba(1e2 * X)).all()
    assert {w.category for w in recwarn} <= {UserWarning, ConvergenceWarning}
    assert fit.fit_report_.warnings or fit.fit_report_.reason
