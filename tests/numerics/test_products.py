"""Products of draws with new rows, in single precision, against double precision."""

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.gaussian_process.kernels import RBF

from gpclass.numerics import products
from gpclass.numerics.products import BASIS, MANY, Draws
from gpclass.numerics.rounded import EPSILON, LARGEST


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


def smooth(n=300, M=2000, seed=0):
    """Draws, covariances of near and of far new rows, and the covariance of the rows, which has low rank."""
    rng = np.random.default_rng(seed)
    X, new = rng.standard_normal((n, 2)), rng.standard_normal((60, 2))
    new[:20] *= 2.5
    kernel = 4.0 * RBF(1.0)
    w = rng.random(M)
    return 0.5 * rng.standard_normal((n, M)), w / w.sum(), kernel(X), kernel(X, new)


def test_fewer_rows_change_a_product_by_less_than_the_limit():
    A, w, K, k = smooth()
    draws = Draws(A, w, K)
    assert draws.pivots is not None
    assert len(draws.pivots) < 0.5 * len(K)
    off = draws.times(k) - Draws(A, w).times(k)
    size = np.sqrt(np.mean(off**2, axis=0))
    assert size.max() < 1.5 * BASIS / np.sqrt(A.shape[1])  # measured on some draws
    assert np.count_nonzero(size > 1e-6) > 20  # those that need few rows
    assert np.count_nonzero(size < 1e-6) > 0  # and those that do not
    z = Draws(A, w).times(k)
    assert np.abs(w @ (ndtr(z + off) - ndtr(z))).max() < 0.1 * size.max()


def test_a_rest_that_is_not_looked_at_is_too_large(monkeypatch):
    monkeypatch.setattr(products, "TIGHTER", 1e3)
    A, w, K, k = smooth()
    draws = Draws(A, w, K)
    kept = draws.times(k) - A.T @ k
    assert np.sqrt(np.mean(kept**2, axis=0)).max() < 1.5 * BASIS / np.sqrt(A.shape[1])
    draws.limit = np.inf
    lost = draws.times(k) - A.T @ k
    assert np.sqrt(np.mean(lost**2, axis=0)).max() > 10 * BASIS / np.sqrt(A.shape[1])


def test_rough_covariances_and_few_rows_keep_all_rows():
    A, w, K, _ = smooth()
    assert Draws(A, w, K + 0.1 * np.eye(len(K))).pivots is None
    assert Draws(A[:100], w, K[:100, :100]).pivots is None


def test_rounding_of_few_rows_is_looked_at():
    """Kriging weights of rows that nearly agree are large, and so may be what stands for the rows."""
    A, w, K, k = smooth()
    draws = Draws(A, w, K)
    exact = (A - (A @ w)[:, None]).T @ k
    bound = draws.rounding * np.abs(k).max()
    few = k[draws.pivots]
    off = few.astype(np.float32).T @ draws.few[:-1] - few.T @ draws.few[:-1].astype(float)
    assert 0.01 * bound < np.sqrt(np.mean(off**2)) < bound
    draws.rounding *= 2 * LARGEST / bound
    np.testing.assert_allclose(draws.times(k), exact + (A @ w) @ k, atol=1e-10)  # in double precision
