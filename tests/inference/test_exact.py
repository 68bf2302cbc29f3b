"""The exact inference and GPC-MC against closed forms, brute force and each other."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_ndtr, logsumexp, ndtr
from sklearn.gaussian_process.kernels import RBF, DotProduct
from sklearn.gaussian_process.kernels import ConstantKernel as C

from gpclass import GPClassifier
from gpclass.inference import EP, GPCMC, Exact, drawn
from gpclass.kernels import linear
from gpclass.likelihoods import Probit
from gpclass.model.problem import Problem
from gpclass.predict import predict_proba
from tests.conftest import make_problem
from tests.normal import log_orthant


def linear_truth(x, y, x_new):
    """A eq. 66: log p(y) and p(y*=1) of the linear kernel in one feature, by a fine grid in logs."""
    u = np.linspace(-12, 12, 20_001)
    log_f = -0.5 * u**2 - 0.5 * np.log(2 * np.pi) + log_ndtr(np.outer(u, x * y)).sum(axis=1)
    log_z = logsumexp(log_f) + np.log(u[1] - u[0])
    weight = np.exp(log_f - logsumexp(log_f))
    return log_z, weight @ ndtr(np.outer(u, x_new))


def linear_problem(n, seed=0, means=(0.0, 1.5), sds=(0.5, 0.75)):
    rng = np.random.default_rng(seed)
    half = n // 2
    x = np.concatenate([rng.normal(means[0], sds[0], half), rng.normal(means[1], sds[1], n - half)])
    y = np.repeat([1.0, -1.0], [half, n - half])
    kernel = DotProduct(sigma_0=1e-9, sigma_0_bounds="fixed")
    return Problem.of(x[:, None], y, kernel, Probit()), rng.normal(0.7, 1.0, 50)


@pytest.mark.slow
@pytest.mark.parametrize("n", [10, 100, 400])
def test_linear_kernel_closed_form(n):
    problem, x_new = linear_problem(n)
    log_z, p = linear_truth(problem.X[:, 0], problem.y, x_new)
    posterior = Exact(n_samples=4000)(problem, np.random.default_rng(1))
    got = predict_proba(posterior.latent(x_new[:, None]), problem.likelihood)
    assert abs(posterior.evidence.log_z - log_z) < 4 * posterior.evidence.error + 1e-9
    assert posterior.evidence.error < 0.02
    assert np.all(np.abs(got.proba[:, 1] - p) < 5 * got.mcse[:, 1] + 1e-9)
    # a negative control: another evidence, or probabilities moved by 0.01, would not pass
    assert abs(posterior.evidence.log_z - (log_z + 0.2)) > 4 * posterior.evidence.error
    assert not np.all(np.abs(got.proba[:, 1] - (p + 0.01)) < 5 * got.mcse[:, 1])


@pytest.mark.parametrize("n", [1, 2, 4, 6])
@pytest.mark.parametrize("scale", [1.0, 0.5876])
def test_small_problems_by_quadrature(n, scale):
    problem = make_problem(n=n, likelihood=Probit(scale), kernel=C(3.0) * RBF(1.2))
    new = np.array([[0.2, -0.3]])
    S = problem.y[:, None] * (problem.prior.K + np.eye(n) / scale**2) * problem.y
    cross = problem.y * problem.covariance(problem.X, new)[:, 0]
    both = np.block([[S, cross[:, None]], [cross[None], np.array([[3.0 + scale**-2]])]])
    log_z = log_orthant(S)
    p = np.exp(log_orthant(both) - log_z)
    posterior = Exact(n_samples=4000)(problem, np.random.default_rng(0))
    got = predict_proba(posterior.latent(new), problem.likelihood)
    assert abs(posterior.evidence.log_z - log_z) < 4 * posterior.evidence.error + 2e-5
    assert abs(got.proba[0, 1] - p) < 4 * got.mcse[0, 1] + 2e-5


def test_coincident_points_closed_form():
    """x* = x_1, one observation: p* = ½ + asin(β/(1+β))/π."""
    beta = 3.0
    problem = Problem.of(np.zeros((1, 1)), np.ones(1), C(beta) * RBF(1.0), Probit())
    got = predict_proba(Exact(n_samples=4000)(problem).latent(np.zeros((1, 1))), problem.likelihood)
    assert abs(got.proba[0, 1] - (0.5 + np.arcsin(beta / (1 + beta)) / np.pi)) < 4 * got.mcse[0, 1]


def test_infinite_length_scale_counts():
    """α → ∞: one latent value for all (A eq. 31 with its 1/√(2π))."""
    beta, counts = 4.0, (7, 3)
    X = np.arange(10.0)[:, None]
    y = np.repeat([1.0, -1.0], counts)
    problem = Problem.of(X, y, C(beta) * RBF(1e6), Probit())

    def integral(a, b):
        f = lambda u: np.exp(-0.5 * u * u) / np.sqrt(2 * np.pi) * ndtr(2 * u) ** a * ndtr(-2 * u) ** b  # noqa: E731
        return quad(f, -10, 10, epsabs=1e-14)[0]

    posterior = Exact(n_samples=4000)(problem, np.random.default_rng(0))
    got = predict_proba(posterior.latent(X[:1]), problem.likelihood)
    assert abs(posterior.evidence.log_z - np.log(integral(7, 3))) < 4 * posterior.evidence.error
    assert abs(got.proba[0, 1] - integral(8, 3) / integral(7, 3)) < 4 * got.mcse[0, 1]


def test_all_labelings_sum_to_one():
    base = make_problem(n=5)
    total = 0.0
    for bits in range(32):
        y = np.array([1.0 if bits >> i & 1 else -1.0 for i in range(5)])
        total += np.exp(Exact(n_samples=1000)(Problem.of(base.X, y, base.kernel, base.likelihood)).evidence.log_z)
    assert total == pytest.approx(1.0, abs=2e-3)


@pytest.mark.slow
def test_errors_are_calibrated():
    """z-scores of log p(y) and of probabilities over repeats; a halved error fails the same test."""
    problem, x_new = linear_problem(60, means=(0.0, 1.0), sds=(2.0, 1.0))
    log_z, p = linear_truth(problem.X[:, 0], problem.y, x_new[:5])
    z_evidence, z_proba = [], []
    for seed in range(200):
        posterior = Exact(n_samples=400)(problem, np.random.default_rng(seed))
        got = predict_proba(posterior.latent(x_new[:5, None]), problem.likelihood)
        z_evidence.append((posterior.evidence.log_z - log_z) / posterior.evidence.error)
        z_proba.append((got.proba[:, 1] - p) / got.mcse[:, 1])
    for z in (np.array(z_evidence), np.array(z_proba).ravel()):
        assert 0.8 < np.sqrt(np.mean(z**2)) < 1.25
        assert 0.85 < np.mean(np.abs(z) < 1.645) < 0.95
        assert not np.sqrt(np.mean((2 * z) ** 2)) < 1.25


@pytest.mark.slow
def test_gradient_is_that_of_the_exact_evidence():
    """Against differences of the evidence with many draws and the same random numbers."""
    problem = make_problem(n=40, kernel=C(2.0) * RBF(0.9))
    inference = Exact(n_samples=8000)
    seeds = [inference(problem, np.random.default_rng(s), gradient=True).evidence.gradient for s in range(8)]
    mean, error = np.mean(seeds, axis=0), np.std(seeds, axis=0, ddof=1) / np.sqrt(8)
    for k in range(2):
        move = 0.1 * np.eye(2)[k]
        moved = [problem.at(problem.theta + s * move) for s in (-2, -1, 1, 2)]
        values = [np.mean([inference(p, np.random.default_rng(r)).evidence.log_z for r in range(4)]) for p in moved]
        slope = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / 1.2  # fourth order
        assert abs(mean[k] - slope) < 4 * error[k] + 0.02


@pytest.mark.slow
def test_gpc_mc_agrees_and_hard_is_unbiased():
    problem, x_new = linear_problem(40)
    log_z, p = linear_truth(problem.X[:, 0], problem.y, x_new)
    for soft in (True, False):
        posterior = GPCMC(n_samples=40_000, soft=soft)(problem, np.random.default_rng(3))
        got = predict_proba(posterior.latent(x_new[:, None]), problem.likelihood)
        assert abs(posterior.evidence.log_z - log_z) < 4 * posterior.evidence.error
        assert np.mean(np.abs(got.proba[:, 1] - p)) < 0.01
    small = [
        GPCMC(n_samples=50, soft=False, runs=1)(problem, np.random.default_rng(s)).evidence.log_z for s in range(400)
    ]
    ratio = np.exp(np.array(small) - log_z)
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / np.sqrt(len(ratio))


def test_gpc_mc_names_the_point_that_no_draw_survives():
    rng = np.random.default_rng(0)
    X = rng.random((120, 2))
    y = np.where(rng.random(120) < 0.5, 1.0, -1.0)
    with pytest.raises(ValueError, match=r"training point \d+.*exact"):
        GPCMC(n_samples=200, runs=1)(Problem.of(X, y, C(500.0) * RBF(0.5), Probit()), rng)


@pytest.mark.slow
def test_extinct_hard_count_never_stops_exact():
    rng = np.random.default_rng(0)
    X = rng.random((120, 2))
    y = np.where(rng.random(120) < 0.5, 1.0, -1.0)
    posterior = Exact(n_samples=2000)(Problem.of(X, y, C(500.0) * RBF(0.5), Probit()), rng)
    assert np.isfinite(posterior.evidence.log_z)
    assert posterior.evidence.error < 0.5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the weights of the draws have a heavy tail")  # so few do
def test_tolerance_is_met_or_said():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 2))
    y = X[:, 0] + 0.5 * rng.standard_normal(60) > 0
    kernel = C(4.0) * RBF(1.0)
    fine = GPClassifier(kernel, hyperparameters="fixed", tol=5e-4, random_state=0).fit(X, y)
    coarse = GPClassifier(kernel, hyperparameters="fixed", tol=2e-2, random_state=0).fit(X, y)
    assert np.max(fine.predict_uncertainty(X).mcse) < 7.5e-4
    assert coarse.fit_report_.n_samples < fine.fit_report_.n_samples
    few = Exact(tol=1e-5, max_samples=2000)
    with pytest.warns(UserWarning, match="above tol"):
        GPClassifier(kernel, inference=few, hyperparameters="fixed", random_state=0).fit(X, y)


@pytest.mark.slow
def test_maximize_ends_on_the_exact_evidence():
    """The exact evidence at the parameters found is not below that at EP's optimum, beyond the noise."""
    problem = make_problem(n=30, kernel=C(1.0) * RBF(1.0), seed=4)
    X, y = problem.X, problem.y
    exact = GPClassifier(problem.kernel, random_state=0).fit(X, y)
    ep = GPClassifier(problem.kernel, inference="ep").fit(X, y)
    judge = Exact(n_samples=20_000)
    at_exact, at_ep = (judge(problem.at(c.kernel_.theta), np.random.default_rng(9)).evidence for c in (exact, ep))
    assert at_exact.log_z > at_ep.log_z - 0.02
    assert exact.evidence_kind_ == "unbiased"
    assert exact.log_evidence_error_ > 0


def test_whole_weights_are_rows():
    problem = make_problem(n=20)
    weights = np.ones(20)
    weights[::3] = 2.0
    rows = np.repeat(np.arange(20), weights.astype(int))
    weighted = Exact(n_samples=4000)(Problem.of(problem.X, problem.y, problem.kernel, problem.likelihood, weights))
    repeated = Exact(n_samples=4000)(Problem.of(problem.X[rows], problem.y[rows], problem.kernel, problem.likelihood))
    assert weighted.evidence.log_z == pytest.approx(repeated.evidence.log_z, abs=1e-9)


def test_linear_constructor_is_the_same_problem():
    problem, _ = linear_problem(30)
    again = Problem.of(problem.X, problem.y, linear(variance=1.0, bias=1e-9), Probit())
    np.testing.assert_allclose(again.prior.K, problem.prior.K, atol=1e-8)
    assert EP()(again).evidence.log_z == pytest.approx(EP()(problem).evidence.log_z, abs=1e-6)


@pytest.mark.parametrize("variance", [10.0, 1e6])
def test_draws_over_their_covariance_survive_large_variances(variance, monkeypatch):
    """K A by the draws' own coordinates, or where rounding would show by a solve."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 2))
    y = np.where(X[:, 0] + 0.3 * rng.standard_normal(120) > 0, 1.0, -1.0)
    kernel = C(variance) * RBF(300.0 if variance > 100 else 1.0)
    problem = Problem.of(X, y, kernel, Probit())
    K = kernel(X)

    def latents():
        return K @ Exact(n_samples=200)(problem, np.random.default_rng(0)).A[0]

    ours = latents()
    monkeypatch.setattr(drawn, "MILD", 0.0)
    slow = latents()
    np.testing.assert_allclose(ours, slow, atol=1e-5 * np.abs(slow).max())
    monkeypatch.setattr(drawn, "MILD", np.inf)
    assert (np.abs(latents() - slow).max() > 1e-5 * np.abs(slow).max()) == (variance > 100)  # the rule is needed
