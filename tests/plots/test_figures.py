"""Figures: what they show equals what was computed; they draw on the axes given; bad calls are named."""

import warnings
from types import SimpleNamespace

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier, metrics, plots
from gpclass.plots.dependence import influence


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


class Half(BaseEstimator):
    """Two classes split at feature 0 = 0, with an interval whose width is |feature 1|."""

    classes_ = np.array(["no", "yes"])

    def fit(self, X, y):
        self.fitted_ = True
        return self

    def predict_proba(self, X):
        p = 1 / (1 + np.exp(-4 * np.asarray(X, dtype=float)[:, 0]))
        return np.column_stack([1 - p, p])

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def predict_uncertainty(self, X, level=0.9):
        p, w = self.predict_proba(X), np.abs(np.asarray(X, dtype=float)[:, 1])[:, None] / 10
        return SimpleNamespace(proba=p, lower=p - w / 2, upper=p + w / 2, mcse=np.full_like(p, np.nan))


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=60) > 0, "yes", "no")


def decision_line(ax):
    """Corners of the thick contour, the one drawn last before the samples."""
    lines = [c for c in ax.collections if type(c).__name__ == "QuadContourSet" and not c.filled]
    thick = [c for c in lines if list(c.levels) == [0.5]]
    return np.concatenate([path.vertices for path in thick[0].get_paths()])


def test_decision_line_lies_where_p_is_half(data):
    X, y = data
    ax = plots.decision_map(Half(), X, y, resolution=41)
    assert np.max(np.abs(decision_line(ax)[:, 0])) < 1e-2
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("feature 1", "feature 2")
    drawn = sum(len(c.get_offsets()) for c in ax.collections if type(c).__name__ == "PathCollection")
    assert drawn == len(X) + np.sum(Half().predict(X) != y)  # each sample, and a ring for each wrong one


def test_second_panel_shows_the_width_and_axes_are_used(data):
    X, y = data
    _, given = plt.subplots(1, 2)
    axes = plots.decision_map(Half(), X, y, panel="interval", resolution=15, ax=given)
    assert list(axes) == list(given)
    mesh = next(c for c in given[1].collections if type(c).__name__ == "QuadMesh")
    gy = np.linspace(*given[1].get_ylim(), 15)
    np.testing.assert_allclose(np.asarray(mesh.get_array()).reshape(15, 15)[:, 0], np.abs(gy) / 10)
    with pytest.raises(ValueError, match="no Monte Carlo error"):
        plots.decision_map(Half(), X, panel="mcse", resolution=5)
    with pytest.raises(ValueError, match="panel"):
        plots.decision_map(Half(), X, panel="other", resolution=5)
    with pytest.raises(ValueError, match="2 panel"):
        plots.decision_map(Half(), X, panel="interval", ax=given[0])


def test_other_features_stay_at_their_medians_and_frames_keep_names(data):
    X, _ = data
    frame = pd.DataFrame(np.column_stack([X, np.full(60, 7.0)]), columns=["a", "b", "c"])
    seen = []

    class Spy(Half):
        def predict_proba(self, X):
            seen.append(X)
            return super().predict_proba(X)

    with pytest.raises(ValueError, match="features="):
        plots.decision_map(Spy(), frame)
    ax = plots.decision_map(Spy(), frame, features=(0, 2), resolution=9)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("a", "c")
    assert list(seen[0].columns) == ["a", "b", "c"]
    assert np.all(seen[0]["b"] == frame["b"].median())
    with pytest.raises(ValueError, match="two different columns"):
        plots.decision_map(Spy(), frame, features=(1, 1))


def test_map_of_many_classes_has_a_colour_a_class():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(90, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    clf = GaussianProcessClassifier(RBF(1.0), optimizer=None).fit(X, y)
    ax = plots.decision_map(clf, X, y, resolution=30)
    image = ax.images[0].get_array()
    top = clf.predict(np.column_stack([np.linspace(*ax.get_xlim(), 30), np.zeros(30)]))
    assert image.shape == (30, 30, 3)
    assert set(top) == {0, 1, 2}


def test_map_of_one_class():
    X = np.column_stack([np.linspace(-2, 2, 40), np.linspace(-1, 1, 40)[::-1]])
    y = np.array(["low", "mid", "top"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    clf = GPClassifier(RBF(1.0), inference="laplace", hyperparameters="fixed").fit(X, y)
    axes = plots.decision_map(clf, X, label="low", panel="interval", resolution=9)
    assert decision_line(axes[0])[:, 0].max() < 0.5  # of low against the rest
    points = np.stack(np.meshgrid(*(np.linspace(*lim, 9) for lim in (axes[0].get_xlim(), axes[0].get_ylim()))), -1)
    found = clf.predict_uncertainty(points.reshape(-1, 2))
    mesh = next(c for c in axes[1].collections if type(c).__name__ == "QuadMesh")
    np.testing.assert_allclose(np.ravel(mesh.get_array()), (found.upper - found.lower)[:, 0])
    with pytest.raises(ValueError, match="not among the classes"):
        plots.decision_map(clf, X, label="none")


def test_uncertainty_map_goes_through_a_pipeline(data):
    """A scaler before the classifier moves the map, not its figures."""
    X, y = data
    pipe = make_pipeline(StandardScaler(), Half()).fit(X, y)
    alone = plots.uncertainty_map(pipe, X, resolution=9)
    mesh = next(c for c in alone.collections if type(c).__name__ == "QuadMesh")
    gy = (np.linspace(*alone.get_ylim(), 9) - X[:, 1].mean()) / X[:, 1].std()
    np.testing.assert_allclose(np.asarray(mesh.get_array()).reshape(9, 9)[:, 4], np.abs(gy) / 10)
    both = plots.decision_map(pipe, X, y, panel="interval", resolution=9)
    twin = next(c for c in both[1].collections if type(c).__name__ == "QuadMesh")
    np.testing.assert_array_equal(twin.get_array(), mesh.get_array())
    with pytest.raises(ValueError, match="no predict_uncertainty"):
        plots.uncertainty_map(LogisticRegression().fit(X, y), X)


def test_difference_map_is_the_difference(data):
    X, _ = data

    class Shifted(Half):
        def predict_proba(self, X):
            p = super().predict_proba(X)[:, 1] * 0.8
            return np.column_stack([1 - p, p])

    ax = plots.difference_map(Shifted(), Half(), X, resolution=11)
    mesh = next(c for c in ax.collections if type(c).__name__ == "QuadMesh")
    gx = np.linspace(*ax.get_xlim(), 11)
    np.testing.assert_allclose(np.asarray(mesh.get_array()).reshape(11, 11)[3], -0.2 / (1 + np.exp(-4 * gx)))
    assert mesh.norm.vmax == -mesh.norm.vmin > 0.19


@pytest.mark.parametrize("words", [["no", "yes", None], [False, True, True]])
def test_partial_dependence_of_words_is_a_bar_each(words):
    class ByWord(Half):
        def predict_proba(self, X):
            p = np.where(X["word"].isin(["yes", True]), 0.8, 0.3)
            return np.column_stack([1 - p, p])

    frame = pd.DataFrame({"x": [0.0, np.nan, 1.0], "word": words})
    ax = plots.partial_dependence(ByWord(), frame, 1)
    assert [bar.get_height() for bar in ax.patches] == pytest.approx([0.3, 0.8])
    assert [text.get_text() for text in ax.get_xticklabels()] == [str(words[0]), str(words[1])]
    ax = plots.partial_dependence(ByWord(), frame, 0, resolution=5)  # a gap does not count
    assert ax.get_lines()[0].get_xdata()[-1] == pytest.approx(0.99)


def test_partial_dependence_is_the_mean_over_rows(data):
    X, _ = data
    ax = plots.partial_dependence(Half(), X, 1, resolution=7)
    thick = max(ax.lines, key=lambda line: line.get_linewidth())
    np.testing.assert_allclose(thick.get_ydata(), Half().predict_proba(X)[:, 1].mean())  # feature 1 is idle
    ax = plots.partial_dependence(Half(), X, 0, resolution=7, label="no")
    thick = max(ax.lines, key=lambda line: line.get_linewidth())
    np.testing.assert_allclose(thick.get_ydata(), 1 / (1 + np.exp(4 * thick.get_xdata())))
    with pytest.raises(ValueError, match="out of range"):
        plots.partial_dependence(Half(), X, 2)
    with pytest.raises(ValueError, match="not among the classes"):
        plots.partial_dependence(Half(), X, 0, label="maybe")


@pytest.mark.parametrize("band", ["consistency", "confidence"])
def test_reliability_points_are_those_of_the_curve(band):
    rng = np.random.default_rng(2)
    p = rng.random(800)
    y = (rng.random(800) < p**3).astype(int)  # far from calibrated: some bins must be marked
    curve = metrics.reliability_curve(y, p, band=band)
    ax = plots.reliability_diagram(y, p, band=band, name="cubed")
    dots = [c for c in ax.collections if type(c).__name__ == "PathCollection"]
    found = np.concatenate([d.get_offsets() for d in dots])
    found = found[np.argsort(found[:, 0])]
    np.testing.assert_allclose(found, np.column_stack([curve.predicted, curve.observed]))
    target = curve.observed if band == "consistency" else curve.predicted
    miss = np.sum((target < curve.lower) | (target > curve.upper))
    assert miss > 3
    assert len(dots[-1].get_offsets()) == miss
    assert "class 1" in ax.get_xlabel()
    assert ax.get_title() == "cubed"


def test_reliability_of_calibrated_forecasts_marks_none():
    rng = np.random.default_rng(3)
    p = rng.random(2000)
    ax = plots.reliability_diagram((rng.random(2000) < p).astype(int), p, level=0.999)
    labels = [t.get_text() for t in ax.get_legend().get_texts()]
    assert "bins outside the band" not in labels


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(80, 3))
    y = (X[:, 1] + 0.3 * rng.normal(size=80) > 0).astype(int)
    kernel = ConstantKernel(1.0) * RBF([1.0, 1.0, 1.0]) + WhiteKernel(0.1, "fixed")
    return GaussianProcessClassifier(kernel, optimizer=None).fit(X, y)


def test_parameter_names_follow_theta(fitted):
    names = plots.parameter_names(fitted.kernel_)
    assert len(names) == len(fitted.kernel_.theta) == 4
    assert names[1] == "length scale[0]"
    assert plots.parameter_names(fitted.kernel_, ["a", "b", "c"])[3] == "length scale[c]"
    twice = ConstantKernel(1.0) * RBF(1.0) + ConstantKernel(1.0)
    assert plots.parameter_names(twice) == ["variance of RBF", "length scale", "variance of constant"]
    same = 1.0 * RBF() + 1.0 * RBF()  # roles do not tell these apart, their places do
    assert plots.parameter_names(same)[0] == "k1 k1 constant value"


def test_evidence_surface_equals_the_evidence(fitted):
    ax = plots.evidence_surface(fitted, "constant", "length scale[1]", span=1.0, resolution=3)
    assert ax.get_xscale() == ax.get_yscale() == "log"
    theta = fitted.kernel_.theta
    best = max(
        fitted.log_marginal_likelihood(theta + np.array([a, 0, b, 0]), clone_kernel=True)
        for a in (-1, 0, 1)
        for b in (-1, 0, 1)
    )
    assert f"{best:.2f}" in ax.figure.axes[-1].get_ylabel()
    with pytest.raises(ValueError, match="matches 3 of"):
        plots.evidence_surface(fitted, "constant", "length scale")
    with pytest.raises(ValueError, match="same parameter"):
        plots.evidence_surface(fitted, 1, 1)
    with pytest.raises(ValueError, match="out of range"):
        plots.evidence_surface(fitted, 0, 9)


def test_evidence_surface_of_the_own_classifier_includes_the_likelihood_scale():
    from gpclass.estimators.classifier import GPClassifier
    from gpclass.likelihoods import Probit

    rng = np.random.default_rng(7)
    X = rng.normal(size=(30, 1))
    y = (X[:, 0] > 0).astype(int)
    kernel = ConstantKernel(1.0, "fixed") * RBF(1.0)
    likelihood = Probit(scale=1.0, scale_bounds=(0.1, 10.0))
    clf = GPClassifier(kernel, inference="laplace", likelihood=likelihood, hyperparameters="fixed").fit(X, y)
    ax = plots.evidence_surface(clf, "length scale", "likelihood", span=0.5, resolution=3)
    grid = [clf.log_marginal_likelihood(np.array([a, b])) for a in (-0.5, 0.0, 0.5) for b in (-0.5, 0.0, 0.5)]
    assert ax.get_ylabel() == "likelihood scale"
    assert f"{max(grid):.2f}" in ax.figure.axes[-1].get_ylabel()


def test_relevance_is_one_over_length_scale_in_order(fitted):
    rng = np.random.default_rng(5)
    lengths = np.array([4.0, 0.5, 2.0])
    clf = SimpleNamespace(kernel_=ConstantKernel(1.0) * RBF(lengths))
    ax = plots.ard_relevance(clf, ["x", "y", "z"])
    assert [t.get_text() for t in ax.get_yticklabels()] == ["x", "z", "y"]
    np.testing.assert_allclose([b.get_width() for b in ax.patches], [0.25, 0.5, 2.0])
    draws = np.log(np.r_[1.0, lengths]) + 0.1 * rng.normal(size=(4000, 4))
    ax = plots.ard_relevance(clf, draws=draws)
    np.testing.assert_allclose([b.get_width() for b in ax.patches], [0.25, 0.5, 2.0], rtol=0.02)
    bars = ax.containers[1].lines[2][0].get_segments()  # error bars: 5 % to 95 % of exp(N(0, 0.1))
    np.testing.assert_allclose(bars[0][:, 0], 0.25 * np.exp([-0.1645, 0.1645]), rtol=0.02)
    with pytest.raises(ValueError, match="one per feature"):
        plots.ard_relevance(SimpleNamespace(kernel_=RBF(1.0)))


def test_weights_show_ess_and_judge_the_tail():
    rng = np.random.default_rng(6)
    light = 0.2 * rng.normal(size=4000)
    title = plots.weights_diagnostic(light).get_title()
    w = np.exp(light)
    assert f"ESS {w.sum() ** 2 / np.sum(w**2):.0f} of 4000" in title
    assert "(reliable)" in title
    heavy = rng.standard_exponential(4000) * 1.3  # Pareto weights with k = 1.3
    assert "NOT reliable" in plots.weights_diagnostic(heavy).get_title()
    assert "k-hat 0.30" in plots.weights_diagnostic(np.r_[light, -np.inf], khat=0.3).get_title()
    for bad in ([], [np.nan, 0.0], [-np.inf], [np.inf, 0.0]):
        with pytest.raises(ValueError, match="log_weights"):
            plots.weights_diagnostic(bad)


@pytest.mark.slow
def test_axes_show_a_class_that_is_rare_everywhere(data):
    """Probabilities below 0.1 were a flat line at the bottom of the axis, and a map of one colour."""
    X, _ = data

    class Rare:
        classes_ = np.array(["common", "rare"])

        def predict_proba(self, X):
            p = 0.08 / (1 + np.exp(-np.asarray(X)[:, 0]))
            return np.column_stack([1 - p, p])

    ax = plots.partial_dependence(Rare(), X, 0)
    assert 0.05 < ax.get_ylim()[1] < 0.1
    assert plots.partial_dependence(Rare(), X, 0, label="common").get_ylim()[0] > 0.9
    drawn = plots.decision_map(Rare(), X, resolution=15)
    assert drawn.collections[0].norm.vmax < 0.1
    assert "nowhere above 0.5" in drawn.get_title()
    (bar,) = drawn.child_axes
    drawn.set_aspect("equal")
    drawn.figure.canvas.draw()
    assert bar.get_window_extent().height == pytest.approx(drawn.get_window_extent().height)
    assert [text.get_text() for text in bar.get_yticklabels()] == ["0", "0.02", "0.04", "0.06", "0.08"]
    proba = Rare().predict_proba(X)
    y = np.where(np.random.default_rng(0).uniform(size=len(X)) < proba[:, 1], "rare", "common")
    y[0] = "rare"
    ax = plots.reliability_diagram(y, proba, classes=Rare.classes_)
    assert ax.get_xlim()[1] < 0.5
    assert plots.reliability_diagram(y, proba[:, ::-1], classes=Rare.classes_).get_xlim()[0] > -0.1


def test_influence_is_the_height_of_the_mean_curve(data):
    X, _ = data

    class First:
        classes_ = np.array([0, 1])

        def predict_proba(self, X):
            p = 0.2 + 0.6 * (np.asarray(X)[:, 0] > 0)
            return np.column_stack([1 - p, p])

    assert influence(First(), X, 0) == pytest.approx(0.6)
    assert influence(First(), X, 1) == 0.0


def test_prior_against_posterior():
    """A panel per parameter; what was not sampled is refused."""
    from gpclass.hyper import HMC

    X = np.random.default_rng(0).normal(size=(15, 2))
    y = (X[:, 0] > 0).astype(int)
    settings = {"inference": "laplace", "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = GPClassifier(2.0 * RBF(1.0), hyperparameters=HMC.brief(), **settings).fit(X, y)
    axes = plots.prior_against_posterior(clf)
    assert [ax.get_xlabel() for ax in axes] == ["log constant value", "log length scale"]
    x, density = axes[0].lines[0].get_data()
    prior = clf.posterior_.prior.priors[0]
    np.testing.assert_allclose(np.log(density), [prior.log_density(t) for t in x])
    with pytest.raises(ValueError, match="were not sampled"):
        plots.prior_against_posterior(GPClassifier(hyperparameters="fixed", **settings).fit(X, y))
