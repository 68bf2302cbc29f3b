"""Stated errors of probabilities that few of the draws, or none, carry: near 0 and 1 they must hold too."""

import numpy as np
import pytest

from gpclass.likelihoods import Logit, MultinomialProbit, Probit, Softmax
from gpclass.numerics.groups import group_error
from gpclass.posterior import LatentMixture
from gpclass.predict import predict_proba, rare
from gpclass.predict.results import log_sum

S, SPREAD = 1000, 10.0  # draws of a latent value, and their standard deviation
MEANS = SPREAD * np.array([2.5, 3.0, 3.3, 3.6, 4.0])  # points at which p is 6e-3 to 4e-5: 6 to 0.04 draws carry it
RUNS = {Probit: 200, Logit: 50, MultinomialProbit: 100, Softmax: 50}  # by what they take


def draws(seed, tilt=0.0, L=1):
    """A mixture at the points of MEANS, of draws of f ~ N(mean, SPREAD²) around which f has variance 1.

    With a tilt they come from N(mean + tilt SPREAD, SPREAD²) instead, and have the weights that correct it. For L
    latent values f is the last.
    """
    z = np.random.default_rng(seed).standard_normal(S) + tilt
    w = np.exp(-tilt * z)
    means = np.zeros((S, len(MEANS), L))
    means[:, :, -1] = MEANS + SPREAD * z[:, None]
    covariances = np.zeros((1, len(MEANS), L, L))
    covariances[..., -1, -1] = 1.0
    return LatentMixture(w / w.sum(), means, covariances, np.arange(S))


def truth(likelihood, tilt, L):
    """The mean of the last class at the points, and the standard error of S draws of it, by a fine sum over f."""
    z = np.linspace(-9.0, 9.0, 20001)
    f = np.zeros((len(z), len(MEANS), L))
    f[:, :, -1] = MEANS + np.sqrt(SPREAD**2 + 1.0) * z[:, None]
    g, w = np.exp(likelihood.log_classes(f)[..., -1]), np.exp(-0.5 * z**2)
    w /= w.sum()
    return w @ g, np.sqrt(w * np.exp(0.5 * tilt**2 - tilt * z) @ (g - w @ g) ** 2 / S)


def covered(likelihood, tilt=0.0):
    """Share of the runs within two stated errors of the truth, and the median of these over the true one, (m,) each."""
    L = 3 if likelihood.many else 1
    found = [predict_proba(draws(seed, tilt, L), likelihood) for seed in range(RUNS[type(likelihood)])]
    p, mcse = (np.array([getattr(one, name)[:, -1] for one in found]) for name in ("proba", "mcse"))
    true, error = truth(likelihood, tilt, L)
    return np.mean(np.abs(p - true) < 2.0 * mcse, axis=0), np.median(mcse, axis=0) / error


def enough(likelihood):
    """0.955 for a normal error, less 2.5 standard errors of the share of so many runs."""
    return 0.955 - 2.5 * np.sqrt(0.955 * 0.045 / RUNS[type(likelihood)])


@pytest.mark.parametrize("tilt", [0.0, 0.3], ids=["even", "weighted"])
@pytest.mark.parametrize("likelihood", [Probit(), pytest.param(Logit(), marks=pytest.mark.slow)], ids=lambda v: v.name)
def test_two_stated_errors_hold_a_rare_class(likelihood, tilt):
    share, ratio = covered(likelihood, tilt)
    assert np.all(share >= enough(likelihood))
    assert np.all((ratio > 0.7) & (ratio < 5.0))  # and the error is no bound that says nothing


def test_without_the_unseen_draws_they_do_not(monkeypatch):
    monkeypatch.setattr(rare, "FEW", 0)
    assert np.all(covered(Probit())[0] < [enough(Probit()), 0.8, 0.6, 0.4, 0.2])


@pytest.mark.parametrize(
    "likelihood", [MultinomialProbit(), pytest.param(Softmax(), marks=pytest.mark.slow)], ids=lambda v: v.name
)
def test_and_a_class_of_many_that_is_nearly_sure(likelihood):
    assert np.all(covered(likelihood)[0] >= enough(likelihood))


@pytest.mark.parametrize("spread", [0.1, 1.0])
def test_what_many_draws_carry_has_the_error_of_their_groups(spread):
    rng = np.random.default_rng(0)
    f = np.linspace(-2.0, 2.0, 9) + spread * rng.standard_normal((S, 9))
    mixture = LatentMixture(np.full(S, 1 / S), f[:, :, None], np.ones((1, 9, 1, 1)), np.arange(S))
    g = np.exp(Probit().log_predictive(f, np.ones((1, 9)))[0])
    expected = group_error((g - g.mean(axis=0)) / S)
    np.testing.assert_allclose(predict_proba(mixture, Probit()).mcse[:, 1], expected, rtol=1e-9)


def test_nine_draws_are_no_tail():
    of = draws(0)
    few = LatentMixture(np.full(9, 1 / 9), of.means[:9], of.covariances, np.arange(9))
    g = np.exp(Probit().log_predictive(few.means[..., 0], few.covariances[..., 0, 0])[1])
    expected = group_error((g - g.mean(axis=0)) / 9)
    np.testing.assert_allclose(predict_proba(few, Probit()).mcse[:, 0], expected, rtol=1e-6, atol=1e-14)


@pytest.mark.parametrize("C", [2, 3])
def test_probabilities_of_zero_and_one(C):
    """No warning and no NaN where the draws' probabilities are 0 or 1 to the last digit."""
    f = np.zeros((S, 3, 1 if C == 2 else C))
    f[..., -1] = 60.0
    f[:4, 1, -1] = -60.0
    f[:, 2, -1] = 1e4
    covariances = np.broadcast_to(np.eye(f.shape[2]), (1, 3, *f.shape[2:] * 2))
    mixture = LatentMixture(np.full(S, 1 / S), f, covariances, np.arange(S))
    mcse = predict_proba(mixture, Probit() if C == 2 else MultinomialProbit()).mcse[:, -1]
    assert mcse[0] < 1e-100
    assert 1.9 / S < mcse[1] < 4.0 / S  # of four draws of one
    assert mcse[2] == 0.0


def test_rare_probabilities_are_summed_as_without_errors():
    """To the last bit: the points whose errors are looked at again are more than those summed in logs."""
    rng = np.random.default_rng(0)
    f = SPREAD * rng.standard_normal((200, 1)) + np.linspace(-40.0, 40.0, 60)
    log_w = np.log(rng.dirichlet(np.ones(200)))[:, None]
    mixture = LatentMixture(np.exp(log_w[:, 0]), f[:, :, None], np.ones((1, 60, 1, 1)), np.arange(200))
    found = predict_proba(mixture, Probit())
    least = np.flatnonzero(found.proba.min(axis=1) < 1e-4)
    _, minus = Probit().log_predictive(f[:, least], np.ones((1, 60))[:, least])
    assert 10 < len(least) < 60
    np.testing.assert_array_equal(found.log_proba[least, 0], np.minimum(log_sum(log_w + minus), 0.0))


@pytest.mark.parametrize("n", [3, 9, 15])
def test_one_draw_that_carries_all_of_few_is_no_tail(n):
    """Their number says nothing about draws that were not seen, and rounding decides nothing."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        w, log_g = rng.random(n), -60.0 * rng.random(n)
        share = (w * np.exp(log_g))[:, None]
        share[1:] *= 1e-17
        assert not rare.carried_by_few(share / share.sum()).any()
