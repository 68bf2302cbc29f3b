"""Rows of one class only, all classes named: the prior answers, where it can.

Oracles: the orthants of two and three Gaussian variables in closed form (probit), Gauss–Hermite quadrature over the
latent values (any link), a root of one equation (the mode of one latent value), and kriging by hand.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit, log_expit, logsumexp
from sklearn.gaussian_process.kernels import RBF

from gpclass import GPClassifier, load_model
from gpclass.estimators.tables import TableClassifier
from gpclass.geostat import IndicatorKriging
from gpclass.inference.amp import AMP
from gpclass.inference.dsgq import DSGQ
from gpclass.registry import FORMS, INFERENCES, cell, get_strategy

X = np.array([[0.0], [0.7]])
NEW = np.array([[0.2], [1.5], [40.0]])
ONES = np.array([1, 1])
BOTH = [0, 1]


def kernel():
    return 2.0 * RBF(0.8)


def orthant(S: np.ndarray) -> float:
    """P(all variables > 0) of two or three centred Gaussian variables with covariance S."""
    d = np.sqrt(np.diag(S))
    R = S / np.outer(d, d)
    if len(S) == 2:
        return float(1 / 4 + np.arcsin(R[0, 1]) / (2 * np.pi))
    return float(1 / 8 + (np.arcsin(R[0, 1]) + np.arcsin(R[0, 2]) + np.arcsin(R[1, 2])) / (4 * np.pi))


def by_orthants(k0: float) -> np.ndarray:
    """p(y* = 1) at the new points given that both rows are of class 1, link Φ(k0 f): a ratio of orthants (R eq. 26)."""
    found = []
    for new in NEW:
        Z = np.vstack([X, new])
        S = kernel()(Z) + np.eye(3) / k0**2
        found.append(orthant(S) / orthant(S[:2, :2]))
    return np.array(found)


def by_quadrature(log_link) -> np.ndarray:
    """The same for any link by Gauss–Hermite quadrature over the three latent values."""
    node, weight = np.polynomial.hermite_e.hermegauss(60)
    z = np.stack(np.meshgrid(node, node, node, indexing="ij"), axis=-1).reshape(-1, 3)
    log_w = sum(np.log(weight)[i] for i in np.indices((60, 60, 60)).reshape(3, -1))
    found = []
    for new in NEW:
        L = np.linalg.cholesky(kernel()(np.vstack([X, new])) + 1e-12 * np.eye(3))
        log_f = log_link(z @ L.T)
        seen = log_w + log_f[:, 0] + log_f[:, 1]
        found.append(np.exp(logsumexp(seen + log_f[:, 2]) - logsumexp(seen)))
    return np.array(found)


def fitted(inference, **settings):
    clf = GPClassifier(kernel(), inference=inference, hyperparameters="fixed", random_state=0, **settings)
    return clf.fit(X, ONES, classes=BOTH)


@pytest.mark.parametrize(("inference", "k0"), [("exact", 1.0), (DSGQ(k0=0.9, tol=3e-4), 0.9)])
def test_orthants_in_closed_form(inference, k0):
    clf = fitted(inference, **({"tol": 3e-4} if inference == "exact" else {}))
    found = clf.predict_uncertainty(NEW)
    assert clf.classes_.tolist() == BOTH
    assert np.all(np.abs(found.proba[:, 1] - by_orthants(k0)) < 4 * found.mcse[:, 1] + 1e-12)
    assert abs(found.proba[2, 1] - 0.5) < 2e-3, "far away the prior has no opinion"
    S = kernel()(X) + np.eye(2) / k0**2
    assert abs(clf.log_evidence_ - np.log(orthant(S))) < 4 * clf.log_evidence_error_ + 1e-12


def test_amp_is_the_root_of_its_equation():
    """One row: φ = s c0 σ(−c0 φ), kriged to the new points."""
    c0 = 1.7
    clf = GPClassifier(kernel(), inference=AMP(c0=c0), hyperparameters="fixed")
    clf.fit([[0.0], [0.0]], ONES, sample_weight=[1, 0], classes=BOTH)
    mode = brentq(lambda phi: phi - 2.0 * c0 * expit(-c0 * phi), 0.0, 20.0)
    expected = expit(c0 * kernel()(NEW, [[0.0]])[:, 0] / 2.0 * mode)
    np.testing.assert_allclose(clf.predict_proba(NEW)[:, 1], expected, rtol=1e-9)


ABLE = [
    name for name, row in INFERENCES.items() if cell(row.default, get_strategy("fixed"), FORMS["dense"], "two").runs
]
ROUGH = {
    "laplace": 0.04,
    "amp": 0.03,
    "variational": 3e-3,
    "ep": 2e-3,
}  # errors of the approximations on these two rows


@pytest.mark.filterwarnings(
    "ignore:the Monte Carlo standard error", "ignore:the chains have not mixed", "ignore:only .* effective draws"
)
@pytest.mark.parametrize("name", ABLE)
def test_every_inference_answers(name):
    """Each is near the quadrature of its own link: within its Monte Carlo error, or its approximation's."""
    clf = fitted(INFERENCES[name].default)
    found = clf.predict_uncertainty(NEW)
    if clf.likelihood_.name == "probit":
        truth = by_orthants(clf.likelihood_.scale)
    else:
        truth = by_quadrature(lambda f: log_expit(clf.likelihood_.scale * f))
    error = np.nan_to_num(found.mcse[:, 1])
    assert np.all(np.abs(found.proba[:, 1] - truth) < 4 * error + ROUGH.get(name, 1e-12)), (found.proba[:, 1], truth)
    assert np.all(clf.predict(NEW[:2]) == 1)


def test_the_other_class_by_symmetry():
    zeros = GPClassifier(kernel(), inference="ep", hyperparameters="fixed").fit(X, 1 - ONES, classes=BOTH)
    np.testing.assert_allclose(zeros.predict_proba(NEW), fitted("ep").predict_proba(NEW)[:, ::-1], rtol=1e-9)


def test_three_classes_two_seen():
    """Under one kernel the unseen class is less probable than a third near the rows, and a third far away."""
    y = np.array(["b", "c"])
    clf = GPClassifier(kernel(), inference="ep", hyperparameters="fixed").fit(X, y, classes=["a", "b", "c"])
    p = clf.predict_proba(NEW)
    assert clf.classes_.tolist() == ["a", "b", "c"]
    assert p[0, 0] < 0.3
    np.testing.assert_allclose(p[2], 1 / 3, atol=1e-3)
    middle = clf.predict_proba([[0.35]])[0]
    np.testing.assert_allclose(middle[1], middle[2], rtol=1e-6)


def test_named_classes_that_are_all_seen_change_nothing():
    y = [0, 1]
    plain = GPClassifier(kernel(), inference="ep", hyperparameters="fixed").fit(X, y)
    named = GPClassifier(kernel(), inference="ep", hyperparameters="fixed").fit(X, y, classes=[1, 0])
    np.testing.assert_array_equal(plain.predict_proba(NEW), named.predict_proba(NEW))


@pytest.mark.parametrize("strategy", ["maximize", "map", "cv", "hmc"])
def test_kernel_parameters_are_not_learned_from_one_class(strategy):
    clf = GPClassifier(kernel(), inference="laplace", hyperparameters=strategy)
    with pytest.raises(ValueError, match=r"cannot be learned from rows of one class.*hyperparameters='fixed'"):
        clf.fit(X, ONES, classes=BOTH)


def test_a_kernel_without_free_parameters_is_taken_by_any_strategy():
    still = RBF(0.8, length_scale_bounds="fixed")
    clf = GPClassifier(still, inference="ep").fit(X, ONES, classes=BOTH)
    other = GPClassifier(still, inference="ep", hyperparameters="fixed").fit(X, ONES, classes=BOTH)
    np.testing.assert_allclose(clf.predict_proba(NEW), other.predict_proba(NEW), rtol=1e-9)


@pytest.mark.parametrize(
    ("y", "classes", "message"),
    [
        ([1, 1], None, r"one class only.*classes=\[\.\.\.\]"),
        ([1, 1], [1], "fewer than two"),
        ([1, 2], [0, 1], "y holds 2, which is not among"),
        (["a", "a"], [0, 1], "y holds 'a', which is not among"),
    ],
)
def test_what_is_refused(y, classes, message):
    for clf in (GPClassifier(kernel(), hyperparameters="fixed"), IndicatorKriging(kernel=kernel(), mean=0.5)):
        with pytest.raises(ValueError, match=message):
            clf.fit(X, y, classes=classes)


def test_class_weights_of_a_class_without_rows():
    """Weights multiply rows; a class without rows has none to multiply."""
    plain = fitted("ep")
    np.testing.assert_array_equal(
        fitted("ep", class_weight={0: 3.0, 1: 1.0}).predict_proba(NEW), plain.predict_proba(NEW)
    )
    np.testing.assert_array_equal(fitted("ep", class_weight="balanced").predict_proba(NEW), plain.predict_proba(NEW))


def test_saved_and_wrapped(tmp_path):
    import pandas as pd

    clf = fitted("ep")
    clf.save(tmp_path / "one.gpc")
    np.testing.assert_array_equal(load_model(tmp_path / "one.gpc").predict_proba(NEW), clf.predict_proba(NEW))
    table = TableClassifier(GPClassifier(kernel(), inference="ep", hyperparameters="fixed"), standardize=False)
    table.fit(pd.DataFrame(X, columns=["a"]), ONES, classes=BOTH)
    np.testing.assert_array_equal(table.predict_proba(pd.DataFrame(NEW, columns=["a"])), clf.predict_proba(NEW))


# ---- indicator kriging -----------------------------------------------------------------------------------------------


def test_kriging_about_the_given_mean():
    """p̂ = m + λᵀ(1 − m), λ = K⁻¹k*; in log-odds for the simplicial one."""
    lam = np.linalg.solve(kernel()(X), kernel()(X, NEW)).sum(axis=0)
    classical = IndicatorKriging(kernel=kernel(), mean=0.3).fit(X, ONES, classes=BOTH)
    np.testing.assert_allclose(classical.predict_indicator(NEW), 0.3 + 0.7 * lam, atol=1e-12)
    simplicial = IndicatorKriging("simplicial", kernel=kernel(), mean=0.5).fit(X, ONES, classes=BOTH)
    np.testing.assert_allclose(simplicial.predict_proba(NEW)[:, 1], expit(lam * np.log(3.0)), atol=1e-12)
    three = IndicatorKriging(kernel=kernel(), mean=[0.2, 0.3, 0.5]).fit(X, ONES, classes=[0, 1, 2])
    np.testing.assert_allclose(three.predict_indicator(NEW[2:]), [[0.2, 0.3, 0.5]], atol=1e-12)


@pytest.mark.parametrize(
    "settings",
    [{}, {"kernel": 2.0 * RBF(0.8)}, {"mean": 0.5}, {"kernel": 2.0 * RBF(0.8), "mean": 0.5, "ordinary": True}],
)
def test_kriging_learns_nothing_from_one_class(settings):
    with pytest.raises(ValueError, match=r"cannot be learned from rows of one class.*mean=0.5"):
        IndicatorKriging(**settings).fit(X, ONES, classes=BOTH)
