"""Every inference against something independent: closed forms, quadrature, scikit-learn, differences."""

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import expit, ndtr
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern, RationalQuadratic, WhiteKernel
from sklearn.gaussian_process.kernels import ConstantKernel as C

from gpclass.inference import EP, Laplace, Variational
from gpclass.kernels import on
from gpclass.likelihoods import Logit, Probit, get_likelihood
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import SiteFactor
from gpclass.predict import predict_proba
from gpclass.registry import INFERENCES
from tests.conftest import make_problem
from tests.normal import log_orthant

LINK = {"probit": ndtr, "logit": expit}
# The Gaussian approximations; AMP, a mode without variance, has tests of its own.
NAMES = [r.name for r in INFERENCES.values() if not (r.exact or r.default.stochastic) and "probit" in r.likelihoods]
TIGHT = {"ep": EP(tol=1e-11), "laplace": Laplace(), "variational": Variational(tol=1e-10, max_iter=1000)}
KERNELS = {
    "rbf": C(2.0) * RBF(0.9),
    "ard": C(3.0) * RBF([0.8, 2.0]),
    "matern 1/2": C(1.5) * Matern(1.1, nu=0.5),
    "matern 3/2 ard": C(1.5) * Matern([1.1, 0.7], nu=1.5),
    "matern 5/2": C(1.5) * Matern(1.1, nu=2.5),
    "matern 0.8": C(1.5) * Matern(1.1, nu=0.8),
    "rational quadratic": C(2.0) * RationalQuadratic(1.2, 0.7),
    "linear": DotProduct(0.8),
    "power": (DotProduct(0.8) + 0.5) ** 2,
    "sum": C(2.0) * RBF(0.9) + C(0.5) + WhiteKernel(0.3),
    "fixed": C(2.0, "fixed") * RBF([0.8, 2.0]),
    "columns": C(2.0) * on(RBF(0.9), [0]) + C(1.0) * on(Matern(1.4, nu=1.5), [1]),
}


def brute_force(problem, X_new=None, nodes=80):
    """log p(y), and p(y*=1) at one new point, by a product rule on whitened latents (n <= 3)."""
    X = problem.X if X_new is None else np.vstack([problem.X, X_new])
    n, total = len(problem.y), len(X)
    L = np.linalg.cholesky(problem.kernel(X) + 1e-12 * np.eye(total))
    x, w = hermegauss(nodes)
    grids = np.meshgrid(*[x] * total, indexing="ij")
    weights = np.prod(np.meshgrid(*[w / w.sum()] * total, indexing="ij"), axis=0)
    f = np.tensordot(L, np.array(grids), axes=1)
    link, s = LINK[problem.likelihood.name], problem.likelihood.scale
    like = np.prod([link(s * problem.y[i] * f[i]) for i in range(n)], axis=0)
    z = (weights * like).sum()
    return np.log(z) if X_new is None else (np.log(z), (weights * like * link(s * f[-1])).sum() / z)


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", [Probit(), Logit(), Probit(0.6), Logit(1.8)])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_small_problems_by_quadrature(name, likelihood, n):
    problem = make_problem(n=n, likelihood=likelihood, kernel=C(1.5) * RBF(1.5))
    new = np.array([[0.3, -0.2]])
    log_z, p = brute_force(problem, new, nodes=40)
    posterior = TIGHT[name](problem)
    got = predict_proba(posterior.latent(new), problem.likelihood).proba[0, 1]
    # EP is nearly exact here, its evidence exactly so for one site; the other two are coarser, no more than this.
    room = {"ep": 1e-9 if n == 1 else 2e-3, "laplace": 0.15, "variational": 0.05}[name]
    assert posterior.evidence.log_z == pytest.approx(log_z, abs=room)
    assert got == pytest.approx(p, abs={"ep": 5e-3, "laplace": 0.05, "variational": 0.02}[name])
    if name == "variational":
        assert posterior.evidence.log_z <= log_z + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 5, 10])
def test_ep_against_the_orthant_probability(n):
    problem = make_problem(n=n)
    S = problem.y[:, None] * (problem.prior.K + np.eye(n)) * problem.y
    assert TIGHT["ep"](problem).evidence.log_z == pytest.approx(log_orthant(S), abs=0.02)


def test_coincident_points_closed_form():
    """x* = x_1, one observation: p* = ½ + asin(β/(1+β))/π."""
    beta = 3.0
    problem = Problem.of(np.zeros((1, 1)), np.ones(1), C(beta) * RBF(1.0), Probit())
    posterior = TIGHT["ep"](problem)
    p = predict_proba(posterior.latent(np.zeros((1, 1))), problem.likelihood).proba[0, 1]
    assert posterior.evidence.log_z == pytest.approx(np.log(0.5), abs=1e-12)
    # EP matches the moments of f, not its shape: the evidence is exact, the probability nearly.
    assert p == pytest.approx(0.5 + np.arcsin(beta / (1 + beta)) / np.pi, abs=5e-3)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_no_signal_is_a_coin(name, likelihood):
    """β → 0, and α → 0 for distinct inputs: p(y) = 2^-n and p* = ½."""
    n = 12
    problem = make_problem(n=n, likelihood=likelihood, kernel=C(1e-12, "fixed") * RBF(1.0))
    posterior = TIGHT[name](problem)
    assert posterior.evidence.log_z == pytest.approx(-n * np.log(2), abs=1e-9)
    p = predict_proba(posterior.latent(problem.X), problem.likelihood).proba
    np.testing.assert_allclose(p, 0.5, atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_laplace_is_scikit_learns(kernel):
    problem = make_problem(n=40, likelihood="logit", kernel=kernel)
    peer = GaussianProcessClassifier(kernel, optimizer=None).fit(problem.X, problem.y)
    value, slope = peer.log_marginal_likelihood(kernel.theta, eval_gradient=True)
    posterior = Laplace()(problem, gradient=True)
    assert posterior.evidence.log_z == pytest.approx(value, abs=1e-6)
    np.testing.assert_allclose(posterior.evidence.gradient, slope, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("likelihood", ["probit", "logit"])
@pytest.mark.parametrize("name", NAMES)
def test_gradient_by_differences(name, likelihood, kernel):
    problem = make_problem(n=25, likelihood=likelihood, kernel=kernel)
    check_gradient(TIGHT[name], problem)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("likelihood", [Probit(0.8, (0.1, 10)), Logit(1.4, (0.1, 10))])
def test_gradient_of_the_scale(name, likelihood):
    problem = make_problem(n=25, likelihood=likelihood)
    assert problem.names[-1] == "likelihood__scale"
    check_gradient(TIGHT[name], problem)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_gradient_with_weights(name):
    weights = np.random.default_rng(0).uniform(0.3, 3.0, 25)
    check_gradient(TIGHT[name], make_problem(n=25, weights=weights))


def check_gradient(inference, problem, step=1e-4):
    gradient = inference(problem, gradient=True).evidence.gradient
    for k, value in enumerate(gradient):
        move = step * np.eye(len(gradient))[k]
        up, down = (inference(problem.at(problem.theta + s * move)).evidence.log_z for s in (1, -1))
        assert value == pytest.approx((up - down) / (2 * step), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_warm_start_changes_nothing_but_work(name, likelihood):
    problem = make_problem(n=60, likelihood=likelihood)
    inference = INFERENCES[name].factory()
    near = inference(problem.at(problem.theta + 0.05))
    cold, warm = inference(problem), inference(problem, start=near.start)
    assert warm.evidence.log_z == pytest.approx(cold.evidence.log_z, abs=1e-5)
    np.testing.assert_allclose(warm.gaussian.mean, cold.gaussian.mean, atol=1e-4)
    assert warm.report.iterations <= cold.report.iterations


@pytest.mark.parametrize("name", NAMES)
def test_a_useless_warm_start_does_no_harm(name):
    problem = make_problem(n=40, kernel=C(50.0) * RBF(0.5))
    inference = INFERENCES[name].factory()
    far = inference(problem.at(np.log([1e-3, 30.0])))
    cold, warm = inference(problem), inference(problem, start=far.start)
    assert warm.report.converged
    assert warm.evidence.log_z == pytest.approx(cold.evidence.log_z, abs=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_predictions_in_blocks_are_the_same(name, monkeypatch):
    problem = make_problem(n=30)
    posterior = TIGHT[name](problem)
    whole = posterior.latent(problem.X)
    monkeypatch.setattr("gpclass.latent.dense_gaussian.BLOCK_ELEMENTS", 100)
    parts = posterior.latent(problem.X)
    np.testing.assert_allclose(parts.means, whole.means)
    np.testing.assert_allclose(parts.covariances, whole.covariances)


def test_site_factor_against_direct_inverses(rng):
    n = 300
    A = rng.standard_normal((n, n))
    K, t = A @ A.T / n, rng.uniform(0.1, 2.0, n)
    factor = SiteFactor(K, t)
    R = np.linalg.inv(K + np.diag(1 / t))
    P = np.linalg.inv(np.linalg.inv(K) + np.diag(t))
    b = rng.standard_normal((n, 3))
    np.testing.assert_allclose(factor.inverse, R, atol=1e-10)
    np.testing.assert_allclose(factor.solve(b), R @ b, atol=1e-10)
    np.testing.assert_allclose(factor.solve(b[:, 0]), R @ b[:, 0], atol=1e-10)
    half = factor.half_solve(b)
    np.testing.assert_allclose(half.T @ half, b.T @ R @ b, atol=1e-9)
    rough = factor.rough_half_solve(b)
    assert rough.dtype == np.float32
    np.testing.assert_allclose(rough.T @ rough, b.T @ R @ b, atol=1e-6 * n)
    np.testing.assert_allclose(factor.variances(np.ones(len(P), dtype=bool)), np.diag(P), atol=1e-8)
    np.testing.assert_allclose(factor.leverage, t * np.diag(P), atol=1e-8)
    assert factor.half_log_det == pytest.approx(0.5 * np.linalg.slogdet(np.eye(n) + K * t)[1])


def test_approximations_order_as_known():
    """On a problem with few, decisive points Laplace is the farthest and EP the nearest to the truth."""
    problem = make_problem(n=3, kernel=C(30.0) * RBF(1.0))
    truth = brute_force(problem)
    errors = {name: abs(TIGHT[name](problem).evidence.log_z - truth) for name in NAMES}
    assert errors["ep"] < errors["variational"] < errors["laplace"]


def test_unknown_likelihood_names_the_near_one():
    with pytest.raises(ValueError, match="probit"):
        get_likelihood("probti")
