"""Figures of geostatistics: what is drawn is what was computed."""

from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection

mpl.use("Agg")
import matplotlib.pyplot as plt
from sklearn.gaussian_process.kernels import ConstantKernel as C
from sklearn.gaussian_process.kernels import Matern

from gpclass import GPClassifier, plots
from gpclass.datasets import roeder_field
from gpclass.geostat import (
    IndicatorKriging,
    VariogramModel,
    empirical_variogram,
    fit_variogram,
    predict_map,
    regular_grid,
)
from gpclass.geostat.aitchison import IntervalNormal

KERNEL = C(4.0) * Matern(0.3, nu=1.5)


@pytest.fixture(scope="module")
def data():
    return roeder_field(60, random_state=6)


@pytest.fixture(scope="module")
def clf(data):
    return GPClassifier(KERNEL, inference="ep", hyperparameters="fixed").fit(data.X, data.y)


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def mesh(ax):
    """The values of the coloured cells."""
    return np.ma.filled(ax.collections[0].get_array(), np.nan)


def test_map_shows_the_probabilities_and_the_samples(data, clf):
    ax = plots.probability_map(clf, data.X, data.y, resolution=20)
    expected = predict_map(clf, regular_grid(data.X, 20)).proba
    np.testing.assert_allclose(mesh(ax).reshape(expected.shape), expected)
    filled, empty = [
        c
        for c in ax.collections
        if hasattr(c, "get_offsets") and len(c.get_offsets()) in (sum(data.y), sum(1 - data.y))
    ][-2:]
    np.testing.assert_allclose(filled.get_offsets(), data.X[data.y == 1])
    np.testing.assert_allclose(empty.get_offsets(), data.X[data.y == 0])
    np.testing.assert_allclose(empty.get_facecolor()[0], (1, 1, 1, 1))
    assert not np.allclose(filled.get_facecolor()[0], (1, 1, 1, 1))
    assert ax.get_aspect() == 1.0
    thick = [c for c in ax.collections if hasattr(c, "levels") and list(c.levels) == [0.5]]
    assert len(thick) == 1
    assert thick[0].get_linewidths()[0] == 2.0


@pytest.mark.slow
def test_second_panel(data, clf):
    axes = plots.probability_map(clf, data.X, data.y, panel="interval", resolution=12, level=0.8)
    found = predict_map(clf, regular_grid(data.X, 12), level=0.8)
    np.testing.assert_allclose(mesh(axes[1]).reshape(found.width.shape), found.width)
    exact = GPClassifier(KERNEL, inference="dsgq", hyperparameters="fixed", random_state=0).fit(data.X, data.y)
    axes = plots.probability_map(exact, data.X, panel="mcse", resolution=12)
    found = predict_map(exact, regular_grid(data.X, 12))
    np.testing.assert_allclose(mesh(axes[1]).reshape(found.mcse.shape), found.mcse)
    with pytest.raises(ValueError, match="not available"):
        plots.probability_map(clf, data.X, panel="mcse", resolution=5)
    with pytest.raises(ValueError, match="must be None"):
        plots.probability_map(clf, data.X, panel="both")
    with pytest.raises(ValueError, match="sites X"):
        plots.probability_map(clf)


def test_map_of_listed_cells_has_holes(data):
    frame = pd.DataFrame(data.X, columns=["east", "north"])
    clf = GPClassifier(KERNEL, inference="ep", hyperparameters="fixed").fit(frame, data.y)
    cells = pd.DataFrame(regular_grid(data.X, 15), columns=["east", "north"])
    ax = plots.probability_map(clf, frame, data.y, points=cells.iloc[::2], title="half")
    assert np.isnan(mesh(ax)).any()
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("east", "north", "half")
    ax = plots.probability_map(predict_map(clf, cells), colourbar=False)
    assert len(ax.child_axes) == 0


def test_the_second_panel_does_not_take_one_error_for_the_other(data, clf):
    """The interval is what is not known of p, the Monte Carlo error how well p was computed."""
    found = predict_map(clf, regular_grid(data.X, 6))
    known = plots.probability_map(replace(found, mcse=found.proba / 1e3), panel="mcse")[1]
    wide = plots.probability_map(found, panel="interval")[1]
    assert "Monte Carlo error" in known.get_title()
    assert "Monte Carlo" in known.child_axes[0].get_ylabel()
    assert "Uncertainty" in wide.get_title()
    assert "90 % interval" in wide.child_axes[0].get_ylabel()


def test_places_with_both_labels_are_grey(data, clf):
    found = predict_map(clf, regular_grid(data.X, 6))
    X = np.array([[0.1, 0.1], [0.1, 0.1], [0.5, 0.5], [0.5, 0.5], [0.9, 0.9], [0.3, 0.2]])
    y = np.array([1, 0, 1, 0, 1, 0])
    ax = plots.probability_map(found, X, y, sample_weight=[3, 1, 1, 3, 2, 0])
    mixed, filled, empty = ax.collections[-3:]
    shade = {tuple(at): colour[0] for at, colour in zip(mixed.get_offsets(), mixed.get_facecolor(), strict=True)}
    assert shade == pytest.approx({(0.1, 0.1): 0.25, (0.5, 0.5): 0.75})
    np.testing.assert_allclose(filled.get_offsets(), [[0.9, 0.9]])
    assert len(empty.get_offsets()) == 0  # weight zero: not there
    with pytest.raises(ValueError, match="6 labels"):
        plots.probability_map(found, X, y, sample_weight=[1, 2])
    assert [t.get_text()[:4] for t in ax.get_legend().get_texts()] == ["both", "clas", "othe"]


def test_the_legend_of_a_flat_map_is_below_its_axis_label(data, clf):
    flat = data.X * [1.0, 0.12]
    found = predict_map(clf, regular_grid(flat, 40))
    ax = plots.probability_map(found, flat, data.y)
    ax.figure.canvas.draw()
    legend, label = ax.get_legend().get_window_extent(), ax.xaxis.label.get_window_extent()
    assert legend.y1 <= label.y0 + 1
    box, bar = ax.get_window_extent(), ax.child_axes[0].get_window_extent()
    assert bar.height == pytest.approx(box.height, rel=1e-6)


def test_one_row_of_cells_has_no_lines(data, clf):
    row = np.column_stack([np.linspace(0, 1, 30), np.full(30, 0.5)])
    assert not [c for c in plots.probability_map(clf, points=row).collections if hasattr(c, "levels")]


def test_a_directional_variogram_names_its_direction(data):
    ax = plots.variogram(empirical_variogram(data.X, data.y, direction=90.0))
    assert "1)" in ax.get_legend().get_texts()[0].get_text()
    assert "along" not in plots.variogram(empirical_variogram(data.X, data.y)).get_legend().get_texts()[0].get_text()


def test_the_map_speaks_of_the_event(data, clf):
    ax = plots.probability_map(clf, data.X, data.y, event="zinc > 500 ppm", resolution=8)
    (bar,) = ax.child_axes
    assert ax.get_title() == "Probability of zinc > 500 ppm"
    assert bar.get_ylabel() == "probability of zinc > 500 ppm"
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["zinc > 500 ppm", "otherwise"]


def test_variogram_shows_pairs_and_model(data):
    empirical = empirical_variogram(data.X, data.y)
    fit = fit_variogram(empirical)
    ax = plots.variogram(fit)
    np.testing.assert_allclose(ax.collections[0].get_offsets(), np.column_stack([empirical.lag, empirical.gamma]))
    curve = ax.lines[0]
    np.testing.assert_allclose(curve.get_ydata(), fit.model.variogram(curve.get_xdata()))
    assert any("sill" in t.get_text() for t in ax.texts)
    other = VariogramModel(0.3, 0.1, np.inf, 0.05)
    ax = plots.variogram(empirical, model=other, pairs=False)
    texts = " ".join(t.get_text() for t in ax.texts)
    assert "nugget 0.05" in texts
    assert f"range {other.practical_range():.3g}" in texts
    assert len(plots.variogram(empirical).lines) == 0


def test_variogram_of_a_kriging_classifier(data):
    fitted = IndicatorKriging("classical").fit(data.X, data.y)
    ax = plots.variogram(fitted)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), fitted.variogram_.model.variogram(ax.lines[0].get_xdata()))
    with pytest.raises(ValueError, match="covariance was given"):
        plots.variogram(IndicatorKriging("classical", kernel=KERNEL).fit(data.X, data.y))
    three = IndicatorKriging("classical").fit(data.X, np.arange(60) % 3)
    with pytest.raises(ValueError, match="one by one"):
        plots.variogram(three)
    with pytest.raises(ValueError, match="VariogramFit"):
        plots.variogram("matern")


def test_normal_on_the_interval():
    ax = plots.normal_on_interval([0.0, 1.0], 2.0, scale=1.5)
    for line, mu in zip(ax.lines, (0.0, 1.0), strict=True):
        z = line.get_xdata()
        np.testing.assert_allclose(line.get_ydata(), IntervalNormal(mu, 2.0, 1.5).pdf(z))
    assert "μ = 1" in ax.get_legend().get_texts()[1].get_text()
    with pytest.raises(ValueError, match="at most"):
        plots.normal_on_interval(np.arange(9))


def test_thousands_of_samples_do_not_hide_the_map(clf):
    """Together they cover as much as fifteen hundred."""
    rng, areas = np.random.default_rng(0), []
    for count in (1500, 12_000):
        X, y = rng.uniform(size=(count, 2)), rng.integers(0, 2, count)
        ax = plots.probability_map(clf, X, y, resolution=10, colourbar=False)
        dots = [found for found in ax.collections if isinstance(found, PathCollection)]
        areas.append(sum(len(one.get_offsets()) * one.get_sizes()[0] for one in dots))
    assert areas[1] == pytest.approx(areas[0])
