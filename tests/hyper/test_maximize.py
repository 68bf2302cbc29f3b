"""A climb and the inference after it: nothing is computed cold twice at one θ."""

import gc
import tracemalloc
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.gaussian_process.kernels import RBF, DotProduct

from gpclass import GPClassifier
from gpclass.hyper import Maximize
from gpclass.hyper.base import Run
from gpclass.hyper.climb import Objective, climb
from gpclass.hyper.last_steps import Seen
from gpclass.inference import EP, Laplace, Variational
from gpclass.latent.low_rank import LowRank
from gpclass.likelihoods import Probit, get_likelihood
from gpclass.model.problem import Problem
from gpclass.posterior import Evidence


def problem_of(likelihood, form=None, n=60):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2))
    index = np.digitize(X[:, 0] + 0.3 * rng.standard_normal(n), [-0.4, 0.4])
    chosen = get_likelihood(likelihood)
    C = 3 if chosen.many else 2
    y = chosen.encode(np.minimum(index, C - 1))
    return Problem.of(X, y, 2.0 * RBF(1.0), chosen, n_classes=C, form=form)


class Watch:
    """What an inference was asked for: θ, and the iterations that it took."""

    def __init__(self, monkeypatch, cls):
        self.calls = []
        infer = cls.infer

        def watched(inference, problem, rng, start, gradient):
            found = infer(inference, problem, rng, start, gradient)
            self.calls.append((problem.theta.copy(), start is not None, found.report.iterations))
            return found

        monkeypatch.setattr(cls, "infer", watched)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the best parameters")
@pytest.mark.parametrize("inducing", [False, True])
@pytest.mark.parametrize(
    ("inference", "likelihood"),
    [
        (EP(), "probit"),
        (EP(), "multinomial-probit"),
        (Laplace(), "logit"),
        (Laplace(), "softmax"),
        (Variational(), "probit"),
        (Variational(), "softmax"),
    ],
)
def test_the_last_inference_starts_from_the_climb(monkeypatch, inference, likelihood, inducing):
    problem = problem_of(likelihood, LowRank(None, 15) if inducing else None)
    watch = Watch(monkeypatch, type(inference))
    fit = Maximize(max_iter=8)(problem, inference, Run(np.random.default_rng(0)))
    theta, warm, iterations = watch.calls[-1]
    asked = list(watch.calls)
    np.testing.assert_array_equal(theta, fit.problem.theta)
    assert warm
    assert iterations < inference(fit.problem).report.iterations  # from nothing
    starts = [t for t, warm, _ in asked if not warm]
    assert len(starts) <= 1  # the first evaluation alone is from nothing
    assert not any(np.array_equal(t, fit.problem.theta) for t in starts)


def test_the_last_inference_is_that_of_the_settings(monkeypatch):
    """The climb's sites are loose; those of the fit are not."""
    problem = problem_of("probit")
    seen = []
    infer = EP.infer

    def watched(inference, *rest):
        seen.append(inference.tol)
        return infer(inference, *rest)

    monkeypatch.setattr(EP, "infer", watched)
    fit = Maximize()(problem, EP(tol=1e-9), Run(np.random.default_rng(0)))
    assert seen[-1] == 1e-9
    guide = EP(tol=1e-9).guide(Probit()).tol
    assert sorted({round(tol / guide) for tol in seen[:-1]}) == [5, 20]
    assert seen[:-1] == sorted(seen[:-1], reverse=True)  # the last steps are the finer ones
    again = EP(tol=1e-12)(fit.problem)
    assert abs(again.evidence.log_z - fit.posterior.evidence.log_z) < 1e-9


@pytest.mark.parametrize("wrong", [-1, 0, "small"])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match="tol must be a positive number"):
        Maximize(tol=wrong)
    with pytest.raises(ValueError, match="max_iter must be a whole number"):
        Maximize(max_iter=0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("classes", [2, 3])
def test_cross_validation_with_inducing_inputs_chooses(classes):
    from gpclass.hyper import CrossValidation

    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 2))
    y = np.digitize(X[:, 0], [-0.4, 0.4][: classes - 1])
    search = CrossValidation(grid={"k2__length_scale": [0.02, 1.0]}, folds=3)
    for inference in ("ep", "laplace"):
        settings = {"inference": inference, "hyperparameters": search, "random_state": 0}
        clf = GPClassifier(3.0 * RBF(1.0), n_inducing=12, **settings).fit(X, y)
        assert clf.kernel_.k2.length_scale == pytest.approx(1.0)
        assert clf.score(X, y) > 0.85


@pytest.mark.slow
@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_a_restart_that_fails_leaves_the_others(inference, recwarn):
    X, y = load_iris(return_X_y=True)
    fit = GPClassifier(DotProduct() ** 2, inference=inference, n_restarts=3, random_state=1)
    fit.fit(X[::5], y[::5])
    assert np.isfinite(fit.log_evidence_)


@pytest.mark.parametrize("strategy", ["maximize", "map", "em", "cv"])
@pytest.mark.parametrize("kernel", [RBF(1.0, (1.0, 1.0)), RBF(2.0, (1.0, 1.0))])
def test_bounds_that_leave_nothing_to_choose(kernel, strategy):
    X, y = load_iris(return_X_y=True)
    fit = GPClassifier(kernel, inference="laplace", hyperparameters=strategy).fit(X[50::5], y[50::5])
    assert fit.kernel_.length_scale == 1.0
    assert not any("bound" in text for text in fit.fit_report_.warnings)


@pytest.mark.parametrize("restarts", [0, 1])
@pytest.mark.parametrize("classes", [2, 3])
def test_features_that_no_arithmetic_can_hold_name_the_cure(classes, restarts):
    X, y = load_iris(return_X_y=True)
    kernel = DotProduct(1.0, (0.5, 2.0)) ** 3
    fit = GPClassifier(kernel, inference="laplace", n_restarts=restarts, random_state=0)
    with pytest.raises(ValueError, match="standardise"):
        fit.fit(1e4 * X[::5], np.minimum(y[::5], classes - 1))


@pytest.mark.slow
@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_an_ascent_holds_five_matrices_at_a_time(inference):
    """Matrices of earlier θ are freed at once, not when the garbage collector comes by."""
    n = 590  # an ascent over more rows begins on a part of them, and needs few evaluations over all
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.4 * rng.normal(size=n) > 0.3
    model = GPClassifier(1.0 * RBF(1.0), inference=inference, random_state=0)
    gc.disable()
    tracemalloc.start()
    try:
        model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.enable()
    assert model.fit_report_.evaluations >= 5
    tiles = 4 * 2**20  # bytes, whatever n is
    assert peak < 8 * 5 * n**2 + tiles


@pytest.mark.slow
def test_an_exact_fit_holds_nine_matrices_at_a_time():
    """The draws included; kernels keep nothing for slopes from 1,415 rows on, and plans one covariance."""
    n = 1500
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = 1.5 * np.sin(2 * X[:, 0]) + X[:, 1] + 0.7 * rng.normal(size=n) > 0
    tracemalloc.start()
    try:
        GPClassifier(1.0 * RBF(1.0), hyperparameters="fixed", tol=5e-3, random_state=0).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * 9 * n**2


def test_the_first_step_is_short_where_the_slope_is_steep(monkeypatch):
    """L-BFGS-B takes the whole gradient as its first step, which ends on the bounds of parameters that have any."""
    watch = Watch(monkeypatch, Laplace)
    fit = Maximize()(problem_of("softmax", n=150), Laplace(), Run(np.random.default_rng(0)))
    first, second = watch.calls[0][0], watch.calls[1][0]
    assert 0.5 < np.linalg.norm(second - first) <= 1.0 + 1e-9
    assert fit.converged


class Bowl:
    """A quadratic evidence whose second parameter is a thousandth as curved as the first."""

    inference, seed, bend = None, 0, np.array([300.0, 0.3])
    problem = SimpleNamespace(bounds=np.array([[-20.0, 20.0], [-20.0, 20.0]]))

    def __init__(self):
        self.visited = []

    def __call__(self, theta):
        self.visited.append(theta)
        off = theta - np.array([1.0, 2.0])
        return Seen(-0.5 * float(self.bend @ off**2), -self.bend * off)


@pytest.mark.parametrize("one_unit", [False, True])
def test_a_parameter_of_small_slope_has_a_unit_of_its_own(one_unit):
    bowl = Bowl()
    found = climb(bowl, np.zeros(2), max_iter=50, tol=1e-9, gradient_tol=0.0, one_unit=one_unit)
    assert found.converged
    np.testing.assert_allclose(found.theta, [1.0, 2.0], atol=1e-2)
    first = bowl.visited[1]
    assert np.linalg.norm(first) == pytest.approx(1.0, abs=1e-6)
    assert first[1] == pytest.approx(0.002 if one_unit else np.sqrt(0.6 / 300.6), rel=1e-3)


def test_values_within_rounding_are_told_apart_by_their_slopes():
    """Near the maximum gains are below the rounding of the evidence, and a line search by values finds none."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.4 * rng.normal(size=400) > 0
    fitted = GPClassifier(1.0 * RBF(1.0), inference="laplace").fit(X, y)
    assert fitted.fit_report_.converged
    assert fitted.fit_report_.evaluations <= 10  # 13 by values alone


@pytest.mark.parametrize(("tol", "loose"), [(1e-10, 1e-7), (1e-6, 1e-3), (1e-4, 1e-3), (1e-3, 1e-3), (0.01, 0.01)])
def test_sites_of_a_guide_are_never_looser_than_three_digits_or_the_result(tol, loose):
    """The last steps of a search have five times that: looser ones would move the maximum of the evidence."""
    assert EP(tol=tol).guide(Probit()).tol == pytest.approx(loose, rel=1e-12)


def test_values_far_apart_are_not_told_apart_by_slopes(monkeypatch):
    """Two points on either side of a skewed maximum may have equal values, and the mean of their slopes is no gain."""

    def skewed(inference, problem, rng, start, gradient):
        (t,) = problem.theta
        evidence = Evidence(
            -500.0 - 3.0 * (np.exp(t) - 1.0 - t), None, "approximate", np.array([3.0 - 3.0 * np.exp(t)])
        )
        return replace(found, evidence=evidence)

    rng, X = np.random.default_rng(0), np.linspace(-1, 1, 20)[:, None]
    problem = Problem.of(X, np.sign(X[:, 0]), RBF(1.0, (1e-3, 1e3)), Probit())
    found = Laplace()(problem, rng, gradient=True)
    monkeypatch.setattr(Laplace, "infer", skewed)
    for start in np.linspace(-3.0, 2.0, 200):
        objective = Objective(problem, Laplace(), None, 0)
        top = climb(objective, np.array([start]), max_iter=200, tol=1e-3, gradient_tol=1e-3)
        (t,) = top.theta
        assert abs(top.value + 500.0 + 3.0 * (np.exp(t) - 1.0 - t)) < 0.5  # tol is half a nat here
