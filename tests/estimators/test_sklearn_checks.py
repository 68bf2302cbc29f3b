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
from gpclass.hyper import Maximize
from gpclass.inference import EP, GPCMC, Exact, Gibbs, LatentHMC
from gpclass.registry import INFERENCES
from tests.estimators.checks import few_checks
from tests.short import SHORT

TIGHT = Maximize(tol=1e-12, gradient_tol=1e-7)  # the checks compare fits to seven digits
BRIEF = Maximize(max_iter=2, polish_steps=1)  # they ask for equal fits, not for converged ones
SHORTEST = SHORT | {  # of hundreds of rows, and whose scans are as many steps
    "hmc": LatentHMC(chains=2, warmup=20, draws=20),
    "gibbs": Gibbs(chains=8, warmup=2, draws=4, jitter=0.3),
    "gpc-mc": GPCMC(n_samples=400, runs=4),
    "gpc-mc-hard": GPCMC(n_samples=400, runs=4, soft=False),
}


def at_fixed_parameters(name):
    tol = {} if name == "exact" else {"tol": 0.02}  # it has a number of draws instead
    return GPClassifier(inference=SHORTEST.get(name, name), hyperparameters="fixed", **tol)


# Every check for the default and a deterministic inference; those of the inference for the others.
COMPLETE = ["laplace"]
COMPLETE_SLOW = ["exact"]
OTHERS = [row for row in INFERENCES.values() if row.name not in COMPLETE + COMPLETE_SLOW]
CLIMBS = [  # of those that most people use
    GPClassifier(inference=Exact(n_samples=200), hyperparameters=BRIEF),
    GPClassifier(inference=EP(tol=1e-12), hyperparameters=BRIEF),
    GPClassifier(inference="laplace", likelihood="logit", hyperparameters=TIGHT),
    GPClassifier(inference="laplace", hyperparameters="map"),
]

# What a fit to the checks' few random points has to say of itself.
SAID = (
    "ignore:(the (Monte Carlo|chains|fit|importance weights|weights|log evidence|best param)|class_weight counts|"
    "only .* effective)"
)


def cannot_hold(estimator):
    """Checks that ask of a Monte Carlo answer what only a deterministic one can give, with the reason."""
    row = INFERENCES[getattr(estimator.inference, "name", estimator.inference)]
    if not (row.exact or row.default.stochastic):
        return {}
    expected = {}
    if row.name != "dsgq":  # of two classes only, and the sampler puts their rows in an order of its own
        expected["check_sample_weight_equivalence_on_dense_data"] = (
            "draws depend on the order of the rows; equal within Monte Carlo error, see tests/inference/test_exact.py"
        )
    if row.name.startswith("gpc-mc"):
        expected["check_class_weight_classifiers"] = "a fractional weight is no repeated row; refused with the cure"
    return expected


@pytest.mark.slow
@pytest.mark.filterwarnings(SAID)
@parametrize_with_checks([at_fixed_parameters(name) for name in COMPLETE])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings(SAID)
@parametrize_with_checks([at_fixed_parameters(name) for name in COMPLETE_SLOW], expected_failed_checks=cannot_hold)
def test_scikit_learn_checks_that_take_longer(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings(SAID)
@few_checks([at_fixed_parameters(row.name) for row in OTHERS], expected_failed_checks=cannot_hold)
def test_checks_of_the_other_inferences(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings(SAID)
@few_checks(CLIMBS, without="check_class_weight_classifiers", expected_failed_checks=cannot_hold)
def test_checks_of_climbs(estimator, check):
    """Weights are for the inference, which has them at fixed parameters; those of this check are extreme, and slow."""
    check(estimator)


@pytest.fixture(scope="module")
def moons():
    return make_moons(80, noise=0.25, random_state=1)


@pytest.mark.filterwarnings("ignore:the log evidence")
def test_pipeline_grid_search(moons):
    X, y = moons
    pipe = make_pipeline(StandardScaler(), GPClassifier(kernel=RBF(1.0), hyperparameters="fixed"))
    grid = {"gpclassifier__kernel": [RBF(0.01), RBF(0.5)], "gpclassifier__inference": ["ep", "laplace"]}
    search = GridSearchCV(pipe, grid, cv=3, scoring="neg_log_loss").fit(X, y)
    assert search.best_params_["gpclassifier__kernel"].length_scale == 0.5
    assert search.score(X, y) > -0.4


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the best parameters lie on a bound")
@pytest.mark.filterwarnings("ignore:the Monte Carlo standard error")  # tol is met at the training points
def test_cross_val_predict(moons):
    X, y = moons
    proba = cross_val_predict(GPClassifier(random_state=0), X, y, cv=4, method="predict_proba")
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert np.mean((proba[:, 1] > 0.5) == y) > 0.85


def test_calibrated_classifier(moons):
    X, y = moons
    inner = GPClassifier(hyperparameters="fixed", random_state=0)
    clf = CalibratedClassifierCV(inner, method="sigmoid", cv=3).fit(X, y)
    assert clf.score(X, y) > 0.85


def test_clone_and_set_params(moons):
    X, y = moons
    clf = GPClassifier(kernel=2.0 * RBF(0.7), inference="laplace", hyperparameters="fixed")
    twin = clone(clf).set_params(kernel__k2__length_scale=0.3)
    assert clf.kernel.k2.length_scale == 0.7
    assert twin.fit(X, y).kernel_.k2.length_scale == 0.3
    assert twin.kernel.theta == pytest.approx(np.log([2.0, 0.3]))  # fit leaves the parameter alone
