"""What works for two classes works for three: every inference and strategy of the registry that takes many."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF

from gpclass import GPClassifier, compare, load_model
from gpclass.compare.presets import WithKernelOf, default_methods
from gpclass.hyper import CrossValidation
from gpclass.latent.dense import Dense
from gpclass.registry import INFERENCES, STRATEGIES, choose_likelihood
from gpclass.report import render_report
from tests.estimators.test_many import MANY
from tests.short import short

BRIEF = {"cv": CrossValidation(n_points=2, folds=2)}
KERNELS = {"shared": 2.0 * RBF(1.0), "own": [2.0 * RBF(1.0), 1.0 * RBF(0.7), 1.5 * RBF(1.5)]}

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def rocks():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((36, 2))
    y = np.array(["basalt", "granite", "slate"])[np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.5, 0.4])]
    return pd.DataFrame(X, columns=["east", "north"]), y


def estimator(name, kernel=None, **settings):
    usual = {"hyperparameters": "fixed", "random_state": 0, "tol": 0.02}
    return GPClassifier(KERNELS["shared"] if kernel is None else kernel, inference=short(name), **(usual | settings))


@pytest.mark.slow
@pytest.mark.parametrize("kernel", list(KERNELS))
@pytest.mark.parametrize("name", MANY)
def test_decisions_plans_files_and_reports_of_every_inference(rocks, name, kernel, tmp_path):
    X, y = rocks
    clf, new = estimator(name, KERNELS[kernel]).fit(X, y), X.iloc[:12]
    cost = 1.0 - np.eye(3)
    decision = clf.decide(new, cost, reject=0.3)
    sure = decision.action != "reject"
    assert 0 < sure.mean() <= 1
    proba = clf.predict_proba(new)
    np.testing.assert_array_equal(decision.action[sure], clf.predict(new)[sure])
    assert np.all(proba.max(axis=1)[~sure] <= 0.7 + 1e-12)
    back = load_model(clf.save(tmp_path / "m.gpclass"))
    np.testing.assert_array_equal(back.predict_proba(new), proba)
    np.testing.assert_array_equal(
        back.sample_latent(X[:3], 4, random_state=1), clf.sample_latent(X[:3], 4, random_state=1)
    )
    text = str(clf.fit_report_)
    assert "n classes" in text
    assert "memory" in text
    assert choose_likelihood("auto", INFERENCES[name].default, 3, Dense).name in text
    assert ("2: 1.22**2 * RBF(length_scale=1.5)" in text) == (kernel == "own")
    if kernel == "shared" or name == "laplace":  # most of this test's time
        plan = clf.plan(X, y, budget=0.05)
        assert plan.seconds > 0
        assert plan.memory > 0


@pytest.mark.slow
@pytest.mark.usefixtures("brief_chains")
@pytest.mark.parametrize("kernel", list(KERNELS))
@pytest.mark.parametrize("name", list(STRATEGIES))
def test_every_strategy_takes_many_classes(rocks, name, kernel, tmp_path):
    X, y = rocks
    brief = BRIEF.get(name) or STRATEGIES[name].brief
    clf = estimator("laplace", KERNELS[kernel], hyperparameters=brief)
    clf.fit(X, y)
    proba = clf.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-6)
    assert clf.score(X, y) > 0.7
    assert len(clf.theta_) == (6 if kernel == "own" else 2)
    back = load_model(clf.save(tmp_path / "m.gpclass"))
    np.testing.assert_array_equal(back.predict_proba(X), proba)


@pytest.mark.slow
@pytest.mark.parametrize("name", MANY)
def test_cross_validation_chooses_for_every_inference(rocks, name):
    X, y = rocks
    search = CrossValidation(grid={"k2__length_scale": [0.05, 1.0]}, folds=2)
    clf = estimator(name, hyperparameters=search).fit(X, y)
    assert clf.kernel_.k2.length_scale == pytest.approx(1.0)


@pytest.mark.slow
def test_compare_and_its_page(rocks, coarse_maps):
    X, y = rocks
    names = ["exact", "laplace", "hmc"]  # draws, a Gaussian, chains
    page = render_report(compare(X, y, {name: estimator(name) for name in names}, cv=2, reference="exact"))
    for name in (*names, "basalt", "granite", "slate"):
        assert name in page
    assert "could not be fitted" not in page


@pytest.mark.slow
def test_samplers_take_the_kernel_of_their_own_link(rocks):
    """Softmax has no EP: the kernel of a sampler comes from Laplace there, from EP for two classes."""
    X, y = rocks
    clf = default_methods(["elliptical-slice"])["elliptical-slice"]
    assert isinstance(clf[-1], WithKernelOf)
    clf[-1].set_params(classifier=estimator("elliptical-slice"))
    assert clf.fit(X, y)[-1].guide_.likelihood_.name == "softmax"
    assert clf.fit(X, y == "slate")[-1].guide_.likelihood_.name == "probit"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["laplace", "importance", "exact"])
def test_command_line(rocks, name, tmp_path, monkeypatch, capsys):
    from gpclass.cli.app import run

    monkeypatch.chdir(tmp_path)
    X, y = rocks
    X.assign(rock=y).to_csv("data.csv", index=False)
    X.iloc[:4].to_csv("new.csv", index=False)
    words = ["fit", "data.csv", "-t", "rock", "-m", name, "--tol", "0.05", "-o", "m.gpclass"]
    words += ["--likelihood", choose_likelihood("auto", INFERENCES[name].default, 3, Dense).name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(words) in (0, 3), capsys.readouterr().err
        assert run(["predict", "m.gpclass", "new.csv", "--json"]) == 0
    out = capsys.readouterr().out
    rows = json.loads(out[out.index('{\n  "') if '{\n  "' in out else out.index("{") :])["predictions"]
    assert len(rows) == 4
    for row in rows:
        assert sum(row[f"p_{c}"] for c in ("basalt", "granite", "slate")) == pytest.approx(1.0, abs=1e-5)
