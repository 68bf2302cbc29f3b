"""AMP and DSGQ: the paper's equations, its figures, and what joins the four methods."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import cdist
from scipy.special import expit, ndtr
from sklearn.gaussian_process.kernels import RBF, Matern
from sklearn.gaussian_process.kernels import ConstantKernel as C

from gpclass import GPClassifier
from gpclass.datasets import roeder_field
from gpclass.geostat import IndicatorKriging
from gpclass.inference import AMP, DSGQ, Exact, Laplace
from gpclass.inference.amp import stationarity
from gpclass.inference.dsgq import K0
from gpclass.inference.laplace import look
from gpclass.latent import newton
from gpclass.latent.sites import labels_of
from gpclass.likelihoods import Logit, Probit
from gpclass.model.problem import Problem
from gpclass.predict import in_blocks, predict_proba
from tests.conftest import make_problem
from tests.normal import log_orthant

KERNEL = C(2.0) * Matern(0.4, nu=1.5)


def field(n=114, seed=3):
    data = roeder_field(n, random_state=seed)
    return data.X, data.y


def fixed(inference, kernel=KERNEL, **settings):
    return GPClassifier(kernel, inference=inference, hyperparameters="fixed", random_state=0, **settings)


# ---- AMP -----------------------------------------------------------------------------------------------


def precision(Sigma, sigma, variance, k0):
    """R's Λ, (n + 1, n + 1): the precision of (ξ, ξ*) as equation 26 writes it.

    Parameters
    ----------
    Sigma : array (n, n)
        Covariance of the latent values at the training points; must have an inverse.
    sigma : array (n,)
        Their covariance with the value at the new point.
    variance : float
        Variance of the value at the new point.
    k0 : float
        Scale of the link.
    """
    n = len(sigma)
    s = np.linalg.solve(Sigma, sigma)
    v = k0**2 / ((variance - sigma @ s) * k0**2 + 1.0)
    R = k0**2 * np.eye(n) + np.linalg.inv(Sigma) + v * np.outer(s, s)
    R_inverse = np.linalg.inv(R)
    Lambda = np.empty((n + 1, n + 1))
    Lambda[:n, :n] = k0**2 * np.eye(n) - k0**4 * R_inverse
    Lambda[:n, n] = Lambda[n, :n] = -(k0**2) * v * (R_inverse @ s)
    Lambda[n, n] = v - v**2 * (s @ R_inverse @ s)
    return Lambda


@pytest.mark.parametrize("c0", [0.3, 1.0, 6.81])
@pytest.mark.parametrize("kernel", [KERNEL, C(0.17) * Matern(0.99, nu=0.5), C(50.0) * RBF(0.5)], ids=str)
def test_amp_satisfies_its_stationarity_equation(c0, kernel):
    X, y = field()
    clf = fixed(AMP(c0=c0), kernel).fit(X, y)
    phi, alpha = clf.posterior_.gaussian.mean[0], clf.posterior_.gaussian.alpha[0]
    np.testing.assert_allclose(kernel(X) @ alpha, phi, atol=1e-9 * np.abs(phi).max())  # alpha is Σ⁻¹φ
    residual = -alpha + c0 * (y - expit(c0 * phi))
    assert np.abs(residual).max() < 1e-8
    assert clf.fit_report_.details["stationarity"] == pytest.approx(np.abs(residual).max() / c0, abs=1e-12)
    # the check can fail: a little off the mode the equation does not hold
    (shard,) = clf.posterior_.start.held
    values = shard.kept.copy()
    values[newton.F] *= 1.001
    look(clf.posterior_.problem.likelihood, labels_of(shard, clf.posterior_.problem.likelihood), values)
    assert stationarity(clf.posterior_.problem, (shard.with_values(values),)) > 1e-8


@pytest.mark.parametrize("seed", range(8))
def test_amp_does_not_stop_short_of_its_mode(seed):
    """Where the gain in the objective is below rounding the equation may still be off by more than 1e-9."""
    rng = np.random.default_rng(seed)
    X = rng.random((40, 2))
    y = (X[:, 0] + 0.3 * rng.standard_normal(40) > 0.5).astype(int)
    report = fixed("amp", C(2.0) * Matern(0.3, nu=1.5)).fit(X, y).fit_report_
    assert report.converged
    assert report.details["stationarity"] < 1e-13


def test_amp_is_simple_kriging_of_the_mode():
    """AMP = SIK on the mode (R §6): kriging weights times φ, then the logistic function."""
    X, y = field(60)
    clf = fixed(AMP(c0=1.7)).fit(X, y)
    new = np.random.default_rng(0).random((20, 2))
    kriging = IndicatorKriging("simplicial", kernel=KERNEL).fit(X, y)
    place = np.argmin(cdist(kriging.sites_.X, X), axis=1)  # kriging orders its sites
    phi = clf.posterior_.gaussian.mean[0][place]
    np.testing.assert_allclose(clf.predict_proba(new)[:, 1], expit(1.7 * kriging.kriging_weights(new) @ phi), rtol=1e-7)


def test_amp_is_laplaces_mode_without_its_variance():
    problem = make_problem(40, likelihood=Logit(1.4))
    mode, laplace = AMP()(problem, gradient=True), Laplace(tol=1e-18)(problem, gradient=True)
    np.testing.assert_allclose(mode.gaussian.mean, laplace.gaussian.mean, atol=1e-9)
    assert mode.evidence.log_z == pytest.approx(laplace.evidence.log_z, abs=1e-9)
    np.testing.assert_allclose(mode.evidence.gradient, laplace.evidence.gradient, atol=1e-9)
    new = problem.X + 0.2
    at_mode = predict_proba(mode.latent(new), problem.likelihood).proba[:, 1]
    averaged = predict_proba(laplace.latent(new), problem.likelihood).proba[:, 1]
    assert np.all(np.abs(at_mode - 0.5) > np.abs(averaged - 0.5))  # averaging pulls towards one half
    assert np.all(mode.latent(new).variance() == 0)
    draws = mode.draw(new, 4, np.random.default_rng(0))
    np.testing.assert_array_equal(draws[0], draws[3])


def test_amp_with_weights_and_blocks(monkeypatch):
    weights = np.random.default_rng(0).uniform(0.3, 3.0, 25)
    problem = make_problem(25, likelihood=Logit(2.0), weights=weights)
    posterior = AMP()(problem)
    assert posterior.report.converged
    f, alpha = posterior.gaussian.mean[0], posterior.gaussian.alpha[0]
    residual = weights * 2.0 * ((problem.y + 1) / 2 - expit(2.0 * f)) - alpha
    assert np.abs(residual).max() < 1e-8
    whole = predict_proba(posterior.latent(problem.X), problem.likelihood).proba
    monkeypatch.setattr("gpclass.predict.answers.BLOCK_ELEMENTS", 100)
    parts = in_blocks(problem.X, posterior, lambda mixture: predict_proba(mixture, problem.likelihood))
    np.testing.assert_allclose(parts.proba, whole)


@pytest.mark.filterwarnings("ignore:the Monte Carlo")
def test_remark_3_only_scale_squared_times_sill_matters():
    X, y = field(60)
    new = np.random.default_rng(1).random((30, 2))
    shape = Matern(0.4, nu=1.5)
    for make in (lambda s: AMP(c0=s), lambda s: DSGQ(k0=s, n_samples=2000)):
        stretched = fixed(make(3.0), C(0.5) * shape).fit(X, y).predict_proba(new)
        plain = fixed(make(1.0), C(4.5) * shape).fit(X, y).predict_proba(new)
        np.testing.assert_allclose(stretched, plain, rtol=1e-7, atol=1e-7)  # averages in single precision
        other = fixed(make(1.0), C(0.5) * shape).fit(X, y).predict_proba(new)
        assert np.abs(stretched - other).max() > 0.01


# ---- DSGQ ----------------------------------------------------------------------------------------------


def test_k0_is_the_closest_normal_distribution_function():
    u = np.linspace(-15, 15, 60_001)

    def worst(k):
        return np.abs(expit(u) - ndtr(k * u)).max()

    best = minimize_scalar(worst, bounds=(0.5, 0.7), method="bounded", options={"xatol": 1e-7}).x
    assert best == pytest.approx(K0, abs=1e-4)
    assert worst(K0) < 0.01


@pytest.mark.parametrize("k0", [K0, 4.0])
def test_precision_is_that_of_the_noisy_latents(k0):
    """R's Λ is the inverse of Σ + I/k0² of training and new points together."""
    X = np.random.default_rng(0).random((9, 2))
    S = (C(1.3) * Matern(0.6, nu=1.5))(X)
    Lambda = precision(S[:8, :8], S[:8, 8], S[8, 8], k0)
    np.testing.assert_allclose(np.linalg.inv(Lambda), S + np.eye(9) / k0**2, rtol=1e-8, atol=1e-10)


@pytest.mark.slow
def test_dsgq_is_the_orthant_ratio_of_both_forms():
    X, y = field(7, seed=5)
    new = np.array([[0.4, 0.6], [0.9, 0.1]])
    k0 = 1.3
    clf = GPClassifier(KERNEL, inference=DSGQ(k0=k0, tol=5e-4), hyperparameters="fixed", random_state=0).fit(X, y)
    found = clf.predict_uncertainty(new)
    signs = 2.0 * y - 1.0
    for j, x in enumerate(new):
        S = KERNEL(np.vstack([X, x]))
        for cov in (
            np.linalg.inv(precision(S[:7, :7], S[:7, 7], S[7, 7], k0)),  # R eq. 26
            S + np.eye(8) / k0**2,
        ):
            above, below = (log_orthant(s[:, None] * cov * s) for s in (np.append(signs, t) for t in (1.0, -1.0)))
            truth = expit(above - below)
            assert abs(found.proba[j, 1] - truth) < 4 * found.mcse[j, 1] + 1e-5
        assert abs(found.proba[j, 1] - truth) < 1e-3
    # another k0 is another model, which the same bounds must refuse
    other = fixed(DSGQ(k0=3 * k0, tol=5e-4)).fit(X, y).predict_uncertainty(new)
    assert np.any(np.abs(other.proba - found.proba) > 20 * (other.mcse + found.mcse))


@pytest.mark.slow
@pytest.mark.parametrize(("correlation", "published"), [(0.92, 0.128), (0.0, 0.5)])
def test_figure_4(correlation, published):
    """One training point of class 0; the correlation is that of ξ, after the noise is added."""
    variance = 0.96 / (1 - 0.96) / K0**2  # noise leaves .96 of the variance
    distance = -np.log(correlation / 0.96) if correlation else 1e6
    problem = Problem.of(np.zeros((1, 1)), -np.ones(1), C(variance) * Matern(1.0, nu=0.5), Probit(K0))
    posterior = DSGQ(tol=1e-4, max_samples=400_000)(problem, np.random.default_rng(0))
    p = predict_proba(posterior.latent(np.array([[distance]])), problem.likelihood)
    truth = 0.5 - np.arcsin(correlation) / np.pi
    assert abs(p.proba[0, 1] - truth) < 4 * p.mcse[0, 1] + 1e-12
    assert p.proba[0, 1] == pytest.approx(published, abs=1e-3)


@pytest.mark.filterwarnings("ignore:the Monte Carlo")
def test_dsgq_is_exact_with_the_stretched_probit():
    X, y = field(50)
    same = fixed(Exact(n_samples=500), likelihood=Probit(0.9)).fit(X, y)
    dsgq = fixed(DSGQ(k0=0.9, n_samples=500)).fit(X, y)
    np.testing.assert_array_equal(same.predict_proba(X), dsgq.predict_proba(X))
    assert dsgq.fit_report_.method == "dsgq"
    assert dsgq.log_evidence_ == same.log_evidence_


@pytest.mark.slow
def test_dsgq_is_near_the_exact_logit_but_not_it():
    X, y = field(60)
    settings = {"tol": 1e-3}
    dsgq = fixed("dsgq", **settings).fit(X, y).predict_uncertainty(X)
    exact = fixed("exact", likelihood="logit", **settings).fit(X, y).predict_uncertainty(X)
    gap = np.abs(dsgq.proba - exact.proba)
    assert gap.max() < 0.03
    assert gap.max() > 4 * np.hypot(dsgq.mcse, exact.mcse)[:, 1].max()  # the links differ, and it shows


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the Monte Carlo")
def test_a_thousand_points():
    data = roeder_field(1000, length_scale=0.15, random_state=2)
    clf = fixed(DSGQ(n_samples=200), C(4.0) * Matern(0.15, nu=1.5)).fit(data.X, data.y)
    assert clf.fit_report_.ess > 50
    truth = data.probability[:, 1]
    assert np.corrcoef(clf.predict_proba(data.X)[:, 1], truth)[0, 1] > 0.7


# ---- the ladder ----------------------------------------------------------------------------------------


def ring():
    """A site in the midst of eight neighbours, twice: all successes, and a lone success among failures."""
    angle = 2 * np.pi * np.arange(8) / 8
    X = np.vstack([[0.0, 0.0], 0.3 * np.column_stack([np.cos(angle), np.sin(angle)]), [[9.0, 9.0], [9.5, 9.0]]])
    agree, lone = np.ones(11, dtype=int), np.zeros(11, dtype=int)
    lone[0] = agree[0] = 1
    agree[9:], lone[9:] = (0, 1), (0, 1)  # far away, so that both classes are there
    return X, agree, lone


@pytest.mark.parametrize("method", ["classical", "simplicial", "amp", "dsgq"])
def test_thought_experiment(method):
    """R §1: kriging gives the centre the same probability in both cases, the doubly stochastic model does not."""
    X, agree, lone = ring()
    kernel = C(2.0) * Matern(1.0, nu=1.5)
    kriging = method in ("classical", "simplicial")
    p = []
    for y in (agree, lone):
        clf = IndicatorKriging(method, kernel=kernel, p=0.2) if kriging else fixed(method, kernel)
        p.append(clf.fit(X, y).predict_proba(X[:1])[0, 1])
    if kriging:
        expected = 1.0 if method == "classical" else 0.8
        np.testing.assert_allclose(p, expected, atol=1e-9)
    else:
        assert p[0] > 0.8
        assert p[1] < 0.4


# ---- settings ------------------------------------------------------------------------------------------


def test_the_link_comes_with_the_method():
    X, y = field(40)
    assert fixed("amp").fit(X, y).likelihood_ == Logit(1.0)
    assert fixed("dsgq").fit(X, y).likelihood_ == Probit(K0)
    assert fixed("amp", likelihood=Logit(2.0)).fit(X, y).likelihood_ == Logit(2.0)
    assert fixed(AMP(c0=2.0), likelihood="logit").fit(X, y).likelihood_ == Logit(2.0)
    with pytest.raises(ValueError, match="one place"):
        fixed(AMP(c0=2.0), likelihood=Logit(3.0)).fit(X, y)
    with pytest.raises(ValueError, match="does not support"):
        fixed("amp", likelihood="probit").fit(X, y)
    with pytest.raises(ValueError, match="does not support"):
        fixed(DSGQ(k0=1.0), likelihood="logit").fit(X, y)


@pytest.mark.filterwarnings("ignore:the log evidence")
def test_scale_learned_with_the_kernel_fixed():
    X, y = field(80)
    kernel = C(1.0, "fixed") * Matern(0.4, "fixed", nu=1.5)
    clf = GPClassifier(kernel, inference=AMP(c0=1.0, c0_bounds=(0.05, 50.0))).fit(X, y)
    up, down = (fixed(AMP(c0=clf.likelihood_.scale * s), kernel).fit(X, y).log_evidence_ for s in (1.1, 1 / 1.1))
    assert clf.log_evidence_ > max(up, down)
