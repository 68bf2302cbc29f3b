"""The experiments with many classes: Cho et al. and forensic glass, small, with cheap classifiers."""

import numpy as np
import pytest
from papers.cho2015 import __main__ as cho
from papers.cho2015 import iris, synthetic
from papers.cho2015.methods import methods
from papers.common import Setting, Table
from papers.store import NoTime
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


def test_the_process_is_set_against_the_best_other_on_the_same_rows():
    rng = np.random.default_rng(1)
    best, poor = (rng.random(332) < share for share in (0.2, 0.4))
    few, many = best.copy(), best.copy()
    few[np.flatnonzero(~best)[:3]] = True  # three errors more, none less
    many[np.flatnonzero(~best)[:12]] = True
    wrong = {"linear discriminant": best, "decision tree": poor, two_classes.SAMPLED: few, two_classes.NEAL: many}
    found = two_classes._behind({label: each.astype(float) for label, each in wrong.items()}, np.sum)
    assert found["linear discriminant"] == (0.0, 0.0)
    gap, se = found[two_classes.NEAL]
    assert gap == 12.0
    assert se == pytest.approx(np.sqrt(12.0), rel=0.03)  # McNemar's, of twelve rows that differ
    assert two_classes.BARRED * se < gap < two_classes.BARRED * np.sqrt(332 * 0.2 * 0.8)  # a binomial error passes it
    assert found[two_classes.SAMPLED][0] <= two_classes.BARRED * found[two_classes.SAMPLED][1]


def test_every_method_of_the_process_has_a_verdict():
    columns = ("method", *two_classes.PAIRS, *(column for pair in two_classes.PAIRS.values() for column in pair))
    rows = [("linear discriminant", 60, 0.5, 0.0, 0.0, 0.0, 0.0), ("decision tree", 90, 0.4, 30.0, 1.0, 0.1, 1.0)]
    rows += [
        (two_classes.SAMPLED, 65, 0.41, 5.0, 3.0, 0.01, 0.01),
        (two_classes.PENALISED, 69, 0.5, 9.0, 4.0, 0.1, 0.01),
    ]
    rows += [(two_classes.NEAL, 55, 0.3, -5.0, 1.0, -0.1, 0.01)]
    found = two_classes._judge("pima", Table("pima", columns, tuple(rows)))
    assert [verdict.met for verdict in found] == [True, False, True, True, False, True]
    assert "linear discriminant" in found[0].measured
    assert "decision tree" in found[-1].measured  # the best by log loss is another


def test_chains_without_time_are_named_with_their_hours(monkeypatch):
    def cell(paper, name, settings, measure):
        if "glass" in name:
            raise NoTime(name)
        return {"errors": 3, "loss": 0.2, "effective": 50.0, "rhat": 1.01, "seconds": 9.0}

    def seconds(clf, *parts):  # a second an iteration, and five that do not grow with the chain
        return {"seconds": 5.0 + clf.hyperparameters.warmup + clf.hyperparameters.draws}

    parts = (np.zeros((4, 2)), np.array([0, 1, 0, 1]), None, None)
    monkeypatch.setattr(neal, "tasks", lambda setting: {"crabs": parts, "glass": parts})
    monkeypatch.setattr(neal, "cell", cell)
    monkeypatch.setattr(neal, "measured", seconds)
    section = neal.run(Setting(full=True))
    assert [row[0] for row in section.tables[0].rows] == ["crabs", "crabs"]
    assert "Not measured yet" in section.notes[0]
    hours = 4 * 1200 / 3600
    assert section.notes[0].count(f"4 x 1000: about {hours:.1f} hours") == 2
    monkeypatch.setattr(neal, "tasks", lambda setting: {"glass": parts})
    with pytest.raises(NoTime):
        neal.run(Setting(full=True))
