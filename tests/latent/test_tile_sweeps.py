"""What sweeps over tiles ask for, when they end, and what threads that predict share."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from gpclass.inference import EP
from gpclass.inference.ep import RULE
from gpclass.latent import tiled_gaussian
from gpclass.latent.neighbours import Neighbours
from gpclass.latent.tiles import TiledPrior
from gpclass.likelihoods import Probit
from gpclass.predict import predict_proba
from tests.latent.cases import NEW, problem
from tests.latent.test_tiles import ALL, POINTS, of


def test_the_determinant_takes_one_pass(monkeypatch):
    asked, original = [], TiledPrior.map

    def watched(prior, work, *arguments, some=None):
        asked.append(work.__name__)
        return original(prior, work, *arguments, some=some)

    monkeypatch.setattr(TiledPrior, "map", watched)
    tiled = EP(tol=1e-9)(of(Neighbours(8, tile=900, halo=ALL)))
    assert asked.count("ahead") + asked.count("moments") == tiled.report.iterations > 3
    assert asked.count("determinant") == 1


def test_tiles_whose_sites_stay_are_not_visited_again(monkeypatch):
    """Sites of one corner change: the tiles that hold none of its rows keep their variances, which are the same."""
    here = of(Neighbours(8, tile=300, halo=4.0))
    held, q = here.prior.begin(RULE)
    swept = q.roughly(1e-6, RULE).sweep(held, RULE, 1.0, 0)
    then = swept.gaussian.seen.numbers
    (shard,), numbers = held, held[0].kept.copy()
    corner = np.all(here.X < 0.2, axis=1)
    numbers[:, corner] *= 1.1
    moved = (shard.with_values(numbers),)
    after = swept.gaussian.beside(moved, RULE)
    due = after._due(numbers)
    assert due == [t for t, rows in enumerate(here.prior.layout.rows) if np.any(corner[rows])]
    assert 0 < len(due) < len(then)
    some = after.sweep(moved, RULE, 1.0, 0)
    monkeypatch.setattr(tiled_gaussian.TiledGaussian, "_due", lambda q, _: list(range(len(then))))
    every = swept.gaussian.beside(moved, RULE)
    all_of_them = every.sweep(moved, RULE, 1.0, 0)
    np.testing.assert_allclose(after.covariance, every.covariance, rtol=1e-10)
    np.testing.assert_array_equal(some.gaussian.seen.numbers[due[0]], numbers[:, here.prior.layout.rows[due[0]]])
    assert some.gaussian.seen.cov[due[0]].shape == all_of_them.gaussian.seen.cov[due[0]].shape


def test_sites_are_found_to_a_share_of_the_error_of_the_halo(monkeypatch):
    """Far below what the halo leaves, in fewer sweeps; halos without error leave the tolerance as it is."""
    narrow = EP(tol=1e-9)(of(Neighbours(8, tile=900, halo=4.0)))
    assert narrow.gaussian.finest > 1e-6
    monkeypatch.setattr(tiled_gaussian, "OF_HALO", 0.0)
    fine = EP(tol=1e-9)(of(Neighbours(8, tile=900, halo=4.0)))
    monkeypatch.undo()
    assert narrow.report.iterations < fine.report.iterations
    p, q = (predict_proba(one.latent(POINTS), Probit()).proba for one in (narrow, fine))
    assert np.max(np.abs(p - q)) < 1e-4
    assert EP()(of(Neighbours(8, tile=900, halo=ALL))).gaussian.finest < 1e-8


def test_threads_share_the_factors_that_predict(monkeypatch):
    """With memory for one factor, each thread removes those that the other has just seen."""
    gaussian = EP()(problem("ep", Neighbours(8, tile=40))).gaussian
    first = gaussian.latent(NEW)
    monkeypatch.setattr(tiled_gaussian, "available_memory", lambda: 0.0)
    gaussian.factors.clear()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            keys = [t % len(gaussian.prior.tiles) for t in range(40)]
            for found in [threads.submit(lambda: [gaussian._region([t]) for t in keys]) for _ in range(40)]:
                assert len(found.result()) == len(keys)
            again = list(threads.map(gaussian.latent, [NEW] * 8))
    finally:
        sys.setswitchinterval(interval)
    assert all(np.array_equal(one.covariances, first.covariances) for one in again)
    assert len(gaussian.factors) == 1
