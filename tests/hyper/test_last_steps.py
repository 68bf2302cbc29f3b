"""The last steps of an ascent, on functions whose maximum is known, and of fits that begin on a part of the rows."""

import warnings

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, ConstantKernel

from gpclass import GPClassifier
from gpclass.hyper import Maximize
from gpclass.hyper.base import Run
from gpclass.hyper.last_steps import GROUPS, Seen, last_steps
from gpclass.inference import EP
from gpclass.latent import dense
from gpclass.likelihoods import MultinomialProbit, Probit
from gpclass.model.problem import Problem

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


def test_shortened_steps_move_the_others_along():
    """On a ridge the others follow the parameter whose step is shortened: no step falls."""
    ridge = np.array([[100.0, 0.0, 99.0], [0.0, 1.0, 0.0], [99.0, 0.0, 99.0]])
    top, seen = np.array([3.0, 0.1, -3.0]), []

    def climbed(theta):
        d = theta - top
        seen.append(-0.5 * float(d @ ridge @ d))
        return Seen(seen[-1], -ridge @ d)

    done = last_steps(climbed, np.zeros(3), np.linalg.inv(ridge), WIDE, steps=8, gain=1e-9)
    assert done.arrived
    assert done.evaluations == 4  # three steps of one each
    assert seen == sorted(seen)


def test_rough_evaluations_begin_and_never_end():
    """The last value is a precise one, whatever the rough ones say."""
    rough, precise = [], []

    def roughly(theta):
        rough.append(theta)
        found = hill(theta)
        return Seen(found.value + 0.01, found.slope)

    def precisely(theta):
        precise.append(theta)
        return hill(theta)

    far = TOP + np.array([-3.0, 2.0, 3.0])
    done = last_steps(precisely, far, np.linalg.inv(H), WIDE, steps=8, gain=1e-6, roughly=roughly)
    assert done.arrived
    assert len(rough) >= 2
    assert done.evaluations == len(rough) + len(precise)
    assert done.seen.value == hill(done.theta).value
    near = last_steps(precisely, TOP, np.linalg.inv(H), WIDE, steps=8, gain=1e-6, roughly=roughly)
    assert near.seen.value == hill(near.theta).value


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


def test_slopes_that_are_noise_promise_nothing():
    """Of the nats that a noisy slope promises, those that its error adds are subtracted."""
    rng, C = np.random.default_rng(0), np.linalg.inv(H)
    noise = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, 0.1], [0.0, 0.1, 0.5]])
    root = np.linalg.cholesky(noise)

    def evaluations(start, noise):
        def noisy(theta):
            return Seen(hill(theta).value, hill(theta).slope + shift, 0.05, noise=noise)

        found = []
        for _ in range(200):
            shift = root @ rng.standard_normal(3)
            found.append(last_steps(noisy, start, C, WIDE, steps=1, gain=0.02).evaluations)
        return np.mean(np.array(found) > 1)

    assert evaluations(TOP, None) > 0.9  # the negative control: nearly every one took a step
    assert evaluations(TOP, noise) < 0.12
    assert evaluations(TOP + np.array([3.0, 0.0, 0.0]), noise) > 0.99  # 18 nats away


def test_noise_that_few_groups_tell_promises_nothing():
    """The covariance of the error is itself known from few groups alone."""
    rng, C = np.random.default_rng(0), np.linalg.inv(H)
    steps = []
    for _ in range(1000):
        each = rng.standard_normal((GROUPS, 3))
        seen = Seen(0.0, each.mean(axis=0), 1e-6, noise=np.cov(each.T) / GROUPS)
        done = last_steps(lambda theta, seen=seen: seen, TOP, C, WIDE, steps=1, gain=1e-9)
        steps.append(done.evaluations > 1)
    assert np.mean(steps) < 0.02


def test_a_failed_inference_is_not_the_end():
    def walled(theta):
        return hill(theta) if theta[0] < 0.2 else Seen(-np.inf, np.zeros(3))

    done = last_steps(walled, np.zeros(3), np.linalg.inv(H), WIDE, steps=5, gain=1e-9)
    assert np.isfinite(done.seen.value)
    assert done.seen.value > hill(np.zeros(3)).value  # half a step
    assert 0.0 < done.theta[0] < 0.2


def test_what_is_left_counts_the_whole_way():
    """A long ridge of small slope, of which one step covers a part."""

    def ridge(theta):
        return Seen(float(0.02 * theta[0] - 0.001 * theta[0] ** 2), 0.02 - 0.002 * theta)

    bounds = np.array([[-50.0, 50.0]])
    begun = last_steps(ridge, np.zeros(1), np.array([[500.0]]), bounds, steps=0, gain=0.05)
    assert not begun.arrived  # 0.1 nats away, 0.02 of them within one step
    done = last_steps(ridge, np.zeros(1), np.array([[500.0]]), bounds, steps=20, gain=0.05)
    assert done.arrived
    assert done.seen.value > 0.05


def test_slopes_that_do_not_matter_end_the_steps():
    done = last_steps(hill, np.zeros(3), np.linalg.inv(H), WIDE, steps=5, gain=1e-9, flat=10.0)
    assert done.arrived
    assert done.evaluations == 1


def test_a_known_curvature_tells_what_a_slope_is_worth():
    """A slope of .04 is worth less than a thousandth of a nat where the curvature is 1, or much more along a ridge."""

    def plain(theta):
        return Seen(-0.5 * float((theta - TOP) @ (theta - TOP)), TOP - theta)

    near = TOP + np.array([0.04, 0.0, 0.0])
    settings = {"steps": 5, "gain": 1e-3}
    known = last_steps(plain, near, np.eye(3), WIDE, known=True, **settings)
    assert (known.arrived, known.evaluations) == (True, 1)
    assert last_steps(plain, near, np.eye(3), WIDE, **settings).evaluations == 2
    flat = last_steps(hill, TOP + 0.1, np.linalg.inv(H), WIDE, known=True, **settings)
    assert flat.arrived
    assert flat.evaluations > 1
    assert flat.seen.value == pytest.approx(hill(TOP).value, abs=1e-3)


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


def test_a_part_has_every_class():
    X, y = problem(700, 2)
    y = np.where(np.arange(700) < 3, 2, y)
    likelihood = MultinomialProbit()
    whole = Problem.of(X, likelihood.encode(y), 1.0 * RBF(1.0), likelihood, None, 3)
    part = whole.form.part(whole, np.random.default_rng(1))
    assert np.sum(part.y == 2) == 3
    assert 230 <= part.n < 260
    again = whole.form.part(whole, np.random.default_rng(2))
    np.testing.assert_array_equal(part.X, again.X)  # whatever the random state
    few = Problem.of(X[:90], likelihood.encode(np.arange(90) % 6), 1.0 * RBF(1.0), likelihood, None, 6)
    assert few.form.part(few, np.random.default_rng(0)) is None


def test_small_classes_are_no_part(monkeypatch):
    """Twenty rows of every class would be all rows."""
    monkeypatch.setattr(dense, "MANY", 100)
    X, y = problem(120, 2)[0], np.arange(120) % 6
    likelihood = MultinomialProbit()
    whole = Problem.of(X, likelihood.encode(y), 1.0 * RBF(1.0), likelihood, None, 6)
    assert whole.form.part(whole, np.random.default_rng(0)) is None


@pytest.mark.filterwarnings("ignore:the best parameters lie on a bound")
def test_restarts_keep_their_mode(monkeypatch):
    """The best of many starts is far from the kernel's own length scale: a fine grating."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (300, 1))
    y = np.sin(2 * np.pi * X[:, 0] / 0.08) > 0
    kernel = ConstantKernel(9.0, (1.0, 1e3)) * RBF(1.0, (5e-3, 1e2))

    def fitted():
        return GPClassifier(kernel, inference="laplace", n_restarts=6, random_state=0).fit(X, y)

    whole = fitted()
    monkeypatch.setattr(dense, "MANY", 100)
    part = fitted()
    assert whole.kernel_.k2.length_scale < 0.05  # e³ below where the kernel starts
    assert abs(part.log_evidence_ - whole.log_evidence_) < 0.01


def test_a_part_that_learns_nothing_is_not_believed(monkeypatch):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((300, 3))
    y = 0.25 * X[:, 0] + rng.standard_normal(300) > 0

    def fitted():
        return GPClassifier(1.0 * RBF(1.0), inference="laplace").fit(X, y)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = fitted()
        monkeypatch.setattr(dense, "MANY", 100)
        part = fitted()
    assert part.log_evidence_ > whole.log_evidence_ - 0.01


def test_a_failure_on_all_rows_leads_back_to_the_start(monkeypatch):
    monkeypatch.setattr(dense, "MANY", 100)
    X, y = problem(150, 2)
    infer, failed = EP.infer, []

    def fails_once(self, problem, *others):
        if problem.n == 150 and not failed:
            failed.append(1)
            raise ValueError("not here")
        return infer(self, problem, *others)

    whole = GPClassifier(1.0 * RBF(1.0), inference="ep").fit(X, y)
    monkeypatch.setattr(EP, "infer", fails_once)
    again = GPClassifier(1.0 * RBF(1.0), inference="ep").fit(X, y)
    assert failed
    assert abs(again.log_evidence_ - whole.log_evidence_) < 0.01


@pytest.mark.parametrize("settings", [{"sample_weight": True}, {"map": True}, {"own": True}])
def test_a_part_goes_with_weights_priors_and_kernels_of_their_own(monkeypatch, settings):
    X, y = problem(150, 2, 3 if "own" in settings else 2)
    kernel = CompoundKernel([1.0 * RBF(1.0)] * 3) if "own" in settings else 1.0 * RBF(1.0)
    weights = np.where(np.arange(150) % 4, 1.0, 2.0) if "sample_weight" in settings else None
    strategy = "map" if "map" in settings else "maximize"

    def fitted():
        return GPClassifier(kernel, inference="ep", hyperparameters=strategy).fit(X, y, sample_weight=weights)

    whole = fitted()
    monkeypatch.setattr(dense, "MANY", 100)
    part = fitted()
    assert abs(part.log_evidence_ - whole.log_evidence_) < 0.02
    assert part.fit_report_.details["evaluations_on_a_part"] > 0


@pytest.mark.parametrize("many", [100, 1000])
def test_settings_of_the_ascent_are_heeded(monkeypatch, many):
    monkeypatch.setattr(dense, "MANY", many)
    X, y = problem(150, 2)
    index = Probit().encode(y)
    whole = Problem.of(X, index, 1.0 * RBF(1.0), Probit(), None, 2)

    def spent(**settings):
        fit = Maximize(**settings)(whole, EP(), Run(np.random.default_rng(0)))
        return fit.figures["evaluations"], fit.converged

    default, short, flat = spent(), spent(max_iter=1), spent(gradient_tol=50.0)
    assert default[1]
    assert not short[1]
    assert short[0] <= 4
    assert flat[0] < default[0]
    assert spent(tol=1e-6) == default
    assert spent(tol=1e-10)[0] > default[0]
