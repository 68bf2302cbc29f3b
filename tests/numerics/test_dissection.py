"""Sparse factors by nested dissection against dense ones."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from gpclass.numerics import dissection
from gpclass.numerics.dissection import Dissection, SparseFactor, fewest_rows
from gpclass.numerics.linalg import NotPositiveDefiniteError


def problem(n, L, seed=0, reach=0.12):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    pairs = cKDTree(X).query_pairs(reach, output_type="ndarray")
    i, j = np.concatenate([np.sort(pairs)[:, ::-1], np.repeat(np.arange(n), 2).reshape(-1, 2)]).T
    Q = [np.where(i == j, 4.0 + rng.uniform(size=len(i)), 0.1 * rng.normal(size=len(i))) for _ in range(L)]
    root = rng.normal(size=(n, L, L))
    W = root @ root.transpose(0, 2, 1)
    S = np.zeros((n, L, n, L))
    for c in range(L):
        S[i, c, j, c] = S[j, c, i, c] = Q[c]
    S[np.arange(n), :, np.arange(n), :] += W
    return X, i, j, Q, W, S.reshape(n * L, -1)


@pytest.mark.parametrize(("n", "L"), [(400, 1), (250, 3), (60, 2)])
def test_a_sparse_factor_is_the_dense_one(n, L):
    X, i, j, Q, W, S = problem(n, L)
    tree = Dissection.of(i, j, X)
    assert len(tree.fronts) > 1 or n <= dissection.LEAF
    factor = SparseFactor(tree, Q, W)
    assert factor.half_log_det == pytest.approx(0.5 * np.linalg.slogdet(S)[1], rel=1e-12)
    rng = np.random.default_rng(1)
    b = rng.normal(size=(n, L, 2))
    assert np.allclose(factor.solve(b).reshape(n * L, 2), np.linalg.solve(S, b.reshape(n * L, 2)), atol=1e-12)
    inverse = np.linalg.inv(S).reshape(n, L, n, L)
    at_pairs, in_row = factor.inverse()
    for c in range(L):
        assert np.allclose(at_pairs[c], inverse[i, c, j, c], atol=1e-12)
    assert np.allclose(in_row, inverse[np.arange(n), :, np.arange(n), :], atol=1e-12)
    rows = np.stack([rng.choice(n, 5, replace=False) for _ in range(150)])
    w = [rng.normal(size=(150, 5)) for _ in range(L)]
    found = factor.quadratic(rows, w)
    for a in range(L):
        for b_ in range(L):
            block = inverse[rows[:, :, None], a, rows[:, None, :], b_]
            assert np.allclose(found[:, a, b_], np.einsum("pk,pkl,pl->p", w[a], block, w[b_]), atol=1e-12)


@pytest.mark.parametrize("L", [1, 2])
def test_the_fronts_of_some_rows_are_those_of_their_own_matrix(L):
    n = 600
    X, i, j, Q, W, S = problem(n, L, reach=0.08)
    tree = Dissection.of(i, j, X)
    for some in (X[:, 0] < 0.4, np.abs(X[:, 1] - 0.5) > 0.3, np.arange(n) % 3 > 0, np.arange(n) == 7):
        both = some[i] & some[j]
        within = tree.within(some, both)
        factor = SparseFactor(within, [q[both] for q in Q], W[some])
        part = S[np.ix_(np.repeat(some, L), np.repeat(some, L))]
        assert factor.half_log_det == pytest.approx(0.5 * np.linalg.slogdet(part)[1], rel=1e-12)
        inverse = np.linalg.inv(part).reshape(some.sum(), L, some.sum(), L)
        place = np.cumsum(some) - 1
        at = inverse[place[i[both]], 0, place[j[both]], 0]
        assert np.allclose(factor.inverse()[0][0], at, atol=1e-12)


def test_draws_have_the_covariance():
    X, i, j, Q, W, S = problem(130, 1)
    factor = SparseFactor(Dissection.of(i, j, X), Q, W)
    root = factor.backward(np.eye(130).reshape(130, 1, 130))[:, 0]
    assert np.allclose(root @ root.T, np.linalg.inv(S), atol=1e-12)


def test_rows_that_do_not_touch_and_rows_that_all_touch():
    X, n = np.random.default_rng(0).uniform(size=(300, 2)), 300
    alone = Dissection.of(np.arange(n), np.arange(n), X)
    factor = SparseFactor(alone, [np.full(n, 2.0)], np.ones((n, 1, 1)))
    assert factor.half_log_det == pytest.approx(0.5 * n * np.log(3.0))
    i, j = np.tril_indices(n)
    whole = Dissection.of(i, j, X)
    assert [len(front.own) for front in whole.fronts] == [n]
    assert whole.numbers == n**2


def test_a_matrix_that_is_not_positive_definite_is_refused():
    X, i, j, Q, W, _ = problem(150, 1)
    with pytest.raises(NotPositiveDefiniteError, match="not positive definite"):
        SparseFactor(Dissection.of(i, j, X), [-Q[0]], 0.0 * W)


def test_the_fill_grows_slowly_in_the_plane():
    numbers = []
    for n in (1000, 4000):
        X, i, j, *_ = *problem_pairs(n), None
        numbers.append(Dissection.of(i, j, X).numbers / n)
    assert numbers[1] < 2.0 * numbers[0]  # of a dense matrix four times as many per row


def test_separators_are_as_small_as_possible():
    rng = np.random.default_rng(0)
    for density in (0.05, 0.2, 0.5, 1.0):
        edges = rng.uniform(size=(6, 7)) < density
        rows, columns = fewest_rows(csr_array(edges))
        assert np.all(rows[:, None] | columns | ~edges)
        every = (np.arange(2**6)[:, None] >> np.arange(6)) & 1 == 1  # choices of rows; columns must hold the others
        fewest = min(some.sum() + edges[~some].any(axis=0).sum() for some in every)
        assert rows.sum() + columns.sum() == fewest


def test_sides_do_not_touch_and_boundaries_are_in_the_order_of_the_parent():
    X, i, j = problem_pairs(2000)
    tree = Dissection.of(i, j, X)
    above = [set() for _ in tree.fronts]
    for f in range(len(tree.fronts) - 1, -1, -1):
        parent = tree.fronts[f].parent
        above[f] = {f} | (above[parent] if parent >= 0 else set())
        assert np.all(np.diff(tree.fronts[f].up) > 0)
    for a, b in zip(tree.front_of[i], tree.front_of[j], strict=True):
        assert a in above[b] or b in above[a]


def problem_pairs(n):
    X = np.random.default_rng(0).uniform(size=(n, 2))
    near = cKDTree(X).query(X, 8)[1]
    pairs = np.unique(np.sort(np.column_stack([np.repeat(np.arange(n), 8), near.ravel()]), axis=1), axis=0)
    return X, pairs[:, 1], pairs[:, 0]
