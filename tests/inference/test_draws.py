"""How many draws a tolerance needs, predicted from a pilot."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from gpclass.inference import Exact
from gpclass.inference.draws import Law
from gpclass.likelihoods import Probit
from gpclass.model.problem import Problem
from gpclass.orthant.enough import enough


def problem(n):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3))
    f = 1.5 * np.sin(2 * X[:, 0]) + X[:, 1] + 0.7 * rng.standard_normal(n)
    return Problem.of(X, np.where(f > 0, 1.0, -1.0), 5.5 * RBF(1.04), Probit())


@pytest.mark.slow
@pytest.mark.parametrize("n", [40, 120])
def test_the_law_of_a_pilot_holds_for_more_draws(n):
    one, runs = problem(n), 16
    X = one.rows.take(np.arange(n))[0]
    pilots = [Exact(n_samples=1000)(one, np.random.default_rng(seed)) for seed in range(3)]
    stated = np.mean([Law.of(pilot.latent(X), one.likelihood, n).error(4000) for pilot in pilots])
    from gpclass.predict import predict_proba

    p = [
        predict_proba(Exact(n_samples=4000)(one, np.random.default_rng(100 + r)).latent(X), one.likelihood).proba[:, 1]
        for r in range(runs)
    ]
    true = np.std(p, axis=0, ddof=1).max()
    assert 0.6 * stated < true < 1.5 * stated  # the largest of n errors, each known to 18 %


def test_fewest_draws_for_a_tolerance():
    law = Law(pairs=3e-3, M=1000, n=100, removed=0.6)
    wanted = law.needed(1e-3, 1000, 50_000)
    assert law.error(wanted) <= 1e-3 < law.error(int(0.97 * wanted))
    assert wanted < 9000 * 1.3
    assert Law(pairs=3e-3, M=1000, n=100, removed=0.0).needed(1e-3, 1000, 50_000) > 1.5 * wanted
    assert law.needed(1e-9, 1000, 2000) == 2000
    assert law.needed(1.0, 1000, 2000) == 1000


@pytest.mark.parametrize("noise", [1.0, 30.0])
def test_the_draws_that_count_are_never_looked_at(noise):
    """Pilots decide the number; the last draws are neither judged nor drawn again, whatever they are."""
    made, seen = [], []

    def draw(M, rng):
        made.append(M)
        return len(made) - 1, noise if len(made) == 3 else 1.0  # only what counts is spoiled

    def law(drawn):
        seen.append(drawn[0])
        return Law(pairs=3e-3 * np.sqrt(1000 / made[drawn[0]]) * drawn[1], M=made[drawn[0]], n=10, removed=0.0)

    got = enough(draw, lambda M, rng: law(draw(M, rng)), np.random.default_rng(0), tol=1e-3, first=1000, most=50_000)
    assert seen == [0, 1]
    assert got.drawn == (2, noise)
    assert got.met
    assert made[0] == 1000 < made[1] < made[2] < 20_000
