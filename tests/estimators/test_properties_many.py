"""Properties of the public interface with four classes: exact, approximate and sampled, one kernel or one per class."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from gpclass import load_model
from gpclass.inference import Exact, Importance
from tests.estimators import test_properties as two
from tests.estimators.test_properties import agree, agree_in_order, fitted, proba

N, NEW, C = 14, 4, 4
METHODS = {"exact": Exact(n_samples=256), "importance": Importance(n_samples=400)}
EXAMPLES = settings(max_examples=4)
most_are_compared = two.most_are_compared


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(two, "method", lambda name: METHODS.get(name, name))


@st.composite
def problems(draw):
    """Features, labels of four classes, new points and a kernel, from one seed and a few choices."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    X, X_new = rng.standard_normal((N, 2)), rng.standard_normal((NEW, 2))
    y = rng.permutation(np.r_[np.arange(C), rng.integers(C, size=N - C)])
    variance, length = draw(st.sampled_from([0.1, 1.0, 10.0])), draw(st.sampled_from([0.3, 1.0, 5.0]))
    shape = draw(st.sampled_from([RBF(length), Matern(length, nu=1.5)]))
    return X, y, X_new, ConstantKernel(variance) * shape


@pytest.mark.slow
@pytest.mark.parametrize("name", ["laplace", "ep", "exact"])
@EXAMPLES
@given(problem=problems(), seed=st.integers(0, 99))
def test_the_order_of_rows_does_not_matter(name, problem, seed):
    X, y, X_new, kernel = problem
    rng = np.random.default_rng(seed)
    order, weights = rng.permutation(N), rng.integers(1, 3, N).astype(float)
    one = fitted(name, kernel, X, y, weights)
    agree(one, fitted(name, kernel, X[order], y[order], weights[order]), X_new, atol=1e-4)


@pytest.mark.parametrize("name", ["laplace", "ep", "exact"])
@EXAMPLES
@given(problem=problems(), seed=st.integers(0, 99))
def test_the_names_and_the_order_of_classes_do_not_matter(name, problem, seed):
    X, y, X_new, kernel = problem
    order = np.random.default_rng(seed).permutation(C)
    one, other = fitted(name, kernel, X, y), fitted(name, kernel, X, np.array(list("abcd"))[order[y]])
    agree_in_order(one, other, order, X_new)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["laplace", "ep", "exact"])
@EXAMPLES
@given(problem=problems(), seed=st.integers(0, 99))
def test_kernels_go_with_their_classes(name, problem, seed):
    """One kernel per class: classes in another order with their kernels in that order are the same model."""
    X, y, X_new, kernel = problem
    kernels = [kernel.clone_with_theta(kernel.theta + 0.5 * c) for c in range(C)]
    order = np.random.default_rng(seed).permutation(C)
    moved = [kernels[c] for c in np.argsort(order)]
    one, other = fitted(name, kernels, X, y), fitted(name, moved, X, order[y])
    agree_in_order(one, other, order, X_new)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["laplace", "ep", "exact"])
@EXAMPLES
@given(problem=problems(), seed=st.integers(0, 99))
def test_whole_weights_are_repeated_rows(name, problem, seed):
    X, y, X_new, kernel = problem
    count = np.random.default_rng(seed).integers(1, 4, N)
    one = fitted(name, kernel, X, y, count.astype(float))
    agree(one, fitted(name, kernel, np.repeat(X, count, axis=0), np.repeat(y, count)), X_new, atol=1e-4)


@pytest.mark.parametrize("name", ["ep", "exact", "importance"])
@EXAMPLES
@given(problem=problems(), unit=st.sampled_from([1e-6, 1e3]))
def test_the_unit_of_the_features_does_not_matter(name, problem, unit):
    X, y, X_new, kernel = problem
    length = kernel.k2.length_scale
    scaled = kernel.k1 * type(kernel.k2)(unit * length, (1e-5 * unit, 1e5 * unit))
    if isinstance(kernel.k2, Matern):
        scaled = kernel.k1 * Matern(unit * length, (1e-5 * unit, 1e5 * unit), nu=kernel.k2.nu)
    agree(fitted(name, kernel, X, y), fitted(name, scaled, unit * X, y), X_new, unit * X_new)


@pytest.mark.slow
@settings(max_examples=2)
@given(problem=problems(), unit=st.sampled_from([1e-3, 1e3]))
def test_the_unit_of_the_features_does_not_matter_to_a_climb(problem, unit):
    X, y, X_new, _ = problem
    one, other = (
        fitted("laplace", ConstantKernel(1.0, (0.1, 10.0)) * RBF(s, (0.1 * s, 10.0 * s)), s * X, y,
               hyperparameters="maximize")
        for s in (1.0, unit)
    )  # fmt: skip
    agree(one, other, X_new, unit * X_new, atol=1e-3)


@pytest.mark.parametrize("name", ["laplace", "ep", "variational", "exact", "importance"])
@EXAMPLES
@given(
    problem=problems(),
    weight=st.sampled_from([1e-6, 1.0, 1e6]),
    scale=st.sampled_from([1e-6, 1e6]),
    twice=st.booleans(),
)
def test_no_warning_of_numpy_leaks_and_probabilities_are_sound(name, problem, weight, scale, twice):
    X, y, X_new, kernel = problem
    if twice:  # duplicates that disagree
        X = np.repeat(X[: N // 2], 2, axis=0)
    weights = np.where(np.arange(N) % 2, weight, 1.0) if name not in METHODS else None
    p = proba(fitted(name, kernel, scale * X, y, weights), scale * X_new)
    assert p.shape == (NEW, C)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-9)


@pytest.mark.parametrize("name", ["laplace", "ep", "exact", "importance"])
@settings(max_examples=2)
@given(problem=problems())
def test_a_saved_model_answers_the_same(name, problem, tmp_path_factory):
    X, y, X_new, kernel = problem
    fit = fitted(name, kernel, X, y)
    path = tmp_path_factory.mktemp("saved") / "fit.gpclass"
    fit.save(path)
    back = load_model(path)
    np.testing.assert_allclose(proba(back, X_new), proba(fit, X_new), atol=1e-10)
    assert (back.log_evidence_, list(back.classes_)) == (fit.log_evidence_, list(fit.classes_))


@pytest.mark.slow
def test_the_same_seed_gives_the_same_answer_for_any_number_of_jobs():
    rng = np.random.default_rng(0)
    X, X_new, y = rng.standard_normal((N, 2)), rng.standard_normal((NEW, 2)), np.arange(N) % C
    one, again, two_jobs = (
        fitted("laplace", RBF(1.0), X, y, hyperparameters="maximize", n_restarts=1, n_jobs=jobs) for jobs in (1, 1, 2)
    )
    np.testing.assert_array_equal(proba(one, X_new), proba(again, X_new))
    np.testing.assert_allclose(proba(one, X_new), proba(two_jobs, X_new), atol=1e-12)
