"""Neal's hierarchical gamma prior: its density beside an integral, its slope, its draws, and who shares a mean."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln
from scipy.stats import gamma

from gpclass.priors import LogNormal, SharedGamma, resolve_priors


@pytest.mark.parametrize("prior", [SharedGamma(), SharedGamma(2.0, 1.5, 0.4, -1.0), SharedGamma(0.3, 0.25, 3.0, 1.0)])
def test_the_joint_density_is_the_integral_over_the_mean(prior):
    theta = np.array([-0.4, 0.9, 0.1])

    def given(t):
        m, u = np.exp(t), np.exp(prior.power * theta)
        top = gamma.pdf(m, prior.top_shape, scale=prior.mean / prior.top_shape) * m
        return top * np.prod(gamma.pdf(u, prior.shape, scale=m / prior.shape) * u * abs(prior.power))

    truth = quad(given, -60, 0, limit=500)[0] + quad(given, 0, 12, limit=500)[0]
    value, slope = prior.joint(theta)
    assert value == pytest.approx(np.log(truth), abs=1e-6)
    for j, step in enumerate(1e-5 * np.eye(3)):
        assert slope[j] == pytest.approx((prior.joint(theta + step)[0] - prior.joint(theta - step)[0]) / 2e-5, abs=1e-6)


@pytest.mark.parametrize(
    ("prior", "theta"),
    [
        (SharedGamma(shape=50.0), np.linspace(-0.3, 0.4, 30)),
        (SharedGamma(), np.log([1000.0])),
        (SharedGamma(), np.log([3000.0])),
        (SharedGamma(), np.log([1e-5, 3000.0])),
        (SharedGamma(), np.log([1e-5])),
        (SharedGamma(0.01, 0.01, 50.0, -3.0), np.log([1e-5, 1e5])),
        (SharedGamma(20.0, 3.0, 0.01, -2.0), np.full(40, 4.0)),
        (SharedGamma(power=10.0, shape=0.51), np.log([1e-5])),
    ],
)
def test_the_joint_density_is_exact_where_the_integrand_is_narrow_or_wide(prior, theta):
    phi, rate = prior.power * theta, prior.top_shape / prior.mean
    nu, total = prior.top_shape - len(theta) * prior.shape, prior.shape * np.sum(np.exp(phi))

    def log_integrand(t):
        return nu * t - rate * np.exp(t) - total * np.exp(-t)

    low, high = -250.0, 250.0
    with np.errstate(over="ignore"):
        for _ in range(60):  # a concave function: keep the part that is within 60 nats of the best
            t = np.linspace(low, high, 20_001)
            inside = np.flatnonzero(log_integrand(t) > log_integrand(t).max() - 60.0)
            low, high = t[max(inside[0] - 1, 0)], t[min(inside[-1] + 1, len(t) - 1)]
        log_w = log_integrand(t)
    w = np.exp(log_w - log_w.max())
    truth = log_w.max() + np.log(w.sum() * (t[1] - t[0])) + prior.top_shape * np.log(rate) - gammaln(prior.top_shape)
    each = prior.shape * (np.log(prior.shape) + phi) - gammaln(prior.shape) + np.log(abs(prior.power))
    value, slope = prior.joint(theta)
    assert value == pytest.approx(truth + each.sum(), rel=1e-12, abs=1e-9)
    inverse = np.sum(w * np.exp(phi[:, None] - t), axis=1) / w.sum()
    np.testing.assert_allclose(slope, prior.power * prior.shape * (1.0 - inverse), rtol=1e-9, atol=1e-9)


def test_a_power_of_zero_is_refused():
    with pytest.raises(ValueError, match="power must be a finite number other than 0"):
        SharedGamma(power=0.0)


def test_one_parameter_has_a_density_and_draws_of_it():
    prior = SharedGamma(1.5, 1.0, 2.0)
    mass = quad(lambda t: np.exp(prior.log_density(t)), -25, 8, limit=300)[0]
    mean = quad(lambda t: t * np.exp(prior.log_density(t)), -25, 8, limit=300)[0]
    assert mass == pytest.approx(1.0, abs=1e-5)
    draws = prior.draw(np.random.default_rng(0), 4000)
    assert abs(draws.mean() - mean) < 4 * draws.std() / np.sqrt(4000)


def test_parameters_of_one_pattern_share_a_mean():
    names = ("k1__constant_value", "k2__length_scale[0]", "k2__length_scale[1]")
    shared = SharedGamma(1.0, 4.0, 0.3)
    found = resolve_priors({"*length_scale*": shared, "*constant*": LogNormal(0.0, 1.0)}, names, np.zeros(3))
    theta = np.array([0.2, 0.5, -0.3])
    assert found.log_density(theta) == pytest.approx(LogNormal().log_density(0.2) + shared.joint(theta[1:])[0])
    np.testing.assert_allclose(found.gradient(theta)[1:], shared.joint(theta[1:])[1])
    assert found.gradient(theta)[0] == pytest.approx(-0.2)
    draws = found.draw(np.random.default_rng(1), 2000)
    assert np.corrcoef(draws[:, 1:].T)[0, 1] > 0.5  # a vague mean, lengths close to it
    assert abs(np.corrcoef(draws[:, :2].T)[0, 1]) < 0.1
    apart = resolve_priors({"*[[]0]": shared, "*[[]1]": SharedGamma(1.0, 4.0, 0.31)}, names, np.zeros(3))
    assert abs(np.corrcoef(apart.draw(np.random.default_rng(1), 2000)[:, 1:].T)[0, 1]) < 0.1
