"""The experiments with many classes: Cho et al. and forensic glass, small, with cheap classifiers."""

import numpy as np
import pytest
from papers.cho2015 import __main__ as cho
from papers.cho2015 import iris, synthetic
from papers.cho2015.methods import methods
from papers.common import Setting, Table
from papers.williams1998 import __main__ as williams
from papers.williams1998 import comparators, glass, neal, two_classes
from papers.williams1998.comparators import MixtureDiscriminant
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier


def cheap(*_, **__):
    return {
        "softmax, kernel fixed": make_pipeline(
            StandardScaler(), GPClassifier(inference="laplace", hyperparameters="fixed")
        ),
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
    }


def test_methods_of_the_comparison():
    found = methods(3)
    own = next(iter(found.values()))[-1]
    assert own.hyperparameters == "em"
    assert len(own.kernel) == 3  # the paper's: a kernel a class
    names = " ".join(found)
    for part in ("VB-EM", "ML-II", "one against the rest", "exact"):
        assert part in names


@pytest.mark.slow
def test_iris_and_its_confusion_matrix(monkeypatch, tmp_path):
    monkeypatch.setattr(iris, "methods", cheap)
    section = iris.run(Setting(repeats=3))
    table, confusion = section.tables
    assert table.rows[-1][1] == iris.PUBLISHED
    ours = np.array([row[1:] for row in confusion.rows[::2]], dtype=float)
    np.testing.assert_allclose(ours.sum(axis=1), 1.0)
    printed = np.array([row[1:] for row in confusion.rows[1::2]], dtype=float)
    np.testing.assert_allclose(printed.sum(axis=1), 1.0, atol=0.02)
    assert table.rows[0][1] > 0.9
    assert section.save(tmp_path)


@pytest.mark.slow
def test_four_gaussians_with_map_and_wrong_points(monkeypatch, tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.setattr(synthetic, "methods", cheap)
    monkeypatch.setattr(synthetic, "SIDE", 20)
    section = synthetic.run(Setting(repeats=1))
    rows = {row[0]: row[1] for row in section.tables[0].rows}
    assert rows["Bayes' rule"] == pytest.approx(synthetic.BAYES, abs=0.05)
    assert rows["softmax, kernel fixed"] < 0.2
    assert any("cho2015_regions.png" in note for note in section.notes)
    written = section.save(tmp_path)
    assert any(path.name == "regions.png" for path in written)


def test_glass_has_every_row(monkeypatch):
    names = " ".join(glass.methods(9, 6, Setting()))
    for part in ("MAP", "HMC", "Neal", "EP", "one against the rest", "linear discriminant", "neural network"):
        assert part in names
    monkeypatch.setattr(glass, "methods", cheap)
    data = type("Data", (), {})()
    rng = np.random.default_rng(0)
    data.y = np.repeat(["a", "b", "c"], 20)
    data.X = rng.standard_normal((60, 3)) + 2.0 * np.arange(60)[:, None] // 20
    monkeypatch.setattr(glass, "load", lambda name: data)
    monkeypatch.setattr(glass, "cell", lambda paper, name, settings, measure: measure())
    section = glass.run(Setting())
    assert section.tables[0].rows[-1][1] == glass.LITERATURE
    assert section.tables[0].rows[0][1] < 0.2


def test_both_are_on_the_command_line():
    assert set(cho.EXPERIMENTS) == {"synthetic", "iris", "em"}
    assert "glass" in williams.EXPERIMENTS


def test_one_mixture_component_per_class_is_the_quadratic_discriminant(monkeypatch):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(2, 0.5, (100, 2))])
    y = np.repeat(["a", "b"], [200, 100])
    monkeypatch.setattr(comparators, "WEAK", 1e-9)
    ours, sure = MixtureDiscriminant(1).fit(X, y), QuadraticDiscriminantAnalysis().fit(X, y)
    new = rng.normal(1, 1, (50, 2))
    np.testing.assert_allclose(ours.predict_proba(new), sure.predict_proba(new), atol=0.02)  # of unbiased variances
    assert np.mean(ours.predict(new) == sure.predict(new)) > 0.9


def test_neals_own_chains_and_the_interwoven_ones():
    own, woven = neal.chains(Setting(), 3).values()
    assert (own.inference, own.hyperparameters.given, own.hyperparameters.move) == ("gibbs", "f", "hmc")
    assert woven.hyperparameters.given == "both"
    assert own.hyperparameters.draws == woven.hyperparameters.draws  # of the same length
    assert own.priors["*length_scale*"].power == -2.0  # relevances
    assert {clf.likelihood for clf in neal.chains(Setting(), 3, many=True).values()} == {"softmax"}


def test_errors_on_pima_are_judged_by_binomial_errors():
    rows = (("linear discriminant", 10), ("Laplace + HMC", 65), (two_classes.PENALISED, 53), ("Neal's MCMC", 84))
    found = two_classes._judge(Table("pima", ("method", "errors"), rows), 68.0, 332)
    assert [verdict.met for verdict in found] == [True, False, False]  # two errors of 7.4 about 68
