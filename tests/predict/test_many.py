"""Probabilities of many classes from a mixture."""

import numpy as np
import pytest

from gpclass.likelihoods import get_likelihood
from gpclass.posterior import LatentMixture
from gpclass.predict import predict_proba


@pytest.mark.parametrize("name", ["softmax", "multinomial-probit"])
def test_a_sure_class_has_no_more_than_probability_one(name):
    """Weights sum to one except for rounding; scikit-learn's log loss refuses what is above one."""
    weights = np.random.default_rng(0).dirichlet(np.ones(300))
    means = np.zeros((300, 5, 3))
    means[:, :, 0] = 60.0
    mixture = LatentMixture(weights * (1 + 1e-15), means, 0.1 * np.eye(3)[None, None].repeat(5, 1), np.arange(300))
    found = predict_proba(mixture, get_likelihood(name))
    assert found.proba.max() <= 1.0
    assert found.log_proba.max() <= 0.0
    np.testing.assert_allclose(found.proba.sum(axis=1), 1.0)
