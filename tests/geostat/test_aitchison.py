"""Aitchison geometry and distributions against their definitions, closed forms and plain quadrature."""

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import expit, logit

from gpclass.geostat import aitchison as ai

A, B, C = 0.3, 0.85, 0.02


def close(a, b, c):
    total = a * b + (1 - a) * (1 - b) if c is None else a**c + (1 - a) ** c
    return (a * b if c is None else a**c) / total


def test_operations_follow_the_definition_by_closure():
    np.testing.assert_allclose(ai.perturb(A, B), close(A, B, None), rtol=1e-14)
    np.testing.assert_allclose(ai.power(2.5, A), close(A, None, 2.5), rtol=1e-14)


@pytest.mark.parametrize("c0", [1.0, 0.4, np.sqrt(2)])
def test_vector_space_axioms(c0):
    np.testing.assert_allclose(ai.perturb(A, 0.5), A)  # neutral element
    np.testing.assert_allclose(ai.perturb(A, 1 - A), 0.5)  # inverse element
    np.testing.assert_allclose(ai.perturb(ai.perturb(A, B), C), ai.perturb(A, ai.perturb(B, C)))
    np.testing.assert_allclose(ai.power(3.0, ai.perturb(A, B)), ai.perturb(ai.power(3.0, A), ai.power(3.0, B)))
    np.testing.assert_allclose(ai.inner(ai.perturb(A, B), C, c0), ai.inner(A, C, c0) + ai.inner(B, C, c0))
    np.testing.assert_allclose(ai.norm(A, c0) ** 2, ai.inner(A, A, c0))
    # the distance is the norm of the difference, and shifts leave it alone
    np.testing.assert_allclose(ai.distance(A, B, c0), ai.norm(ai.perturb(A, 1 - B), c0))
    np.testing.assert_allclose(ai.distance(ai.perturb(A, C), ai.perturb(B, C), c0), ai.distance(A, B, c0))
    # the basis vector has length one, and a = alpha * basis
    basis = ai.from_coordinates(1.0, c0)
    np.testing.assert_allclose(ai.norm(basis, c0), 1.0)
    np.testing.assert_allclose(ai.power(ai.coordinates(A, c0), basis), A)


def test_distance_tells_rare_events_apart():
    # R's pairs: the same on the real line, far from it here
    assert ai.distance(0.001, 0.01) > 50 * ai.distance(0.501, 0.51)


def test_mean_is_the_centre_of_perturbation():
    p = np.array([0.1, 0.5, 0.7])
    w = np.array([1.0, 2.0, 5.0])
    combined = ai.perturb(ai.perturb(ai.power(w[0], p[0]), ai.power(w[1], p[1])), ai.power(w[2], p[2]))
    np.testing.assert_allclose(ai.mean(p, w), ai.power(1 / w.sum(), combined))


@pytest.mark.parametrize("parts", [2, 3, 5])
def test_ilr_is_an_isometry_and_inverts(parts):
    rng = np.random.default_rng(3)
    p, q = rng.dirichlet(np.ones(parts), size=(2, 20))
    np.testing.assert_allclose(ai.inverse_ilr(ai.ilr(p)), p, rtol=1e-12)

    def ratio(v):
        return np.log(v[:, :, None] / v[:, None, :])

    direct = np.sqrt(((ratio(p) - ratio(q)) ** 2).sum(axis=(1, 2)) / (2 * parts))
    np.testing.assert_allclose(np.linalg.norm(ai.ilr(p) - ai.ilr(q), axis=1), direct, rtol=1e-12)
    if parts == 2:
        np.testing.assert_allclose(np.abs(ai.ilr(p)[:, 0]), np.abs(ai.coordinates(p[:, 0], np.sqrt(2))))


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, np.nan])
def test_the_ends_of_the_interval_are_refused(bad):
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        ai.coordinates(bad)
    with pytest.raises(ValueError, match="positive"):
        ai.ilr([bad if bad != 1.0 else 0.0, 1.0])


# -- the normal on ]0,1[ ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mu", "var", "c0"), [(0, 1, 1), (1.5, 0.3, 2.0), (-0.7, 9.0, 0.5)])
def test_interval_normal(mu, var, c0):
    law = ai.IntervalNormal(mu, var, c0)
    z = np.linspace(0.01, 0.99, 9)
    # R eq. 6, written out
    eq6 = np.exp(-((logit(z) / c0 - mu) ** 2) / (2 * var)) / (c0 * z * (1 - z) * np.sqrt(2 * np.pi * var))
    np.testing.assert_allclose(law.pdf(z), eq6, rtol=1e-12)
    np.testing.assert_allclose(law.pdf(z, "aitchison"), eq6 * z * (1 - z), rtol=1e-12)
    np.testing.assert_allclose(law.pdf(z), law.as_aitchison.pdf(z), rtol=1e-11)
    np.testing.assert_allclose(law.cdf(z), law.as_aitchison.cdf(z), atol=1e-13)
    np.testing.assert_allclose(law.ppf(law.cdf(z)), z, rtol=1e-10)
    for k in (1, 2, 3):
        x = np.linspace(-80, 80, 64_001)
        plain = np.sum(expit(x) ** k * stats.norm.pdf(x, c0 * mu, c0 * var**0.5)) * (x[1] - x[0])
        np.testing.assert_allclose(law.moment(k), plain, rtol=1e-10)
    np.testing.assert_allclose(law.var(), law.moment(2) - law.mean() ** 2, rtol=1e-9)
    np.testing.assert_allclose(law.centre(), law.ppf(0.5))
    draws = law.draws(4000, np.random.default_rng(1))
    assert stats.kstest(draws, lambda v: law.cdf(v)).pvalue > 1e-3
    assert stats.kstest(draws, lambda v: ai.IntervalNormal(mu + 0.2 * var**0.5, var, c0).cdf(v)).pvalue < 1e-6


def test_scaling_c0_is_scaling_sigma_at_zero_location():
    z = np.linspace(0.05, 0.95, 7)
    np.testing.assert_allclose(ai.IntervalNormal(0, 2.0, 3.0).pdf(z), ai.IntervalNormal(0, 18.0, 1.0).pdf(z))
    assert not np.allclose(ai.IntervalNormal(1, 2.0, 3.0).pdf(z), ai.IntervalNormal(1, 18.0, 1.0).pdf(z))


def test_hypercube_normal_integrates_and_agrees_with_its_margins():
    cov = np.array([[1.0, 0.6], [0.6, 2.0]])
    law = ai.HypercubeNormal(np.array([0.3, -0.5]), cov, 1.3)
    x = np.linspace(-12, 12, 241)
    grid = expit(np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1))
    density = np.exp(law.logpdf(grid, "aitchison"))
    np.testing.assert_allclose(density.sum() * (x[1] - x[0]) ** 2, 1.0, rtol=1e-6)
    margin = density.sum(axis=1) * (x[1] - x[0])
    np.testing.assert_allclose(margin, law.marginal(0).pdf(expit(x), "aitchison"), atol=1e-9)
    draws = logit(law.draws(20_000, np.random.default_rng(0))) / 1.3
    np.testing.assert_allclose(np.cov(draws.T), cov, atol=5 * 2.0 * np.sqrt(2 / 20_000))


# -- the Aitchison distribution -----------------------------------------------------------------------------

PARAMETERS = [
    (2.0, 3.0, -0.5),
    (0.4, 0.2, -0.01),
    (-1.0, 1.0, -0.2),  # the normal
    (-3.0, -2.0, -0.3),  # theta1 + theta2 < 0: valid all the same, two modes
    (-8.0, 3.0, -0.05),
    (40.0, 1.0, -2.0),
    (3.0, 0.7, 0.0),  # Beta
]


@pytest.mark.parametrize(("t1", "t2", "psi"), PARAMETERS)
def test_aitchison_against_plain_quadrature(t1, t2, psi):
    law = ai.Aitchison(t1, t2, psi)
    x = np.linspace(-220, 220, 440_001)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = t1 * np.log(expit(x)) + t2 * np.log(expit(-x)) + psi * x * x  # R eq. 8
    value = np.nan_to_num(value, nan=-np.inf)
    value = np.where(np.abs(x) > 36, -t1 * np.maximum(-x, 0) - t2 * np.maximum(x, 0) + psi * x * x, value)
    peak = value.max()
    mass = np.exp(value - peak) * (x[1] - x[0])
    np.testing.assert_allclose(law.log_normaliser, peak + np.log(mass.sum()), rtol=1e-9, atol=1e-9)
    mass /= mass.sum()
    for k in (1, 2, 4):
        np.testing.assert_allclose(law.moment(k), mass @ expit(x) ** k, rtol=1e-8)
    np.testing.assert_allclose(law.centre(), expit(mass @ x), rtol=1e-7)
    np.testing.assert_allclose(law.logit_var(), mass @ (x - mass @ x) ** 2, rtol=1e-7)
    np.testing.assert_allclose(logit(law.mode("aitchison")), x[np.argmax(value)], atol=2e-3)
    z = np.array([0.01, 0.2, 0.5, 0.9, 0.999])
    np.testing.assert_allclose(law.cdf(z), [mass[x <= logit(v)].sum() for v in z], atol=3e-3)
    np.testing.assert_allclose(law.cdf(law.ppf([0.01, 0.3, 0.99])), [0.01, 0.3, 0.99], atol=1e-12)
    total = integrate.quad(lambda v: float(law.pdf(v)), 0.01, 0.9, limit=400)[0]
    np.testing.assert_allclose(total, law.cdf(0.9) - law.cdf(0.01), rtol=1e-7, atol=1e-14)


def test_beta_is_the_case_without_precision():
    law, beta = ai.Aitchison(2.5, 0.8, 0.0), stats.beta(2.5, 0.8)
    z = np.array([0.001, 0.3, 0.77, 0.9999])
    np.testing.assert_allclose(law.pdf(z), beta.pdf(z), rtol=1e-11)
    np.testing.assert_allclose(law.cdf(z), beta.cdf(z), rtol=1e-11)
    np.testing.assert_allclose([law.mean(), law.var()], [beta.mean(), beta.var()], rtol=1e-12)
    np.testing.assert_allclose(ai.Aitchison(3.0, 2.0, 0.0).mode("lebesgue"), 2 / 3)
    assert law.mode("lebesgue") == 1.0


@pytest.mark.parametrize("c0", [1.0, 2.5])
def test_posterior_of_a_binomial_is_conjugate(c0):
    mu, var, y, n = 0.4, 1.7, 3, 11
    law = ai.Aitchison.normal(mu, var, c0).update(y, n - y)
    # theta and psi as restored for c0
    np.testing.assert_allclose([law.theta1, law.theta2], [y + mu / (c0 * var), n - y - mu / (c0 * var)])
    np.testing.assert_allclose(law.psi, -1 / (2 * c0**2 * var))

    def post(v):  # Bayes
        return v**y * (1 - v) ** (n - y) * ai.IntervalNormal(mu, var, c0).pdf(v)

    total = integrate.quad(post, 0, 1)[0]
    z = np.array([0.1, 0.3, 0.6])
    np.testing.assert_allclose(law.pdf(z), post(z) / total, rtol=1e-8)


def test_lebesgue_mode_differs_from_aitchison_mode():
    law = ai.Aitchison(2.0, 3.0, -0.5)
    z = np.linspace(1e-4, 1 - 1e-4, 200_001)
    np.testing.assert_allclose(law.mode("lebesgue"), z[np.argmax(law.pdf(z))], atol=1e-5)
    np.testing.assert_allclose(law.mode("aitchison"), z[np.argmax(law.pdf(z, "aitchison"))], atol=1e-5)
    assert abs(law.mode("lebesgue") - law.mode("aitchison")) > 0.01


def test_aitchison_draws():
    law = ai.Aitchison(-3.0, -2.0, -0.3)
    draws = law.draws(5000, np.random.default_rng(5))
    assert stats.kstest(draws, lambda v: law.cdf(v)).pvalue > 1e-3
    assert stats.kstest(draws, lambda v: ai.Aitchison(-2.7, -2.0, -0.3).cdf(v)).pvalue < 1e-6


def test_extreme_counts_stay_finite():
    law = ai.Aitchison.normal(0.0, 1.0).update(200_000, 300_000)
    np.testing.assert_allclose(law.mean(), 0.4, atol=1e-5)
    np.testing.assert_allclose(law.var(), 0.24 / 500_000, rtol=1e-3)
    assert ai.Aitchison.normal(-800.0, 1.0).log_normaliser > 3e5  # e^κ overflows, κ does not


@pytest.mark.parametrize("parameters", [(1, 1, 0.1), (0, 1, 0), (1, -2, 0), (np.nan, 1, -1)])
def test_improper_parameters_are_refused(parameters):
    with pytest.raises(ai.InvalidDistributionError, match="psi"):
        ai.Aitchison(*parameters)


# -- the field ----------------------------------------------------------------------------------------------


@pytest.fixture
def field():
    rng = np.random.default_rng(8)
    x = np.sort(rng.uniform(0, 3, 6))
    cov = 1.5 * np.exp(-np.abs(x[:, None] - x)) + 0.05 * np.eye(6)
    return ai.AitchisonField([1, 0, 3, 0, 1, 2], [1, 1, 4, 0, 1, 2], ai.HypercubeNormal(np.full(6, 0.2), cov, 1.6))


def test_field_mode_satisfies_the_stationarity_equation(field):
    mode = field.mode()
    assert mode.converged
    S = field.prior.scale**2 * field.prior.covariance
    equation = -np.linalg.solve(S, mode.logits - 1.6 * 0.2) + field.successes - field.trials * mode.probability
    np.testing.assert_allclose(equation, 0.0, atol=1e-8)
    top = field.log_density(mode.probability, "aitchison")
    rng = np.random.default_rng(0)
    near = expit(mode.logits + 0.1 * rng.standard_normal((50, 6)))
    assert np.all(field.log_density(near, "aitchison") < top)


def test_one_site_field_is_the_one_dimensional_distribution():
    law = ai.Aitchison.normal(0.4, 1.7, 2.5).update(3, 8)
    field = ai.AitchisonField([3], [11], ai.HypercubeNormal([0.4], [[1.7]], 2.5))
    np.testing.assert_allclose(field.mode().probability[0], law.mode("aitchison"), rtol=1e-9)
    found = field.moments(np.random.default_rng(0))
    evidence = law.log_normaliser - ai.Aitchison.normal(0.4, 1.7, 2.5).log_normaliser
    assert abs(found.log_normaliser - evidence) < 4 * found.standard_error
    assert found.standard_error < 0.02
    assert abs(found.mean[0] - law.mean()) < 4 * law.var() ** 0.5 / np.sqrt(found.ess)
    draws = field.draws(3000, np.random.default_rng(1))[:, 0]
    assert stats.kstest(draws, lambda v: law.cdf(v)).pvalue > 1e-3
    assert stats.kstest(draws, lambda v: law.update(1, 0).cdf(v)).pvalue < 1e-6


def test_two_site_normaliser_against_a_grid():
    cov = np.array([[2.0, 1.2], [1.2, 1.0]])
    field = ai.AitchisonField([2, 0], [2, 3], ai.HypercubeNormal([0.1, -0.3], cov))
    x = np.linspace(-14, 14, 561)
    grid = expit(np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1))
    density = np.exp(field.log_density(grid, "aitchison")) * (x[1] - x[0]) ** 2
    found = field.moments(np.random.default_rng(2))
    assert abs(found.log_normaliser - np.log(density.sum())) < 4 * found.standard_error
    mean = np.einsum("ij,ijk->k", density / density.sum(), grid)
    assert np.all(np.abs(found.mean - mean) < 4 * found.sd / np.sqrt(found.ess))


@pytest.mark.slow
def test_field_draws_agree_with_importance_moments(field):
    found = field.moments(np.random.default_rng(3), 40_000)
    draws = field.draws(4000, np.random.default_rng(4))
    error = found.sd * np.sqrt(1 / 4000 + 1 / found.ess)
    assert np.all(np.abs(draws.mean(axis=0) - found.mean) < 4 * error)
    prior_mean = field.prior.marginal(2).mean()
    assert abs(draws[:, 2].mean() - prior_mean) > 4 * error[2]  # the data moved it


def test_field_conditional_is_the_slice_of_the_joint(field):
    z = np.array([0.3, 0.6, 0.7, 0.2, 0.5, 0.8])
    law = field.conditional(2, z)
    values = np.array([0.2, 0.5, 0.9])
    points = np.tile(z, (3, 1))
    points[:, 2] = values
    joint = field.log_density(points)
    np.testing.assert_allclose(np.diff(joint), np.diff(law.logpdf(values)), rtol=1e-9)


def line(x):
    return 1.5 * np.exp(-np.abs(x[:, None] - x))


def test_mode_elsewhere_is_the_kriged_mode():
    # R §4.2.2: a site without labels does not move the others, and gets the kriged coordinate
    x = np.array([0.0, 0.4, 1.1, 2.0, 1.4])
    S = line(x)
    both = ai.AitchisonField([1, 0, 1, 1, 0], [1, 1, 1, 1, 0], ai.HypercubeNormal(np.zeros(5), S)).mode()
    seen = ai.AitchisonField([1, 0, 1, 1], [1, 1, 1, 1], ai.HypercubeNormal(np.zeros(4), S[:4, :4])).mode()
    np.testing.assert_allclose(both.logits[:4], seen.logits, atol=1e-9)
    np.testing.assert_allclose(both.logits[4], S[4, :4] @ np.linalg.solve(S[:4, :4], seen.logits), atol=1e-9)


def test_scale_and_sill_are_one_parameter():
    # R Remark 3: c0 and the covariance enter through c0² Σ alone when the mean is zero
    x, y, N = np.array([0.0, 0.4, 1.1, 2.0]), [1, 0, 3, 1], [1, 1, 4, 1]
    one = ai.AitchisonField(y, N, ai.HypercubeNormal(np.zeros(4), line(x), 2.0)).mode()
    two = ai.AitchisonField(y, N, ai.HypercubeNormal(np.zeros(4), 4.0 * line(x), 1.0)).mode()
    other = ai.AitchisonField(y, N, ai.HypercubeNormal(np.zeros(4), 2.0 * line(x), 1.0)).mode()
    np.testing.assert_allclose(one.probability, two.probability, atol=1e-10)
    assert np.abs(one.probability - other.probability).max() > 0.01


def test_the_mode_listens_to_the_neighbours_of_a_lone_success():
    x = np.linspace(0, 1, 9)
    prior = ai.HypercubeNormal(np.zeros(9), 4.0 * line(x))
    agree = ai.AitchisonField(np.ones(9), np.ones(9), prior).mode().probability[4]
    lone = ai.AitchisonField(np.arange(9) == 4, np.ones(9), prior).mode().probability[4]
    assert agree > 0.8
    assert lone < 0.5


def test_field_refuses_bad_counts():
    prior = ai.HypercubeNormal([0.0], [[1.0]])
    with pytest.raises(ValueError, match="between 0 and trials"):
        ai.AitchisonField([2], [1], prior)
    with pytest.raises(ValueError, match="between 0 and trials"):
        ai.AitchisonField([np.nan], [1], prior)
    with pytest.raises(ValueError, match="one entry"):
        ai.AitchisonField([1, 1], [1, 1], prior)


def test_logarithms_of_parts_too_small_for_a_number():
    alpha = np.array([[0.3, -1.2], [-900.0, 700.0]])
    found = ai.log_inverse_ilr(alpha)
    np.testing.assert_allclose(np.exp(found), ai.inverse_ilr(alpha))
    assert np.isfinite(found).all()
    assert ai.inverse_ilr(alpha)[1].min() == 0  # where the logarithm of the part would be −∞
    np.testing.assert_allclose(found[0], np.log(ai.inverse_ilr(alpha[0])))
