"""Geweke's test with independent replicates: kernels that leave the joint of θ, f and y alone keep θ at its prior."""

import numpy as np
from scipy.special import logsumexp
from scipy.stats import kstest

from gpclass.hyper.proposal import LogDensity, Mode
from gpclass.hyper.pseudo_marginal import MetropolisSampler
from gpclass.inference import Importance, Laplace
from gpclass.inference.posteriors import WhiteDraws
from gpclass.priors import LogNormal, resolve_priors
from tests.conftest import make_problem
from tests.hyper.against_quadrature import NAMES, PRIORS

MODE = Mode(np.array([0.5, 0.0]), np.diag([0.5, 0.3]), 0)
ROWS = 4


def joint_after(step, prior, replicates, seed):
    """Standardised θ_0 after ``step(data, theta, eta, f, rng)`` from joint draws of θ, η, y."""
    rng, problem, out = np.random.default_rng(seed), make_problem(ROWS), []
    for _ in range(replicates):
        theta, eta = prior.draw(rng, 1)[0], rng.standard_normal(ROWS)
        at = problem.at(theta)
        f = np.linalg.cholesky(at.prior.K) @ eta
        y = np.where(rng.random(ROWS) < at.likelihood.inverse_link(f), 1.0, -1.0)
        out.append((step(problem.on(problem.X, y), theta, eta, f, rng)[0] - 0.5) / 0.7)
    return np.array(out)


def leaves_the_joint_alone(step_of, replicates, seed):
    """Whether the kernel of ``step_of(prior)`` keeps θ at its prior; one that believes in another prior must not."""
    problem = make_problem(ROWS)
    right = resolve_priors(PRIORS, problem.names, problem.theta)
    wrong = resolve_priors({**PRIORS, NAMES[0]: LogNormal(2.3, 0.7)}, problem.names, problem.theta)
    kept = kstest(joint_after(step_of(right), right, replicates, seed), "norm").pvalue
    lost = kstest(joint_after(step_of(wrong), right, replicates, seed), "norm").pvalue
    return bool(kept > 0.01 and lost < 1e-3)


def metropolis_steps(strategy, prior, steps):
    """Steps of pseudo-marginal chains with two particles from the prior, f one of them.

    So the estimate at the start is what the chain would hold there. What moves aim at is made once, from other labels:
    chains are exact for any aim.
    """

    def sampler_of(data):
        guide = LogDensity(data, Laplace(), prior)
        return MetropolisSampler(
            strategy, guide, LogDensity(data, Importance(2, around="prior"), prior), MODE, WhiteDraws
        )

    base = sampler_of(make_problem(ROWS))
    first = base.moves.first(MODE.theta)
    tuned = {**first, **base.moves.pool([first])}

    def step(data, theta, eta, f, rng):
        sampler = sampler_of(data)
        vars(sampler)["moves"] = base.moves if strategy.proposal == "fitted" else sampler.moves
        state = {**sampler._switch({**tuned, "theta": theta}, rng), "theta": theta}
        other = np.linalg.cholesky(data.at(theta).prior.K) @ rng.standard_normal(ROWS)
        logs = [data.likelihood.log_prob(data.y, g).sum() for g in (f, other)]
        log_z = logsumexp(logs) - np.log(2)
        state |= {"log_z": np.array(log_z), "value": np.array(log_z + sampler.guide.log_prior(theta))}
        for i in range(steps):
            state, _ = sampler.step(state, rng, i)
        return state["theta"]

    return step
