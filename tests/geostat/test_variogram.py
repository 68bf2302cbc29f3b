"""Variograms, their models and spellings, coordinates and declustering."""

import sys
import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import gamma as gamma_function
from scipy.special import kv
from scipy.stats import f as f_distribution
from sklearn.gaussian_process import kernels as sk
from sklearn.utils.estimator_checks import parametrize_with_checks

from gpclass.geostat.anisotropy import fit_anisotropy
from gpclass.geostat.coordinates import EARTH_RADIUS_KM, Anisotropy, ChordalCoordinates
from gpclass.geostat.declustering import cell_declustering
from gpclass.geostat.fitting import fit_variogram
from gpclass.geostat.model import VariogramModel, matern_correlation
from gpclass.geostat.variogram import EmpiricalVariogram, empirical_variogram

GSTOOLS = "gstools, the optional extra [geo], is not installed"


def sites(n=80, seed=0, d=2):
    rng = np.random.default_rng(seed)
    return rng.uniform(0, 10, (n, d)), rng.standard_normal(n)


def brute_force(X, v, edges, *, robust=False, keep=lambda delta: True, w=None):
    w = np.ones(len(X)) if w is None else w
    rows = []
    for a, b in pairwise(edges):
        lag, terms, weight = [], [], []
        for i in range(len(X)):
            for j in range(i + 1, len(X)):
                r = np.linalg.norm(X[i] - X[j])
                if a <= r < b and keep(X[i] - X[j]):
                    lag.append(r)
                    terms.append(abs(v[i] - v[j]) ** (0.5 if robust else 2))
                    weight.append(w[i] * w[j])
        if lag:
            m = np.average(terms, weights=weight)
            value = m**4 / (0.457 + 0.494 / len(lag)) / 2 if robust else m / 2
            rows.append((np.mean(lag), value, len(lag)))
    return np.array(rows).T


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_empirical_variogram_against_two_loops(robust, weighted, monkeypatch):
    monkeypatch.setattr("gpclass.geostat.variogram.BLOCK", 1000)  # several blocks
    X, v = sites()
    w = np.random.default_rng(1).uniform(0.1, 2, len(X)) if weighted else None
    edges = np.linspace(0, 6, 9)
    found = empirical_variogram(X, v, lags=edges, estimator="cressie" if robust else "matheron", weights=w)
    lag, gamma, pairs = brute_force(X, v, edges, robust=robust, w=w)
    np.testing.assert_allclose(found.lag, lag, rtol=1e-12)
    np.testing.assert_allclose(found.gamma, gamma, rtol=1e-12)
    np.testing.assert_array_equal(found.pairs, pairs)


def test_a_site_of_weight_zero_is_not_there():
    X, v = sites()
    w = np.where(np.arange(80) < 25, 1.5, 0.0)
    edges = np.linspace(0, 6, 40)  # narrow: some classes hold pairs of absent sites only
    found, alone = (
        empirical_variogram(X, v, lags=edges, weights=w),
        empirical_variogram(X[:25], v[:25], lags=edges),
    )
    assert len(alone) < len(empirical_variogram(X, v, lags=edges))
    np.testing.assert_allclose(found.gamma, alone.gamma)
    np.testing.assert_allclose(found.lag, alone.lag)
    np.testing.assert_array_equal(found.pairs, alone.pairs)


def test_directional_variogram():
    X, v = sites()
    edges = np.linspace(0, 6, 5)

    def keep(delta):
        angle = np.rad2deg(np.arctan2(delta[1], delta[0])) % 180
        off = abs(delta @ [-np.sin(np.deg2rad(30)), np.cos(np.deg2rad(30))])
        return min(abs(angle - 30), 180 - abs(angle - 30)) <= 20 and off <= 1.5

    found = empirical_variogram(X, v, lags=edges, direction=30.0, tolerance=20, bandwidth=1.5)
    lag, gamma, pairs = brute_force(X, v, edges, keep=keep)
    np.testing.assert_allclose([found.lag, found.gamma, found.pairs], [lag, gamma, pairs])
    reverse = empirical_variogram(X, v, lags=edges, direction=210.0, tolerance=20, bandwidth=1.5)
    np.testing.assert_allclose(reverse.gamma, found.gamma)


def test_lag_choice():
    X, v = sites(200)
    even = empirical_variogram(X, v, lags=10)
    assert even.edges[-1] == pytest.approx(np.linalg.norm(np.ptp(X, axis=0)) / 2)
    count = empirical_variogram(X, v, lags=10, lag_choice="count")
    assert count.pairs.max() < 1.1 * count.pairs.min()
    assert even.pairs.max() > 2 * even.pairs.min()


def test_several_values_add_up_and_rotate():
    X, _ = sites()
    V = np.random.default_rng(2).standard_normal((len(X), 2))
    both = empirical_variogram(X, V)
    alone = [empirical_variogram(X, V[:, k]).gamma for k in range(2)]
    np.testing.assert_allclose(both.gamma, alone[0] + alone[1])
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    np.testing.assert_allclose(empirical_variogram(X, V @ turn).gamma, both.gamma)


def test_the_robust_estimator_resists_an_outlier_and_warns_on_indicators():
    X, v = sites(150)
    spoiled = v.copy()
    spoiled[3] = 40.0
    change = [
        empirical_variogram(X, spoiled, estimator=e).gamma.mean() / empirical_variogram(X, v, estimator=e).gamma.mean()
        for e in ("matheron", "cressie")
    ]
    assert change[0] > 5
    assert change[1] < 1.6
    with pytest.warns(UserWarning, match="indicators"):
        empirical_variogram(X, v > 0, estimator="cressie")


def test_variogram_equals_gstools():
    gs = pytest.importorskip("gstools", reason=GSTOOLS)
    X, v = sites(120)
    edges = np.linspace(0, 5, 8)
    for estimator in ("matheron", "cressie"):
        found = empirical_variogram(X, v, lags=edges, estimator=estimator)
        _, gamma, counts = gs.vario_estimate(X.T, v, edges, estimator=estimator, return_counts=True)
        np.testing.assert_array_equal(found.pairs, counts)
        np.testing.assert_allclose(found.gamma, gamma, rtol=1e-3 if estimator == "cressie" else 1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X, v: empirical_variogram(X, v[:-1]), "79 values for 80 sites"),
        (lambda X, v: empirical_variogram(X[:1], v[:1]), "at least two"),
        (lambda X, v: empirical_variogram(X, v, estimator="genton"), "estimator"),
        (lambda X, v: empirical_variogram(X, v, lags=[3, 2]), "ascending"),
        (lambda X, v: empirical_variogram(X * 0, v), "coincide"),
        (lambda X, v: empirical_variogram(X, v, lags=[0, 1e-9]), "raise max_lag"),
        (lambda X, v: empirical_variogram(X, v, weights=-np.ones(80)), "non-negative"),
        (lambda X, v: empirical_variogram(X, v, weights=np.full(80, np.nan)), "non-negative"),
        (lambda X, v: cell_declustering(X, np.where(v > 1, np.nan, v)), "missing"),
        (lambda X, v: cell_declustering(np.where(X > 9, np.nan, X), v), "missing"),
        (lambda X, v: cell_declustering(X, v, n_origins=0), "one origin"),
        (lambda X, v: VariogramModel(1.0, 1.0).practical_range(1.0), "share must lie"),
        (lambda X, v: empirical_variogram(X, v, direction=[1, 0, 0]), "vector of length 2"),
        (lambda X, v: empirical_variogram(X, np.where(v > 1, np.nan, v)), "missing"),
        (lambda X, v: fit_variogram(empirical_variogram(X, np.ones(80))), "is constant"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(*sites())


# -- the model ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nu", [0.3, 0.5, 0.8, 1.5, 2.0, 2.5, 10.0])
def test_matern_against_the_formula(nu):
    r = np.linspace(0.01, 8, 40)
    t = np.sqrt(2 * nu) * r / 1.7
    np.testing.assert_allclose(matern_correlation(r, 1.7, nu), 2 ** (1 - nu) / gamma_function(nu) * t**nu * kv(nu, t))
    assert matern_correlation(0.0, 1.7, nu) == 1.0
    assert matern_correlation(1e6, 1.7, nu) < 1e-300
    assert matern_correlation(1e-9, 1.7, nu) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.2, np.inf])
@pytest.mark.parametrize("nugget", [0.0, 0.3])
@pytest.mark.parametrize("length", [1.3, (1.3, 0.4)])
def test_model_and_kernel_say_the_same(nu, nugget, length):
    model = VariogramModel(1.1, length, nu, nugget)
    assert VariogramModel.from_kernel(model.kernel()) == model
    X, _ = sites(12)
    K = model.kernel()(X)
    scaled = X / np.asarray(length)
    expected = VariogramModel(1.1, 1.0, nu, nugget).covariance(cdist(scaled, scaled))
    np.testing.assert_allclose(K, expected, atol=1e-12)
    if isinstance(length, float):
        np.testing.assert_allclose(model.variogram(cdist(X, X)), 1.1 - K, atol=1e-12)


def test_kernels_of_other_shapes():
    kernel = sk.WhiteKernel(0.2) + 2.0 * (sk.Matern(3.0, nu=1.5) * 0.5 + sk.WhiteKernel(0.1))
    assert VariogramModel.from_kernel(kernel) == VariogramModel(1.4, 3.0, 1.5, 0.4)
    with pytest.raises(ValueError, match="DotProduct"):
        VariogramModel.from_kernel(sk.RBF() + sk.DotProduct())
    with pytest.raises(ValueError, match="no Matérn"):
        VariogramModel.from_kernel(sk.WhiteKernel())


def test_practical_range():
    assert VariogramModel(1.0, 2.0, 0.5).practical_range() == pytest.approx(2.0 * np.log(20))


@pytest.mark.parametrize("nu", [0.5, 1.5, 3.3, np.inf])
@pytest.mark.parametrize("turned", [None, Anisotropy(35.0, 0.4)])
def test_gstools_model_has_the_same_covariance(nu, turned):
    pytest.importorskip("gstools", reason=GSTOOLS)
    model = VariogramModel(1.2, 1.7, nu, 0.2)
    theirs = model.to_gstools(2, turned)
    X, _ = sites(20)
    iso = X if turned is None else turned.fit(X).transform(X)
    origin = iso[:1]
    ours = model.variogram(cdist(origin, iso)[0])
    # without the first site: at distance zero gstools gives the nugget
    np.testing.assert_allclose(theirs.vario_spatial((X - X[0]).T)[1:], ours[1:], rtol=1e-9)
    back, found = VariogramModel.from_gstools(theirs)
    np.testing.assert_allclose(
        [back.sill, back.length_scale, back.nugget], [model.sill, model.length_scale, model.nugget]
    )
    assert back.smoothness == nu
    assert (found is None) == (turned is None)
    if found is not None:
        np.testing.assert_allclose(found.fit(X).transform(X), iso)


def test_gstools_default_rescale_and_exponential():
    gs = pytest.importorskip("gstools", reason=GSTOOLS)
    r = np.linspace(0.1, 5, 9)
    for theirs in (
        gs.Gaussian(dim=2, var=2, len_scale=1.5),
        gs.Exponential(dim=2, var=2, len_scale=1.5, nugget=0.1),
        gs.Matern(dim=2, var=2, len_scale=1.5, nu=25.0),
    ):
        model, _ = VariogramModel.from_gstools(theirs)
        np.testing.assert_allclose(model.variogram(r), theirs.variogram(r), rtol=1e-10)
    with pytest.raises(ValueError, match="Spherical"):
        VariogramModel.from_gstools(gs.Spherical(dim=2))


def test_three_dimensional_rotation_is_gstools():
    gs = pytest.importorskip("gstools", reason=GSTOOLS)
    X, _ = sites(9, d=3)
    turned = Anisotropy((20.0, -35.0, 50.0), (0.6, 0.3))
    model = gs.Exponential(dim=3, len_scale=1, anis=[0.6, 0.3], angles=np.deg2rad([20, -35, 50]))
    np.testing.assert_allclose(turned.fit(X).transform(X), model.isometrize(X.T).T, rtol=1e-12)
    np.testing.assert_allclose(turned.inverse_transform(turned.transform(X)), X)


def test_missing_gstools_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "gstools", None)
    with pytest.raises(ImportError, match=r"gpclass\[geo\]"):
        VariogramModel(1.0, 1.0).to_gstools()


# -- fitting ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighting", ["pairs/lag2", "pairs", "cressie", "equal"])
@pytest.mark.parametrize("nu", [0.5, 1.5, np.inf])
def test_fit_recovers_a_noiseless_variogram(weighting, nu):
    true = VariogramModel(0.25, 1.4, nu, 0.03)
    lag = np.linspace(0.2, 8, 20)
    curve = EmpiricalVariogram(lag, true.variogram(lag), np.full(20, 100), np.append(0, lag))
    fit = fit_variogram(curve, smoothness=nu if nu == np.inf else "choose", weighting=weighting)
    np.testing.assert_allclose([fit.model.sill, fit.model.length_scale, fit.model.nugget], [0.25, 1.4, 0.03], rtol=1e-4)
    assert fit.model.smoothness == nu
    assert not fit.at_bound
    fixed = fit_variogram(curve, smoothness=nu, nugget=0.03, weighting=weighting)
    np.testing.assert_allclose(fixed.model.length_scale, 1.4, rtol=1e-4)


def test_fit_does_not_mind_the_units():
    X, v = sites(150, 3)
    v = v + 2 * np.sin(X[:, 0])
    plain = fit_variogram(empirical_variogram(X, v)).model
    scaled = fit_variogram(empirical_variogram(1000 * X, 50 * v)).model
    np.testing.assert_allclose(scaled.length_scale, 1000 * plain.length_scale, rtol=1e-5)
    np.testing.assert_allclose(scaled.sill, 2500 * plain.sill, rtol=1e-5)


def test_fit_of_a_simulated_field_and_of_noise():
    rng = np.random.default_rng(11)
    X = rng.uniform(0, 20, (600, 2))
    true = VariogramModel(1.0, 1.0, 0.5, 0.1)
    v = np.linalg.cholesky(true.covariance(cdist(X, X))) @ rng.standard_normal(600)
    model = fit_variogram(empirical_variogram(X, v, max_lag=6), smoothness=0.5).model
    assert 0.6 < model.length_scale < 1.6
    assert 0.75 < model.sill < 1.3
    noise = fit_variogram(empirical_variogram(X, rng.standard_normal(600), max_lag=6), smoothness=0.5).model
    # noise has no structure: a pure nugget, or a length below the spacing of the sites
    assert noise.partial_sill < 0.2 or noise.length_scale < 0.4


def test_a_trend_is_reported_as_unbounded():
    X, _ = sites(100)
    assert fit_variogram(empirical_variogram(X, X[:, 0])).at_bound


@pytest.mark.parametrize(("reach", "rises"), [(8.0, False), (1.0, True)])
def test_a_fit_says_whether_the_variogram_levels_off(reach, rises):
    true, lag = VariogramModel(0.25, 1.4, 1.5), np.linspace(0.1, reach, 20)
    fit = fit_variogram(EmpiricalVariogram(lag, true.variogram(lag), np.full(20, 100), np.append(0, lag)))
    assert fit.still_rising == rises
    assert ("there may be a trend" in repr(fit)) == rises


# -- coordinates --------------------------------------------------------------------------------------------


def test_anisotropy_makes_the_ellipse_a_circle():
    angle = np.deg2rad(30)
    along, across = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
    X = np.array([[0, 0], 2 * along, 0.5 * across])
    iso = Anisotropy(30.0, 0.25).fit(X).transform(X)
    np.testing.assert_allclose(iso, [[0, 0], [2, 0], [0, 2]], atol=1e-12)
    ard = Anisotropy(0.0, 0.25).fit(X).transform(X)  # no rotation: one length scale a coordinate does the same
    np.testing.assert_allclose(sk.Matern(1.5)(ard), sk.Matern([1.5, 1.5 * 0.25])(X))


def many_fields(iso, model, seed):
    """Forty realisations, whose variograms add up to that of one field with little noise."""
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(model.covariance(cdist(iso, iso)))
    return root @ rng.standard_normal((len(iso), 40)) / np.sqrt(40)


@pytest.mark.slow
@pytest.mark.parametrize("angle", [25.0, 160.0])
def test_fit_finds_the_axes_of_a_field(angle):
    X = np.random.default_rng(4).uniform(0, 20, (500, 2))
    v = many_fields(Anisotropy(angle, 0.35).fit(X).transform(X), VariogramModel(1.0, 2.0, 0.5, 0.05), 5)
    found = fit_anisotropy(X, v, max_lag=7.0)
    off = abs(found.anisotropy.angle - angle)
    assert min(off, 180 - off) < 3
    assert 0.3 < found.anisotropy.ratio < 0.45
    assert found.error < 0.3 * found.isotropic_error
    assert 1.6 < found.model.length_scale < 2.4


def axes_of_many_fields(turned, n_fields=8):
    """Anisotropy vectors −log(ratio)·(cos 2α, sin 2α) of independent fields, and the gains in error."""
    vectors, gains = [], []
    for seed in range(n_fields):
        X = np.random.default_rng(1000 + seed).uniform(0, 20, (400, 2))
        v = many_fields(turned.fit(X).transform(X), VariogramModel(1.0, 1.0, 0.5), 2000 + seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # most are isotropic, and it says so
            found = fit_anisotropy(X, v, max_lag=7.0, smoothness=0.5)
        twice = 2 * np.deg2rad(found.anisotropy.angle)
        vectors.append(-np.log(found.anisotropy.ratio) * np.array([np.cos(twice), np.sin(twice)]))
        gains.append(found.error / found.isotropic_error)
    return np.array(vectors), np.array(gains)


@pytest.mark.slow
def test_fit_of_isotropic_fields_has_no_preferred_direction():
    """The ratio of one field is at most 1 and never quite 1; over many fields the vector must average to zero.

    A field stretched by 0.8, about the least that is worth modelling, is the control: the same bound refuses it.
    """
    isotropic, little = axes_of_many_fields(Anisotropy(0.0, 1.0))
    stretched, much = axes_of_many_fields(Anisotropy(40.0, 0.8))

    def t_squared(vectors):
        """Hotelling's statistic of a zero mean, as the F(2, n − 2) variable that it is then."""
        n = len(vectors)
        mean, cov = vectors.mean(axis=0), np.cov(vectors.T)
        return (n - 2) / (2 * (n - 1)) * n * mean @ np.linalg.solve(cov, mean)

    bound = f_distribution.isf(1e-3, 2, 6)
    assert t_squared(isotropic) < bound
    assert t_squared(stretched) > bound
    np.testing.assert_allclose(
        stretched.mean(axis=0), -np.log(0.8) * np.array([np.cos(1.396), np.sin(1.396)]), atol=0.05
    )
    # two free parameters always gain something, but less than where there is something to gain
    assert little.min() > much.max()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:fit_anisotropy")
def test_an_anisotropy_that_the_data_cannot_tell_is_flagged():
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 10, (250, 2))
    noise = fit_anisotropy(X, rng.normal(size=250))
    assert not noise.known
    assert "ratio" in noise.problems[0]
    with pytest.warns(UserWarning, match="still rising"):
        trend = fit_anisotropy(X, X[:, 0] + 0.01 * rng.normal(size=250))
    assert any(text.startswith("the range") for text in trend.problems)
    # the control: a field with short waves across one direction, whose ratio and range are plain
    stretched = Anisotropy(30.0, 0.25).fit(X).transform(X)
    field = np.cos(stretched @ rng.normal(size=(2, 60)) + rng.uniform(0, 6.3, 60)).sum(axis=1)
    clear = fit_anisotropy(X, field, max_lag=4.0)
    assert clear.known, clear.problems
    assert clear.anisotropy.ratio < 0.5


def test_fits_are_printed_as_tables():
    X = np.random.default_rng(0).uniform(size=(60, 2))
    cloud = empirical_variogram(X, X[:, 0], lags=4)
    fitted = fit_variogram(cloud)
    text = repr(fitted)
    assert len(text.splitlines()) < 15
    assert f"{fitted.model.sill:.4g}" in text
    assert repr(cloud).splitlines()[1].split() == ["mean", "distance", "semivariance", "pairs"]
    assert fitted._repr_html_().startswith("<table><thead>")


def test_a_constant_has_no_axes():
    with pytest.raises(ValueError, match="is constant"):
        fit_anisotropy(sites()[0], np.ones(80))


def test_axes_need_two_dimensions():
    with pytest.raises(ValueError, match="two dimensions"):
        fit_anisotropy(np.zeros((5, 3)), np.zeros(5))


def test_chord_is_shorter_than_the_arc_and_right():
    X = np.array([[0.0, 0.0], [90.0, 0.0], [0.0, 90.0], [180.0, 0.0], [-180.0, 0.0], [0.01, 0.0]])
    ball = ChordalCoordinates().fit(X).transform(X)
    np.testing.assert_allclose(np.linalg.norm(ball, axis=1), EARTH_RADIUS_KM)
    chord = np.linalg.norm(ball - ball[0], axis=1)
    np.testing.assert_allclose(chord[1:4] / EARTH_RADIUS_KM, [np.sqrt(2), np.sqrt(2), 2])
    np.testing.assert_allclose(ball[3], ball[4], atol=1e-9)  # the date line is no border
    np.testing.assert_allclose(chord[5], 1.11195, rtol=1e-4)  # km in a hundredth of a degree
    more = ChordalCoordinates().fit_transform(np.column_stack([X, np.arange(6)]))
    np.testing.assert_array_equal(more[:, 3], np.arange(6))
    with pytest.raises(ValueError, match="swapped"):
        ChordalCoordinates().fit([[10.0, 100.0]])


@parametrize_with_checks([Anisotropy()])
def test_transformer_checks(estimator, check):
    check(estimator)


# -- declustering -------------------------------------------------------------------------------------------


def preferential(seed=0):
    """An even sample, and extra sites where the variable is high."""
    rng = np.random.default_rng(seed)

    def field(x):
        return np.exp(-((x[:, 0] - 7) ** 2 + (x[:, 1] - 7) ** 2) / 4) > 0.4

    even = rng.uniform(0, 10, (150, 2))
    extra = rng.uniform(5.5, 8.5, (200, 2))
    X = np.vstack([even, extra])
    truth = field(rng.uniform(0, 10, (20_000, 2))).mean()
    return X, field(X).astype(float), truth


def test_declustering_moves_the_mean_to_the_truth():
    X, v, truth = preferential()
    found = cell_declustering(X, v)
    assert found.weights.sum() == pytest.approx(len(X))
    assert found.weights.min() > 0
    assert v.mean() > 3 * truth
    assert abs(found.mean - truth) < 0.25 * abs(v.mean() - truth)
    assert found.mean == pytest.approx(np.average(v, weights=found.weights))
    assert found.mean == found.means.min()


def test_declustering_limits():
    X, v, _ = preferential()
    for size in (1e-7, 1e7):  # each site its own cell; all in one
        np.testing.assert_allclose(cell_declustering(X, cell_size=size, n_origins=1).weights, 1.0)
    doubled = np.vstack([X[:10] * 100, X[:1] * 100])  # a site sampled twice shares its cell
    w = cell_declustering(doubled, cell_size=1.0).weights
    np.testing.assert_allclose(w[0], w[1] / 2)
    with pytest.raises(ValueError, match="give cell_size"):
        cell_declustering(X)
    high = cell_declustering(X, v, seek="maximum")
    assert high.mean == high.means.max()
