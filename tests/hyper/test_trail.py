"""Starts extrapolated from earlier sites: nearer to the fixed point, and never without a sound site."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from gpclass.hyper.climb import Objective
from gpclass.hyper.trail import Trail, _coefficients
from gpclass.inference import EP, Laplace
from gpclass.likelihoods import MultinomialProbit, Probit
from gpclass.model.problem import Problem


def task(classes):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 2))
    y = np.digitize(X[:, 0] + 0.3 * rng.standard_normal(40), [-0.5, 0.5] if classes == 3 else [0.0])
    kernel = ConstantKernel(4.0) * RBF(1.0)
    if classes == 3:
        return Problem.of(X, y, kernel, n_classes=3, likelihood=MultinomialProbit())
    return Problem.of(X, 2.0 * y - 1.0, kernel, Probit())


def walked(problem, steps):
    """A trail along a path of θ, and the last start."""
    trail, last = Trail(), None
    for step in steps:
        last = EP(tol=1e-8)(problem.at(problem.theta + step), start=last).start.light
        trail.add(problem.theta + step, last)
    return trail, last


def numbers(start):
    return start.held[0].kept


def test_an_extrapolated_start_is_nearer_and_leads_to_the_same_sites():
    problem, ep = task(3), EP(tol=1e-8)
    trail, last = walked(problem, [np.array([0.0, 0.0]), np.array([0.3, 0.0]), np.array([0.3, 0.1])])
    there = problem.at(problem.theta + np.array([0.6, 0.15]))
    start = trail.start(there)
    truth = ep(there)
    k = len(numbers(start))

    def off(found):
        return np.abs(numbers(found)[:k] - numbers(truth.start)[:k]).max()

    assert off(start) < 0.5 * off(last)
    assert EP(tol=1e-3).sites(there, start).sweeps <= EP(tol=1e-3).sites(there, last).sweeps
    again = ep(there, start=start)
    assert again.evidence.log_z == pytest.approx(truth.evidence.log_z, abs=1e-8)


def test_nothing_is_extrapolated_from_too_little_or_too_far():
    problem = task(3)
    trail, _ = walked(problem, [np.zeros(2)])
    assert trail.start(problem) is None
    trail, _ = walked(problem, [np.zeros(2), np.array([0.01, 0.0])])
    assert trail.start(problem.at(problem.theta + np.array([2.0, 0.0]))) is not None  # the penalty keeps it near
    assert np.abs(_coefficients(np.array([[0.01, 0.0]]), np.array([2.0, 0.0]))).sum() < 1.0
    trail.add(problem.theta, Laplace()(task(2)).start)
    assert len(trail.points) == 2  # of EP alone


def test_sites_that_are_not_sound_stay_the_newest():
    problem = task(3)
    trail, last = walked(problem, [np.array([1.0, 0.0]), np.array([0.0, 0.0])])
    trail.points[1][1].held[0].kept[:2] = 1e6  # precisions that fall without bound
    start = trail.start(problem.at(problem.theta - np.array([1.0, 0.0])))
    np.testing.assert_array_equal(numbers(start), numbers(last)[: len(numbers(start))])
    two, _ = walked(task(2), [np.zeros(2), np.full(2, 0.1)])
    assert two.start(task(2)) is None  # one latent value per row


def test_an_ascent_remembers_its_points():
    problem = task(3)
    objective = Objective(problem, EP(tol=1e-4), None, 0)
    for shift in (0.0, 0.2, 0.4, 0.6, 0.8):
        objective(problem.theta + shift)
    assert [len(objective.trail.points), len(objective.trail.points[0][1].held)] == [4, 1]


@pytest.mark.parametrize("steps", [[[0.1], [0.2]], [[0.1, 0.0], [0.1, 0.0], [0.0, 0.3]]])
@pytest.mark.parametrize("size", [0.0, 1e-9, 1e-3])
def test_points_that_repeat_and_steps_that_vanish_are_extrapolated_by_little(steps, size):
    steps = np.array(steps)
    a = _coefficients(steps, np.full(steps.shape[1], size))
    assert np.abs(a).sum() <= 100 * size
