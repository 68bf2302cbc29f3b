"""No setting is dropped without a word, whatever prior and number of classes an inference meets."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from gpclass import GPClassifier
from gpclass.hyper import Map, Maximize


@pytest.mark.parametrize("strategy", [Maximize, Map])
def test_a_checkpoint_that_nothing_writes_is_refused(strategy, tmp_path):
    X = np.random.default_rng(0).normal(size=(12, 1))
    clf = GPClassifier(1.0 * RBF(1.0), inference="ep", hyperparameters=strategy(checkpoint=tmp_path / "fit.npz"))
    with pytest.raises(ValueError, match="inducing inputs"):
        clf.fit(X, (X[:, 0] > 0).astype(int))
