"""Normal numbers in single precision."""

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import kstest

from gpclass.numerics.normals import single_normals


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_every_place_is_filled(size):
    out = np.full(size, np.nan, np.float32)
    assert single_normals(np.random.default_rng(0), out) is out
    assert np.isfinite(out).all()


@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.MT19937])  # of 64 and of 32 bits
def test_they_are_standard_normal(bits):
    z = single_normals(np.random.Generator(bits(1)), np.empty(2_000_001, np.float32)).astype(float)
    N = len(z)
    assert kstest(z, "norm").pvalue > 0.01
    for power, moment, variance in ((1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)):
        assert abs(np.mean(z**power) - moment) < 3 * np.sqrt(variance / N)
    for limit in (-4.0, -3.0, 0.0, 3.0, 4.0):
        p = ndtr(limit)
        assert abs(np.mean(z < limit) - p) < 3 * np.sqrt(p * (1 - p) / N)


def test_those_of_a_pair_are_independent():
    z = single_normals(np.random.default_rng(2), np.empty(1_000_000, np.float32)).astype(float)
    a, b = z[:500_000], z[500_000:]  # cosine and sine of the same angle and radius
    for f, g in ((a, b), (a**2 - 1, b**2 - 1), (a, b**2 - 1), (a[1:], a[:-1])):
        assert abs(np.mean(f * g)) < 3.5 * np.std(f * g) / np.sqrt(len(f))


def test_tails_are_reached_and_finite():
    class Bits:
        """A generator whose bits are all zero."""

        def integers(self, high, size, dtype):
            return np.zeros(size, dtype)

    z = single_normals(Bits(), np.empty(2, np.float32))
    assert 6.5 < z[0] < 7.0
