"""Pivoted roots against the covariances that they stand for."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern, WhiteKernel

from gpclass.numerics.pivoted import pivoted_root

TOL = 1e-4


def places(n=150, seed=0):
    return np.random.default_rng(seed).standard_normal((n, 2))


def test_what_is_left_is_a_covariance_of_at_most_tol():
    K = 3.0 * RBF(1.0)(places())
    root, L = pivoted_root(K, TOL)
    left = K - L @ L.T
    assert 10 < root.rank < 100
    assert np.diag(left).max() <= TOL
    assert np.linalg.eigvalsh(left).min() > -1e-12
    assert np.diag(K - L[:, :-10] @ L[:, :-10].T).max() > TOL  # fewer columns leave more


def test_new_points_have_the_same_function_as_the_rows():
    X, new, kernel = places(), places(40, seed=1), 3.0 * RBF(1.0)
    root, L = pivoted_root(kernel(X), TOL)
    np.testing.assert_allclose(root.reduce(kernel(X)).T, L, atol=1e-8)
    left = kernel(X, new) - L @ root.reduce(kernel(X, new))
    own = kernel.diag(new) - np.square(root.reduce(kernel(X, new))).sum(axis=0)
    assert np.all(left**2 <= own * TOL + 1e-12)  # Cauchy and Schwarz


@pytest.mark.parametrize("kernel", [RBF(1.0) + WhiteKernel(0.1), Matern(0.1, nu=0.5)])
def test_rough_covariances_have_all_columns(kernel):
    assert pivoted_root(kernel(places()), TOL)[0].rank == 150


def test_equal_rows_are_one_column():
    X = np.repeat(places(20), 5, axis=0)
    assert pivoted_root(RBF(0.5)(X), 1e-8)[0].rank <= 20
