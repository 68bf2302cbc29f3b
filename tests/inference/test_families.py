"""One inference for all: two classes as many, softmax's variational Gaussian, weights as rows, numbers kept."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.gaussian_process.kernels import RBF, CompoundKernel

from gpclass.inference import (
    EP,
    Annealed,
    EllipticalSlice,
    Exact,
    Importance,
    Laplace,
    LatentHMC,
    Variational,
)
from gpclass.inference.posteriors import GaussianPosterior
from gpclass.latent.dense import Dense
from gpclass.latent.low_rank import LowRank
from gpclass.likelihoods import Logit, MultinomialProbit, Probit, Softmax
from gpclass.model.problem import Problem
from gpclass.predict import predict_proba
from gpclass.predict.many import many_proba
from tests.inference.test_low_rank import FAMILIES, TIGHT, sparse_of, task_of
from tests.inference.test_many_laplace import OWN, problem
from tests.inference.test_many_samplers import TASKS, truth_of

KEPT = {"dense": Dense, "inducing": LowRank}
FORMS = list(KEPT)


def form_of(name, m=6):
    return LowRank(Z=np.random.default_rng(7).standard_normal((m, 2))) if name == "inducing" else None


def pair(likelihood, form, n=20):
    """The same problem of two classes, with one latent value a row and with two."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((n, 2))
    y = (X[:, 0] + 0.5 * rng.standard_normal(n) > 0).astype(int)
    two, variance = (Logit(), 4.0) if likelihood.name == "softmax" else (Probit(), 2.0)
    many = Problem.of(X, y, 2.0 * RBF(0.9), likelihood, n_classes=2, form=form)
    return many, Problem.of(X, 2.0 * y - 1.0, variance * RBF(0.9), two, form=form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("method", "likelihood", "room"),
    [
        (EP(tol=1e-9), MultinomialProbit(), 1e-6),
        (Laplace(tol=1e-18), Softmax(), 1e-6),
        (Variational(tol=1e-8), Softmax(), 1e-2),  # averages at fixed points: 5e-4 a row
    ],
)
def test_two_classes_as_many(method, likelihood, room, form):
    many, two = pair(likelihood, form_of(form))
    a, b = method(many, gradient=True), method(two, gradient=True)
    assert a.report.converged
    assert b.report.converged
    assert a.evidence.log_z == pytest.approx(b.evidence.log_z, abs=room)
    np.testing.assert_allclose(a.evidence.gradient, b.evidence.gradient, atol=10 * room)
    new = many.X[:5] + 0.2
    p, q = many_proba(a.latent(new), many.likelihood), predict_proba(b.latent(new), two.likelihood)
    np.testing.assert_allclose(p.proba, q.proba, atol=room)


SAMPLERS = [
    Importance(n_samples=4000),
    Annealed(n_samples=1000),
    EllipticalSlice(draws=200),
    LatentHMC(draws=200),
]
RUNS = [
    pytest.param(method, likelihood, form, id=f"{method.name}-{likelihood.name}-{form}")
    for method in SAMPLERS
    for likelihood in (Softmax(), MultinomialProbit())
    for form in FORMS
    if method.way(type(likelihood), KEPT[form].offers) is not None
]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "likelihood", "form"), RUNS)
def test_samplers_of_two_classes_as_many(method, likelihood, form):
    many, two = pair(likelihood, form_of(form), n=12)
    a, b = method(many, np.random.default_rng(0)), method(two, np.random.default_rng(1))
    if a.evidence is not None:
        assert abs(a.evidence.log_z - b.evidence.log_z) < 4 * np.hypot(a.evidence.error, b.evidence.error) + 1e-3
    new = many.X[:5] + 0.2
    p, q = many_proba(a.latent(new), many.likelihood), predict_proba(b.latent(new), two.likelihood)
    assert np.all(np.abs(p.proba - q.proba) < 4.5 * np.hypot(p.mcse, q.mcse) + 1e-3)


# ---- softmax's variational Gaussian -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", list(TASKS))
def test_bound_is_below_the_evidence(name):
    log_z, _ = truth_of(name)
    found = Variational()(TASKS[name])
    assert found.report.converged
    assert found.evidence.kind == "bound"
    assert log_z - 0.2 < found.evidence.log_z < log_z
    laplace = Laplace()(TASKS[name])
    assert abs(found.evidence.log_z - log_z) < abs(laplace.evidence.log_z - log_z)


def test_bound_is_the_largest_over_all_gaussians():
    """One row: E log p − KL over mean and covariance, by quadrature and a general optimiser."""
    kernel = CompoundKernel([2.0 * RBF(), 1.0 * RBF(), 0.5 * RBF()])
    task = Problem.of(np.zeros((1, 2)), np.array([1]), kernel, Softmax(), n_classes=3)
    K = np.diag([2.0, 1.0, 0.5])
    x, w = hermegauss(12)
    z = np.stack(np.meshgrid(x, x, x, indexing="ij")).reshape(3, -1)
    mass = np.prod(np.stack(np.meshgrid(w, w, w, indexing="ij")).reshape(3, -1) / w.sum(), axis=0)

    def negative(v):
        m, L = v[:3], np.zeros((3, 3))
        L[np.tril_indices(3)] = v[3:]
        average = mass @ log_softmax(m[:, None] + L @ z, axis=0)[1]
        inner = np.linalg.solve(K, np.column_stack([L @ L.T, m[:, None]]))
        log_dets = np.linalg.slogdet(K)[1] - 2 * np.log(np.abs(np.diag(L))).sum()
        return -(average - 0.5 * (np.trace(inner[:, :3]) + m @ inner[:, 3] - 3 + log_dets))

    start = np.concatenate([np.zeros(3), np.sqrt(K)[np.tril_indices(3)]])
    best = minimize(negative, start, method="BFGS", options={"gtol": 1e-8})
    found = Variational(tol=1e-9)(task)
    assert found.evidence.log_z == pytest.approx(-best.fun, abs=1e-3)
    np.testing.assert_allclose(found.gaussian.mean[:, 0], best.x[:3], atol=5e-3)
    L = np.zeros((3, 3))
    L[np.tril_indices(3)] = best.x[3:]
    np.testing.assert_allclose(found.gaussian.covariance[0], L @ L.T, atol=5e-3)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kernel", [None, CompoundKernel(OWN)], ids=["shared", "own"])
def test_gradient_of_the_bound_by_differences(kernel, form):
    """The bound's averages are at fixed points, so that its slope is that of the sites up to their error."""
    task = problem(kernel=kernel)
    task = sparse_of(task, np.random.default_rng(3).standard_normal((6, 2))) if form == "inducing" else task
    method = Variational(tol=1e-9)
    found = method(task, gradient=True)
    assert found.report.converged
    slope = found.evidence.gradient
    for k, e in enumerate(np.eye(len(slope))):
        up, down = (method(task.at(task.theta + s * 1e-3 * e)).evidence.log_z for s in (1, -1))
        assert slope[k] == pytest.approx((up - down) / 2e-3, abs=0.01)
    assert np.abs(slope).max() > 0.3


def test_sweeps_are_not_damped_by_the_error_of_the_averages():
    for task in (problem(n=40), problem(n=50, C=6, kernel=20.0 * RBF(1.5))):
        report = Variational(tol=1e-8)(task).report
        assert report.converged
        assert report.iterations < 40


@pytest.mark.filterwarnings("error")
def test_rows_that_are_sure_of_their_class_do_no_harm():
    """A large variance: averaged curvatures fall to rounding, and the rests are large."""
    task = problem(n=60, C=4, kernel=100.0 * RBF(1.0))
    low = sparse_of(task, np.random.default_rng(3).standard_normal((15, 2)))
    found = Variational(tol=1e-6)(low, gradient=True)
    assert found.report.converged
    assert np.isfinite(found.evidence.gradient).all()


# ---- weights, and numbers that are kept --------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("name", "likelihood"), FAMILIES)
def test_whole_weights_are_repeated_rows(name, likelihood, form):
    copies = 1.0 + np.arange(20) % 3
    task = replace(task_of(20, likelihood, weights=copies), form=form_of(form) or task_of(3).form)
    task = task.on(task.X, task.y, copies)
    rows = np.repeat(np.arange(20), copies.astype(int))
    one, other = TIGHT[name](task), TIGHT[name](task.on(task.X[rows], task.y[rows]))
    assert one.evidence.log_z == pytest.approx(other.evidence.log_z, abs=1e-6)
    a, b = one.latent(task.X[:3]), other.latent(task.X[:3])
    np.testing.assert_allclose(a.means, b.means, atol=1e-5)
    np.testing.assert_allclose(a.covariances, b.covariances, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("name", "likelihood"), FAMILIES)
def test_kept_numbers_make_the_gaussian_again(name, likelihood, form):
    task = task_of(20, likelihood, weights=np.random.default_rng(0).uniform(0.5, 2.5, 20))
    task = replace(task, form=form_of(form) or task.form)
    found = TIGHT[name](task)
    X = task.X[:4] + 0.1
    packed = GaussianPosterior.unpack(task, found.pack(1, np.random.default_rng(0)))
    read = GaussianPosterior.from_state(found.state())
    for again in (packed, read):
        np.testing.assert_allclose(again.latent(X).means, found.latent(X).means, atol=1e-7)
        np.testing.assert_allclose(again.latent(X).covariances, found.latent(X).covariances, atol=1e-7)


@pytest.mark.parametrize("likelihood", ["probit", "logit", "multinomial-probit"])
@pytest.mark.parametrize("form", FORMS)
def test_exact_draws_until_the_tolerance_is_met(likelihood, form):
    task = task_of(20, likelihood)
    task = replace(task, form=form_of(form) or task.form)
    found = Exact(tol=0.01)(task, np.random.default_rng(0))
    average = many_proba if task.likelihood.many else predict_proba
    assert average(found.latent(task.X), task.likelihood).mcse.max() < 0.015
