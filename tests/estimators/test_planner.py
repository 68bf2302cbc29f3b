"""The planner against fits that were run."""

import tracemalloc
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.gaussian_process.kernels import RBF

from gpclass import GPClassifier
from gpclass.estimators import local_plan, neighbour_plan, planner
from gpclass.estimators.planner import DENSE, _extrapolate, _memory, class_subset, plan_fit
from gpclass.hyper import PseudoMarginal

FACTOR = 4.0


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "n"), [("fixed", 1000), ("maximize", 600)])
def test_seconds_are_those_of_the_fit(monkeypatch, strategy, n):
    """By a clock that goes with the work: inferences times a cost of n; benchmarks/planner.py has real clocks."""
    now, fit = [0.0], GPClassifier.fit

    def working(clf, X, y, **given):
        fit(clf, X, y, **given)
        calls = getattr(clf.fit_report_, "evaluations", None) or 1
        now[0] += calls * (1e-3 + 1e-5 * len(y) + 2e-10 * len(y) ** 3)
        return clf

    monkeypatch.setattr(GPClassifier, "fit", working)
    monkeypatch.setattr(planner, "clock", lambda: now[0])
    monkeypatch.setattr(planner, "_cholesky_slowness", lambda _: 2e-11)
    X, y = make_moons(n, noise=0.3, random_state=0)
    clf = GPClassifier(2.0 * RBF(0.8), inference="laplace", hyperparameters=strategy)
    plan = clf.plan(X, y, budget=0.2)
    assert plan.sizes[-1] < n  # an extrapolation, not the fit itself
    began = now[0]
    clf.fit(X, y)
    assert plan.seconds == pytest.approx(now[0] - began, rel=0.1 if strategy == "fixed" else 0.6)


@pytest.mark.slow
def test_the_seed_does_not_change_the_plan_of_draws(monkeypatch):
    """The default, exact: few rows need many more draws than many, and are not the measure of their memory."""
    now, fit = [0.0], GPClassifier.fit

    def working(clf, X, y, **given):
        fit(clf, X, y, **given)
        report, n = clf.fit_report_, len(y)
        now[0] += report.evaluations * (1e-3 + 2e-10 * n**3) + 1e-7 * n * report.n_samples
        return clf

    monkeypatch.setattr(GPClassifier, "fit", working)
    monkeypatch.setattr(planner, "clock", lambda: now[0])
    monkeypatch.setattr(planner, "_cholesky_slowness", lambda _: 2e-11)
    X, y = make_moons(150, noise=0.3, random_state=0)
    plans = [GPClassifier(random_state=seed, tol=4e-3).plan(X, y, budget=0.05) for seed in (0, None)]
    for plan in plans:
        assert plan.sizes[-1] < 150
        assert plan.seconds == pytest.approx(plans[0].seconds)
        assert plan.memory == pytest.approx(plans[0].memory, rel=0.1)  # garbage is collected when it is
    began = now[0]
    tracemalloc.start()
    GPClassifier(random_state=5, tol=4e-3).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert plans[0].low < now[0] - began < plans[0].high
    assert peak / 2 < plans[0].memory < 3 * peak
    assert "between" in str(plans[0])


@pytest.mark.slow
def test_chains_are_planned_from_short_ones(monkeypatch):
    X, y = make_moons(120, noise=0.3, random_state=0)
    chains = PseudoMarginal(chains=2, warmup=60, discard=10, draws=150, proposal="walk")
    plan = GPClassifier(2.0 * RBF(0.8), hyperparameters=chains, random_state=0).plan(X[:60], y[:60])
    assert plan.inferences == pytest.approx(2 * (60 + 10 + 150), rel=0.2)
    assert "doubled" not in str(plan)
    tried = []

    def timed(work, _):  # half a second, then a hundredth for each iteration of 60 rows
        draws, rows = work.func.__self__.hyperparameters.draws, len(work.args[0])
        tried.append((rows, draws))
        return 0.5 + 0.01 * draws * rows / 60, Report(SimpleNamespace(evaluations=7 + 4 * draws))

    monkeypatch.setattr(planner, "_timed", timed)
    monkeypatch.setattr(planner, "_traced", lambda work: 1e6)
    plan = GPClassifier(hyperparameters="pseudo-marginal").plan(X, y)
    assert tried == [
        (60, 4),
        (60, 16),
        (60, 32),
        (120, 4),
        (120, 16),
        (120, 32),
    ]  # until it is more than noise
    assert plan.inferences == 7 + 4 * (16 + 10 + 200)
    assert plan.seconds == pytest.approx(0.5 + 0.02 * (16 + 10 + 200), rel=1e-3)
    assert "doubled" in str(plan)


class Report(NamedTuple):
    fit_report_: SimpleNamespace


@pytest.mark.slow
def test_memory_within_a_factor():
    X, y = make_moons(1200, noise=0.3, random_state=0)
    clf = GPClassifier(2.0 * RBF(0.8), inference="laplace", hyperparameters="fixed")
    plan = clf.plan(X, y, budget=0.3)
    tracemalloc.start()
    clf.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak / FACTOR < plan.memory < FACTOR * peak
    assert plan.fits == (plan.memory < plan.available_memory)


@pytest.mark.slow
def test_the_plan_says_what_it_rests_on():
    X, y = make_moons(150, noise=0.3, random_state=0)
    clf = GPClassifier(inference="laplace")
    plan = clf.plan(X, np.array(["a", "b"])[y], budget=0.5)
    text = str(plan)
    assert "laplace with maximize on 150 rows of 2 features" in text
    assert plan.inferences > 1
    assert not hasattr(clf, "classes_")  # nothing was fitted
    fixed = GPClassifier(inference="laplace", hyperparameters="fixed").plan(X, y, budget=0.5)
    assert fixed.inferences == 1


@pytest.mark.slow
def test_too_much_memory_is_said(monkeypatch):
    from gpclass.estimators import checks

    monkeypatch.setattr(planner, "available_memory", lambda: 2**20)
    X, y = make_moons(200, noise=0.3, random_state=0)
    monkeypatch.setattr(checks, "check_memory", lambda *_, **__: None)
    plan = plan_fit(GPClassifier(inference="laplace", hyperparameters="fixed"), X, y, budget=0.1)
    assert not plan.fits
    assert "it would fail" in str(plan)


def test_powers_of_n_are_found(monkeypatch):
    sizes = np.array([60, 120, 240])
    assert _memory(sizes, 100.0 * sizes + 64.0 * sizes**2, 5000) == pytest.approx(500_000 + 64 * 5000**2)
    monkeypatch.setattr(planner, "_cholesky_slowness", lambda _: 1e-11)

    def draws(n):  # many draws at n² each, and the factorisations that no dense fit goes without
        return 1e-6 * n**2.0 + 5 * 1e-11 * n**3.0

    assert _extrapolate(sizes, draws(sizes), 4000) == pytest.approx(draws(4000), rel=0.3)
    assert _extrapolate(sizes, draws(sizes), 240) == draws(240)


def test_noise_does_not_hide_the_cube(monkeypatch):
    # Seconds as of a Laplace evaluation; with the middle one slow by a third, no cube is seen in the small sizes.
    monkeypatch.setattr(planner, "_cholesky_slowness", lambda _: 1e-11)
    sizes = np.array([60.0, 120.0, 240.0])

    def seconds(n):
        return 1.5e-3 + 1e-5 * n + 12 * 1e-11 * n**3

    seen = seconds(sizes)
    assert _extrapolate(sizes, seen, 900) == pytest.approx(seconds(900), rel=0.2)
    assert _extrapolate(sizes, seen * [1.0, 1.33, 0.95], 900) == pytest.approx(seconds(900), rel=0.5)
    monkeypatch.setattr(planner, "NOISE", 0.0)  # what is known of dense inference left out
    assert _extrapolate(sizes, seen * [1.0, 1.33, 0.95], 900) < seconds(900) / 4


def test_subsets_hold_every_class():
    y = np.r_[np.zeros(990), np.ones(10)]
    rows = class_subset(y, 60)
    assert len(rows) == len(set(rows.tolist()))
    assert (y[rows] == 1).sum() >= 2
    np.testing.assert_array_equal(rows, class_subset(y, 60))


def test_shapes_are_checked():
    with pytest.raises(ValueError, match=r"\(n, d\)"):
        GPClassifier().plan(np.zeros((5, 2)), np.zeros(4))


def test_neighbours_are_planned_by_their_sparse_factor(monkeypatch):
    monkeypatch.setattr(neighbour_plan, "ROWS", 150)
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(3000, 2))
    y = (np.sin(9.0 * X[:, 0]) + 0.3 * rng.normal(size=3000) > 0).astype(int)
    clf = GPClassifier(1.0 * RBF(0.2), inference="laplace", n_neighbors=5)
    plan = clf.plan(X, y)
    assert plan.sizes == (150,)
    assert plan.memory < 0.1 * DENSE * 8.0 * 3000**2
    assert clf.plan(X[:1000], y[:1000]).seconds < plan.seconds
    fixed = GPClassifier(1.0 * RBF(0.2), inference="laplace", n_neighbors=5, hyperparameters="fixed").plan(X, y)
    assert fixed.inferences == 1


@pytest.mark.parametrize("few", [300, 1100])  # under the dense prior, and with inducing inputs
def test_the_local_prior_is_planned_by_its_blocks_and_the_search_on_some_rows(monkeypatch, few):
    monkeypatch.setattr(local_plan, "ROWS", 150)
    monkeypatch.setattr(local_plan, "FEW", few)
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(3000, 5))
    y = (np.sin(9.0 * X[:, 0]) + 0.3 * rng.normal(size=3000) > 0).astype(int)
    settings = {"inference": "ep", "latent_prior": "local", "random_state": 0}
    plan = GPClassifier(1.0 * RBF(0.2), **settings).plan(X, y)
    assert plan.sizes == (150,)
    assert plan.inferences == 1
    assert plan.last > 0.0
    assert plan.memory < 0.1 * DENSE * 8.0 * 3000**2
    assert GPClassifier(1.0 * RBF(0.2), hyperparameters="fixed", **settings).plan(X, y).last == 0.0


@pytest.mark.parametrize("strategy", ["fixed", "maximize"])
def test_the_local_prior_is_planned_with_a_class_of_one_row(monkeypatch, strategy):
    monkeypatch.setattr(local_plan, "ROWS", 150)
    monkeypatch.setattr(local_plan, "FEW", 300)
    X = np.random.default_rng(0).uniform(size=(4000, 2))
    clf = GPClassifier(1.0 * RBF(0.2), inference="laplace", latent_prior="local", hyperparameters=strategy)
    assert clf.plan(X, np.where(np.arange(4000) == 3999, "rare", "other")).seconds > 0.0


def test_draws_that_predictions_make_are_no_part_of_the_fit():
    X, y = make_moons(40, noise=0.3, random_state=0)
    plan = GPClassifier(RBF(), inference="local-exact", hyperparameters="fixed").plan(X, y, budget=0.02)
    assert plan.inferences == 1
    assert plan.last == 0.0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", [{}, {"n_inducing": 5}, {"n_neighbors": 5}])
def test_rows_of_one_class_with_the_classes_named(form):
    X, y = make_moons(60, noise=0.3, random_state=0)[0], np.full(60, "a")
    clf = GPClassifier(RBF(1.0), inference="laplace", hyperparameters="fixed", **form)
    with pytest.raises(ValueError, match=r"classes=\[\.\.\.\]"):
        clf.plan(X, y, budget=0.01)
    assert clf.plan(X, y, budget=0.01, classes=["a", "b"]).seconds > 0.0
