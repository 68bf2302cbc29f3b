"""Draws under smooth factors against quadrature."""

import numpy as np
import pytest
from scipy.special import ndtr

from gpclass.likelihoods import Logit, Probit
from gpclass.likelihoods.noisy_logit import NoisyLogit
from gpclass.likelihoods.split import PowerLink
from gpclass.numerics.tilted import tilted_range
from gpclass.orthant.maps import SmoothFactors, Table

LINKS = {
    "noisy logit": NoisyLogit(),
    "probit": PowerLink(Probit._log_link, Probit._slopes),
    "logit": PowerLink(Logit._log_link, Logit._slopes),
}
CASES = [("noisy logit", 1.0), ("probit", 0.3), ("probit", 37.5), ("logit", 0.5), ("logit", 1e6)]


def density(link, a, b, w):
    """The tilted density on a fine grid, normalised, and its log mass."""
    _, left, right = tilted_range(link, np.array([a]), b, w, 40.0)
    u = np.linspace(left[0], right[0], 20_001)
    log_f = link.log(u, w) - 0.5 * ((u - a) / b) ** 2 - np.log(b) - 0.5 * np.log(2 * np.pi)
    f = np.exp(log_f - log_f.max())
    mass = f.sum() * (u[1] - u[0])
    return u, f / mass, np.log(mass) + log_f.max()


@pytest.mark.parametrize(("name", "w"), CASES)
@pytest.mark.parametrize("b", [0.05, 1.0, 30.0])
def test_quantiles_and_their_slopes(name, w, b):
    link = LINKS[name]
    zeta = np.linspace(-4.5, 4.5, 31)
    for a in (-8.0, 0.3, 6.0):
        u, f, _ = density(link, a, b, w)
        cdf = np.cumsum(f) * (u[1] - u[0])
        got, slope = Table(link, b, w).quantile(np.full(31, a), zeta)
        sd = np.sqrt(np.sum(f * u**2) / f.sum() - (np.sum(f * u) / f.sum()) ** 2)
        assert np.max(np.abs(np.interp(got, u, cdf) - ndtr(zeta))) < 2e-3
        assert np.all(slope > 0)
        # The slope is that of the interpolant: finite differences within one table.
        again, _ = Table(link, b, w).quantile(np.full(31, a), zeta + 1e-6)
        np.testing.assert_allclose((again - got) / 1e-6, slope, atol=1e-4 * sd, rtol=1e-4)


@pytest.mark.parametrize(("name", "w"), CASES)
@pytest.mark.parametrize("c", [0.05, 1.0, 30.0])
def test_weights_are_the_mass_of_the_factor(name, w, c):
    factors = SmoothFactors((LINKS[name],), np.zeros(1, dtype=np.intp), np.array([0.8]), np.array([w]), np.array([0.0]))
    u = (np.arange(2000) + 0.5) / 2000
    for m in (-5.0, 0.1, 4.0):
        x = np.empty(2000)
        log_w = factors.draw(0, np.full(2000, m), c, u, x)
        truth = density(LINKS[name], 0.8 * m, 0.8 * c, w)[2]
        assert abs(np.log(np.mean(np.exp(log_w - truth)))) < 1e-4  # a midpoint rule in u
        assert np.std(log_w) < 0.02  # nearly even
        np.testing.assert_allclose(factors.log_mass(0, np.array([m]), c), truth, atol=2e-3)


def test_a_draw_depends_on_no_other_draw():
    factors = SmoothFactors((LINKS["logit"],), np.zeros(1, dtype=np.intp), np.ones(1), np.array([0.5]), np.zeros(1))
    m, u = np.random.default_rng(0).normal(0, 30, 500), np.random.default_rng(1).random(500)
    together, alone = np.empty(500), np.empty(1)
    factors.draw(0, m, 0.3, u, together)
    for i in (0, 250, 499):
        factors.draw(0, m[i : i + 1], 0.3, u[i : i + 1], alone)
        np.testing.assert_allclose(alone[0], together[i], rtol=1e-12)


def test_modes_far_from_the_normal():
    """Newton's steps alone cycle where the slope of the log is not convex: a logit far below zero."""
    a = np.array([-300.0, -40.0, 0.0, 40.0])
    for b, w in ((0.01, 1e6), (30.0, 1.0), (30.0, 37.5)):
        mode, left, right = tilted_range(LINKS["logit"], a, b, w, 22.0)
        d1, _ = LINKS["logit"].slopes(mode, w)
        curved = 1 / b**2 - LINKS["logit"].slopes(mode, w)[1]
        assert np.all(np.abs(d1 - (mode - a) / b**2) < 2e-3 * b * curved)
        assert np.all((left < mode) & (mode < right))


def test_a_wrong_slope_is_seen(monkeypatch):
    """Negative control of the test of the weights."""
    factors = SmoothFactors((LINKS["probit"],), np.zeros(1, dtype=np.intp), np.ones(1), np.array([0.3]), np.zeros(1))
    right = Table.quantile
    monkeypatch.setattr(Table, "quantile", lambda *args: (right(*args)[0], 1.01 * right(*args)[1]))
    log_w = factors.draw(0, np.zeros(2000), 1.0, (np.arange(2000) + 0.5) / 2000, np.empty(2000))
    truth = density(LINKS["probit"], 0.0, 1.0, 0.3)[2]
    assert abs(np.log(np.mean(np.exp(log_w - truth)))) > 5e-3


def test_orders_share_their_tables_and_draw_the_same():
    """Tables belong to a link, a power and a spread: coordinates in another order find those of the first."""
    power, m, u = np.array([0.3, 1.7, 0.6]), np.linspace(-3, 3, 50), (np.arange(50) + 0.5) / 50
    links, kind = (LINKS["probit"],), np.zeros(3, dtype=np.intp)

    def factors():
        return SmoothFactors(links, kind, np.array([1.0, 0.5, 2.0]), power, np.zeros(3))

    shared, other = factors(), np.empty(50)
    first = [shared.draw(i, m, 0.7, u, np.empty(50)) for i in range(3)]
    order = np.array([2, 0, 1])
    taken = shared.take(order)
    for k, i in enumerate(order):
        np.testing.assert_array_equal(taken.draw(k, m, 0.7, u, other), first[i])
    assert len(shared.tables) == 3
    assert taken.tables is shared.tables
    alone = factors().draw(1, m, 0.7, u, np.empty(50))  # a table that has met no other means
    np.testing.assert_array_equal(alone, first[1])
