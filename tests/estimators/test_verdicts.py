"""What a fit says of itself: one verdict, one cure, and what its evidence is."""

import re
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.gaussian_process.kernels import RBF
from sklearn.gaussian_process.kernels import ConstantKernel as C
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from gpclass import GPClassifier, compare
from gpclass.hyper import HMC, Alternate, PseudoMarginal
from gpclass.inference import EllipticalSlice, Exact, ep
from gpclass.posterior import Report

X, Y = make_moons(40, noise=0.3, random_state=0)


def said(act):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = act()
    return found, " ".join(str(w.message) for w in caught)


def test_a_tolerance_that_cannot_be_met_has_one_verdict_and_one_cure():
    few = Exact(tol=1e-5, max_samples=1000)
    clf = GPClassifier(2.0 * RBF(1.0), inference=few, hyperparameters="fixed", tol=1e-5, random_state=0)
    _, fitting = said(lambda: clf.fit(X, Y))
    _, predicting = said(lambda: clf.predict_uncertainty(X))
    assert not clf.fit_report_.precise
    assert re.search(r"^converged +yes, but less precise than asked for", str(clf.fit_report_), re.MULTILINE)
    for text in (fitting, predicting):
        assert "Exact(tol=..., max_samples=...)" in text
        assert "a smaller tol" not in text


def test_a_tolerance_that_is_met_is_said_plainly():
    clf = GPClassifier(2.0 * RBF(1.0), hyperparameters="fixed", tol=0.02, random_state=0).fit(X, Y)
    assert clf.fit_report_.precise
    assert re.search(r"^converged +yes$", str(clf.fit_report_), re.MULTILINE)


@pytest.mark.slow
def test_short_chains_are_not_plainly_converged():
    brief = HMC(chains=2, warmup=5, draws=30, leapfrog=3)
    clf, text = said(
        lambda: GPClassifier(RBF(1.0), inference="laplace", hyperparameters=brief, random_state=0).fit(X, Y)
    )
    assert "more draws than 30" in text
    assert not clf.fit_report_.precise
    assert not re.search(r"^converged +yes$", str(clf.fit_report_), re.MULTILINE)


@pytest.mark.parametrize(("around", "cure"), [("ep", "raise draws"), ("prior", "use inference='ep'")])
def test_chains_that_have_not_mixed_are_told_once(around, cure):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sampler = EllipticalSlice(chains=4, warmup=5, draws=20, thin=1, around=around)
        clf = GPClassifier(4 * RBF(0.8), inference=sampler, hyperparameters="fixed", random_state=0).fit(X, Y)
    assert not clf.fit_report_.converged
    (one,) = [str(w.message) for w in caught]
    assert re.search(f"the fit did not converge: .*R-hat is .*; {cure}", one)


def test_not_converged_outweighs_imprecise():
    assert Report("ep", converged=False, precise=False).verdict == "no"


@pytest.mark.slow
def test_the_evidence_of_sampled_parameters_says_where_it_is():
    brief = HMC(chains=2, warmup=5, draws=30, leapfrog=3)
    clf, _ = said(lambda: GPClassifier(RBF(1.0), inference="laplace", hyperparameters=brief, random_state=0).fit(X, Y))
    assert "not integrated" in clf.fit_report_.evidence_at
    assert "evidence at" in str(clf.fit_report_)
    np.testing.assert_allclose(clf.log_evidence_, clf.log_marginal_likelihood(clf.theta_), atol=1e-6)
    found = GPClassifier(RBF(1.0), inference="laplace").fit(X, Y)
    assert found.fit_report_.evidence_at is None


@pytest.mark.parametrize("strategy", [HMC, PseudoMarginal, Alternate])
def test_all_samplers_have_the_same_default_priors(strategy):
    assert strategy().default_priors == "weak"
    assert PseudoMarginal.filippone().default_priors == "filippone"


def test_balanced_weights_say_that_calibration_is_gone():
    rng = np.random.default_rng(0)
    rare = rng.random(120) < 0.1
    x = rng.normal(size=(120, 1)) + 1.5 * rare[:, None]
    kernel = 1.0 * RBF(1.0) + C(1.0)
    plain = GPClassifier(kernel, inference="laplace", hyperparameters="fixed")
    fitted, text = said(lambda: plain.fit(x, rare))
    assert "calibrated" not in text
    balanced, text = said(lambda: clone(plain).set_params(class_weight="balanced").fit(x, rare))
    assert "decide(X, costs)" in text
    assert "as 0.5: probabilities are those of such a population, not calibrated" in text
    assert balanced.predict_proba(x)[:, 1].mean() > 2 * fitted.predict_proba(x)[:, 1].mean()
    _, text = said(lambda: clone(plain).set_params(class_weight={False: 1.0, True: 1.0}).fit(x, rare))
    assert "calibrated" not in text


def test_reports_and_comparisons_are_tables_in_notebooks():
    page = compare(X, Y, {"a<b": LogisticRegression(), "nb": GaussianNB()}, cv=2)._repr_html_()
    assert "<th>a&lt;b</th>" in page
    assert page.count("<tr>") == 3
    report = GPClassifier(2.0 * RBF(1.0), inference="ep", hyperparameters="fixed").fit(X, Y).fit_report_
    assert report._repr_html_().count("<tr>") == len(report.rows())


@pytest.mark.slow
def test_balanced_weights_need_no_row_by_row_visits(monkeypatch):
    """Fractional powers are integrated: row after row took thirty times as long as all rows at once."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 4))
    y = (X[:, 0] + 0.7 * rng.normal(size=100) > 1.2).astype(int)
    kernel = C(1e4) * RBF(1.0) + C(0.9)
    clf = GPClassifier(kernel, inference="ep", hyperparameters="fixed", class_weight="balanced")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # calibration is gone, as it says
        with monkeypatch.context() as patch:
            patch.setattr(ep, "POWERED", ep.PARALLEL)  # as before: it ends row by row
            slow = clf.fit(X, y).log_evidence_
        monkeypatch.setattr(ep.EP, "_sequential", lambda *_: pytest.fail("row by row"))
        assert clf.fit(X, y).log_evidence_ == pytest.approx(slow, abs=1e-8)
    assert clf.fit_report_.converged
