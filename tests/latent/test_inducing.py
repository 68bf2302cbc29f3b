"""How many inducing inputs ``n_inducing="auto"`` takes, and what the report says about it."""

import numpy as np
import pytest
from scipy.linalg import lapack
from sklearn.gaussian_process.kernels import Matern

from gpclass import GPClassifier
from gpclass.latent import inducing
from gpclass.latent.inducing import LABEL, LEFT, because, choose_inducing, most_inducing
from gpclass.model.rows import ArraySource

KERNEL = 4.0 * Matern(0.3, nu=1.5)


def places(n, d=2):
    return np.random.default_rng(0).uniform(size=(n, d))


def auto(X, kernel=KERNEL, latents=1):
    source = ArraySource(X, np.ones(len(X)))
    return len(choose_inducing(source, kernel, None, "random", np.random.default_rng(0), latents))


def test_as_many_as_the_rows_can_tell_apart(monkeypatch):
    monkeypatch.setattr(inducing, "LEFT", 1.0)  # by the rows alone
    X = np.unique(places(800), axis=0)  # in the order in which ties are broken
    kernel = 4.0 * Matern(0.1, nu=1.5)
    K = kernel(X)
    C, pivots, *_ = lapack.dpstrf(K, lower=1)
    C, order = np.tril(C), pivots - 1
    left = [np.sum(np.diag(K)[order] - np.sum(C[:, :m] ** 2, axis=1)) / (800 - m) for m in range(400)]
    wanted = next(m for m in range(50, 400) if left[m] < LABEL * m / 800)
    assert 50 < wanted == auto(X, kernel)


def test_one_per_cent_of_the_prior_variance_is_left_by_the_usual_number():
    X = places(500)
    m = auto(X)
    C, *_ = lapack.dpstrf(KERNEL(X), lower=1)
    assert np.sum(np.tril(C)[:, :m] ** 2) > (1.0 - LEFT) * 4.0 * 500
    assert m < 200


def test_more_rows_more_detail_and_more_columns_take_more(monkeypatch):
    monkeypatch.setattr(inducing, "LOOKED_AT", 800)
    few = auto(places(2000))
    assert few < auto(places(40_000))
    assert few < auto(places(2000), 4.0 * Matern(0.15, nu=1.5))
    assert few < auto(places(2000, 3))


def test_an_hour_and_memory_limit_them(monkeypatch):
    X, hour = places(1000), "as many as about an hour allows"
    assert most_inducing(1000) == (500, "one for 20 rows")
    assert auto(X) < 500
    monkeypatch.setattr(inducing, "HOUR", 1000 * 60.0**2)
    assert most_inducing(1000) == (60, hour)
    assert auto(X) == 60
    assert because(60, 1000, 1) == hour
    assert most_inducing(1000, latents=3) == (50, hour)
    monkeypatch.setattr(inducing, "available_memory", lambda: 32.0 * 55**2 / inducing.ROOM)
    assert most_inducing(1000) == (55, "as many as memory allows")


@pytest.mark.filterwarnings("ignore:probabilities under")
def test_the_report_says_why_so_many():
    X = places(150)
    y = X[:, 0] > 0.5
    settings = {"inference": "laplace", "hyperparameters": "fixed"}
    details = GPClassifier(KERNEL, n_inducing="auto", **settings).fit(X, y).fit_report_.details
    assert details["n_inducing_because"] == "where they were placed, 150 rows tell nothing about what they leave"
    assert "n_inducing_because" not in GPClassifier(KERNEL, n_inducing=20, **settings).fit(X, y).fit_report_.details


def test_a_constant_column_does_not_hide_the_others_from_the_clusters():
    """Its computed deviation is a rounding error: divided by it, the distances of all other columns were lost."""
    X = np.c_[places(500), np.full(500, -0.0437)]
    assert X.std(axis=0)[2] > 0
    Z = choose_inducing(ArraySource(X, np.ones(500)), Matern(0.3), 25, "kmeans", np.random.default_rng(0))
    nearest = np.sqrt(np.square(X[:, None, :] - Z).sum(axis=2).min(axis=1))
    assert nearest.mean() < 0.1  # 25 squares of width 0.2
    assert np.allclose(Z[:, 2], -0.0437)
