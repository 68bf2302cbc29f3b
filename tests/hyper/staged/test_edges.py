"""Inducing inputs at the edges: few rows, rare classes, noise, other labels in a checkpoint, rows none may see."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from gpclass import GPClassifier
from gpclass.data.sources import Labels as Collected
from gpclass.hyper.staged import ascent, climb
from gpclass.hyper.staged.ascent import LOOSE
from gpclass.hyper.staged.checkpoint import Checkpoint
from gpclass.hyper.staged.stage import Rule, Stage
from gpclass.inference import EP
from gpclass.latent.basis import whiten
from gpclass.latent.inducing import choose_inducing
from gpclass.latent.low_rank import LowRank
from gpclass.latent.low_rank_q import Q
from gpclass.likelihoods import Logit, Probit
from gpclass.likelihoods.local import precision
from gpclass.likelihoods.smeared import _at, _clenshaw, _expand, log_smeared
from gpclass.model.problem import Problem
from gpclass.model.rows import ArraySource, Labels, Local, Rows
from gpclass.numerics.lbfgs import UndefinedStartError
from gpclass.numerics.linalg import NotPositiveDefiniteError
from tests.hyper.staged.settings import climb_of

KERNEL = ConstantKernel(2.0) * RBF(1.0)


def rows(n, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, (X[:, 0] + 0.5 * rng.standard_normal(n) > 0).astype(int)


def fitted(X, y, kernel=KERNEL, **settings):
    settings = {"n_inducing": 5, "inference": "ep", "random_state": 0, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return GPClassifier(kernel, **settings).fit(X, y)


def problem_of(X, y, kernel=KERNEL, m=10, weights=None, shard_rows=1000):
    source = ArraySource(X, np.where(y == 1, 1.0, -1.0), weights, shard_rows)
    return Problem(Rows.of(source), kernel, Probit(), 2, LowRank(None, m, "kmeans"))


# ---- classes apart ----------------------------------------------------------------------------------------------


def apart(n=400):
    return make_blobs(n, centers=[[-2.5, 0], [2.5, 0]], cluster_std=0.6, random_state=0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the best parameters lie on a bound")
@pytest.mark.parametrize("inference", ["laplace", "ep", "variational"])
def test_separable_classes_reach_the_dense_evidence(inference):
    X, y = apart()
    dense = GPClassifier(inference=inference, random_state=0).fit(X, y)
    sparse = GPClassifier(inference=inference, random_state=0, n_inducing=50).fit(X, y)
    assert abs(sparse.log_evidence_ - dense.log_evidence_) < 0.01
    np.testing.assert_allclose(sparse.predict_proba(X), dense.predict_proba(X), atol=0.01)


def test_loose_sites_to_the_end_would_not(monkeypatch):
    X, y = apart()
    monkeypatch.setattr("gpclass.hyper.staged.stage.SITES_ERROR", 0.0)
    loose = GPClassifier(inference="ep", random_state=0, n_inducing=50).fit(X, y)
    assert loose.fit_report_.details["ascent_ended_by"] == "no step raises the evidence"
    assert loose.log_evidence_ < -4.5  # of -4.30


@pytest.mark.slow
def test_an_ascent_with_tightened_sites_is_taken_up(tmp_path, monkeypatch):
    X, y = apart()
    settings = {"max_iter": 100, "few_rows": 400, "some_rows": 400}
    whole = fitted(X, y, n_inducing=20, hyperparameters=climb_of(**settings))
    resumed = climb_of(**settings, checkpoint=tmp_path / "fit.npz")
    tightened, save = [], Checkpoint.save

    def stopping(self, stage, *rest):
        save(self, stage, *rest)
        if stage.guide.tol < LOOSE:
            tightened.append(stage.guide.tol)
        if len(tightened) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "save", stopping)
    with pytest.raises(KeyboardInterrupt):
        fitted(X, y, n_inducing=20, hyperparameters=resumed)
    monkeypatch.setattr(Checkpoint, "save", save)
    again = fitted(X, y, n_inducing=20, hyperparameters=resumed)
    np.testing.assert_array_equal(again.theta_, whole.theta_)
    assert again.fit_report_.evaluations == whole.fit_report_.evaluations


# ---- checkpoints ------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_of_its_labels_and_weights(tmp_path):
    X, y = rows(300)
    settings = climb_of(max_iter=2, checkpoint=tmp_path / "fit.npz")
    fitted(X, y, hyperparameters=settings)
    with pytest.raises(ValueError, match="other data or settings"):
        fitted(X, 1 - y, hyperparameters=settings)
    with pytest.raises(ValueError, match="other data or settings"):
        fitted(X, y, hyperparameters=settings, class_weight={0: 1, 1: 2})
    with pytest.raises(ValueError, match="other data or settings"):
        fitted(X, y, ConstantKernel(2.0) * RBF(1.0, (1e-2, 1e2)), hyperparameters=settings)


def test_a_checkpoint_is_taken_up_whatever_the_seed(tmp_path):
    X, y = rows(300)
    settings = climb_of(max_iter=3, checkpoint=tmp_path / "fit.npz")
    first = fitted(X, y, hyperparameters=settings, random_state=None)
    again = fitted(X, y, hyperparameters=settings, random_state=None)
    np.testing.assert_array_equal(first.inducing_, again.inducing_)


def test_a_checkpoint_that_was_cut_off_is_an_error_with_a_cure(tmp_path):
    X, y = rows(300)
    path = tmp_path / "fit.npz"
    settings = climb_of(max_iter=2, checkpoint=path)
    fitted(X, y, hyperparameters=settings)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ValueError, match=r"cannot be read .* remove it"):
        fitted(X, y, hyperparameters=settings)


# ---- rows that are left out -------------------------------------------------------------------------------------


def test_no_stage_sees_the_rows_whose_log_loss_is_reported(monkeypatch):
    X, y = rows(1500)
    seen, left_out = [], []

    class Watched(Stage):
        def __post_init__(self):
            super().__post_init__()
            if self.absent is None:
                seen.append(self.problem.rows.source.X)
            else:
                left_out.append(self.left_out[0])

    for module in (climb, ascent):
        monkeypatch.setattr(module, "Stage", Watched)
    fitted(X, y, hyperparameters=climb_of(few_rows=300, some_rows=600, max_iter=1))
    assert len(seen) == 2
    assert len(left_out[0]) == 150
    hidden = {tuple(row) for row in left_out[0]}
    assert not any(tuple(row) in hidden for part in seen for row in part)
    assert 240 < len(seen[0]) < 300  # a random tenth was taken out


def test_parts_without_a_rare_class_are_passed_over(monkeypatch):
    X, y = rows(1500)
    rare = np.zeros(1500, dtype=int)
    rare[np.argsort(X[:, 0])[-12:]] = 1
    ascents = []

    class Watched(Stage):
        def __post_init__(self):
            super().__post_init__()
            ascents.append(self.problem.n)

    for module in (climb, ascent):
        monkeypatch.setattr(module, "Stage", Watched)
    settings = climb_of(few_rows=200, some_rows=400, max_iter=2)
    clf = fitted(X, rare, hyperparameters=settings)
    assert ascents == [1500]
    assert np.isfinite(clf.predict_proba(X)).all()
    fitted(X, y, hyperparameters=settings)
    assert len(ascents) == 4  # where both classes are common, all three


@pytest.mark.slow
def test_rows_held_out_come_back_for_the_last_iterations(monkeypatch):
    X, y = rows(1500)
    settings = climb_of(max_iter=24)
    whole = fitted(X, y, hyperparameters=settings)
    details = whole.fit_report_.details
    assert details["rows_left_out"] == 150
    assert details["iterations_with_all_rows"] == 6  # a quarter; 80 times a tenth are more
    monkeypatch.setattr(ascent, "BACK", 0.0)
    without = fitted(X, y, hyperparameters=settings)
    assert "iterations_with_all_rows" not in without.fit_report_.details
    assert whole.log_evidence_ > without.log_evidence_ + 0.1


def test_ascents_over_all_rows_keep_to_the_iterations_asked_for():
    out = np.arange(100)
    assert ascent.ascents(60, None, 1000) == [(None, 60, 0)]
    for max_iter, n, back in ((60, 1000, 8), (60, 4000, 2), (60, 100_000, 0), (6, 1000, 1), (3, 1000, 0)):
        parts = ascent.ascents(max_iter, out, n)
        assert sum(iterations - reserved for _, iterations, reserved in parts) == max_iter
        assert parts == [(out, max_iter, back), (None, back, 0)][: 1 + (back > 0)]


def test_all_rows_that_allow_no_ascent_leave_the_first_one_as_it_is(monkeypatch):
    X, y = rows(1500)
    run = Stage.run

    def failing(stage, *rest):
        if stage.absent is None and stage.rule.to_the_end:
            raise error
        return run(stage, *rest)

    error = UndefinedStartError("the evidence is not finite")
    monkeypatch.setattr(Stage, "run", failing)
    details = fitted(X, y, hyperparameters=climb_of(max_iter=8)).fit_report_.details
    assert details["all_rows_back"] == "no ascent: the evidence is not finite"
    assert details["ascent_ended_by"] == "max_iter=8"
    with pytest.raises(ValueError, match="not finite"):
        fitted(X, y, hyperparameters=climb_of(max_iter=8, stop="evidence"))
    error = ValueError("a fault of another kind")
    with pytest.raises(ValueError, match="another kind"):
        fitted(X, y, hyperparameters=climb_of(max_iter=8))


@pytest.mark.parametrize("kernel", [RBF([3e3, 3e3]), RBF(3e3), ConstantKernel(1.0) * RBF(3e3)])
def test_inducing_inputs_move_along_a_column_in_which_they_are_equal(kernel):
    """Its unit is the length scale, however large, not 1."""
    X = 1e4 * np.random.default_rng(0).uniform(size=(300, 2))
    y = (np.sin(X[:, 0] / 2e3) + np.cos(X[:, 1] / 2e3) > 0).astype(int)
    line = np.c_[np.linspace(0, 1e4, 6), np.full(6, 2e3)]
    found = fitted(X, y, kernel, n_inducing=None, inducing=line, hyperparameters=climb_of(max_iter=15))
    assert np.ptp(found.inducing_[:, 1]) > 1e3


@pytest.mark.slow
@pytest.mark.parametrize("stop_at", [1, 3, "between both ascents", "the last inference"])
def test_a_fit_stopped_with_all_rows_back_goes_on(tmp_path, monkeypatch, stop_at):
    X, y = rows(1000)
    settings = {"max_iter": 16, "few_rows": 300, "some_rows": 300}
    whole = fitted(X, y, hyperparameters=climb_of(**settings))
    resumed, save = climb_of(**settings, checkpoint=tmp_path / "fit.npz"), Checkpoint.save

    def stopping(*arguments):
        raise KeyboardInterrupt

    def stopping_at(self, stage, before, state):
        save(self, stage, before, state)
        if before.ended and state.iterations == stop_at:
            stopping()

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", stopping_at)
        if stop_at == "between both ascents":
            patch.setattr(Stage, "back", stopping)
        if stop_at == "the last inference":
            patch.setattr(ascent, "nearer", stopping)
        with pytest.raises(KeyboardInterrupt):
            fitted(X, y, hyperparameters=resumed)
    again = fitted(X, y, hyperparameters=resumed)
    np.testing.assert_array_equal(again.theta_, whole.theta_)
    np.testing.assert_array_equal(again.inducing_, whole.inducing_)
    assert again.fit_report_.details == whole.fit_report_.details
    assert again.fit_report_.evaluations == whole.fit_report_.evaluations


@pytest.mark.parametrize("settings", [{"stop": "held-out"}, {"stop": "evidence"}])
def test_a_fit_with_nothing_to_learn_is_an_inference(settings):
    X, y = rows(1000)
    found = fitted(X, y, RBF(1.0, "fixed"), hyperparameters=climb_of(move_inducing=False, **settings))
    assert found.fit_report_.details["ascent_ended_by"] == "nothing to learn"
    assert "rows_left_out" not in found.fit_report_.details
    given = Problem.of(X, 2.0 * y - 1.0, RBF(1.0, "fixed"), Probit(), form=LowRank(found.inducing_))
    np.testing.assert_allclose(found.log_evidence_, EP()(given).evidence.log_z, rtol=1e-8)


def test_left_out_rows_without_weight_do_not_stop_the_fit():
    X, y = rows(1000)
    problem = problem_of(X, y, weights=np.r_[np.ones(100), np.zeros(900)]).placed(np.random.default_rng(0))
    stage = Stage(problem, stages_guide(), Rule(2, 1e-9), absent=np.arange(900, 1000))
    assert np.isfinite(stage.run().value)
    assert stage.losses == []


def stages_guide():
    return EP().guide(Probit())


# ---- what is kept, and what is computed --------------------------------------------------------------------------


@pytest.mark.slow
def test_a_fitted_model_does_not_keep_the_blocks():
    X, y = rows(300)
    clf = fitted(X, y)
    held = [*clf._problem.rows.held, *clf.posterior_.start.held]
    assert held
    assert all("A" not in shard.scratch for shard in held)
    assert abs(clf.log_marginal_likelihood(clf.theta_) - clf.log_evidence_) < 1e-6  # made again when needed


def test_whitening_does_not_depend_on_the_order_in_memory():
    rng = np.random.default_rng(0)
    L = np.linalg.cholesky(np.cov(rng.standard_normal((4, 50))))
    K = rng.standard_normal((7, 4))
    wanted = np.linalg.solve(L, K.T).T
    np.testing.assert_allclose(whiten(L, np.asfortranarray(K)), wanted)
    C = K.copy()
    found = whiten(L, C)
    np.testing.assert_allclose(found, wanted)
    assert np.shares_memory(found, C)  # no copy


def test_precisions_of_a_certain_class_are_not_negative():
    """D − D²/ΣD where one class has nearly all: rounding must not leave a root of a negative number."""
    rng = np.random.default_rng(0)
    D = np.stack([rng.uniform(0.1, 1.0, 2000), np.full(2000, 1e-20), 1e-17 * rng.random(2000)])
    assert np.min(D - D**2 / D.sum(axis=0)) < 0.0  # what rounding does
    W = precision(D)
    assert np.einsum("rcc->rc", W).min() >= 0.0
    np.testing.assert_allclose(W.sum(axis=2), 0.0, atol=1e-15)


def test_sites_that_are_not_finite_are_an_error():
    precision = np.full((3, 3), np.nan)
    with pytest.raises(NotPositiveDefiniteError, match="not finite"):
        Q.of(precision, np.zeros(3))
    with pytest.raises(NotPositiveDefiniteError, match="not finite"):
        Q.of(np.zeros((3, 3)), np.array([0.0, np.inf, 0.0]))


def test_likelihood_over_a_huge_range_is_computed_value_by_value(monkeypatch):
    rng = np.random.default_rng(0)
    labels = Labels(np.array([1.0, -1.0, 1.0]), 1.0, 1.0)
    G, rest = 200.0 * rng.standard_normal((3, 500)), np.array([0.0, 0.3, 50.0])
    wanted = _clenshaw(*_expand(Logit(), labels, G, rest))
    found = log_smeared(Logit(), labels, G, rest)
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-7)
    np.testing.assert_array_equal(found, _at(Logit(), labels, G, rest))


# ---- white noise -------------------------------------------------------------------------------------------------


def test_noise_is_not_for_inducing_inputs_to_explain():
    X, y = rows(400)
    plain, noisy = KERNEL, KERNEL + WhiteKernel(20.0)
    rng = np.random.default_rng
    sizes = [len(choose_inducing(ArraySource(X, y), k, None, "random", rng(0))) for k in (plain, noisy)]
    assert sizes[0] == sizes[1] < 100
    far = [problem_of(X, y, k).placed(rng(0)).prior.survey()["far_rows"] for k in (plain, noisy)]
    assert far[0] == far[1] < 100


def test_as_many_inducing_inputs_as_were_asked_for(monkeypatch):
    from gpclass.latent import inducing

    monkeypatch.setattr(inducing, "SAMPLE", 50)
    X, y = rows(400)
    Z = choose_inducing(ArraySource(X, y), KERNEL, 80, "random", np.random.default_rng(0))
    assert Z.shape == (80, 2)


# ---- few rows, and what users are told ----------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["ep", "laplace", "variational"])
def test_two_rows_and_one_inducing_input(inference):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        clf = fitted([[0.0], [1.0]], [0, 1], n_inducing=1, inference=inference, hyperparameters="fixed")
    assert np.isfinite(clf.predict_proba([[0.0], [1.0]])).all()
    assert not any(isinstance(v, float) and np.isnan(v) for v in clf.fit_report_.details.values())


def test_a_constant_column_is_not_a_matter_of_scale():
    X, y = rows(100)
    X = np.column_stack([X, np.full(100, 0.1)])
    assert 0 < X[:, 2].std() < 1e-15
    clf = fitted(X, y, hyperparameters="fixed")
    assert not any("standard deviations" in text for text in clf.fit_report_.warnings)
    X[:, 2] += 1e-6 * X[:, 0]
    clf = fitted(X, y, hyperparameters="fixed")
    assert any("standard deviations" in text for text in clf.fit_report_.warnings)


def test_predictions_and_plans_of_a_folder_say_what_to_do(tmp_path):
    X, y = rows(50)
    clf = fitted(X, y, hyperparameters="fixed")
    for ask in (clf.predict, clf.predict_proba, clf.predict_uncertainty):
        with pytest.raises(ValueError, match="predict_folder"):
            ask(tmp_path)
    with pytest.raises(ValueError, match="array or a data frame"):
        clf.plan("folder", "label")
    with pytest.raises(ValueError, match="class"):
        clf.plan(X, np.ones(50))
    assert clf.plan(X, np.arange(50) % 3).seconds > 0


def test_numbers_kept_as_objects_stay_numbers():
    labels = Collected()
    labels.add(np.array([0, 1, 1], dtype=object), "part 0")
    classes, index = labels.result()
    assert classes.dtype.kind == "i"
    np.testing.assert_array_equal(index, [0, 1, 1])


def test_missing_truth_values_in_parquet_name_the_file(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X, y = rows(20)
    flag = [None if k == 7 else k % 2 == 0 for k in range(20)]
    pq.write_table(pa.table({"a": X[:, 0], "flag": flag, "label": y}), tmp_path / "one.parquet")
    with pytest.raises(ValueError, match=r"one\.parquet.*missing"):
        fitted(tmp_path, "label")


def test_one_class_in_a_shard_is_no_matter():
    X, y = rows(200)
    order = np.argsort(y, kind="stable")
    cut = problem_of(X[order], y[order], shard_rows=50).placed(np.random.default_rng(0))
    whole = problem_of(X[order], y[order]).placed(np.random.default_rng(0))
    assert isinstance(cut.rows.executor, Local)
    one, two = (stages_guide()(p, gradient=True).evidence for p in (cut, whole))
    assert abs(one.log_z - two.log_z) < 1e-9
    np.testing.assert_allclose(one.gradient, two.gradient, atol=1e-9)
