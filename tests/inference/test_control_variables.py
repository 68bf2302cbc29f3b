"""Sampling with control variables: placement, the joint test, and the exact answer."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import check_grad
from sklearn.gaussian_process.kernels import RBF, Matern

from gpclass.inference.control_variables import (
    Controls,
    ControlState,
    ControlVariables,
    greedy_points,
    left_open,
    place_controls,
)
from gpclass.latent.whitened import whiten
from gpclass.predict import predict_proba
from tests.conftest import make_problem
from tests.inference.test_samplers import PROBLEMS, exact_probit, joint_scores


def test_gradient_of_what_is_left_open():
    problem = make_problem(20, kernel=2.0 * RBF([1.0, 0.7]) + 0.5)
    X_c = np.random.default_rng(0).normal(size=(4, 2))
    error = check_grad(
        lambda x: left_open(problem, x.reshape(4, 2))[0],
        lambda x: left_open(problem, x.reshape(4, 2))[1],
        X_c.ravel(),
    )
    assert error < 1e-4


def test_placed_controls_leave_less_open_than_greedy_ones():
    problem = make_problem(60, kernel=2.0 * RBF(1.0))
    greedy = problem.X[greedy_points(problem, 6)]
    placed = place_controls(whiten(problem), 6)
    assert left_open(problem, placed.X)[0] < left_open(problem, greedy)[0]
    rng = np.random.default_rng(0)
    by_chance = [left_open(problem, problem.X[rng.choice(60, 6, replace=False)])[0] for _ in range(20)]
    assert left_open(problem, greedy)[0] < min(by_chance)


def test_conditional_of_the_latents_given_the_controls():
    problem = make_problem(8, kernel=2.0 * RBF(1.0))
    X_c = problem.X[:3] + 0.2
    controls = Controls.at(whiten(problem), X_c)
    K_cc, K_fc = problem.covariance(X_c), problem.covariance(problem.X, X_c)
    L = controls.target.L
    np.testing.assert_allclose(L @ controls.to_white, K_fc @ np.linalg.inv(K_cc), atol=1e-9)
    draws = controls.rest(np.random.default_rng(0), 200_000) @ L.T
    left = problem.prior.K - K_fc @ np.linalg.solve(K_cc, K_fc.T)
    np.testing.assert_allclose(np.cov(draws.T), left, atol=0.02)


@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_joint_distribution_is_invariant(likelihood):
    """Control values are drawn from their conditional given f at every round, so that f alone is the state."""

    def kernel(problem, y, f, rng):
        controls, state = _state(problem, y, f, rng)
        return controls.sweep(state, rng)[0].eta @ controls.target.L.T

    assert np.max(np.abs(joint_scores(kernel, likelihood))) < 4.0


def test_a_proposal_that_forgets_its_prior_fails_the_joint_test():
    def broken(problem, y, f, rng):
        controls, state = _state(problem, y, f, rng)
        state.f_c = 1.3 * state.f_c
        return controls.sweep(state, rng)[0].eta @ controls.target.L.T

    assert np.max(np.abs(joint_scores(broken))) > 6.0


def _state(problem, y, f, rng):
    """Controls at fixed places, with f_c drawn given f."""
    X_c = np.array([[0.0, 0.0], [1.0, -0.5]])
    controls = Controls.at(replace(whiten(problem), y=y), X_c)
    K, K_fc = problem.prior.K, problem.covariance(problem.X, X_c)
    A = np.linalg.solve(K, K_fc)
    left = np.linalg.cholesky(problem.covariance(X_c) - K_fc.T @ A)
    f_c = f @ A + rng.standard_normal((len(f), 2)) @ left.T
    eta = np.linalg.solve(controls.target.L, f.T).T
    return controls, ControlState(f_c, eta, controls.target.log_ratio(f))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "thin", "worst"), [("easy", 2, 0.01), ("hard", 4, 0.03)])
def test_agreement_with_the_exact_answer(name, thin, worst):
    problem = make_problem(40, kernel=PROBLEMS[name])
    new = np.random.default_rng(9).normal(size=(5, 2))
    p, error, _ = exact_probit(problem, new)
    posterior = ControlVariables(draws=250, thin=thin)(problem, np.random.default_rng(2))
    ours = predict_proba(posterior.latent(new), problem.likelihood)
    assert np.all(np.abs(ours.proba[:, 1] - p) < 4 * np.hypot(ours.mcse[:, 1], error))
    assert ours.mcse.max() < worst


def test_controls_are_added_until_proposals_are_accepted():
    easy = ControlVariables(draws=4, warmup=0)(make_problem(40, kernel=1.0 * RBF(3.0)), np.random.default_rng(0))
    hard = ControlVariables(draws=4, warmup=0)(make_problem(40, kernel=20.0 * RBF(0.6)), np.random.default_rng(0))
    assert easy.report.details["controls"] < hard.report.details["controls"]
    assert easy.report.details["latent_acceptance"] > 0.3


def test_bad_settings():
    with pytest.raises(ValueError, match="RBF"):
        ControlVariables()(make_problem(10, kernel=Matern(1.0)))
    with pytest.raises(ValueError, match="controls"):
        ControlVariables(controls=0)
