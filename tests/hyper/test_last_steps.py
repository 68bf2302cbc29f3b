"""The last steps of an ascent, on functions whose maximum is known, and of fits that begin on a part of the rows."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from gpclass import GPClassifier
from gpclass.hyper.last_steps import Seen, last_steps
from gpclass.latent import dense

WIDE = np.array([[-9.0, 9.0]] * 3)
H = np.array([[4.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 1.0]])
TOP = np.array([0.4, -0.3, 0.8])


def hill(theta):
    """A quadratic with its maximum at TOP."""
    d = theta - TOP
    return Seen(float(-0.5 * d @ H @ d), -H @ d)


def test_a_known_curvature_takes_one_step():
    done = last_steps(hill, np.zeros(3), np.linalg.inv(H), WIDE, steps=5, gain=1e-9)
    assert done.arrived
    assert done.evaluations == 2
    np.testing.assert_allclose(done.theta, TOP, atol=1e-12)


def test_a_wrong_curvature_is_improved():
    done = last_steps(hill, np.zeros(3), 0.3 * np.eye(3), WIDE, steps=30, gain=1e-8)
    assert done.arrived
    assert done.seen.value > -1e-6
    np.testing.assert_allclose(done.inverse_curvature, np.linalg.inv(H), atol=0.1)
    few = last_steps(hill, np.zeros(3), 1e-4 * np.eye(3), WIDE, steps=1, gain=1e-8)
    assert not few.arrived  # slopes remain, though the curvature promises nothing


def test_steps_that_fall_are_halved():
    done = last_steps(hill, np.zeros(3), 1.8 * np.eye(3), WIDE, steps=30, gain=1e-8)
    assert done.arrived
    assert done.seen.value > -1e-6


def test_steps_end_on_bounds():
    bounds = WIDE.copy()
    bounds[2, 1] = 0.1
    done = last_steps(hill, np.zeros(3), np.linalg.inv(H), bounds, steps=30, gain=1e-10)
    assert done.arrived
    assert done.theta[2] == 0.1
    A, rest = H[:2, :2], H[:2, 2] * (0.1 - TOP[2])
    np.testing.assert_allclose(done.theta[:2], TOP[:2] - np.linalg.solve(A, rest), atol=1e-4)


def test_noise_ends_the_steps():
    def noisy(theta):
        seen = hill(theta)
        return Seen(seen.value, seen.slope, error=10.0)

    done = last_steps(noisy, np.zeros(3), np.linalg.inv(H), WIDE, steps=5, gain=1e-9)
    assert done.arrived
    assert done.evaluations == 1


def test_a_failed_inference_is_not_the_end():
    def walled(theta):
        return hill(theta) if theta[0] < 0.2 else Seen(-np.inf, np.zeros(3))

    done = last_steps(walled, np.zeros(3), np.linalg.inv(H), WIDE, steps=5, gain=1e-9)
    assert np.isfinite(done.seen.value)
    assert done.theta[0] < 0.2


def problem(n, d, classes=2):
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, d))
    f = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.4 * rng.standard_normal(n)
    return X, np.digitize(f, np.quantile(f, np.arange(1, classes) / classes))


@pytest.mark.parametrize(
    ("inference", "classes", "ard"), [("ep", 2, False), ("laplace", 2, True), ("ep", 2, True), ("ep", 3, False)]
)
def test_a_part_of_the_rows_leads_to_the_same_maximum(monkeypatch, inference, classes, ard):
    X, y = problem(150, 3, classes)
    kernel = 1.0 * RBF(np.ones(3) if ard else 1.0)

    def fitted():
        return GPClassifier(kernel, inference=inference, random_state=0).fit(X, y)

    whole = fitted()
    monkeypatch.setattr(dense, "MANY", 100)
    part = fitted()
    assert abs(part.log_evidence_ - whole.log_evidence_) < 0.01
    assert part.fit_report_.converged


def test_rare_classes_are_in_the_part(monkeypatch):
    monkeypatch.setattr(dense, "MANY", 100)
    X, y = problem(150, 2)
    y = np.where(np.arange(150) < 3, 2, y)
    fit = GPClassifier(1.0 * RBF(1.0), inference="ep", random_state=0).fit(X, y)
    assert fit.predict_proba(X).shape == (150, 3)
