"""The worked examples of CONTRIBUTING run as printed, with their rows in the registry."""

import re
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from gpclass import GPClassifier, load_model
from gpclass.latent.dense import Dense
from gpclass.latent.low_rank import LowRank
from gpclass.likelihoods import LIKELIHOODS, Logit, MultinomialProbit, Probit, Softmax
from gpclass.model.problem import Problem
from gpclass.predict import predict_proba
from gpclass.registry import FORMS, INFERENCES, STRATEGIES, Method, cell, cells
from tests.registry.test_conformance import NEW, oracle

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(r"^```python\n(.*?)^```", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE | re.DOTALL)
KERNEL = ConstantKernel(1.5, (0.3, 5.0)) * RBF(1.2, (0.4, 4.0))


def module(number, name):
    """A block as the module that it says it is."""
    made = types.ModuleType(f"worked_{name}")
    sys.modules[made.__name__] = made
    exec(compile(BLOCKS[number], f"CONTRIBUTING block {number}", "exec"), vars(made))
    return made


INFERENCE, PRIOR, LIKELIHOOD = module(0, "inference"), module(1, "prior"), module(2, "likelihood")


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    return X, (X[:, 0] + 0.4 * rng.normal(size=40) > 0).astype(int)


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setitem(INFERENCES, "least-squares", Method(**INFERENCE.ROW))
    monkeypatch.setitem(FORMS, "patches", PRIOR.Patches)
    monkeypatch.setitem(LIKELIHOODS, "lapse", LIKELIHOOD.Lapse)


def assert_saved(clf, X, folder):
    """The model, its settings as objects included, is written and read."""
    clf.save(folder / "model.gpclass")
    again = load_model(folder / "model.gpclass")
    assert repr(again) == repr(clf)
    assert repr(again.posterior_.problem.form) == repr(clf.posterior_.problem.form)
    assert np.array_equal(again.predict_proba(X), clf.predict_proba(X))


def test_there_are_three():
    assert len(BLOCKS) == 3


# ---- the inference ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [Dense(), LowRank(Z=np.array([[-1.0, 0.0], [0.0, 0.5], [1.0, 0.0]]))])
def test_the_inference_has_the_closed_form(rows, form):
    X, index = rows
    y = np.where(index > 0, 1.0, -1.0)
    problem = Problem.of(X, y, KERNEL, Probit(), form=form)
    V, rest = (part[0] for part in (problem.prior.features(X).V, problem.prior.features(X).rest))
    K = V.T @ V + np.diag(rest) + 0.2 * np.eye(len(y))
    truth = -0.5 * y @ np.linalg.solve(K, y) - 0.5 * np.linalg.slogdet(2 * np.pi * K)[1]
    inference = INFERENCE.LeastSquares(noise=0.2)
    found = inference(problem, gradient=True).evidence
    assert found.log_z == pytest.approx(truth, abs=1e-6)
    step = 1e-5
    for k, slope in enumerate(found.gradient):
        up, down = (problem.theta + s * step * np.eye(len(problem.theta))[k] for s in (1, -1))
        rise = inference(problem.at(up)).evidence.log_z - inference(problem.at(down)).evidence.log_z
        assert slope == pytest.approx(rise / (2 * step), rel=1e-4, abs=1e-5)


@pytest.mark.filterwarnings("ignore:the log evidence")  # a density of ±1, which is not comparable
def test_the_inference_by_name(rows, registered, tmp_path):
    X, y = rows
    running = [c for c in cells() if c.inference == "least-squares" and c.runs]
    assert {c.strategy for c in running} >= {
        "fixed",
        "maximize",
        "map",
        "em",
        "cv",
        "hmc",
        "pseudo-marginal",
        "alternate",
    }
    assert {c.form for c in running} == {"dense", "inducing", "local", "neighbours", "patches"}
    clf = GPClassifier(KERNEL, inference="least-squares", random_state=0).fit(X, y)
    assert_saved(clf, X, tmp_path)
    with pytest.raises(ValueError, match="takes two"):
        GPClassifier(inference="least-squares").fit(X, np.arange(40) % 3)


# ---- the prior -------------------------------------------------------------------------------------------------


def patches_of(X):
    return PRIOR.Patches(centres=np.array([[-1.0, 0.0], [0.5, 1.0], [0.5, -1.0]]))


@pytest.mark.parametrize("likelihood", [Probit(), Logit(), MultinomialProbit(), Softmax()], ids=lambda one: one.name)
@pytest.mark.parametrize("inference", ["laplace", "ep", "variational", "amp"])
def test_the_prior_is_one_dense_model_per_patch(rows, inference, likelihood):
    """Evidence, gradient and predictions are those of separate problems, each on the rows of a patch."""
    X, index = rows
    settings = INFERENCES[inference].default
    if settings.way(type(likelihood), PRIOR.Patches.offers) is None or (settings.only_two and likelihood.many):
        pytest.skip("the likelihood does not offer what the inference needs")
    classes = 3 if likelihood.many else 2
    y = likelihood.encode(np.where(X[:, 1] > 0.5, 2, index) if likelihood.many else index)
    form = patches_of(X)
    problem = Problem.of(X, y, KERNEL, likelihood, None, classes, form)
    found = settings(problem, gradient=True)
    nearest = np.argmin(((X[:, None] - form.centres) ** 2).sum(axis=2), axis=1)
    there = np.argmin(((NEW[:, None] - form.centres) ** 2).sum(axis=2), axis=1)
    log_z, slope, proba = 0.0, 0.0, np.empty((len(NEW), classes))
    for c in range(3):
        mine = nearest == c
        alone = settings(Problem.of(X[mine], y[mine], KERNEL, likelihood, None, classes), gradient=True)
        log_z, slope = log_z + alone.evidence.log_z, slope + alone.evidence.gradient
        if np.any(there == c):
            proba[there == c] = predict_proba(alone.latent(NEW[there == c]), likelihood).proba
    assert found.evidence.log_z == pytest.approx(log_z, abs=1e-6)
    np.testing.assert_allclose(found.evidence.gradient, slope, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(predict_proba(found.latent(NEW), likelihood).proba, proba, atol=1e-5)
    dense = settings(Problem.of(X, y, KERNEL, likelihood, None, classes))
    assert abs(dense.evidence.log_z - log_z) > 1e-2  # the patches are there


@pytest.mark.filterwarnings("ignore:the best parameters lie on a bound")
def test_the_prior_by_name_and_as_an_object(rows, registered, tmp_path):
    X, y = rows
    by_name = GPClassifier(KERNEL, inference="ep", hyperparameters="map", latent_prior="patches", random_state=0).fit(
        X, y
    )
    assert by_name.posterior_.problem.form.centres.shape == (4, 2)
    assert_saved(by_name, X, tmp_path)
    clf = GPClassifier(KERNEL, inference="ep", hyperparameters="fixed", latent_prior=patches_of(X)).fit(X, y)
    draws = clf.sample_latent(NEW, 4000, random_state=0)
    latent = clf.posterior_.latent(NEW)
    np.testing.assert_allclose(draws.mean(axis=0), latent.mean()[:, 0], atol=0.1)
    with pytest.raises(ValueError, match="does not run with the prior 'patches'"):
        GPClassifier(KERNEL, latent_prior="patches").fit(X, y)
    with pytest.raises(ValueError, match="leave one out"):
        GPClassifier(KERNEL, latent_prior="patches", n_inducing=3).fit(X, y)
    with pytest.raises(ValueError, match="patches"):
        GPClassifier(KERNEL, latent_prior="patch").fit(X, y)


# ---- the likelihood --------------------------------------------------------------------------------------------


def test_the_likelihood_offers_what_it_implements():
    assert LIKELIHOOD.Lapse.offers() == {"log", "slope", "match", "smear"}


@pytest.mark.parametrize("inference", ["ep", "exact", "importance", "elliptical-slice"])
@pytest.mark.parametrize("form", [Dense(), LowRank(Z=np.array([[-1.0, 0.0], [0.5, 0.5]]))], ids=["dense", "inducing"])
@pytest.mark.filterwarnings("ignore::UserWarning")  # short chains
def test_the_likelihood_agrees_with_a_plain_sum(inference, form):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(5, 2)), np.array([1.0, -1.0, 1.0, 1.0, -1.0])
    problem = Problem.of(X, y, KERNEL, LIKELIHOOD.Lapse(epsilon=0.1), form=form)
    log_z, error, proba, own = oracle(problem, NEW)
    posterior = INFERENCES[inference].default(problem)
    found = predict_proba(posterior.latent(NEW), problem.likelihood)
    mcse = np.where(np.isnan(found.mcse), 0.0, found.mcse)
    leaves = 0.02 if inference == "ep" else 0.0
    assert np.all(np.abs(found.proba - proba) < leaves + 5 * np.hypot(mcse, own) + 1e-3)
    if posterior.evidence is not None:
        assert (
            abs(posterior.evidence.log_z - log_z)
            < 3 * leaves + 5 * np.hypot(posterior.evidence.error or 0, error) + 2e-3
        )


def test_the_likelihood_by_name(rows, registered, tmp_path):
    X, y = rows
    clf = GPClassifier(KERNEL, inference="ep", likelihood="lapse", hyperparameters="fixed").fit(X, y)
    assert clf.likelihood_.name == "lapse"
    assert_saved(clf, X, tmp_path)
    with pytest.raises(ValueError, match="does not support"):
        GPClassifier(KERNEL, inference="laplace", likelihood="lapse").fit(X, y)
    assert not cell(INFERENCES["gpc-mc"].default, STRATEGIES["fixed"].default, Dense, "many").reason


# ---- every cell that says yes ----------------------------------------------------------------------------------


def yes_cells():
    """The cells that the examples add to the matrix."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(INFERENCES, "least-squares", Method(**INFERENCE.ROW))
        patched.setitem(FORMS, "patches", PRIOR.Patches)
        patched.setitem(LIKELIHOODS, "lapse", LIKELIHOOD.Lapse)
        own = [c for c in cells() if c.runs and (c.inference == "least-squares" or c.form == "patches")]
        lapse = [c for c in cells() if c.runs and c.classes == "two" and takes_lapse(c)]
    return own + [replace(c, likelihood="lapse") for c in lapse if c not in own]


def takes_lapse(c):
    inference = INFERENCES[c.inference].default
    way = inference.way(LIKELIHOOD.Lapse, FORMS[c.form].offers)
    return way is not None and inference.own_likelihood is None


@pytest.mark.slow
@pytest.mark.usefixtures("brief_chains")
@pytest.mark.filterwarnings("ignore")  # brief chains and ascents say that they are brief
@pytest.mark.parametrize(
    "c", yes_cells(), ids=lambda c: "-".join((c.likelihood, c.inference, c.strategy, c.form, c.classes))
)
def test_every_cell_of_the_examples_runs(rows, registered, c):
    X, y = rows
    y = np.where(X[:, 1] > 0.5, 2, y) if c.classes == "many" else y
    form = patches_of(X) if c.form == "patches" else FORMS[c.form].example(X)
    clf = GPClassifier(
        KERNEL,
        likelihood=c.likelihood,
        inference=INFERENCES[c.inference].brief,
        hyperparameters=STRATEGIES[c.strategy].brief,
        latent_prior=form,
        random_state=0,
    ).fit(X[:24], y[:24])
    proba = clf.predict_proba(X)
    assert clf.likelihood_.name == c.likelihood
    assert type(clf.posterior_.problem.form) is FORMS[c.form]
    assert np.allclose(proba.sum(axis=1), 1.0, atol=1e-6)
    assert np.mean(clf.classes_[proba.argmax(axis=1)] == y) > 0.5
