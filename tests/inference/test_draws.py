"""How many draws a tolerance needs, predicted from a pilot."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from gpclass.inference import Exact
from gpclass.inference.draws import Law
from gpclass.likelihoods import Probit
from gpclass.model.problem import Problem


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
