"""Comparison: figures equal those worked out by hand; failures are recorded; advice follows its rules."""

import time
import warnings
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, RepeatedKFold, RepeatedStratifiedKFold, ShuffleSplit, TimeSeriesSplit
from sklearn.naive_bayes import GaussianNB

from gpclass import GPClassifier, metrics
from gpclass.compare import Agreement, MethodResult, compare
from gpclass.compare.advice import advise, base_rate_log_loss, difference
from gpclass.compare.presets import default_methods
from gpclass.folds import SpatialBlocks
from gpclass.plots import ard_relevance
from gpclass.registry import STRATEGIES
from gpclass.registry import methods as registry_methods
from gpclass.report import render_report


class Broken(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        raise RuntimeError("the wheel came off")


class Grumbling(LogisticRegression):
    def fit(self, X, y):
        warnings.warn("did not settle", ConvergenceWarning, stacklevel=1)
        return super().fit(X, y)


def problem(n=120, seed=0, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.digitize(X[:, 0] + 0.7 * rng.normal(size=n), [0.0] if classes == 2 else [-0.6, 0.6])


@pytest.mark.slow
def test_scores_are_those_of_a_plain_loop():
    X, y = problem()
    c = compare(X, y, {"lr": LogisticRegression(), "nb": GaussianNB()}, cv=4, repeats=3, random_state=5)
    split = RepeatedStratifiedKFold(n_splits=4, n_repeats=3, random_state=5)
    losses, hits = [], []
    for train, test in split.split(X, y):
        clf = LogisticRegression().fit(X[train], y[train])
        losses.append(metrics.log_loss(y[test], clf.predict_proba(X[test])))
        hits.append(clf.score(X[test], y[test]))
    r = c.results["lr"]
    np.testing.assert_allclose(r.fold_scores["log_loss"], losses)
    assert r.scores.log_loss == pytest.approx(np.mean(losses))  # folds of 30 points each
    assert r.scores.accuracy == pytest.approx(np.mean(hits))
    assert r.standard_error["log_loss"] == pytest.approx(np.std(losses, ddof=1) / np.sqrt(4))
    assert r.point_log_loss.mean() == pytest.approx(r.scores.log_loss)
    assert c.reference is None
    assert r.agreement is None


@pytest.mark.parametrize("classes", [2, 3])
def test_distance_from_the_reference_and_where_it_is_largest(classes):
    X, y = problem(classes=classes)
    c = compare(X, y, {"a": LogisticRegression(), "b": GaussianNB()}, reference="a", cv=3)
    a, b = c.results["a"], c.results["b"]
    delta = np.abs(a.proba - b.proba).max(axis=1)
    assert b.agreement.largest == delta.max()
    assert b.agreement.mean == pytest.approx(delta.mean())
    assert b.agreement.points[0] == delta.argmax()
    assert b.agreement.rows[0] == str(delta.argmax())
    assert np.all(np.diff(b.agreement.delta) <= 0)
    assert b.agreement.flips == np.sum(a.proba.argmax(1) != b.proba.argmax(1))
    assert a.agreement is None
    assert b.same_kernel is None  # neither has a kernel


def test_a_failure_is_recorded_and_the_rest_goes_on():
    X, y = problem()
    c = compare(X, y, {"ok": LogisticRegression(), "bad": Broken()}, reference="bad", cv=3)
    assert "the wheel came off" in c.results["bad"].error
    assert c.results["ok"].error is None
    assert c.recommended == "ok"
    table = c.table()
    assert list(table.index) == ["ok", "bad"]
    assert np.isnan(table.loc["bad", "log_loss"])
    assert "bad: RuntimeError" in str(c)
    none = compare(X, y, {"bad": Broken()}, cv=3)
    assert none.recommended is None


def test_convergence_and_warnings_are_kept_once():
    X, y = problem()
    c = compare(X, y, {"calm": GaussianNB(), "grumbling": Grumbling()}, cv=3)
    assert c.results["calm"].converged
    assert not c.results["grumbling"].converged
    assert c.results["grumbling"].warnings == ("did not settle",)
    assert c.recommended == "calm"
    assert "did not converge: grumbling" in c.advice


def test_groups_are_not_split():
    X, y = problem()
    groups = np.arange(120) // 10
    seen = []

    class Spy(GaussianNB):
        def fit(self, X, y):
            seen.append(set(X[:, 2].astype(int)))
            return super().fit(X, y)

        def predict_proba(self, X):
            assert not seen[-1] & set(X[:, 2].astype(int))
            return super().predict_proba(X)

    c = compare(np.column_stack([X, groups]), y, {"spy": Spy()}, cv=3, groups=groups)
    assert c.results["spy"].error is None
    assert c.blocked
    split = compare(np.column_stack([X, groups]), y, {"spy": Spy()}, cv=3)  # negative control
    assert split.results["spy"].error is not None


@pytest.mark.slow
def test_frames_strings_jobs_and_seeds_give_the_same_figures():
    X, y = problem()
    labels = np.array(["no", "yes"])[y]
    frame = pd.DataFrame(X, columns=["east", "north"])
    gp = GaussianProcessClassifier(RBF(1.0), optimizer=None)
    one = compare(frame, labels, {"gp": gp, "lr": LogisticRegression()}, cv=3)
    two = compare(frame, labels, {"gp": gp, "lr": LogisticRegression()}, cv=3, n_jobs=2)
    assert one.feature_names == ("east", "north")
    np.testing.assert_array_equal(one.results["gp"].proba, two.results["gp"].proba)
    assert dict(one.results["gp"].parameters) == {"length scale": 1.0}
    assert one.results["gp"].log_evidence == pytest.approx(one.results["gp"].estimator.log_marginal_likelihood_value_)


def test_bad_calls_are_named():
    X, y = problem()
    lr = {"lr": LogisticRegression()}
    with pytest.raises(ValueError, match="one class"):
        compare(X, np.zeros(120), lr)
    with pytest.raises(ValueError, match="fewer than cv"):
        compare(X, np.r_[np.zeros(118), 1, 1], lr)
    with pytest.raises(ValueError, match="not among the methods"):
        compare(X, y, lr, reference="exact")
    with pytest.raises(ValueError, match="empty"):
        compare(X, y, {})
    with pytest.raises(ValueError, match="cv must be"):
        compare(X, y, lr, cv=1)
    with pytest.raises(ValueError, match="groups"):
        compare(X, y, lr, groups=[1, 2])
    with pytest.raises(ValueError, match="too few"):
        compare(X, y, lr, groups=np.zeros(120))


# ---- advice, on made-up results -----------------------------------------------------------------------


def made(name, losses, seconds=1.0, converged=True, gap=None):
    """A result with the given losses of single points and the largest |Δp| from the reference."""
    losses = np.asarray(losses, dtype=float)
    p = np.exp(-losses)
    y = np.arange(len(p)) % 2
    s = metrics.scores(y, np.where(y == 1, p, 1 - p), n_bootstrap=2)
    base = MethodResult(
        name, scores=s, point_log_loss=losses, seconds_fit=seconds, seconds_predict=0.0, converged=converged
    )
    if gap is None:
        return base
    z = np.zeros((1, 2))
    return replace(base, agreement=Agreement("exact", gap / 2, gap, np.array([0]), np.array([gap]), z, z, 0))


def test_the_class_that_changes_most_is_the_second_of_two():
    """Both change by the same, up to rounding, which must not choose."""
    for p, other in ((0.18, 0.082), (0.088, 0.03), (0.3, 0.1), (0.9, 0.2)):
        proba, reference = np.array([[1.0 - p, p]]), np.array([[1.0 - other, other]])
        assert Agreement("exact", 0.1, 0.1, np.array([0]), np.array([0.1]), proba, reference, 0).most_changed(0) == 1
    proba, reference = np.array([[0.2, 0.5, 0.3]]), np.array([[0.6, 0.2, 0.2]])
    assert Agreement("exact", 0.1, 0.4, np.array([0]), np.array([0.4]), proba, reference, 0).most_changed(0) == 0


LOSS = 0.3 + 0.05 * np.sin(np.arange(200))


@pytest.mark.parametrize(
    ("results", "chosen", "words"),
    [
        # close and much faster than exact: take the fast one
        ([made("exact", LOSS, 10), made("ep", LOSS + 1e-4, 1, gap=0.005)], "ep", "10 times faster"),
        # two that are close and about as fast: take the closer one
        (
            [made("exact", LOSS, 10), made("is", LOSS, 1, gap=0.015), made("ep", LOSS, 1.4, gap=0.002)],
            "ep",
            "within 0.002",
        ),
        # close but hardly faster: stay exact
        ([made("exact", LOSS, 1.5), made("ep", LOSS, 1, gap=0.005)], "exact", "3 times faster"),
        # fast but far: stay exact, and say how far
        ([made("exact", LOSS, 10), made("laplace", LOSS, 1, gap=0.2)], "exact", "by 0.2"),
        # another model is clearly better than the reference
        ([made("exact", LOSS + 0.1, 1), made("other", LOSS, 9, gap=0.3)], "other", "exactness"),
        # nothing is as good as the reference
        ([made("exact", LOSS, 10), made("laplace", LOSS + 0.1, 1, gap=0.2)], "exact", "no other method"),
        # the best did not converge
        ([made("ep", LOSS, 1, converged=False), made("nb", LOSS + 0.1, 1)], "nb", "did not converge: ep"),
        ([made("ep", LOSS, 1, converged=False)], "ep", "None of the methods converged"),
        # worse than the base rate
        ([made("ep", LOSS + 0.5, 1)], "ep", "base rate"),
        ([made("slow", LOSS, 5), made("fast", LOSS + 1e-3, 1)], "fast", "fastest of the 2"),
    ],
)
def test_advice_follows_the_figures(results, chosen, words):
    text, name = advise(results, "exact", base_rate=np.log(2))
    assert name == chosen
    assert text.startswith(f"Use {chosen}")
    assert words in text


def test_difference_is_paired_and_base_rate_is_entropy():
    a, b = made("a", LOSS + 0.01), made("b", LOSS)
    mean, se = difference(a, b)
    assert mean == pytest.approx(0.01)
    assert se < 1e-12
    assert base_rate_log_loss(np.array([0, 1, 1, 0])) == pytest.approx(np.log(2))
    with pytest.raises(ValueError, match="scored"):
        difference(a, MethodResult("x"))


# ---- with this package's own methods ------------------------------------------------------------------


def test_default_methods_are_the_registry():
    names = [row.name for row in registry_methods("inference")]
    assert list(default_methods()) == names
    with pytest.raises(ValueError, match="not known"):
        default_methods(["epp"])


@pytest.mark.slow
def test_same_kernel_isolates_the_approximation():
    """EP against itself differs by nothing; Laplace differs, and its evidence too."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from gpclass.estimators.classifier import GPClassifier

    X, y = problem(60)
    again = make_pipeline(StandardScaler(), GPClassifier(inference="ep"))
    c = compare(X, y, {**default_methods(["ep", "laplace"]), "again": again}, cv=2)
    assert c.reference == "ep"
    assert c.results["again"].same_kernel.largest < 1e-7  # EP's sites, from different starts, to 1e-6
    assert c.results["again"].agreement.largest < 1e-9
    assert 1e-5 < c.results["laplace"].same_kernel.largest < 0.2
    assert abs(c.results["laplace"].same_kernel_evidence) > 1e-3
    ep, kernel = c.results["ep"].estimator, c.results["ep"].estimator[-1].kernel_
    Z = ep[:-1].transform(X)
    lap = GPClassifier(kernel, inference="laplace", hyperparameters="fixed").fit(Z, y)
    gap = np.abs(lap.predict_proba(Z) - ep.predict_proba(X)).max()
    assert c.results["laplace"].same_kernel.largest == pytest.approx(gap, rel=1e-4)


def test_a_method_without_gradient_takes_the_kernel_of_ep():
    from gpclass.compare.presets import WithKernelOf
    from gpclass.estimators.classifier import GPClassifier

    X, y = problem(60)
    clf = WithKernelOf(GPClassifier(inference="ep"), GPClassifier(inference="laplace")).fit(X, y)
    assert clf.kernel_ == clf.guide_.kernel_
    assert clf.kernel_ != GPClassifier(inference="laplace").fit(X, y).kernel_
    assert clf.predict_uncertainty(X).proba.shape == (60, 2)
    with pytest.raises(AttributeError):
        WithKernelOf(clf.guide, clf.classifier).kernel_  # noqa: B018 - not fitted


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_sampled_parameters_have_intervals(coarse_maps, brief_chains):
    X, y = problem(n=40)
    short = STRATEGIES["hmc"].factory.brief()
    sampled = GPClassifier(1.0 * RBF([1.0, 1.0]), inference="laplace", hyperparameters=short, random_state=0)
    c = compare(X, y, {"sampled": sampled, "found": GPClassifier(inference="laplace")}, cv=2)
    r = c.results["sampled"]
    assert [name for name, _ in r.parameters] == [
        "constant value",
        "length scale[feature 1]",
        "length scale[feature 2]",
    ]
    for name, value in r.parameters:
        low, high = r.intervals[name]
        assert 0 < low < value < high
    draws = r.estimator.trace_.posterior["k2__length_scale"].to_numpy().reshape(-1, 2)
    assert r.intervals["length scale[feature 2]"] == pytest.approx(np.quantile(draws[:, 1], [0.05, 0.95]))
    assert not c.results["found"].intervals
    bars = ard_relevance(r.estimator).patches  # the median of one over the length, with bars of the posterior
    assert sorted(bar.get_width() for bar in bars) == pytest.approx(sorted(np.median(1 / draws, axis=0)))
    page = render_report(c)
    low, high = r.intervals["constant value"]
    assert f"[{low:.3g}, {high:.3g}]" in page
    assert "90 % of the posterior" in page


# ---- splitters, time ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "cv", [SpatialBlocks(4), SpatialBlocks(4, random_state=None), RepeatedKFold(n_splits=3, n_repeats=2)], ids=str
)
def test_a_splitter_is_asked_once_so_that_folds_are_paired(cv):
    X, y = problem()
    c = compare(X, y, {"a": LogisticRegression(), "b": LogisticRegression()}, cv=cv)
    np.testing.assert_array_equal(c.results["a"].proba, c.results["b"].proba)


@pytest.mark.slow
def test_a_report_names_its_splitter(coarse_maps):
    X, y = problem()
    assert "SpatialBlocks" in render_report(compare(X, y, {"nb": GaussianNB()}, cv=SpatialBlocks(4)))


def test_folds_of_a_splitter_are_its_own():
    X, y = problem()
    groups = np.arange(len(y)) % 7
    c = compare(X, y, {"nb": GaussianNB()}, cv=GroupKFold(3), groups=groups)
    for train, test in GroupKFold(3).split(X, y, groups):
        expected = GaussianNB().fit(X[train], y[train]).predict_proba(X[test])
        np.testing.assert_allclose(c.results["nb"].proba[test], expected)
    assert (c.n_folds, c.n_repeats) == (3, 1)
    repeated = compare(X, y, {"nb": GaussianNB()}, cv=RepeatedKFold(n_splits=4, n_repeats=2, random_state=0))
    assert (repeated.n_folds, repeated.n_repeats) == (4, 2)
    assert len(repeated.results["nb"].fold_scores["brier"]) == 8


@pytest.mark.parametrize("cv", [ShuffleSplit(3, random_state=0), TimeSeriesSplit(3)], ids=["shuffle", "time"])
def test_a_splitter_that_does_not_test_every_row_is_refused(cv):
    X, y = problem()
    with pytest.raises(ValueError, match="every row must be tested equally often"):
        compare(X, y, {"nb": GaussianNB()}, cv=cv)


def test_blocks_without_a_seed_are_the_same_at_every_call():
    X, y = problem()
    first, second = (list(SpatialBlocks(4).split(X, y)) for _ in range(2))
    for (_, a), (_, b) in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


class Slow(GaussianNB):
    """Takes 4 µs × n²: seconds with some hundred rows, a minute with four thousand."""

    rows: ClassVar = []

    def fit(self, X, y):
        self.rows.append(len(X))
        time.sleep(4e-6 * len(X) ** 2)
        return super().fit(X, y)


def test_a_method_that_would_take_too_long_is_left_out_before_its_first_fold():
    X, y = problem(n=4000)
    Slow.rows.clear()
    c = compare(X, y, {"ep": Slow(), "quick": GaussianNB()}, cv=2, max_seconds=2.0)
    assert c.results["ep"].state == "left out"
    assert max(Slow.rows) <= 125  # a sixteenth of a fold shows it
    assert c.reference is None  # the reference is bounded too
    assert c.recommended == "quick"


def test_a_reference_that_was_named_stays():
    X, y = problem(n=60)
    c = compare(X, y, {"a": GaussianNB(), "b": LogisticRegression()}, cv=2, reference="a", max_seconds=1e-9)
    assert [c.results[name].state for name in "ab"] == ["converged", "left out"]
