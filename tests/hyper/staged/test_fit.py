"""The estimator with inducing inputs: fitting, resuming, saving, what is refused and what is said."""

import itertools
import re
import warnings

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared

from gpclass import GPClassifier, load_model
from gpclass.estimators import checks, planner
from gpclass.hyper import Maximize, Stages
from gpclass.hyper.staged.climb import growing
from gpclass.hyper.staged.quality import compare_with_dense
from gpclass.hyper.staged.stage import Rule, Stage
from gpclass.inference import EP
from gpclass.latent.inducing import choose_inducing
from gpclass.latent.low_rank import LowRank
from gpclass.likelihoods import Probit
from gpclass.model.problem import Problem
from gpclass.model.rows import ArraySource, Rows
from gpclass.numerics import lbfgs
from tests.hyper.staged.settings import climb_of

KERNEL = ConstantKernel(2.0) * RBF([1.0, 1.0]) + ConstantKernel(1.0, "fixed")


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(1600, noise=0.3, random_state=0)
    return X[:1200], y[:1200], X[1200:], y[1200:]


def fitted(X, y, **settings):
    settings = {"n_inducing": 20, "inference": "ep", "random_state": 0, **settings}
    return GPClassifier(settings.pop("kernel", KERNEL), **settings).fit(X, y)


def log_loss(clf, X, y):
    return -np.mean(clf.predict_log_proba(X)[np.arange(len(y)), y])


@pytest.mark.slow
@pytest.mark.parametrize("inference", ["ep", "laplace", "variational"])
def test_learned_inducing_inputs_come_close_to_the_dense_model(moons, inference):
    X, y, X_test, y_test = moons
    few = slice(0, 250)
    dense = GPClassifier(KERNEL, inference=inference, random_state=0).fit(X[few], y[few])
    sparse = fitted(X[few], y[few], inference=inference, n_inducing=25)
    assert np.mean(np.abs(sparse.predict_proba(X_test) - dense.predict_proba(X_test))) < 0.02
    assert abs(log_loss(sparse, X_test, y_test) - log_loss(dense, X_test, y_test)) < 0.01
    assert sparse.inducing_.shape == (25, 2)
    assert sparse.fit_report_.method == inference


def test_growing_parts_end_with_memory(monkeypatch):
    assert growing(500_000, 354, 6000) == [6000, 24_000, 96_000]
    assert growing(11_000, 354, 6000) == []
    monkeypatch.setattr("gpclass.hyper.staged.climb.available_memory", lambda: 10 * 8 * 354 * 30_000)
    assert growing(500_000, 354, 6000) == [6000, 24_000]


def test_a_climb_that_cannot_begin_says_why(moons):
    class Broken(RBF):
        def __call__(self, X, Y=None, eval_gradient=False):
            raise ValueError("a reason of its own")

    X, y, _, _ = moons
    with pytest.raises(ValueError, match="a reason of its own"):
        fitted(
            X,
            y,
            kernel=Broken(1.0),
            inducing=X[:20],
            n_inducing=20,
            hyperparameters=climb_of(few_rows=200),
        )


def test_few_rows_of_a_class_keep_their_restarts(moons):
    X, y, _, _ = moons
    rows = np.concatenate([np.flatnonzero(y == 1)[:9], np.flatnonzero(y == 0)[:200]])
    settings = {"kernel": 2.0 * RBF(1.0, (0.1, 10.0)), "hyperparameters": climb_of(max_iter=1)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        none, two = (fitted(X[rows], y[rows], n_restarts=k, **settings) for k in (0, 2))
    assert two.fit_report_.evaluations > none.fit_report_.evaluations


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the best parameters lie on a bound")
def test_restarts_side_by_side_give_the_same(moons):
    X, y, X_test, _ = moons
    kernel = ConstantKernel(2.0, (0.1, 10.0)) * RBF([1.0, 1.0], (0.1, 10.0))
    settings = {"kernel": kernel, "n_restarts": 2, "hyperparameters": climb_of(max_iter=3)}
    one, two = (fitted(X, y, n_jobs=n_jobs, **settings) for n_jobs in (None, 2))
    np.testing.assert_array_equal(one.predict_proba(X_test), two.predict_proba(X_test))
    assert one.fit_report_.evaluations == two.fit_report_.evaluations
    assert one.fit_report_.evaluations > fitted(X, y, **{**settings, "n_restarts": 0}).fit_report_.evaluations


@pytest.mark.slow
def test_learning_raises_evidence_and_moves_inducing_inputs(moons):
    X, y, X_test, y_test = moons
    fixed = fitted(X, y, hyperparameters="fixed")
    learned = fitted(X, y)
    held = fitted(X, y, hyperparameters=climb_of(move_inducing=False))
    assert learned.log_evidence_ > held.log_evidence_ > fixed.log_evidence_
    assert log_loss(learned, X_test, y_test) < log_loss(fixed, X_test, y_test)
    assert not np.allclose(learned.inducing_, held.inducing_)


@pytest.mark.slow
def test_exact_states_its_error(moons):
    X, y, X_test, _ = moons
    clf = fitted(X, y, inference="exact", hyperparameters="fixed", tol=5e-3)
    assert clf.evidence_kind_ == "unbiased"
    assert clf.log_evidence_error_ < 0.1
    ep = fitted(X, y, hyperparameters="fixed")
    found = clf.predict_uncertainty(X_test[:50])
    assert found.mcse.max() < 1e-2
    assert np.abs(found.proba - ep.predict_proba(X_test[:50])).max() < 0.02
    assert clf.fit_report_.ess > 100


@pytest.mark.slow
def test_same_seed_same_fit(moons):
    X, y, X_test, _ = moons
    one, two = fitted(X, y), fitted(X, y)
    np.testing.assert_array_equal(one.predict_proba(X_test), two.predict_proba(X_test))


@pytest.mark.slow
def test_stages_from_few_rows_to_all(moons):
    X, y, X_test, y_test = moons
    settings = climb_of(few_rows=200, some_rows=500)
    assert (
        abs(log_loss(fitted(X, y, hyperparameters=settings), X_test, y_test) - log_loss(fitted(X, y), X_test, y_test))
        < 0.01
    )


@pytest.mark.slow
def test_priors_pull(moons):
    from gpclass.priors import LogNormal

    X, y, *_ = moons
    kernel = ConstantKernel(2.0) * RBF(1.0)
    settings = climb_of(prior=True, stop="evidence")
    free = fitted(X, y, kernel=kernel, hyperparameters=settings)
    tight = fitted(X, y, kernel=kernel, hyperparameters=settings, priors=LogNormal(0.0, 0.01))
    assert abs(tight.theta_).max() < 0.1 < abs(free.theta_).max()
    assert tight.fit_report_.hyperparameters == "map"


# ---- resume -----------------------------------------------------------------------------------------------------


class Stopped(Exception):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("inference", ["ep", "laplace"])
def test_a_fit_that_was_stopped_goes_on_as_if_it_had_not(moons, tmp_path, monkeypatch, inference):
    X, y, X_test, _ = moons
    settings = {"max_iter": 6, "few_rows": 400, "some_rows": 150, "gain": 1e-9, "tol": 1e-12}
    whole = fitted(X, y, inference=inference, hyperparameters=climb_of(**settings))
    path = tmp_path / "fit.npz"
    resumed = climb_of(**settings, checkpoint=path)
    step, calls = lbfgs.step, []

    def failing(state, *rest):
        calls.append(state.iterations)
        if path.exists() and state.iterations == 3:
            raise Stopped
        return step(state, *rest)

    monkeypatch.setattr("gpclass.hyper.staged.stage.step", failing)
    with pytest.raises(Stopped):
        fitted(X, y, inference=inference, hyperparameters=resumed)
    monkeypatch.setattr("gpclass.hyper.staged.stage.step", step)
    again = fitted(X, y, inference=inference, hyperparameters=resumed)
    np.testing.assert_array_equal(again.theta_, whole.theta_)
    np.testing.assert_array_equal(again.inducing_, whole.inducing_)
    np.testing.assert_allclose(again.predict_proba(X_test), whole.predict_proba(X_test), atol=1e-9)
    assert again.fit_report_.evaluations == whole.fit_report_.evaluations
    with pytest.raises(ValueError, match="other data or settings"):
        fitted(X[:-1], y[:-1], inference=inference, hyperparameters=resumed)
    path.write_bytes(b"no file")
    with pytest.raises(ValueError, match="cannot be read"):
        fitted(X, y, inference=inference, hyperparameters=resumed)


@pytest.mark.slow
@pytest.mark.parametrize("inference", ["ep", "laplace", "variational"])
def test_stages_before_all_rows_are_not_lost(moons, tmp_path, monkeypatch, inference):
    X, y, _, _ = moons
    settings = {"max_iter": 3, "few_rows": 300, "some_rows": 100, "gain": 1e-9, "tol": 1e-12}
    whole = fitted(X, y, inference=inference, hyperparameters=climb_of(**settings))
    resumed = climb_of(**settings, checkpoint=tmp_path / "fit.npz")
    run, begun = Stage.run, []

    def stopping(self, *rest, **more):
        begun.append(self.problem.n)
        if len(begun) == 2:
            raise KeyboardInterrupt
        return run(self, *rest, **more)

    monkeypatch.setattr(Stage, "run", stopping)
    for seed in (0, 1, 2):  # in each of the stages after the first; what is done is not done again
        begun.clear()
        with pytest.raises(KeyboardInterrupt) as stopped:
            fitted(X, y, inference=inference, random_state=seed, hyperparameters=resumed)
        assert "to continue" in stopped.value.__notes__[0]
    monkeypatch.setattr(Stage, "run", run)
    again = fitted(X, y, inference=inference, random_state=3, hyperparameters=resumed)
    np.testing.assert_array_equal(again.theta_, whole.theta_)
    np.testing.assert_array_equal(again.inducing_, whole.inducing_)
    assert again.fit_report_.evaluations == whole.fit_report_.evaluations


def test_the_bar_says_which_rows_are_worked_on(moons, monkeypatch):
    labels = []
    monkeypatch.setattr("gpclass.progress.Progress.doing", lambda self, what: labels.append(what))
    X, y, _, _ = moons
    settings = climb_of(max_iter=2, few_rows=300, some_rows=400)
    fitted(X, y, hyperparameters=settings)
    said = " ".join(labels)
    sizes = list(dict.fromkeys(int(n.replace(",", "")) for n in re.findall(r"([\d,]+) rows", said)))
    assert sizes == sorted(sizes)
    assert len(sizes) == 3  # few, some, all
    assert sizes[-1] == 1200
    assert said.index("at most 2 steps") < said.index("the posterior")


def test_ctrl_c_says_how_to_go_on(moons, tmp_path, monkeypatch):
    X, y, _, _ = moons
    path, step = tmp_path / "fit.npz", lbfgs.step

    def stopping(state, *rest):
        if path.exists():
            raise KeyboardInterrupt
        return step(state, *rest)

    monkeypatch.setattr("gpclass.hyper.staged.stage.step", stopping)
    with pytest.raises(KeyboardInterrupt) as stopped:
        fitted(X, y, hyperparameters=climb_of(checkpoint=path))
    assert "to continue" in stopped.value.__notes__[0]


def test_rows_left_out_have_no_say(moons):
    X, y, *_ = moons
    out = np.arange(0, 300, 3)
    stay = np.setdiff1d(np.arange(300), out)
    signs = np.where(y == 1, 1.0, -1.0)
    Z = X[300:310].copy()

    def problem(rows):
        source = ArraySource(X[rows], signs[rows], None, 70)
        return Problem(Rows.of(source), KERNEL, Probit(), 2, LowRank(Z=Z))

    for method in (EP(),):
        stage = Stage(problem(np.arange(300)), method, Rule(1, 1e-5), absent=out)
        value, slope = stage.objective(stage.variables())
        expected = method(problem(stay), gradient=True)
        assert abs(value - expected.evidence.log_z) < 1e-8
        np.testing.assert_allclose(slope[:3], expected.evidence.gradient, atol=1e-6)
        assert (
            stage.chosen(lbfgs.Ascent.start(stage.variables(), stage.objective, stage.bounds)).rows.held[0].absent
            is None
        )


def test_ascent_finds_the_maximum_within_bounds():
    centre, scale = np.array([1.0, -2.0, 30.0]), np.array([1.0, 30.0, 0.1])

    def objective(x):
        return -0.5 * float(scale @ (x - centre) ** 2), -scale * (x - centre)

    bounds = np.array([[-5.0, 5.0], [-1.5, 5.0], [-np.inf, np.inf]])
    state = lbfgs.Ascent.start(np.zeros(3), objective, bounds)
    for _ in range(60):
        state = lbfgs.step(state, objective, bounds)
        if state.stuck:
            break
    np.testing.assert_allclose(state.x, [1.0, -1.5, 30.0], atol=1e-4)
    taken_up = lbfgs.Ascent.from_arrays(state.arrays())
    np.testing.assert_array_equal(taken_up.steps, state.steps)
    assert taken_up.evaluations == state.evaluations


# ---- what is said -------------------------------------------------------------------------------------------------


def test_report_compares_with_the_dense_prior_and_says_when_m_should_grow(moons):
    X, y, *_ = moons
    details = fitted(X, y, hyperparameters="fixed").fit_report_.details
    assert details["mean_abs_difference_from_dense"] < 0.01
    assert details["mean_abs_difference_from_dense"] < details["largest_abs_difference_from_dense"] < 0.1
    assert details["n_inducing"] == 20
    assert details["far_rows"] == 0
    short = 9.0 * RBF(0.1)
    with pytest.warns(UserWarning, match="raise n_inducing"):
        fitted(X, y, kernel=short, hyperparameters="fixed", n_inducing=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted(X, y, hyperparameters="fixed")


def test_comparison_is_nothing_where_all_rows_are_inducing_inputs(moons):
    X, y = moons[0][:150], moons[1][:150]
    problem = Problem.of(X, np.where(y == 1, 1.0, -1.0), KERNEL, Probit(), form=LowRank(Z=X.copy()))
    figures, advice = compare_with_dense(problem, EP(), np.random.default_rng(0))
    assert figures["mean_abs_difference_from_dense"] < 1e-5
    assert advice is None


# ---- saving -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["ep", "exact"])
def test_saved_models_predict_the_same_and_keep_no_rows(moons, tmp_path, inference):
    X, y, X_test, _ = moons
    clf = fitted(X, y, inference=inference, hyperparameters="fixed", tol=0.02)
    path = clf.save(tmp_path / "model.gpclass")
    read = load_model(path)
    np.testing.assert_array_equal(read.predict_proba(X_test), clf.predict_proba(X_test))
    np.testing.assert_array_equal(
        read.sample_latent(X_test[:3], 4, random_state=0), clf.sample_latent(X_test[:3], 4, random_state=0)
    )
    if inference == "ep":
        assert path.stat().st_size < X.nbytes
    with pytest.raises(ValueError, match="stores no rows"):
        read.log_marginal_likelihood(read.theta_)
    value, slope = clf.log_marginal_likelihood(clf.theta_, eval_gradient=True)
    assert slope.shape == clf.theta_.shape
    if inference == "ep":
        assert abs(value - clf.log_evidence_) < 1e-6


# ---- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_inducing": 2000}, "more than the 1200 rows"),
        ({"n_inducing": 0}, "at least 1"),
        ({"n_inducing": "many"}, "'auto'"),
        ({"n_inducing": 2.5}, "whole number"),
        ({"inducing": "grid"}, "'kmeans', 'random'"),
        ({"n_inducing": None, "inducing": np.zeros((5, 3))}, "2 columns"),
        ({"inducing": np.full((20, 2), np.nan)}, "NaN"),
        ({"n_inducing": 3, "inducing": np.zeros((5, 2))}, "5 rows"),
        (
            {"inference": "gibbs", "hyperparameters": "fixed"},
            "does not run with the prior 'inducing'.*n × n covariance",
        ),
        (
            {"inference": "control-variables", "hyperparameters": "fixed"},
            "inducing inputs avoid.*leave out n_inducing",
        ),
        (
            {"inference": "gpc-mc", "hyperparameters": "fixed"},
            "noisy latent values.*; set inference to one of .*'importance'",
        ),
        ({"inference": "hmc"}, "needs the gradient of the evidence"),
        ({"inference": "exact", "hyperparameters": "em"}, "needs one Gaussian with a deterministic evidence"),
    ],
)
def test_bad_settings(moons, settings, message):
    X, y, *_ = moons
    with pytest.raises(ValueError, match=message):
        fitted(X, y, **settings)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the best parameters lie on a bound")
@pytest.mark.parametrize("inference", ["ep", "laplace"])
def test_many_classes_climb_with_inducing_inputs(moons, inference):
    X = moons[0][:300]
    y = np.digitize(X[:, 0] + X[:, 1], [0.0, 1.0])
    fixed = fitted(X, y, inference=inference, hyperparameters="fixed")
    learned = fitted(X, y, inference=inference, hyperparameters=Maximize(max_iter=8))
    assert learned.log_evidence_ > fixed.log_evidence_ + 10
    assert learned.score(X, y) > 0.95
    assert not np.allclose(learned.inducing_, fixed.inducing_)
    dense = GPClassifier(learned.kernel_, inference=inference, hyperparameters="fixed").fit(X, y)
    assert np.mean(np.abs(learned.predict_proba(X) - dense.predict_proba(X))) < 0.02


def test_dense_limit_names_memory_time_and_cure(monkeypatch):
    with pytest.raises(ValueError, match=r"GiB of memory .* hours; take fewer"):
        checks.check_memory(200_000, "take fewer")
    for d, cure in ((1, "inference='ep', n_neighbors='auto'"), (4, "inference='ep', n_inducing='auto'")):
        with pytest.raises(ValueError, match=cure):
            GPClassifier().fit(np.random.default_rng(0).standard_normal((20_000, d)), np.arange(20_000) % 2)
    checks.check_memory(1000, "")
    with pytest.warns(UserWarning, match=r"1\.0 hours .* n_inducing='auto'"):
        checks.warn_of_hours(6000, 10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checks.warn_of_hours(5000, 10)


@pytest.mark.filterwarnings("ignore:the fit did not converge")
def test_settings_of_dense_methods_are_kept(moons):
    X, y, *_ = moons
    clf = fitted(X, y, inference=EP(max_sweeps=2, tol=1e-12), hyperparameters="fixed")
    assert clf.fit_report_.iterations == 2
    assert not clf.fit_report_.converged
    few = fitted(X, y, hyperparameters=Maximize(max_iter=1))
    assert few.fit_report_.details["ascent_ended_by"] == "max_iter=1"
    with pytest.raises(ValueError, match="stop must be"):
        Stages(stop="never")


# ---- inducing inputs ----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:probabilities under .* differ")
def test_where_inducing_inputs_start(moons):
    X, y, *_ = moons
    source = ArraySource(X, np.where(y == 1, 1.0, -1.0))
    rng = np.random.default_rng(0)
    random = choose_inducing(source, KERNEL, 10, "random", rng)
    assert all(np.any(np.all(X == z, axis=1)) for z in random)
    centres = choose_inducing(source, KERNEL, 10, "kmeans", rng)
    near = np.min(np.linalg.norm(X[:, None] - centres, axis=2), axis=1)
    assert near.max() < np.linalg.norm(X - X.mean(axis=0), axis=1).max()
    smooth = choose_inducing(source, RBF(5.0), None, "random", rng)
    rough = choose_inducing(source, RBF(0.2), None, "random", rng)
    assert len(smooth) < len(rough) <= 500
    given = X[:7].copy()
    clf = fitted(X, y, n_inducing=None, inducing=given, hyperparameters="fixed")
    np.testing.assert_array_equal(clf.inducing_, given)
    assert fitted(X[:300], y[:300], n_inducing="auto", hyperparameters="fixed").inducing_.shape[0] >= 10


@pytest.mark.filterwarnings("ignore:the log evidence")
def test_repeated_rows_and_few_distinct_ones():
    X = np.repeat(np.array([[0.0], [1.0], [2.0]]), 40, axis=0)
    y = np.tile([0, 0, 0, 1], 30)
    clf = fitted(X, y, kernel=1.0 * RBF(1.0), n_inducing=10, hyperparameters="fixed")
    assert len(clf.inducing_) == 3
    weighted = GPClassifier(
        1.0 * RBF(1.0), n_inducing=3, inference="ep", hyperparameters="fixed", inducing=clf.inducing_
    )
    rows = np.array([[0.0], [0.0], [1.0], [1.0], [2.0], [2.0]])
    weighted.fit(rows, [0, 1] * 3, sample_weight=[30, 10] * 3)
    np.testing.assert_allclose(weighted.predict_proba(rows), clf.predict_proba(rows), atol=1e-6)
    assert abs(weighted.log_evidence_ - clf.log_evidence_) < 1e-6


@pytest.mark.slow
def test_inducing_inputs_stay_where_the_kernel_has_no_fast_derivative(moons):
    X, y = moons[0][:300], moons[1][:300]
    clf = fitted(X, y, kernel=RBF(1.0) * ExpSineSquared(1.0, 5.0, periodicity_bounds="fixed"), n_inducing=12)
    assert "kept" in clf.fit_report_.details["inducing_inputs"]
    assert "inducing_inputs" not in fitted(X, y).fit_report_.details
    assert clf.score(X, y) > 0.8


def test_plan_grows_with_the_rows(moons, monkeypatch):
    monkeypatch.setattr(planner, "clock", itertools.count().__next__)  # a second whenever it is asked
    X, y, *_ = moons
    clf = GPClassifier(KERNEL, n_inducing=20, inference="ep")
    plan = clf.plan(X, y)
    more = clf.plan(np.vstack([X] * 20), np.concatenate([y] * 20))
    assert plan.fits
    assert plan.seconds > 0
    matrices = 8.0 * 4 * 20**2  # of the inducing inputs: the same however many rows there are
    assert more.memory - matrices == pytest.approx(20 * (plan.memory - matrices))
    assert more.seconds > plan.seconds


@pytest.mark.slow
def test_laplace_climbs_as_far_as_ep():
    """A mode that is too inaccurate for the gradient ends the ascent early: 6 nats too low here."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.4 * rng.normal(size=3000) > 0
    settings, steps = {"inference": "laplace", "random_state": 0}, climb_of(max_iter=24, window=24)  # as many for both
    found = GPClassifier(1.0 * RBF(1.0), n_inducing=60, hyperparameters=steps, **settings).fit(X, y)
    ep = GPClassifier(1.0 * RBF(1.0), n_inducing=60, inference="ep", hyperparameters=steps, random_state=0).fit(X, y)
    there = GPClassifier(ep.kernel_, hyperparameters="fixed", n_inducing=60, inducing=ep.inducing_, **settings)
    assert found.log_evidence_ > there.fit(X, y).log_evidence_ - 0.5
