"""Properties of the public interface on random problems: what must not change an answer does not."""

import warnings
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

from gpclass import GPClassifier, load_model
from gpclass.inference import Exact
from gpclass.numerics.linalg import NotPositiveDefiniteError

N, NEW = 18, 5
GAUSSIAN = ["laplace", "ep", "variational"]
EXAMPLES = settings(max_examples=8)


@st.composite
def problems(draw, kernels=("rbf", "matern", "linear", "sum")):
    """Features, labels, new points, a kernel and a number of classes, from one seed and a few choices."""
    rng, C = np.random.default_rng(draw(st.integers(0, 10_000))), draw(st.sampled_from([2, 3]))
    X, X_new = rng.standard_normal((N, 2)), rng.standard_normal((NEW, 2))
    y = rng.integers(C, size=N)
    y[:C] = np.arange(C)
    variance, length = draw(st.sampled_from([1e-3, 1.0, 30.0])), draw(st.sampled_from([0.1, 1.0, 10.0]))
    kernel = {
        "rbf": ConstantKernel(variance) * RBF(length),
        "matern": ConstantKernel(variance) * Matern([length, 2.0 * length], nu=1.5),
        "linear": ConstantKernel(variance) * DotProduct(length),
        "sum": ConstantKernel(variance) * RBF(length) + WhiteKernel(0.1),
    }[draw(st.sampled_from(kernels))]
    return X, y, X_new, kernel, C


def method(name):
    return Exact(n_samples=256) if name == "exact" else name


def fitted(name, kernel, X, y, weights=None, **options):
    """A fit at fixed parameters; any warning of NumPy or SciPy is an error."""
    options = {"hyperparameters": "fixed", "random_state": 0} | options
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        return GPClassifier(kernel, inference=method(name), **options).fit(X, y, sample_weight=weights)


def proba(fit, X):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)
        return fit.predict_proba(X)


COMPARED = []  # whether both fits of each pair of the present test have converged


@pytest.fixture(autouse=True)
def most_are_compared():
    """A property of converged fits is checked on most of the examples."""
    COMPARED.clear()
    yield
    assert not COMPARED or np.mean(COMPARED) >= 0.75, f"{sum(COMPARED)} of {len(COMPARED)} pairs compared"


def converged(one, other):
    COMPARED.append(bool(one.fit_report_.converged and other.fit_report_.converged))
    return COMPARED[-1]


def agree(one, other, X, X_other=None, atol=2e-5):
    """Both answer the same up to their stated errors, or one says that it has not converged."""
    if converged(one, other):
        p, q = proba(one, X), proba(other, X if X_other is None else X_other)
        with warnings.catch_warnings(action="ignore"):
            mcse = np.nan_to_num(one.predict_uncertainty(X).mcse)
        error = one.log_evidence_error_ or 0.0
        assert np.all(np.abs(p - q) <= atol + 6.0 * mcse)
        assert one.log_evidence_ == pytest.approx(other.log_evidence_, abs=1e-4 + 6.0 * error, rel=1e-6)


def agree_in_order(one, other, order, X_new):
    """Class c of the one is class order[c] of the other."""
    if converged(one, other):
        with warnings.catch_warnings(action="ignore"):
            mcse = np.nan_to_num(one.predict_uncertainty(X_new).mcse)
        # The averages of softmax are over fixed points, which are not symmetric in the classes.
        assert np.all(np.abs(proba(one, X_new) - proba(other, X_new)[:, order]) < 6e-3 + 6 * mcse)


@pytest.mark.slow
@pytest.mark.parametrize("name", GAUSSIAN)
@EXAMPLES
@given(problem=problems(), seed=st.integers(0, 99), weighted=st.booleans())
def test_the_order_of_rows_does_not_matter(name, problem, seed, weighted):
    X, y, X_new, kernel, _ = problem
    rng = np.random.default_rng(seed)
    order, weights = rng.permutation(N), rng.uniform(0.2, 3.0, N) if weighted else np.ones(N)
    one = fitted(name, kernel, X, y, weights)
    agree(one, fitted(name, kernel, X[order], y[order], weights[order]), X_new)


@pytest.mark.parametrize("name", GAUSSIAN)
@EXAMPLES
@given(problem=problems(), seed=st.integers(0, 99))
def test_the_names_and_the_order_of_classes_do_not_matter(name, problem, seed):
    X, y, X_new, kernel, C = problem
    order = np.random.default_rng(seed).permutation(C)
    one, other = fitted(name, kernel, X, y), fitted(name, kernel, X, np.array(["a", "b", "c"])[order[y]])
    agree_in_order(one, other, order, X_new)


@pytest.mark.slow
@pytest.mark.parametrize("name", GAUSSIAN)
@EXAMPLES
@given(problem=problems(kernels=("rbf", "matern", "linear")), seed=st.integers(0, 99))
def test_whole_weights_are_repeated_rows(name, problem, seed):
    X, y, X_new, kernel, _ = problem
    count = np.random.default_rng(seed).integers(1, 4, N)
    one = fitted(name, kernel, X, y, count.astype(float))
    agree(one, fitted(name, kernel, np.repeat(X, count, axis=0), np.repeat(y, count)), X_new)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*GAUSSIAN, "exact"])
@EXAMPLES
@given(problem=problems(kernels=("rbf",)), unit=st.sampled_from([1e-8, 1e-3, 1e3, 1e8]))
def test_the_unit_of_the_features_does_not_matter(name, problem, unit):
    X, y, X_new, kernel, _ = problem
    scaled = ConstantKernel(kernel.k1.constant_value) * RBF(unit * kernel.k2.length_scale, (1e-5 * unit, 1e5 * unit))
    agree(fitted(name, kernel, X, y), fitted(name, scaled, unit * X, y), X_new, unit * X_new)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["laplace", "ep"])
@settings(max_examples=3)
@given(problem=problems(kernels=("rbf",)), unit=st.sampled_from([1e-3, 1e3]))
def test_the_unit_of_the_features_does_not_matter_to_a_climb(name, problem, unit):
    X, y, X_new, _, _ = problem
    kernel = ConstantKernel(1.0, (0.1, 10.0)) * RBF(1.0, (0.1, 10.0))
    scaled = ConstantKernel(1.0, (0.1, 10.0)) * RBF(unit, (0.1 * unit, 10.0 * unit))
    one, other = (fitted(name, k, s * X, y, hyperparameters="maximize") for k, s in ((kernel, 1.0), (scaled, unit)))
    agree(one, other, X_new, unit * X_new, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*GAUSSIAN, "exact"])
@EXAMPLES
@given(
    problem=problems(),
    weight=st.sampled_from([None, 1e-6, 1e-2, 1e2, 1e6]),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_no_warning_of_numpy_leaks_and_probabilities_are_sound(name, problem, weight, scale):
    X, y, X_new, kernel, C = problem
    if name == "exact" or "White" in str(kernel):  # rows with white noise would be repeated
        weight = None
    weights = None if weight is None else np.where(np.arange(N) % 2, weight, 1.0)
    with suppress(NotPositiveDefiniteError):  # which names the cure
        p = proba(fitted(name, kernel, scale * X, y, weights), scale * X_new)
        assert p.shape == (NEW, C)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-9)


@pytest.mark.parametrize("name", [*GAUSSIAN, "exact"])
@settings(max_examples=4)
@given(problem=problems(), weighted=st.booleans())
def test_a_saved_model_answers_the_same(name, problem, weighted, tmp_path_factory):
    X, y, X_new, kernel, _ = problem
    fit = fitted(name, kernel, X, y, np.where(np.arange(N) % 2, 2.0, 1.0) if weighted else None)
    path = tmp_path_factory.mktemp("saved") / "fit.gpclass"
    fit.save(path)
    np.testing.assert_allclose(proba(load_model(path), X_new), proba(fit, X_new), atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ep", "exact"])
def test_the_same_seed_gives_the_same_answer_for_any_number_of_jobs(name):
    rng = np.random.default_rng(0)
    X, X_new = rng.standard_normal((N, 2)), rng.standard_normal((NEW, 2))
    for C in (2, 3):
        y = np.arange(N) % C
        one, again, two = (
            fitted(name, RBF(1.0), X, y, hyperparameters="maximize", n_restarts=1, n_jobs=jobs) for jobs in (1, 1, 2)
        )
        np.testing.assert_array_equal(proba(one, X_new), proba(again, X_new))
        np.testing.assert_allclose(proba(one, X_new), proba(two, X_new), atol=1e-12)
