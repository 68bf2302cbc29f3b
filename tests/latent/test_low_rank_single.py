"""Sweeps over rows in single precision, under inducing inputs: how near they come, when they are refused, memory."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern

from gpclass import GPClassifier
from gpclass.hyper.staged.stage import Rule, Stage
from gpclass.inference import EP, Laplace, Variational
from gpclass.latent import basis, low_rank
from gpclass.latent.basis import Basis, add_gram, times_lower
from gpclass.latent.low_rank import LowRank
from gpclass.latent.low_rank_q import Q, Spec
from gpclass.latent.low_rank_target import LowRankTarget
from gpclass.likelihoods import Logit, Probit, get_likelihood
from gpclass.model.problem import Problem

RNG = np.random.default_rng(0)
n, m = 1500, 40
X = RNG.uniform(size=(n, 2))
LATENT = 2.0 * np.sin(6 * X[:, 0]) + np.cos(5 * X[:, 1])
TWO = np.where(LATENT + RNG.normal(size=n) > 0, 1, -1)
MANY = np.digitize(LATENT + RNG.normal(size=n), [-1.0, 1.0])
Z = RNG.uniform(size=(m, 2))
TOL = low_rank.ROUGH


def problem(likelihood="probit", y=TWO, variance=4.0, kernel=None, keep=True):
    kernel = ConstantKernel(variance) * Matern(0.3, nu=1.5) if kernel is None else kernel
    return Problem.of(X, y, kernel, get_likelihood(likelihood), form=LowRank(Z, m, keep=keep))


def both(monkeypatch, task, method, tol=TOL):
    """Posteriors of loose sites in single and in double precision."""
    single = method(tol=tol)(task, gradient=True)
    with monkeypatch.context() as patch:
        patch.setattr(low_rank, "ROUGH", np.inf)
        double = method(tol=tol)(task.at(task.theta), gradient=True)
    assert single.gaussian.prior.bases[0].single
    assert not double.gaussian.prior.bases[0].single
    return single, double


@pytest.mark.parametrize(
    ("likelihood", "y", "method"),
    [("probit", TWO, EP), ("logit", TWO, Variational)],
)
@pytest.mark.parametrize("keep", [True, False])
def test_evidence_and_slopes_are_those_in_double(monkeypatch, likelihood, y, method, keep):
    single, double = both(monkeypatch, problem(likelihood, y, keep=keep), method)
    assert 0.0 < abs(single.evidence.log_z - double.evidence.log_z) < 1e-3
    for name in ("gradient", "gradient_Z"):
        one, two = (getattr(found.evidence, name) for found in (single, double))
        assert np.linalg.norm(one - two) < 1e-3 * np.linalg.norm(two)


def test_a_final_inference_is_in_double_precision():
    found = EP()(problem())
    assert not found.gaussian.prior.bases[0].single
    assert found.gaussian.prior.problem.rows.held[0].scratch["basis 0"]["A"].dtype == np.float64


def test_ascents_end_at_the_same_evidence(monkeypatch):
    """In the kernel parameters: in the inducing inputs as well there are many maxima, and rounding may choose one."""

    def end():
        stage = Stage(problem(variance=1.0), EP(tol=0.5), Rule(30, 1e-7), free_Z=False)
        return EP()(stage.at(stage.run().x)).evidence.log_z

    single = end()
    monkeypatch.setattr(low_rank, "ROUGH", np.inf)
    assert abs(single - end()) < 0.01


def test_the_evidence_is_smooth_along_a_line():
    values, theta = [], problem().theta
    for step in np.linspace(0.0, 1e-3, 8):
        values.append(EP(tol=TOL)(problem().at(theta + step)).evidence.log_z)
    assert np.abs(np.diff(values, 2)).max() < 1e-3


def digits(task):
    (basis,) = EP(tol=TOL)(task).gaussian.prior.bases[:1]
    return basis.digits


def test_what_rounding_would_reach_is_in_double_precision():
    assert digits(problem()) is np.float32
    assert digits(problem("multinomial-probit", MANY)) is np.float64
    assert digits(problem(kernel=ConstantKernel(4.0) * RBF(2.0))) is np.float64  # inducing inputs nearly dependent
    assert digits(problem(kernel=ConstantKernel(4.0) * Matern(0.3, nu=1.5) + DotProduct())) is np.float64
    assert digits(problem(Logit(scale=2.0))) is np.float32
    assert digits(problem(Logit(scale=1e4))) is np.float64
    for weights in (np.where(np.arange(n) < 9, 1e6, 1.0), np.where(np.arange(n) % 2, 0.5, 1.5)):
        weighted = Problem.of(X, TWO, problem().kernel, Probit(), weights, form=LowRank(Z, m))
        assert digits(weighted) is np.float64


def test_the_scale_of_a_likelihood_and_the_variance_are_one():
    for scale in (1.0, 10.0, 1e3, 1e5):
        one = basis.rounds_well(1e4, [Basis(ConstantKernel(1.0) * Matern(0.3, nu=1.5), Z)], scale)
        assert one == basis.rounds_well(1e4, [Basis(ConstantKernel(scale**2) * Matern(0.3, nu=1.5), Z)])


@pytest.mark.parametrize("variance", [1.0, 30.0, 300.0])
def test_slopes_round_no_more_than_stated(monkeypatch, variance):
    """Also with larger variances: the slopes by Z of a short column are exact to a tenth of a nat per length."""
    length, points = 0.2, np.random.default_rng(2).uniform(size=(20, 1))
    X, kernel = np.random.default_rng(1).uniform(size=(1000, 1)), ConstantKernel(variance) * RBF(length)
    y = np.where(np.sqrt(variance) * np.sin(6 * X[:, 0]) + np.random.default_rng(3).normal(size=1000) > 0, 1, -1)
    task = Problem.of(X, y, kernel, Probit(), form=LowRank(points, 20))
    basis_of = Basis(kernel, points)
    bound = basis.EPSILON * np.sqrt(1000) * variance * basis_of.steepness
    assert basis.rounds_well(1000, [basis_of]) == (bound <= basis.STEEPEST)
    monkeypatch.setattr(basis, "STEEPEST", np.inf)
    single, double = both(monkeypatch, task, EP)
    off = length * np.abs(single.evidence.gradient_Z - double.evidence.gradient_Z).max()
    assert 1e-6 < off < bound


@pytest.mark.parametrize("kernel", [ConstantKernel(4.0) * RBF(2.0), ConstantKernel(1e3) * RBF(1.0)])
def test_slopes_by_inducing_inputs_that_nearly_coincide(monkeypatch, kernel):
    """Products in single precision would leave rounding alone, many times the slopes."""
    task = problem(kernel=kernel)
    found = EP(tol=TOL)(task, gradient=True).evidence.gradient_Z
    with monkeypatch.context() as patch:
        patch.setattr(low_rank, "ROUGH", np.inf)
        exact = EP(tol=TOL)(task.at(task.theta), gradient=True).evidence.gradient_Z
    assert np.linalg.norm(found - exact) < 0.01 * np.linalg.norm(exact)
    with monkeypatch.context() as patch:
        patch.setattr(basis, "STEEPEST", np.inf)
        patch.setattr(basis, "LARGEST", np.inf)
        single = EP(tol=TOL)(task.at(task.theta), gradient=True).evidence.gradient_Z
    assert np.linalg.norm(single - exact) > 0.1 * np.linalg.norm(exact)


def test_huge_variances_are_left_in_double_precision(monkeypatch):
    huge = problem(kernel=ConstantKernel(1e12) * RBF(1.0))
    assert not EP(tol=TOL)(huge).gaussian.prior.bases[0].single
    with monkeypatch.context() as patch:
        patch.setattr(basis, "LARGEST", np.inf)
        patch.setattr(basis, "STEEPEST", np.inf)
        single, double = both(patch, huge, EP, tol=TOL)
    one, two = single.evidence.gradient, double.evidence.gradient
    wrong = np.linalg.norm(one - two) > 0.01 * np.linalg.norm(two) or not single.report.converged
    assert wrong


def test_more_rows_and_larger_variances_take_double_precision():
    def serves(variance, count):
        return basis.rounds_well(count, [Basis(ConstantKernel(variance) * Matern(0.3, nu=1.5), Z)])

    assert serves(10.0, 1e6)
    assert serves(1e3, 1e4)
    assert not serves(1e4, 1e6)
    assert not serves(1e5, 1e4)


def test_rows_keep_four_bytes_per_inducing_input(monkeypatch):
    task = problem()
    loose = EP(tol=TOL)(task)
    (shard,) = task.rows.held
    assert shard.scratch["basis 0"]["A"].nbytes == 4 * m * n
    monkeypatch.setattr(low_rank, "LARGE", 8 * m * n - 1)
    low = task.at(task.theta)
    found = EP()(low, start=loose.start)
    assert shard.scratch == {}  # found by blocks
    EP()(task.at(task.theta))
    assert shard.scratch["basis 0"]["A"].nbytes == 8 * m * n  # many sweeps from a cold start
    target = low.prior.whitened(found.gaussian)
    assert isinstance(target, LowRankTarget)
    target.log_likelihood(np.zeros((1, m)))
    assert shard.scratch["basis 0"]["A"].nbytes == 8 * m * n  # draws take many passes at one θ
    Laplace()(task.at(task.theta))
    assert shard.scratch["basis 0"]["A"].nbytes == 8 * m * n  # and so do Newton's steps


@pytest.mark.parametrize("large", [False, True])
def test_a_whole_fit_stores_no_large_blocks_in_double_precision(monkeypatch, large):
    stored, kept = set(), basis._kept

    def watched(shard, of, *arguments):
        if len(shard) == n:
            stored.add(of.digits)
        return kept(shard, of, *arguments)

    monkeypatch.setattr(basis, "_kept", watched)
    if large:
        monkeypatch.setattr(low_rank, "LARGE", 8 * m * n - 1)
    kernel = ConstantKernel(1.0) * Matern(0.3, nu=1.5)
    GPClassifier(kernel, inference="ep", n_inducing=m, random_state=0).fit(X, TWO)
    assert stored == ({np.float32} if large else {np.float32, np.float64})


@pytest.mark.parametrize("width", [1, 127, 128, 300])
@pytest.mark.parametrize("digits", [np.float32, np.float64])
def test_products_with_a_triangle_and_of_one_triangle(width, digits):
    A, T = RNG.normal(size=(50, width)).astype(digits), np.tril(RNG.normal(size=(width, width))).astype(digits)
    weights, sums = RNG.uniform(size=50), np.zeros((width, width))
    rtol = 1e-4 if digits is np.float32 else 1e-12
    found = times_lower(A, T)
    assert found.dtype == digits
    np.testing.assert_allclose(found, A @ T.T, rtol=rtol, atol=rtol * 10)
    add_gram(sums, A, weights)
    add_gram(sums, A, weights)
    np.testing.assert_allclose(np.triu(sums), np.triu(2 * (A.T * weights) @ A), rtol=rtol, atol=rtol * 10)


def test_marginals_follow_the_digits_of_the_rows():
    A = RNG.normal(size=(30, m))
    q = Q.of(20.0 * A.T @ A, A.sum(axis=0))
    spec = Spec([replace(Basis(RBF(1.0), Z), single=True)], 1)
    (mean, V), (rough_mean, rough_V) = (q.marginals(spec, [A.astype(digits)]) for digits in (float, np.float32))
    assert rough_mean.dtype == rough_V.dtype == float
    np.testing.assert_allclose(rough_mean, mean, atol=1e-5)
    np.testing.assert_allclose(rough_V, V, rtol=1e-4)
    np.testing.assert_allclose(V[:, 0, 0], np.einsum("ij,jk,ik->i", A, q.covariance, A), rtol=1e-10)
