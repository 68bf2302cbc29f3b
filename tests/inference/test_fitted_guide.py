"""Guides of the exact engine as a function of θ: near EP's own, unbiased whatever they are, and absent far away."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from gpclass.hyper.proposal import LogDensity, Mode, find_mode
from gpclass.hyper.pseudo_marginal import MOST_GUIDED, PseudoMarginal, as_good, common_start, guides_about
from gpclass.inference import EP, Exact, Importance
from gpclass.inference.fitted_guide import REACH, _packed
from gpclass.latent.low_rank import LowRank
from gpclass.likelihoods import MultinomialProbit, Probit
from gpclass.model.problem import Problem
from gpclass.priors import LogNormal, resolve_priors
from tests.conftest import make_problem
from tests.hyper.against_quadrature import PRIORS
from tests.inference.test_many_laplace import problem as many_problem


@pytest.fixture(scope="module")
def density():
    problem = make_problem(25)
    prior, inference = resolve_priors(PRIORS, problem.names, problem.theta), Exact().for_chains(32)
    return LogDensity(problem, inference, prior, common_start(problem, inference))


@pytest.fixture(scope="module")
def mode(density):
    return find_mode(replace(density, inference=EP(tol=0.01), start=None))


@pytest.fixture(scope="module")
def guides(density, mode):
    return guides_about(density, mode)


def somewhere(mode, seed, distance=1.0):
    step = np.random.default_rng(seed).standard_normal(len(mode.theta))
    return mode.theta + np.linalg.cholesky(mode.covariance) @ step * distance / np.linalg.norm(step)


def test_it_is_near_ep_and_a_function_of_theta_alone(density, mode, guides):
    errors = []
    for seed in range(8):
        theta = somewhere(mode, seed, 1.5)
        own = replace(density.inference, sweeps=None).outline(density.problem.at(theta), density.start)
        first, elsewhere, again = guides(theta), guides(mode.theta), guides(theta)
        np.testing.assert_array_equal(first.ep.sites.shift, again.ep.sites.shift)
        np.testing.assert_array_equal(first.box.S, own.box.S)
        errors.append([np.abs(_packed(one.ep) - _packed(own.ep)).reshape(3, -1) for one in (first, elsewhere)])
    near, at_centre = np.mean(errors, axis=(0, 3))
    assert np.all(near < 0.5 * at_centre)


def test_there_is_none_far_away(density, mode, guides):
    far = somewhere(mode, 0, 1.01 * REACH)
    assert guides(far) is None
    assert guides(somewhere(mode, 0, 0.99 * REACH)) is not None
    bare, rng = replace(density, guides=None), np.random.default_rng
    by_ep = replace(density, guides=guides).posterior(far, rng(1))
    np.testing.assert_array_equal(by_ep.A, bare.posterior(far, rng(1)).A)


@pytest.mark.parametrize("spoiled", [False, True])
def test_estimates_are_unbiased_by_any_guide(density, mode, guides, spoiled):
    theta, rng = somewhere(mode, 3, 1.9), np.random.default_rng(5)
    truth = Exact(n_samples=4000)(density.problem.at(theta), rng).evidence
    if spoiled:  # sites of five times the precision about means that are not theirs
        wrong = guides.coefficients.copy()
        wrong[0] += np.repeat([np.log(5.0), 0.5, 0.5], len(wrong[0]) // 3)
        guides = replace(guides, coefficients=wrong)
    guided = replace(density, guides=guides)
    ratios = np.exp([guided.posterior(theta, rng).evidence.log_z - truth.log_z for _ in range(120)])
    error = np.hypot(ratios.std(ddof=1) / np.sqrt(len(ratios)), truth.error)
    assert abs(ratios.mean() - 1.0) < 4 * error
    assert (ratios.std() > 0.2) == spoiled  # the weights tell how good a guide is


def test_noisy_guides_are_not_used(density, mode, guides, monkeypatch):
    fitted, _ = PseudoMarginal()._settled(density, mode)
    assert fitted.guides is not None
    wrong = guides.coefficients.copy()
    wrong[0] += np.repeat([np.log(5.0), 3.0, 1.0], len(wrong[0]) // 3)
    monkeypatch.setattr("gpclass.hyper.pseudo_marginal.guides_about", lambda *_: replace(guides, coefficients=wrong))
    assert PseudoMarginal()._settled(density, mode)[0].guides is None


@pytest.mark.parametrize("seed", range(3))
def test_guided_estimates_miss_nothing_within_reach(seed):
    """Labels that say little, so that the posterior of θ is wide: a quadratic in h/t was 27 nats off there."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((100, 2))
    y = np.where(X[:, 0] + rng.standard_normal(100) > 0, 1.0, -1.0)
    problem = Problem.of(X, y, 1.0 * RBF(1.0), Probit())
    prior, inference = resolve_priors({"*": LogNormal(0.0, 2.0)}, problem.names, problem.theta), Exact().for_chains(64)
    density = LogDensity(problem, inference, prior, common_start(problem, inference))
    mode = find_mode(replace(density, inference=EP(tol=0.01), start=None))
    guided = replace(density, guides=guides_about(density, mode))
    assert as_good(guided, density, mode)
    for _ in range(10):
        step = rng.standard_normal(2)
        theta = mode.theta + np.linalg.cholesky(mode.covariance) @ step * min(1.0, REACH / np.linalg.norm(step))
        found, own = (one.posterior(theta, np.random.default_rng(0)).evidence.log_z for one in (guided, density))
        assert abs(found - own) < 0.2


def test_guides_that_miss_something_at_their_edge_are_not_used(density, mode, guides, monkeypatch):
    """Even if repeated estimates about the mode agree with each other."""
    wrong = guides.coefficients.copy()
    wrong[3:] += np.repeat([1.0, 0.0, 1.0], wrong.shape[1] // 3)  # grows with the square of the distance
    spoiled = replace(guides, coefficients=wrong)
    assert not as_good(replace(density, guides=spoiled), density, mode)


def test_where_a_guide_fails_the_inference_has_its_own(density, mode):
    def failing(theta):
        raise ValueError("no guide")

    theta, rng = somewhere(mode, 1), np.random.default_rng
    found, own = (replace(density, guides=one).posterior(theta, rng(0)) for one in (failing, None))
    np.testing.assert_array_equal(found.A, own.A)


@pytest.mark.parametrize("settings", [PseudoMarginal(proposal="walk"), PseudoMarginal(screen=True)])
def test_screened_proposals_have_no_guides(density, mode, settings):
    """Their estimates begin at EP's outline, whose evidence screened them."""
    assert settings._settled(density, mode)[0].guides is None


def test_who_has_none(density, mode):
    assert guides_about(replace(density, start=None), mode) is None
    assert guides_about(replace(density, inference=Importance(5)), mode) is None
    p = MOST_GUIDED + 1
    assert guides_about(density, Mode(np.zeros(p), np.eye(p), 0)) is None
    low_rank = replace(density.problem, form=LowRank(density.problem.X[:5].copy()))
    assert guides_about(replace(density, problem=low_rank), mode) is None


def test_many_classes():
    problem = replace(many_problem(n=9), likelihood=MultinomialProbit())
    prior, inference = resolve_priors(PRIORS, problem.names, problem.theta), Exact().for_chains(32)
    density = LogDensity(problem, inference, prior, common_start(problem, inference))
    mode = Mode(problem.theta, 0.1 * np.eye(len(problem.theta)), 0)
    guides, theta = guides_about(density, mode), somewhere(mode, 1)
    own = replace(inference, sweeps=None).outline(problem.at(theta), density.start)
    np.testing.assert_allclose(guides(theta).ep.mean, own.ep.mean, atol=0.05)
    one = replace(density, guides=guides).posterior(theta, np.random.default_rng(0)).evidence
    assert one.log_z == pytest.approx(own.log_z, abs=0.3)
