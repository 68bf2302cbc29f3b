"""The estimator's own behaviour: inputs, outputs, warnings, errors."""

import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process.kernels import RBF, Kernel, WhiteKernel
from sklearn.gaussian_process.kernels import ConstantKernel as C

from gpclass import GPClassifier
from gpclass.estimators import checks
from gpclass.hyper import Maximize
from gpclass.hyper.bounds import bounds_warning
from gpclass.inference import EP, GPCMC, Exact, Laplace
from gpclass.likelihoods import Probit
from gpclass.priors import Flat, LogNormal
from gpclass.registry import INFERENCES
from tests.short import short

NAMES = list(INFERENCES)
PAIRS = [(row.name, link) for row in INFERENCES.values() for link in row.likelihoods if link in ("probit", "logit")]
DETERMINISTIC = [(name, link) for name, link in PAIRS if not INFERENCES[name].exact]
KERNEL = 2.0 * RBF(0.8)


@pytest.fixture(scope="module")
def moons():
    return make_moons(60, noise=0.25, random_state=0)


def fixed(name="ep", **settings):
    return GPClassifier(
        **({"kernel": KERNEL, "inference": name, "hyperparameters": "fixed", "random_state": 0} | settings)
    )


@pytest.fixture(scope="module")
def fit_of(moons):
    """The fit of an inference to the moons, made once."""
    fits = {}

    def fit(name):
        if name not in fits:
            fits[name] = fixed(short(name)).fit(*moons)
        return fits[name]

    return fit


# ---- outputs -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the (Monte Carlo|chains|fit did not)|only .* effective")
@pytest.mark.parametrize("name", NAMES)
def test_outputs_agree_with_each_other(moons, fit_of, name):
    X, y = moons
    clf = fit_of(name)
    proba, log_proba = clf.predict_proba(X), clf.predict_log_proba(X)
    np.testing.assert_allclose(np.exp(log_proba), proba, rtol=1e-12)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(clf.predict(X), (proba[:, 1] > 0.5).astype(int))
    np.testing.assert_array_equal(clf.decision_function(X) > 0, proba[:, 1] > 0.5)
    spread = clf.predict_uncertainty(X, level=0.8)
    np.testing.assert_allclose(spread.proba, proba)
    assert np.all(spread.lower <= spread.upper)
    wider = clf.predict_uncertainty(X, level=0.95)
    assert np.all(wider.lower <= spread.lower)
    assert np.all(wider.upper >= spread.upper)
    assert clf.score(X, y) > 0.85


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the (Monte Carlo|chains|fit did not)|only .* effective")
@pytest.mark.parametrize("name", NAMES)
def test_prediction_is_never_random(moons, fit_of, name):
    X, y = moons
    clf = fit_of(name)
    np.testing.assert_array_equal(clf.predict_proba(X), clf.predict_proba(X))
    again = fixed(short(name)).fit(X, y)
    np.testing.assert_array_equal(clf.predict_proba(X), again.predict_proba(X))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the (Monte Carlo|chains|fit did not)|only .* effective")
@pytest.mark.parametrize("name", NAMES)
def test_latent_draws_have_the_reported_moments(moons, fit_of, name):
    clf = fit_of(name)
    new = moons[0][:3] + 0.1
    draws = clf.sample_latent(new, 20_000, random_state=1)
    spread = clf.predict_uncertainty(new)
    mean, sd = spread.latent_mean[:, 0], spread.latent_sd[:, 0]
    assert draws.shape == (20_000, 3)
    # the last term is for a mode without variance, whose draws are all the same
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 5 * sd / np.sqrt(20_000) + 0.02 * sd + 1e-12)
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.05, atol=1e-12)


def test_log_marginal_likelihood_is_the_evidence(moons):
    X, y = moons
    clf = GPClassifier(inference="laplace").fit(X, y)
    assert clf.log_marginal_likelihood() == clf.log_evidence_ == clf.log_marginal_likelihood_value_
    value, slope = clf.log_marginal_likelihood(clf.kernel_.theta, eval_gradient=True)
    assert value == pytest.approx(clf.log_evidence_, rel=1e-9)
    assert slope.shape == clf.kernel_.theta.shape
    assert clf.log_marginal_likelihood(clf.kernel_.theta - 0.3) < value


def test_report_prints_as_a_table(moons):
    X, y = moons
    text = str(fixed().fit(X, y).fit_report_)
    assert "ep" in text
    assert "log evidence" in text
    assert "converged" in text
    assert len(text.splitlines()) < 25


def test_far_from_the_data_the_prior_speaks(moons):
    X, y = moons
    proba = fixed().fit(X, y).predict_proba([[1e3, 1e3]])
    np.testing.assert_allclose(proba, 0.5, atol=1e-12)


@pytest.mark.slow
def test_verbose_shows_a_bar_on_stderr(moons, capsys):
    X, y = moons
    GPClassifier(verbose=2, random_state=1).fit(X, y)
    out, err = capsys.readouterr()
    assert out == ""
    assert "maximize" in err


# ---- inputs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_and_names(moons, frame):
    X, y = moons
    data = frame({"east": X[:, 0], "north": X[:, 1]})
    clf = fixed().fit(data, y)
    assert list(clf.feature_names_in_) == ["east", "north"]
    np.testing.assert_allclose(clf.predict_proba(data), fixed().fit(X, y).predict_proba(X))


@pytest.mark.parametrize(
    "labels",
    [np.array(["benign", "malignant"]), np.array([False, True]), np.array([3, 8]), np.array([-1, 1])],
)
def test_labels_of_any_type(moons, labels):
    X, y = moons
    clf = fixed().fit(X, labels[y])
    assert set(clf.predict(X)) <= set(labels)
    np.testing.assert_array_equal(clf.classes_, labels)
    np.testing.assert_allclose(clf.predict_proba(X), fixed().fit(X, y).predict_proba(X))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the (Monte Carlo|chains|fit did not)|only .* effective")
@pytest.mark.parametrize("name", NAMES)
def test_weights_of_two_are_repeated_rows(moons, name):
    X, y = moons
    weights = np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0)
    weights[5] = 0.0
    rows = np.repeat(np.arange(len(y)), weights.astype(int))
    weighted = fixed(name).fit(X, y, sample_weight=weights)
    repeated = fixed(name).fit(X[rows], y[rows])
    a, b = weighted.predict_uncertainty(X), repeated.predict_uncertainty(X)
    mcse = np.nan_to_num(np.hypot(a.mcse, b.mcse))  # zero for what is deterministic
    assert np.all(np.abs(a.proba - b.proba) < 5 * mcse + 1e-4)
    if INFERENCES[name].evidence is not None:
        error = np.hypot(weighted.log_evidence_error_ or 0.0, repeated.log_evidence_error_ or 0.0)
        assert abs(weighted.log_evidence_ - repeated.log_evidence_) < 5 * error + 2e-4


@pytest.mark.filterwarnings("ignore:class_weight counts")
def test_balanced_classes_move_the_probabilities(moons):
    X, y = moons
    keep = np.flatnonzero((y == 0) | (np.arange(len(y)) % 4 == 0))
    X, y = X[keep], y[keep]
    plain, balanced = fixed().fit(X, y), fixed(class_weight="balanced").fit(X, y)
    assert balanced.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.02


def test_free_likelihood_scale_is_learned(moons):
    X, y = moons
    kernel = C(1.0, "fixed") * RBF(0.8, "fixed")
    search = Maximize(tol=1e-12, gradient_tol=1e-6)
    scaled = Probit(scale=1.0, scale_bounds=(0.1, 50))
    free = GPClassifier(kernel, likelihood=scaled, inference="ep", hyperparameters=search).fit(X, y)
    plain = GPClassifier(C(1.0) * RBF(0.8, "fixed"), inference="ep", hyperparameters=search).fit(X, y)
    assert free.likelihood_.scale**2 == pytest.approx(plain.kernel_.k1.constant_value, rel=1e-2)  # s is variance s²
    assert free.log_evidence_ == pytest.approx(plain.log_evidence_, abs=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the Monte Carlo")
def test_map_with_flat_priors_is_maximize(moons):
    X, y = moons
    flat = GPClassifier(KERNEL, hyperparameters="map", priors=Flat(), random_state=0).fit(X, y)
    plain = GPClassifier(KERNEL, random_state=0).fit(X, y)
    np.testing.assert_allclose(flat.kernel_.theta, plain.kernel_.theta)
    pull = {"*length_scale*": LogNormal(np.log(3.0), 0.01)}
    tight = GPClassifier(KERNEL, hyperparameters="map", priors=pull, random_state=0).fit(X, y)
    assert tight.kernel_.k2.length_scale == pytest.approx(3.0, rel=0.05)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the best parameters lie on a bound|the log evidence")
def test_restarts_do_not_depend_on_jobs(moons):
    X, y = moons
    runs = [GPClassifier(KERNEL, inference="laplace", n_restarts=2, n_jobs=k, random_state=3).fit(X, y) for k in (1, 2)]
    np.testing.assert_allclose(runs[0].kernel_.theta, runs[1].kernel_.theta, rtol=1e-9)  # to rounding
    poor = C(1.0) * RBF(1e3, (1e-2, 1e4))  # not where the search begins: length scales start from the data
    one = GPClassifier(poor, inference="laplace").fit(X, y)
    best = GPClassifier(poor, inference="laplace", n_restarts=4, random_state=0).fit(X, y)
    assert one.log_evidence_ == pytest.approx(best.log_evidence_, abs=1e-3)


# ---- warnings ------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:the log evidence")
def test_wild_scales_warn(moons):
    X, y = moons
    with pytest.warns(UserWarning, match="StandardScaler"):
        fixed().fit(X * [1.0, 1e5], y)


def test_nothing_learned_warns(moons):
    X, y = moons
    with pytest.warns(UserWarning, match="learned nothing"):
        fixed(kernel=RBF(1e-6)).fit(X, y)


def test_bounds_hit_are_reported(moons):
    X, y = moons
    with pytest.warns(UserWarning, match="k2__length_scale"):
        clf = GPClassifier(C(2.0) * RBF(0.1, (0.05, 0.2))).fit(X, y)
    assert clf.fit_report_.at_bounds == ("k2__length_scale",)


def test_a_constant_that_vanishes_is_no_reason_to_warn():
    """Labels that a mirror turns round need no constant: it ends at its lower bound, which stands for zero."""
    half = np.linspace(0.1, 3.0, 30)
    X, up = np.concatenate([half, -half])[:, None], np.sin(2.0 * half) + 0.4 * np.sin(37.0 * half) > 0
    y = np.concatenate([up, ~up])
    to_the_end = Maximize(tol=1e-9)  # the last thousandth of a nat
    clf = GPClassifier(C(2.0) * RBF(1.0) + C(0.1, (1e-3, 1e2)), inference="ep", hyperparameters=to_the_end)
    clf.fit(X, y)  # warnings are errors
    assert clf.fit_report_.at_bounds == ("k2__constant_value",)
    with pytest.warns(UserWarning, match="k2__constant_value at its lower one, 1"):
        GPClassifier(C(2.0) * RBF(1.0) + C(2.0, (1.0, 10.0)), inference="ep").fit(X, y)


def test_a_variance_without_end_is_explained():
    X = np.linspace(-3, 3, 40)[:, None]
    kernel = C(1.0, (1e-3, 1e2)) * RBF(2.0, "fixed")
    with pytest.warns(UserWarning, match="k1__constant_value at its upper one, 100.*separable.*'map'"):
        clf = GPClassifier(kernel, inference="ep").fit(X, X[:, 0] > 0)
    assert clf.fit_report_.at_bounds == ("k1__constant_value",)
    problem = clf._problem
    assert "'map'" not in bounds_warning(problem, ("k1__constant_value",), penalised=True)
    base_rate = problem.at(problem.theta)
    base_rate = replace(base_rate, kernel=RBF(2.0, "fixed") + C(1e2, (1e-3, 1e2)))
    assert "separable" not in bounds_warning(base_rate, ("k2__constant_value",), penalised=False)


def test_no_convergence_is_said(moons):
    X, y = moons
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        clf = fixed(EP(max_sweeps=1)).fit(X, y)
    assert not clf.fit_report_.converged
    assert clf.fit_report_.reason


def test_a_good_fit_is_silent():
    X, y = make_moons(60, noise=0.45, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GPClassifier(random_state=0).fit(X, y).predict_proba(X)


# ---- errors --------------------------------------------------------------------------------------------


class Indefinite(RBF):
    """Not a kernel: its matrices have negative eigenvalues."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return -super().__call__(X, Y, eval_gradient)


class Rude(Kernel):
    """A kernel that gives NaN."""

    def __init__(self):
        pass

    def __call__(self, X, Y=None, eval_gradient=False):
        return np.full((len(X), len(X if Y is None else Y)), np.nan)

    def diag(self, X):
        return np.full(len(X), np.nan)

    def is_stationary(self):
        return False


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"inference": "eq"}, "'ep'"),
        ({"inference": 3}, "must be one of"),
        ({"inference": EP}, "configured object"),
        ({"likelihood": "probbit"}, "probit"),
        ({"hyperparameters": "maximise"}, "maximize"),
        ({"tol": -1e-3}, "positive"),
        ({"tol": 0}, "positive"),
        ({"n_restarts": -1}, "at least 0"),
        ({"kernel": "rbf"}, "scikit-learn kernel"),
        ({"kernel": RBF}, "scikit-learn kernel"),
        ({"kernel": RBF([1.0, 1.0, 1.0])}, "2 columns"),
        ({"kernel": Indefinite()}, "positive definite"),
        ({"kernel": Rude()}, "NaN"),
        ({"random_state": "seed"}, "random_state"),
        ({"hyperparameters": "map", "priors": {"lenght": Flat()}}, "lenght"),
        ({"hyperparameters": "map", "priors": 3.0}, "priors"),
    ],
)
def test_bad_settings(moons, change, match):
    X, y = moons
    with pytest.raises(ValueError, match=match):
        fixed(**change).fit(X, y)


@pytest.mark.parametrize(
    ("X", "y", "match"),
    [
        ([[0.0, np.nan], [1.0, 2.0]], [0, 1], "NaN"),
        ([[0.0, np.inf], [1.0, 2.0]], [0, 1], "infinity"),
        ([[0.0, 1.0], [1.0, 2.0]], [1, 1], "class"),
        ([[0.0, 1.0], [1.0, 2.0]], [0, 1, 1], "inconsistent numbers"),
        (np.empty((0, 2)), [], "0 sample"),
        ([[0.0], [1.0], [2.0]], [0.1, 0.2, 0.3], "continuous"),
    ],
)
def test_bad_data(X, y, match):
    with pytest.raises(ValueError, match=match):
        GPClassifier().fit(X, y)


def test_bad_data_leaves_a_fitted_model_alone(moons):
    X, y = moons
    clf = fixed().fit(X, y)
    before = clf.predict_proba(X)
    with pytest.raises(ValueError, match="class"):
        clf.fit(X, np.zeros(len(X)))
    np.testing.assert_array_equal(clf.predict_proba(X), before)


def test_wrong_number_of_columns(moons):
    X, y = moons
    clf = fixed().fit(X, y)
    with pytest.raises(ValueError, match="3 features"):
        clf.predict(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="level"):
        clf.predict_uncertainty(X, level=90)
    with pytest.raises(ValueError, match="n_samples"):
        clf.sample_latent(X, 0)
    with pytest.raises(ValueError, match="parameters"):
        clf.log_marginal_likelihood([0.0])


def test_weights_that_leave_one_class(moons):
    X, y = moons
    with pytest.raises(ValueError, match="weight zero"):
        fixed().fit(X, y, sample_weight=(y == 0).astype(float))


def test_not_fitted():
    with pytest.raises(NotFittedError):
        GPClassifier().predict([[0.0]])


def test_too_large_for_memory(moons, monkeypatch):
    X, y = moons
    monkeypatch.setattr(checks, "available_memory", lambda: 1e5)
    with pytest.raises(ValueError, match="GiB"):
        fixed().fit(X, y)


@pytest.mark.filterwarnings("ignore:the log evidence")
def test_memory_of_an_orthant_of_many_classes(monkeypatch):
    """300 rows of 20 classes are an orthant of 5700 coordinates: 2.9 GB measured, not the 115 MB of n × n."""
    X, y = np.random.default_rng(0).standard_normal((300, 2)), np.arange(300) % 20
    monkeypatch.setattr(checks, "available_memory", lambda: 2.7e9)
    for name in ("exact", "gpc-mc"):
        with pytest.raises(ValueError, match=r"[23]\.\d GiB"):
            fixed(inference=name).fit(X, y)
    assert fixed(inference="laplace").fit(X[:60], y[:60]).classes_.size == 20  # no orthant: it fits


@pytest.mark.parametrize("n_inducing", [None, 5])
def test_copies_of_noisy_rows_are_counted_before_they_are_made(n_inducing):
    """Whole weights under a WhiteKernel are rows: 4e10 of them must be refused, not made."""
    X, y = np.arange(40.0)[:, None], np.arange(40) % 2
    clf = GPClassifier(
        RBF() + WhiteKernel(), inference="ep", hyperparameters="fixed", n_inducing=n_inducing
    )  # fmt: skip
    tracemalloc.start()
    with pytest.raises(ValueError, match="GiB"):
        clf.fit(X, y, sample_weight=np.full(40, 1e9))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e8


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_every_copy_of_a_noisy_row_has_its_own_noise(inference):
    """A weight is whole copies and a rest, each with its own noise, under every inference; continuous in the weight."""
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((25, 2)), rng.uniform(0.2, 3.0, 25)
    y = X[:, 0] + 0.5 * rng.standard_normal(25) > 0

    def log_z(weights, name=inference):
        return fixed(name, kernel=4 * RBF(0.8) + WhiteKernel(0.5)).fit(X, y, weights).log_evidence_

    off = {"laplace": 0.8, "ep": 0.1}[inference]  # of the approximation itself
    assert abs(log_z(w, "exact") - log_z(w)) < off
    ones = np.ones(25)
    assert log_z(ones + 1e-6) == pytest.approx(log_z(ones), abs=1e-4)
    assert log_z(2 * ones - 1e-6) == pytest.approx(log_z(2 * ones), abs=1e-4)


# ---- invariances ---------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=15)
@given(
    seed=st.integers(0, 10_000),
    pair=st.sampled_from([*DETERMINISTIC, ("exact", "probit"), ("exact", "logit")]),
)
def test_invariances(seed, pair):
    """Label flip, row permutation, a constant feature, and the scale of X with the length scale."""
    name, likelihood = pair
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((20, 2))
    y = (X[:, 0] + rng.standard_normal(20) > 0).astype(int)
    y[:2] = [0, 1]
    base = fit_quietly(X, y, name, likelihood)
    new = np.column_stack([X, np.full(20, 7.0)])
    order = rng.permutation(20)
    agree(base, X, fit_quietly(X, 1 - y, name, likelihood), X, flip=True)
    agree(base, X, fit_quietly(X[order], y[order], name, likelihood), X)
    agree(base, X, fit_quietly(new, y, name, likelihood), new)
    agree(base, X, fit_quietly(100 * X, y, name, likelihood, kernel=2.0 * RBF(80.0)), 100 * X)


def fit_quietly(X, y, name, likelihood, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # random labels: there may be nothing to learn
        return fixed(name, likelihood=likelihood, tol=5e-3, **settings).fit(X, y)


def agree(a, X_a, b, X_b, flip=False):
    """Equal to rounding for deterministic methods, within six standard errors for Monte Carlo ones."""
    error = np.hypot(a.log_evidence_error_ or 0.0, b.log_evidence_error_ or 0.0)
    assert abs(a.log_evidence_ - b.log_evidence_) < 6 * error + 1e-5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p, q = a.predict_uncertainty(X_a), b.predict_uncertainty(X_b)
    mcse = np.nan_to_num(np.hypot(p.mcse, q.mcse))
    assert np.all(np.abs(p.proba - (q.proba[:, ::-1] if flip else q.proba)) < 6 * mcse + 1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the Monte Carlo")
@pytest.mark.parametrize(("name", "likelihood"), PAIRS)
def test_hard_problems_stay_finite(name, likelihood):
    """Duplicates, separable classes, a huge variance, conflicting labels at one place."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((15, 2)), 2, axis=0)
    y = (X[:, 0] > 0).astype(int)
    y[:2] = [0, 1]
    method = name if name == "exact" else short(name)  # the others are asked for no accuracy
    for kernel in (1e4 * RBF(1.0), 1.0 * RBF(1e3), 1e-4 * RBF(1.0), RBF(1.0) + WhiteKernel(1e-8)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf = fixed(method, likelihood=likelihood, kernel=kernel, tol=2e-2).fit(X, y)
        # Chains may honestly say that they have not mixed.
        assert clf.fit_report_.converged or "R-hat" in clf.fit_report_.reason, clf.fit_report_
        assert INFERENCES[name].evidence is None or np.isfinite(clf.log_evidence_)
        log_proba = clf.predict_log_proba(X[::2])  # every place once
        assert np.all(np.isfinite(log_proba))
        np.testing.assert_allclose(np.exp(log_proba[0, 1]), 0.5, atol=0.35)


def test_tail_probabilities_are_right_in_logs():
    """A confident point: log p of the other class is finite and right (single Gaussian, closed form)."""
    from scipy.special import log_ndtr

    X = np.linspace(-3, 3, 40)[:, None]
    y = (X[:, 0] > 0).astype(int)
    clf = fixed("laplace", kernel=400.0 * RBF(2.0)).fit(X, y)
    spread = clf.predict_uncertainty(X)
    z = spread.latent_mean[:, 0] / np.sqrt(1 + spread.latent_sd[:, 0] ** 2)
    np.testing.assert_allclose(clf.predict_log_proba(X)[:, 0], log_ndtr(-z), rtol=1e-6)
    np.testing.assert_allclose(clf.predict_log_proba(X)[:, 1], log_ndtr(z), rtol=1e-6)


def test_configured_objects_serve_as_names(moons):
    X, y = moons
    np.testing.assert_allclose(
        fixed(Laplace(max_iter=100)).fit(X, y).predict_proba(X), fixed("laplace").fit(X, y).predict_proba(X)
    )


def test_more_classes_than_an_inference_takes():
    for row in INFERENCES.values():
        clf = GPClassifier(inference=row.default, hyperparameters="fixed")
        if row.default.only_two:
            with pytest.raises(ValueError, match=r"Only binary classification .* takes two"):
                clf.fit([[0.0], [1.0], [2.0]], ["a", "b", "c"])
    two = {name for name, row in INFERENCES.items() if row.default.only_two}
    assert two == {"control-variables", "amp", "dsgq", "local-exact"}


def test_a_failed_fit_keeps_the_columns_too(moons):
    X, y = moons
    clf = fixed().fit(X, y)
    with pytest.raises(ValueError, match="class"):
        clf.fit(np.column_stack([X, X]), np.zeros(len(X)))
    assert clf.n_features_in_ == 2
    assert clf.predict(X).shape == (60,)


def test_white_noise_makes_rows_of_whole_weights(moons):
    """Each of two rows at one place has noise of its own, and so has each copy of a weighted row."""
    X, y = moons
    kernel = 2.0 * RBF(0.8) + WhiteKernel(3.0)
    for name in ("ep", "laplace"):
        weighted = fixed(name, kernel=kernel).fit(X, y, sample_weight=np.full(60, 2.0))
        repeated = fixed(name, kernel=kernel).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
        assert weighted.log_evidence_ == pytest.approx(repeated.log_evidence_, abs=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the Monte Carlo")
def test_restarts_climb_with_the_guide(moons):
    """The default fit with restarts costs a few EP climbs, and no climb on the noisy evidence."""
    X, y = moons
    clf = GPClassifier(KERNEL, n_restarts=1, random_state=0).fit(X, y)
    assert clf.evidence_kind_ == "unbiased"
    assert clf.log_evidence_ >= GPClassifier(KERNEL, random_state=0).fit(X, y).log_evidence_ - 0.1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "likelihood"), PAIRS)
def test_latent_draws_at_the_training_points(moons, name, likelihood):
    X, y = moons
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = fixed(name, likelihood=likelihood, tol=1e-2).fit(X, y)
    assert np.all(np.isfinite(clf.sample_latent(np.vstack([X, X[:3]]), 2, random_state=0)))


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: EP(block=0), "block"),
        (lambda: EP(tol=-1.0), "tol"),
        (lambda: Laplace(max_iter=0), "max_iter"),
        (lambda: Exact(n_samples=2.5), "n_samples"),
        (lambda: Exact(max_samples=-1), "max_samples"),
        (lambda: GPCMC(runs=0), "runs"),
        (lambda: Maximize(gradient_tol=0.0), "gradient_tol"),
    ],
)
def test_bad_settings_of_a_method(make, match):
    with pytest.raises(ValueError, match=match):
        make()


def test_weights_and_kernels_that_are_none(moons):
    X, y = moons
    with pytest.raises(ValueError, match="finite"):
        fixed(class_weight={0: np.inf, 1: 1.0}).fit(X, y)
    with pytest.raises(ValueError, match="one kernel"):
        fixed(kernel=[RBF(1.0), RBF(2.0)]).fit(X, y)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the best parameters lie on a bound")
@pytest.mark.parametrize("settings", [{}, {"n_inducing": 10}], ids=["dense", "sparse"])
def test_a_fitted_model_does_not_change_with_the_users_arrays(settings):
    X, y = make_moons(60, noise=0.3, random_state=0)
    places, weights = X[:5].copy(), np.full(60, 2.0)
    clf = GPClassifier(inference="ep", random_state=0, **settings).fit(X, y, sample_weight=weights)
    before = clf.predict_proba(places)
    X[:], y[:], weights[:] = 5.0, 0, 9.0
    np.testing.assert_array_equal(clf.predict_proba(places), before)
