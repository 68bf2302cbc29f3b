"""Groups of new points share the rows that their points would choose alone."""

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct

from gpclass.inference.local_rows import LARGEST, SHARED, groups, most_correlated
from gpclass.likelihoods import get_likelihood
from gpclass.model.problem import Problem


def problem(n, d, length=0.3, constant=0.0):
    X = np.random.default_rng(0).uniform(size=(n, d))
    kernel = 2.0 * RBF(length) + ConstantKernel(constant) if constant else 2.0 * RBF(length)
    return Problem.of(X, np.where(X[:, 0] > 0.5, 1, -1), kernel, get_likelihood("probit"))


def test_the_most_correlated_rows_are_the_nearest_to_any_point():
    p = problem(200, 2, constant=3.0)
    points = np.array([[0.2, 0.2], [0.8, 0.7]])
    chosen = most_correlated(p, p.X, points, 30)
    distance = np.linalg.norm(p.X[:, None] - points, axis=2).min(axis=1)
    assert np.array_equal(chosen, np.argsort(distance)[:30])
    assert len(most_correlated(p, p.X, points, 500)) == 200


def test_cells_of_a_map_share_their_rows():
    p = problem(2000, 2)
    grid = np.stack(np.meshgrid(*2 * [np.linspace(0.0, 1.0, 40)]), axis=-1).reshape(-1, 2)
    found = groups(p, p.X, grid, 200)
    assert np.array_equal(np.sort(np.concatenate(found)), np.arange(len(grid)))
    assert max(map(len, found)) <= LARGEST
    assert len(found) < len(grid) / 10
    for points in found[::5]:
        taken = most_correlated(p, p.X, grid[points], 200)
        for x in grid[points]:
            own = most_correlated(p, p.X, x[None], 100)
            assert np.isin(own, taken).mean() > SHARED - 0.1  # not all points of a group were looked at


def test_points_in_many_dimensions_are_smaller_groups():
    flat, deep = problem(500, 2), problem(500, 10)
    new = np.random.default_rng(1).uniform(size=(100, 10))
    few = groups(flat, flat.X, new[:, :2], 50)
    many = groups(deep, deep.X, new, 50)
    assert len(many) > 2 * len(few)
    assert len(groups(deep, deep.X, new, 500)) == 1  # all rows count everywhere


def test_a_point_of_large_variance_does_not_take_all_rows():
    X = np.random.default_rng(0).uniform(-3.0, 3.0, size=(100, 2))
    kernel = DotProduct(0.1) * RBF(1.0)
    p = Problem.of(X, np.where(X[:, 0] > 0.0, 1, -1), kernel, get_likelihood("probit"))
    points = np.array([[0.2, 0.1], [2.9, 2.9]])
    correlation = np.abs(kernel(X, points)) / np.sqrt(np.outer(kernel.diag(X), kernel.diag(points)))
    chosen = most_correlated(p, X, points, 20)
    assert np.array_equal(chosen, np.argsort(-correlation.max(axis=1))[:20])
    assert np.argmax(correlation[:, 0]) in chosen
