"""The low-rank prior: against the dense one, brute-force quadrature, and an obvious dense form of itself."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.linalg import solve_triangular
from scipy.special import expit, ndtr
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from gpclass.inference import EP, Exact, Laplace, Variational
from gpclass.latent.basis import Basis, unwhiten, whiten
from gpclass.latent.dense import DensePrior
from gpclass.latent.low_rank import LowRank
from gpclass.likelihoods import Logit, Probit, get_likelihood
from gpclass.model.problem import Problem
from gpclass.model.rows import ArraySource, Labels, Local, Rows, Shard
from gpclass.model.sums import add
from gpclass.predict import predict_proba
from gpclass.predict.many import many_proba
from tests.conftest import make_problem
from tests.inference.test_many_laplace import OWN
from tests.inference.test_many_laplace import problem as many_problem
from tests.slopes import directions

TIGHT = {"ep": EP(tol=1e-9), "laplace": Laplace(), "variational": Variational(tol=1e-9)}
WITH = {
    "ep": ["probit", "logit", "multinomial-probit"],
    "laplace": ["probit", "logit", "softmax"],
    "variational": ["probit", "logit", "softmax"],
}
PAIRS = [(name, likelihood) for name, likelihoods in WITH.items() for likelihood in likelihoods]
SMOOTH = ConstantKernel(2.0) * RBF([0.8, 1.1]) + ConstantKernel(0.5)


def task_of(n, likelihood="probit", kernel=SMOOTH, weights=None):
    """A problem of two classes, or of three where the likelihood takes many."""
    if isinstance(likelihood, str) and get_likelihood(likelihood).many:
        return many_problem(n, kernel=kernel, weights=weights, likelihood=get_likelihood(likelihood))
    return make_problem(n, likelihood=likelihood, kernel=kernel, weights=weights)


def sparse_of(problem, Z, shard_rows=1000, keep=True, threads=None):
    form = LowRank(Z=Z, keep=keep)
    rows = Rows.of(ArraySource(problem.X, problem.y, problem.weights, shard_rows), Local(threads))
    return Problem(rows, problem.kernel, problem.likelihood, problem.n_classes, form)


def some_Z(m, d=2, seed=3):
    return np.random.default_rng(seed).standard_normal((m, d))


def answer(posterior, problem, X):
    chosen = many_proba if problem.likelihood.many else predict_proba
    return chosen(posterior.latent(X), problem.likelihood)


def proba(posterior, problem, X):
    return answer(posterior, problem, X).proba


def many_or_two(name):
    """The likelihoods of two and of many classes that a method is tried with."""
    return [WITH[name][0], WITH[name][-1]]


FAMILIES = [(name, likelihood) for name in WITH for likelihood in many_or_two(name)]
SAMPLED = [("exact", "probit"), ("exact", "multinomial-probit")]


def method_of(name, **settings):
    return Exact(n_samples=settings.pop("n_samples", 200)) if name == "exact" else TIGHT[name]


# ---- where the work is done ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("name", "likelihood"), [*FAMILIES, *SAMPLED])
def test_threads_change_no_bit(name, likelihood):
    problem = task_of(140, likelihood)
    one, three = (
        method_of(name)(sparse_of(problem, some_Z(12), 40, threads=threads), np.random.default_rng(0), gradient=True)
        for threads in (1, 3)
    )
    assert one.evidence.log_z == three.evidence.log_z
    np.testing.assert_array_equal(one.evidence.gradient, three.evidence.gradient)
    np.testing.assert_array_equal(one.evidence.gradient_Z, three.evidence.gradient_Z)


@pytest.mark.parametrize("m", [1, 31, 32, 33, 100])
def test_whitening_by_blocks_is_the_triangular_solve(m):
    rng = np.random.default_rng(m)
    Z, X = rng.standard_normal((m, 3)), rng.standard_normal((50, 3))
    basis = Basis(1.0 * RBF(3.0), Z)  # nearly singular
    K = basis.covariance(X, Z)
    np.testing.assert_allclose(
        whiten(basis.L, K.copy()) @ basis.L.T, K, atol=1e-13
    )  # the residual, which conditioning leaves alone
    np.testing.assert_allclose(unwhiten(basis.L, K.copy()) @ basis.L, K, atol=1e-11)
    easy = np.tril(rng.standard_normal((m, m))) / m + 2 * np.eye(m)
    np.testing.assert_allclose(
        whiten(easy, K.copy()), solve_triangular(easy, K.T, lower=True).T, rtol=1e-12, atol=1e-13
    )
    np.testing.assert_allclose(
        unwhiten(easy, K.copy()), solve_triangular(easy, K.T, lower=True, trans=1).T, rtol=1e-12, atol=1e-13
    )


# ---- Z = X is the dense model -------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "likelihood"), PAIRS)
def test_all_rows_as_inducing_inputs_give_the_dense_answer(name, likelihood):
    problem = task_of(40, likelihood, kernel=2.0 * Matern(0.9, nu=1.5) + WhiteKernel(0.05))
    low = sparse_of(problem, problem.X.copy(), shard_rows=17)
    X_new = some_Z(9, seed=8)
    one, two = (TIGHT[name](task, gradient=True) for task in (problem, low))
    assert two.report.converged
    assert abs(one.evidence.log_z - two.evidence.log_z) < 1e-6
    np.testing.assert_allclose(two.evidence.gradient, one.evidence.gradient, atol=2e-6)
    np.testing.assert_allclose(proba(two, low, X_new), proba(one, problem, X_new), atol=1e-6)


@pytest.mark.parametrize("weights", ["whole", "fractional"])
@pytest.mark.parametrize(("name", "likelihood"), FAMILIES)
def test_weights_mean_what_they_mean_in_the_dense_model(name, likelihood, weights):
    rng = np.random.default_rng(0)
    w = rng.integers(1, 4, 30).astype(float) if weights == "whole" else rng.uniform(0.3, 2.5, 30)
    problem = task_of(30, likelihood, weights=w)
    one, two = TIGHT[name](problem), TIGHT[name](sparse_of(problem, problem.X.copy()))
    assert abs(one.evidence.log_z - two.evidence.log_z) < 1e-6


@pytest.mark.parametrize("likelihood", ["probit", "logit", "multinomial-probit"])
def test_exact_with_all_rows_is_the_dense_exact_answer(likelihood):
    problem = task_of(25, likelihood)
    low, X_new = sparse_of(problem, problem.X.copy()), some_Z(6, seed=8)
    one = Exact(n_samples=8000)(problem, np.random.default_rng(0))
    two = Exact(n_samples=8000)(low, np.random.default_rng(1))
    error = np.hypot(one.evidence.error, two.evidence.error)
    assert abs(one.evidence.log_z - two.evidence.log_z) < 4 * error
    ep = EP()(low)
    assert abs(one.evidence.log_z - ep.evidence.log_z) > 4 * error  # small enough to tell EP from exact
    first, second = answer(one, problem, X_new), answer(two, low, X_new)
    assert np.all(np.abs(first.proba - second.proba) < 4 * np.hypot(first.mcse, second.mcse))
    assert second.mcse.max() < 0.01


# ---- the slow, obvious form: a dense matrix Q + diag(λ) ---------------------------------------------------------


@pytest.mark.parametrize(("name", "likelihood"), PAIRS)
def test_low_rank_equals_its_dense_matrix(name, likelihood):
    problem = task_of(50, likelihood, kernel=SMOOTH + WhiteKernel(0.1))
    Z = some_Z(6)
    A, rest = Basis(problem.kernel, Z).features(problem.X)
    prior = DensePrior(problem)
    vars(prior)["_values"] = [(A @ A.T + np.diag(rest), lambda G: np.zeros(0))]
    vars(problem)["_prior"] = prior
    low = sparse_of(problem, Z, shard_rows=13)
    one, two = TIGHT[name](problem), TIGHT[name](low)
    assert abs(one.evidence.log_z - two.evidence.log_z) < 1e-6
    # E f at a row of its own is aᵀ E u + λ α: the sparse answer at a new point without the rest.
    u = two.gaussian.q.mean.reshape(problem.n_latents, -1)
    np.testing.assert_allclose(u @ A.T, one.gaussian.mean - rest * one.gaussian.alpha, atol=1e-6)


# ---- m = 2 by brute force -----------------------------------------------------------------------------------


def brute_force(problem, Z, X_new, n_nodes=50):
    """Log evidence and probabilities by products of Gauss-Hermite rules: over u, and over each row's rest."""
    basis = Basis(problem.kernel, Z)
    A, rest = basis.features(problem.X)
    A_new, rest_new = basis.features(X_new)
    x, w = hermegauss(n_nodes)
    w = w / w.sum()
    U = np.array([(a, b) for a in x for b in x])
    mass = np.array([a * b for a in w for b in w])
    link = ndtr if problem.likelihood.name == "probit" else expit

    def smeared(g, lam):  # (r, nodes)
        return np.einsum(
            "k,krs->rs",
            w,
            link(problem.likelihood.scale * (g[None] + np.sqrt(lam)[None, :, None] * x[:, None, None])),
        )

    plus = smeared(problem.y[:, None] * (A @ U.T), rest)
    powers = np.ones(problem.n) if problem.weights is None else problem.weights
    log_l = powers @ np.log(plus)
    top = log_l.max()
    Zs = mass * np.exp(log_l - top)
    p = smeared(A_new @ U.T, rest_new) @ Zs / Zs.sum()
    return top + np.log(Zs.sum()), p


@pytest.mark.parametrize("likelihood", [Probit(1.3), Logit(1.5)], ids=["probit", "logit"])
def test_two_inducing_inputs_by_quadrature(likelihood):
    problem = make_problem(12, likelihood=likelihood, kernel=SMOOTH)
    Z, X_new = some_Z(2), some_Z(4, seed=9)
    log_z, p = brute_force(problem, Z, X_new)
    low = sparse_of(problem, Z, shard_rows=5)
    found = Exact(n_samples=6000)(low, np.random.default_rng(0))
    assert found.evidence.error < 0.01
    assert abs(found.evidence.log_z - log_z) < 4 * found.evidence.error + 1e-9
    predicted = answer(found, low, X_new)
    assert np.all(np.abs(predicted.proba[:, 1] - p) < 4 * predicted.mcse[:, 1] + 1e-9)
    # Rows without their rest are another model, and the error is small enough to tell.
    no_rest = brute_force(Problem.of(problem.X, problem.y, 0.9 * SMOOTH, likelihood), Z, X_new)[0]
    assert abs(found.evidence.log_z - no_rest) > 4 * found.evidence.error
    assert abs(EP()(low).evidence.log_z - log_z) < 0.02
    assert log_z - 0.5 < Variational()(low).evidence.log_z < log_z  # a lower bound


@pytest.mark.slow
def test_score_of_the_draws_is_the_slope_of_the_evidence():
    problem = make_problem(12, kernel=SMOOTH, likelihood=Probit(1.2, (0.1, 10.0)))
    Z, eps = some_Z(2), 1e-4
    low = sparse_of(problem, Z)

    def log_z(theta, Z):
        return brute_force(problem.at(theta), Z, Z)[0]

    found = [Exact(n_samples=3000)(low, np.random.default_rng(seed), gradient=True) for seed in range(5)]
    slopes_found = np.array([np.append(f.evidence.gradient, f.evidence.gradient_Z.ravel()) for f in found])
    theta = problem.theta
    expected = [(log_z(theta + eps * e, Z) - log_z(theta - eps * e, Z)) / (2 * eps) for e in np.eye(len(theta))]
    for e in np.eye(4).reshape(4, 2, 2):
        expected.append((log_z(theta, Z + eps * e) - log_z(theta, Z - eps * e)) / (2 * eps))
    error = slopes_found.std(axis=0, ddof=1) / np.sqrt(5)
    assert np.all(np.abs(slopes_found.mean(axis=0) - expected) < 6 * error + 1e-4)
    assert np.any(np.abs(expected) > 20 * error)  # and zero would be seen


# ---- gradients ------------------------------------------------------------------------------------------------

KERNELS = {
    "ard": ConstantKernel(2.0) * RBF([0.8, 1.1]) + ConstantKernel(0.5),
    "matern": 2.0 * Matern(0.9, nu=1.5) + WhiteKernel(0.2),
    "rq": 1.5 * RationalQuadratic(0.9, 1.3),
    "product": RBF(1.5) * DotProduct(0.7) + Matern(1.1, nu=2.5),
}


def assert_slopes(method, low, atol, eps=1e-5):
    """The gradients by θ and by the inducing inputs are the slopes of the evidence along some directions."""
    theta, Z, found = low.theta, low.inducing, method(low, gradient=True).evidence

    def log_z(theta, Z):
        return method(replace(low.at(theta), form=low.form.at(Z))).evidence.log_z

    for e in directions(len(theta)):
        rise = log_z(theta + eps * e, Z) - log_z(theta - eps * e, Z)
        assert found.gradient @ e == pytest.approx(rise / (2 * eps), abs=atol)
    e = directions(Z.size, 1).reshape(Z.shape)
    rise = log_z(theta, Z + eps * e) - log_z(theta, Z - eps * e)
    assert np.vdot(found.gradient_Z, e) == pytest.approx(rise / (2 * eps), abs=atol)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", list(KERNELS))
@pytest.mark.parametrize("name", list(WITH))
def test_gradients_by_differences(name, kernel):
    method = {"ep": EP(tol=1e-11), "variational": Variational(tol=1e-11), "laplace": Laplace(tol=1e-18)}[name]
    weights = np.random.default_rng(1).integers(1, 3, 24).astype(float)
    problem = make_problem(24, kernel=KERNELS[kernel], likelihood=Probit(1.3, (0.1, 10.0)), weights=weights)
    assert_slopes(method, sparse_of(problem, some_Z(5), shard_rows=10), 2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [SMOOTH, CompoundKernel(OWN)], ids=["shared", "own"])
@pytest.mark.parametrize(
    ("method", "likelihood"), [(EP(tol=1e-11), "multinomial-probit"), (Laplace(tol=1e-20), "softmax")]
)
def test_gradients_of_many_classes_by_differences(method, likelihood, kernel):
    weights = np.random.default_rng(1).integers(1, 3, 24).astype(float)
    assert_slopes(method, sparse_of(task_of(24, likelihood, kernel, weights), some_Z(5), 10), 3e-6)


# ---- shards ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("name", "likelihood"), [*FAMILIES, *SAMPLED])
def test_the_cut_into_shards_does_not_matter(name, likelihood):
    problem, method = (
        task_of(60, likelihood, weights=np.random.default_rng(0).uniform(0.5, 2.0, 60)),
        method_of(name),
    )
    Z = some_Z(7)
    whole = method(sparse_of(problem, Z), np.random.default_rng(0), gradient=True)
    for rows, keep in ((7, True), (23, False)):
        cut = method(sparse_of(problem, Z, rows, keep), np.random.default_rng(0), gradient=True)
        assert abs(cut.evidence.log_z - whole.evidence.log_z) < 1e-10 * abs(whole.evidence.log_z)
        np.testing.assert_allclose(cut.evidence.gradient, whole.evidence.gradient, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(cut.evidence.gradient_Z, whole.evidence.gradient_Z, rtol=1e-8, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "likelihood"), FAMILIES)
def test_warm_starts_change_the_sweeps_alone(name, likelihood):
    method = {"ep": EP(), "variational": Variational(), "laplace": Laplace()}[name]
    low = sparse_of(task_of(80, likelihood), some_Z(8))
    near = low.at(low.theta + 0.01)
    cold, warm = method(near), method(near, start=method(low).start)
    assert abs(cold.evidence.log_z - warm.evidence.log_z) < 1e-7
    assert warm.report.iterations <= cold.report.iterations


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["probit", "multinomial-probit"])
def test_a_guide_nearby_changes_the_draws_alone(likelihood):
    low = sparse_of(task_of(80, likelihood), some_Z(8))
    near, exact = low.at(low.theta + 0.01), Exact(n_samples=100)
    cold, warm = (exact(near, np.random.default_rng(0), start=s) for s in (None, EP()(low).start))
    assert abs(cold.evidence.log_z - warm.evidence.log_z) < 4 * cold.evidence.error + 1e-3


def test_sums_of_shards():
    assert add({"a": 1.0, "max_b": 2.0, "c": [1]}, {"a": 2.0, "max_b": 5.0, "c": [2]}) == {
        "a": 3.0,
        "max_b": 5.0,
        "c": [1, 2],
    }
    with pytest.raises(ValueError, match="different sums"):
        add({"a": 1.0}, {"b": 1.0})
    with pytest.raises(ValueError, match="without rows"):
        Shard(np.empty((0, 2)), np.empty(0))
    with pytest.raises(ValueError, match="no rows"):
        Local().map_reduce(lambda shard: (shard, {}), [])


# ---- rows -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("name", "likelihood"), [*PAIRS, ("exact", "logit"), *SAMPLED])
def test_rows_far_from_every_inducing_input_say_nothing_and_are_counted(name, likelihood):
    problem, method = task_of(30, likelihood, kernel=2.0 * RBF(1.0)), method_of(name, n_samples=1000)
    many = problem.likelihood.many
    far = problem.on(
        np.vstack([problem.X, [[1e6, 0.0], [0.0, -1e7]]]),
        np.append(problem.y, [1, 0] if many else [1.0, -1.0]),
    )
    Z = problem.X[:10].copy()
    near, both = (method(sparse_of(task, Z), np.random.default_rng(0), gradient=True) for task in (problem, far))
    assert np.isfinite(both.evidence.gradient).all()
    exact = name == "exact"  # other rows are other draws
    error = 4 * np.hypot(both.evidence.error, near.evidence.error) if exact else 0.0
    assert error < 0.05
    if exact or (name == "ep" and not many):  # a far row's evidence is that of a blind guess
        assert abs(both.evidence.log_z - near.evidence.log_z + 2 * np.log(problem.n_classes)) < 1e-6 + error
    np.testing.assert_allclose(proba(both, far, Z), proba(near, problem, Z), atol=0.02 if exact else 1e-6)
    assert sparse_of(far, Z).prior.survey()["far_rows"] == 2
    assert sparse_of(problem, Z).prior.survey()["far_rows"] < 2


@pytest.mark.parametrize("likelihood", [Logit(1.3), Probit(0.8)], ids=["logit", "probit"])
@pytest.mark.parametrize("power", [1.0, 0.6])
def test_likelihood_seen_from_u(likelihood, power):
    rng = np.random.default_rng(0)
    G, rest = rng.normal(0, 3, (5, 40)), np.array([0.0, 0.1, 1.0, 3.0, 1e-4])
    y = np.array([1.0, -1.0, 1.0, -1.0, -1.0])
    labels = Labels(y, 1.0, 1.0 if power == 1.0 else np.full(5, power))
    found = likelihood.smear(labels, G[None], rest[None])
    x, w = np.polynomial.legendre.leggauss(400)
    f = G[..., None] + 9.0 * np.sqrt(rest)[:, None, None] * x
    density = w * np.exp(-0.5 * (9.0 * x) ** 2)
    link = ndtr if likelihood.name == "probit" else expit
    expected = np.log(link(likelihood.scale * y[:, None, None] * f) ** power @ (density / density.sum()))
    np.testing.assert_allclose(found, expected, atol=1e-8)
    eps = 1e-3
    d1, bend = (part[0] for part in likelihood.smear_slopes(labels, G[None], rest[None]))
    up, down = (likelihood.smear(labels, (G + e)[None], rest[None]) for e in (eps, -eps))
    np.testing.assert_allclose(d1, (up - down) / (2 * eps), atol=1e-5)
    np.testing.assert_allclose(bend - d1**2, (up - 2 * found + down) / eps**2, atol=1e-4)


def test_prior_is_right_where_it_must_be():
    basis = Basis(SMOOTH + WhiteKernel(0.3), some_Z(5))
    X = some_Z(7, seed=2)
    A, rest = basis.features(X)
    np.testing.assert_allclose(np.einsum("ij,ij->i", A, A) + rest, basis.covariance.diag(X))
    at_Z, left = basis.features(basis.Z)
    np.testing.assert_allclose(left, 0.3, atol=1e-6)  # white noise is all that is left there
    np.testing.assert_allclose(A @ at_Z.T, basis.covariance(X, basis.Z), atol=1e-6)


@pytest.mark.parametrize(("name", "likelihood"), [*FAMILIES, *SAMPLED])
def test_joint_draws_have_the_right_moments(name, likelihood):
    low = sparse_of(task_of(60, likelihood), some_Z(10))
    X_new = some_Z(4, seed=5)
    posterior = method_of(name, n_samples=3000)(low, np.random.default_rng(0))
    draws = posterior.draw(X_new, 20_000, np.random.default_rng(1))
    mixture = posterior.latent(X_new)
    sd = np.sqrt(mixture.variance())
    assert np.all(np.abs(draws.mean(axis=0) - mixture.mean()) < 5 * sd / np.sqrt(20_000))
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "likelihood"), PAIRS)
def test_weights_are_continuous(name, likelihood):
    """A millionth more or less than a whole weight is not another model; a tenth is."""
    values = {}
    for w in (1.0 - 1e-6, 1.0, 1.0 + 1e-6, 1.1, 2.0 - 1e-6, 2.0, 2.0 + 1e-6):
        problem = task_of(30, likelihood, weights=np.full(30, w))
        if problem.likelihood.many and not problem.likelihood.powers and w < 1:
            continue  # weights below one count copies there
        posterior = method_of(name)(sparse_of(problem, problem.X[:10].copy()), np.random.default_rng(0))
        values[w] = posterior.evidence.log_z
    for w, value in values.items():
        assert w == 1.1 or abs(value - values[float(round(w))]) < 1e-3
    assert abs(values[1.1] - values[1.0]) > 0.1
