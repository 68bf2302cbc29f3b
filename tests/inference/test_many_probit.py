"""Multinomial probit: EP against EP on the dense orthant, the exact engine against brute force."""

from itertools import product

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, Matern

from gpclass.inference import EP, Exact, Importance, Laplace
from gpclass.inference.noise import noise_factor, noisy_latents
from gpclass.likelihoods import Logit, MultinomialProbit, Probit, Softmax
from gpclass.model.problem import Problem
from gpclass.orthant.box import standard_form
from gpclass.orthant.plan import fit_sites as dense_sites
from gpclass.predict import predict_proba
from gpclass.predict.many import many_proba
from tests.inference.test_many_laplace import OWN, WEIGHTS, kernels_of, problem
from tests.normal import log_orthant
from tests.slopes import directions


def probit(**settings):
    return problem(likelihood=MultinomialProbit(), **settings)


def tiny(n, C, y=None, kernel=None, seed=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    y = np.arange(n) % C if y is None else np.asarray(y)
    kernel = 2.0 * RBF(1.0) if kernel is None else kernel
    return Problem.of(X, y, kernel, MultinomialProbit(), n_classes=C)


def orthant_covariance(task):
    """Covariance of the differences u_y − u_c, row by row, as the box of the exact engine has it."""
    box = task.prior.box()
    return box.scale[:, None] * box.S * box.scale


def slow_log_evidence(task):
    """P(own utility beats all others, at every point) by the cdf of the differences' dense covariance."""
    n, C = task.n, task.n_classes
    U = np.zeros((n * C, n * C))  # utilities, point-major
    for c, kernel in enumerate(kernels_of(task)):
        U[c::C, c::C] = kernel(task.X) + np.eye(n)
    A = []
    for i in range(n):
        for c in range(C):
            if c != task.y[i]:
                row = np.zeros(n * C)
                row[i * C + c], row[i * C + task.y[i]] = 1.0, -1.0  # u_c - u_y < 0
                A.append(row)
    A = np.array(A)
    return log_orthant(A @ U @ A.T)


# ---- the orthant ---------------------------------------------------------------------------------------


def test_covariance_of_the_differences_is_that_of_drawn_utilities():
    task = tiny(3, 3, kernel=CompoundKernel(OWN))
    rng = np.random.default_rng(0)
    u = np.stack([rng.multivariate_normal(np.zeros(3), k(task.X) + np.eye(3), 400_000) for k in OWN], axis=2)
    v = [u[:, i, task.y[i]] - u[:, i, c] for i in range(3) for c in range(3) if c != task.y[i]]
    np.testing.assert_allclose(orthant_covariance(task), np.cov(v), atol=0.05)


# ---- expectation propagation ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "task", [probit(), probit(n=40, C=4, kernel=30.0 * RBF(1.5)), probit(kernel=CompoundKernel(OWN))]
)
def test_ep_is_ep_on_the_dense_orthant(task):
    found = EP(tol=1e-8)(task)
    dense = dense_sites(standard_form(orthant_covariance(task)), tol=1e-9, max_sweeps=100)
    assert found.report.converged
    assert found.evidence.log_z == pytest.approx(dense.log_z, abs=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [None, CompoundKernel(OWN)])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_ep_gradient_is_that_of_differences(kernel, weights):
    task, ep = probit(kernel=kernel, weights=weights), EP(tol=1e-10)
    slope = ep(task, gradient=True).evidence.gradient
    for along in directions(len(slope)):
        up, down = (ep(task.at(task.theta + s * along)).evidence.log_z for s in (1e-4, -1e-4))
        assert slope @ along == pytest.approx((up - down) / 2e-4, rel=1e-5, abs=1e-6)


def test_ep_starts_from_a_neighbour():
    task, ep = probit(n=40, kernel=30.0 * RBF(1.5)), EP()
    cold = ep(task)
    near = task.at(task.theta + 0.05)
    warm = ep(near, start=cold.start)
    assert warm.report.iterations < cold.report.iterations
    assert warm.evidence.log_z == pytest.approx(ep(near).evidence.log_z, abs=1e-7)


def test_ep_says_when_it_did_not_converge():
    report = EP(max_sweeps=2)(probit()).report
    assert not report.converged
    assert "2 sweeps" in report.reason


@pytest.mark.parametrize("method", [EP(tol=1e-9), Laplace()])
def test_whole_weights_are_repeated_rows(method):
    likelihood = Softmax() if method.name == "laplace" else MultinomialProbit()
    copies = 1.0 + np.arange(25) % 3
    task = problem(likelihood=likelihood, weights=copies)
    rows = np.repeat(np.arange(25), copies.astype(int))
    repeated = task.on(task.X[rows], task.y[rows])
    one, other = method(task), method(repeated)
    assert one.evidence.log_z == pytest.approx(other.evidence.log_z, abs=1e-6)
    a, b = one.latent(task.X[:3]), other.latent(task.X[:3])
    np.testing.assert_allclose(a.means, b.means, atol=1e-5)
    np.testing.assert_allclose(a.covariances, b.covariances, atol=1e-5)


# ---- the exact engine ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "C"), [(3, 3), (2, 4)])
@pytest.mark.parametrize("own", [False, True])
def test_evidence_against_brute_force(n, C, own):
    kernel = CompoundKernel([*OWN, 3.0 * Matern(0.7)][:C]) if own else None
    task = tiny(n, C, kernel=kernel)
    evidence = Exact(n_samples=20_000)(task, np.random.default_rng(1)).evidence
    assert 0 < evidence.error < 2e-3
    assert abs(evidence.log_z - slow_log_evidence(task)) < 4 * evidence.error + 1e-4
    wrong = slow_log_evidence(tiny(n, C, y=np.zeros(n, dtype=int), kernel=kernel))
    assert abs(evidence.log_z - wrong) > 20 * evidence.error  # the test can fail


@pytest.mark.slow
@pytest.mark.parametrize(("n", "C"), [(3, 3), (2, 4)])
def test_probabilities_of_all_labelings_sum_to_one(n, C):
    runs = [
        Exact(n_samples=1000)(tiny(n, C, y=y), np.random.default_rng(k)).evidence
        for k, y in enumerate(product(range(C), repeat=n))
    ]
    p = np.exp([run.log_z for run in runs])
    error = np.sqrt(np.sum((p * [run.error for run in runs]) ** 2))
    assert error < 2e-3
    assert abs(p.sum() - 1.0) < 4 * error


@pytest.mark.slow
def test_exact_gradient_is_that_of_brute_force():
    task = tiny(3, 3, kernel=CompoundKernel(OWN))
    slope = Exact(n_samples=40_000)(task, np.random.default_rng(2), gradient=True).evidence.gradient
    for along in directions(len(slope)):
        up, down = (slow_log_evidence(task.at(task.theta + s * along)) for s in (0.05, -0.05))
        assert slope @ along == pytest.approx((up - down) / 0.1, abs=4e-3)


@pytest.mark.slow
def test_exact_agrees_with_importance_sampling():
    """Two unbiased ways that share nothing but EP: draws of v in the orthant, draws of f weighted by the link."""
    task = probit(n=20)
    new = np.random.default_rng(9).standard_normal((5, 2))
    draws = Exact(n_samples=10_000)(task, np.random.default_rng(0))
    other = Importance(n_samples=10_000, around="ep")(task, np.random.default_rng(1))
    gap = draws.evidence.log_z - other.evidence.log_z
    assert abs(gap) < 4 * np.hypot(draws.evidence.error, other.evidence.error)
    one, two = (many_proba(p.latent(new), task.likelihood) for p in (draws, other))
    z = (one.proba - two.proba) / np.hypot(one.mcse, two.mcse)
    assert np.all(np.abs(z) < 4.5)
    ep = many_proba(EP()(task).latent(new), task.likelihood)
    assert np.abs(ep.proba - one.proba).max() < 0.02


@pytest.mark.slow
def test_softmax_laplace_is_near_the_true_posterior():
    """Long importance sampling, whose own error is known, where Laplace's Gaussian is a fair guide.

    Laplace's own error has a sign: the mode is nearer to zero than the mean, so it is less sure of itself.
    """
    task = problem(n=20, kernel=1.0 * RBF(1.0))
    new = np.random.default_rng(9).standard_normal((5, 2))
    laplace = Laplace()(task)
    truth = Importance(n_samples=16_000, around="laplace")(task, np.random.default_rng(1))
    assert truth.report.ess > 8000
    assert truth.report.khat < 0.7
    assert abs(laplace.evidence.log_z - truth.evidence.log_z) < 0.3
    one, two = (many_proba(p.latent(new), task.likelihood) for p in (laplace, truth))
    assert two.mcse.max() < 3e-3
    np.testing.assert_allclose(one.proba, two.proba, atol=0.03)
    assert np.mean(two.proba.max(axis=1) - one.proba.max(axis=1)) > 0.0


@pytest.mark.slow
def test_errors_are_calibrated():
    task = probit(n=12)
    new = np.array([[0.2, 0.1], [-1.0, 0.5]])

    def answer(M, seed):
        posterior = Exact(n_samples=M)(task, np.random.default_rng(seed))
        found = many_proba(posterior.latent(new), task.likelihood)
        return found, posterior.evidence

    truth, log_z = answer(16_000, 999)
    runs = [answer(400, seed) for seed in range(40)]
    z = np.array([(p.proba - truth.proba) / p.mcse for p, _ in runs])
    ze = np.array([(e.log_z - log_z.log_z) / e.error for _, e in runs])
    for rms in (np.sqrt(np.mean(z**2)), np.sqrt(np.mean(ze**2))):
        assert 0.7 < rms < 1.35
        assert not 0.7 < 2 * rms < 1.35  # errors half as large would be caught


@pytest.mark.parametrize("classes", [2, 3])
def test_noise_of_the_gradient_is_that_between_seeds(classes):
    X, y = two_classes()
    task = probit(n=20) if classes == 3 else Problem.of(X, 2.0 * y - 1.0, 2.0 * RBF(0.9), Probit())
    found = [Exact(n_samples=300)(task, np.random.default_rng(s), gradient=True).evidence for s in range(60)]
    noise = np.mean([one.gradient_noise for one in found], axis=0)
    ratio = np.cov(np.array([one.gradient for one in found]).T).trace() / noise.trace()
    assert 0.6 < ratio < 1.6
    assert not 0.6 < 4 * ratio < 1.6  # an error half as large would be caught


def test_levelled_utilities_are_those_of_the_solve():
    """Of a shared kernel; their differences between classes, which probabilities depend on, and their mean."""
    task = probit(n=12)
    found, N = noise_factor(task), 12 * (task.n_latents - 1)
    v = np.random.default_rng(0).random((N, 1500))
    ours, other = (noisy_latents(task, found, v, np.random.default_rng(1), level=level) for level in (True, False))
    np.testing.assert_allclose(ours, other, atol=1e-10)


def test_fractional_weights_lie_between_whole_ones():
    new = np.array([[0.3, -0.2]])
    found = []
    for w in (1.0, 1.5, 2.0):
        weights = np.where(np.arange(15) < 5, w, 1.0)
        posterior = Exact(n_samples=4000)(probit(n=15, weights=weights), np.random.default_rng(0))
        found.append(many_proba(posterior.latent(new), MultinomialProbit()))
    low, middle, high = (f.proba[0, 0] for f in found)
    slack = 4 * max(f.mcse.max() for f in found)
    assert min(low, high) - slack < middle < max(low, high) + slack


# ---- two classes, and names of classes -----------------------------------------------------------------


def two_classes(n=20, seed=2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return X, (X[:, 0] + 0.5 * rng.standard_normal(n) > 0).astype(int)


def test_two_classes_of_multinomial_probit_are_probit():
    X, y = two_classes()
    many = Problem.of(X, y, 2.0 * RBF(0.9), n_classes=2, likelihood=MultinomialProbit())
    binary = Problem.of(X, 2.0 * y - 1.0, 2.0 * RBF(0.9), Probit())
    a, b = EP(tol=1e-9)(many, gradient=True), EP(tol=1e-9)(binary, gradient=True)
    assert a.evidence.log_z == pytest.approx(b.evidence.log_z, abs=1e-7)
    np.testing.assert_allclose(a.evidence.gradient, b.evidence.gradient, atol=1e-5)
    new = X[:5] + 0.2
    p, q = many_proba(a.latent(new), many.likelihood), predict_proba(b.latent(new), binary.likelihood)
    np.testing.assert_allclose(p.proba, q.proba, atol=1e-7)
    c = Exact(n_samples=4000)(many, np.random.default_rng(0))
    d = Exact(n_samples=4000)(binary, np.random.default_rng(1))
    assert abs(c.evidence.log_z - d.evidence.log_z) < 4 * np.hypot(c.evidence.error, d.evidence.error)
    p, q = many_proba(c.latent(new), many.likelihood), predict_proba(d.latent(new), binary.likelihood)
    assert np.all(np.abs(p.proba - q.proba) < 4.5 * np.hypot(p.mcse, q.mcse))


def test_two_classes_of_softmax_are_logit_with_twice_the_covariance():
    X, y = two_classes()
    many = Problem.of(X, y, 2.0 * RBF(0.9), n_classes=2, likelihood=Softmax())
    binary = Problem.of(X, 2.0 * y - 1.0, 4.0 * RBF(0.9), Logit())
    a, b = Laplace()(many, gradient=True), Laplace()(binary, gradient=True)
    assert a.evidence.log_z == pytest.approx(b.evidence.log_z, abs=1e-7)
    np.testing.assert_allclose(a.evidence.gradient, b.evidence.gradient, atol=1e-6)
    new = X[:5] + 0.2
    p, q = many_proba(a.latent(new), many.likelihood), predict_proba(b.latent(new), binary.likelihood)
    np.testing.assert_allclose(p.log_proba, q.log_proba, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [None, OWN])
@pytest.mark.parametrize("method", [Laplace(), EP(tol=1e-11), Exact(n_samples=4000)])
def test_names_of_classes_do_not_matter(method, kernel):
    turn = np.array([2, 0, 1])  # the new name of each class
    likelihood = Softmax() if method.name == "laplace" else MultinomialProbit()
    task = problem(likelihood=likelihood, kernel=None if kernel is None else CompoundKernel(kernel))
    moved = None if kernel is None else CompoundKernel([kernel[c] for c in np.argsort(turn)])
    renamed = problem(likelihood=likelihood, kernel=moved)
    renamed = renamed.on(renamed.X, turn[task.y])
    new = np.random.default_rng(1).standard_normal((6, 2))
    one, other = method(task, np.random.default_rng(0)), method(renamed, np.random.default_rng(5))
    p, q = (many_proba(post.latent(new), likelihood) for post in (one, other))
    if method.name == "exact":
        assert np.all(np.abs(p.proba - q.proba[:, turn]) < 4.5 * np.hypot(p.mcse, q.mcse[:, turn]))
        gap = abs(one.evidence.log_z - other.evidence.log_z)
        assert gap < 4 * np.hypot(one.evidence.error, other.evidence.error)
    else:
        np.testing.assert_allclose(p.proba, q.proba[:, turn], atol=1e-8)
        assert one.evidence.log_z == pytest.approx(other.evidence.log_z, abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("variance", [1.0, 4.0, 100.0])
@pytest.mark.parametrize("low", [0.1, 0.5, 0.9])
def test_gradient_with_light_weights_or_the_reason_why_not(variance, low):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 2))
    y = np.digitize(X[:, 0] + 0.5 * rng.standard_normal(20), [-0.5, 0.5])
    weights = np.where(np.arange(20) % 2, low, 1.5)
    kernel = variance * RBF(1.0)
    at = Problem.of(X, y, kernel, MultinomialProbit(), weights, n_classes=3)
    ep, step = EP(tol=1e-9, max_sweeps=300), 1e-4
    found = ep(at, gradient=True)
    if not found.report.converged:
        assert "softmax" in found.report.reason
        assert variance == 100.0
        return
    (along,) = directions(2, 1)
    ends = [ep(at.at(at.theta + sign * step * along)).evidence.log_z for sign in (1, -1)]
    assert found.evidence.gradient @ along == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-6)


def test_most_light_weights_have_a_gradient():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 2))
    y = np.digitize(X[:, 0] + 0.5 * rng.standard_normal(20), [-0.5, 0.5])
    found = [
        EP()(Problem.of(X, y, v * RBF(1.0), MultinomialProbit(), np.full(20, 0.1), n_classes=3)).report
        for v in (1.0, 100.0)
    ]
    assert [report.converged for report in found] == [True, False]
