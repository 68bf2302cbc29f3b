"""The compiled covariance against scikit-learn's own values and gradients, and against differences."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import kernels as sk

from gpclass import GPClassifier
from gpclass.covariance import Covariance, _bessel, _generic, _stationary, compile_kernel, compiled
from gpclass.covariance._tiles import TILE, tiles
from gpclass.kernels import On, on

D = 3


class Cauchy(sk.Kernel):
    """A user's kernel without a gradient: v Π_l 1/(1 + (x_l − z_l)²/a²), plus noise on the diagonal."""

    def __init__(self, v=1.0, a=4.0, noise=0.1, v_bounds=(1e-5, 1e5), a_bounds=(1e-5, 1e5)):
        self.v, self.a, self.noise, self.v_bounds, self.a_bounds = v, a, noise, v_bounds, a_bounds

    @property
    def hyperparameter_v(self):
        return sk.Hyperparameter("v", "numeric", self.v_bounds)

    @property
    def hyperparameter_a(self):
        return sk.Hyperparameter("a", "numeric", self.a_bounds)

    def __call__(self, X, Y=None):
        Z = X if Y is None else Y
        K = self.v / (1 + ((X[:, None] - Z[None]) / self.a) ** 2).prod(axis=2)
        return K + self.noise * self.v * np.eye(len(X)) if Y is None else K

    def diag(self, X):
        return np.full(len(X), self.v * (1 + self.noise))

    def is_stationary(self):
        return True


class Warped(sk.RBF):
    """A user's subclass of a fast kernel that computes something else, with a gradient of its own."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return super().__call__(np.tanh(X), None if Y is None else np.tanh(Y), eval_gradient=eval_gradient)


ARD = [0.7, 1.9, 3.1]
SIMPLE = {
    "constant": sk.ConstantKernel(1.7),
    "white": sk.WhiteKernel(0.6),
    "linear": sk.DotProduct(0.8),
    "rbf": sk.RBF(1.3),
    "rbf-ard": sk.RBF(ARD),
    "rbf-one-in-list": sk.RBF([1.3]),
    "quadratic": sk.RationalQuadratic(1.1, 0.7),
    "quadratic-large-alpha": sk.RationalQuadratic(1.1, 500.0),
} | {
    f"matern-{nu}{'-ard' if isinstance(l, list) else ''}": sk.Matern(l, nu=nu)
    for nu in (0.5, 1.5, 2.5, math.inf, 0.3, 0.7, 1.0, 2.0, 3.3)
    for l in (1.2, ARD)
}
NESTED = {
    "default": sk.ConstantKernel(2.0) * sk.RBF(1.4) + sk.ConstantKernel(0.5),
    "noisy": 2.0 * sk.Matern(ARD, nu=2.5) + sk.WhiteKernel(0.3),
    "noise-in-product": (sk.RBF(1.0) + sk.WhiteKernel(0.5)) * sk.DotProduct(1.0),
    "power": (sk.ConstantKernel(0.3) * sk.RBF(ARD) + sk.DotProduct(2.0)) ** 3,
    "root": (sk.RBF(2.0) + sk.ConstantKernel(0.4)) ** 0.5,
    "additive": on(sk.RBF(0.8), 0) + on(sk.Matern([0.9, 2.0]), [2, 1]) + on(sk.RBF(), 0) * on(sk.RBF(2), 2),
    "columns-of-columns": on(on(sk.RBF([1.0, 2.0]), (1, 0)), (2, 0)) * sk.ConstantKernel(2.0),
    "fixed-length": sk.ConstantKernel(2.0) * sk.RBF(ARD, "fixed") + sk.WhiteKernel(0.2),
    "fixed-first": sk.ConstantKernel(2.0, "fixed") * sk.RBF(ARD) * sk.RationalQuadratic(1.0, 2.0, "fixed"),
    "fixed-alpha": sk.RationalQuadratic(1.0, 2.0, alpha_bounds="fixed") + sk.DotProduct(1.0, "fixed"),
    "all-fixed": sk.ConstantKernel(2.0, "fixed") * sk.RBF(1.0, "fixed"),
}
GENERIC = {
    "periodic": sk.ExpSineSquared(1.2, 2.3),
    "periodic-times-rbf": sk.ConstantKernel(0.5) * sk.ExpSineSquared(1.2, 2.3) * sk.RBF(ARD) + sk.WhiteKernel(0.1),
    "periodic-fixed": sk.ExpSineSquared(1.2, 2.3, "fixed"),
    "pairwise": sk.PairwiseKernel(0.4, metric="rbf") + sk.ConstantKernel(1.0),
    "user": Cauchy(1.5, 5.0),
    "user-times-rbf": Cauchy(1.5, 5.0, a_bounds="fixed") * sk.RBF(2.0),
    "user-subclass": Warped(0.8),
    "on-generic": on(sk.ExpSineSquared(1.2, 2.3), [0, 2]),
}
FAST = SIMPLE | NESTED
ALL = FAST | GENERIC
DIFFERENCED = {"pairwise", "user", "user-times-rbf"}  # no exact gradient to compare with


def points(n, seed=0):
    """Standard normal points with a repeated row, within a tile and across tiles."""
    X = np.random.default_rng(seed).normal(size=(n, D))
    X[1] = X[0]
    X[-1] = X[2]
    return X


def uses_bessel(kernel):
    return getattr(kernel, "nu", 0.5) not in (0.5, 1.5, 2.5, math.inf)


def stencil(f, h):
    """Central difference of fourth order of f(step) at 0."""
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


def theta_differences(contracted, kernel, h=1e-3):
    unit = np.eye(kernel.n_dims)
    return np.array(
        [stencil(lambda s, e=e: contracted(kernel.clone_with_theta(kernel.theta + s * e)), h) for e in unit]
    )


def input_differences(contracted, X, rows, h=1e-3):
    out = np.zeros((len(rows), X.shape[1]))
    for a, i in enumerate(rows):
        for l in range(X.shape[1]):

            def moved(s, i=i, l=l):
                Y = X.copy()
                Y[i, l] += s
                return contracted(Y)

            out[a, l] = stencil(moved, h)
    return out


@pytest.mark.parametrize("name", ALL)
def test_values_are_scikit_learns(name):
    kernel, X, Z = ALL[name], points(TILE + 40), points(TILE + 9, seed=1)
    cov = compile_kernel(kernel)
    Z[5] = X[7]
    K = cov(X)
    expected, expected_Z = kernel(X), kernel(X, Z)
    if uses_bessel(kernel):  # scikit-learn moves r = 0 to r = 2e-16, where ν = 0.3 is already 3e-10 below 1
        expected[cdist(X, X) == 0] = 1.0
        expected_Z[cdist(X, Z) == 0] = 1.0
    np.testing.assert_allclose(K, expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_allclose(cov(X, Z), expected_Z, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(cov.diag(X), kernel.diag(X), rtol=1e-14)
    np.testing.assert_array_equal(cov.value_and_vjp(X)[0], K)
    np.testing.assert_array_equal(cov.value_and_vjp(X, Z)[0], cov(X, Z))


def test_noise_counts_for_the_same_set_only():
    X = points(5)
    cov = compile_kernel(sk.WhiteKernel(0.7))
    np.testing.assert_array_equal(cov(X), 0.7 * np.eye(5))
    np.testing.assert_array_equal(cov(X, X), np.zeros((5, 5)))


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in ALL if n not in DIFFERENCED])
def test_theta_derivative_is_scikit_learns(name):
    kernel, X = ALL[name], points(TILE + 40)
    G = np.random.default_rng(2).normal(size=(len(X), len(X)))
    bessel = uses_bessel(kernel)
    if bessel:  # scikit-learn has one-sided differences there
        expected = theta_differences(lambda k: np.vdot(G, k(X)), kernel)
    else:
        expected = np.einsum("ij,ijk->k", G, kernel(X, eval_gradient=True)[1])
    actual = compile_kernel(kernel).value_and_vjp(X)[1](G)
    assert actual.shape == kernel.theta.shape
    size = np.abs(G).sum() * np.abs(kernel(X)).max()  # what the sum is made of: it nearly cancels
    np.testing.assert_allclose(actual, expected, rtol=1e-9 if bessel else 1e-11, atol=1e-14 * size)


@pytest.mark.parametrize("name", ALL)
def test_theta_derivative_of_rectangles(name):
    kernel, X, Z = ALL[name], points(TILE + 3), points(30, seed=1)
    G = np.random.default_rng(3).normal(size=(len(X), len(Z)))
    expected = theta_differences(lambda k: np.vdot(G, k(X, Z)), kernel, h=2e-4)  # periods need a short step
    actual = compile_kernel(kernel).value_and_vjp(X, Z)[1](G)
    size = np.abs(G).sum() * np.abs(kernel(X, Z)).max(initial=0.0)
    np.testing.assert_allclose(actual, expected, rtol=1e-8, atol=1e-12 * size)


@pytest.mark.parametrize("name", sorted(DIFFERENCED))
def test_theta_derivative_of_squares_by_differences(name):
    kernel, X = ALL[name], points(TILE + 3)
    G = np.random.default_rng(4).normal(size=(len(X), len(X)))
    expected = theta_differences(lambda k: np.vdot(G, k(X)), kernel, h=2e-3)
    np.testing.assert_allclose(compile_kernel(kernel).value_and_vjp(X)[1](G), expected, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_input_derivatives(name):
    kernel = ALL[name]
    X, Z = np.random.default_rng(5).normal(size=(TILE + 3, D)), points(12, seed=6)
    rng = np.random.default_rng(7)
    rows = [0, 3, TILE + 1]
    cov = compile_kernel(kernel)

    G = rng.normal(size=(len(X), len(X)))
    expected = input_differences(lambda Y: np.vdot(G, kernel(Y)), X, rows)
    actual = cov.value_and_vjp(X)[1].inputs(G)
    tolerance = 1e-6 * np.abs(expected).max() + 1e-9  # the differences lose the ninth digit of a sum over n²
    np.testing.assert_allclose(actual[rows], expected, atol=tolerance)

    G = rng.normal(size=(len(X), len(Z)))
    expected = input_differences(lambda Y: np.vdot(G, kernel(Y, Z)), X, rows, h=3e-4)
    pullback = cov.value_and_vjp(X, Z)[1]
    np.testing.assert_allclose(pullback.inputs(G)[rows], expected, atol=1e-6 * np.abs(expected).max() + 1e-9)
    dX, dZ = pullback.inputs_both(G)
    np.testing.assert_array_equal(dX, pullback.inputs(G))
    expected = input_differences(lambda Y: np.vdot(G, kernel(X, Y)), Z, [4, 7], h=3e-4)
    np.testing.assert_allclose(dZ[[4, 7]], expected, atol=1e-6 * np.abs(expected).max() + 1e-9)


@pytest.mark.parametrize("name", ALL)
def test_pairs_are_entries_of_the_matrix(name):
    kernel, X, Z = ALL[name], points(40), points(40, seed=1)
    covariance = compile_kernel(kernel)
    K, pull = covariance.value_and_vjp(X, Z)
    value, pull_pairs = covariance.pairs(X, Z)
    assert np.allclose(value, np.diag(K), atol=1e-13)
    g = np.random.default_rng(2).normal(size=40)
    assert np.allclose(pull_pairs(g), pull(np.diag(g)), atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_diagonal_derivatives(name):
    kernel, X = ALL[name], points(70)
    g = np.random.default_rng(8).normal(size=len(X))
    cov = compile_kernel(kernel)
    expected = theta_differences(lambda k: g @ k.diag(X), kernel)
    np.testing.assert_allclose(cov.diag_vjp(X, g), expected, rtol=1e-9, atol=1e-10 * np.abs(g).sum())


def test_fast_is_told():
    assert all(compile_kernel(kernel).fast for kernel in FAST.values())
    assert not any(compile_kernel(kernel).fast for kernel in GENERIC.values())


# --- random trees


def leaves():
    length = st.floats(0.3, 5.0)
    bounds = st.sampled_from(["fixed", (1e-5, 1e5)])
    scales = st.one_of(length, st.lists(length, min_size=D, max_size=D))
    return st.one_of(
        st.builds(sk.ConstantKernel, st.floats(0.1, 3.0), bounds),
        st.builds(sk.WhiteKernel, st.floats(0.1, 3.0), bounds),
        st.builds(sk.DotProduct, st.floats(0.1, 3.0), bounds),
        st.builds(sk.RBF, scales, bounds),
        st.builds(sk.Matern, scales, bounds, nu=st.sampled_from([0.5, 1.5, 2.5, math.inf])),
        st.builds(sk.RationalQuadratic, length, st.floats(0.2, 5.0), bounds, bounds),
        st.builds(sk.ExpSineSquared, length, length, bounds, bounds),
        st.builds(on, st.builds(sk.RBF, length, bounds), st.sampled_from([0, (0, 2), slice(1, 3)])),
    )


def trees():
    def grow(inner):
        return st.one_of(
            st.builds(sk.Sum, inner, inner),
            st.builds(sk.Product, inner, inner),
            st.builds(sk.Exponentiation, inner, st.sampled_from([1, 2, 3])),
        )

    return st.recursive(leaves(), grow, max_leaves=6)


@pytest.mark.slow
@settings(max_examples=60)
@given(kernel=trees(), seed=st.integers(0, 2**16))
def test_any_tree_agrees_with_scikit_learn(kernel, seed):
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(23, D)), rng.normal(size=(7, D))
    G = rng.normal(size=(23, 23))
    cov = compile_kernel(kernel)
    K, pullback = cov.value_and_vjp(X)
    expected, dK = kernel(X, eval_gradient=True)
    np.testing.assert_allclose(K, expected, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(cov(X, Z), kernel(X, Z), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(cov.diag(X), kernel.diag(X), rtol=1e-12)
    size = np.abs(G).sum() * max(1.0, np.abs(dK).max(initial=0.0))
    np.testing.assert_allclose(pullback(G), np.einsum("ij,ijk->k", G, dK), rtol=1e-9, atol=1e-13 * size)
    g = rng.normal(size=23)
    np.testing.assert_allclose(cov.diag_vjp(X, g), np.einsum("i,iik->k", g, dK), rtol=1e-9, atol=1e-13 * size)


# --- hard points

HARD = {
    "one-far-column": lambda rng: rng.normal(size=(60, D)) * [1e6, 1.0, 1e-6],
    "far-from-zero": lambda rng: rng.normal(size=(60, D)) + 1e6,
    "constant-column": lambda rng: np.column_stack([rng.normal(size=(60, 2)), np.full(60, 3e8)]),
    "all-the-same": lambda rng: np.full((60, D), 0.1),
    "near-duplicates": lambda rng: np.repeat(rng.normal(size=(20, D)), 3, axis=0) + 1e-9 * rng.normal(size=(60, D)),
    "one-point": lambda rng: rng.normal(size=(1, D)),
}


@pytest.mark.parametrize("kernel", [sk.RBF(ARD), sk.RBF(1.0), sk.RationalQuadratic(1.0, 2.0)], ids=str)
@pytest.mark.parametrize("case", HARD)
def test_hard_points_smooth(case, kernel):
    check_hard(case, kernel)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
@pytest.mark.parametrize("case", HARD)
def test_hard_points_matern(case, nu):
    check_hard(case, sk.Matern(ARD, nu=nu))


def check_hard(case, kernel):
    rng = np.random.default_rng(9)
    X = HARD[case](rng)
    G = rng.normal(size=(len(X), len(X)))
    K, pullback = compile_kernel(kernel).value_and_vjp(X)
    with np.errstate(all="ignore"):
        expected, dK = kernel(X, eval_gradient=True)
    # centring rounds the points by half a unit of their last place; scikit-learn works on them as they are
    rounding = 1e-12 if case != "far-from-zero" else 1e-9
    np.testing.assert_allclose(K, expected, rtol=rounding, atol=1e-300)
    np.testing.assert_allclose(pullback(G), np.einsum("ij,ijk->k", G, dK), rtol=1e-9, atol=3e-12 * np.abs(G).sum())
    assert np.all(np.isfinite(pullback.inputs(G)))


@pytest.mark.parametrize("nu", [0.3, 0.5, 0.7, 1.0, 1.3, 2.5])
def test_coincident_points_give_finite_derivatives(nu):
    X = np.zeros((4, 2))
    X[3] = 1.0
    K, pullback = compile_kernel(sk.Matern(1.0, nu=nu)).value_and_vjp(X)
    np.testing.assert_array_equal(K[:3, :3], 1.0)
    G = np.zeros((4, 4))
    G[:3, :3] = 1.0
    np.testing.assert_array_equal(pullback(G), 0.0)
    np.testing.assert_array_equal(pullback.inputs(G), 0.0)


@pytest.mark.parametrize("d", [_stationary.DIRECT, _stationary.DIRECT + 1, 60])
@pytest.mark.parametrize("kernel", [sk.RBF, sk.Matern], ids=["rbf", "matern"])
def test_many_columns_by_products(d, kernel):
    X = np.random.default_rng(10).normal(size=(TILE + 20, d)) + 5.0
    X[-1] = X[3]
    G = np.random.default_rng(11).normal(size=(len(X), len(X)))
    k = kernel(np.linspace(0.5, 1.5, d) * np.sqrt(d))
    K, pullback = compile_kernel(k).value_and_vjp(X)
    expected, dK = k(X, eval_gradient=True)
    np.testing.assert_allclose(K, expected, rtol=1e-12)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_array_equal(np.diag(K), 1.0)
    np.testing.assert_allclose(pullback(G), np.einsum("ij,ijk->k", G, dK), rtol=1e-9, atol=1e-13 * np.abs(G).sum())


def test_expanded_and_direct_contractions_agree(monkeypatch):
    """The quick contraction equals the careful one, and each is really used."""
    X = points(TILE + 20)
    G = np.random.default_rng(12).normal(size=(len(X), len(X)))
    pullback = compile_kernel(sk.RBF(ARD)).value_and_vjp(X)[1]
    quick, quick_inputs = pullback(G), pullback.inputs(G)
    monkeypatch.setattr(_stationary, "_expanded", None)
    with pytest.raises(TypeError):
        pullback(G)
    monkeypatch.setattr(_stationary, "LOSS", -1.0)
    np.testing.assert_allclose(pullback(G), quick, rtol=1e-11)
    np.testing.assert_allclose(pullback.inputs(G), quick_inputs, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("nu", [0.5, 0.7, 1.5, 2.5, math.inf])
def test_a_heavy_diagonal_leaves_no_rounding(nu):
    """k(x, x) = 1 whatever moves, so weights on the diagonal must not even leave rounding errors."""
    X = points(TILE + 5)
    _, pullback = compile_kernel(sk.Matern(ARD, nu=nu)).value_and_vjp(X)
    G = 1e12 * np.eye(len(X))
    np.testing.assert_array_equal(pullback(G), 0.0)
    np.testing.assert_array_equal(pullback.inputs(G), 0.0)


def half_integer(p, t):
    """Matérn of ν = p + ½: exp(−t) p!/(2p)! Σ_i (p+i)!/(i!(p−i)!) (2t)^(p−i), in whole numbers."""
    terms = [math.comb(p, i) * math.factorial(p + i) / math.factorial(2 * p) * (2 * t) ** (p - i) for i in range(p + 1)]
    return math.exp(-t) * math.fsum(terms)


@pytest.mark.parametrize("p", [0, 1, 2, 3, 9, 40, 70])
def test_bessel_matern_has_the_half_integer_closed_forms(p):
    nu = p + 0.5
    t = np.concatenate([[0.0], np.geomspace(1e-9, 30.0, 60)])
    profile = _stationary.MaternAny(nu)
    K, kept = profile.value(t**2 / (2 * nu))
    expected = np.array([half_integer(p, s) for s in t])
    np.testing.assert_allclose(K, expected, rtol=2e-12, atol=1e-300)
    if p > 0:  # dκ_ν/dq = −ν/(2(ν−1)) κ_(ν−1) at the same t
        slope = -nu / (2 * (nu - 1)) * np.array([half_integer(p - 1, s) for s in t])
        np.testing.assert_allclose(profile.slope(kept), slope, rtol=2e-12, atol=1e-300)


@pytest.mark.parametrize("nu", [0.05, 0.3, 0.7, 1.0, 1.3, 2.0, 3.3, 20.3, 55.0])
def test_table_of_bessel_functions_equals_the_functions(nu, monkeypatch):
    t = np.concatenate([[0.0], np.geomspace(1e-9, 600.0, _bessel.MANY)])
    K, S = _bessel.matern_value(nu, t), _bessel.matern_slope(nu, t)
    monkeypatch.setattr(_bessel, "_interpolated", None)
    with pytest.raises(TypeError):
        _bessel.matern_value(nu, t)
    monkeypatch.setattr(_bessel, "MANY", math.inf)
    np.testing.assert_allclose(K, _bessel.matern_value(nu, t), rtol=5e-13, atol=1e-290)
    np.testing.assert_allclose(S, _bessel.matern_slope(nu, t), rtol=5e-13, atol=1e-290)


def test_bessel_matern_is_finite_at_any_distance():
    K, kept = _stationary.MaternAny(0.7).value(np.array([[0.0, 1e-30, 1.0, 1e4, 1e9]]))
    assert K[0, 0] == 1.0
    assert np.all(np.diff(K[0]) <= 0)
    assert np.all(np.isfinite(_stationary.MaternAny(0.7).slope(kept)))


@pytest.mark.parametrize("nu", [0.05, 0.5, 0.8, 1.0, 1.5, 2.2, 2.5, 30.0, 70.0, 200.0])
@pytest.mark.parametrize("copies", [1, _bessel.MANY])
def test_bessel_matern_vanishes_far_away(nu, copies):
    """Beyond t = 1e9, where the library's Bessel function is NaN: κ and its slope are e^-t times powers of t."""
    t = np.tile([1e5, 1e9, 2e9, 1e10, 1e15, 1e100, 1e300], copies)
    np.testing.assert_array_equal(_bessel.matern_value(nu, t), 0.0)
    np.testing.assert_array_equal(_bessel.matern_slope(nu, t), 0.0)
    near = np.tile(np.linspace(5.0, 600.0, 7), copies)  # κ falls, and is continuous in ν, up to there
    K = _bessel.matern_value(nu, near)
    assert (np.diff(K[:7]) < 0).all()
    np.testing.assert_allclose(K, _bessel.matern_value(nu * (1 + 1e-9), near), rtol=1e-5)


@pytest.mark.filterwarnings("ignore:the log evidence")  # every label stands alone
@pytest.mark.parametrize("nu", [0.8, 2.2])
def test_prediction_far_away_is_that_of_the_prior(nu):
    X = np.arange(20.0)[:, None]
    times = 1.7e12 + 8.64e7 * X  # days in milliseconds
    y = np.sin(X[:, 0]) > 0
    for rows, new in ((X, [[1e9], [1e10], [1e15]]), (times, times[:3] + 4e7)):
        fit = GPClassifier(sk.Matern(1.0, nu=nu), inference="ep", hyperparameters="fixed").fit(rows, y)
        found = fit.predict_uncertainty(np.asarray(new))
        np.testing.assert_allclose(found.proba[:, 1], 0.5, atol=1e-12)
        np.testing.assert_allclose((found.upper - found.lower)[:, 1], 0.9, atol=1e-6)
        near = fit.predict_proba(rows)[:, 1]
        assert ((near > 0.5) == y).all()


# --- the generic path


def test_generic_blocks_do_not_change_the_answer(monkeypatch):
    X = points(70)
    G = np.random.default_rng(13).normal(size=(70, 70))
    cov = compile_kernel(sk.ExpSineSquared(1.2, 2.3))
    whole = cov.value_and_vjp(X)[1](G)
    monkeypatch.setattr(_generic, "ENTRIES", 2 * 16 * 16)
    np.testing.assert_allclose(cov.value_and_vjp(X)[1](G), whole, rtol=1e-12)


@pytest.mark.parametrize("l", [1.0, 0.1])
def test_differences_equal_the_fast_path(l):
    """Accuracy of the generic path without a gradient, as its module states it."""

    class Plain(sk.Matern):
        def __call__(self, X, Y=None):
            return super().__call__(X, Y)

    X, Z = points(90), points(50, seed=1)
    G = np.random.default_rng(17).normal(size=(90, 50))
    slow = compile_kernel(Plain(l, nu=2.5)).value_and_vjp(X, Z)[1]
    fast = compile_kernel(sk.Matern(l, nu=2.5)).value_and_vjp(X, Z)[1]
    np.testing.assert_allclose(slow(G), fast(G), rtol=2e-11)
    np.testing.assert_allclose(slow.inputs(G), fast.inputs(G), atol=2e-8 * np.abs(fast.inputs(G)).max())


def test_only_the_generic_node_is_slow():
    """The kernel beside a generic one is still compiled: its class is never called."""

    class Counting(sk.RBF):
        calls = 0

        def __call__(self, X, Y=None, eval_gradient=False):
            type(self).calls += 1
            return super().__call__(X, Y, eval_gradient)

    X = points(20)
    kernel = Counting(1.0) * sk.RBF(2.0)
    original = sk.RBF.__call__
    try:
        sk.RBF.__call__ = lambda *a, **k: (
            pytest.fail("the fast kernel was called") if type(a[0]) is sk.RBF else original(*a, **k)
        )
        K, pullback = compile_kernel(kernel).value_and_vjp(X)
        pullback(np.ones((20, 20)))
    finally:
        sk.RBF.__call__ = original
    assert Counting.calls > 0
    np.testing.assert_allclose(K, kernel(X), rtol=1e-13)


# --- memory, reuse, bad input


@pytest.mark.slow
def test_memory_of_value_and_gradient():
    n, d = 800, 8
    X = np.random.default_rng(14).normal(size=(n, d))
    G = np.ones((n, n))
    kernel = sk.ConstantKernel(1.0) * sk.RBF(np.full(d, 3.0)) + sk.ConstantKernel(1.0)
    cov = compile_kernel(kernel)
    tracemalloc.start()
    _, pullback = cov.value_and_vjp(X)
    pullback(G)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    kernel(X, eval_gradient=True)
    control = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * 8 * n * n
    assert control > 8 * 8 * n * n  # the meter sees a gradient array


def test_tiles_cover_each_pair_once():
    for n in (1, TILE, TILE + 1, 3 * TILE - 1):
        seen = np.zeros((n, n), dtype=int)
        for tile in tiles(n, n, square=True):
            seen[tile.rows, tile.columns] += 1
            if not tile.diagonal:
                seen[tile.columns, tile.rows] += 1
        assert np.all(seen == 1)


def test_pullback_survives_changes_to_the_matrix_and_can_be_called_again():
    X = points(40)
    K, pullback = compile_kernel(sk.ConstantKernel(2.0) * sk.RBF(1.0)).value_and_vjp(X)
    G = np.random.default_rng(15).normal(size=K.shape)
    before = G.copy()
    first = pullback(G)
    K[:] = np.nan
    np.testing.assert_array_equal(pullback(G), first)
    np.testing.assert_array_equal(G, before)


@pytest.mark.parametrize("name", ["default", "noisy", "additive", "fixed-first", "user-times-rbf"])
def test_derivatives_of_large_matrices_keep_nothing_and_are_the_same(name, monkeypatch):
    X, Z = points(TILE + 30), points(TILE + 5, seed=1)
    G, R = (np.random.default_rng(17).normal(size=(len(X), len(other))) for other in (X, Z))
    cov, found = compile_kernel(ALL[name]), []
    for large in (compiled.LARGE, 0):
        monkeypatch.setattr(compiled, "LARGE", large)
        (K, square), (_, rectangle) = cov.value_and_vjp(X), cov.value_and_vjp(X, Z)
        found.append([K, square(G), square(G), square.inputs(G), rectangle(R), *rectangle.inputs_both(R)])
    for kept, again in zip(*found, strict=True):
        np.testing.assert_array_equal(kept, again)


def test_large_matrices_are_alone_in_memory():
    n = 1600
    X = points(n)
    tracemalloc.start()
    K, pullback = compile_kernel(NESTED["default"]).value_and_vjp(X)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 1.05 * K.nbytes
    assert np.isfinite(pullback(np.eye(n))).all()


@pytest.mark.parametrize("name", ["default", "fixed-first", "additive", "power"])
def test_order_of_the_weights_in_memory_does_not_matter(name):
    X = points(TILE + 10)
    _, pullback = compile_kernel(NESTED[name]).value_and_vjp(X)
    G = np.random.default_rng(18).normal(size=(len(X), len(X)))
    np.testing.assert_allclose(pullback(np.asfortranarray(G)), pullback(G), rtol=1e-9, atol=1e-9)


def test_derivative_is_linear_in_the_weights():
    X = points(TILE + 10)
    _, pullback = compile_kernel(NESTED["noisy"]).value_and_vjp(X)
    A, B = np.random.default_rng(16).normal(size=(2, len(X), len(X)))
    np.testing.assert_allclose(pullback(A - 2 * B), pullback(A) - 2 * pullback(B), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(pullback(A), pullback((A + A.T) / 2), rtol=1e-9, atol=1e-9)


def test_at_moves_the_parameters():
    cov = compile_kernel(NESTED["default"])
    theta = np.array([0.1, -0.2, 0.3])
    moved = cov.at(theta)
    assert isinstance(moved, Covariance)
    np.testing.assert_allclose(moved.kernel.theta, theta)
    np.testing.assert_allclose(moved(points(9)), cov.kernel.clone_with_theta(theta)(points(9)), rtol=1e-13)
    np.testing.assert_allclose(cov.kernel.theta, NESTED["default"].theta)


@pytest.mark.parametrize(
    ("kernel", "error", "words"),
    [
        ("rbf", TypeError, "ConstantKernel"),
        (None, TypeError, "scikit-learn kernel"),
        (sk.RBF, TypeError, r"RBF\(\)"),
        (sk.CompoundKernel([sk.RBF(), sk.RBF()]), ValueError, "combine them"),
        (sk.RBF() * sk.RBF(-1.0), ValueError, "positive"),
        (sk.Matern(nu=-1.0), ValueError, "nu > 0"),
        (On(sk.RBF(), (0, 0)), ValueError, "distinct"),
    ],
)
def test_what_is_no_kernel_is_refused(kernel, error, words):
    with pytest.raises(error, match=words):
        compile_kernel(kernel)


def test_points_that_do_not_fit_are_refused():
    cov = compile_kernel(sk.RBF(ARD))
    with pytest.raises(ValueError, match="reshape"):
        cov(np.zeros(4))
    with pytest.raises(ValueError, match="same columns"):
        cov(np.zeros((4, 3)), np.zeros((4, 2)))
    with pytest.raises(ValueError, match="one per column"):
        cov(np.zeros((4, 2)))
    with pytest.raises(ValueError, match="column 5"):
        compile_kernel(on(sk.RBF(), 5))(np.zeros((4, 2)))
    _, pullback = cov.value_and_vjp(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="shape of K"):
        pullback(np.zeros((3, 3)))
    with pytest.raises(ValueError, match=r"pullback\.inputs"):
        pullback.inputs_both(np.zeros((4, 4)))
