"""A classifier of tables answers every question about the encoded table, never about the raw one."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import cross_val_score
from sklearn.svm import LinearSVC

from gpclass import GPClassifier, load_model
from gpclass.compare.presets import WithKernelOf
from gpclass.estimators.tables import TableClassifier

QUICK = {"inference": "laplace", "hyperparameters": "fixed"}
FITTED = [
    "kernel_",
    "likelihood_",
    "theta_",
    "posterior_",
    "fit_report_",
    "log_evidence_",
    "log_evidence_error_",
    "evidence_kind_",
    "log_marginal_likelihood_value_",
    "trace_",
]


@pytest.fixture
def table():
    """The word tells the classes apart; the number says nothing."""
    rng = np.random.default_rng(0)
    word = np.where(np.arange(40) % 2, "ore", "waste")
    frame = pd.DataFrame({"word": word, "depth": 100 * rng.standard_normal(40)})
    return frame, np.where(word == "ore", 1, 0)


@pytest.fixture
def model(table):
    return TableClassifier(GPClassifier(RBF(1.0), **QUICK)).fit(*table)


@pytest.fixture
def numbers():
    """A table without words, whose raw columns the classifier would take without a murmur."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"a": 1e4 + 1e3 * rng.standard_normal(60), "b": 1e-3 * rng.standard_normal(60)})
    return frame, np.where(frame["a"] > 1e4, "high", "low")


@pytest.mark.parametrize("scoring", ["roc_auc", "average_precision"])
def test_scorers_see_the_encoded_table(table, numbers, model, scoring):
    assert get_scorer(scoring)(model, *table) == 1.0
    frame, y = numbers
    clf = TableClassifier(GPClassifier(RBF(1.0), **QUICK))
    y = (y == "high").astype(int)
    assert get_scorer(scoring)(clone(clf).fit(frame, y), frame, y) > 0.99
    assert np.mean(cross_val_score(clf, frame, y, scoring=scoring, cv=3, error_score="raise")) > 0.95


def test_every_answer_is_of_the_encoded_table(numbers):
    frame, y = numbers
    model = TableClassifier(GPClassifier(RBF(1.0), **QUICK)).fit(frame, y)
    inner, X = model.classifier_, model.encode(frame)
    for name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(model, name)(frame), getattr(inner, name)(X))
    found, want = model.predict_uncertainty(frame, level=0.8), inner.predict_uncertainty(X, level=0.8)
    np.testing.assert_array_equal(found.upper, want.upper)
    np.testing.assert_array_equal(model.sample_latent(frame, n_samples=3, random_state=5), inner.sample_latent(X, 3, 5))
    assert model.score(frame, y) == inner.score(X, y)
    cost = [[0.0, 1.0], [5.0, 0.0]]
    np.testing.assert_array_equal(model.decide(frame, cost).action, inner.decide(X, cost).action)
    assert model.log_marginal_likelihood() == inner.log_evidence_
    value, slope = model.log_marginal_likelihood(model.theta_, eval_gradient=True)
    assert value == pytest.approx(inner.log_evidence_)
    assert slope.shape == model.theta_.shape


def test_a_plan_is_of_the_encoded_table(table, tmp_path):
    frame, y = table
    clf = TableClassifier(GPClassifier(RBF(1.0), **QUICK))
    plan = clf.plan(frame, y, budget=0.1)
    assert (plan.n, plan.d) == (40, 3)
    assert not hasattr(clf, "classifier_")
    with pytest.raises(ValueError, match="array or a data frame"):
        clf.plan(tmp_path, "label")


def test_fitted_attributes_are_those_of_the_classifier(model):
    for name in FITTED:
        assert getattr(model, name) is getattr(model.classifier_, name), name
        with pytest.raises(AttributeError):
            setattr(model, name, 1)
    assert not hasattr(model, "inducing_")
    assert not hasattr(model, "no_such_thing")


def test_nothing_is_there_before_fit(table):
    clf = TableClassifier()
    for name in FITTED:
        assert not hasattr(clf, name)
    with pytest.raises(NotFittedError):
        clf.decision_function(table[0])
    with pytest.raises(NotFittedError):
        clf.log_marginal_likelihood()


def test_methods_are_those_that_the_classifier_has(table):
    clf = TableClassifier(LogisticRegression()).fit(*table)
    assert hasattr(clf, "decision_function")
    assert not hasattr(clf, "sample_latent")
    assert not hasattr(clf, "predict_uncertainty")
    assert not hasattr(clf, "kernel_")
    assert not hasattr(clf, "plan")
    assert get_scorer("roc_auc")(clf, *table) == 1.0
    clf = TableClassifier(LinearSVC()).fit(*table)
    assert not hasattr(clf, "predict_proba")
    assert get_scorer("roc_auc")(clf, *table) == 1.0


def test_sample_weights_reach_the_classifier(numbers):
    frame, y = numbers
    weights = np.where(np.arange(60) % 3, 1.0, 2.0)
    model = TableClassifier(GPClassifier(RBF(1.0), **QUICK)).fit(frame, y, sample_weight=weights)
    X = model.encode(frame)
    want = GPClassifier(RBF(1.0), **QUICK).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(model.predict_proba(frame), want.predict_proba(X))
    assert model.log_evidence_ != TableClassifier(GPClassifier(RBF(1.0), **QUICK)).fit(frame, y).log_evidence_


def test_weights_of_a_folder_are_no_feature(numbers, tmp_path):
    pytest.importorskip("pyarrow")
    frame, y = numbers
    frame = frame.assign(word=np.where(np.arange(60) % 2, "x", "y"))
    weights = np.where(np.arange(60) % 3, 1.0, 2.0)
    frame.assign(label=y, w=weights).to_parquet(tmp_path / "part.parquet", index=False)
    clf = TableClassifier(GPClassifier(RBF(1.0), n_inducing=60, inducing="random", random_state=0, **QUICK))
    of_folder = clone(clf).fit(tmp_path, "label", sample_weight="w")
    assert of_folder.encoding_.names == ("a", "b", "word")
    in_memory = clone(clf).fit(frame, y, sample_weight=weights)
    np.testing.assert_allclose(of_folder.predict_proba(frame), in_memory.predict_proba(frame), atol=1e-6)


def test_a_saved_model_answers_alike(model, table, tmp_path):
    read = load_model(model.save(tmp_path / "model.gpclass"))
    np.testing.assert_array_equal(read.decision_function(table[0]), model.decision_function(table[0]))
    assert read.kernel_ == model.kernel_


# ---- a classifier with the kernel of another ---------------------------------------------------------------------


@pytest.fixture
def borrowed():
    guide = GPClassifier(RBF(1.0), inference="laplace")
    return WithKernelOf(guide, GPClassifier(inference="laplace"))


def quietly(fit, *given, **named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(*given, **named)


def test_what_is_asked_of_a_borrower_is_of_its_classifier(borrowed, numbers, tmp_path):
    frame, y = numbers
    X = (frame - frame.mean()) / frame.std()
    assert not hasattr(borrowed, "kernel_")
    with pytest.raises(NotFittedError):
        borrowed.predict(X)
    quietly(borrowed.fit, X, y)
    for name in FITTED:
        assert getattr(borrowed, name) is getattr(borrowed.classifier_, name), name
    assert borrowed.n_features_in_ == 2
    assert list(borrowed.feature_names_in_) == ["a", "b"]
    for name in ("predict", "predict_proba", "predict_log_proba", "decision_function", "sample_latent"):
        given = {"random_state": 0} if name == "sample_latent" else {}
        np.testing.assert_array_equal(
            getattr(borrowed, name)(X, **given), getattr(borrowed.classifier_, name)(X, **given)
        )
    assert not hasattr(borrowed, "steps")
    read = load_model(borrowed.save(tmp_path / "model.gpclass"))
    assert isinstance(read, WithKernelOf)
    np.testing.assert_array_equal(read.predict_proba(X), borrowed.predict_proba(X))


def test_a_borrower_takes_weights(borrowed, numbers):
    frame, y = numbers
    X = ((frame - frame.mean()) / frame.std()).to_numpy()
    weights = np.where(np.arange(60) % 3, 1.0, 2.0)
    quietly(borrowed.fit, X, y, sample_weight=weights)
    copies = np.repeat(np.arange(60), weights.astype(int))
    whole = quietly(clone(borrowed).fit, X[copies], y[copies])
    np.testing.assert_allclose(borrowed.predict_proba(X), whole.predict_proba(X), atol=1e-4)


def test_a_borrower_behind_a_table(borrowed, table):
    model = quietly(TableClassifier(borrowed).fit, *table)
    assert get_scorer("roc_auc")(model, *table) == 1.0
    assert model.kernel_ is model.classifier_.classifier_.kernel_
    assert hasattr(model, "predict_uncertainty")
