"""The worked examples of CONTRIBUTING run as printed, with their rows in the registry."""

import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from gpclass import GPClassifier, load_model
from gpclass.latent.dense import Dense
from gpclass.latent.low_rank import LowRank
from gpclass.likelihoods import LIKELIHOODS, Probit
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
    monkeypatch.setitem(FORMS, "tapered", PRIOR.Tapered)
    monkeypatch.setitem(LIKELIHOODS, "lapse", LIKELIHOOD.Lapse)


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


@pytest.mark.filterwarnings("ignore:the log evidence")  # a density of ±1, no probability of labels
def test_the_inference_by_name_with_every_strategy_that_takes_it(rows, registered, tmp_path):
    X, y = rows
    running = [c for c in cells() if c.inference == "least-squares" and c.runs]
    assert {c.strategy for c in running} >= {"fixed", "maximize", "map", "em", "cv", "hmc"}
    assert {c.form for c in running} == {"dense", "inducing", "tapered"}
    clf = GPClassifier(KERNEL, inference="least-squares", random_state=0).fit(X, y)
    assert clf.score(X, y) > 0.8
    clf.save(tmp_path / "model.gpclass")
    assert np.array_equal(load_model(tmp_path / "model.gpclass").predict_proba(X), clf.predict_proba(X))
    with pytest.raises(ValueError, match="takes two"):
        GPClassifier(inference="least-squares").fit(X, np.arange(40) % 3)


# ---- the prior -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["laplace", "ep", "exact", "elliptical-slice"])
@pytest.mark.filterwarnings("ignore::UserWarning")  # short chains
def test_the_prior_agrees_with_a_plain_sum(inference):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(5, 2)), np.array([1.0, -1.0, 1.0, 1.0, -1.0])
    problem = Problem.of(X, y, KERNEL, Probit(), form=PRIOR.Tapered(reach=2.0))
    log_z, error, proba, own = oracle(problem, NEW)
    posterior = INFERENCES[inference].default(problem)
    found = predict_proba(posterior.latent(NEW), problem.likelihood)
    mcse = np.where(np.isnan(found.mcse), 0.0, found.mcse)
    leaves = {"laplace": 0.08, "ep": 0.01}.get(inference, 0.0)
    assert np.all(np.abs(found.proba - proba) < leaves + 5 * np.hypot(mcse, own) + 1e-3)
    dense, _, plain, _ = oracle(Problem.of(X, y, KERNEL, Probit()), NEW)
    assert abs(dense - log_z) > 5 * error or np.abs(plain - proba).max() > 0.01  # the taper is there


def test_the_prior_is_a_column_of_the_matrix(registered):
    same = [c for c in cells() if c.form == "tapered"]
    dense = {(c.inference, c.strategy, c.classes): c.runs for c in cells() if c.form == "dense"}
    assert same
    assert all(c.runs == dense[c.inference, c.strategy, c.classes] for c in same)


def test_the_prior_has_its_gradient(rows):
    X, index = rows
    problem = Problem.of(X, np.where(index > 0, 1.0, -1.0), KERNEL, Probit(), form=PRIOR.Tapered(reach=2.0))
    inference = INFERENCES["ep"].default
    slope = inference(problem, gradient=True).evidence.gradient
    for k in range(len(slope)):
        up, down = (problem.theta + s * 1e-4 * np.eye(len(slope))[k] for s in (1, -1))
        rise = inference(problem.at(up)).evidence.log_z - inference(problem.at(down)).evidence.log_z
        assert slope[k] == pytest.approx(rise / 2e-4, rel=1e-3, abs=1e-5)


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


def test_the_likelihood_by_name(rows, registered):
    X, y = rows
    clf = GPClassifier(KERNEL, inference="ep", likelihood="lapse", hyperparameters="fixed").fit(X, y)
    assert clf.likelihood_.name == "lapse"
    with pytest.raises(ValueError, match="does not support"):
        GPClassifier(KERNEL, inference="laplace", likelihood="lapse").fit(X, y)
    assert not cell(INFERENCES["gpc-mc"].default, STRATEGIES["fixed"].default, Dense, "many").reason
