"""Logistic averages in single precision, against quadrature."""

import numpy as np
import pytest
from scipy.special import expit

from gpclass.numerics import fast_logistic
from gpclass.numerics.fast_logistic import logistic_average
from gpclass.numerics.special import logistic_normal

GRID = np.linspace(-40, 40, 20_001)


def test_logistic_function():
    got = logistic_average(GRID, np.zeros(1))
    assert np.abs(got - expit(GRID)).max() < 3e-7


@pytest.mark.parametrize("var", [0.1, 3.0, 80.0])
def test_averages(var):
    truth = np.exp(logistic_normal(GRID, var)[0])
    got = logistic_average(GRID, np.full(1, var))
    assert np.abs(got - truth).max() < 3e-7


@pytest.mark.parametrize(("centre", "var"), [(-11.3, 0.1), (-8.0, 0.1), (-12.5, 3.0), (-37.0, 80.0)])
def test_sums_of_small_averages_keep_three_digits(centre, var):
    """Down to 1e-5, below which predictions sum in logs."""
    x = centre + 0.3 * np.random.default_rng(0).standard_normal(20_000)
    truth = np.exp(logistic_normal(x, var)[0]).mean()
    assert truth > 1e-5
    np.testing.assert_allclose(logistic_average(x, np.full(1, var)).astype(float).mean(), truth, rtol=1e-3)


def test_a_wrong_weight_is_noticed(monkeypatch):
    monkeypatch.setattr(fast_logistic, "SLOPES", tuple(1.0001 * s for s in fast_logistic.SLOPES))
    assert np.abs(logistic_average(GRID, np.zeros(1)) - expit(GRID)).max() > 3e-7
