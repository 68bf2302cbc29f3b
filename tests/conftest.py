"""Problems that several tests share."""

import hypothesis
import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from gpclass.hyper import full_bayes, hmc, loo, moves
from gpclass.likelihoods import get_likelihood
from gpclass.model.problem import Problem
from gpclass.plots import maps

# The same examples in every run, however long each takes.
hypothesis.settings.register_profile("same", derandomize=True, deadline=None)
hypothesis.settings.load_profile("same")


@pytest.fixture
def rng():
    return np.random.default_rng(20201229)


@pytest.fixture
def coarse_maps(monkeypatch):
    """Maps of a report on 15 by 15 points: what is on the page does not depend on how fine they are."""
    for drawn in (maps.decision_map, maps.uncertainty_map, maps.difference_map):
        monkeypatch.setitem(drawn.__kwdefaults__, "resolution", 15)


@pytest.fixture
def brief_ends(monkeypatch):
    """Little of what is done before and after all chains over θ have drawn: it takes most of a brief run."""
    monkeypatch.setattr(moves, "EXPLORED", 10)
    monkeypatch.setattr(full_bayes, "REPEATS", 2)
    monkeypatch.setattr(loo, "MOST", 2)


@pytest.fixture
def brief_chains(brief_ends, monkeypatch):
    """Short trajectories as well; chains in other processes do not see it."""
    monkeypatch.setattr(moves, "REPEATS", 1)
    for module in (moves, hmc):
        monkeypatch.setattr(module, "MOST_STEPS", 5)


def make_problem(n=30, d=2, likelihood="probit", kernel=None, seed=0, weights=None):
    """A small two-class problem with a smooth truth and label noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.where(X[:, 0] + 0.5 * np.sin(3 * X[:, -1]) + 0.4 * rng.standard_normal(n) > 0, 1.0, -1.0)
    kernel = 2.0 * RBF(1.2) if kernel is None else kernel
    return Problem.of(X, y, kernel, get_likelihood(likelihood), weights)
