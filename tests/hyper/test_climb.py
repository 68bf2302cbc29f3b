"""One ascent of the evidence: it ends where little is left, as its steps tell, and not on a ridge."""

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.gaussian_process.kernels import RBF

from gpclass.hyper.climb import Objective, climb
from gpclass.hyper.last_steps import Seen, nothing_left, updated
from gpclass.inference import Laplace
from gpclass.likelihoods import Probit
from gpclass.model.problem import Problem

LIMITS = {"max_iter": 200, "tol": 1e-6, "gradient_tol": 1e-3}
LEAST = 1e-3


@pytest.fixture
def problem():
    X, y = make_moons(120, noise=0.3, random_state=0)
    return Problem.of(X, 2.0 * y - 1.0, 1.0 * RBF(1.0), Probit())


def ascent(problem, **settings):
    return climb(Objective(problem, Laplace(), None, 0), problem.theta, **{**LIMITS, **settings})


def test_an_ascent_ends_where_less_than_asked_for_is_left(problem):
    long, short = ascent(problem, tol=1e-12), ascent(problem, least_gain=LEAST)
    assert short.converged
    assert short.reason == ""
    assert short.evaluations < ascent(problem).evaluations
    assert long.value - LEAST < short.value <= long.value + 1e-9


def test_the_curvature_is_that_of_the_evidence(problem):
    found = ascent(problem, least_gain=LEAST)

    def slope(theta):
        return Laplace()(problem.at(theta), gradient=True).evidence.gradient

    unit = 1e-3 * np.eye(2)
    H = np.array([slope(found.theta - one) - slope(found.theta + one) for one in unit]) / 2e-3
    inverse = np.linalg.inv(0.5 * (H + H.T))
    np.testing.assert_allclose(found.inverse_curvature, inverse, atol=0.4 * np.abs(inverse).max())


def test_steps_that_have_not_seen_every_direction_do_not_end_an_ascent(problem):
    """With a huge gain asked for, as many iterations as parameters are still made."""
    assert ascent(problem, least_gain=1e6).iterations >= len(problem.theta)


def test_a_ridge_has_nothing_left_only_if_its_slope_is_small():
    """A curvature that is far too large along an axis promises little there; the slope tells."""
    C, bounds = np.diag([1.0, 1e-6]), np.array([[-5.0, 5.0]] * 2)
    assert nothing_left(np.zeros(2), np.array([1e-3, 1e-3]), C, bounds, LEAST)
    assert not nothing_left(np.zeros(2), np.array([1e-3, 40.0]), C, bounds, LEAST)
    assert not nothing_left(np.zeros(2), np.array([0.1, 0.0]), np.eye(2), bounds, LEAST)


def test_parameters_that_a_bound_holds_have_nothing_left():
    C, bounds = np.eye(2), np.array([[-5.0, 5.0], [0.0, 5.0]])
    assert nothing_left(np.zeros(2), np.array([1e-3, -7.0]), C, bounds, LEAST)
    assert not nothing_left(np.zeros(2), np.array([1e-3, 7.0]), C, bounds, LEAST)
    assert nothing_left(np.zeros(1), np.array([-7.0]), np.eye(1), bounds[1:], LEAST)


def test_updates_learn_a_quadratic():
    A, C, rng = np.array([[3.0, 1.0], [1.0, 2.0]]), np.eye(2), np.random.default_rng(0)
    for _ in range(40):
        step = rng.standard_normal(2)
        C = updated(C, step, A @ step)
    np.testing.assert_allclose(C, np.linalg.inv(A), rtol=1e-6)


def test_an_ascent_goes_on_from_what_is_known(problem):
    seen = Objective(problem, Laplace(), None, 0)(problem.theta)
    assert isinstance(seen, Seen)
    fresh, known = ascent(problem, least_gain=LEAST), ascent(problem, least_gain=LEAST, seen=seen)
    assert known.evaluations == fresh.evaluations - 1
    np.testing.assert_allclose(known.theta, fresh.theta, rtol=1e-6)
