"""The map from latent mixtures to probabilities: values, Monte Carlo errors, credible intervals, memory."""

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri
from scipy.stats import t as student

from gpclass.inference.diagnostics import chain_figures
from gpclass.inference.mcmc import chain_batches
from gpclass.likelihoods import Likelihood, Logit, Probit
from gpclass.posterior import LatentMixture
from gpclass.predict import mixture_quantile, predict_proba, two, uncertainty

LINKS = [Probit(), Logit(scale=1.7)]


def random_mixture(seed=0, S=40, m=7, shared=True, groups=None, offset=0.0):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(S))
    means = offset + rng.normal(scale=2.0, size=(S, m, 1))
    covariances = rng.gamma(2.0, 0.5, size=(1 if shared else S, m, 1, 1))
    group = np.arange(S) if groups is None else rng.permutation(np.arange(S) % groups)
    return LatentMixture(weights, means, covariances, group)


# ---------------------------------------------------------------------------------------- probabilities


@pytest.mark.parametrize("likelihood", LINKS, ids=str)
def test_single_gaussian_is_the_link_average(likelihood):
    mean, var = np.array([-9.0, -0.3, 0.0, 4.0]), np.array([0.1, 3.0, 1.0, 20.0])
    out = predict_proba(LatentMixture.single(mean, var), likelihood)
    plus, minus = likelihood.log_predictive(mean, var)
    np.testing.assert_array_equal(out.log_proba, np.column_stack([minus, plus]))
    np.testing.assert_allclose(out.proba.sum(axis=1), 1.0, rtol=1e-14)
    assert np.all(np.isnan(out.mcse))


@pytest.mark.parametrize("likelihood", LINKS, ids=str)
@pytest.mark.parametrize("shared", [True, False])
def test_mixture_is_the_weighted_sum(likelihood, shared):
    mixture = random_mixture(shared=shared)
    out = predict_proba(mixture, likelihood)
    for j in range(7):
        terms = []
        for s in range(40):
            var = mixture.covariances[0 if shared else s, j, 0, 0]
            terms.append(mixture.weights[s] * np.exp(likelihood.log_predictive(mixture.means[s, j, 0], var)[0]))
        assert out.proba[j, 1] == pytest.approx(math.fsum(terms), rel=1e-13)
    np.testing.assert_allclose(out.proba.sum(axis=1), 1.0, rtol=1e-13)
    np.testing.assert_allclose(np.exp(out.log_proba), out.proba)


def test_rounding_of_many_draws_in_single_precision_is_within_the_least_stated_error():
    """Equal draws: every rounding of the sum has the same sign. (One product of all 400,000 is off by 2e-6 on
    some processors.)
    """
    S, means = 400_000, np.array([0.0, -0.4, -1.3])
    g = np.asfortranarray(np.broadcast_to(ndtr(means).astype(np.float32), (S, 3)))
    groups = np.arange(0, S, S // 4)
    sums = two._sums(np.full(S, 1.0 / S), g, groups, np.arange(S))
    np.testing.assert_allclose(4 * sums, np.broadcast_to(ndtr(means), (4, 3)), rtol=0.0, atol=two.SINGLE)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_small_probabilities_keep_their_digits(sign):
    # p near 1e-12 and near 1e-300, whichever class is the rare one
    for target in (1e-12, 1e-300):
        rng = np.random.default_rng(5)
        z = ndtri(target) + 0.1 * rng.normal(size=30)
        w = rng.dirichlet(np.ones(30))
        mixture = LatentMixture(w, sign * z[:, None, None] * 2.0, np.full((1, 1, 1, 1), 3.0), np.arange(30))
        out = predict_proba(mixture, Probit())
        rare = 1 if sign > 0 else 0
        expected = logsumexp(log_ndtr(z), b=w)  # mean 2z, variance 3: Φ(2z/√4)
        assert math.expm1(out.log_proba[0, rare] - expected) == pytest.approx(0.0, abs=1e-10)
        spread = np.exp(log_ndtr(z) - expected) - 1.0
        relative = math.sqrt(np.sum(w**2 * spread**2) * 30 / 29) * wider(30)
        assert out.mcse[0, 0] / np.exp(expected) == pytest.approx(relative, rel=1e-9)
    assert 1.0 - (1.0 - 1e-20) == 0.0  # the control: a complement would have no digits left


def test_components_without_weight_do_not_count():
    mixture = random_mixture()
    weights = np.append(mixture.weights, 0.0)
    means = np.append(mixture.means, np.full((1, 7, 1), 99.0), axis=0)
    extended = LatentMixture(weights, means, mixture.covariances, np.arange(41))
    np.testing.assert_allclose(
        predict_proba(extended, Logit()).log_proba, predict_proba(mixture, Logit()).log_proba, rtol=1e-13
    )
    far = LatentMixture(
        np.array([0.5, 0.5, 0.0]),
        np.array([-40.0, -41.0, 40.0])[:, None, None],
        np.ones((1, 1, 1, 1)),
        np.arange(3),
    )
    assert 0.0 < predict_proba(far, Probit()).mcse[0, 1] < 1e-170
    np.testing.assert_allclose(mixture_quantile(extended, 0.9), mixture_quantile(mixture, 0.9), rtol=1e-8)


@pytest.mark.parametrize("groups", [None, 6])
def test_blocks_change_nothing(monkeypatch, groups):
    mixture = random_mixture(groups=groups)
    whole = uncertainty(mixture, Logit())
    monkeypatch.setattr(two, "_CELLS", 90)  # two points at a time
    parts = uncertainty(mixture, Logit())
    for name in ("proba", "mcse", "lower", "upper"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-12)


def test_memory_stays_bounded():
    S, m = 1500, 6000
    mixture = random_mixture(S=S, m=m, groups=30)
    assert S * m * 4 > 2**25  # a full array is above the bound, even in single precision
    for work in (lambda: predict_proba(mixture, Probit()), lambda: mixture_quantile(mixture, 0.05)):
        tracemalloc.start()
        work()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2**25


def test_memory_bound_is_the_blocks_doing(monkeypatch):
    monkeypatch.setattr(two, "_CELLS", 10**9)
    with pytest.raises(AssertionError):
        test_memory_stays_bounded()


# ------------------------------------------------------------------------------------ Monte Carlo error


def wider(groups):
    return student.ppf(ndtr(2.0), groups - 1) / 2


def mcse_by_hand(mixture, likelihood):
    """The delta method written out, group by group."""
    var = np.broadcast_to(mixture.covariances, (len(mixture.weights), *mixture.covariances.shape[1:]))[..., 0, 0]
    g = np.exp(likelihood.log_predictive(mixture.means[..., 0], var)[0])
    p = mixture.weights @ g
    names = sorted(set(mixture.group.tolist()))
    total = np.zeros(g.shape[1])
    for name in names:
        total += sum(mixture.weights[s] * (g[s] - p) for s in np.flatnonzero(mixture.group == name)) ** 2
    return np.sqrt(total * len(names) / (len(names) - 1)) * wider(len(names))


@pytest.mark.parametrize("groups", [None, 2, 9])
@pytest.mark.parametrize("shared", [True, False])
def test_mcse_is_the_formula(groups, shared):
    mixture = random_mixture(groups=groups, shared=shared)
    out = predict_proba(mixture, Probit())
    for column in out.mcse.T:
        np.testing.assert_allclose(column, mcse_by_hand(mixture, Probit()), rtol=1e-11)


def test_one_group_has_no_known_error():
    assert np.all(np.isnan(predict_proba(random_mixture(groups=1), Probit()).mcse))


def importance_z_scores(repeats, groups, size, within, pretend_independent=False):
    """z = (estimate - truth)/mcse of self-normalised importance averages.

    Target: f ~ N(0, 1) weighted by Φ(1.5 f), and f* | f ~ N(0.8 f, 0.5); proposal f ~ N(0.3, 1.2²) with
    correlation `within` among the draws of a group. Truth by the trapezoidal rule.
    """
    x = np.linspace(-12.0, 12.0, 4001)
    posterior = np.exp(-0.5 * x**2 + log_ndtr(1.5 * x))
    truth = posterior @ ndtr(0.8 * x / math.sqrt(1.5)) / posterior.sum()
    rng = np.random.default_rng(2024)
    S = groups * size
    z = np.empty(repeats)
    for r in range(repeats):
        common = np.repeat(rng.normal(size=groups), size)
        f = 0.3 + 1.2 * (math.sqrt(within) * common + math.sqrt(1.0 - within) * rng.normal(size=S))
        log_w = -0.5 * f**2 + log_ndtr(1.5 * f) + 0.5 * ((f - 0.3) / 1.2) ** 2
        group = np.arange(S) if pretend_independent else np.repeat(np.arange(groups), size)
        mixture = LatentMixture(
            np.exp(log_w - logsumexp(log_w)), 0.8 * f[:, None, None], np.full((1, 1, 1, 1), 0.5), group
        )
        out = predict_proba(mixture, Probit())
        z[r] = (out.proba[0, 1] - truth) / out.mcse[0, 1]
    return z


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "size", "within"), [(200, 1, 0.0), (60, 8, 0.5)])
def test_mcse_is_calibrated(groups, size, within):
    z = importance_z_scores(500, groups, size, within)
    assert 0.85 < math.sqrt(np.mean(z**2)) < 1.15


@pytest.mark.slow
def test_calling_dependent_draws_independent_fails():
    z = importance_z_scores(500, 60, 8, 0.5, pretend_independent=True)
    assert math.sqrt(np.mean(z**2)) > 1.15


# ------------------------------------------------------------------------------------ credible intervals


def mixture_cdf(mixture, j, q):
    sd = np.sqrt(np.broadcast_to(mixture.covariances[:, j, 0, 0], len(mixture.weights)))
    return mixture.weights @ ndtr((q - mixture.means[:, j, 0]) / sd)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("level", [1e-4, 0.05, 0.5, 0.95])
def test_quantile_inverts_the_mixture(shared, level):
    mixture = random_mixture(shared=shared, m=12)
    ours = mixture_quantile(mixture, level)
    for j in range(12):
        root = brentq(lambda q, j=j: mixture_cdf(mixture, j, q) - level, -50.0, 50.0, xtol=1e-13)
        assert ours[j] == pytest.approx(root, abs=1e-8)


def test_quantile_between_far_modes_and_narrow_components():
    # nearly no density between the modes: Newton alone would be thrown out
    means = np.array([-100.0, -99.0, 100.0, 101.0])[:, None, None]
    for sd in (1.0, 1e-3, 1e-5):
        mixture = LatentMixture(np.array([0.1, 0.3, 0.35, 0.25]), means, np.full((1, 1, 1, 1), sd**2), np.arange(4))
        for level in (0.05, 0.2, 0.39, 0.41, 0.7, 0.9):
            q = mixture_quantile(mixture, level)[0]
            assert mixture_cdf(mixture, 0, q) == pytest.approx(level, abs=1e-6)


def test_quantile_of_draws_without_variance():
    means = np.array([3.0, -1.0, 0.0, 7.0])[:, None, None]
    mixture = LatentMixture(np.array([0.1, 0.3, 0.35, 0.25]), means, np.zeros((1, 1, 1, 1)), np.arange(4))
    levels = (0.05, 0.29, 0.31, 0.64, 0.66, 0.74, 0.76, 0.99)
    found = [float(mixture_quantile(mixture, level)[0]) for level in levels]
    np.testing.assert_allclose(found, [-1.0, -1.0, 0.0, 0.0, 3.0, 3.0, 7.0, 7.0], atol=1e-8)


@pytest.mark.parametrize("likelihood", LINKS, ids=str)
def test_interval_holds_its_level(likelihood):
    mixture = random_mixture(shared=False)
    out = uncertainty(mixture, likelihood, level=0.8)
    low, high = likelihood.link(out.lower[:, 1]), likelihood.link(out.upper[:, 1])
    for j in range(7):
        assert mixture_cdf(mixture, j, low[j]) == pytest.approx(0.1, abs=1e-8)
        assert mixture_cdf(mixture, j, high[j]) == pytest.approx(0.9, abs=1e-8)
    np.testing.assert_allclose(out.lower[:, 0], 1.0 - out.upper[:, 1], atol=1e-14)
    np.testing.assert_allclose(out.upper[:, 0], 1.0 - out.lower[:, 1], atol=1e-14)
    np.testing.assert_array_equal(out.proba, predict_proba(mixture, likelihood).proba)
    np.testing.assert_allclose(out.latent_mean, mixture.mean())
    np.testing.assert_allclose(out.latent_sd**2, mixture.variance())
    assert out.lower.shape == out.upper.shape == out.mcse.shape == (7, 2)
    assert out.latent_sd.shape == (7, 1)


@pytest.mark.parametrize("likelihood", LINKS, ids=str)
def test_interval_of_one_gaussian_in_closed_form(likelihood):
    mean, var = np.array([-9.0, -0.3, 4.0]), np.array([0.1, 3.0, 20.0])
    out = uncertainty(LatentMixture.single(mean, var), likelihood, level=0.9)
    half = ndtri(0.95) * np.sqrt(var)
    np.testing.assert_allclose(out.lower[:, 1], likelihood.inverse_link(mean - half), rtol=1e-12)
    np.testing.assert_allclose(out.upper[:, 1], likelihood.inverse_link(mean + half), rtol=1e-12)
    # a mixture of equal components is that component
    many = LatentMixture(
        np.full(5, 0.2), np.tile(mean[None, :, None], (5, 1, 1)), var[None, :, None, None], np.arange(5)
    )
    same = uncertainty(many, likelihood, level=0.9)
    np.testing.assert_allclose(same.lower, out.lower, rtol=1e-9)
    np.testing.assert_allclose(same.mcse, 0.0, atol=1e-15)


# ------------------------------------------------------------------------------------------------ input


@pytest.mark.parametrize("level", [0.0, 1.0, -0.3, 90, math.nan])
def test_bad_level(level):
    with pytest.raises(ValueError, match="between 0 and 1"):
        uncertainty(random_mixture(), Probit(), level=level)


def test_several_latents_are_refused():
    mixture = LatentMixture(np.ones(1), np.zeros((1, 2, 3)), np.zeros((1, 2, 3, 3)), np.zeros(1, dtype=np.intp))
    with pytest.raises(ValueError, match="one latent value per point"):
        predict_proba(mixture, Probit())


@pytest.mark.parametrize("likelihood", [Probit(), Logit(), Logit(0.4)])
@pytest.mark.parametrize("groups", [1500, 20, 100])
def test_fast_sums_equal_sums_in_logs(likelihood, groups, monkeypatch):
    """The path for ordinary probabilities against the one in logs, which serves all when RARE is one half."""
    import gpclass.predict.two as module

    rng = np.random.default_rng(0)
    w = rng.random(1500)
    centres = np.array([-9.0, -1.0, 0.0, 2.0, 30.0])
    mixture = LatentMixture(
        weights=w / w.sum(),
        means=(centres + rng.standard_normal((1500, 5)) * [0.5, 3.0, 1.0, 0.1, 2.0])[:, :, None],
        covariances=rng.uniform(0.01, 4.0, (1, 5, 1, 1)),
        group=rng.integers(groups, size=1500) if groups < 1500 else np.arange(1500),
    )
    fast = predict_proba(mixture, likelihood)
    monkeypatch.setattr(module, "RARE", 0.51)
    monkeypatch.setattr(module, "FEW_RARE", 0.51)
    slow = predict_proba(mixture, likelihood)
    np.testing.assert_allclose(fast.proba, slow.proba, atol=1e-6)  # in single precision
    np.testing.assert_allclose(fast.log_proba, slow.log_proba, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(fast.mcse, slow.mcse, rtol=1e-3, atol=1e-12)


@pytest.mark.parametrize("likelihood", [Probit(), Logit()])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_rare_classes_of_many_components_without_logs(likelihood, sign):
    """Probabilities between 1e-5 and 1e-3 come from single precision, with their relative accuracy."""
    rng = np.random.default_rng(0)
    centres = sign * np.array([5.0, 5.5, 6.0] if likelihood.name == "probit" else [8.0, 9.0, 10.0])
    means = centres + rng.standard_normal((4000, 3))
    mixture = LatentMixture(np.full(4000, 1 / 4000), means[..., None], np.full((1, 3, 1, 1), 0.4), np.arange(4000) % 20)
    got = predict_proba(mixture, likelihood)
    plus, minus = likelihood.log_predictive(means, np.full((1, 3), 0.4))
    truth = np.exp(minus if sign > 0 else plus).mean(axis=0)
    assert np.all((truth > 1e-5) & (truth < 2e-3))
    np.testing.assert_allclose(got.proba.min(axis=1), truth, rtol=1e-3)


def test_quantiles_of_many_components():
    """Thinned components give the quantile of all to what an interval needs."""
    rng = np.random.default_rng(1)
    w = rng.random(20_000)
    mixture = LatentMixture(
        w / w.sum(), rng.standard_normal((20_000, 2, 1)), np.full((1, 2, 1, 1), 0.5), np.arange(20_000)
    )
    # thinned to 4000 draws, whose own error is sqrt(0.9·0.1/4000) over the density there
    truth = ndtri(0.9) * np.sqrt(1.5)
    error = np.sqrt(0.09 / 4000) / (np.exp(-0.5 * truth**2 / 1.5) / np.sqrt(2 * np.pi * 1.5))
    np.testing.assert_allclose(mixture_quantile(mixture, 0.9), truth, atol=4 * error)


@pytest.mark.parametrize("centre", [0.0, 3000.0])
def test_quantiles_on_bins_equal_those_of_all_components(centre, monkeypatch):
    """In single precision, also far from zero and for two modes."""
    rng = np.random.default_rng(2)
    w = rng.random(3000)
    means = centre + rng.standard_normal((3000, 3)) * [1.0, 0.01, 2.0] + [0.0, 0.0, 5.0] * (rng.random((3000, 1)) < 0.3)
    mixture = LatentMixture(
        w / w.sum(), means[..., None], np.array([0.5, 1e-6, 0.1])[None, :, None, None], np.arange(3000)
    )
    levels = (0.025, 0.5, 0.95)
    binned = np.array(two.mixture_quantiles(mixture, levels))
    monkeypatch.setattr(two, "BINNED", 5000)
    every = np.array(two.mixture_quantiles(mixture, levels))
    sd = np.sqrt(mixture.variance()[:, 0])
    assert np.abs((binned - every) / sd).max() < 0.02  # a bin is 0.06 to 0.1 of these
    monkeypatch.setattr(two, "BINNED", 500)
    monkeypatch.setattr(two, "BINS", 8)
    assert np.abs((np.array(two.mixture_quantiles(mixture, levels)) - every) / sd).max() > 0.02


def autoregressive(chains, draws, rho, m, rng):
    """Stationary AR(1) chains of N(0, 1), m independent sets of them, (chains, draws, m)."""
    x = np.empty((chains, draws, m))
    x[:, 0] = rng.standard_normal((chains, m))
    for k in range(1, draws):
        x[:, k] = rho * x[:, k - 1] + math.sqrt(1 - rho**2) * rng.standard_normal((chains, m))
    return x


@pytest.mark.slow
@pytest.mark.parametrize("chains", [2, 4, 8])
@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_two_errors_cover_the_truth_with_few_chains(chains, rho):
    """Each point has its own chains of mean zero: p = ½ there, and ±2 mcse must hold it as often as ±2 sd."""
    x = autoregressive(chains, 250, rho, 3000, np.random.default_rng(5))
    S = chains * 250
    group = np.repeat(np.arange(chains), 250)
    mixture = LatentMixture(np.full(S, 1 / S), x.reshape(S, -1, 1), np.full((1, x.shape[2], 1, 1), 0.3), group)
    out = predict_proba(mixture, Probit())
    covered = np.mean(np.abs(out.proba[:, 1] - 0.5) < 2 * out.mcse[:, 1])
    assert 0.93 < covered < 0.97
    plain = mcse_by_hand(mixture, Probit()) / wider(chains)  # negative control: without Student's factor
    assert np.mean(np.abs(out.proba[:, 1] - 0.5) < 2 * plain) < 0.92


@pytest.mark.slow
@pytest.mark.parametrize(("rho", "fewest"), [(0.0, 60), (0.5, 24), (0.9, 8), (0.99, 8)])
def test_batches_of_chains_cover_the_truth(rho, fewest):
    """Chains that mix are cut into batches, so that the error itself is known well."""
    chains, draws, points = 8, 250, 1500
    x = autoregressive(chains, draws, rho, points, np.random.default_rng(6))
    group = chain_batches(np.repeat(np.arange(chains), draws), chain_figures(x[:, :, :20]).ess_bulk)
    assert len(np.unique(group)) >= fewest
    S = chains * draws
    mixture = LatentMixture(np.full(S, 1 / S), x.reshape(S, -1, 1), np.full((1, points, 1, 1), 0.3), group)
    out = predict_proba(mixture, Probit())
    assert np.mean(np.abs(out.proba[:, 1] - 0.5) < 2 * out.mcse[:, 1]) > 0.92
    if rho == 0.99:  # negative control: batches regardless of the effective size
        out = predict_proba(replace(mixture, group=np.repeat(np.arange(64), 32)[:S]), Probit())
        assert np.mean(np.abs(out.proba[:, 1] - 0.5) < 2 * out.mcse[:, 1]) < 0.9


class FromLogAlone(Likelihood):
    """Probit, as one who knows only the likelihood itself would write it."""

    name, many = "from-log-alone", False

    def log(self, y, f):
        return log_ndtr(y * f[..., 0, :])

    def draw_labels(self, f, rng):
        raise NotImplementedError


def test_a_likelihood_predicts_from_its_log_alone():
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(7))
    mixture = LatentMixture(weights, rng.normal(size=(7, 5, 1)), rng.random((1, 5, 1, 1)), np.arange(7))
    got, truth = (uncertainty(mixture, one) for one in (FromLogAlone(), Probit()))
    np.testing.assert_allclose(got.proba, truth.proba, atol=1e-4)
    np.testing.assert_allclose(got.mcse, truth.mcse, atol=1e-4)
    np.testing.assert_allclose(got.lower, truth.lower, atol=0.03)
    np.testing.assert_allclose(got.upper, truth.upper, atol=0.03)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bins_of_means_that_rounding_hardly_separates(dtype):
    """Sixty-four neighbouring numbers: half a bin is less than the least difference."""
    ulp = np.spacing(dtype(1.25))
    for first in range(4):
        mu = np.tile(dtype(1.25) + ulp * (first + np.arange(64, dtype=dtype)), 10)[:, None]
        low, mass, *_ = two._binned(np.full(len(mu), 1.0 / len(mu)), mu, np.ones(1))
        assert mass.sum() == pytest.approx(1.0, rel=1e-5)
        assert low[0] == mu.min()
