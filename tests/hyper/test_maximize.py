"""A climb and the inference after it: nothing is computed cold twice at one θ."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from gpclass import GPClassifier
from gpclass.hyper import Maximize
from gpclass.hyper.base import Run
from gpclass.inference import EP, Laplace, Variational
from gpclass.latent.low_rank import LowRank
from gpclass.likelihoods import get_likelihood
from gpclass.model.problem import Problem


def problem_of(likelihood, form=None, n=60):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2))
    index = np.digitize(X[:, 0] + 0.3 * rng.standard_normal(n), [-0.4, 0.4])
    chosen = get_likelihood(likelihood)
    C = 3 if chosen.many else 2
    y = chosen.encode(np.minimum(index, C - 1))
    return Problem.of(X, y, 2.0 * RBF(1.0), chosen, n_classes=C, form=form)


class Watch:
    """What an inference was asked for: θ, and the iterations that it took."""

    def __init__(self, monkeypatch, cls):
        self.calls = []
        infer = cls.infer

        def watched(inference, problem, rng, start, gradient):
            found = infer(inference, problem, rng, start, gradient)
            self.calls.append((problem.theta.copy(), start is not None, found.report.iterations))
            return found

        monkeypatch.setattr(cls, "infer", watched)


@pytest.mark.filterwarnings("ignore:the best parameters")
@pytest.mark.parametrize("inducing", [False, True])
@pytest.mark.parametrize(
    ("inference", "likelihood"),
    [
        (EP(), "probit"),
        (EP(), "multinomial-probit"),
        (Laplace(), "logit"),
        (Laplace(), "softmax"),
        (Variational(), "probit"),
        (Variational(), "softmax"),
    ],
)
def test_the_last_inference_starts_from_the_climb(monkeypatch, inference, likelihood, inducing):
    problem = problem_of(likelihood, LowRank(None, 15) if inducing else None)
    watch = Watch(monkeypatch, type(inference))
    fit = Maximize(max_iter=8)(problem, inference, Run(np.random.default_rng(0)))
    theta, warm, iterations = watch.calls[-1]
    asked = list(watch.calls)
    np.testing.assert_array_equal(theta, fit.problem.theta)
    assert warm
    assert iterations < inference(fit.problem).report.iterations  # from nothing
    starts = [t for t, warm, _ in asked if not warm]
    assert len(starts) <= 1  # the first evaluation alone is from nothing
    assert not any(np.array_equal(t, fit.problem.theta) for t in starts)


def test_the_last_inference_is_that_of_the_settings(monkeypatch):
    """The climb's sites are loose; those of the fit are not."""
    problem = problem_of("probit")
    seen = []
    infer = EP.infer

    def watched(inference, *rest):
        seen.append(inference.tol)
        return infer(inference, *rest)

    monkeypatch.setattr(EP, "infer", watched)
    fit = Maximize(max_iter=5)(problem, EP(tol=1e-9), Run(np.random.default_rng(0)))
    assert seen[-1] == 1e-9
    assert set(seen[:-1]) == {EP(tol=1e-9).guide.tol}
    again = EP(tol=1e-12)(fit.problem)
    assert abs(again.evidence.log_z - fit.posterior.evidence.log_z) < 1e-9


@pytest.mark.parametrize("wrong", [-1, 0, "small"])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match="tol must be a positive number"):
        Maximize(tol=wrong)
    with pytest.raises(ValueError, match="max_iter must be a whole number"):
        Maximize(max_iter=0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("classes", [2, 3])
def test_cross_validation_with_inducing_inputs_chooses(classes):
    from gpclass.hyper import CrossValidation

    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 2))
    y = np.digitize(X[:, 0], [-0.4, 0.4][: classes - 1])
    search = CrossValidation(grid={"k2__length_scale": [0.02, 1.0]}, folds=3)
    for inference in ("ep", "laplace"):
        settings = {"inference": inference, "hyperparameters": search, "random_state": 0}
        clf = GPClassifier(3.0 * RBF(1.0), n_inducing=12, **settings).fit(X, y)
        assert clf.kernel_.k2.length_scale == pytest.approx(1.0)
        assert clf.score(X, y) > 0.85
