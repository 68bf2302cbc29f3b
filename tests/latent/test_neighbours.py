"""The neighbour prior: its limits are the dense and the low-rank prior, and its gradients those of differences."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import ndtr
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from gpclass import GPClassifier, load_model
from gpclass.hyper import maximize
from gpclass.inference import Laplace
from gpclass.latent import neighbours
from gpclass.latent.cliques import earlier_neighbours
from gpclass.latent.dense import Dense
from gpclass.latent.low_rank import LowRank
from gpclass.latent.neighbours import Neighbours
from gpclass.likelihoods import Probit, get_likelihood
from gpclass.model.problem import Problem
from tests.latent.cases import CASES, KERNEL, MANY, NEW, TWO, X, Z, found, n, problem

RNG = np.random.default_rng(1)


@pytest.mark.slow
@pytest.mark.parametrize("m", [0, 10])
@pytest.mark.parametrize("case", CASES)
def test_all_rows_as_neighbours_are_the_dense_prior(case, m):
    ours, dense = found(case, Neighbours(n, m, Z, Z if m else None)), found(case, Dense())
    for one, other in zip(ours, dense, strict=True):
        assert np.allclose(one, other, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("case", CASES)
def test_no_neighbours_are_the_low_rank_prior(case):
    # Its sweeps stop at another distance, so that the sites agree to their tolerance.
    ours, low = found(case, Neighbours(0, 10, Z, Z)), found(case, LowRank(Z, 10))
    for one, other in zip(ours, low, strict=True):
        assert np.allclose(one, other, atol=1e-7, rtol=1e-7)


def test_copies_of_a_row_share_its_value_as_under_the_dense_prior():
    weights = RNG.integers(1, 4, n).astype(float)
    for case in ("laplace", "ep"):
        for one, other in zip(found(case, Neighbours(n, 0), weights), found(case, Dense(), weights), strict=True):
            assert np.allclose(one, other, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("m", [0, 10])
@pytest.mark.parametrize("case", ["laplace", "ep", "softmax"])
def test_gradients_are_those_of_differences(case, m):
    method = CASES[case][2]
    here = problem(case, Neighbours(6, m, Z, Z if m else None)).placed(RNG)
    slope = method(here, gradient=True).evidence.gradient
    for e, own in zip(1e-4 * np.eye(len(slope)), slope, strict=True):
        ends = [method(here.at(here.theta + s * e)).evidence.log_z for s in (1, -1)]
        assert own == pytest.approx((ends[0] - ends[1]) / 2e-4, abs=3e-6)


@pytest.mark.parametrize("m", [0, 10])
def test_the_gradient_by_the_scale_and_by_kernels_of_each_class(m):
    form, method, rng = Neighbours(6, m, Z, Z if m else None), Laplace(), np.random.default_rng(2)
    free = Problem.of(X, TWO, KERNEL, Probit(scale=1.3, scale_bounds=(0.1, 10.0)), form=form).placed(rng)
    kernels = [ConstantKernel(v) * RBF(0.3) for v in (1.0, 2.0, 0.5)]
    from sklearn.gaussian_process.kernels import CompoundKernel

    own = Problem.of(X, MANY, CompoundKernel(kernels), get_likelihood("softmax"), form=form).placed(rng)
    for here in (free, own):
        slope = method(here, gradient=True).evidence.gradient
        assert len(slope) == len(here.theta)
        k = len(slope) - 1
        e = 1e-3 * np.eye(len(slope))[k]  # rounding of the smooth kernels is then a hundredth of the tolerance
        ends = [method(here.at(here.theta + s * e)).evidence.log_z for s in (1, -1)]
        assert slope[k] == pytest.approx((ends[0] - ends[1]) / 2e-3, abs=1e-5)


def test_more_neighbours_come_closer_to_the_dense_prior():
    truth = found("laplace", Dense())
    gaps = [abs(found("laplace", Neighbours(k, 0))[0] - truth[0]) for k in (1, 4, 16)]
    assert gaps[0] > gaps[1] > gaps[2]
    both = abs(found("laplace", Neighbours(4, 10, Z, Z))[0] - truth[0])
    assert both < abs(found("laplace", Neighbours(0, 10, Z, Z))[0] - truth[0])


def test_neighbours_are_the_nearest_earlier_rows():
    points = RNG.normal(size=(500, 3))
    points[7] = points[400] = points[3]
    got = earlier_neighbours(points, 6)
    gaps = cdist(points, points)
    for i in (1, 4, 30, 400, 499):
        k = min(i, 6)
        assert np.all(got[i, :k] < i)
        assert np.all(got[i, :k] >= 0)
        assert np.all(got[i, k:] == -1)
        assert np.allclose(np.sort(gaps[i, got[i, :k]]), np.sort(gaps[i, :i])[:k])
    assert np.array_equal(earlier_neighbours(points, 6, 450), got[450:])


def test_other_rows_of_the_same_number_have_neighbours_of_their_own():
    placed = problem("laplace", Neighbours(4)).placed(np.random.default_rng(0))
    order = np.random.default_rng(1).permutation(n)
    moved, anew = placed.subset(order), Problem.of(X[order], TWO[order], KERNEL, Probit(), form=Neighbours(4))
    assert np.array_equal(moved.prior.cliques.i, anew.prior.cliques.i)
    assert np.array_equal(moved.prior.cliques.j, anew.prior.cliques.j)
    assert Laplace()(moved).evidence.log_z == Laplace()(anew).evidence.log_z
    assert np.array_equal(placed.at(placed.theta).form.near, placed.form.near)  # the same rows keep theirs


def test_draws_agree_with_the_latent_values_that_are_predicted():
    posterior = Laplace()(problem("laplace", Neighbours(n, 10, Z, Z)))
    draws, latent = posterior.draw(NEW, 4000, np.random.default_rng(1))[:, :, 0], posterior.latent(NEW)
    sd = np.sqrt(latent.covariances[0, :, 0, 0])
    assert np.all(np.abs(draws.mean(axis=0) - latent.means[0, :, 0]) < 5.0 * sd / np.sqrt(4000))
    assert np.allclose(draws.std(axis=0), sd, rtol=0.06)
    dense = Laplace()(problem("laplace", Dense())).draw(NEW, 4000, np.random.default_rng(2))[:, :, 0]
    assert np.allclose(np.corrcoef(draws.T), np.corrcoef(dense.T), atol=0.08)
    rows = posterior.gaussian.draw_rows(np.random.default_rng(3))
    assert rows.shape == (n,)


def test_equal_rows_and_smooth_kernels_need_a_jitter_that_is_reported():
    twice = np.vstack([X[:60], X[:30]])
    y = np.concatenate([TWO[:60], TWO[:30]])
    here = Problem.of(twice, y, 2.0 * RBF(1.0), Probit(), form=Neighbours(10, 0))
    dense = Problem.of(twice, y, 2.0 * RBF(1.0), Probit())
    ours, truth = Laplace()(here), Laplace()(dense)
    assert ours.report.jitter > 0
    assert ours.evidence.log_z == pytest.approx(truth.evidence.log_z, abs=0.02)
    assert np.allclose(ours.latent(NEW).means, truth.latent(NEW).means, atol=0.02)


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_a_fitted_model_is_saved_and_read(tmp_path, inference):
    clf = GPClassifier(1.0 * RBF(0.3), inference=inference, n_neighbors=8, n_inducing=6, random_state=0).fit(X, TWO)
    assert clf.inducing_.shape == (6, 2)
    assert clf.fit_report_.details["n_neighbors"] == 8
    clf.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert np.allclose(again.predict_proba(NEW), clf.predict_proba(NEW), atol=1e-12)
    assert again.n_neighbors == 8


def test_a_search_begins_on_a_part_of_many_rows(monkeypatch):
    monkeypatch.setattr(neighbours, "FEW", 60)
    monkeypatch.setattr(neighbours, "CENTRES", 3)
    settings = {"inference": "laplace", "n_neighbors": 8, "random_state": 0}
    part = GPClassifier(1.0 * Matern(0.3, nu=1.5), **settings).fit(X, TWO)
    monkeypatch.undo()
    whole = GPClassifier(1.0 * Matern(0.3, nu=1.5), **settings).fit(X, TWO)
    assert part.log_evidence_ == pytest.approx(whole.log_evidence_, abs=0.5)


@pytest.mark.parametrize(("case", "few"), [("ep", 3000), ("laplace", 3000), ("ep", 60)])
def test_a_search_that_begins_with_few_neighbours_ends_at_the_same_maximum(monkeypatch, case, few):
    monkeypatch.setattr(neighbours, "FEW", few)
    settings, seen, placed = {"inference": case, "n_neighbors": 12, "random_state": 0}, [], Neighbours.placed

    def watched(form, problem, rng, at_most=None):
        found = placed(form, problem, rng, at_most)
        seen.append(found.near.shape)
        return found

    y = np.where(np.sin(9.0 * X[:, 0]) + np.cos(7.0 * X[:, 1]) > 0, 1, -1)
    y[::9] *= -1
    monkeypatch.setattr(Neighbours, "placed", watched)
    fast = GPClassifier(1.0 * Matern(0.3, nu=1.5), **settings).fit(X, y)
    assert (n, neighbours.FEWER) in seen
    assert fast.fit_report_.details["n_neighbors"] == 12
    assert any(rows < n and k == neighbours.FEWER for rows, k in seen) == (few < n)
    monkeypatch.setattr(neighbours, "FEWER", n)
    seen.clear()
    slow = GPClassifier(1.0 * Matern(0.3, nu=1.5), **settings).fit(X, y)
    assert all(k == 12 for _, k in seen)
    assert fast.log_evidence_ == pytest.approx(slow.log_evidence_, abs=2e-3)
    assert np.allclose(fast.predict_proba(NEW), slow.predict_proba(NEW), atol=5e-3)


def copies(rows=800):
    """A field of which some rows are repeated: white noise and a constant explain them, if neighbours are few."""
    rng = np.random.default_rng(0)
    X, wave, shift = rng.uniform(size=(3000, 2)), rng.standard_t(3, size=(2, 400)) / 0.1, rng.uniform(0, 2 * np.pi, 400)
    p = ndtr(2.0 * np.sqrt(2 / 400) * np.cos(X @ wave + shift).sum(axis=1))
    y, weights = (rng.uniform(size=3000) < p).astype(int), np.random.default_rng(1).integers(0, 3, size=3000)
    return X[:rows], y[:rows], weights[:rows].astype(float)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*dense")
def test_what_fewer_neighbours_promise_in_vain_is_not_believed():
    X, y, weights = copies()
    kernel = ConstantKernel(2.75**2) * RBF(0.05) + ConstantKernel(0.2)
    given, found = (
        GPClassifier(kernel, inference="ep", n_neighbors=40, hyperparameters=how, random_state=0).fit(X, y, weights)
        for how in ("fixed", "maximize")
    )
    assert found.log_evidence_ > given.log_evidence_
    assert found.kernel_.k1.k2.length_scale > 0.02
    assert not any("suit" in text for text in found.fit_report_.warnings)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*(dense|bound)")
def test_parameters_that_suit_few_neighbours_alone_are_told():
    X, y, weights = copies()
    with pytest.warns(UserWarning, match="suit the approximation more than the labels; raise n_neighbors"):
        GPClassifier(inference="ep", n_neighbors=15, random_state=0).fit(X, y, weights)


def test_nearly_all_of_many_rows_as_neighbours_are_refused():
    X = np.random.default_rng(0).uniform(size=(600, 2))
    with pytest.raises(ValueError, match="leave n_neighbors out"):
        GPClassifier(inference="ep", n_neighbors=5000).fit(X, X[:, 0] > 0.5)


@pytest.mark.filterwarnings("ignore")
def test_a_search_that_begins_again_returns_the_better_of_both_ends(monkeypatch):
    """Where fewer neighbours led is not lost if the second search ends lower, as here where it does not move."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(250, 2))
    y = (np.sin(9 * X[:, 0]) * np.cos(8 * X[:, 1]) + 0.7 * rng.normal(size=250) > 0).astype(int)
    clf = GPClassifier(inference="laplace", n_neighbors=15, random_state=0)
    believed = clf.fit(X, y).log_evidence_

    def nowhere(search):
        start = search.problem.theta
        search.problem = search.problem.placed(search.run.rng)
        value = search.guide(search.problem).evidence.log_z
        return maximize.Climb(start, value, 1, 0, True, "", np.eye(len(start)), start, None)

    monkeypatch.setattr(maximize, "BELIED", -np.inf)  # every search begins again
    monkeypatch.setattr(maximize._Search, "over_all_rows", nowhere)
    assert clf.fit(X, y).log_evidence_ == pytest.approx(believed, abs=1e-6)
    assert clf.predict_proba(X).shape == (250, 2)


def test_fewer_neighbours_have_the_inducing_inputs_of_the_whole():
    here = problem("laplace", Neighbours(12, 7))
    part = here.form.part(here, np.random.default_rng(0))
    assert part.form.near.shape == (n, neighbours.FEWER)
    assert np.array_equal(here.placed(np.random.default_rng(1)).inducing, part.inducing)
    assert problem("laplace", Neighbours(9, 0)).form.part(here, RNG) is None  # few as they are


@pytest.mark.filterwarnings("ignore:probabilities under the prior")
def test_a_search_ends_on_some_of_very_many_rows(monkeypatch):
    monkeypatch.setattr(neighbours, "ENOUGH", 64)
    seen, infer = [], Laplace.infer

    def watched(inference, problem, *others):
        seen.extend([problem.n] if problem.form.name == "neighbours" else [])  # the start is found by a dense model
        return infer(inference, problem, *others)

    monkeypatch.setattr(Laplace, "infer", watched)
    clf = GPClassifier(1.0 * Matern(0.3, nu=1.5), inference="laplace", n_neighbors=8, random_state=0).fit(X, TWO)
    *searched, last, _ = seen  # the last is the comparison with the dense prior
    assert last == n
    assert set(searched) == {clf.fit_report_.details["rows_of_the_search"]}
    assert max(searched) <= 64
    rare = Problem.of(X, np.where(np.arange(n) == 17, 1, -1), KERNEL, Probit(), None, None, Neighbours(8, 0))
    assert any(rare.form.stand_in(rare, np.random.default_rng(seed)) is None for seed in range(9))


def test_settings_that_make_no_sense_are_refused():
    for k in (-1, 2.5, "many", True):
        with pytest.raises(ValueError, match="n_neighbors must be"):
            GPClassifier(inference="ep", n_neighbors=k).fit(X, TWO)
    with pytest.raises(ValueError, match="neighbours avoid"):
        GPClassifier(inference="exact", n_neighbors=5).fit(X, TWO)
    with pytest.raises(ValueError, match="leave one"):
        GPClassifier(inference="ep", n_neighbors=5, latent_prior="dense").fit(X, TWO)


def test_too_little_memory_is_said_in_advance(monkeypatch):
    monkeypatch.setattr(neighbours, "available_memory", lambda: 1e4)
    with pytest.raises(ValueError, match="use fewer neighbours"):
        GPClassifier(1.0 * RBF(0.3), inference="laplace", n_neighbors=5).fit(X, TWO)


@pytest.mark.parametrize("step", ["fit", "plan"])
def test_too_little_memory_for_a_million_rows_is_said_before_neighbours_are_found(monkeypatch, step):
    monkeypatch.setattr(neighbours, "available_memory", lambda: 2.0 * 2**30)
    monkeypatch.setattr(neighbours, "neighbours_of", lambda X, k: pytest.fail("neighbours were searched"))
    places = np.random.default_rng(0).uniform(size=(1_000_000, 2))
    clf = GPClassifier(1.0 * RBF(0.3), inference="ep", n_neighbors=15)
    with pytest.raises(ValueError, match=r"15 neighbours of 1000000 rows .* 2.0 GB are free; .*latent_prior='local'"):
        getattr(clf, step)(places, (places[:, 0] > 0.5).astype(int))


def test_a_factor_that_does_not_fit_is_refused_though_its_cliques_do(monkeypatch):
    form = Neighbours(20, 0)
    least = neighbours.bytes_of_pairs(n, 20)
    monkeypatch.setattr(neighbours, "available_memory", lambda: 1.01 * least)
    assert form.checked(n, 2, 1).k == 20
    at = problem("laplace", form).placed(RNG)
    with pytest.raises(ValueError, match="latent_prior='local'"):
        CASES["laplace"][2](at)


def test_auto_takes_fewer_neighbours_where_memory_is_short(monkeypatch):
    here = problem("laplace", Neighbours(None, 0))
    free = here.placed(RNG).form.near
    assert free.shape[1] == 40
    monkeypatch.setattr(neighbours, "available_memory", lambda: 0.3 * 24.0 * n**2)
    few = here.placed(RNG).form.near
    assert 1 <= few.shape[1] < 40
    assert np.array_equal(few, free[:, : few.shape[1]])


def test_auto_takes_fewer_neighbours_where_a_fit_would_take_hours(monkeypatch):
    here = problem("laplace", Neighbours(None, None))
    monkeypatch.setattr(neighbours, "HOUR", 0.5 * here.placed(RNG).prior.cliques.tree.flops)
    figures = here.placed(RNG).prior.survey()
    assert 1 <= figures["n_neighbors"] < 40
    assert figures["n_neighbors_because"] == "as many as memory and about an hour allow"
    assert figures["n_inducing_because"] == "where they were placed, 130 rows tell nothing about what they leave"


def test_the_report_says_why_so_many_neighbours():
    assert (
        problem("laplace", Neighbours(None, 0)).placed(RNG).prior.survey()["n_neighbors_because"]
        == "usual for 130 rows"
    )
    assert "n_neighbors_because" not in problem("laplace", Neighbours(5, 0)).prior.survey()


@pytest.mark.filterwarnings("ignore:the best parameters lie on a bound")
def test_neighbours_are_found_again_where_the_length_scales_end():
    y = np.where(np.sin(14.0 * X[:, 0]) > 0, 1, -1)
    kernel = ConstantKernel(4.0, "fixed") * Matern([0.5, 0.5], [(0.05, 20.0), (0.05, 20.0)], nu=1.5)
    clf = GPClassifier(kernel, inference="laplace", n_neighbors=6, random_state=0).fit(X, y)
    form, fitted = clf._problem.form, clf._problem
    length = clf.kernel_.k2.length_scale
    assert length[1] > 3.0 * length[0]

    def others(near):  # in whatever order
        return np.mean(np.sort(near, axis=1) != np.sort(form.near, axis=1))

    assert others(form.placed(fitted, RNG).near) < 0.2 < others(neighbours.neighbours_of(X, 6))


def test_more_neighbours_by_default_where_rows_are_few():
    """Every probability of a small map is close to the dense one, for which twenty neighbours are not enough."""
    rng = np.random.default_rng(0)
    places, new = rng.random((500, 2)), rng.random((200, 2))
    kernel = 4.0 * RBF(0.25)
    f = np.linalg.cholesky(kernel(places) + 1e-8 * np.eye(500)) @ rng.standard_normal(500)
    y = (rng.standard_normal(500) < f).astype(int)
    settings = {"inference": "ep", "hyperparameters": "fixed"}
    dense = GPClassifier(kernel, **settings).fit(places, y).predict_proba(new)
    far = {
        k: np.abs(GPClassifier(kernel, n_neighbors=k, **settings).fit(places, y).predict_proba(new) - dense).max()
        for k in ("auto", 20)
    }
    assert far["auto"] < 0.01 < far[20]
