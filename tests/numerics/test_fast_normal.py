"""Φ in single precision, against SciPy's in double."""

import numpy as np
import pytest
from scipy.special import ndtr

from gpclass.numerics import fast_normal
from gpclass.numerics.fast_normal import normal_cdf, normal_cdf_scaled

GRID = np.linspace(-40, 40, 400_001)


def error():
    return np.abs(normal_cdf(GRID.astype(np.float32)).astype(float) - ndtr(GRID.astype(np.float32).astype(float))).max()


def test_error_is_below_what_is_promised():
    assert error() < 1.2e-7


@pytest.mark.parametrize("centre", [-4.3, -3.5, -2.0])
def test_averages_of_small_values_keep_three_digits(centre):
    """Down to 1e-5, below which predictions sum in logs."""
    x = (centre + 0.3 * np.random.default_rng(0).standard_normal(100_000)).astype(np.float32)
    true = ndtr(x.astype(float)).mean()
    assert true > 1e-5
    np.testing.assert_allclose(normal_cdf(x.copy()).astype(float).mean(), true, rtol=1e-3)


def test_a_wrong_coefficient_is_noticed(monkeypatch):
    monkeypatch.setattr(fast_normal, "COEFFICIENTS", fast_normal.COEFFICIENTS * np.float32(1 + 1e-5))
    assert error() > 2e-7


def test_infinite_and_very_large_arguments():
    with np.errstate(all="raise"):
        assert np.array_equal(normal_cdf(np.array([-np.inf, -1e30, 1e30, np.inf], dtype=np.float32)), [0, 0, 1, 1])


@pytest.mark.parametrize("order", ["C", "F"])
def test_columns_have_scales_of_their_own(order):
    rng = np.random.default_rng(0)
    x = np.asarray(rng.standard_normal((3000, 30)), dtype=np.float32, order=order)
    scale = rng.standard_normal(30).astype(np.float32)
    before = x.copy()
    np.testing.assert_allclose(normal_cdf_scaled(x, scale), ndtr(scale * x.astype(float)), atol=3e-7)
    assert np.array_equal(x, before)
    assert normal_cdf_scaled(x[:, :0], scale[:0]).shape == (3000, 0)
