"""Products of draws with new rows, in single precision, against double precision."""

import numpy as np
import pytest

from gpclass.numerics.products import EPSILON, LARGEST, MANY, Draws


def draws(M=2000, n=300, seed=0):
    rng = np.random.default_rng(seed)
    A = 3.0 + rng.standard_normal((n, M))  # far from zero, which the centre takes out
    w = rng.random(M)
    return A, w / w.sum(), rng.standard_normal((n, 40))


def test_single_precision_is_below_what_is_promised():
    A, w, k = draws()
    got = Draws(A, w).times(k)
    assert got.dtype == np.float32
    off = got - A.T @ k
    assert np.abs(off).max() < 3 * LARGEST
    mean = (A @ w) @ k
    assert np.all(np.abs(w @ off) < 1e-6 + EPSILON * np.abs(mean))
    near = np.abs(mean) < 5.0
    assert near.any()
    assert np.abs(w @ off)[near].max() < 1e-6


def test_large_covariances_and_few_draws_stay_in_double_precision():
    A, w, k = draws()
    np.testing.assert_allclose(Draws(A, w).times(1e4 * k), 1e4 * (A.T @ k), rtol=1e-12, atol=1e-8)
    few = A[:, : MANY - 1]
    assert Draws(few, w[: MANY - 1]).times(k).dtype == np.float64


def test_the_centre_matters():
    """Without it, rounding would be that of the mean as well."""
    A, _, k = draws()
    plain = (k.astype(np.float32).T @ (A + 300).astype(np.float32)).T
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(plain, (A + 300).T @ k, atol=3 * LARGEST)
