"""A factor of f is the average of the factor of the noisy value."""

import numpy as np
import pytest
from scipy.special import log_expit, log_ndtr

from gpclass.likelihoods import Logit, Probit
from gpclass.likelihoods.noisy_logit import kolmogorov_density

LOG = {Probit: log_ndtr, Logit: log_expit}


def averaged(likelihood, weight, u):
    """Log of ∫ N(v; u, noise) g(v) dv in units of s f, by the trapezoidal rule about the integrand's mode."""
    split = likelihood.split(np.ones(1), np.array([weight]))
    link, sd = split.links[split.kind[0]], likelihood.scale / np.sqrt(split.precision[0])
    z = np.linspace(-9, 9, 2001) + sd * link.slopes(u, weight)[0][:, None]
    log_f = link.log(u[:, None] + sd * z, weight) - 0.5 * z**2
    top = log_f.max(axis=1, keepdims=True)
    return np.log(np.sum(np.exp(log_f - top), axis=1) * 18 / 2000 / np.sqrt(2 * np.pi)) + top[:, 0]


def test_logit_of_weight_one():
    u = np.linspace(-50, 50, 101)
    np.testing.assert_allclose(averaged(Logit(1.7), 1.0, u), log_expit(u), atol=2e-8)


def test_probit_of_weight_one_is_noise_and_a_step():
    split = Probit(0.7).split(np.ones(3), None)
    assert np.all(split.kind < 0)
    np.testing.assert_allclose(split.precision, 0.49)


@pytest.mark.parametrize("link", [Probit, Logit])
@pytest.mark.parametrize("weight", [0.05, 0.5, 0.999, 2.5, 1e4])
def test_powers(link, weight):
    u = np.linspace(-5, 8, 27)
    gap = averaged(link(), weight, u) - weight * LOG[link](u)
    assert np.max(np.abs(gap)) < 2e-6 * max(1.0, weight)


def test_powers_without_the_correction_are_off():
    """Negative control."""
    u = np.linspace(-2, 2, 9)
    gap = averaged(Probit(), 0.5, u) - 0.4999 * log_ndtr(u)
    assert np.max(np.abs(gap)) > 2e-5


def test_kolmogorovs_density():
    k = np.linspace(0.2, 4, 20_001)
    step = k[1] - k[0]
    assert abs(np.sum(kolmogorov_density(k)) * step - 1) < 1e-6
    mean = np.sqrt(np.pi / 2) * np.log(2)
    np.testing.assert_allclose(np.sum(k * kolmogorov_density(k)) * step, mean, atol=1e-6)
