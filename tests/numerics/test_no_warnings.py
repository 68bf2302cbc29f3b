"""No warning of NumPy or SciPy leaks from diagnostics, covariances, EP and linear algebra on extreme input."""

import warnings

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, RationalQuadratic, WhiteKernel

from gpclass.covariance import compile_kernel
from gpclass.inference import EP, Laplace
from gpclass.inference.diagnostics import chain_figures
from gpclass.likelihoods import MultinomialProbit, Probit, Softmax
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import NotPositiveDefiniteError, cholesky, factor
from gpclass.orthant.weights import effective_size, pareto_khat, relative_error


@pytest.fixture(autouse=True)
def strict():
    with warnings.catch_warnings(), np.errstate(all="warn", under="ignore"):
        warnings.simplefilter("error")
        yield


CHAINS = {
    "constant": np.zeros((4, 50, 2)),
    "constant but for one": np.where(np.arange(50) == 7, 1.0, 0.0)[None, :, None] * np.ones((4, 1, 2)),
    "each constant": np.arange(4.0)[:, None, None] * np.ones((1, 50, 2)),
    "one constant": np.concatenate([np.zeros((1, 50, 2)), np.random.default_rng(0).standard_normal((3, 50, 2))]),
    "two values": np.random.default_rng(0).integers(2, size=(4, 50, 2)).astype(float),
    "huge": 1e150 * np.random.default_rng(0).standard_normal((4, 50, 2)),
    "tiny": 1e-200 * np.random.default_rng(0).standard_normal((4, 50, 2)),
    "short": np.random.default_rng(0).standard_normal((4, 4, 2)),
    "one chain": np.random.default_rng(0).standard_normal((1, 20, 2)),
    "rounding": 1.0 + 1e-16 * np.random.default_rng(0).integers(5, size=(4, 50, 2)),
}


@pytest.mark.parametrize("name", CHAINS)
def test_diagnostics_of_chains(name):
    figures = chain_figures(CHAINS[name])
    assert "constant" not in name or figures.rhat > 1.01 or np.isnan(figures.rhat) or name == "constant but for one"


@pytest.mark.parametrize(
    "log_w",
    [np.r_[0.0, np.full(199, -np.inf)], np.r_[0.0, np.full(199, -800.0)], np.full(200, -np.inf), np.full(200, 1e4),
     np.r_[np.full(100, 0.0), np.full(100, -np.inf)], np.linspace(-1e4, 1e4, 200)],
)  # fmt: skip
def test_statistics_of_weights(log_w):
    assert effective_size(log_w) <= 200 + 1e-9
    pareto_khat(log_w)
    relative_error(log_w, np.arange(200) // 10)


KERNELS = {
    "no variance": ConstantKernel(1e-300, "fixed") * RBF(1.0),
    "zero": ConstantKernel(0.0, "fixed") * RBF(1.0) + ConstantKernel(0.0, "fixed"),
    "rbf": RBF(1.0),
    "own lengths": RBF([1e-5, 1e5]),
    "matern": Matern(1.0, nu=1.5),
    "matern, general": Matern(1.0, nu=0.8),
    "rational": RationalQuadratic(1.0, 0.1),
    "power": DotProduct(1.0) ** 3,
    "noise": RBF(1.0) + WhiteKernel(1e-8),
}


@pytest.mark.parametrize("scale", [0.0, 1e-150, 1e-6, 1.0, 1e6, 1e100])
@pytest.mark.parametrize("name", KERNELS)
def test_covariances_and_their_gradients(name, scale):
    if name == "power" and scale > 1e50:
        pytest.skip("the values themselves overflow")
    rng = np.random.default_rng(0)
    X = scale * np.repeat(rng.standard_normal((4, 2)), 2, axis=0)  # duplicates
    K = compile_kernel(KERNELS[name])(X)
    assert np.all(np.isfinite(K))
    value, pull = compile_kernel(KERNELS[name]).value_and_vjp(X)
    assert np.all(np.isfinite(pull(np.ones_like(value))))


@pytest.mark.parametrize("variance", [0.0, 1e-300, 1.0, 1e6])
@pytest.mark.parametrize(("likelihood", "method"), [
    (Probit(), EP()), (Probit(), Laplace()), (MultinomialProbit(), EP()), (Softmax(), Laplace())], ids=str)  # fmt: skip
@pytest.mark.parametrize("weight", [1e-6, 1.0, 1e6])
def test_sites_with_duplicates_and_extreme_weights(variance, likelihood, method, weight):
    rng = np.random.default_rng(1)
    X = np.repeat(rng.standard_normal((5, 2)), 2, axis=0)
    C = 3 if likelihood.many else 2
    y, weights = likelihood.encode(np.arange(10) % C), np.where(np.arange(10) % 2, weight, 1.0)
    problem = Problem.of(X, y, ConstantKernel(variance, "fixed") * RBF(1.0), likelihood, weights, C)
    posterior = method(problem)
    assert np.isfinite(posterior.evidence.log_z)
    assert np.all(np.isfinite(posterior.latent(X).means))


@pytest.mark.parametrize("scale", [1e-300, 1e-8, 1.0, 1e8, 1e150])
def test_factors(scale):
    rng = np.random.default_rng(2)
    A = rng.standard_normal((6, 6))
    ones = np.ones((6, 6))
    assert np.all(np.isfinite(cholesky(scale * (A @ A.T + np.eye(6)))))
    for matrix in (scale * ones, scale * (A[:, :2] @ A[:, :2].T)):  # singular
        assert np.all(np.isfinite(factor(matrix)[0]))
    with pytest.raises(NotPositiveDefiniteError):
        factor(-scale * np.eye(6))


def test_a_warning_would_be_an_error_here():
    with pytest.raises(RuntimeWarning):
        np.log(np.zeros(1))
