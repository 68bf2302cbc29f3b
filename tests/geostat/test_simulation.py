"""Conditional simulation and maps: against enumeration, independence, and the probabilities of single sites."""

import sys
import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import ConstantKernel as C
from sklearn.gaussian_process.kernels import Matern
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier
from gpclass.datasets import roeder_field
from gpclass.geostat import IndicatorKriging, cell_declustering, predict_map, predict_maps, regular_grid, simulate
from gpclass.geostat.simulation import coin_counts
from gpclass.orthant import orthant_probability

KERNEL = C(4.0) * Matern(0.3, nu=1.5)


@pytest.fixture(scope="module")
def data():
    return roeder_field(80, random_state=6)


@pytest.fixture(scope="module")
def clf(data):
    return GPClassifier(KERNEL, inference="dsgq", hyperparameters="fixed", random_state=0).fit(data.X, data.y)


def test_counts_of_unequal_coins_by_enumeration():
    p = np.random.default_rng(0).random((3, 5))
    expected = np.zeros((3, 6))
    for heads in product([0, 1], repeat=5):
        h = np.array(heads)
        expected[:, h.sum()] += np.prod(np.where(h, p, 1 - p), axis=1)
    np.testing.assert_allclose(coin_counts(p), expected, rtol=1e-12)
    np.testing.assert_allclose(coin_counts(np.full((1, 9), 0.3))[0], binom.pmf(np.arange(10), 9, 0.3))


def test_single_sites_agree_with_the_classifier(clf):
    X = np.random.default_rng(1).random((6, 2))
    found = simulate(clf, X, 40_000, random_state=2)
    p = clf.predict_proba(X)[:, 1]
    error = found.proba.std(axis=0) / np.sqrt(40_000)
    assert np.all(np.abs(found.proba.mean(axis=0) - p) < 4 * error + 0.005)  # the draws' own Monte Carlo error
    assert np.all(np.abs(found.occurs.mean(axis=0) - p) < 4 * np.sqrt(0.25 / 40_000) + 0.005)
    assert found.labels.shape == (40_000, 6)
    assert set(np.unique(found.labels)) == {0, 1}


def test_all_and_any_against_the_orthant(data, clf):
    """P(all | y) is a ratio of orthant probabilities of n + m and n dimensions."""
    X = np.array([[0.40, 0.40], [0.45, 0.42], [0.55, 0.60]])
    noise = clf.likelihood_.scale**-2
    whole = np.vstack([data.X, X])
    cov = KERNEL(whole) + noise * np.eye(len(whole))

    def log_p(signs):
        n = len(signs)
        flipped = signs[:, None] * cov[:n, :n] * signs
        return orthant_probability(flipped, n_samples=20_000, random_state=0)

    signs = 2.0 * data.y - 1.0
    base = log_p(signs)
    found = simulate(clf, X, 20_000, random_state=3)
    room = 4 * found.all().error + 0.002  # and the Monte Carlo error of the classifier's own draws
    for label, estimate in ((1.0, found.all().value), (-1.0, 1 - found.any().value)):
        joint = log_p(np.append(signs, label * np.ones(3)))
        truth = np.exp(joint.log_probability - base.log_probability)
        assert estimate == pytest.approx(truth, abs=room)
    # independence between the sites, the usual mistake, is refused by the same bound
    assert abs(np.prod(clf.predict_proba(X)[:, 1]) - found.all().value) > 2 * room


def test_figures_of_the_set_agree_with_the_drawn_labels(clf):
    X = np.random.default_rng(4).random((12, 2))
    found = simulate(clf, X, 20_000, random_state=5)
    count = found.occurs.sum(axis=1)
    room = 4 * np.sqrt(0.25 / 20_000)
    assert abs(found.any().value - np.mean(count > 0)) < room
    assert abs(found.all().value - np.mean(count == 12)) < room
    assert abs(found.at_least(0.5).value - np.mean(count >= 6)) < room
    assert abs(found.share().value - count.mean() / 12) < room
    assert found.at_least(0.0).value == pytest.approx(1.0)
    assert found.at_least(1.0).value == pytest.approx(found.all().value)
    assert found.at_least(1 / 12).value == pytest.approx(found.any().value)
    p = found.count_probabilities()
    assert p.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(
        found.share_quantile([0.1, 0.5, 0.9]), np.quantile(count, [0.1, 0.5, 0.9]) / 12, atol=0.09
    )
    # simulating the field alone has a smaller error than counting labels
    assert found.at_least(0.5).error < np.std(count >= 6) / np.sqrt(20_000)
    assert "±" in str(found.any())


def test_many_sites_count_their_labels(monkeypatch, clf):
    found = simulate(clf, np.random.default_rng(0).random((8, 2)), 500, random_state=0)
    again = replace(found)
    monkeypatch.setattr("gpclass.geostat.simulation.COUNT_WORK", 0)
    assert again.at_least(0.5).value == pytest.approx(np.mean(found.occurs.sum(axis=1) >= 4))
    assert abs(again.at_least(0.5).value - found.at_least(0.5).value) < 0.1


def test_the_other_class_and_a_pipeline(data, clf):
    X = np.random.default_rng(7).random((4, 2))
    one = simulate(clf, X, 300, random_state=1)
    other = simulate(clf, X, 300, label=0, random_state=1)
    assert other.all().value == pytest.approx(1 - one.any().value)
    pipe = make_pipeline(StandardScaler(), GPClassifier(KERNEL, inference="ep", hyperparameters="fixed"))
    pipe.fit(data.X, data.y)
    assert simulate(pipe, X, 50, random_state=0).proba.shape == (50, 4)


def test_what_cannot_be_simulated(data, clf):
    kriging = IndicatorKriging("classical", kernel=KERNEL).fit(data.X, data.y)
    with pytest.raises(ValueError, match="no joint posterior"):
        simulate(kriging, data.X)
    with pytest.raises(ValueError, match="not among the classes"):
        simulate(clf, data.X[:2], label="wet")
    found = simulate(clf, data.X[:2], 10, random_state=0)
    with pytest.raises(ValueError, match="share"):
        found.at_least(1.5)
    with pytest.raises(ValueError, match="levels"):
        found.share_quantile(2.0)


@pytest.mark.parametrize("likelihood", ["softmax", "multinomial-probit"])
def test_many_classes_are_drawn_as_their_probabilities_say(data, likelihood):
    labels = np.array(["clay", "peat", "sand"])[np.digitize(data.X[:, 0], [0.33, 0.66])]
    inference = "laplace" if likelihood == "softmax" else "ep"
    clf = GPClassifier(KERNEL, likelihood=likelihood, inference=inference, hyperparameters="fixed").fit(data.X, labels)
    S, sites = 4000, data.X[:6] + 0.02
    found = simulate(clf, sites, S, label="peat", random_state=0)
    p = clf.predict_proba(sites)
    np.testing.assert_allclose(found.class_proba.sum(axis=2), 1.0)
    assert np.abs(found.class_proba.mean(axis=0) - p).max() < 4 * 0.5 / np.sqrt(S) + 2e-3  # the average over f is p
    drawn = np.stack([(found.labels == c).mean(axis=0) for c in clf.classes_], axis=1)
    assert np.abs(drawn - p).max() < 4 * 0.5 / np.sqrt(S) + 2e-3
    assert found.label == "peat"
    assert found.of("sand").label == "sand"
    shares = found.shares()
    assert sum(one.value for one in shares.values()) == pytest.approx(1.0)
    assert abs(shares["sand"].value - p[:, 2].mean()) < 4 * shares["sand"].error + 2e-3


# ---- maps ----------------------------------------------------------------------------------------------


def test_grid_has_square_cells_and_holds_the_sites(data):
    points = regular_grid(data.X * [1.0, 0.5], 30)
    x, y = np.unique(points[:, 0]), np.unique(points[:, 1])
    np.testing.assert_allclose(np.diff(x), np.diff(y)[0])
    assert len(x) == 30
    assert len(y) < 20
    assert x[0] < data.X[:, 0].min()
    assert y[-1] > 0.5 * data.X[:, 1].max() - np.diff(y)[0]
    with pytest.raises(ValueError, match="two or three coordinates"):
        regular_grid(np.zeros((3, 4)))
    with pytest.raises(ValueError, match="coincide"):
        regular_grid(np.zeros((3, 2)))


def test_cells_come_to_their_places(data, clf):
    """A shuffled list with holes, on coordinates with rounding noise."""
    points = regular_grid(data.X, 12)
    rng = np.random.default_rng(0)
    kept = rng.permutation(len(points))[:100]
    listed = points[kept] + 1e-13 * rng.standard_normal((100, 2))
    found = predict_map(clf, listed, level=0.8)
    assert np.isfinite(found.proba).sum() == 100
    u = clf.predict_uncertainty(points[kept], level=0.8)
    row = np.argmin(np.abs(found.y[:, None] - points[kept, 1]), axis=0)
    column = np.argmin(np.abs(found.x[:, None] - points[kept, 0]), axis=0)
    np.testing.assert_allclose(found.proba[row, column], u.proba[:, 1], rtol=1e-6)
    np.testing.assert_allclose(found.width[row, column], (u.upper - u.lower)[:, 1], rtol=1e-5)
    np.testing.assert_allclose(found.mcse[row, column], u.mcse[:, 1], rtol=1e-4)


def test_an_axis_is_not_parted_by_rounding():
    """Noise of 1e-13 about values that lie on a boundary of rounding to nine digits."""
    from gpclass.geostat.maps import _axis

    lattice = np.arange(1025) / 1024.0  # 1/1024 is 976562.5 units of 1e-9
    noisy = np.concatenate([lattice + 1e-13, lattice, lattice - 1e-13])
    values, place = _axis(noisy[1:-1])
    assert len(values) == 1025
    np.testing.assert_array_equal(place, np.tile(np.arange(1025), 3)[1:-1])
    values, place = _axis(np.full(3, 7.0))
    assert values.tolist() == [7.0]
    assert place.tolist() == [0, 0, 0]


@pytest.mark.filterwarnings("ignore::gpclass.geostat.OutsideWarning")
def test_map_of_one_of_three_classes(data):
    labels = np.digitize(data.X[:, 0], [0.33, 0.66])
    for transform, has_interval in (("classical", True), ("simplicial", False)):
        kriging = IndicatorKriging(transform, kernel=KERNEL).fit(data.X, labels)
        grid = regular_grid(data.X, 9)
        found = predict_map(kriging, grid, label=2)
        np.testing.assert_allclose(found.proba.ravel(), kriging.predict_uncertainty(grid).proba[:, 2])
        assert (found.width is not None) == has_interval


def test_a_frame_keeps_its_names_on_the_way_to_the_map(data):
    frame = pd.DataFrame(data.X, columns=["east", "north"])
    kriging = IndicatorKriging("simplicial", kernel=KERNEL).fit(frame, data.y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = predict_map(kriging, regular_grid(frame, 8))
    assert found.names == ("east", "north")
    np.testing.assert_array_equal(regular_grid(frame, 8).to_numpy(), regular_grid(data.X, 8))
    with pytest.raises(ValueError, match="missing"):
        regular_grid(np.array([[0.0, np.nan], [1.0, 1.0]]))
    with pytest.raises(ValueError, match="missing"):
        predict_map(kriging, np.array([[0.0, np.nan], [1.0, 1.0]]))


def test_other_class_frames_and_methods_without_errors(data):
    frame = pd.DataFrame(data.X, columns=["east", "north"])
    kriging = IndicatorKriging("simplicial", kernel=KERNEL).fit(frame, data.y)
    grid = pd.DataFrame(regular_grid(data.X, 9), columns=["east", "north"])
    one, other = predict_map(kriging, grid), predict_map(kriging, grid, label=0)
    np.testing.assert_allclose(one.proba + other.proba, 1.0)
    assert one.names == ("east", "north")
    assert one.mcse is None
    assert one.width is not None
    with pytest.raises(ValueError, match="not among"):
        predict_map(kriging, grid, label=7)
    with pytest.raises(ValueError, match="not a lattice"):
        predict_map(kriging, frame.sample(80, random_state=0))


def test_xarray_keeps_everything(data, clf, monkeypatch):
    pytest.importorskip("xarray", reason="xarray, of the optional extra [geo], is not installed")
    found = predict_map(clf, regular_grid(data.X, 8))
    exported = found.to_xarray()
    assert dict(exported.sizes) == {"y": len(found.y), "x": len(found.x)}
    np.testing.assert_array_equal(exported["probability"].values, found.proba)
    at = exported["probability"].sel(x=found.x[3], y=found.y[2]).item()
    assert at == found.proba[2, 3]
    assert set(exported.data_vars) == {"probability", "mcse", "lower", "upper"}
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(ImportError, match=r"gpclass\[geo\]"):
        found.to_xarray()


def test_one_call_has_the_maps_of_all_classes(data):
    labels = np.digitize(data.X[:, 0], [0.33, 0.66])
    clf = GPClassifier(KERNEL, inference="laplace", hyperparameters="fixed").fit(data.X, labels)
    grid = regular_grid(data.X, 7)
    maps = predict_maps(clf, grid)
    for c in range(3):
        np.testing.assert_array_equal(maps[c].proba, predict_map(clf, grid, label=c).proba)
    np.testing.assert_allclose(maps.proba.sum(axis=0), 1.0)


def test_three_coordinates_and_block_averages(data):
    """A cell is found by its coordinates, a block is the mean of its cells; a missing cell does not count."""
    sites = np.column_stack([data.X, np.linspace(-30.0, 0.0, len(data.X))])
    clf = GPClassifier(C(2.0) * Matern([0.3, 0.3, 9.0]), inference="laplace", hyperparameters="fixed")
    clf.fit(sites, data.y)
    grid = regular_grid(sites, (5, 4, 3))
    assert grid.shape == (60, 3)
    maps = predict_maps(clf, grid[1:], coordinates=(0, 1, 2))
    assert maps.proba.shape == (2, 3, 4, 5)
    assert np.isnan(maps.proba[:, 0, 0, 0]).all()
    at = clf.predict_proba([[maps.axes[0][3], maps.axes[1][2], maps.axes[2][1]]])[0]
    np.testing.assert_allclose(maps.proba[:, 1, 2, 3], at)
    blocks = maps.block_average((2, 2, 3))
    assert blocks.proba.shape == (2, 1, 2, 3)
    np.testing.assert_allclose(blocks.proba[:, 0, 0, 0], np.nanmean(maps.proba[:, :, :2, :2], axis=(1, 2, 3)))
    np.testing.assert_allclose(blocks.proba[:, 0, 1, 2], maps.proba[:, :, 2:, 4:].mean(axis=(1, 2, 3)))  # smaller block
    np.testing.assert_allclose(blocks.axes[0], [maps.axes[0][:2].mean(), maps.axes[0][2:4].mean(), maps.axes[0][4]])
    with pytest.raises(ValueError, match="plane"):
        maps[0]
    with pytest.raises(ValueError, match="whole number"):
        maps.block_average(0)
    with pytest.raises(ValueError, match="two or three"):
        predict_maps(clf, grid, coordinates=(0,))


def test_files_for_a_gis_hold_the_map(data, clf, tmp_path):
    rioxarray = pytest.importorskip("rioxarray", reason="rioxarray, of the optional extra [geo], is not installed")
    xarray = pytest.importorskip("xarray")
    maps = predict_maps(clf, regular_grid(data.X, 6))
    maps.write(tmp_path / "m.tif", "EPSG:28992")
    with rioxarray.open_rasterio(tmp_path / "m.tif") as read:
        assert read.rio.crs.to_epsg() == 28992
        assert read.attrs["long_name"] == ("0", "1")
        assert float(read.y[0]) > float(read.y[-1])  # north first
        np.testing.assert_allclose(read.sortby("y").values, maps.proba)
        np.testing.assert_allclose(read.x.values, maps.axes[0])
    maps.write(tmp_path / "m.nc", "EPSG:28992")
    with xarray.open_dataset(tmp_path / "m.nc") as read:
        np.testing.assert_array_equal(read["lower"].values, maps.lower)
        assert "28992" in read["spatial_ref"].attrs["crs_wkt"]
    with pytest.raises(ValueError, match=r"\.nc, \.tif"):
        maps.write(tmp_path / "m.shp")
    uneven = replace(maps, axes=(np.geomspace(1, 2, len(maps.axes[0])), maps.axes[1]))
    with pytest.raises(ValueError, match="evenly spaced"):
        uneven.write(tmp_path / "n.tif")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.nc", "m.tif"]


def test_what_is_not_fitted_or_no_table_is_named(data, clf):
    with pytest.raises(NotFittedError):
        simulate(GPClassifier(), data.X)
    with pytest.raises(NotFittedError):
        predict_map(IndicatorKriging(), regular_grid(data.X, 5))
    with pytest.raises(ValueError, match="points must be a table"):
        predict_map(clf, np.arange(5.0))


def test_results_are_printed_as_tables(data, clf):
    maps = predict_maps(clf, regular_grid(data.X, 8))
    drawn = simulate(clf, data.X[:6], 50, random_state=0)
    for found, rows in ((maps, 2), (maps[clf.classes_[0]], 1), (drawn, 2), (cell_declustering(data.X, data.y == 1), 5)):
        assert len(repr(found).splitlines()) == 3 + rows
        assert found._repr_html_().count("<tr>") == 1 + rows
    assert f"{drawn.occurs.mean():.3g}" in repr(drawn)
