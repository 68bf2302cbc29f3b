"""Likelihoods of two classes against dense quadrature, finite differences and their own symmetries."""

import math

import numpy as np
import pytest
from scipy.special import logsumexp

from gpclass.likelihoods import LIKELIHOODS, Logit, Probit, get_likelihood, powered

LINKS = [Probit(), Logit(), Probit(scale=0.5876), Logit(scale=2.5)]
VARIANCES = (1e-8, 0.01, 0.3, 0.99, 1.01, 2.0, 30.0, 1e3, 1e4, 1e5)


def tilted_oracle(likelihood, y: float, mean: float, var: float, n: int = 100_001):
    """The log Z, mean and variance of N(f; mean, var) p(y | f)/Z: trapezoidal rule in standard units.

    The interval is narrowed to where the (log-concave) integrand is within exp(-60) of its peak.
    """
    sd = math.sqrt(var)

    def log_integrand(x):
        return -0.5 * x * x + likelihood.log_prob(y, mean + sd * x)

    span = 80.0 + likelihood.scale * sd + 2 * abs(mean) / sd
    low, high = -span, span
    for _ in range(60):
        x = np.linspace(low, high, 2001)
        g = log_integrand(x)
        keep = np.flatnonzero(g > g.max() - 60.0)
        low, high = x[max(keep[0] - 1, 0)], x[min(keep[-1] + 1, 2000)]
    x = np.linspace(low, high, n)
    g = log_integrand(x)
    total = logsumexp(g)
    p = np.exp(g - total)
    p /= p.sum()  # total is a number of up to 1e6: its rounding would move the mean
    peak = x[np.argmax(g)]
    centre = peak + p @ (x - peak)
    log_z = total + math.log((high - low) / (n - 1)) - 0.5 * math.log(2 * math.pi)
    return log_z, mean + sd * centre, var * (p @ (x - centre) ** 2)


def means_for(var: float) -> list[float]:
    sd = math.sqrt(var)
    edges = [k * sd for k in (-40.0, -20.0, -7.1, -6.9, -2.0, 0.0, 0.5, 4.0, 6.9, 7.1, 20.0)]
    return [*edges, -0.5 * var, -var, 1e3, -1e3]


@pytest.mark.parametrize("likelihood", LINKS, ids=str)
@pytest.mark.parametrize("var", VARIANCES)
def test_tilted_moments(likelihood, var):
    mean = np.array(means_for(var))
    y = np.where(np.arange(len(mean)) % 3, 1.0, -1.0)
    log_z, centre, spread = likelihood.tilted(y, y * mean, var)
    for i, m in enumerate(mean):
        expected = tilted_oracle(likelihood, y[i], y[i] * m, var)
        sd = math.sqrt(expected[2])
        assert log_z[i] == pytest.approx(expected[0], abs=1e-9 + 1e-13 * abs(expected[0]))
        # the oracle adds mean and shift, so it cannot be better than the spacing of doubles near the mean
        assert abs(centre[i] - expected[1]) < 1e-8 * sd + 4 * np.spacing(abs(m))
        assert spread[i] == pytest.approx(expected[2], rel=1e-8)
        scalar = likelihood.tilted_scalar(float(y[i]), float(y[i] * m), var)
        assert scalar[0] == pytest.approx(log_z[i], rel=1e-12, abs=1e-14)
        assert scalar[1] == pytest.approx(centre[i], rel=1e-11, abs=1e-12 * sd)
        assert scalar[2] == pytest.approx(spread[i], rel=1e-9)


def test_textbook_probit_variance_would_fail():
    # the control: var - var²/(1+var) h (z+h) cancels in the tail where ours does not
    var, z = 1e5, -1e4
    h = float(Probit().derivatives(1.0, z)[1])
    textbook = var - var**2 / (1 + var) * h * (z + h)
    expected = tilted_oracle(Probit(), 1.0, z * math.sqrt(1 + var), var)[2]
    assert abs(textbook / expected - 1) > 1e-5
    assert Probit().tilted(1.0, z * math.sqrt(1 + var), var)[2] == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("likelihood", LINKS, ids=str)
def test_tilted_without_variance(likelihood):
    f = np.array([-30.0, -1.0, 0.0, 2.0])
    log_z, centre, spread = likelihood.tilted(1.0, f, 0.0)
    np.testing.assert_allclose(log_z, likelihood.log_prob(1.0, f), rtol=1e-13)
    np.testing.assert_allclose(centre, f, atol=1e-14)
    np.testing.assert_allclose(spread, 0.0, atol=1e-15)
    assert likelihood.tilted_scalar(1.0, -1.0, 0.0)[0] == pytest.approx(log_z[1], rel=1e-13)


@pytest.mark.parametrize("likelihood", LINKS, ids=str)
def test_moments_are_derivatives_of_log_z(likelihood):
    mean, var, step = np.array([-6.0, -0.4, 0.0, 1.7]), np.array([0.3, 2.0, 9.0, 40.0]), 1e-4
    up, down = (likelihood.tilted(-1.0, mean + d, var)[0] for d in (step, -step))
    log_z, centre, spread = likelihood.tilted(-1.0, mean, var)
    np.testing.assert_allclose((centre - mean) / var, (up - down) / (2 * step), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose((spread - var) / var**2, (up - 2 * log_z + down) / step**2, atol=3e-7)


@pytest.mark.parametrize("likelihood", LINKS, ids=str)
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_derivatives_by_finite_differences(likelihood, y):
    f = np.concatenate([np.linspace(-9.0, 9.0, 37), [-60.0, 60.0, -5.0 / likelihood.scale + 1e-3]])
    step = 1e-5
    log_p, *ours = likelihood.derivatives(y, f)
    np.testing.assert_array_equal(log_p, likelihood.log_prob(y, f))
    above, below = likelihood.derivatives(y, f + step), likelihood.derivatives(y, f - step)
    for order in range(3):
        difference = (above[order] - below[order]) / (2 * step)
        np.testing.assert_allclose(ours[order], difference, rtol=2e-6, atol=1e-9)


def test_probit_derivatives_far_in_the_tail():
    # log Φ(z) ~ -z²/2 - log(-z) - log(2π)/2: d1 = -z - 1/z, d2 = -1 + 1/z², d3 = -2/z³
    for z in (-1e3, -1e5):
        _, d1, d2, d3 = Probit().derivatives(1.0, z)
        assert d1 == pytest.approx(-z - 1 / z, rel=1e-10)
        assert 1.0 + d2 == pytest.approx(1 / z**2, rel=1e-4)
        assert d3 == pytest.approx(-2 / z**3, rel=1e-4)


# ------------------------------------------------------------------------------- expected log likelihood


def expected_oracle(likelihood, y, mean, var):
    """E log p(y | f) by panels of Gauss-Legendre, refined at the kink f = 0."""
    sd = math.sqrt(var)
    panels = np.linspace(-45.0, 45.0, 3001)
    if sd > 5.0:
        near = np.linspace(-60.0, 60.0, 6001) / likelihood.scale
        panels = np.unique(np.concatenate([panels, (near - mean) / sd]))
    x, w = np.polynomial.legendre.leggauss(12)
    half = 0.5 * np.diff(panels)[:, None]
    t = panels[:-1, None] + half * (1.0 + x)
    weight = half * w * np.exp(-0.5 * t * t) / math.sqrt(2 * math.pi)
    return float(np.sum(weight * likelihood.log_prob(y, mean + sd * t)))


@pytest.mark.parametrize("likelihood", LINKS, ids=str)
@pytest.mark.parametrize("var", [1e-8, 0.01, 0.99, 1.01, 5.0, 30.0, 1e4, 1e6])
def test_expected_log_prob(likelihood, var):
    sd = math.sqrt(var)
    mean = np.array([k * sd for k in (-30.0, -7.1, -6.9, -1.0, 0.0, 1.0, 6.9, 7.1, 12.0)] + [0.5 * var, 20.0, -300.0])
    ours = likelihood.expected_log_prob(1.0, mean, var)[0]
    expected = np.array([expected_oracle(likelihood, 1.0, m, var) for m in mean])
    np.testing.assert_allclose(ours, expected, rtol=1e-8, atol=1e-290)
    assert np.all(ours <= likelihood.log_predictive(mean, var)[0] + 1e-12)  # Jensen


@pytest.mark.parametrize("likelihood", LINKS, ids=str)
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_expected_log_prob_derivatives(likelihood, y):
    mean, var = (g.ravel() for g in np.meshgrid([-8.0, -1.0, 0.2, 3.0, 9.0], [0.2, 0.97, 1.3, 6.0, 50.0]))
    step = 1e-5
    _, by_mean, by_var = likelihood.expected_log_prob(y, mean, var)

    def value(dm, dv):
        return likelihood.expected_log_prob(y, mean + dm, var + dv)[0]

    np.testing.assert_allclose(by_mean, (value(step, 0) - value(-step, 0)) / (2 * step), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(by_var, (value(0, step) - value(0, -step)) / (2 * step), rtol=1e-6, atol=1e-8)


# ------------------------------------------------------------------------------------------- symmetries

MEAN = np.array([-300.0, -5.0, -0.1, 0.0, 2.0, 30.0])
VAR = np.array([1e4, 0.5, 3.0, 1.0, 1e-3, 20.0])


@pytest.mark.parametrize("likelihood", LINKS, ids=str)
def test_flipping_label_and_latent(likelihood):
    signs = ((1, -1, 1), (1, -1, 1))  # of log z, mean, var; of value, d mean, d var
    for method, sign in zip(("tilted", "expected_log_prob"), signs, strict=True):
        one = getattr(likelihood, method)(1.0, MEAN, VAR)
        other = getattr(likelihood, method)(-1.0, -MEAN, VAR)
        for a, b, s in zip(one, other, sign, strict=True):
            np.testing.assert_array_equal(a, s * b)
    np.testing.assert_array_equal(likelihood.log_prob(1.0, MEAN), likelihood.log_prob(-1.0, -MEAN))


@pytest.mark.parametrize("link", [Probit, Logit])
def test_scale_is_a_rescaled_latent(link):
    s = 0.37
    scaled, unit = link(scale=s), link()
    log_z, centre, spread = scaled.tilted(1.0, MEAN, VAR)
    np.testing.assert_allclose(unit.tilted(1.0, s * MEAN, s**2 * VAR), (log_z, s * centre, s**2 * spread), rtol=1e-12)
    value, by_mean, by_var = scaled.expected_log_prob(-1.0, MEAN, VAR)
    np.testing.assert_allclose(
        unit.expected_log_prob(-1.0, s * MEAN, s**2 * VAR),
        (value, by_mean / s, by_var / s**2),
        rtol=1e-12,
        atol=1e-300,
    )
    np.testing.assert_allclose(unit.log_predictive(s * MEAN, s**2 * VAR), scaled.log_predictive(MEAN, VAR), rtol=1e-12)
    assert link().with_scale(s) == scaled


@pytest.mark.parametrize("likelihood", LINKS, ids=str)
def test_predictive_is_the_tilted_normaliser(likelihood):
    plus, minus = likelihood.log_predictive(MEAN, VAR)
    # the predictive's greater side is log1p of the lesser; the normaliser is a plain sum there, to 1e-12
    np.testing.assert_allclose(plus, likelihood.tilted(1.0, MEAN, VAR)[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(minus, likelihood.tilted(-1.0, MEAN, VAR)[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(np.exp(plus) + np.exp(minus), 1.0, rtol=1e-14)


@pytest.mark.parametrize("likelihood", LINKS, ids=str)
def test_link_and_back(likelihood):
    p = np.array([1e-12, 0.01, 0.5, 0.8])
    f = likelihood.link(p)
    np.testing.assert_allclose(likelihood.inverse_link(f), p, rtol=1e-12)
    plus, minus = likelihood.log_inverse_link(f)
    np.testing.assert_allclose(np.exp(plus), p, rtol=1e-12)
    np.testing.assert_allclose(minus, np.log1p(-p), rtol=1e-12)


def test_shapes_broadcast():
    y, mean, var = np.array([[1.0], [-1.0]]), np.zeros(3), np.ones(3)
    for likelihood in (Probit(), Logit()):
        for out in (*likelihood.tilted(y, mean, var), *likelihood.expected_log_prob(y, mean, var)):
            assert out.shape == (2, 3)
        assert likelihood.tilted(1.0, -9.0, 1.0)[0].shape == ()
        assert all(d.shape == () for d in likelihood.derivatives(1.0, -9.0))
        assert likelihood.tilted(np.ones(0), np.ones(0), np.ones(0))[1].shape == (0,)


# ----------------------------------------------------------------------------------------------- names


def test_names():
    for name, link in LIKELIHOODS.items():
        assert get_likelihood(name) == link()
        assert link.name == name
    chosen = Logit(scale=3.0)
    assert get_likelihood(chosen) is chosen


@pytest.mark.parametrize(("wrong", "hint"), [("probbit", "did you mean 'probit'"), ("Logit", "'logit'"), (3, "Choose")])
def test_unknown_likelihood(wrong, hint):
    with pytest.raises(ValueError, match=hint):
        get_likelihood(wrong)


@pytest.mark.parametrize(
    "settings",
    [
        {"scale": 0.0},
        {"scale": -1.0},
        {"scale": math.inf},
        {"scale_bounds": "free"},
        {"scale_bounds": (2.0, 1.0)},
    ],
)
def test_bad_scale(settings):
    with pytest.raises(ValueError, match="scale"):
        Probit(**settings)


@pytest.mark.slow
@pytest.mark.parametrize("link", [Probit(), Logit(), Probit(0.6)])
def test_powered_moments(link):
    """Against a dense trapezoid, and equal to the plain moments for power one."""
    y, mean, var, power = (
        x.ravel()
        for x in np.meshgrid([-1.0, 1.0], [-30.0, -2.0, 0.3, 6.0], [1e-4, 0.5, 4.0, 15.0, 40.0, 1e4], [1e-3, 0.5, 0.9])
    )
    got = link.powered_tilted(y, mean, var, power)
    for i in range(len(y)):
        f = mean[i] + np.sqrt(var[i]) * np.linspace(-40, 40, 400_001)
        g = power[i] * link.log_prob(y[i], f) - 0.5 * (f - mean[i]) ** 2 / var[i]
        p = np.exp(g - g.max())
        m = (p * f).sum() / p.sum()
        v = (p * (f - m) ** 2).sum() / p.sum()
        log_z = g.max() + np.log(p.sum() * (f[1] - f[0])) - 0.5 * np.log(2 * np.pi * var[i])
        assert got[0][i] == pytest.approx(log_z, rel=1e-8, abs=1e-8)
        assert got[1][i] == pytest.approx(m, rel=1e-7, abs=1e-7 * np.sqrt(v))
        assert got[2][i] == pytest.approx(v, rel=1e-6)
    plain = link.tilted(y, mean, var)
    for a, b in zip(link.powered_tilted(y, mean, var, 1.0), plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("link", [Probit(), Logit()])
@pytest.mark.parametrize("w", [3.0, 10.5, 100.0])
def test_powered_moments_of_weights_above_one(link, w):
    """The factor is curved by as much as its power: against a fine grid."""
    a, b = (x.ravel() for x in np.meshgrid([-6.0, -1.0, 0.0, 3.0], [0.1, 1.0, 4.0, 30.0, 1000.0]))
    got = np.stack(powered.Power(link._log_link, link._slopes).tilt(a, b, np.full(len(a), w)))
    u = np.linspace(-60.0, 400.0, 200_001)
    for i in range(len(a)):
        g = w * link._log_link(u) - 0.5 * (u - a[i]) ** 2 / b[i]
        p = np.exp(g - g.max())
        m = (p * u).sum() / p.sum()
        v = (p * (u - m) ** 2).sum() / p.sum()
        log_z = g.max() + np.log(p.sum() * (u[1] - u[0])) - 0.5 * np.log(2 * np.pi * b[i])
        off = (got[:, i] - [log_z, m, v]) / [1.0, np.sqrt(v), v]
        np.testing.assert_array_less(np.abs(off), 1e-9)


@pytest.mark.parametrize("link", [Probit(), Logit()])
def test_powered_moments_by_either_rule(link, monkeypatch):
    """Equally spaced nodes, a third as many where the cavity is no wider than a few units, agree with panels."""
    rng = np.random.default_rng(0)
    a, b, w = rng.normal(0.0, 5.0, 200), 10 ** rng.uniform(-4.0, 2.0, 200), rng.uniform(0.01, 1.0, 200)
    sizes = []

    def log_link(u):
        sizes.append(u.size)
        return link._log_link(u)

    factor = powered.Power(log_link, link._slopes)
    equal = factor.tilt(a, b, w)
    monkeypatch.setattr(powered, "MOST", 0)
    panels = factor.tilt(a, b, w)
    for one, other, unit in zip(equal, panels, (1.0, np.sqrt(panels[2]), panels[2]), strict=True):
        np.testing.assert_array_less(np.abs(one - other) / unit, 1e-10)
    sizes.clear()
    monkeypatch.undo()
    narrow = b < 5.0
    factor.tilt(a[narrow], b[narrow], w[narrow])
    assert sizes[-1] <= 64 * narrow.sum()
