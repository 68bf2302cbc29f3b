"""Inverses of triangles by halves, and what a factor of sites keeps of them, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from gpclass.numerics import linalg
from gpclass.numerics.linalg import SiteFactor, gram, lower_inverse


def triangle(n, dtype=float):
    A = np.random.default_rng(n).standard_normal((n, n))
    return np.asfortranarray(np.linalg.cholesky(A @ A.T / n + np.eye(n)), dtype=dtype)


@pytest.mark.parametrize("n", [1, 2, 64, 65, 129, 300])
@pytest.mark.parametrize(("dtype", "rounding"), [(np.float64, 1e-13), (np.float32, 1e-4)])
def test_inverse_of_a_triangle(n, dtype, rounding):
    L = triangle(n, dtype)
    before = L.copy()
    V = lower_inverse(L)
    assert V.dtype == dtype
    np.testing.assert_array_equal(L, before)
    np.testing.assert_array_equal(V, np.tril(V))
    np.testing.assert_allclose(V @ L.astype(float), np.eye(n), atol=rounding)
    full = V.astype(float).T @ V
    np.testing.assert_allclose(gram(V), full, atol=rounding)
    again = lower_inverse(L, overwrite=True)
    assert np.shares_memory(again, L)
    np.testing.assert_allclose(again, np.linalg.inv(before.astype(float)), atol=rounding)


def test_many_rows_are_inverted_in_place(monkeypatch):
    L, by_halves = triangle(200), lower_inverse(triangle(200))
    monkeypatch.setattr(linalg, "MANY", 100)
    np.testing.assert_allclose(lower_inverse(L, overwrite=True), by_halves, atol=1e-13)


@pytest.mark.parametrize("few", [0, 400])
@pytest.mark.parametrize("leverage_first", [False, True])
def test_inverse_of_sites_after_their_leverage(few, leverage_first, monkeypatch):
    """The inverse of the factor that the leverage has left serves once, and the answers are those without it."""
    monkeypatch.setattr(linalg, "FEW", few)
    rng, n = np.random.default_rng(0), 150
    A = rng.standard_normal((n, n))
    K, t = A @ A.T / n, rng.random(n)
    R = np.linalg.inv(K + np.diag(1.0 / t))
    site = SiteFactor(K, t)
    if leverage_first:
        np.testing.assert_allclose(site.leverage, 1.0 - np.diag(R) / t, atol=1e-12)
    written = np.empty((n, n))
    for found in (site.inverse, site.inverse, site.write_inverse(written), written):
        np.testing.assert_allclose(found, R, atol=1e-12)
    assert site.inverse.flags.f_contiguous
    np.testing.assert_allclose(site.leverage, 1.0 - np.diag(R) / t, atol=1e-12)
