"""What an exact fit keeps of its draws, in single precision where that serves, and the memory it takes."""

import tracemalloc

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.gaussian_process.kernels import RBF
from sklearn.gaussian_process.kernels import ConstantKernel as C

from gpclass import GPClassifier, load_model
from gpclass.inference import Exact, drawn
from gpclass.inference.drawn import draw_box, draw_duals, has_duals
from gpclass.inference.noise import noise_factor
from gpclass.likelihoods import Probit
from gpclass.model.problem import Problem
from gpclass.numerics.products import Draws
from gpclass.numerics.rounded import LARGEST, STORED, Rounded, columns, rounding, serves, size_of
from gpclass.orthant import batches


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, np.where(1.5 * np.sin(2 * X[:, 0]) + X[:, 1] + 0.7 * rng.standard_normal(n) > 0, 1, -1)


def problem(variance=4.0, n=300):
    return Problem.of(*rows(n), C(variance) * RBF(1.0), Probit())


@pytest.fixture(scope="module")
def both():
    """The same draws in single and in double precision, with the problem."""
    task = problem()
    plan, found = Exact().outline(task).widened, noise_factor(task)
    assert has_duals(task, plan)
    single = draw_duals(task, plan, 2000, np.random.default_rng(0), "frames")
    double = draw_box(plan, 2000, np.random.default_rng(0), "frames")
    np.testing.assert_array_equal(single.weights, double.weights)
    return task, single.A(task, found, None), double.A(task, found, None), single.weights


def test_many_draws_are_kept_in_single_precision(both):
    _, single, double, weights = both
    assert isinstance(single, Rounded)
    assert single.shape == double.shape
    assert single.size == double.size
    np.testing.assert_allclose(np.asarray(single), double, rtol=1e-5, atol=1e-6)
    assert np.abs(np.asarray(single) - double).max() > 1e-10
    some = np.array([5, 3, 1999])
    np.testing.assert_allclose(columns(single, some), columns(double, some), rtol=1e-5, atol=1e-6)
    # The guide's mean is near that of the draws: deviations are no larger than about the mean itself.
    about_mean = double[0] - (double[0] @ weights)[:, None]
    assert np.sqrt(np.mean(single.off[:-1] ** 2)) < 1.1 * np.sqrt(np.mean(about_mean**2))


@pytest.mark.parametrize("reduced", [False, True])
def test_predictions_from_single_precision_are_those_from_double(both, reduced):
    task, single, double, weights = both
    K, new = task.kernel(task.X), np.random.default_rng(3).standard_normal((50, 3))
    k = task.kernel(task.X, new)
    ours, other = (Draws(A, weights, K if reduced else None) for A in (single, double[0]))
    assert (ours.pivots is not None) == (other.pivots is not None)
    exact = double[0].T @ k
    sd = np.sqrt(1.0 + 0.5 * np.diag(task.kernel(new)))
    if not reduced:
        assert np.abs(ours.times(k) - exact).max() < 3 * LARGEST
    p, q, truth = (weights @ ndtr(z / sd) for z in (ours.times(k), other.times(k), exact))
    assert np.abs(p - truth).max() < (1e-6 if not reduced else 2e-5)
    assert np.abs(p - truth).max() < 2 * np.abs(q - truth).max() + 1e-7
    assert ours.times(1e4 * k).dtype == np.float64
    rounded = rounding(task.n, size_of(single.off[:-1])) * k.max()
    assert 0.1 * STORED < np.std(ours.times(1e4 * k) / 1e4 - exact) / rounded < STORED


def test_large_variances_and_few_draws_stay_in_double_precision():
    for variance, M in ((1000.0, 2000), (4.0, 1000)):
        task = problem(variance)
        made = draw_duals(task, Exact().outline(task).widened, M, np.random.default_rng(0), "frames").made
        assert isinstance(made, np.ndarray)
    assert serves(300, 1.0, 4.0)
    assert not serves(300, 1.0, 4000.0)
    assert not serves(300, 1000.0, 4.0)


def test_draws_of_all_batches_are_kept(monkeypatch):
    task = problem()
    monkeypatch.setattr(batches, "ROOM", 100 * task.n)
    plan = Exact().outline(task).widened
    single = draw_duals(task, plan, 2000, np.random.default_rng(0), "frames")
    double = draw_box(plan, 2000, np.random.default_rng(0), "frames")
    A = double.A(task, noise_factor(task), None)
    np.testing.assert_allclose(np.asarray(single.made), A, rtol=1e-5, atol=1e-6)


def test_solves_in_parts_are_those_of_all_draws(both, monkeypatch):
    task, _, double, _ = both
    monkeypatch.setattr(drawn, "SOLVED", 300)
    plan = Exact().outline(task).widened
    made = draw_box(plan, 2000, np.random.default_rng(0), "frames").A(task, noise_factor(task), None)
    np.testing.assert_allclose(made, double, rtol=1e-10, atol=1e-12)


@pytest.mark.filterwarnings("ignore:the Monte Carlo")
@pytest.mark.parametrize("recipe", [True, False])
def test_a_saved_model_predicts_to_the_last_bit(recipe, tmp_path):
    X, y = rows(300)
    settings = {"kernel": 4.0 * RBF(1.0), "hyperparameters": "fixed", "random_state": 0}
    clf = GPClassifier(inference=Exact(n_samples=2000), **settings).fit(X, y)
    assert isinstance(clf.posterior_.A, Rounded)
    if not recipe:  # as if its generator had no seed: the draws themselves are stored
        object.__setattr__(clf.posterior_, "recipe", None)
    back = load_model(clf.save(tmp_path / "m.gpclass"))
    assert isinstance(back.posterior_.A, Rounded)
    np.testing.assert_array_equal(back.predict_proba(X[:40]), clf.predict_proba(X[:40]))
    draws = (one.sample_latent(X[:5], 4, random_state=0) for one in (back, clf))
    np.testing.assert_array_equal(*draws)


def test_a_step_of_a_search_leaves_no_draws(both):
    task = both[0]
    step = Exact().for_search(task, np.random.default_rng(0), gradient=True)
    known = step.start.known
    assert known.pilot(Exact()) is known  # duals are a pilot, too
    assert known.seen.means.size < step.A.size
    final = Exact()(task, np.random.default_rng(0), start=step.start)
    other = Exact()(task, np.random.default_rng(0))
    error = np.hypot(final.evidence.error, other.evidence.error)
    assert abs(final.evidence.log_z - other.evidence.log_z) < 4 * error
    assert abs(len(final.weights) / len(other.weights) - 1.0) < 0.5


@pytest.mark.slow
def test_a_fit_takes_at_most_five_matrices():
    """In n² numbers of eight bytes; with draws in double precision and all factors at once it took 7.7."""
    n = 2000
    X, y = rows(n)
    GPClassifier(1.0 * RBF(1.0), random_state=0).fit(X[:100], y[:100])  # imports
    tracemalloc.start()
    GPClassifier(1.0 * RBF(1.0), random_state=0).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5.0 * 8 * n**2
