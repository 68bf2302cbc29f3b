"""Neighbours in tiles: with wide halos they are one factor; with narrow ones the error is small, and falls."""

import os
import pickle
import signal

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from gpclass import GPClassifier, load_model
from gpclass.hyper import NelderMead
from gpclass.inference import EP, Laplace
from gpclass.latent import neighbour_means, neighbours, tiled_gaussian, tiles
from gpclass.latent.neighbours import Neighbours
from gpclass.latent.tiles import Layout, TiledPrior
from gpclass.likelihoods import Probit, get_likelihood
from gpclass.model.problem import Problem
from gpclass.predict import predict_proba
from tests.latent.cases import CASES, NEW, X, n, problem

ALL = 1e9  # width of a halo that has all rows
KERNEL = ConstantKernel(3.0) * Matern(0.2, nu=1.5)
RNG = np.random.default_rng(0)
PLACES = RNG.uniform(size=(2600, 2))
POINTS = RNG.uniform(size=(200, 2))
LABELS = np.where(np.sin(9 * PLACES[:, 0]) * np.cos(7 * PLACES[:, 1]) + 0.4 * RNG.normal(size=2600) > 0, 1, -1)


def of(form, rows=PLACES, labels=LABELS, weights=None, kernel=KERNEL):
    return Problem.of(rows, labels, kernel, Probit(), weights, 2, form)


def results(posterior, points):
    """Log evidence, latent means and covariances."""
    latent = posterior.latent(points)
    return posterior.evidence.log_z, latent.means, latent.covariances


@pytest.fixture(scope="module")
def one_factor():
    """EP with one factor of all rows."""
    return EP(tol=1e-9)(of(Neighbours(8, tile=0)))


@pytest.mark.parametrize("case", CASES)
def test_halos_of_all_rows_are_one_factor(case):
    method = CASES[case][2]
    tiled, whole = (method(problem(case, Neighbours(8, tile=size, halo=ALL))) for size in (40, 0))
    assert isinstance(tiled.gaussian.prior, TiledPrior)
    assert len(tiled.gaussian.prior.layout.cores) == 4
    assert tiled.report.converged
    for ours, other in zip(results(tiled, NEW), results(whole, NEW), strict=True):
        np.testing.assert_allclose(ours, other, atol=1e-8, rtol=1e-8)
    np.testing.assert_allclose(tiled.gaussian.mean_f, whole.gaussian.mean_f, atol=1e-8)
    np.testing.assert_allclose(tiled.gaussian.covariance, whole.gaussian.covariance, atol=1e-8)


def test_the_response_of_tiles_leads_to_the_same_sites(one_factor):
    tiled = EP(tol=1e-9)(of(Neighbours(8, tile=900, halo=ALL)))
    assert tiled.report.converged
    assert tiled.report.iterations < 12
    for ours, other in zip(results(tiled, POINTS), results(one_factor, POINTS), strict=True):
        np.testing.assert_allclose(ours, other, atol=1e-8, rtol=1e-8)


def test_errors_fall_as_the_halo_widens_and_means_of_a_mode_have_none(one_factor):
    truth, gaps = one_factor.latent(POINTS), []
    p = predict_proba(truth, Probit()).proba
    for width in (0.0, 6.0, 15.0):
        tiled = EP()(of(Neighbours(8, tile=700, halo=width)))
        latent = tiled.latent(POINTS)
        gaps.append(
            [
                np.max(np.abs(np.sqrt(latent.covariances / truth.covariances) - 1.0)),
                np.max(np.abs(predict_proba(latent, Probit()).proba - p)),
                abs(tiled.evidence.log_z - one_factor.evidence.log_z),
            ]
        )
    none, narrow, wide = np.array(gaps)
    assert np.all(none > 3.0 * narrow)  # the negative control
    assert np.all(narrow > 3.0 * wide)
    assert np.all(wide < [2e-3, 1e-3, 0.1])
    modes = [Laplace()(of(Neighbours(8, tile=size, halo=6.0))).gaussian.mean_f for size in (700, 0)]
    np.testing.assert_allclose(*modes, atol=1e-6)


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_a_model_in_tiles_is_saved_and_read(tmp_path, monkeypatch, inference):
    monkeypatch.setattr(neighbours, "MANY", 100)
    monkeypatch.setattr(neighbours, "TILE", 50)
    settings = {"inference": inference, "n_neighbors": 6, "hyperparameters": "fixed"}
    clf = GPClassifier(KERNEL, **settings).fit(X, X[:, 0] + X[:, 1] > 1.0)
    details = clf.fit_report_.details
    assert (details["tiles"], details["rows_of_a_tile"]) == (3, 44)
    assert 0 < details["halo_rows"] < n
    clf.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    np.testing.assert_allclose(again.predict_proba(NEW), clf.predict_proba(NEW), atol=1e-12)
    copied = pickle.loads(pickle.dumps(clf))
    np.testing.assert_allclose(copied.predict_proba(NEW), clf.predict_proba(NEW), atol=1e-12)
    vectors = clf.posterior_.gaussian.vectors()
    np.testing.assert_allclose(
        clf._problem.prior.from_vectors(vectors).latent(NEW).covariances,
        clf.posterior_.gaussian.latent(NEW).covariances,
    )


def test_weights_and_equal_rows():
    rows = np.vstack([X, X[:40]])
    y = np.concatenate([CASES["ep"][1], CASES["ep"][1][:40]])
    weights = np.random.default_rng(1).integers(1, 4, len(y)) * 0.5
    kernel = ConstantKernel(2.0) * Matern(0.3, nu=1.5)
    for method in (Laplace(), EP(tol=1e-10)):
        tiled, whole = (method(of(Neighbours(8, tile=size, halo=ALL), rows, y, weights, kernel)) for size in (50, 0))
        assert tiled.report.jitter == whole.report.jitter > 0.0
        for ours, other in zip(results(tiled, NEW), results(whole, NEW), strict=True):
            np.testing.assert_allclose(ours, other, atol=2e-6, rtol=2e-6)


@pytest.mark.parametrize("method", [Laplace(), EP()])
def test_tiles_of_one_class_and_of_very_different_density(method):
    rng = np.random.default_rng(2)
    dense = rng.normal([0.2, 0.2], 0.01, size=(600, 2))
    rows = np.vstack([dense, rng.uniform(size=(600, 2))])
    labels = np.where(rows[:, 0] > 0.8, 1, -1)
    labels[700:1200:9] *= -1
    tiled, whole = (method(of(Neighbours(8, tile=size, halo=6.0), rows, labels)) for size in (200, 0))
    layout = tiled.gaussian.prior.layout
    assert any(len(np.unique(labels[core])) == 1 for core in layout.cores)
    assert layout.pays  # the dense rows are not in every halo
    assert tiled.evidence.log_z == pytest.approx(whole.evidence.log_z, abs=0.2)
    p, q = (predict_proba(one.latent(POINTS), Probit()).proba for one in (tiled, whole))
    assert np.max(np.abs(p - q)) < 2e-3


def test_every_row_is_in_one_core_and_its_neighbours_are_in_the_tile():
    rows = np.column_stack([PLACES, np.zeros(len(PLACES))])  # a column without spread
    near = neighbours.neighbours_of(rows, 7)
    layout = Layout.of(rows, near, 300, 3.0)
    assert np.array_equal(np.sort(np.concatenate(layout.cores)), np.arange(len(rows)))
    for t, (core, held) in enumerate(zip(layout.cores, layout.rows, strict=True)):
        assert np.all(layout.core_of[core] == t)
        assert set(core) | set(near[core].ravel()) - {-1} <= set(held)
        assert len(held) < len(rows)


def test_draws_of_several_tiles_and_the_joint_gaussian(monkeypatch):
    tiled, whole = (Laplace()(problem("laplace", Neighbours(8, tile=size, halo=ALL))) for size in (40, 0))
    draws = [one.draw(NEW, 3000, np.random.default_rng(1))[:, :, 0] for one in (tiled, whole)]
    latent = whole.latent(NEW)
    sd = np.sqrt(latent.covariances[0, :, 0, 0])
    assert np.all(np.abs(draws[0].mean(axis=0) - latent.means[0, :, 0]) < 5.0 * sd / np.sqrt(3000))
    assert np.allclose(np.corrcoef(draws[0].T), np.corrcoef(draws[1].T), atol=0.1)
    assert tiled.gaussian.draw_rows(np.random.default_rng(3)).shape == (n,)
    monkeypatch.setattr(tiled_gaussian, "MOST_DRAWN", 100)
    with pytest.raises(ValueError, match="smaller region"):
        tiled.draw(NEW, 2, np.random.default_rng(1))


@pytest.mark.filterwarnings("ignore:probabilities")
def test_local_exact_takes_the_tiles_of_its_rows():
    y, settings = CASES["ep"][1], {"inference": "local-exact", "hyperparameters": "fixed", "random_state": 0}
    found = [
        GPClassifier(KERNEL, latent_prior=Neighbours(8, tile=size, halo=ALL), **settings).fit(X, y).predict_proba(NEW)
        for size in (40, 0)
    ]
    np.testing.assert_allclose(*found, atol=5e-3)


def test_when_there_are_tiles():
    assert Neighbours(5).tiled(neighbours.MANY) == 0
    assert Neighbours(5).tiled(neighbours.MANY + 1) == neighbours.TILE
    assert Neighbours(5, tile=0).tiled(10**7) == 0
    assert Neighbours(5, 10).tiled(10**7) == 0  # inducing inputs beside
    assert Neighbours(0).tiled(10**7) == 0
    assert "usual" in problem("laplace", Neighbours(None, tile=40)).prior.survey()["n_neighbors_because"]
    for wrong in (-1, 2.5, True):
        with pytest.raises(ValueError, match="tile must be"):
            Neighbours(5, tile=wrong).checked(100, 2, 1)
    with pytest.raises(ValueError, match="halo must be"):
        Neighbours(5, halo=-1.0).checked(100, 2, 1)


def test_a_gradient_is_refused_with_the_cure():
    with pytest.raises(ValueError, match="tile=0"):
        Laplace()(problem("laplace", Neighbours(8, tile=40)), gradient=True)


def test_factors_that_predict_are_kept_within_a_bound(monkeypatch):
    gaussian = EP()(problem("ep", Neighbours(8, tile=40))).gaussian
    first = gaussian.latent(NEW)
    assert len(gaussian.factors) == len(np.unique(gaussian.prior.tile_of(NEW))) > 1
    assert np.array_equal(gaussian.latent(NEW).covariances, first.covariances)
    monkeypatch.setattr(tiled_gaussian, "available_memory", lambda: 0.0)
    gaussian.factors.clear()
    assert np.allclose(gaussian.latent(NEW).covariances, first.covariances)
    assert len(gaussian.factors) == 1


def test_plans_are_kept_if_memory_allows(monkeypatch):
    here = problem("ep", Neighbours(8, tile=40))
    monkeypatch.setattr(tiles, "available_memory", lambda: 0.0)
    forgotten = EP()(here)
    assert not any(tile.scratch for tile in forgotten.gaussian.prior.tiles)
    monkeypatch.undo()
    known = EP()(problem("ep", Neighbours(8, tile=40)))
    assert all(tile.scratch for tile in known.gaussian.prior.tiles)
    assert known.evidence.log_z == forgotten.evidence.log_z


@pytest.mark.filterwarnings("ignore:probabilities under the prior")
def test_kernel_parameters_are_learned_on_some_rows(monkeypatch):
    monkeypatch.setattr(neighbours, "ENOUGH", 60)
    monkeypatch.setattr(neighbours, "MANY", 100)
    monkeypatch.setattr(neighbours, "TILE", 50)
    for strategy in ("maximize", "map"):
        clf = GPClassifier(1.0 * Matern(0.3, nu=1.5), inference="laplace", n_neighbors=6, hyperparameters=strategy)
        clf.fit(X, CASES["ep"][1])
        assert clf.fit_report_.details["tiles"] == 3
        assert clf.fit_report_.details["rows_of_the_search"] <= 60
    plan = clf.plan(X, CASES["ep"][1])
    assert plan.seconds > 0.0
    assert plan.memory > 0.0


def test_a_rare_class_is_among_the_rows_of_a_search(monkeypatch):
    monkeypatch.setattr(neighbours, "ENOUGH", 40)
    rare = np.where(np.arange(n) == 17, 1, -1)
    for size, missed in ((0, True), (50, False)):
        here = of(Neighbours(6, tile=size), X, rare)
        found = [here.form.stand_in(here, np.random.default_rng(seed)) for seed in range(9)]
        assert any(one is None for one in found) == missed
        assert all(np.any(one.y == 1) for one in found if one is not None)


@pytest.mark.slow
def test_workers_give_the_answer_of_one_process_also_if_one_is_killed(monkeypatch):
    distributed = pytest.importorskip("distributed", reason="the Dask extra is not installed")
    da = pytest.importorskip("dask.array")
    form = Neighbours(8, tile=40, halo=4.0)
    settings = {"inference": "ep", "latent_prior": form, "hyperparameters": "fixed"}
    y = CASES["ep"][1]
    here = GPClassifier(KERNEL, **settings).fit(X, y)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        passes, original = [], TiledPrior.map

        def watched(prior, work, *arguments, some=None):
            passes.append(type(prior.held[0]).__name__)
            if len(passes) == 3:
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
            return original(prior, work, *arguments, some=some)

        monkeypatch.setattr(TiledPrior, "map", watched)
        there = GPClassifier(KERNEL, **settings).fit(da.from_array(X, chunks=50), da.from_array(y, chunks=50))
        assert len(passes) > 3
        assert set(passes[:4]) == {"DaskExecutor"}
        assert there.log_evidence_ == pytest.approx(here.log_evidence_, abs=1e-8)
        np.testing.assert_allclose(there.predict_proba(NEW), here.predict_proba(NEW), atol=1e-8)


def test_three_classes_with_a_kernel_each():
    from sklearn.gaussian_process.kernels import CompoundKernel

    kernels = CompoundKernel([ConstantKernel(v) * Matern(0.3, nu=1.5) for v in (1.0, 2.0, 0.5)])
    y = CASES["softmax"][1]
    made = [Problem.of(X, y, kernels, get_likelihood("softmax"), form=Neighbours(6, tile=s, halo=ALL)) for s in (40, 0)]
    for ours, other in zip(*(results(Laplace()(one), NEW) for one in made), strict=True):
        np.testing.assert_allclose(ours, other, atol=1e-8, rtol=1e-8)


def sd_over_one_factor(kernel, rows, labels, halo, tile=400):
    """The largest ratio of a standard deviation in tiles over that with one factor, and the posterior in tiles."""
    tiled, whole = (
        Laplace()(of(Neighbours(8, tile=size, halo=halo), rows, labels, kernel=kernel)) for size in (tile, 0)
    )
    var = [one.gaussian.covariance[:, 0, 0] for one in (tiled, whole)]
    return float(np.sqrt(var[0] / var[1]).max()), tiled


def test_in_one_column_a_halo_has_enough_rows(monkeypatch):
    """Fifteen rows on either side say little about what a core depends on."""
    rows = np.random.default_rng(1).uniform(size=(2400, 1))
    labels = np.where(np.sin(9 * rows[:, 0]) + np.random.default_rng(2).normal(size=2400) > 0, 1, -1)
    kernel = ConstantKernel(3.0) * Matern(0.2, nu=1.5)
    assert sd_over_one_factor(kernel, rows, labels, 15.0)[0] < 1.02
    monkeypatch.setattr(tiles, "LEAST", 0.0)
    assert sd_over_one_factor(kernel, rows, labels, 15.0)[0] > 1.2


def test_the_error_of_narrow_halos_is_reported_and_warned_of():
    kernel = ConstantKernel(3.0) * RBF(0.5)
    off, tiled = sd_over_one_factor(kernel, PLACES, LABELS, 2.0)
    said = tiled.report.details["sd_error_of_halo"]
    assert 0.3 * (off - 1.0) < said < off - 1.0 + 1e-6  # of one tile
    assert "halo=4" in tiled.report.warnings[0]
    assert "tile=0" in tiled.report.warnings[0]
    off, tiled = sd_over_one_factor(KERNEL, PLACES, LABELS, 15.0)
    assert off < 1.02
    assert not tiled.report.warnings


def test_halos_of_equal_rows_and_without_end():
    rng = np.random.default_rng(3)
    rows = np.concatenate([rng.uniform(size=(700, 2)), np.full((200, 2), 0.5)])
    labels = np.where(np.sin(9 * rows[:, 0]) + rng.normal(size=900) > 0, 1, -1)
    assert np.all(tiles.spacings(rows) > 0.0)
    assert np.all(tiles.spacings(np.zeros((100, 2))) > 0.0)
    assert sd_over_one_factor(KERNEL, rows, labels, np.inf, tile=300)[0] == pytest.approx(1.0, abs=1e-8)


@pytest.mark.filterwarnings("ignore:probabilities under the prior", "ignore:a standard deviation of")
@pytest.mark.parametrize("strategy", ["maximize", "map"])
def test_few_rows_in_tiles_learn_their_parameters_with_one_factor(strategy):
    prior = Neighbours(6, tile=40)
    clf = GPClassifier(1.0 * Matern(0.3), inference="laplace", latent_prior=prior, hyperparameters=strategy)
    clf.fit(X, CASES["ep"][1])
    assert clf.fit_report_.details["tiles"] == 4
    assert clf.kernel_ != 1.0 * Matern(0.3)


@pytest.mark.filterwarnings(
    "ignore:probabilities under the prior", "ignore:a standard deviation of", "ignore:the fit did not converge"
)
def test_tiles_are_where_they_were_when_a_model_is_read(tmp_path):
    """Nelder and Mead's method moves length scales by which the rows were cut before."""
    prior = Neighbours(6, tile=60, halo=1.0)
    settings = {"inference": "laplace", "latent_prior": prior, "hyperparameters": NelderMead(max_evaluations=40)}
    rows = PLACES[:400]
    labels = np.where(np.sin(15 * rows[:, 1]) > 0.0, 1, -1)  # the other column says nothing
    clf = GPClassifier(1.0 * Matern([0.3, 0.3]), **settings).fit(rows, labels)
    long, short = clf.kernel_.k2.length_scale
    assert long > 1.5 * short
    clf.save(tmp_path / "model.gpclass")
    read = load_model(tmp_path / "model.gpclass")
    np.testing.assert_allclose(read.predict_proba(POINTS), clf.predict_proba(POINTS), rtol=1e-12)


def test_points_are_predicted_tile_by_tile():
    posterior = Laplace()(of(Neighbours(8, tile=300)))
    blocks = posterior.blocks(POINTS, 8 * 81)
    of_tiles = [np.unique(posterior.gaussian.prior.tile_of(POINTS[points])) for points in blocks]
    assert all(len(tile) == 1 for tile in of_tiles)
    assert max(map(len, blocks)) == 8
    assert np.array_equal(np.sort(np.concatenate(blocks)), np.arange(len(POINTS)))
    assert np.all(np.diff(np.concatenate(of_tiles)) >= 0)


def test_means_that_are_not_found_are_warned_of(monkeypatch):
    monkeypatch.setattr(neighbour_means, "MOST", 2)
    with pytest.warns(UserWarning, match="WhiteKernel"):
        Laplace(max_iter=1)(problem("softmax", Neighbours(8, tile=40)))
