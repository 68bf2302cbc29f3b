"""The exact engine under the logit link and fractional weights, against one-dimensional truths and repeated runs."""

import numpy as np
import pytest
from scipy.special import log_expit, log_ndtr, logsumexp
from sklearn.gaussian_process.kernels import RBF, DotProduct
from sklearn.gaussian_process.kernels import ConstantKernel as C

from gpclass import GPClassifier
from gpclass.inference import EP, Exact
from gpclass.inference.exact_latent import around_ep
from gpclass.inference.posteriors import NoisyDraws, WhiteDraws
from gpclass.latent.low_rank import LowRank
from gpclass.likelihoods import Logit, MultinomialProbit, Probit
from gpclass.model.problem import Problem
from gpclass.persistence import load_model
from gpclass.predict import predict_proba

LOG = {Probit: log_ndtr, Logit: log_expit}
LINEAR = DotProduct(sigma_0=1e-9, sigma_0_bounds="fixed")
WEIGHTS = {"none": None, "below": (0.2, 0.9), "mixed": (0.2, 3.5), "heavy": (20.0, 60.0)}


def linear_problem(n, likelihood, weights, scale=1.0, seed=0):
    """Rows of one feature, f(x) = a x."""
    rng = np.random.default_rng(seed)
    x = scale * np.concatenate([rng.normal(0.0, 0.5, n // 2), rng.normal(1.5, 0.75, n - n // 2)])
    y = np.repeat([1.0, -1.0], [n // 2, n - n // 2])
    w = None if weights is None else rng.uniform(*weights, n)
    return Problem.of(x[:, None], y, LINEAR, likelihood, w)


def linear_truth(problem, x_new):
    """log p(y) and p(y*=1) by a fine grid of the slope a ~ N(0, 1)."""
    a, log = np.linspace(-12, 12, 40_001), LOG[type(problem.likelihood)]
    w = np.ones(problem.n) if problem.weights is None else problem.weights
    log_f = -0.5 * a**2 - 0.5 * np.log(2 * np.pi) + log(np.outer(a, problem.X[:, 0] * problem.y)) @ w
    share = np.exp(log_f - logsumexp(log_f))
    return logsumexp(log_f) + np.log(a[1] - a[0]), share @ np.exp(log(np.outer(a, x_new)))


@pytest.mark.slow
@pytest.mark.parametrize("weights", list(WEIGHTS))
@pytest.mark.parametrize("likelihood", [Probit(), Logit()], ids=["probit", "logit"])
def test_one_dimensional_truth(likelihood, weights):
    problem = linear_problem(30, likelihood, WEIGHTS[weights])
    x_new = np.linspace(-2, 3, 11)
    log_z, p = linear_truth(problem, x_new)
    posterior = Exact(n_samples=4000)(problem, np.random.default_rng(1))
    assert isinstance(posterior, NoisyDraws)
    got = predict_proba(posterior.latent(x_new[:, None]), problem.likelihood)
    error = posterior.evidence.error
    assert error < 0.05
    assert abs(posterior.evidence.log_z - log_z) < 4 * error + 1e-4
    assert np.all(np.abs(got.proba[:, 1] - p) < 5 * got.mcse[:, 1] + 1e-5)
    # negative controls: another evidence, or probabilities moved by 0.02, would not pass
    assert abs(posterior.evidence.log_z - (log_z + 0.4)) > 4 * error
    assert not np.all(np.abs(got.proba[:, 1] - (p + 0.02)) < 5 * got.mcse[:, 1])


@pytest.mark.slow
@pytest.mark.parametrize("weights", [None, (0.2, 1.6)])
@pytest.mark.parametrize("likelihood", [Probit(), Logit()], ids=["probit", "logit"])
def test_the_evidence_is_unbiased(likelihood, weights):
    """Few draws, many runs: the mean of Z is the truth within its error, which a bias of half of that would exceed."""
    problem = linear_problem(10, likelihood, weights, scale=3.0)
    log_z, _ = linear_truth(problem, np.zeros(1))
    rng = np.random.default_rng(0)
    engine = Exact(n_samples=40)
    outline = engine.outline(problem)
    ratio = np.exp([engine.complete(outline, rng).evidence.log_z - log_z for _ in range(100)])
    error = ratio.std(ddof=1) / np.sqrt(len(ratio))
    assert abs(ratio.mean() - 1) < 3 * error
    assert error < 0.04


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", [Probit(), Logit()], ids=["probit", "logit"])
def test_gradient_by_finite_differences(likelihood):
    rng = np.random.default_rng(3)
    X, w = rng.standard_normal((12, 1)), rng.uniform(0.3, 2.5, 12)
    y = np.where(X[:, 0] + rng.standard_normal(12) > 0, 1.0, -1.0)
    problem = Problem.of(X, y, C(2.0) * DotProduct(sigma_0=0.7), likelihood, w)

    def truth(theta):
        """Two dimensions: slope and offset."""
        v, s0 = np.exp(theta[0]), np.exp(theta[1])
        z = np.linspace(-8, 8, 201)
        a, b = (g.ravel()[:, None] for g in np.meshgrid(z, z))
        f = np.sqrt(v) * (a * X[:, 0] + s0 * b)
        log_f = LOG[type(likelihood)](y * f) @ w - 0.5 * (a**2 + b**2)[:, 0]
        return logsumexp(log_f)

    theta = problem.theta
    step = 1e-4 * np.eye(len(theta))
    slope = np.array([(truth(theta + e) - truth(theta - e)) / 2e-4 for e in step])
    runs = [Exact(n_samples=4000)(problem, np.random.default_rng(r), gradient=True).evidence.gradient for r in range(8)]
    error = np.std(runs, axis=0, ddof=1) / np.sqrt(8)
    assert np.all(np.abs(np.mean(runs, axis=0) - slope) < 4 * error + 1e-4)
    assert np.all(error < 0.02)


def hard_data(n, d):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    f = 1.5 * np.sin(2 * X[:, 0]) + X[:, 1 % d]
    return X, np.where(f + 0.7 * rng.standard_normal(n) > 0, 1.0, -1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "d", "kernel"),
    [
        (30, 2, C(100.0) * RBF(1.0)),
        (60, 2, C(10.0) * RBF(1.0)),
        (200, 3, C(100.0) * RBF(1.5)),
        (200, 3, C(1000.0) * RBF(2.0)),
        (500, 8, C(50.0) * RBF(2.5)),
    ],
)
def test_logit_draws_are_even(n, d, kernel):
    """Draws under a similar probit, weighted, had an effective share of 0.00 to 0.13 on the last two."""
    X, y = hard_data(n, d)
    problem = Problem.of(X, y, kernel, Logit())
    engine, rng = Exact(n_samples=1000), np.random.default_rng(0)
    outline = engine.outline(problem)
    runs = [engine.complete(outline, rng) for _ in range(3)]
    share = [run.report.ess / 1000 for run in runs]
    assert np.mean(share) > 0.3
    assert min(share) > 0.1
    assert np.std([run.evidence.log_z for run in runs], ddof=1) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", [Probit(), Logit()], ids=["probit", "logit"])
def test_weights_are_continuous(likelihood):
    """A millionth more weight changes nothing, from either side of a whole number; a tenth does."""
    X, y = hard_data(30, 2)
    new = X[:5] + 0.1

    def answers(w):
        problem = Problem.of(X, y, C(2.0) * RBF(1.0), likelihood, np.full(30, w))
        posterior = Exact(n_samples=4000)(problem, np.random.default_rng(0))
        got = predict_proba(posterior.latent(new), likelihood)
        return posterior.evidence.log_z, got.proba[:, 1], posterior.evidence.error, got.mcse[:, 1]

    for whole in (1.0, 2.0):
        log_z, p, error, mcse = answers(whole)
        for w in (whole - 1e-6, whole + 1e-6):
            near = answers(w)
            assert abs(near[0] - log_z) < 4 * np.hypot(error, near[2]) + 1e-4
            assert np.all(np.abs(near[1] - p) < 5 * np.hypot(mcse, near[3]) + 1e-4)
    assert abs(answers(1.1)[0] - answers(1.0)[0]) > 0.5


@pytest.mark.slow
def test_saved_draws_come_back(tmp_path):
    X, y = hard_data(120, 2)
    weights = np.random.default_rng(0).uniform(0.4, 1.6, 120)
    for likelihood, w in (("logit", None), ("probit", weights)):
        model = GPClassifier(
            C(3.0) * RBF(1.0),
            likelihood=likelihood,
            inference=Exact(n_samples=6000),
            hyperparameters="fixed",
            random_state=0,
            tol=0.1,
        ).fit(X, y, sample_weight=w)
        model.save(tmp_path / "model.gpc")
        again = load_model(tmp_path / "model.gpc")
        np.testing.assert_allclose(again.predict_proba(X[:7]), model.predict_proba(X[:7]), rtol=1e-12)


@pytest.mark.slow
def test_ep_and_exact_agree_on_easy_weighted_rows():
    X, y = hard_data(40, 2)
    w = np.random.default_rng(1).uniform(0.2, 3.0, 40)
    for likelihood in (Probit(), Logit()):
        problem = Problem.of(X, y, C(1.0) * RBF(1.0), likelihood, w)
        ep, exact = EP()(problem), Exact(n_samples=4000)(problem, np.random.default_rng(0))
        assert abs(ep.evidence.log_z - exact.evidence.log_z) < 0.05


@pytest.mark.parametrize("many", [False, True])
def test_draws_under_inducing_inputs_are_even(many):
    """Few rows and a strong signal: draws of EP's Gaussian had an effective share of 0.00 to 0.1."""
    X, y = hard_data(60, 2)
    likelihood = MultinomialProbit() if many else Probit()
    labels = (X[:, 1] > 0.5) + (y > 0).astype(int) if many else y
    problem = Problem.of(X, labels, C(300.0) * RBF(1.0), likelihood, form=LowRank(X[:15].copy()))
    posterior = Exact(n_samples=1000)(problem, np.random.default_rng(0))
    assert isinstance(posterior, WhiteDraws)
    assert posterior.report.ess > 300


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", [Probit(), Logit()], ids=["probit", "logit"])
def test_both_ways_agree_under_inducing_inputs(likelihood):
    X, y = hard_data(40, 2)
    problem = Problem.of(X, y, C(1.5) * RBF(1.0), likelihood, form=LowRank(X[:12].copy()))
    engine = Exact(n_samples=4000)
    one = engine(problem, np.random.default_rng(0), gradient=True)
    two = around_ep(engine, problem, np.random.default_rng(1), None, True)
    assert abs(one.evidence.log_z - two.evidence.log_z) < 4 * np.hypot(one.evidence.error, two.evidence.error)
    few = Exact(n_samples=1000)
    ways = [
        [few(problem, np.random.default_rng(r), gradient=True).evidence.gradient for r in range(20)],
        [around_ep(few, problem, np.random.default_rng(r), None, True).evidence.gradient for r in range(20)],
    ]
    gap, error = (
        np.mean(ways[0], axis=0) - np.mean(ways[1], axis=0),
        np.std(ways, axis=1, ddof=1) / np.sqrt(20),
    )
    assert np.all(np.abs(gap) < 4 * np.hypot(*error))
    p, q = (predict_proba(each.latent(X[:9] + 0.2), likelihood) for each in (one, two))
    assert np.all(np.abs(p.proba - q.proba) < 5 * np.hypot(p.mcse, q.mcse))


def test_a_wide_share_of_the_draws_bounds_the_weights():
    X, y = hard_data(40, 2)
    problem = Problem.of(X, y, C(300.0) * RBF(1.0), Probit(), form=LowRank(X[:12].copy()))
    ep = Exact().row_sites(problem, None)
    narrow, wide = (problem.prior.whitened(ep.gaussian, power) for power in (1.0, 0.02))
    np.testing.assert_allclose(narrow.m, wide.m, atol=1e-8)  # about the same mean
    far = wide.latents(4.0 * np.random.default_rng(0).standard_normal((200, wide.dimension)))
    assert wide.log_ratio(far).max() < narrow.log_ratio(far).max() - 5
