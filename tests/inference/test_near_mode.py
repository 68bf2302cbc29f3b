"""Laplace's Gaussian from a neighbour's sites: the same mode for fewer factorisations, and guides near it for one."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from gpclass.hyper.pseudo_marginal import common_start
from gpclass.inference import EP, Annealed, Importance, Laplace
from gpclass.inference.around import target_around
from gpclass.latent import factors
from gpclass.latent.dense_gaussian import CHORD_FROM
from gpclass.latent.low_rank import LowRank
from gpclass.likelihoods import Logit, Probit, Softmax
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import SiteFactor, cholesky, one_plus_gram, triangular_product, triangular_solve
from tests.conftest import make_problem

FAR = np.array([[1.0, -0.4], [-1.0, 0.3], [0.5, 0.5]])  # from θ, in logs


@pytest.fixture(scope="module")
def there():
    problem = make_problem(CHORD_FROM + 20, kernel=8.0 * RBF(1.2))
    return problem, Laplace()(problem).start


@pytest.fixture
def counted(monkeypatch):
    """The number of factorisations so far, in a list."""
    count = [0]

    class Counting(SiteFactor):
        def __init__(self, K, t):
            count[0] += 1
            super().__init__(K, t)

    monkeypatch.setattr(factors, "SiteFactor", Counting)
    return count


def in_deviations(q, truth):
    """The largest difference of the means, in standard deviations."""
    return float(np.max(np.abs(q.mean - truth.mean)[0] / np.sqrt(truth.covariance[:, 0, 0])))


@pytest.mark.parametrize("step", FAR)
def test_sites_of_a_neighbour_lead_to_the_same_mode_with_fewer_factors(there, counted, step):
    problem, start = there
    at = problem.at(problem.theta + step)
    cold = Laplace()(at, gradient=True)
    taken, counted[0] = counted[0], 0
    warm = Laplace()(at, start=start, gradient=True)
    assert counted[0] < taken
    assert warm.report.converged
    assert warm.evidence.log_z == pytest.approx(cold.evidence.log_z, abs=1e-8)
    np.testing.assert_allclose(warm.evidence.gradient, cold.evidence.gradient, rtol=1e-6, atol=1e-7)
    assert in_deviations(warm.sites[0], cold.sites[0]) < 1e-7


@pytest.mark.parametrize("step", FAR)
def test_a_guide_is_near_the_mode_from_any_start(there, counted, step):
    problem, start = there
    at = problem.at(problem.theta + step)
    mode = Laplace()(at).sites[0]
    counted[0] = 0
    warm = Laplace().near_mode(at, start)
    assert counted[0] == 1
    for q in (warm, Laplace().near_mode(at)):
        assert in_deviations(q, mode) < 0.01
        np.testing.assert_allclose(q.mean[0], at.prior.K @ q.alpha[0], rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("likelihood", [Probit(), Softmax()], ids=lambda link: link.name)
@pytest.mark.parametrize("form", [None, "inducing"])
def test_guides_of_other_priors_and_several_latent_values(likelihood, form):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    index = (X[:, 0] > 0) + (2 if likelihood.many else 1) * (X[:, 1] > 1.0)
    labels = likelihood.encode(np.minimum(index, 2 if likelihood.many else 1))
    kind = () if form is None else (LowRank(Z=X[:15].copy()),)
    problem = Problem.of(X, labels, 4.0 * RBF(1.0), likelihood, None, 3 if likelihood.many else 2, *kind)
    start = Laplace()(problem.at(problem.theta - 0.5)).start
    truth = target_around(problem, Laplace()).m
    for q in (Laplace()(problem).sites[0], Laplace().near_mode(problem, start)):
        np.testing.assert_allclose(problem.prior.whitened(q).m, truth, atol=0.02)


@pytest.mark.parametrize("kind", [Importance, Annealed])
@pytest.mark.parametrize("around", ["laplace", "ep"])
def test_estimates_do_not_depend_on_the_start_but_for_the_tolerance_of_the_guide(there, kind, around):
    problem, _ = there
    inference = kind(20, around=around)
    start = common_start(problem, inference)
    assert start.rule.name == around
    at = problem.at(problem.theta + np.array([0.5, 0.2]))
    cold, warm = (inference(at, np.random.default_rng(5), start=one).evidence.log_z for one in (None, start))
    assert warm == pytest.approx(cold, abs=0.01)
    assert warm != inference(at, np.random.default_rng(6), start=start).evidence.log_z


def test_the_start_of_a_chain_is_that_of_its_guide(there):
    problem, _ = there
    assert common_start(problem, EP(tol=0.1)).rule.name == "ep"
    assert common_start(problem, Laplace()).rule.name == "laplace"


@pytest.mark.parametrize("around", ["prior", "ep", "laplace"])
def test_triangular_products_are_those_of_the_root_of_the_covariance(there, around):
    target = target_around(there[0], around)
    xi = np.random.default_rng(0).normal(size=(4, target.dimension))
    np.testing.assert_allclose(target.spread(xi), xi @ target.A[0].T, atol=1e-9)
    f = target.latents(xi)
    _, slope = target.log_ratio_and_slope(f)
    rise = [(target.log_ratio(f + 1e-5 * A) - target.log_ratio(f - 1e-5 * A)) / 2e-5 for A in target.A[0].T[:5]]
    np.testing.assert_allclose(slope[:, :5], np.transpose(rise), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("least", [0.0, -1e-3])
def test_factor_of_one_plus_a_gram_matrix(least):
    """Also with precisions a little below zero, that have no root."""
    rng = np.random.default_rng(0)
    L = np.tril(rng.normal(size=(9, 9)))
    d = np.append(rng.uniform(size=8), least)
    found = one_plus_gram(L, d)
    np.testing.assert_allclose(found, cholesky(np.eye(9) + L.T @ np.diag(d) @ L), atol=1e-12)
    b = rng.normal(size=(9, 3))
    for transposed in (False, True):
        whole = L.T if transposed else L
        np.testing.assert_allclose(triangular_product(L, b, transposed), whole @ b, atol=1e-12)
        np.testing.assert_allclose(whole @ triangular_solve(L, b, transposed), b, atol=1e-9)


def test_a_mixed_step_that_goes_downhill_is_not_the_end():
    """Far starts: the Gaussian is near the mode from all of them, though some mixed steps lose."""
    rng = np.random.default_rng(0)
    for _ in range(6):
        X = rng.normal(size=(200, 2))
        y = np.where(np.sin(3 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=200) > 0, 1.0, -1.0)
        for k in range(10):
            problem = Problem.of(X, y, 4.0 * RBF(1.0), Probit() if k < 5 else Logit())
            here, start = (problem.at(problem.theta + far * rng.normal(size=2)) for far in (1.5, 2.0))
            q, truth = Laplace().near_mode(here, Laplace()(start).start), Laplace()(here).gaussian
            assert in_deviations(q, truth) < 0.03
