"""scikit-learn's own checks, and its tools around the estimator."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_moons
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from gpclass import GPClassifier
from gpclass.registry import INFERENCES

FAST = [
    GPClassifier(inference=row.name, likelihood=likelihood, hyperparameters=strategy)
    for row in INFERENCES.values()
    for likelihood in row.likelihoods
    for strategy in ("fixed", "maximize")
    if strategy == "fixed" or (row.gradient and likelihood == row.likelihoods[0])
] + [GPClassifier(inference="laplace", hyperparameters="map")]


@parametrize_with_checks(FAST)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def moons():
    return make_moons(80, noise=0.25, random_state=1)


def test_pipeline_grid_search(moons):
    X, y = moons
    pipe = make_pipeline(StandardScaler(), GPClassifier(kernel=RBF(1.0), hyperparameters="fixed"))
    grid = {"gpclassifier__kernel": [RBF(0.01), RBF(0.5)], "gpclassifier__inference": ["ep", "laplace"]}
    search = GridSearchCV(pipe, grid, cv=3, scoring="neg_log_loss").fit(X, y)
    assert search.best_params_["gpclassifier__kernel"].length_scale == 0.5
    assert search.score(X, y) > -0.4


def test_cross_val_predict(moons):
    X, y = moons
    proba = cross_val_predict(GPClassifier(), X, y, cv=4, method="predict_proba")
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert np.mean((proba[:, 1] > 0.5) == y) > 0.85


def test_calibrated_classifier(moons):
    X, y = moons
    clf = CalibratedClassifierCV(GPClassifier(hyperparameters="fixed"), method="sigmoid", cv=3).fit(X, y)
    assert clf.score(X, y) > 0.85


def test_clone_and_set_params(moons):
    X, y = moons
    clf = GPClassifier(kernel=2.0 * RBF(0.7), inference="laplace", hyperparameters="fixed")
    twin = clone(clf).set_params(kernel__k2__length_scale=0.3)
    assert clf.kernel.k2.length_scale == 0.7
    assert twin.fit(X, y).kernel_.k2.length_scale == 0.3
    assert twin.kernel.theta == pytest.approx(np.log([2.0, 0.3]))  # fit leaves the parameter alone
