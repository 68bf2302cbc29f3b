"""Few rows that stand for all, against the covariances of all."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern, WhiteKernel

from gpclass.numerics.pivoted import standing_for_all

TOL = 1e-4


def places(n=150, seed=0):
    return np.random.default_rng(seed).standard_normal((n, 2))


def test_what_is_left_is_a_covariance_of_at_most_tol():
    K = 3.0 * RBF(1.0)(places())
    P, C = standing_for_all(K, TOL)
    left = K - C.T @ K[P]
    assert 10 < len(P) < 100
    assert np.diag(left).max() <= TOL
    assert np.linalg.eigvalsh(0.5 * (left + left.T)).min() > -1e-10
    fewer = P[:-10]
    kriged = K[:, fewer] @ np.linalg.solve(K[np.ix_(fewer, fewer)], K[fewer])
    assert np.diag(K - kriged).max() > TOL  # fewer rows leave more


def test_weights_are_those_of_simple_kriging():
    X, new, kernel = places(), places(40, seed=1), 3.0 * RBF(1.0)
    K, k = kernel(X), kernel(X, new)
    P, C = standing_for_all(K, TOL)
    np.testing.assert_allclose(C, np.linalg.solve(K[np.ix_(P, P)], K[P]), atol=1e-7)
    np.testing.assert_array_equal(C[:, P], np.eye(len(P)))
    left = k - C.T @ k[P]
    own = kernel.diag(new) - np.einsum("ij,ij->j", k[P], np.linalg.solve(K[np.ix_(P, P)], k[P]))
    assert np.all(left**2 <= own * TOL + 1e-12)  # Cauchy and Schwarz


@pytest.mark.parametrize("kernel", [RBF(1.0) + WhiteKernel(0.1), Matern(0.1, nu=0.5)])
def test_rough_covariances_need_all_rows(kernel):
    assert len(standing_for_all(kernel(places()), TOL)[0]) == 150


def test_of_equal_rows_one_stands_for_all():
    X = np.repeat(places(20), 5, axis=0)
    assert len(standing_for_all(RBF(0.5)(X), 1e-8)[0]) <= 20
