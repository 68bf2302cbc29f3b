"""Kernel parameters sampled for many classes: against quadrature over θ, rebuilt, saved, as ArviZ objects."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, CompoundKernel

from gpclass import GPClassifier, load_model
from gpclass.hyper import HMC, Alternate
from gpclass.hyper.alternate import centred
from gpclass.hyper.base import Run
from gpclass.hyper.mixture import latent_draw
from gpclass.hyper.proposal import LogDensity
from gpclass.inference import EP, EllipticalSlice, Importance, Laplace, LatentHMC
from gpclass.inference.posteriors import GaussianPosterior, WhiteDraws
from gpclass.likelihoods import MultinomialProbit
from gpclass.predict.many import many_proba
from gpclass.priors import resolve_priors
from tests.conftest import make_problem
from tests.hyper.against_quadrature import PRIORS, Quadrature, agrees, draws_of
from tests.inference.test_many_laplace import OWN, problem


def run(strategy, task, inference, seed=0):
    return strategy(task, inference, Run(np.random.default_rng(seed), PRIORS))


# ---- the right distribution of θ -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def by_laplace():
    """Chains over Laplace's evidence of 20 rows."""
    return run(HMC(chains=2, warmup=30, draws=200), problem(n=20), Laplace())


@pytest.mark.slow
def test_hmc_reproduces_quadrature_over_laplaces_evidence(by_laplace):
    fit, task = by_laplace, problem(n=20)
    found = Quadrature(task, lambda at: Laplace()(at).evidence.log_z)
    assert agrees(draws_of(fit), *found.moments())
    assert not agrees(draws_of(fit), *found.moments(power=0.3))  # the test can fail
    theta, w = found.theta, found.weights()
    # Predictions are integrated over θ: those of the grid, weighted.
    new = np.random.default_rng(1).standard_normal((6, 2))
    each = [many_proba(Laplace()(task.at(x)).latent(new), task.likelihood).proba for x in theta[w > 1e-6]]
    truth = np.tensordot(w[w > 1e-6], np.array(each), axes=1)
    ours = many_proba(fit.posterior.latent(new), task.likelihood)
    assert np.all(np.abs(ours.proba - truth) < 5 * ours.mcse + 1e-3)
    at_mode = many_proba(Laplace()(task.at(theta[w.argmax()])).latent(new), task.likelihood).proba
    assert np.abs(at_mode - truth).max() > 5e-3  # integrating made a difference


@pytest.fixture(scope="module")
def truth_of_eight():
    rng = np.random.default_rng(7)
    estimate = Importance(400, around="laplace")
    return Quadrature(problem(n=8), lambda at: estimate(at, rng).evidence.log_z, size=10)


@pytest.mark.slow
@pytest.mark.parametrize("inference", [EllipticalSlice(around="laplace"), LatentHMC(around="prior")])
def test_alternating_reproduces_quadrature_over_the_true_evidence(inference, truth_of_eight):
    fit = run(Alternate(chains=2, draws=160, warmup=60, scans=2), problem(n=8), inference)
    assert agrees(draws_of(fit), *truth_of_eight.moments())


@pytest.mark.parametrize("kernel", [None, CompoundKernel(OWN)])
def test_slope_of_the_density_given_f(kernel):
    task = problem(n=8, kernel=kernel)
    density = LogDensity(task, Laplace(), resolve_priors(None, task.names, task.theta))
    f = np.random.default_rng(0).normal(size=24)
    theta = task.theta + 0.1
    value, slope = centred(density, theta, f)
    prior = task.at(theta).prior.given_latents()
    np.testing.assert_allclose(prior.latents(prior.white(f)), f, atol=1e-9)
    direct = sum(
        -0.5 * f_c @ np.linalg.solve(K, f_c) - 0.5 * np.linalg.slogdet(K)[1]
        for f_c, K in zip(f.reshape(3, 8), task.at(theta).prior.covariances, strict=True)
    )
    log_lik = task.likelihood.log_classes(f.reshape(3, 8).T)[np.arange(8), task.y].sum()
    assert value == pytest.approx(direct + log_lik + density.log_prior(theta), rel=1e-9)
    for j in range(len(theta)):
        step = np.zeros(len(theta))
        step[j] = 1e-5
        rise = centred(density, theta + step, f)[0] - centred(density, theta - step, f)[0]
        assert slope[j] == pytest.approx(rise / 2e-5, rel=1e-5, abs=1e-5)


# ---- vectors that stand for a posterior ----------------------------------------------------------------


@pytest.mark.parametrize("kernel", [None, CompoundKernel(OWN)])
@pytest.mark.parametrize("method", [Laplace(), EP(), LatentHMC(draws=10)])
def test_vectors_stand_for_the_posterior(method, kernel):
    task = problem(kernel=kernel)
    if isinstance(method, EP):
        task = replace(task, likelihood=MultinomialProbit())
    posterior = method(task, np.random.default_rng(0))
    kind, new = type(posterior), task.X[:4] + 0.2
    assert kind is method.posterior_type(task)
    vectors = posterior.eta if kind is WhiteDraws else posterior.pack(1, np.random.default_rng(0))
    again, first = kind.unpack(task.at(task.theta), vectors).latent(new), posterior.latent(new)
    np.testing.assert_allclose(again.means, first.means, atol=1e-8)
    np.testing.assert_allclose(again.covariances, first.covariances, atol=1e-8)


@pytest.mark.slow
def test_draws_of_f_have_the_posterior_moments():
    task = problem(n=6, kernel=CompoundKernel(OWN))
    posterior = Laplace()(task)
    rng = np.random.default_rng(0)
    vectors = posterior.pack(1, rng)
    draws = np.stack([latent_draw(task, GaussianPosterior, vectors, rng) for _ in range(2000)])
    draws = draws.reshape(-1, 3, 6)
    covariance = posterior.gaussian.marginals.cov
    sd = np.sqrt(np.einsum("icc->ci", covariance))
    assert np.all(np.abs(draws.mean(axis=0) - posterior.gaussian.mean) < 4.5 * sd / np.sqrt(2000))
    for i in range(6):
        scale = np.outer(sd[:, i], sd[:, i])
        assert np.abs((np.cov(draws[:, :, i].T) - covariance[i]) / scale).max() < 0.13


# ---- the estimator -------------------------------------------------------------------------------------

BRIEF = [
    ("laplace", HMC.brief()),
    ("ep", HMC.brief()),
    ("laplace", Alternate.brief()),
    (LatentHMC(around="prior"), Alternate.neal(chains=2, warmup=3, draws=6)),
    ("gibbs", Alternate.neal(chains=2, warmup=3, draws=6)),
]


@pytest.mark.slow
@pytest.mark.usefixtures("brief_chains")
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("inference", "strategy"), BRIEF)
def test_everything_works_after_sampling(inference, strategy, own, tmp_path):
    arviz = pytest.importorskip("arviz", reason="the trace is ArviZ's")
    task = problem(n=15)
    kernel = [2.0 * RBF(1.0)] * 3 if own else 2.0 * RBF(1.0)
    settings = {"inference": inference, "hyperparameters": strategy, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        likelihood = "multinomial-probit" if inference == "ep" else "softmax"
        clf = GPClassifier(kernel, likelihood=likelihood, **settings).fit(task.X, task.y)
        proba = clf.predict_proba(task.X)
        back = load_model(clf.save(tmp_path / "model.gpclass"))
        np.testing.assert_array_equal(back.predict_proba(task.X), proba)
        found = clf.predict_uncertainty(task.X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-6)
    assert np.all(np.isfinite(found.mcse))
    assert clf.sample_latent(task.X[:5], 7, random_state=0).shape == (7, 5, 3)
    assert clf.fit_report_.details["n_classes"] == 3
    trace = clf.trace_
    assert set(trace.posterior.data_vars) == set(clf._trace.groups["posterior"])
    assert len(trace.posterior.data_vars) == (6 if own else 2)
    assert trace.log_likelihood["y"].shape == (2, strategy.draws, 15)
    drawn = trace.posterior_predictive["y"].values
    assert drawn.min() >= 0
    assert drawn.max() <= 2
    with np.errstate(divide="ignore", invalid="ignore"):  # chains of a few draws may stand still
        assert arviz.summary(trace).shape[0] == (6 if own else 2)


@pytest.mark.slow
def test_labels_in_the_trace_are_drawn_from_the_probabilities(by_laplace):
    fit, task = by_laplace, problem(n=20)
    drawn = fit.trace.groups["posterior_predictive"]["y"].reshape(-1, 20)
    shares = (drawn[..., None] == np.arange(3)).mean(axis=0)
    proba = many_proba(fit.posterior.latent(task.X), task.likelihood).proba
    assert np.abs(shares - proba).max() < 4 * np.sqrt(0.25 / 100)  # effective draws are fewer than 400
    density = fit.trace.groups["log_likelihood"]["y"].reshape(-1, 20)
    np.testing.assert_allclose(np.exp(density).mean(axis=0), proba[np.arange(20), task.y], atol=0.06)


def test_two_classes_are_as_they_were():
    """The general form of the moves given f is the one of two classes there."""
    task = make_problem(8)
    density = LogDensity(task, Laplace(), resolve_priors(None, task.names, task.theta))
    f = np.random.default_rng(0).normal(size=8)
    K = task.prior.K
    value, _ = centred(density, task.theta, f)
    direct = -0.5 * f @ np.linalg.solve(K, f) - 0.5 * np.linalg.slogdet(K)[1]
    direct += task.likelihood.log_prob(task.y, f).sum() + density.log_prior(task.theta)
    assert value == pytest.approx(direct, rel=1e-9)
