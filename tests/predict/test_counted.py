"""The hard count at prediction agrees with the averaged link within its own noise."""

import numpy as np
import pytest

from gpclass.likelihoods import get_likelihood
from gpclass.posterior import LatentMixture
from gpclass.predict import counted, predict_proba


@pytest.mark.slow
@pytest.mark.parametrize(("name", "L"), [("probit", 1), ("logit", 1), ("softmax", 3), ("multinomial-probit", 3)])
def test_count_and_average_have_one_mean(name, L):
    rng, S, m = np.random.default_rng(0), 20_000, 4
    means = rng.standard_normal((1, m, L)) + 0.3 * rng.standard_normal((S, m, L))
    spread = 0.5 * rng.standard_normal((1, m, L, L))
    mixture = LatentMixture(np.full(S, 1 / S), means, spread @ np.swapaxes(spread, -1, -2), np.arange(S))
    likelihood = get_likelihood(name)
    found, wanted = counted(mixture, likelihood, rng), predict_proba(mixture, likelihood).proba
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    z = (found - wanted) / np.sqrt(wanted * (1 - wanted) / S)
    assert np.abs(z).max() < 4.5
    assert np.abs(z).max() > 0.1  # counts are noisy: an average would not be
