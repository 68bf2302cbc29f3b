"""Temperatures in equal steps of the thermodynamic length: a closed form, unbiasedness, and what is gained."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from gpclass import GPClassifier, load_model
from gpclass.datasets import filippone_square
from gpclass.hyper import PseudoMarginal
from gpclass.inference import Annealed, annealed
from gpclass.inference.annealed import anneal, balanced, ladder
from gpclass.inference.around import target_around
from gpclass.inference.particles import Particles
from gpclass.kernels import filippone
from gpclass.likelihoods import Probit
from gpclass.model.problem import Problem


class Parabola:
    """q = N(0, 1) and r = −a ξ²/2, so that g_β = N(0, 1/(1 + aβ)) and sd_β[r] = a / (√2 (1 + aβ))."""

    dimension = 1

    def __init__(self, a: float) -> None:
        self.a = a

    def latents(self, xi):
        return xi

    def log_ratio(self, f):
        return -0.5 * self.a * f[:, 0] ** 2


def independent(target, state, rng, power):
    """Fresh draws from g_β."""
    return Particles.at(target, rng.standard_normal(state.xi.shape) / np.sqrt(1.0 + target.a * power))


def square(n: int, sigma: float = 20.0, tau: float = 0.255) -> Problem:
    data = filippone_square(n, random_state=0)
    y = np.where(np.asarray(data.y) == np.max(data.y), 1.0, -1.0)
    return Problem.of(np.asarray(data.X, dtype=float), y, filippone(sigma, tau), Probit())


def test_the_closed_form(monkeypatch):
    """The length up to β is log(1 + aβ)/√2: equal steps are 1 + aβ_j = (1 + a)^(j/s)."""
    monkeypatch.setattr(annealed, "PILOT", 40_000)
    a, s = 30.0, 12
    along = np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 200)])
    found = balanced(Parabola(a), along, np.random.default_rng(0), independent)
    truth = ((1.0 + a) ** (np.arange(201) / 200) - 1.0) / a
    np.testing.assert_allclose(found, truth, atol=2e-3)
    assert np.abs(along - truth).max() > 0.1  # the ladder it came from is another
    assert len(balanced(Parabola(a), ladder(100, s), np.random.default_rng(0), independent)) == len(ladder(100, s))


def test_a_constant_ratio_keeps_the_ladder():
    beta = ladder(100)
    np.testing.assert_array_equal(balanced(Parabola(0.0), beta, np.random.default_rng(0), independent), beta)


def test_the_mean_weight_is_unbiased():
    """A pilot of its own before each block of particles: the mean of the weights is the evidence."""
    problem = square(3, 2.0, 0.5)
    S = problem.y[:, None] * (problem.prior.K + np.eye(3)) * problem.y
    d = np.sqrt(np.diag(S))
    R = S / np.outer(d, d)
    truth = 1 / 8 + (np.arcsin(R[0, 1]) + np.arcsin(R[0, 2]) + np.arcsin(R[1, 2])) / (4 * np.pi)
    target, rng = target_around(problem, "prior"), np.random.default_rng(1)
    blocks = []
    for _ in range(100):
        beta = balanced(target, ladder(20, 6), rng)
        blocks.append(np.exp(anneal(target, beta, 200, rng)[1]).mean())
    assert abs(np.mean(blocks) - truth) < 4 * np.std(blocks, ddof=1) / np.sqrt(len(blocks))


@pytest.mark.parametrize("around", ["laplace", "prior"])
def test_less_noise_with_as_many_temperatures(around):
    """Weights vary less along the balanced ladder; the bound is far above the pilot's own noise."""
    target, beta = target_around(square(100), around), ladder(100)
    even = balanced(target, beta, np.random.default_rng(3))
    assert len(even) == len(beta)
    paper, ours = (anneal(target, b, 500, np.random.default_rng(4))[1].std() for b in (beta, even))
    assert ours < 0.9 * paper, (ours, paper)


def test_the_ladder_is_found_once_for_a_chain():
    problem = square(40)
    inference = Annealed(3, around="laplace", ladder="balanced").settled(problem)
    assert isinstance(inference.ladder, tuple)
    assert inference.settled(problem) is inference
    assert Annealed(3).settled(problem) == Annealed(3)
    assert inference(problem).report.iterations == len(inference.ladder) - 1


@pytest.mark.filterwarnings("ignore")
def test_in_a_chain_and_saved(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((25, 1))
    clf = GPClassifier(
        1.0 * RBF(1.0),
        inference=Annealed(4, ladder="balanced"),
        hyperparameters=PseudoMarginal(chains=1, warmup=10, discard=0, draws=10, proposal="walk"),
        random_state=0,
    ).fit(X, X[:, 0] > 0)
    clf.save(tmp_path / "model.gpc")
    np.testing.assert_array_equal(load_model(tmp_path / "model.gpc").predict_proba(X), clf.predict_proba(X))


@pytest.mark.parametrize("wrong", ["even", (0.0, 0.5), (0.1, 1.0), (0.0, 0.6, 0.5, 1.0), (1.0,)])
def test_invalid_ladders_are_refused(wrong):
    with pytest.raises(ValueError, match="ladder"):
        Annealed(ladder=wrong)


@pytest.mark.parametrize("kind", [list, np.array])
def test_temperatures_of_a_list_or_an_array(kind):
    given, kept = Annealed(5, ladder=kind([0, 0.5, 1])), Annealed(5, ladder=(0.0, 0.5, 1.0))
    assert given == kept
    assert hash(given) == hash(kept)
    problem = square(10)
    assert given.settled(problem) is given
    assert given(problem).report.iterations == 2


def test_a_given_ladder_has_its_length():
    with pytest.raises(ValueError, match="leave one out"):
        Annealed(ladder=(0.0, 0.5, 1.0), temperatures=10)
