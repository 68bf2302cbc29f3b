"""Evidence with the kernel parameters integrated out: against quadrature, and as Bayes factors of fitted models."""

import warnings

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.gaussian_process.kernels import RBF

from gpclass import GPClassifier, compare_evidence, load_model
from gpclass.compare.evidence import EvidenceComparison
from gpclass.hyper import HMC, PseudoMarginal
from gpclass.hyper.integrated import Integrated, integrated_evidence
from gpclass.hyper.proposal import LogDensity
from gpclass.inference import Laplace
from gpclass.priors import resolve_priors
from tests.conftest import make_problem
from tests.hyper.against_quadrature import PRIORS, Quadrature


@pytest.mark.slow
def test_integrated_evidence_is_that_of_quadrature():
    problem = make_problem(12)
    found = Quadrature(problem, lambda at: Laplace()(at).evidence.log_z, size=15)
    a, b = (np.unique(found.theta[:, j]) for j in (0, 1))
    truth = logsumexp(found.log_evidence + found.log_prior) + np.log((a[1] - a[0]) * (b[1] - b[0]))
    mean, sd = found.moments()
    prior = resolve_priors(PRIORS, problem.names, problem.theta)
    density, rng = LogDensity(problem, Laplace(), prior), np.random.default_rng(0)
    draws = mean + sd * rng.standard_normal((100, 2))  # rough: the weights correct them
    ours = integrated_evidence(density, draws, 300, rng)
    assert ours.error < 0.05
    assert abs(ours.log_z - truth) < 4 * ours.error
    assert ours.ess > 150
    at_mean = Laplace()(problem.at(mean)).evidence.log_z  # what integrating must not be
    assert abs(at_mean - truth) > 10 * ours.error


def fitted(kernel, strategy=None, inference="exact", seed=0):
    problem = make_problem(20)
    strategy = strategy or PseudoMarginal(chains=2, warmup=6, discard=1, draws=30)
    clf = GPClassifier(kernel, inference=inference, hyperparameters=strategy, priors=PRIORS, random_state=seed, tol=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clf.fit(problem.X, problem.y)


@pytest.mark.slow
def test_models_are_compared_and_saved_ones_too(tmp_path):
    one = fitted(1.0 * RBF(1.0))
    other = load_model(one.save(tmp_path / "model.gpclass"))
    found = compare_evidence({"one": one, "again": other}, n_samples=60)
    gap, error = found.log_bayes_factor("one", "again")
    assert abs(gap) < 4 * error
    assert 0 < error < 0.3
    assert "log p(y)" in str(found)
    assert "<table" in found._repr_html_()
    same = compare_evidence({"one": one, "again": other}, n_samples=60)
    assert same.models == found.models  # one random_state, one answer
    assert found.models["one"].log_z < one.log_evidence_  # integrating over a prior costs evidence


def test_a_table_puts_the_best_first_and_says_which_errors_are_doubtful():
    found = EvidenceComparison(
        {"a": Integrated(-12.0, 0.1, 50.0, 0.2, 100), "b": Integrated(-10.0, 0.1, 9.0, 0.9, 100)}
    )
    lines = str(found).splitlines()
    assert lines[0].startswith("b")
    assert "k-hat 0.90" in lines[0]
    assert "-2.00 against the best" in lines[1]
    assert found.probabilities["b"] == pytest.approx(1 / (1 + np.exp(-2.0)))


@pytest.mark.slow
def test_what_cannot_be_compared():
    X, y = make_problem(12).X, make_problem(12).y
    plain = GPClassifier(inference="laplace", hyperparameters="fixed").fit(X, y)
    with pytest.raises(ValueError, match="no sampled kernel parameters"):
        compare_evidence({"plain": plain})
    with pytest.raises(ValueError, match="at least one"):
        compare_evidence({})
    one = fitted(1.0 * RBF(1.0), HMC.brief(), "laplace")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        others = GPClassifier(1.0 * RBF(1.0), inference="laplace", hyperparameters=HMC.brief(), random_state=0)
        others.fit(make_problem(20).X, -make_problem(20).y)
    with pytest.raises(ValueError, match="other labels"):
        compare_evidence({"one": one, "others": others}, n_samples=4)
