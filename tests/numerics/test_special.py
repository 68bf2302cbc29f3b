"""Special functions against dense quadrature written in offsets from the edge, where nothing cancels."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import erfcx, log_expit, log_ndtr, logsumexp, ndtr, ndtri_exp

from gpclass.numerics import special

LEGENDRE_X, LEGENDRE_W = np.polynomial.legendre.leggauss(20)


def box_oracle(a: float, b: float) -> tuple[float, float, float, float]:
    """The log mass, mean offset from a, variance, third central moment of a normal on [a, b], |a| <= |b|.

    1000 panels of 20 Gauss-Legendre nodes over the offset t = x - a: density exp(-a t - t²/2).
    """
    edge = max(a, 0.0)
    reach = max(-a, 0.0) + 160.0 / (math.sqrt(edge**2 + 160.0) + edge)  # falls by exp(-80)
    width = min(b - a, reach)
    panels = np.linspace(0.0, width, 1001)
    half = 0.5 * width / 1000
    t = (panels[:-1, None] + half * (1.0 + LEGENDRE_X)).ravel()
    log_density = -t * (a + 0.5 * t)
    top = log_density.max()
    p = np.tile(LEGENDRE_W, 1000) * half * np.exp(log_density - top)
    total = p.sum()
    p /= total
    mean = p @ t
    log_z = math.log(total) + top - 0.5 * a * a - 0.5 * math.log(2 * math.pi)
    return log_z, mean, p @ (t - mean) ** 2, p @ (t - mean) ** 3


def logistic_oracle(a: float, b: float, n: int = 100_001) -> float:
    """The log of E σ(u), u ~ N(a, b): trapezoidal rule in standard units over all that is within exp(-60)."""
    sd = math.sqrt(b)

    def log_integrand(x):
        return -0.5 * x * x + log_expit(a + sd * x)

    low, high = -80.0, 80.0 + sd + 2 * abs(a) / sd
    for _ in range(60):
        x = np.linspace(low, high, 2001)
        g = log_integrand(x)
        keep = np.flatnonzero(g > g.max() - 60.0)
        low, high = x[max(keep[0] - 1, 0)], x[min(keep[-1] + 1, 2000)]
    x = np.linspace(low, high, n)
    return float(logsumexp(log_integrand(x)) + math.log((high - low) / (n - 1)) - 0.5 * math.log(2 * math.pi))


# ---------------------------------------------------------------------------------------------- hazard

ZS = [-1e8, -1e4, -200.0, -38.0, -12.0, -5.001, -4.999, -3.0, -0.5, 0.0, 1.0, 4.0, 8.0]


@pytest.mark.parametrize("z", ZS)
def test_hazard_terms_are_the_cumulants_of_a_cut_normal(z):
    # log ∫_0^∞ exp(z t - t²/2) dt = log Φ(z) + z²/2 + const: its derivatives are cumulants of the offset t
    log_z, mean, variance, third = box_oracle(-z, math.inf)
    h, excess, tau, kappa = special.hazard_terms(z)
    assert excess == pytest.approx(mean, rel=1e-12)
    assert tau == pytest.approx(variance, rel=1e-11)
    if z < 3.0:  # the oracle's third moment is a small difference beyond
        assert h * kappa == pytest.approx(third, rel=1e-9)
    assert h == pytest.approx(mean - z, rel=1e-13)
    assert special.normal_hazard(z) == pytest.approx(mean - z, rel=1e-13)
    if z > -40.0:  # the density itself, where its log has digits to spare
        assert np.log(h) == pytest.approx(-0.5 * z * z - 0.5 * math.log(2 * math.pi) - log_z, abs=1e-12)


@pytest.mark.parametrize("z", ZS)
def test_scalar_hazard_equals_the_vector_one(z):
    log_p, h, excess, tau = special.hazard_terms_scalar(z)
    assert log_p == pytest.approx(float(log_ndtr(z)), rel=1e-13)
    for ours, other in zip((h, excess, tau), special.hazard_terms(z), strict=False):
        assert ours == pytest.approx(float(other), rel=1e-11)


def test_hazard_limits():
    h, _, tau, _ = special.hazard_terms(np.array([np.inf, 40.0]))
    np.testing.assert_array_equal(h, 0.0)
    np.testing.assert_array_equal(tau, 1.0)
    assert special.normal_hazard(-1e10) == pytest.approx(1e10, rel=1e-15)


# --------------------------------------------------------------------------------------------- boxes

STARTS = [-9.0, -3.0, -0.7, -0.1, 0.0, 0.2, 1.0, 4.0, 10.0, 37.0, 39.0, 200.0, 1e4, 1e6]
WIDTHS = [1e-12, 1e-9, 1e-6, 1e-3, 0.1, 0.5, 1.0, 3.0, 8.0, 14.0, 30.0, np.inf]


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("start", STARTS)
def test_box_mass_and_moments(start, mirror):
    for width in WIDTHS:
        a, b = start, start + width
        if not b > a:
            continue
        if abs(a) <= abs(b):
            log_z, offset, variance, _ = box_oracle(a, b)
            mean = a + offset
        else:
            log_z, offset, variance, _ = box_oracle(-b, -a)
            mean = b - offset
        if mirror:
            a, b, mean = -b, -a, -mean
        ours = special.truncated_normal_moments(a, b)
        scale = max(1.0, abs(log_z))  # a log of 1e12 has no more than 16 digits
        assert abs(ours[0] - log_z) < 1e-13 * scale
        assert abs(special.log_diff_ndtr(a, b) - log_z) < 1e-13 * scale
        assert abs(ours[1] - mean) < 1e-11 * math.sqrt(variance) + 2 * math.ulp(a if np.isfinite(a) else b)
        assert ours[2] == pytest.approx(variance, rel=1e-11)


def test_plain_difference_would_fail_where_the_box_is_far_or_narrow():
    # the control: the textbook formula misses what the test above asks for
    far = np.log(max(ndtr(11.0) - ndtr(10.0), 1e-320))
    assert abs(far - box_oracle(10.0, 11.0)[0]) > 1.0
    a, b = 1.0, 1.0 + 1e-6
    z = ndtr(b) - ndtr(a)
    density = np.exp(-0.5 * np.array([a, b]) ** 2) / math.sqrt(2 * math.pi)
    mean = (density[0] - density[1]) / z
    variance = 1 + (a * density[0] - b * density[1]) / z - mean**2
    assert abs(variance / box_oracle(a, b)[2] - 1) > 1.0


def test_infinite_limits():
    ours = special.log_diff_ndtr([-np.inf, 1.0, -np.inf], [np.inf, np.inf, 1.0])
    np.testing.assert_allclose(ours, [0.0, log_ndtr(-1.0), log_ndtr(1.0)], atol=1e-16)
    log_z, mean, variance = special.truncated_normal_moments(-np.inf, np.inf)
    assert (float(log_z), float(mean), float(variance)) == (0.0, 0.0, 1.0)


def test_neighbouring_boxes_add_up():
    rng = np.random.default_rng(3)
    a, c, b = np.sort(rng.normal(scale=12.0, size=(3, 500)), axis=0)
    parts = np.logaddexp(special.log_diff_ndtr(a, c), special.log_diff_ndtr(c, b))
    np.testing.assert_allclose(parts, special.log_diff_ndtr(a, b), rtol=1e-12, atol=1e-15)


# ------------------------------------------------------------------------------------------- quantiles

BOXES = [
    (-math.inf, math.inf), (-1.0, math.inf), (3.0, math.inf), (-8.0, math.inf), (24.9, math.inf),
    (25.1, math.inf), (-math.inf, -28.0), (1.0, 1.0 + 1e-6), (-3.0, 4.0), (30.0, 30.001),
    (30.0, 31.0), (-31.0, -30.0), (5.0, 9.0), (-9.0, -8.0), (-0.2, 0.1),
]  # fmt: skip


@pytest.mark.parametrize("box", BOXES)
def test_quantile_inverts_the_mass(box):
    a, b = box
    u = np.array([1e-9, 1e-3, 0.1, 0.5, 0.9, 0.999, 1.0 - 1e-9])
    x = special.truncated_normal_quantile(u, a, b)
    assert np.all((x >= a) & (x <= b))
    log_z = special.log_diff_ndtr(a, b)
    below = np.exp(special.log_diff_ndtr(np.full(7, a), x) - log_z)
    above = np.exp(special.log_diff_ndtr(x, np.full(7, b)) - log_z)
    # x is a double: the mass it cuts off is known to the density times its spacing, and to rounding
    density = np.exp(-0.5 * x**2 - 0.5 * math.log(2 * math.pi) - log_z)
    resolution = 4 * np.spacing(np.abs(x)) * density + 1e-15
    assert np.all(np.abs(below - u) <= 1e-11 * u + resolution)
    assert np.all(np.abs(above - (1.0 - u)) <= 1e-11 * (1.0 - u) + resolution)


@pytest.mark.parametrize("a", [25.1, 100.0, 1e4, 1e6])
def test_quantile_far_out(a):
    u = np.array([1e-3, 0.1, 0.5, 0.9, 0.999, 1.0 - 1e-9])
    x = special.truncated_normal_quantile(u, a, np.inf)
    # log Q(x)/Q(a) in offsets from a
    log_left = -0.5 * (x - a) * (x + a) + np.log(erfcx(x / math.sqrt(2)) / erfcx(a / math.sqrt(2)))
    np.testing.assert_allclose(log_left, np.log1p(-u), rtol=1e-12, atol=4 * a * np.spacing(a))


def test_fast_quantile_equals_the_logarithmic_one():
    rng = np.random.default_rng(0)
    u, a = rng.random(4000), rng.uniform(-6.0, 35.0, 4000)
    slow = -ndtri_exp(np.log1p(-u) + log_ndtr(-a))
    close = {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(special.truncated_normal_quantile(u, a, np.inf), slow, **close)
    np.testing.assert_allclose(special.truncated_normal_quantile(u, a, np.full(4000, np.inf)), slow, **close)
    mirrored = special.truncated_normal_quantile(1.0 - u, -np.inf, -a)
    np.testing.assert_allclose(mirrored, -slow, **close)


def test_draws_far_out_follow_the_exponential_law():
    a = 1e6
    x = special.truncated_normal_quantile(np.random.default_rng(1).random(40_000), a, np.inf)
    scaled = (x - a) * a  # Exp(1) up to 1/a²
    assert abs(scaled.mean() - 1.0) < 4 / 200
    assert abs(scaled.std() - 1.0) < 4 * 2 / 200  # var of the sample sd of an exponential: 2/n
    through_logs = -ndtri_exp(np.log1p(-np.random.default_rng(1).random(40_000)) + log_ndtr(-1e9)) - 1e9
    assert abs((through_logs * 1e9).mean() - 1.0) > 4 / 200  # the control: logs of Q lose the draw


# -------------------------------------------------------------------------------------------- logistic

DEVIATIONS = (-40.0, -8.0, -7.1, -6.9, -3.0, -1.0, 2.0)
PAIRS = [
    (mean, var)
    for var in (1e-8, 0.01, 0.99, 1.01, 4.0, 30.0, 1e3, 1e5, 1e6)
    for mean in (0.0, -0.5 * var, -var, *(k * math.sqrt(var) for k in DEVIATIONS), -27.0, -700.0)
]


@pytest.mark.slow
def test_logistic_normal_small_probabilities():
    mean, var = np.array(PAIRS).T
    expected = np.array([logistic_oracle(-abs(m), v) for m, v in PAIRS])
    plus, minus = special.logistic_normal(mean, var)
    lesser = np.minimum(plus, minus)
    np.testing.assert_allclose(np.expm1(lesser - expected), 0.0, atol=1e-9)
    assert lesser.min() < math.log(1e-300)
    np.testing.assert_allclose(np.exp(plus) + np.exp(minus), 1.0, rtol=1e-15)


def test_logistic_normal_at_one_in_a_million_million():
    # mean moved until p = 1e-12, at several variances: the value users see in log loss
    x, w = np.polynomial.hermite_e.hermegauss(20)
    for var in (0.1, 2.0, 9.0, 100.0, 400.0):
        mean = brentq(lambda m, v=var: logistic_oracle(m, v, 4001) - math.log(1e-12), -500.0, -20.0)
        plus, _ = special.logistic_normal(mean, var)
        assert plus == pytest.approx(math.log(1e-12), abs=1e-6)
        assert np.exp(plus - logistic_oracle(mean, var)) == pytest.approx(1.0, abs=1e-10)
        gauss_hermite = np.log(w @ np.exp(log_expit(mean + math.sqrt(var) * x)) / w.sum())
        if var >= 100.0:  # the control: the usual rule is not good enough here
            assert abs(np.expm1(gauss_hermite - plus)) > 1e-6


def test_logistic_normal_without_variance_scale_and_symmetry():
    mean = np.array([-800.0, -30.0, 0.0, 2.0, 50.0])
    plus, minus = special.logistic_normal(mean, 0.0)
    np.testing.assert_allclose(plus, log_expit(mean), rtol=1e-13, atol=1e-300)
    np.testing.assert_allclose(minus, log_expit(-mean), rtol=1e-13, atol=1e-300)
    scaled = special.logistic_normal(mean, 3.0, 0.7)
    np.testing.assert_allclose(scaled, special.logistic_normal(0.7 * mean, 0.49 * 3.0), rtol=1e-13)
    np.testing.assert_allclose(scaled[0], special.logistic_normal(-mean, 3.0, 0.7)[1], rtol=1e-15)
    assert special.logistic_normal(np.zeros((2, 3)), np.ones((1, 3)))[0].shape == (2, 3)


def test_log_diff_ndtr_is_never_above_zero_nor_nan():
    """Limits up to the largest float, and intervals of one unit in the last place."""
    size = np.array([0, 1e-320, 1e-20, 1.0, 37, 1e4, 1e8, 1e15, 1e17, 1e100, 1e154, 1e155, 1e300, np.inf])
    ends = np.unique(np.concatenate([-size, size, np.nextafter(size, np.inf), size + 1e-9, 1.5 * size]))
    a, b = np.meshgrid(ends, ends)
    a, b = a[(a < b) & (a < np.inf)], b[(a < b) & (a < np.inf)]
    assert (special.log_diff_ndtr(a, b) <= 0).all()
    np.testing.assert_array_equal(special.log_diff_ndtr(a, b), special.log_diff_ndtr(-b, -a))
    near = special.log_diff_ndtr(1e15, 1e15 + 0.125)  # the nearer end decides, to the last digit
    assert float(near) == pytest.approx(float(special.log_diff_ndtr(1e15, np.inf)), rel=1e-15)
