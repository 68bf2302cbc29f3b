"""The papers' kernels against their formulas, and the column-choosing kernel against scikit-learn's rules."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from scipy.special import gamma, kv
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

from gpclass import kernels
from gpclass.covariance import compile_kernel
from gpclass.kernels import (
    On,
    at_theta,
    atiya,
    default_kernel,
    filippone,
    hyperparameters,
    linear,
    matern,
    on,
    parameter_names,
    williams_barber,
)

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(7, 3)), RNG.normal(size=(5, 3))
SQUARES = (X[:, None] - Z[None]) ** 2  # (7, 5, 3)
R2 = SQUARES.sum(axis=2)


def test_atiya_has_no_half():
    np.testing.assert_allclose(atiya(0.7, 2.5)(X, Z), 2.5 * np.exp(-R2 / 0.7**2), rtol=1e-13)
    kernel = atiya(2.0, 1.0, alpha_bounds=(0.1, 10.0), beta_bounds="fixed")
    np.testing.assert_allclose(np.exp(kernel.bounds), [[0.1 / 2**0.5, 10 / 2**0.5]])


def test_williams_barber():
    w = np.array([0.3, 1.0, 2.0])
    kernel = williams_barber(3, w=w, v0=1.7, v1=0.4)
    np.testing.assert_allclose(kernel(X, Z), 1.7 * np.exp(-0.5 * SQUARES @ w) + 0.4, rtol=1e-13)
    start = williams_barber(3)
    expected = np.exp(-0.5 * np.exp(-2.0) * R2) + 1.0  # log w = −2, log v0 = 0
    np.testing.assert_allclose(start(X, Z), expected, rtol=1e-13)
    assert parameter_names(start) == [
        "k1__k1__constant_value",
        "k1__k2__length_scale[0]",
        "k1__k2__length_scale[1]",
        "k1__k2__length_scale[2]",
        "k2__constant_value",
    ]
    bounds = np.exp(williams_barber(1, w_bounds=(0.01, 100.0)).bounds)
    np.testing.assert_allclose(bounds[1], [0.1, 10.0])


def test_filippone():
    np.testing.assert_allclose(filippone(20.0, 0.255)(X, Z), 20 * np.exp(-0.5 * R2 / 0.255**2), rtol=1e-12)
    tau = np.array([0.5, 1.0, 2.0])
    np.testing.assert_allclose(filippone(2.0, tau)(X, Z), 2 * np.exp(-0.5 * SQUARES @ tau**-2.0), rtol=1e-13)
    assert filippone(1.0, 2.0, n_features=3).n_dims == 4
    assert filippone(1.0, 2.0).n_dims == 2


@pytest.mark.parametrize("nu", [0.5, 1.2, 2.5])
def test_matern_with_sill_and_nugget(nu):
    kernel = matern(sill=2.0, length_scale=1.5, nu=nu, nugget=0.3)
    t = np.sqrt(2 * nu * R2) / 1.5
    expected = 1.7 * 2 ** (1 - nu) / gamma(nu) * t**nu * kv(nu, t)
    np.testing.assert_allclose(kernel(X, Z), expected, rtol=1e-12)
    np.testing.assert_allclose(kernel.diag(X), 2.0, rtol=1e-14)
    assert "noise_level" not in " ".join(parameter_names(matern()))


def test_linear():
    np.testing.assert_allclose(linear(2.0, 0.5)(X, Z), 2 * X @ Z.T + 0.5, rtol=1e-13)
    np.testing.assert_allclose(linear(2.0, 0.0)(X, Z), 2 * X @ Z.T, rtol=1e-13)
    assert parameter_names(linear()) == ["k1__k1__constant_value", "k2__constant_value"]
    np.testing.assert_allclose(linear().theta, [0.0, 0.0])


@pytest.mark.parametrize(
    "kernel",
    [atiya(), williams_barber(3), filippone(n_features=3), matern(nugget=0.1), linear(), default_kernel(X)],
    ids=["atiya", "williams_barber", "filippone", "matern", "linear", "default"],
)
def test_constructors_give_kernels_of_both_worlds(kernel):
    assert isinstance(kernel, sk.Kernel)
    assert clone(kernel) == kernel
    assert compile_kernel(kernel).fast
    np.testing.assert_allclose(compile_kernel(kernel)(X), kernel(X), rtol=1e-12, atol=1e-14)
    assert len(parameter_names(kernel)) == kernel.n_dims
    assert np.all(kernel.bounds[:, 0] <= kernel.theta)
    assert np.all(kernel.theta <= kernel.bounds[:, 1])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: atiya(-1.0, 1.0), "alpha"),
        (lambda: filippone(1.0, 0.0), "tau"),
        (lambda: williams_barber(2, v1=0.0), "v1"),
        (lambda: matern(sill=1.0, nugget=1.0), "below the sill"),
        (lambda: matern(nu=0.0), "nu"),
        (lambda: linear(0.0), "variance"),
        (lambda: linear(1.0, -1.0), "bias"),
        (lambda: default_kernel(np.zeros(3)), "reshape"),
    ],
)
def test_senseless_values_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


# --- the default


def test_default_kernel_starts_at_the_median_distance():
    points = RNG.normal(size=(50, 4)) * 100
    kernel = default_kernel(points)
    i, j = np.triu_indices(50, 1)
    median = np.median(np.linalg.norm(points[i] - points[j], axis=1))
    np.testing.assert_allclose(kernel.k1.k2.length_scale, median, rtol=1e-12)
    assert parameter_names(kernel) == ["k1__k1__constant_value", "k1__k2__length_scale", "k2__constant_value"]
    # other units, same kernel
    np.testing.assert_allclose(default_kernel(points / 1e9)(points / 1e9), kernel(points), rtol=1e-9)


def test_default_kernel_of_many_rows_uses_a_part_of_them():
    points = RNG.normal(size=(5000, 2))
    whole = np.median(np.linalg.norm(points[::2] - points[1::2], axis=1))
    assert abs(default_kernel(points).k1.k2.length_scale / whole - 1) < 0.1
    assert default_kernel(points) == default_kernel(points)


@pytest.mark.parametrize(
    "points",
    [np.ones((6, 2)), np.zeros((1, 3)), np.r_[np.zeros((50, 1)), np.ones((1, 1))], np.full((4, 1), 1e300)],
    ids=["same", "one", "mostly-same", "huge"],
)
def test_default_kernel_survives_points_without_distances(points):
    kernel = default_kernel(points)
    assert kernel.k1.k2.length_scale == 1.0
    assert np.all(np.isfinite(kernel.bounds))


# --- columns


def test_on_is_the_kernel_of_those_columns():
    kernel = on(sk.RBF([0.5, 2.0]), [2, 0])
    np.testing.assert_array_equal(kernel(X, Z), sk.RBF([0.5, 2.0])(X[:, [2, 0]], Z[:, [2, 0]]))
    np.testing.assert_array_equal(kernel.diag(X), np.ones(len(X)))
    K, dK = kernel(X, eval_gradient=True)
    expected, d_expected = sk.RBF([0.5, 2.0])(X[:, [2, 0]], eval_gradient=True)
    np.testing.assert_array_equal(K, expected)
    np.testing.assert_array_equal(dK, d_expected)
    assert kernel.is_stationary()
    assert not on(sk.DotProduct(), 0).is_stationary()
    assert kernel.requires_vector_input


@pytest.mark.parametrize(
    "columns",
    [[0, 2], (0, 2), np.array([0, 2]), slice(0, 3, 2), range(0, 3, 2), np.array([True, False, True])],
)
def test_columns_may_be_said_in_many_ways(columns):
    assert on(sk.RBF(), columns) == on(sk.RBF(), (0, 2))
    assert on(sk.RBF(), columns).columns == (0, 2)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("age", "get_indexer"),
        (["age", "height"], "get_indexer"),
        (slice(1, None), "needs an end"),
        (slice(-3, -1), "needs an end"),
        ([0, 0], "distinct"),
        (-1, "counted from 0"),
        ([], "one or more"),
        ([0.5], "whole numbers"),
        ([[0, 1]], "one or more"),
    ],
)
def test_unclear_columns_are_refused(columns, words):
    with pytest.raises(ValueError, match=words):
        on(sk.RBF(), columns)


def test_on_refuses_what_is_no_kernel_and_missing_columns():
    with pytest.raises(TypeError, match="scikit-learn kernel"):
        on("rbf", 0)
    with pytest.raises(ValueError, match="column 3"):
        on(sk.RBF(), 3)(X)


def test_on_keeps_scikit_learns_rules():
    kernel = on(sk.ConstantKernel(2.0, "fixed") * sk.RBF([1.0, 3.0], (0.1, 9.0)), (1, 2))
    copy = clone(kernel)
    assert copy == kernel
    assert copy is not kernel
    assert copy.kernel is not kernel.kernel
    np.testing.assert_allclose(kernel.theta, np.log([1.0, 3.0]))
    np.testing.assert_allclose(np.exp(kernel.bounds), [[0.1, 9.0]] * 2)
    moved = kernel.clone_with_theta(np.log([2.0, 5.0]))
    np.testing.assert_allclose(moved.get_params()["kernel__k2__length_scale"], [2.0, 5.0])
    np.testing.assert_allclose(kernel.theta, np.log([1.0, 3.0]))
    kernel.set_params(kernel__k2__length_scale=[4.0, 4.0], columns=(0, 1))
    assert kernel.columns == (0, 1)
    np.testing.assert_allclose(kernel.theta, np.log([4.0, 4.0]))
    assert copy != kernel
    assert copy != kernel.kernel
    assert parameter_names(kernel) == ["kernel__k2__length_scale[0]", "kernel__k2__length_scale[1]"]
    assert repr(on(sk.RBF(), 1)) == "On(RBF(length_scale=1), columns=[1])"
    both = sk.ConstantKernel(1.0) + kernel
    assert parameter_names(both)[1] == "k2__kernel__k2__length_scale[0]"


@pytest.mark.filterwarnings("ignore:lbfgs failed to converge")
def test_on_works_in_scikit_learns_own_regression():
    rng = np.random.default_rng(1)
    inputs = rng.uniform(-2, 2, size=(60, 3))
    y = np.sin(3 * inputs[:, 0]) + inputs[:, 1] ** 2
    kernel = on(sk.RBF(), 0) + sk.ConstantKernel(1.0, (1e-3, 1e9)) * on(sk.RBF(), 1)
    model = GaussianProcessRegressor(kernel, alpha=1e-6, normalize_y=True).fit(inputs[:40], y[:40])
    assert isinstance(model.kernel_.k1, On)
    assert model.score(inputs[40:], y[40:]) > 0.99  # the third column is noise to any kernel that sees it


def test_additive_kernel_has_no_interaction():
    """Second differences across columns vanish for a sum; for a product they are products of differences."""
    additive = on(sk.RBF(), 0) + on(sk.RBF(), 1)
    interaction = additive + on(sk.RBF(), 0) * on(sk.RBF(), 1)

    def cross(kernel):
        corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
        k = kernel(corners, np.array([[0.3, -0.2]]))[:, 0]
        return k[0] - k[1] - k[2] + k[3]

    assert abs(cross(additive)) < 1e-15
    expected = (np.exp(-0.5 * 0.3**2) - np.exp(-0.5 * 0.7**2)) * (np.exp(-0.5 * 0.2**2) - np.exp(-0.5 * 1.2**2))
    np.testing.assert_allclose(cross(interaction), expected, rtol=1e-13)


def test_examples_in_the_docstrings():
    assert doctest.testmod(kernels).failed == 0
    assert doctest.testmod(kernels).attempted > 0


KINDS = [
    2.0 * sk.RBF(1.3),
    sk.ConstantKernel(2.0, "fixed") * sk.RBF([0.5, 1.5, 2.5]) + sk.WhiteKernel(0.3),
    sk.RBF([0.5, 1.5, 2.5], "fixed") + sk.DotProduct(0.7),
    (sk.Matern(1.2, nu=2.5) * sk.RationalQuadratic(1.1, 0.7)) ** 2,
    on(sk.RBF([1.0, 2.0]), [2, 0]) + on(sk.Matern(), 1),
    1.5 * sk.ExpSineSquared(1.2, 2.3) * sk.RBF(0.9),
    sk.ConstantKernel(2.0, "fixed") * sk.RBF(1.0, "fixed"),
]


@pytest.mark.parametrize("kernel", KINDS, ids=str)
def test_kernel_at_theta_is_scikit_learns_clone(kernel):
    before, theta = kernel.theta.copy(), kernel.theta + np.linspace(-0.5, 0.7, kernel.n_dims)
    ours, theirs = at_theta(kernel, theta), kernel.clone_with_theta(theta)
    assert ours == theirs
    assert repr(ours) == repr(theirs)
    np.testing.assert_array_equal(ours.bounds, theirs.bounds)
    np.testing.assert_array_equal(ours(X), theirs(X))
    np.testing.assert_array_equal(kernel.theta, before)  # the kernel itself has not moved
    assert [h.name for h in hyperparameters(ours)] == [h.name for h in ours.hyperparameters]
    with pytest.raises(ValueError, match="free parameters"):
        at_theta(kernel, np.append(theta, 0.0))
