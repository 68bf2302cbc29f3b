"""Where a search begins: length scales from the data, whatever the kernel was given."""

import warnings

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared, Matern, WhiteKernel
from sklearn.gaussian_process.kernels import ConstantKernel as C

from gpclass import GPClassifier
from gpclass.hyper.starts import base_rate, begun, elsewhere, from_data
from gpclass.kernels import median_distance, on, parameter_names
from gpclass.likelihoods import MultinomialProbit, Probit
from gpclass.model.problem import Problem

METRES = np.array([180_000.0, 330_000.0])


@pytest.fixture(scope="module")
def boreholes():
    """Two classes in a square of four kilometres, coordinates in metres."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 4000, (120, 2))
    f = 3 * np.sin(X[:, 0] / 500) * np.cos(X[:, 1] / 700)
    return X + METRES, (f + rng.normal(size=120) > 0).astype(int)


def fitted(data, kernel, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return GPClassifier(kernel, inference="ep", random_state=0, **settings).fit(*data)


def problem_of(data, kernel):
    X, y = data
    return Problem.of(X, 2 * y - 1, kernel, Probit())


@pytest.mark.parametrize(
    "kernel",
    [Matern(1.0), 1.0 * Matern(1.0), 1.0 * RBF([1.0, 1.0]), 1.0 * RBF(1e5), 1.0 * on(RBF(1.0), [0, 1]) + C(1.0)],
    ids=str,
)
def test_a_length_in_other_units_than_the_data_finds_the_same_optimum(boreholes, kernel):
    found = fitted(boreholes, kernel)
    start = np.where(["length_scale" in name for name in parameter_names(kernel)], np.log(600.0), kernel.theta)
    good = fitted(boreholes, kernel.clone_with_theta(start))
    assert abs(found.log_evidence_ - good.log_evidence_) < 0.05
    assert found.log_evidence_ > base_rate(found._problem) + 5


def test_metres_cost_no_more_than_kilometres(boreholes):
    X, y = boreholes
    metres, kilometres = fitted((X, y), 1.0 * Matern(1.0)), fitted(((X - METRES) / 1000, y), 1.0 * Matern(1.0))
    assert abs(metres.log_evidence_ - kilometres.log_evidence_) < 0.02
    assert metres.fit_report_.evaluations <= kilometres.fit_report_.evaluations + 5


@pytest.mark.slow
def test_inducing_inputs_start_from_the_data_too(boreholes):
    found = fitted(boreholes, 1.0 * Matern(1.0), n_inducing=30)
    assert found.log_evidence_ > base_rate(found._problem) + 5


def test_a_good_start_and_a_fixed_length_are_kept(boreholes):
    good = problem_of(boreholes, 1.0 * Matern(500.0))
    assert np.array_equal(begun(good).theta, good.theta)
    fixed = problem_of(boreholes, 1.0 * Matern(1.0, "fixed"))
    assert np.array_equal(begun(fixed).theta, fixed.theta)
    assert elsewhere(fixed) is None
    with pytest.warns(UserWarning, match="learned nothing"):
        clf = GPClassifier(Matern(1.0), inference="ep", hyperparameters="fixed").fit(*boreholes)
    assert clf.kernel_ == Matern(1.0)


def test_the_better_of_the_two_starts_is_taken(boreholes):
    X = boreholes[0]
    away = problem_of(boreholes, 1.0 * Matern(1.0))
    assert np.isclose(np.exp(begun(away).theta[1]), median_distance(X))
    assert begun(away).theta[0] == away.theta[0]  # only lengths


def test_lengths_of_the_same_columns_keep_their_ratio(boreholes):
    X = boreholes[0]
    problem = problem_of(boreholes, RBF(0.1) + RBF(10.0) + on(RBF(1.0), 0) + on(RBF(1.0), 1) * on(RBF(1.0), [1, 0]))
    short, long, east, north, both = np.exp(from_data(problem, X))
    assert np.isclose(long / short, 100.0)
    assert np.isclose(np.sqrt(short * long), median_distance(X))
    assert np.isclose(east, median_distance(X[:, [0]]))
    assert np.isclose(north, median_distance(X[:, [1]]))
    assert np.isclose(both, median_distance(X))


def test_one_length_per_column_has_the_units_of_its_column(boreholes):
    X = (boreholes[0] - METRES) * [1.0, 1e-3]
    lengths = np.exp(from_data(problem_of((X, boreholes[1]), RBF([1.0, 1.0])), X))
    assert np.isclose(lengths[0] / lengths[1], X[:, 0].std() / X[:, 1].std())


def test_a_constant_column_does_not_begin_at_a_bound():
    """The deviation of equal numbers is a rounding error, and no unit of their column."""
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=(200, 2)), np.full(200, -0.0437)]
    assert X.std(axis=0)[2] > 0  # as computed
    problem = problem_of((X, np.where(X[:, 0] > 0, 1.0, -1.0)), RBF([1.0, 1.0, 1.0]))
    lengths = np.exp(from_data(problem, X))
    units = np.append(X[:, :2].std(axis=0), 1.0)
    assert np.allclose(lengths, median_distance(X[:, :2] / units[:2]) * units)


def test_what_is_no_length_stays(boreholes):
    kernel = ExpSineSquared(0.7, 3.0) + WhiteKernel(0.3) + 2.0 * RBF(1.0, (0.5, 50.0))
    problem = problem_of(boreholes, kernel)
    start = from_data(problem, boreholes[0])
    assert np.array_equal(start[:-1], problem.theta[:-1])
    assert np.isclose(np.exp(start[-1]), 50.0)  # the nearest bound


def test_each_class_with_a_kernel_of_its_own_starts_from_the_data(boreholes):
    from sklearn.gaussian_process.kernels import CompoundKernel

    X, y = boreholes
    kernel = CompoundKernel([1.0 * RBF(1.0), 2.0 * Matern(1.0)])
    problem = Problem.of(X, y, kernel, MultinomialProbit(), n_classes=2)
    lengths = np.exp(from_data(problem, X))[[1, 3]]
    assert np.allclose(lengths, median_distance(X))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the best parameters lie on a bound.*k2__constant_value")  # balanced classes
def test_a_fit_that_shows_nothing_begins_once_more():
    """Twenty waves: at the median distance the ascent finds nothing."""
    rng = np.random.default_rng(1)
    X = np.sort(rng.uniform(0, 100, (150, 1)), axis=0)
    y = (2 * np.sin(1.2 * X[:, 0]) + 0.5 * rng.normal(size=150) > 0).astype(int)
    found = GPClassifier(inference="ep", random_state=0).fit(X, y)
    assert found.log_evidence_ > base_rate(found._problem) + 5
    assert found.kernel_.get_params()["k1__k2__length_scale"] < 5.0
    assert "length_scale" not in str(found.fit_report_.at_bounds)


def test_nothing_learned_is_judged_against_the_classes_frequencies():
    """Noise of one class in ten: the evidence is far above that of a coin, and shows nothing."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 2)), np.arange(100) % 10 == 0
    with pytest.warns(UserWarning, match=r"no better than that of the classes' frequencies alone, -32\.5"):
        clf = GPClassifier(inference="ep", random_state=0).fit(X, y)
    assert clf.log_evidence_ > -100 * np.log(2) + 30


def test_the_base_rate_counts_weights():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 1)), np.repeat([-1, 1], [30, 10])
    weights = np.where(y > 0, 3.0, 1.0)
    problem = Problem.of(X, y, RBF(1.0), Probit(), weights=weights)
    assert np.isclose(base_rate(problem), -60 * np.log(2))
    assert np.isclose(base_rate(Problem.of(X, y, RBF(1.0), Probit())), 30 * np.log(0.75) + 10 * np.log(0.25))
