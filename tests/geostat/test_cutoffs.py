"""Distributions of a continuous variable by kriging at several cut-offs."""

import numpy as np
import pytest
from scipy import integrate
from sklearn.gaussian_process.kernels import Matern, WhiteKernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from gpclass.geostat import ConditionalDistribution, CutoffKriging, IndicatorKriging, VariogramModel
from gpclass.geostat.cutoffs import order_relations

KERNEL = 0.2 * Matern(1.5, nu=1.5) + WhiteKernel(0.02)


def data(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 6, (n, 2))
    v = np.exp(np.sin(X[:, 0]) + np.cos(X[:, 1]) + 0.2 * rng.standard_normal(n))
    return X, v, rng.uniform(0, 6, (200, 2))


@parametrize_with_checks([CutoffKriging(4), CutoffKriging(4, transform="simplicial", neighbours=10)])
def test_estimator_checks(estimator, check):
    check(estimator)


def test_order_relations():
    raw = np.array([[0.2, 0.5, 0.4, 0.9], [-0.1, 0.2, 1.1, 1.0], [0.1, 0.2, 0.3, 0.4]])
    found = order_relations(raw)
    assert np.all(np.diff(found, axis=1) >= 0)
    assert np.all((found >= 0) & (found <= 1))
    np.testing.assert_allclose(found[0], [0.2, 0.45, 0.45, 0.9])
    np.testing.assert_allclose(found[2], raw[2])


def test_classical_breaks_the_order_and_simplicial_does_not():
    X, v, Z = data()
    classical = CutoffKriging([0.5, 1, 2, 4], kernel=KERNEL).fit(X, v).predict_distribution(Z)
    simplicial = CutoffKriging([0.5, 1, 2, 4], kernel=KERNEL, transform="simplicial").fit(X, v).predict_distribution(Z)
    assert classical.corrected > 0
    assert classical.largest_correction > 0
    assert simplicial.corrected == 0
    for found in (classical, simplicial):
        assert np.all(np.diff(found.F, axis=1) >= 0)
        assert np.all((found.F >= 0) & (found.F <= 1))


@pytest.mark.parametrize("transform", ["classical", "simplicial"])
def test_one_cutoff_is_indicator_kriging(transform):
    X, v, Z = data()
    found = CutoffKriging([1.0], kernel=KERNEL, transform=transform).fit(X, v).predict_distribution(Z)
    alone = IndicatorKriging(transform, kernel=KERNEL).fit(X, v > 1.0)
    np.testing.assert_allclose(found.exceedance(1.0), np.clip(alone.predict_indicator(Z), 0, 1), atol=1e-10)


@pytest.mark.parametrize("settings", [{}, {"neighbours": 12}, {"ordinary": True}])
def test_shared_weights_equal_one_kriging_a_cutoff(settings):
    X, v, Z = data()
    model = CutoffKriging([0.5, 1, 2, 4], **settings).fit(X, v)
    alone = np.column_stack([one.predict_indicator(Z) for one in model.estimators_])
    np.testing.assert_allclose(model.predict_distribution(Z).F, order_relations(alone), atol=1e-10)
    assert len({str(one.kernel_) for one in model.estimators_}) == 1


def test_a_variogram_for_each_cutoff():
    X, v, Z = data(300)
    each = CutoffKriging(3, variogram="each").fit(X, v)
    assert len({str(one.kernel_) for one in each.estimators_}) > 1
    alone = [IndicatorKriging().fit(X, v <= z).predict_indicator(Z) for z in each.cutoffs_]
    np.testing.assert_allclose(each.predict_distribution(Z).F, order_relations(np.column_stack(alone)))


def test_declustered_mean_ascends():
    X, v, _ = data()
    model = CutoffKriging(9, mean="declustered").fit(X, v)
    assert np.all(np.diff(model.predict_distribution([[1e5, 1e5]]).F[0]) >= 0)
    assert model.predict_distribution([[1e5, 1e5]]).corrected == 0


def test_the_distribution_at_a_sample_is_a_step():
    X, v, _ = data()
    found = CutoffKriging([0.5, 1, 2, 4], kernel=KERNEL).fit(X, v).predict_distribution(X)
    np.testing.assert_allclose(found.F, v[:, None] <= found.cutoffs, atol=1e-7)


def test_cdf_quantile_and_moments_agree():
    found = ConditionalDistribution(
        np.array([1.0, 2.0, 4.0]), np.array([[0.1, 0.5, 0.9], [0.0, 0.7, 0.7], [0.3, 0.3, 1.0]]), 0.0, 10.0
    )
    z = np.linspace(-1, 11, 49)
    F = found.cdf(z)
    assert np.all(np.diff(F, axis=1) >= -1e-15)
    np.testing.assert_allclose(found.cdf(found.cutoffs), found.F)
    np.testing.assert_array_equal(F[:, z < 0], 0.0)
    np.testing.assert_array_equal(F[:, z >= 10], 1.0)
    np.testing.assert_allclose(found.exceedance(3.0), 1 - found.cdf(3.0))
    q = np.array([0.05, 0.25, 0.6, 0.8, 0.99])
    for row in range(3):
        one = ConditionalDistribution(found.cutoffs, found.F[[row]], 0.0, 10.0)
        np.testing.assert_allclose(one.cdf(one.quantile(q)[0])[0], q, atol=1e-12)
        mean = integrate.quad(lambda t, one=one: one.exceedance(t)[0], 0, 10, points=[1, 2, 4])[0]
        np.testing.assert_allclose(one.mean()[0], mean, rtol=1e-6)
        square = integrate.quad(lambda t, one=one: 2 * t * one.exceedance(t)[0], 0, 10, points=[1, 2, 4])[0]
        np.testing.assert_allclose(one.variance()[0], square - mean**2, rtol=1e-6)
    np.testing.assert_allclose(found.quantile(0.5), found.quantile([0.5])[:, 0])
    assert found.quantile(0.7)[1] == 2.0  # the smallest of the flat stretch
    with pytest.raises(ValueError, match="levels"):
        found.quantile(1.5)


def test_an_end_at_a_cutoff_is_an_atom():
    found = ConditionalDistribution(np.array([0.0, 1.0]), np.array([[0.4, 0.6]]), 0.0, 2.0)
    assert found.cdf(0.0)[0] == pytest.approx(0.4)
    assert found.cdf(-1e-9)[0] == 0.0
    assert found.quantile(0.2)[0] == 0.0


def test_prediction_follows_the_field():
    X, v, _ = data(300)
    Z, truth, _ = data(100, seed=9)
    model = CutoffKriging(9).fit(X, v)
    assert len(model.cutoffs_) == 9
    assert model.score(Z, truth) > 0.8
    low, high = model.predict_quantile(Z, [0.05, 0.95]).T
    assert np.mean((truth >= low) & (truth <= high)) > 0.8
    exceed = model.predict_exceedance(Z, 2.0)
    assert np.mean((exceed - (truth > 2.0)) ** 2) < 0.1


def test_known_mean_far_away():
    X, v, _ = data()
    F = [0.1, 0.2, 0.6, 0.8]
    model = CutoffKriging([0.5, 1, 2, 4], kernel=KERNEL, mean=F).fit(X, v)
    np.testing.assert_allclose(model.predict_distribution([[1e4, 1e4]]).F[0], F)
    with pytest.raises(ValueError, match="ascending"):
        CutoffKriging([0.5, 1, 2, 4], mean=[0.3, 0.2, 0.5, 0.6]).fit(X, v)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cutoffs": [2, 1]}, "ascend"),
        ({"cutoffs": [0.5, 1e6]}, "no sample lies in"),
        ({"cutoffs": 0}, "at least 1"),
        ({"cutoffs": 2.5}, "whole number"),
        ({"cutoffs": [0.5, np.nan]}, "finite"),
        ({"cutoffs": [1.0], "limits": (np.nan, 3.0)}, "enclose"),
        ({"transform": "probit"}, "transform"),
        ({"cutoffs": [1.0], "limits": (2.0, 3.0)}, "enclose"),
    ],
)
def test_bad_settings_are_named(settings, message):
    X, v, _ = data(40)
    with pytest.raises(ValueError, match=message):
        CutoffKriging(**settings).fit(X, v)


def test_constant_values_are_refused():
    with pytest.raises(ValueError, match="are constant"):
        CutoffKriging().fit([[0.0], [1.0]], [2.0, 2.0])


def test_the_report_keeps_the_shared_variogram_and_its_warnings():
    X, v, _ = data(40)
    model = CutoffKriging(3).fit(X, v)
    fitted, used = model.variogram_.model, VariogramModel.from_kernel(model.estimators_[1].kernel_)
    np.testing.assert_allclose(used.length_scale, fitted.length_scale)
    np.testing.assert_allclose(used.sill, fitted.sill)
    assert model.fit_report_.details["cutoffs"] == 3
    with pytest.warns(UserWarning, match="an exponential one was assumed"):
        few = CutoffKriging(1).fit([[0.0], [1.0]], [0.0, 1.0])
    assert any("exponential" in text for text in few.fit_report_.warnings)
    assert CutoffKriging(3, variogram="each").fit(X, v).variogram_ is None
    simplicial = CutoffKriging(3, transform="simplicial").fit(X, v)
    assert simplicial.variogram_ is simplicial.estimators_[0].variogram_
