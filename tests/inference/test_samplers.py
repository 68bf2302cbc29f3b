"""Importance and annealed sampling, and the samplers of latent values, against quadrature and each other."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from papers.truths import linear_kernel_probability
from scipy.special import ndtr
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF, DotProduct
from sklearn.gaussian_process.kernels import ConstantKernel as C

from gpclass.inference import EP, Laplace, Variational
from gpclass.inference.annealed import Annealed, anneal, ladder
from gpclass.inference.around import target_around
from gpclass.inference.diagnostics import chain_figures
from gpclass.inference.elliptical_slice import EllipticalSlice
from gpclass.inference.elliptical_step import elliptical_step
from gpclass.inference.gibbs import Gibbs, NoisyScan, latent_scan, precisions_of
from gpclass.inference.hmc import LatentHMC, hmc_step
from gpclass.inference.importance import Importance
from gpclass.inference.particles import Particles
from gpclass.latent.whitened import whiten
from gpclass.orthant import orthant_probability
from gpclass.predict import predict_proba
from tests.conftest import make_problem
from tests.normal import log_orthant

LINKS = ["probit", "logit"]
AROUND = ["prior", "laplace", "ep", "variational"]
GAUSSIAN = {"laplace": Laplace(), "ep": EP(), "variational": Variational()}
WEIGHTED = [Importance, Annealed]
CHAINS = [EllipticalSlice, LatentHMC, Gibbs]


def quadrature(problem, X_new):
    """log p(y) and p(y*=1) by a product rule over prior coordinates; n <= 3."""
    x, w = hermegauss(60)
    w = w / w.sum()
    n = problem.n
    eta = np.stack(np.meshgrid(*[x] * n, indexing="ij"), -1).reshape(-1, n)
    mass = np.prod(np.stack(np.meshgrid(*[w] * n, indexing="ij"), -1).reshape(-1, n), axis=1)
    L = np.linalg.cholesky(problem.prior.K)
    mass = mass * np.exp(problem.weighted(problem.likelihood.log_prob(problem.y, eta @ L.T)).sum(axis=1))
    V = np.linalg.solve(L, problem.covariance(problem.X, X_new))
    var = problem.covariance.diag(X_new) - (V**2).sum(axis=0)
    plus, _ = problem.likelihood.log_predictive(eta @ V, np.broadcast_to(var, (len(eta), len(var))))
    z = mass.sum()
    return np.log(z), (mass @ np.exp(plus)) / z


# ---- whitened coordinates ------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", LINKS)
@pytest.mark.parametrize("around", AROUND)
def test_log_ratio_is_likelihood_times_prior_over_q(likelihood, around):
    weights = np.array([1.0, 2.0, 0.5, 1.0, 1.0])
    problem = make_problem(5, likelihood=likelihood, weights=weights)
    target = target_around(problem, around)
    f = np.random.default_rng(0).normal(size=(7, 5))
    q = multivariate_normal(target.m, target.A[0] @ target.A[0].T)
    prior = multivariate_normal(np.zeros(5), problem.prior.K)
    log_lik = (weights * problem.likelihood.log_prob(problem.y, f)).sum(axis=1)
    np.testing.assert_allclose(target.log_ratio(f), log_lik + prior.logpdf(f) - q.logpdf(f), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("around", AROUND)
def test_coordinates_and_slope(around):
    problem = make_problem(6, likelihood="logit")
    target = target_around(problem, around)
    xi = np.random.default_rng(0).normal(size=(3, 6))
    f = target.latents(xi)
    eta = target.prior_coordinates(xi)
    np.testing.assert_allclose(eta @ target.L.T, f, atol=1e-10)
    np.testing.assert_allclose(target.from_prior_coordinates(eta), xi, atol=1e-10)
    r, slope = target.log_ratio_and_slope(f)
    np.testing.assert_allclose(r, target.log_ratio(f), rtol=1e-12)
    for j in range(6):
        step = np.zeros(6)
        step[j] = 1e-5
        rise = target.log_ratio(target.latents(xi + step)) - target.log_ratio(target.latents(xi - step))
        np.testing.assert_allclose(slope[:, j], rise / 2e-5, rtol=1e-6, atol=1e-7)
    if around in GAUSSIAN:
        np.testing.assert_allclose(target.m, GAUSSIAN[around](problem).gaussian.mean[0], atol=1e-8)


# ---- weighted samplers ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", WEIGHTED)
@pytest.mark.parametrize("likelihood", LINKS)
@pytest.mark.parametrize("around", AROUND)
def test_evidence_and_prediction_against_quadrature(method, likelihood, around):
    problem = make_problem(3, likelihood=likelihood, weights=np.array([1.0, 2.0, 0.7]))
    new = problem.X[:2] + 0.3
    log_z, proba = quadrature(problem, new)
    posterior = method(n_samples=4000, around=around)(problem, np.random.default_rng(1))
    evidence = posterior.evidence
    assert evidence.kind == "unbiased"
    assert abs(evidence.log_z - log_z) < 4 * evidence.error
    assert evidence.error < 0.05
    ours = predict_proba(posterior.latent(new), problem.likelihood)
    assert np.all(np.abs(ours.proba[:, 1] - proba) < 4 * ours.mcse[:, 1])


@pytest.mark.slow
@pytest.mark.parametrize("method", WEIGHTED)
@pytest.mark.parametrize("around", ["laplace", "ep"])
def test_evidence_against_the_normal_distribution_function(method, around):
    problem = make_problem(7, kernel=3.0 * RBF(1.0))
    truth = log_orthant(problem.y[:, None] * (problem.prior.K + np.eye(7)) * problem.y)
    evidence = method(n_samples=8000, around=around)(problem, np.random.default_rng(3)).evidence
    assert abs(evidence.log_z - truth) < 4 * evidence.error + 1e-5
    assert evidence.error < 0.05


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("beta", [None, ladder(20, 8)])
def test_the_mean_weight_is_unbiased(around, beta):
    """Few particles, many runs: the mean of the estimates is the truth, the mean of their logs is not."""
    problem = make_problem(3, kernel=6.0 * RBF(0.8))
    log_z, _ = quadrature(problem, problem.X[:1])
    target = target_around(problem, around)
    rng = np.random.default_rng(5)
    if beta is None:
        log_w = Particles.draw(target, 40_000, rng).r
    else:
        _, log_w = anneal(target, beta, 40_000, rng)
    estimates = np.exp(log_w - log_z)
    assert abs(estimates.mean() - 1.0) < 4 * estimates.std() / np.sqrt(len(estimates))
    logs = log_w - log_z
    assert logs.mean() < -4 * logs.std() / np.sqrt(len(logs))


def test_a_step_with_the_wrong_temperature_biases_annealing():
    """The negative control of the test above."""
    problem = make_problem(3, kernel=6.0 * RBF(0.8))
    log_z, _ = quadrature(problem, problem.X[:1])
    target = target_around(problem, "prior")

    def broken(target, state, rng, power):
        return elliptical_step(target, state, rng, 1.0)

    _, log_w = anneal(target, ladder(20, 8), 40_000, np.random.default_rng(5), broken)
    estimates = np.exp(log_w - log_z)
    assert abs(estimates.mean() - 1.0) > 8 * estimates.std() / np.sqrt(len(estimates))


def test_ladder_of_the_paper():
    beta = ladder(400)
    assert beta[0] == 0.0
    assert beta[1] == pytest.approx(1e-6)
    assert beta[-1] == 1.0
    assert np.all(np.diff(beta) > 0)
    assert len(beta) == 20  # √400
    log_low, log_high = np.diff(np.log(beta[1:11])), np.diff(np.log(beta[10:]))
    np.testing.assert_allclose(log_low, log_low[0])
    np.testing.assert_allclose(log_high, log_high[0])
    assert beta[10] == pytest.approx(0.2)


def test_annealing_beats_importance_sampling_where_the_posterior_is_not_gaussian():
    problem = make_problem(100, kernel=20.0 * RBF(0.5))
    runs = {
        method: np.std(
            [method(n_samples=4, around="laplace")(problem, np.random.default_rng(k)).evidence.log_z for k in range(40)]
        )
        for method in WEIGHTED
    }
    assert runs[Annealed] < 0.7 * runs[Importance]


# ---- each kernel leaves the joint distribution of f and y alone ----------------------------------------


def joint_scores(step, likelihood="probit", rounds=6, M=6000, seed=0, weights=None):
    """z-scores of moments of f after alternating y | f and a kernel on f, started from the exact joint.

    Geweke's joint test with independent replicates: rows are chains of their own, with labels of their own.
    """
    problem = make_problem(4, likelihood=likelihood, kernel=2.0 * RBF(1.0), weights=weights)
    rng = np.random.default_rng(seed)
    L = np.linalg.cholesky(problem.prior.K)
    f = rng.standard_normal((M, 4)) @ L.T
    for _ in range(rounds):
        y = np.where(rng.random(f.shape) < problem.likelihood.inverse_link(f), 1.0, -1.0)
        f = step(problem, y, f, rng)
    y = np.where(rng.random(f.shape) < problem.likelihood.inverse_link(f), 1.0, -1.0)
    eta = np.linalg.solve(L, f.T).T  # standard normal under the joint
    tests = [eta, eta**2 - 1.0, eta[:, :1] * eta[:, 1:], eta**3]
    moments = np.concatenate(tests, axis=1)
    return moments.mean(axis=0) / (moments.std(axis=0) / np.sqrt(M))


def around_fixed_sites(problem, y):
    """A Gaussian that has nothing to do with the labels: any will do."""
    target = whiten(problem, np.array([[0.3, -0.2, 0.1, 0.0]]), np.array([[0.5, 0.1, 0.0, 1.0]]))
    return replace(target, y=y)


def slice_kernel(problem, y, f, rng):
    target = around_fixed_sites(problem, y)
    eta = np.linalg.solve(target.L, f.T).T
    return elliptical_step(target, Particles.at(target, target.from_prior_coordinates(eta)), rng).f


def hmc_kernel(problem, y, f, rng):
    target = around_fixed_sites(problem, y)
    eta = np.linalg.solve(target.L, f.T).T
    state = Particles.at(target, target.from_prior_coordinates(eta))
    return hmc_step(target, state, rng, size=0.8, leapfrog=3)[0].f


def gibbs_probit_kernel(problem, y, f, rng):
    """f -> v given f and y -> one scan -> f | v, row by row labels: flip signs so that all labels are +1."""
    target = whiten(problem)
    out = np.empty_like(f)
    for labels in np.unique(y, axis=0):
        rows = np.all(y == labels, axis=1)
        one = make_problem(4, kernel=problem.kernel)
        one = one.on(one.X, labels)
        sampler = NoisyScan.of(one, target)
        mean = f[rows] * labels
        u = rng.random(mean.shape)
        from scipy.special import log_ndtr, ndtri_exp

        v = mean - ndtri_exp(np.log(u) + log_ndtr(mean))
        v = sampler.scan(v, rng)
        out[rows] = sampler.latents(v, rng) @ target.L.T
    return out


def gibbs_latent_kernel(problem, y, f, rng):
    target = replace(whiten(problem), y=y)
    return latent_scan(target, precisions_of(target), f, rng)


KERNELS = {"slice": slice_kernel, "hmc": hmc_kernel, "gibbs-latent": gibbs_latent_kernel}


@pytest.mark.parametrize("likelihood", LINKS)
@pytest.mark.parametrize("kernel", list(KERNELS))
def test_joint_distribution_is_invariant(kernel, likelihood):
    scores = joint_scores(KERNELS[kernel], likelihood)
    assert np.max(np.abs(scores)) < 4.0


def test_joint_distribution_is_invariant_under_the_scan_of_v():
    assert np.max(np.abs(joint_scores(gibbs_probit_kernel))) < 4.0


def test_broken_kernels_fail_the_joint_test():
    def no_metropolis_test(problem, y, f, rng):
        target = around_fixed_sites(problem, y)
        eta = np.linalg.solve(target.L, f.T).T
        xi = target.from_prior_coordinates(eta)
        p = rng.standard_normal(xi.shape)
        for _ in range(3):
            p = p + 0.4 * (target.log_ratio_and_slope(target.latents(xi))[1] - xi)
            xi = xi + 0.8 * p
            p = p + 0.4 * (target.log_ratio_and_slope(target.latents(xi))[1] - xi)
        return target.latents(xi)

    def no_threshold(problem, y, f, rng):
        target = around_fixed_sites(problem, y)
        eta = np.linalg.solve(target.L, f.T).T
        state = Particles.at(target, target.from_prior_coordinates(eta))
        return elliptical_step(target, state, rng, power=0.5).f

    def forgets_the_mean(problem, y, f, rng):
        target = replace(whiten(problem), y=y)
        return latent_scan(target, [np.diag(np.diag(Q)) for Q in precisions_of(target)], f, rng)

    for broken in (no_metropolis_test, no_threshold, forgets_the_mean):
        assert np.max(np.abs(joint_scores(broken))) > 6.0


# ---- each sampler against the exact answer -------------------------------------------------------------

PROBLEMS = {
    "linear": C(2.0) * DotProduct(0.0, "fixed"),
    "easy": 2.0 * RBF(1.5),
    "hard": 20.0 * RBF(0.6),
}


def exact_probit(problem, new):
    """p(y*=1) and its error from guided draws of the orthant."""
    n = problem.n
    S = problem.y[:, None] * (problem.prior.K + np.eye(n)) * problem.y
    est = orthant_probability(S, n_samples=20_000, random_state=0, points="random", return_samples=True)
    w = np.exp(est.log_weights - est.log_weights.max())
    w /= w.sum()
    A = np.linalg.solve(problem.prior.K + np.eye(n), problem.covariance(problem.X, new))
    var = problem.covariance.diag(new) - (A * problem.covariance(problem.X, new)).sum(axis=0)
    g = ndtr((est.samples * problem.y) @ A / np.sqrt(1 + var))
    p = w @ g
    return p, np.sqrt((w**2) @ (g - p) ** 2), est.log_probability


@pytest.fixture(scope="module")
def truths():
    out = {}
    for name, kernel in PROBLEMS.items():
        problem = make_problem(40, d=1 if name == "linear" else 2, kernel=kernel)
        new = np.random.default_rng(9).normal(size=(5, problem.X.shape[1]))
        out[name] = problem, new, *exact_probit(problem, new)
    return out


LONG = {
    EllipticalSlice: {"draws": 400, "thin": 5},
    LatentHMC: {"draws": 400},
    Gibbs: {"draws": 300, "thin": 3, "warmup": 100},
}


@pytest.mark.slow
@pytest.mark.parametrize("method", CHAINS)
@pytest.mark.parametrize("name", list(PROBLEMS))
def test_samplers_agree_with_the_exact_answer(truths, method, name):
    problem, new, p, error, _ = truths[name]
    posterior = method(**LONG[method])(problem, np.random.default_rng(2))
    ours = predict_proba(posterior.latent(new), problem.likelihood)
    assert np.all(np.abs(ours.proba[:, 1] - p) < 4 * np.hypot(ours.mcse[:, 1], error))
    assert ours.mcse.max() < 0.02


@pytest.mark.parametrize("method", WEIGHTED)
@pytest.mark.parametrize("name", list(PROBLEMS))
def test_weighted_samplers_agree_with_the_exact_answer(truths, method, name):
    problem, new, p, error, log_z = truths[name]
    posterior = method(n_samples=4000)(problem, np.random.default_rng(2))
    ours = predict_proba(posterior.latent(new), problem.likelihood)
    assert np.all(np.abs(ours.proba[:, 1] - p) < 4 * np.hypot(ours.mcse[:, 1], error))
    assert abs(posterior.evidence.log_z - log_z) < 4 * posterior.evidence.error + 0.01


@pytest.mark.slow
def test_linear_kernel_against_one_dimensional_quadrature(truths):
    """A linear kernel has one weight: the evidence and predictions are integrals over it, A eq. 66."""
    problem, new, _, _, log_z = truths["linear"]
    a, w = hermegauss(150)
    a, mass = a * np.sqrt(2.0), np.log(w / w.sum())
    mass = mass + problem.likelihood.log_prob(problem.y, a[:, None] * problem.X[:, 0]).sum(axis=1)
    assert np.logaddexp.reduce(mass) == pytest.approx(log_z, abs=0.005)
    mass = np.exp(mass - np.logaddexp.reduce(mass))
    truth = mass @ ndtr(a[:, None] * new[:, 0])
    x, x_new = np.sqrt(2.0) * problem.X[:, 0], np.sqrt(2.0) * new[:, 0]  # the kernel is 2 x x'
    np.testing.assert_allclose(truth, linear_kernel_probability(x, problem.y, x_new), atol=1e-8)
    for method in (*CHAINS, *WEIGHTED):
        settings = LONG.get(method, {"n_samples": 4000})
        posterior = method(**settings)(problem, np.random.default_rng(3))
        ours = predict_proba(posterior.latent(new), problem.likelihood)
        assert np.all(np.abs(ours.proba[:, 1] - truth) < 4 * ours.mcse[:, 1])


@pytest.mark.slow
def test_logit_samplers_agree_with_importance_sampling():
    problem = make_problem(30, likelihood="logit", kernel=6.0 * RBF(1.0))
    new = np.random.default_rng(9).normal(size=(5, 2))
    reference = predict_proba(Importance(40_000)(problem, np.random.default_rng(0)).latent(new), problem.likelihood)
    for method in (EllipticalSlice, LatentHMC):
        ours = predict_proba(method(**LONG[method])(problem, np.random.default_rng(1)).latent(new), problem.likelihood)
        assert np.all(np.abs(ours.proba - reference.proba) < 4 * np.hypot(ours.mcse, reference.mcse))


@pytest.mark.slow
def test_gibbs_for_logit_draws_from_the_model_with_its_stated_noise():
    problem = make_problem(12, likelihood="logit", kernel=6.0 * RBF(1.0))
    posterior = Gibbs(draws=1500, warmup=200, jitter=0.05)(problem, np.random.default_rng(1))
    assert posterior.report.jitter == pytest.approx(0.3)
    target = whiten(problem)
    L = np.linalg.cholesky(problem.prior.K + 0.3 * np.eye(12))
    prior = replace(target, prior_roots=[L], jitter=0.3)
    weighted = np.random.default_rng(2).standard_normal((200_000, 12))
    log_w = prior.log_ratio(prior.latents(weighted))
    w = np.exp(log_w - log_w.max())
    w /= w.sum()
    truth = w @ (weighted @ L.T)
    spread = np.sqrt(w @ (weighted @ L.T - truth) ** 2)
    error = spread * np.sqrt((w**2).sum())
    chains = posterior.f[:, 0].reshape(16, 1500, 12).mean(axis=1)
    ours, mcse = chains.mean(axis=0), chains.std(axis=0, ddof=1) / 4
    assert np.all(np.abs(ours - truth) < 4 * np.hypot(mcse, error))
    assert np.all(mcse < 0.2 * spread)
    assert target.jitter == 0.0


@pytest.mark.parametrize("method", CHAINS)
def test_annealed_evidence_of_the_samplers(truths, method):
    problem, _, _, _, log_z = truths["easy"]
    evidence = method(draws=4, evidence=True)(problem, np.random.default_rng(0)).evidence
    assert evidence.kind == "unbiased"
    assert abs(evidence.log_z - log_z) < 4 * evidence.error + 0.005


# ---- what users see ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_short_chains_warn_and_say_what_to_do():
    problem = make_problem(40, kernel=20.0 * RBF(0.6))
    report = EllipticalSlice(around="prior", draws=30)(problem, np.random.default_rng(0)).report
    assert report.details["latent_rhat"] > 1.01
    assert not report.converged
    assert "R-hat" in report.reason
    assert "draws" in report.reason
    assert not report.warnings  # one verdict, told once
    good = LatentHMC(draws=1000)(make_problem(10), np.random.default_rng(0)).report
    assert good.warnings == ()
    assert good.converged


def test_uneven_weights_warn():
    problem = make_problem(80, kernel=50.0 * RBF(0.5))
    report = Importance(around="laplace")(problem, np.random.default_rng(0)).report
    assert any("annealed" in text for text in report.warnings)


def test_figures_of_chains():
    rng = np.random.default_rng(0)
    independent = rng.standard_normal((4, 500, 3))
    figures = chain_figures(independent)
    assert figures.rhat < 1.01
    assert 1500 < figures.ess_bulk < 2600
    assert figures.mcse == pytest.approx(1 / np.sqrt(2000), rel=0.2)
    apart = chain_figures(independent + np.arange(4)[:, None, None])
    assert apart.rhat > 1.3
    assert chain_figures(np.zeros((2, 10, 1))).rhat == np.inf


@pytest.mark.slow
def test_a_nearly_singular_kernel_does_no_harm():
    problem = make_problem(60, kernel=4.0 * RBF(30.0))  # rank about four
    truth, _, _ = exact_probit(problem, problem.X[:3])
    for method in (EllipticalSlice(), LatentHMC(), Gibbs(), Importance()):
        ours = predict_proba(method(problem, np.random.default_rng(0)).latent(problem.X[:3]), problem.likelihood)
        assert np.all(np.abs(ours.proba[:, 1] - truth) < 5 * ours.mcse[:, 1] + 2e-3)


def test_start_continues_from_given_draws():
    problem = make_problem(15)
    first = EllipticalSlice(draws=20)(problem, np.random.default_rng(0))
    short = EllipticalSlice(draws=4, warmup=0, thin=1)
    cold = short(problem, np.random.default_rng(1))
    warm = short(problem, np.random.default_rng(1), start=first.start)
    assert not np.allclose(cold.eta, warm.eta)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Importance(n_samples=0), "n_samples"),
        (lambda: Annealed(around="posterior"), "'ep'"),
        (lambda: EllipticalSlice(chains=1), "chains"),
        (lambda: LatentHMC(leapfrog=0), "leapfrog"),
        (lambda: Gibbs(jitter=0.0), "jitter"),
    ],
)
def test_bad_settings(make, match):
    with pytest.raises(ValueError, match=match):
        make()
