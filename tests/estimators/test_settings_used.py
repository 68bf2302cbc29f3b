"""A setting that would be dropped is refused, with its cure."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

from gpclass import GPClassifier
from gpclass.compare import compare
from gpclass.compare.presets import default_methods
from gpclass.inference import EP, Exact
from gpclass.priors import LogNormal

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 2))
Y = np.where(X[:, 0] + 0.3 * RNG.normal(size=24) > 0, "a", "b")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"inference": Exact(sweeps=2), "tol": 1e-4}, r"use Exact\(tol=\.\.\.\)"),
        ({"priors": LogNormal(0.0, 1.0)}, "hyperparameters='map' or 'hmc'"),
        ({"hyperparameters": "cv", "priors": LogNormal(0.0, 1.0)}, "priors has no effect"),
        ({"hyperparameters": "fixed", "n_restarts": 3}, "hyperparameters='maximize' or 'map'"),
        ({"hyperparameters": "em", "inference": "ep", "n_restarts": 3}, "n_restarts has no effect"),
    ],
)
def test_what_would_be_dropped_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        GPClassifier(RBF(1.0), **settings).fit(X, Y)


def test_what_is_used_or_the_default_is_not_refused():
    common = {"kernel": RBF(1.0), "hyperparameters": "fixed", "random_state": 0}
    GPClassifier(inference=Exact(tol=1e-2, n_samples=50), **common).fit(X, Y)
    GPClassifier(inference=EP(max_sweeps=50), tol=0.1, **common).fit(X, Y)  # EP draws nothing
    same = Exact(tol=0.05, n_samples=50)
    GPClassifier(inference=same, tol=0.05, **common).fit(X, Y)
    clone(GPClassifier(inference="laplace", tol=0.5, **common)).fit(X, Y)


@pytest.mark.slow
def test_restarts_of_a_guide_do_not_stop_the_classifier_that_it_guides():
    guided = default_methods(["elliptical-slice"], kernel=RBF(1.0), standardize=False, settings={"n_restarts": 1})
    fitted = guided["elliptical-slice"].set_params(guide__random_state=0, classifier__random_state=0).fit(X, Y)
    assert fitted.classifier_.n_restarts == 0
    assert fitted.guide_.n_restarts == 1


@pytest.mark.slow
def test_methods_with_restarts_are_compared_at_one_kernel():
    methods = {name: GPClassifier(RBF(1.0), inference=name, n_restarts=1, random_state=0) for name in ("ep", "laplace")}
    found = compare(X, Y, methods, cv=2, reference="ep")
    assert found.results["laplace"].same_kernel is not None


@pytest.mark.parametrize("inference", ["amp", "dsgq", "control-variables"])
def test_softmax_for_two_classes_is_refused_for_the_right_reason(inference):
    """It said that the inference takes two classes, and there were two."""
    with pytest.raises(ValueError, match="latent value for each class") as refused:
        GPClassifier(likelihood="softmax", inference=inference, hyperparameters="fixed").fit(X, Y)
    assert "takes two classes" not in str(refused.value)
    assert "likelihood='auto'" in str(refused.value)
