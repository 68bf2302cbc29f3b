"""Indicator kriging against direct solves, gstools, and what the theory promises."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.utils.estimator_checks import parametrize_with_checks

from gpclass.geostat import IndicatorKriging, OutsideWarning, VariogramModel, VariogramSearch
from gpclass.geostat.indicators import correct, mean_value, outside, site_values

GSTOOLS = "gstools, the optional extra [geo], is not installed"
KERNEL = ConstantKernel(0.2) * Matern(1.3, nu=1.5)
NOISY = KERNEL + WhiteKernel(0.05)


def data(n=60, seed=0, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 6, (n, 2))
    score = np.sin(X[:, 0]) + np.cos(1.3 * X[:, 1]) + 0.4 * rng.standard_normal(n)
    y = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))
    return X, y, rng.uniform(-0.5, 6.5, (40, 2))


def fit(X, y, **settings):
    settings.setdefault("kernel", KERNEL)
    return IndicatorKriging(**settings).fit(X, y)


def quiet(method, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideWarning)
        return method(X)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:no variogram could be fitted")
@pytest.mark.filterwarnings("ignore::gpclass.geostat.OutsideWarning")
@parametrize_with_checks(
    [
        IndicatorKriging(),
        IndicatorKriging("simplicial", ordinary=True),
        IndicatorKriging(neighbours=8, exact=False),
    ]
)
def test_estimator_checks(estimator, check):
    check(estimator)


# -- weights ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [KERNEL, NOISY])
@pytest.mark.parametrize("ordinary", [False, True])
def test_weights_equal_a_direct_solve(kernel, ordinary):
    X, y, Z = data()
    model = fit(X, y, kernel=kernel, ordinary=ordinary)
    sites = model.sites_.X
    n = len(sites)
    system, right = kernel(sites), kernel(sites, Z)
    if ordinary:
        system = np.block([[system, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
        right = np.vstack([right, np.ones(len(Z))])
    solution = np.linalg.solve(system, right)
    np.testing.assert_allclose(model.kriging_weights(Z), solution[:n].T, atol=1e-8)
    label = model.sites_.counts[:, 1]
    m = 0.0 if ordinary else y.mean()
    np.testing.assert_allclose(model.predict_indicator(Z), m + solution[:n].T @ (label - m), atol=1e-8)
    variance = kernel.diag(Z) - np.einsum("ij,ij->j", solution, right)
    np.testing.assert_allclose(model.predict_variance(Z), variance, atol=1e-8)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("ordinary", [False, True])
def test_kriging_equals_gstools(exact, ordinary):
    gs = pytest.importorskip("gstools", reason=GSTOOLS)
    X, y, Z = data()
    Z = np.vstack([Z, X[:5]])  # sites too: where `exact` matters
    model = VariogramModel(0.25, 1.3, 1.5, 0.05)
    ours = IndicatorKriging(variogram=model, exact=exact, ordinary=ordinary, mean=0.45).fit(X, y)
    theirs_model = model.to_gstools(2)
    if ordinary:
        theirs = gs.krige.Ordinary(theirs_model, X.T, y.astype(float), exact=exact)
    else:
        theirs = gs.krige.Simple(theirs_model, X.T, y.astype(float), mean=0.45, exact=exact)
    field, variance = theirs(Z.T)
    np.testing.assert_allclose(ours.predict_indicator(Z), field, atol=1e-8)
    np.testing.assert_allclose(ours.predict_variance(Z), variance, atol=1e-8)


@pytest.mark.parametrize("ordinary", [False, True])
@pytest.mark.parametrize("exact", [False, True])
def test_neighbourhoods_equal_small_direct_solves(ordinary, exact, monkeypatch):
    monkeypatch.setattr("gpclass.geostat.systems.UNION", 50)  # several batches
    X, y, Z = data(80)
    Z = np.vstack([Z, X[:4]])
    local = fit(X, y, kernel=NOISY, neighbours=12, ordinary=ordinary, exact=exact)
    raw, variance = local.predict_indicator(Z), local.predict_variance(Z)
    for j in range(len(Z)):
        near = np.argsort(np.linalg.norm(X - Z[j], axis=1))[:12]
        K, s = NOISY(X[near]), NOISY(X[near], Z[[j]])[:, 0]
        if exact:
            s = s + 0.05 * np.all(X[near] == Z[j], axis=1)
        if ordinary:
            K = np.block([[K, np.ones((12, 1))], [np.ones((1, 12)), np.zeros((1, 1))]])
            s = np.append(s, 1.0)
        lam = np.linalg.solve(K, s)
        m = 0.0 if ordinary else y.mean()
        np.testing.assert_allclose(raw[j], m + lam[:12] @ (y[near] - m), atol=1e-10)
        np.testing.assert_allclose(variance[j], 0.25 - lam @ s, atol=1e-10)
    weights = local.kriging_weights(Z)
    assert np.all((weights != 0).sum(axis=1) <= 12)
    if not ordinary:
        label = local.sites_.counts[:, 1]
        np.testing.assert_allclose(y.mean() + weights @ (label - y.mean()), raw, atol=1e-12)


def test_all_neighbours_are_the_global_answer():
    X, y, Z = data()
    whole, local = fit(X, y, kernel=NOISY), fit(X, y, kernel=NOISY, neighbours=len(X))
    np.testing.assert_allclose(local.predict_indicator(Z), whole.predict_indicator(Z), atol=1e-10)
    np.testing.assert_allclose(local.predict_variance(Z), whole.predict_variance(Z), atol=1e-10)
    assert not np.allclose(fit(X, y, kernel=NOISY, neighbours=4).predict_indicator(Z), whole.predict_indicator(Z))


def test_neighbours_are_near_in_the_metric_of_the_kernel():
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 1, (200, 2)) * [1, 100]
    y = (X[:, 1] + 20 * rng.standard_normal(200) > 50).astype(int)
    local = fit(X, y, kernel=Matern([0.1, 1000.0]), neighbours=1)
    Z = X[:20] + np.array([1e-3, 3.0])
    nearest = np.argmax(local.kriging_weights(Z) != 0, axis=1)
    expected = [np.argmin(np.linalg.norm((local.sites_.X - z) / [0.1, 1000], axis=1)) for z in Z]
    np.testing.assert_array_equal(nearest, expected)


def test_a_singular_local_system_gets_jitter():
    X, y, Z = data()
    near = np.vstack([X, X + 1e-9])
    model = fit(near, np.append(y, y), kernel=RBF(3.0), neighbours=10)
    assert np.isfinite(model.predict_indicator(Z)).all()
    assert model.fit_report_.jitter > 0  # never silently
    assert fit(X, y, kernel=NOISY, neighbours=10).fit_report_.jitter == 0


def test_jitter_of_one_neighbourhood_does_not_touch_the_others():
    from gpclass.geostat.systems import _batch_solve

    sound, broken = np.array([[1.0, 0.5], [0.5, 1.0]]), np.array([[1.0, 1.0 + 1e-9], [1.0 + 1e-9, 1.0]])
    b = np.array([[1.0], [2.0]])
    solved, jitter = _batch_solve(np.stack([sound, broken]), np.stack([b, b]))
    np.testing.assert_allclose(solved[0], np.linalg.solve(sound, b), rtol=1e-13)
    assert jitter > 1e-10
    assert np.isfinite(solved[1]).all()


@pytest.mark.parametrize("neighbours", [None, 9])
@pytest.mark.parametrize("ordinary", [False, True])
def test_leave_one_out_equals_refitting(neighbours, ordinary):
    X, y, _ = data(30)
    settings = {"neighbours": neighbours, "ordinary": ordinary}
    model = fit(X, y, kernel=NOISY, mean=0.4, **settings)
    system = model._systems[0]
    found = system.leave_one_out(model._values, model._centre)[:, 0]
    for i in range(len(X)):
        keep = np.arange(len(X)) != i
        left = model.sites_.X[keep], model.sites_.counts[keep, 1].astype(int)
        alone = fit(*left, kernel=NOISY, mean=0.4, **settings)
        np.testing.assert_allclose(found[i], alone.predict_indicator(model.sites_.X[[i]])[0], atol=1e-9)


# -- what the methods promise -------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"ordinary": True}, {"neighbours": 15}])
@pytest.mark.parametrize("kernel", [KERNEL, NOISY])
def test_classical_kriging_interpolates(settings, kernel):
    X, y, _ = data()
    model = fit(X, y, kernel=kernel, **settings)
    np.testing.assert_allclose(model.predict_indicator(X), y, atol=1e-7)
    np.testing.assert_allclose(model.predict_variance(X), 0.0, atol=1e-7)
    simplicial = fit(X, y, kernel=kernel, transform="simplicial", p=0.1, **settings)
    np.testing.assert_allclose(simplicial.predict_indicator(X), np.where(y == 1, 0.9, 0.1), atol=1e-7)


def test_noise_smooths_when_not_exact():
    X, y, _ = data()
    assert np.abs(fit(X, y, kernel=NOISY, exact=False).predict_indicator(X) - y).max() > 0.1
    # with no nugget there is nothing to smooth
    np.testing.assert_allclose(fit(X, y, exact=False).predict_indicator(X), y, atol=1e-7)


def test_classical_leaves_the_interval_and_simplicial_does_not():
    X, y, _ = data()
    Z = np.random.default_rng(5).uniform(-1, 7, (2000, 2))
    kernel = RBF(1.0) + WhiteKernel(0.02)
    classical, simplicial = fit(X, y, kernel=kernel), fit(X, y, kernel=kernel, transform="simplicial")
    raw = classical.predict_indicator(Z)
    assert raw.min() < -0.05
    assert raw.max() > 1.05
    found = classical.outside(Z)
    assert found.count == np.sum((raw < 0) | (raw > 1))
    np.testing.assert_allclose([found.below, found.above], [-raw.min(), raw.max() - 1])
    with pytest.warns(OutsideWarning, match=f"{found.count} of 2000"):
        proba = classical.predict_proba(Z)
    np.testing.assert_allclose(proba[:, 1], np.clip(raw, 0, 1))
    assert simplicial.outside(Z).count == 0
    inside = simplicial.predict_proba(Z)
    assert np.all((inside > 0) & (inside < 1))
    np.testing.assert_allclose(simplicial.predict_log_proba(Z), np.log(inside), rtol=1e-9)
    assert classical.fit_report_.details["share_outside"] > 0
    assert classical.fit_report_.details["largest_excess"] > 0
    assert simplicial.fit_report_.details["share_outside"] == 0


@pytest.mark.parametrize("p", [0.25, 0.03])
@pytest.mark.parametrize("settings", [{}, {"ordinary": True}, {"neighbours": 10}, {"mean": 0.3}])
def test_simplicial_follows_from_classical(p, settings):
    X, y, Z = data()
    classical = fit(X, y, kernel=NOISY, **settings).predict_indicator(Z)
    model = fit(X, y, kernel=NOISY, transform="simplicial", p=p, **settings)
    eq5 = expit(2 * np.log((1 - p) / p) * (classical - 0.5))  # R eq. 5
    np.testing.assert_allclose(model.predict_indicator(Z), eq5, atol=1e-12)
    if "mean" in settings:  # unmatched means break it
        other = fit(X, y, kernel=NOISY, transform="simplicial", p=p, mean=0.5).predict_indicator(Z)
        assert np.abs(other - eq5).max() > 1e-3


def test_classical_and_simplicial_share_their_decision_line():
    X, y, _ = data()
    Z = np.random.default_rng(2).uniform(-1, 7, (3000, 2))
    one, two = fit(X, y), fit(X, y, transform="simplicial", p=0.1)
    np.testing.assert_array_equal(one.predict(Z), two.predict(Z))
    np.testing.assert_array_equal(np.sign(one.decision_function(Z)), np.sign(two.decision_function(Z)))
    assert np.abs(one.predict_indicator(Z) - two.predict_indicator(Z)).max() > 0.05  # other lines differ


@pytest.mark.parametrize("transform", ["classical", "simplicial"])
def test_a_lone_success_is_not_moved_by_its_neighbours(transform):
    # R's thought experiment: the centre is the same whether its neighbours agree or not
    ring = np.array([[np.cos(a), np.sin(a)] for a in np.linspace(0, 2 * np.pi, 9)[:-1]]) * 0.2
    X = np.vstack([[0.0, 0.0], ring, [[5.0, 5.0]]])
    agree, lone = np.array([1] * 9 + [0]), np.array([1] + [0] * 8 + [0])
    settings = {"transform": transform, "mean": 0.5}
    at_centre = [fit(X, y, **settings).predict_indicator([[0.0, 0.0]])[0] for y in (agree, lone)]
    np.testing.assert_allclose(at_centre[0], at_centre[1], atol=1e-9)
    near = [fit(X, y, **settings).predict_indicator([[0.1, 0.0]])[0] for y in (agree, lone)]
    assert near[0] - near[1] > 0.1  # but everywhere else they count
    # and smoothing, as measurement error, does listen to them
    smooth = [
        fit(X, y, kernel=NOISY, exact=False, **settings).predict_indicator([[0.0, 0.0]])[0] for y in (agree, lone)
    ]
    assert smooth[0] - smooth[1] > 0.1


def test_far_away_the_known_mean_returns():
    X, y, _ = data()
    far = [[1e3, 1e3]]
    np.testing.assert_allclose(fit(X, y, mean=0.2).predict_indicator(far), 0.2)
    np.testing.assert_allclose(fit(X, y).predict_indicator(far), y.mean())
    m = 0.2
    np.testing.assert_allclose(
        fit(X, y, mean=m, transform="simplicial", p=0.1).predict_indicator(far),
        expit(np.log(9) * (2 * m - 1)),
    )


# -- counts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", ["classical", "simplicial"])
@pytest.mark.parametrize("exact", [True, False])
def test_several_labels_at_a_site(transform, exact):
    X, _, Z = data(25)
    rng = np.random.default_rng(3)
    hits, trials = rng.integers(0, 4, 25), np.full(25, 3)
    rows = np.repeat(X, trials, axis=0)
    labels = np.concatenate([[1] * h + [0] * (3 - h) for h in hits])
    repeated = fit(rows, labels, kernel=NOISY, transform=transform, exact=exact)
    weighted = IndicatorKriging(transform, kernel=NOISY, exact=exact).fit(
        np.vstack([X, X]), np.repeat([1, 0], 25), sample_weight=np.concatenate([hits, trials - hits])
    )
    np.testing.assert_allclose(repeated.predict_indicator(Z), weighted.predict_indicator(Z), atol=1e-12)
    order = np.lexsort(X.T[::-1])
    np.testing.assert_array_equal(repeated.sites_.counts[:, 1], hits[order])
    if transform == "simplicial":
        expected = (hits + 0.5) / (trials + 1.0)  # Jeffreys
        if exact:
            np.testing.assert_allclose(repeated.predict_indicator(X), expected, atol=1e-8)
    elif not exact:  # N labels divide the nugget
        K = KERNEL(X) + 0.05 / 3 * np.eye(25)
        m = hits.sum() / 75
        direct = m + KERNEL(Z, X) @ np.linalg.solve(K, hits / 3 - m)
        np.testing.assert_allclose(repeated.predict_indicator(Z), direct, atol=1e-10)


def test_jeffreys_is_a_quarter():
    assert site_values(np.array([[0.0, 1.0]]), "simplicial", 0.25)[0, 0] == pytest.approx(logit(0.75))
    X, y, Z = data()
    np.testing.assert_array_equal(
        fit(X, y, transform="simplicial", p="jeffreys").predict_indicator(Z),
        fit(X, y, transform="simplicial", p=0.25).predict_indicator(Z),
    )


# -- more classes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", ["classical", "simplicial"])
def test_three_classes_sum_to_one_and_do_not_mind_their_names(transform):
    X, y, Z = data(90, classes=3)
    model = fit(X, y, kernel=NOISY, transform=transform)
    proba = quiet(model.predict_proba, Z)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert proba.min() >= 0
    turned = fit(X, np.array([2, 0, 1])[y], kernel=NOISY, transform=transform)
    np.testing.assert_allclose(quiet(turned.predict_proba, Z)[:, [2, 0, 1]], proba, atol=1e-10)
    if transform == "simplicial":
        raw = model.predict_indicator(X)
        np.testing.assert_allclose(np.sort(raw, axis=1), np.tile([0.2, 0.2, 0.6], (90, 1)), atol=1e-6)
        assert model.outside(Z).count == 0


def test_two_of_three_classes_is_the_binary_answer():
    # the log-ratio form, asked for two classes, is the logit form
    X, y, Z = data()
    binary = fit(X, y, transform="simplicial", kernel=NOISY)
    counts = binary.sites_.counts
    from gpclass.geostat.aitchison import ilr, inverse_ilr

    V = ilr((counts + 0.5) / 2)
    centre = binary.mean_ @ ilr((np.eye(2) + 0.5) / 2)
    kriged = binary._systems[0].predict(Z, V, centre)
    np.testing.assert_allclose(inverse_ilr(kriged), binary.predict_proba(Z), atol=1e-10)


def test_own_variogram_for_each_class():
    X, y, Z = data(150, classes=3)
    model = IndicatorKriging().fit(X, y)
    assert len(model.kernel_) == 3
    assert len(model.variogram_) == 3
    assert model.predict_variance(Z).shape == (len(Z), 3)
    assert model.kriging_weights(Z).shape == (3, len(Z), 150)
    np.testing.assert_allclose(quiet(model.predict_proba, Z).sum(axis=1), 1.0)
    alone = IndicatorKriging(mean=np.mean(y == 1)).fit(X, y == 1)
    np.testing.assert_allclose(model.predict_indicator(Z)[:, 1], alone.predict_indicator(Z), atol=1e-6)


def test_correction():
    raw = np.array([[-0.1, 0.4, 0.7], [1.2, 0.0, -0.2], [-0.1, -0.2, -0.1], [0.2, 0.3, 0.5]])
    np.testing.assert_allclose(correct(raw), [[0, 4 / 11, 7 / 11], [1, 0, 0], [1 / 3] * 3, [0.2, 0.3, 0.5]], atol=1e-12)
    found = outside(raw)
    assert (found.n, found.count) == (4, 3)
    assert found.share == 0.75
    assert found.worst == pytest.approx(0.2)


# -- the covariance -----------------------------------------------------------------------------------------


def test_fitted_variogram_gives_the_kernel_and_the_words():
    X, y, Z = data(300)
    model = IndicatorKriging().fit(X, y)
    told, fitted = VariogramModel.from_kernel(model.kernel_), model.variogram_.model
    sill = pytest.approx(fitted.sill, rel=1e-12)  # less nugget plus nugget
    assert replace(told, sill=fitted.sill) == fitted
    assert told.sill == sill
    details = model.fit_report_.details
    assert details["sill"] == pytest.approx(model.variogram_.model.sill)
    assert details["practical_range"] > 0
    assert details["sill_of_the_mean"] == pytest.approx(y.mean() * (1 - y.mean()))
    given = IndicatorKriging(variogram=model.variogram_.model).fit(X, y)
    np.testing.assert_allclose(given.predict_indicator(Z), model.predict_indicator(Z))
    smooth = IndicatorKriging(variogram=VariogramSearch(smoothness=2.5, nugget=0.02, lags=8)).fit(X, y)
    assert smooth.variogram_.model.smoothness == 2.5
    assert smooth.variogram_.model.nugget == pytest.approx(0.02)


def test_fitted_variograms_of_both_transforms_differ_by_a_factor():
    X, y, Z = data(200)
    one, two = IndicatorKriging().fit(X, y), IndicatorKriging("simplicial", p=0.1).fit(X, y)
    factor = (2 * np.log(9)) ** 2
    assert two.variogram_.model.sill == pytest.approx(factor * one.variogram_.model.sill, rel=1e-6)
    np.testing.assert_allclose(two.predict_variance(Z), factor * one.predict_variance(Z), rtol=1e-4)
    np.testing.assert_allclose(two.decision_function(Z), 2 * np.log(9) * one.decision_function(Z), atol=1e-5)


def test_too_few_sites_for_a_variogram_is_reported():
    with pytest.warns(UserWarning, match="an exponential one was assumed"):
        model = IndicatorKriging().fit([[0.0], [1.0]], [0, 1])
    assert any("exponential" in text for text in model.fit_report_.warnings)
    assert model.predict([[0.1], [0.9]]).tolist() == [0, 1]


def test_declustered_mean():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.uniform(0, 10, (150, 2)), rng.uniform(6, 8, (200, 2))])
    y = (np.hypot(X[:, 0] - 7, X[:, 1] - 7) < 1.6).astype(int)
    plain, fair = fit(X, y), fit(X, y, mean="declustered")
    truth = np.pi * 1.6**2 / 100
    assert abs(fair.mean_[1] - truth) < 0.3 * abs(plain.mean_[1] - truth)


def test_report_scores_are_those_of_leave_one_out():
    X, y, _ = data(40)
    model = fit(X, y, transform="simplicial", kernel=NOISY)
    values = model._systems[0].leave_one_out(model._values, model._centre)[:, 0]
    label = model.sites_.counts[:, 1]
    details = model.fit_report_.details
    assert details["loo_log_loss"] == pytest.approx(log_loss(label, expit(values)))
    assert details["loo_brier"] == pytest.approx(brier_score_loss(label, expit(values)))
    assert "indicator kriging" in str(model.fit_report_)


@pytest.mark.filterwarnings("ignore::gpclass.geostat.OutsideWarning")
def test_uncertainty():
    X, y, Z = data()
    for transform in ("classical", "simplicial"):
        model = fit(X, y, transform=transform, kernel=NOISY)
        found = model.predict_uncertainty(Z, 0.8)
        np.testing.assert_allclose(found.proba, quiet(model.predict_proba, Z))
        assert np.isnan(found.mcse).all()
        assert np.all(found.lower <= found.proba + 1e-12)
        assert np.all(found.proba <= found.upper + 1e-12)
        assert found.lower.min() >= 0
        np.testing.assert_allclose(found.latent_sd[:, 0] ** 2, model.predict_variance(Z))
    # the simplicial interval is that of the normal on ]0,1[
    from gpclass.geostat.aitchison import IntervalNormal

    law = IntervalNormal(found.latent_mean[3, 0], found.latent_sd[3, 0] ** 2)
    np.testing.assert_allclose([found.lower[3, 1], found.upper[3, 1]], law.ppf([0.1, 0.9]))


# -- the estimator ------------------------------------------------------------------------------------------


def test_transform_is_a_parameter_and_no_method():
    model = IndicatorKriging("simplicial", kernel=KERNEL)
    assert not hasattr(model, "transform")
    assert model.get_params()["transform"] == "simplicial"
    assert model.get_params()["kernel__k1"] == KERNEL.k1
    assert clone(model).set_params(transform="classical").get_params()["transform"] == "classical"
    assert "simplicial" in repr(model)
    assert "IndicatorKriging" in model._repr_html_()
    with pytest.raises(AttributeError, match="get_params"):
        _ = model.transform


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"transform": "probit"}, "transform must be one of"),
        ({"transform": "simplicial", "p": 0.6}, "between 0 and 0.5"),
        ({"p": "flat"}, "jeffreys"),
        ({"neighbours": 0}, "at least 1"),
        ({"variogram": "guess"}, "VariogramModel"),
        ({"kernel": KERNEL, "variogram": VariogramModel(1.0, 1.0)}, "not both"),
        ({"neighbours": 2.5}, "whole number"),
        ({"mean": 1.4}, "probability"),
        ({"mean": np.nan}, "probability"),
        ({"mean": "none"}, "declustered"),
        ({"kernel": "rbf"}, "scikit-learn kernel"),
    ],
)
def test_bad_settings_are_named(settings, message):
    X, y, _ = data(20)
    with pytest.raises(ValueError, match=message):
        IndicatorKriging(**settings).fit(X, y)


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="one class only"):
        IndicatorKriging().fit([[0.0], [1.0]], [1, 1])


def test_mean_of_three_classes():
    frequency = np.array([0.5, 0.3, 0.2])
    np.testing.assert_allclose(mean_value(frequency, "classical", 0.25), frequency)
    X, y, _ = data(60, classes=3)
    model = fit(X, y, mean=frequency)
    np.testing.assert_allclose(model.predict_indicator([[1e4, 1e4]])[0], frequency)


@pytest.mark.parametrize("p", [1e-300, 1e-20, 1e-6, 0.5 - 1e-6, 0.5 - 1e-13])
def test_p_near_its_ends_loses_no_digits(p):
    X, y, Z = data(40)
    classical = fit(X, y, kernel=NOISY).predict_indicator(Z)
    found = fit(X, y, kernel=NOISY, transform="simplicial", p=p).decision_function(Z)
    odds = np.log((1 - p) / p) if p < 0.1 else np.log1p((1 - 2 * p) / p)
    np.testing.assert_allclose(found, 2 * odds * (classical - 0.5), rtol=1e-9, atol=1e-12 * odds)


def test_what_is_not_a_number_does_not_become_a_probability():
    found = correct(np.array([[np.nan, np.nan], [-0.2, -0.1], [0.2, 0.6]]))
    assert np.isnan(found[0]).all()
    np.testing.assert_allclose(found[1:], [[0.5, 0.5], [0.25, 0.75]])


@pytest.mark.filterwarnings("ignore::gpclass.geostat.OutsideWarning")
def test_uncertainty_of_three_classes():
    X, y, Z = data(90, classes=3)
    model = IndicatorKriging().fit(X, y)
    found = model.predict_uncertainty(Z, 0.8)
    one = IndicatorKriging(variogram=model.variogram_[2].model, mean=np.mean(y == 2)).fit(X, y == 2)
    alone = one.predict_uncertainty(Z, 0.8)
    np.testing.assert_allclose(found.lower[:, 2], alone.lower[:, 1], atol=1e-9)
    np.testing.assert_allclose(found.upper[:, 2], alone.upper[:, 1], atol=1e-9)
    np.testing.assert_allclose(found.proba, quiet(model.predict_proba, Z))
    np.testing.assert_allclose(found.latent_sd**2, model.predict_variance(Z))
    shared = fit(X, y, kernel=NOISY).predict_uncertainty(Z)
    assert shared.latent_sd.shape == shared.lower.shape == (len(Z), 3)
    # a simplicial probability is no function of one kriged value: no interval, but the rest
    simplicial = fit(X, y, kernel=NOISY, transform="simplicial").predict_uncertainty(Z)
    assert np.isnan(simplicial.lower).all()
    assert simplicial.latent_sd.shape == (len(Z), 2)


def test_every_clipped_answer_is_told():
    X, y, Z = data()
    model = fit(X, y, kernel=KERNEL)
    assert model.outside(Z).count > 0
    for answer in (model.predict_proba, model.predict_log_proba, model.predict_uncertainty):
        with pytest.warns(OutsideWarning, match="clipped"):
            answer(Z)


def test_frames_are_checked_once():
    X, y, Z = data(40)
    frame, new = pd.DataFrame(X, columns=["a", "b"]), pd.DataFrame(Z, columns=["a", "b"])
    model = fit(frame, y, kernel=NOISY, transform="simplicial")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict_uncertainty(new)
        model.predict_variance(new)


def test_coordinates_in_metres_of_a_national_grid():
    """Kriging depends on differences alone, so an origin far away changes nothing."""
    X, y, Z = data(60)
    origin = np.array([5e5, 5.5e6])
    given = {"variogram": VariogramModel(0.25, 2000.0, 1.5, 0.02)}
    fitted = {"transform": "simplicial", "ordinary": True}  # the search for the length ends within 1e-8 of it
    for settings, atol in ((given, 1e-11), ({**given, "neighbours": 12}, 1e-11), (fitted, 1e-6)):
        near = IndicatorKriging(**settings).fit(1000 * X, y).predict_indicator(1000 * Z)
        far = IndicatorKriging(**settings).fit(1000 * X + origin, y).predict_indicator(1000 * Z + origin)
        np.testing.assert_allclose(far, near, rtol=0, atol=atol)


def test_log_probabilities_of_three_classes_stay_finite():
    X, y, Z = data(60, classes=3)
    model = fit(X, y, kernel=RBF(1.0), transform="simplicial", p=1e-300)
    found = model.predict_log_proba(Z)
    assert model.predict_proba(Z).min() == 0
    assert np.isfinite(found).all()
    np.testing.assert_allclose(np.exp(found), model.predict_proba(Z))
