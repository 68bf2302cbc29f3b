"""Cross-validation for the parameters: against scikit-learn's loop, on the folds it says it used."""

import warnings

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import load_iris
from sklearn.gaussian_process.kernels import RBF, Matern
from sklearn.gaussian_process.kernels import ConstantKernel as C
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import PredefinedSplit, cross_val_predict

from gpclass import GPClassifier
from gpclass.datasets import roeder_field
from gpclass.folds import SpatialBlocks, spatial_folds, stratified_folds
from gpclass.hyper import CrossValidation
from gpclass.inference import AMP, DSGQ, Exact, Laplace
from gpclass.kernels import median_distance
from gpclass.likelihoods import Logit

KERNEL = C(2.0, "fixed") * Matern(0.3, nu=1.5)
GRID = {"length_scale": [0.03, 0.1, 0.3, 1.0, 3.0]}


@pytest.fixture(scope="module")
def field():
    data = roeder_field(90, random_state=4)
    return data.X, data.y


def search(settings, kernel=KERNEL, inference="laplace", **more):
    return GPClassifier(kernel, inference=inference, hyperparameters=settings, random_state=0, **more)


@pytest.mark.filterwarnings("ignore:the log evidence")
@pytest.mark.parametrize("scoring", ["log-loss", "brier", "accuracy"])
def test_scores_are_those_of_scikit_learns_loop(field, scoring):
    X, y = field
    clf = search(CrossValidation(GRID, scoring=scoring)).fit(X, y)
    found = clf.trace_
    split = PredefinedSplit(found.fold)
    expected = []
    for length in GRID["length_scale"]:
        plain = GPClassifier(C(2.0) * Matern(length, nu=1.5), inference="laplace", hyperparameters="fixed")
        p = cross_val_predict(plain, X, y, cv=split, method="predict_proba")
        expected.append(
            {
                "log-loss": log_loss(y, p),
                "brier": brier_score_loss(y, p[:, 1]),
                "accuracy": np.mean((p[:, 1] > 0.5) == y),
            }[scoring]
        )
    np.testing.assert_allclose(found.scores, expected, rtol=1e-9)
    pick = np.argmax if scoring == "accuracy" else np.argmin
    assert clf.kernel_.k2.length_scale == pytest.approx(GRID["length_scale"][pick(expected)])
    assert clf.fit_report_.details["cv_score"] == pytest.approx(max(expected) if pick is np.argmax else min(expected))
    assert found.rows()[0]["score"] == pytest.approx(found.scores[found.best])


def test_the_choice_is_the_fit_with_these_parameters(field):
    X, y = field
    clf = search(CrossValidation(GRID)).fit(X, y)
    plain = search("fixed", clf.kernel_).fit(X, y)
    np.testing.assert_allclose(clf.predict_proba(X), plain.predict_proba(X), rtol=1e-12)


@pytest.mark.parametrize("inference", [AMP(), DSGQ(n_samples=200), "laplace"], ids=str)
def test_the_scale_of_the_likelihood(field, inference):
    X, y = field
    name = {"amp": "c0", "dsgq": "k0"}.get(getattr(inference, "name", ""), "likelihood__scale")
    clf = search(CrossValidation({name: [0.01, 1.0, 100.0]}), inference=inference).fit(X, y)
    assert clf.likelihood_.scale == 1.0  # the others are a coin and a hard edge
    scores = clf.trace_.scores
    assert scores[0] == pytest.approx(np.log(2), abs=0.02)
    free = search(CrossValidation({name: [0.01, 1.0, 100.0]}), inference="amp", likelihood=Logit(2.0, (0.1, 10)))
    assert free.fit(X, y).likelihood_.scale == pytest.approx(1.0)


def test_settings_that_are_no_parameters_of_the_evidence(field):
    """A smoothness and a setting of the inference, which no gradient reaches."""
    X, y = field
    grid = {"nu": [0.5, 1.5, 2.5], "inference__max_iter": [1, 50]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = search(CrossValidation(grid), inference=Laplace()).fit(X, y)
    assert clf.kernel_.k2.nu in grid["nu"]
    assert len(clf.trace_.candidates) == 6


@pytest.mark.parametrize("how", ["halton", "random"])
def test_points_lie_in_their_ranges_and_later_rounds_close_in(field, how):
    X, y = field
    settings = CrossValidation(
        ranges={"length_scale": (0.02, 5.0), "scale": (0.2, 5.0)}, search=how, n_points=8, rounds=2
    )
    found = search(settings).fit(X, y).trace_
    assert found.candidates[0] == pytest.approx({"k2__length_scale": 0.3, "likelihood__scale": 1.0})
    table = np.array([list(c.values()) for c in found.candidates])
    assert table.shape == (17, 2)
    assert np.all((table >= [0.02, 0.2]) & (table <= [5.0, 5.0]))
    first, second = np.ptp(np.log(table[1:9]), axis=0), np.ptp(np.log(table[9:]), axis=0)
    assert np.all(second < 0.6 * first)
    assert found.scores[found.best] == found.scores.min()


def test_by_default_all_free_parameters_within_their_bounds(field):
    X, y = field
    kernel = C(2.0, (1.5, 2.5)) * Matern(0.3, nu=1.5)
    found = search("cv", kernel).fit(X, y).trace_
    assert len(found.candidates) == 21
    variance, length = np.array([list(c.values()) for c in found.candidates]).T
    assert 1.5 <= variance.min() < variance.max() <= 2.5
    assert length[0] in (0.3, pytest.approx(median_distance(X)))  # as given, or from the data: the better one
    assert 0.1 * length[0] <= length.min() < length.max() <= 10.0 * length[0]
    assert len(search("cv", C(1.0, "fixed") * RBF(0.3, "fixed")).fit(X, y).trace_.candidates) == 1


def test_it_finds_a_better_length_than_a_bad_start(field):
    X, y = field
    bad = C(2.0, "fixed") * Matern(0.01, nu=1.5)
    clf = search(CrossValidation(ranges={"length_scale": (0.005, 5.0)}), bad).fit(X, y)
    assert clf.kernel_.k2.length_scale > 0.05
    assert clf.trace_.scores[clf.trace_.best] < clf.trace_.scores[0] - 0.05


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the Monte Carlo")
def test_the_result_depends_on_the_seed_and_not_on_the_jobs(field):
    X, y = field
    few = CrossValidation(n_points=2, folds=3)
    one = search(few, inference=Exact(n_samples=100)).fit(X[:50], y[:50])
    two = search(few, inference=Exact(n_samples=100), n_jobs=2).fit(X[:50], y[:50])
    np.testing.assert_array_equal(one.trace_.losses, two.trace_.losses)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    other = search("cv").set_params(random_state=1).fit(X, y)
    assert np.any(other.trace_.fold != search("cv").fit(X, y).trace_.fold)


def test_many_classes():
    X, y = load_iris(return_X_y=True)
    clf = GPClassifier(
        C(4.0, "fixed") * RBF(1.0),
        inference="laplace",
        hyperparameters=CrossValidation({"length_scale": [0.05, 2.0, 500.0]}, folds=3),
        random_state=0,
    ).fit(X[::2], y[::2])
    assert clf.kernel_.k2.length_scale == pytest.approx(2.0)
    assert clf.trace_.scores[0] > 0.5


@pytest.mark.filterwarnings("ignore:the best score lies at an end of the grid")
def test_weights_count_in_the_score(field):
    X, y = field
    weight = np.where(np.arange(len(y)) < 10, 50.0, 1.0)
    clf = search(CrossValidation(GRID)).fit(X, y, sample_weight=weight)
    pooled = clf.trace_.losses @ weight / weight.sum()
    assert clf.trace_.best == np.argmin(pooled)


# ---- folds ---------------------------------------------------------------------------------------------


def test_stratified_folds_share_the_classes():
    y = np.repeat([0, 1], [83, 17])
    fold = stratified_folds(y, 5, np.random.default_rng(0))
    counts = np.array([np.bincount(y[fold == k], minlength=2) for k in range(5)])
    assert np.ptp(counts, axis=0).max() <= 1
    assert counts.sum() == 100


@pytest.mark.parametrize("size", [None, 1.5])
def test_blocks_stay_together(size):
    X = np.random.default_rng(1).uniform(0, 10, (400, 2))
    fold = spatial_folds(X, 5, size, np.random.default_rng(2))
    count = np.bincount(fold, minlength=5)
    assert count.min() > 60
    random = stratified_folds(np.zeros(400), 5, np.random.default_rng(0))

    def shared(fold):
        """Share of points whose nearest neighbour is in the same fold."""
        r = cdist(X, X)
        np.fill_diagonal(r, np.inf)
        return np.mean(fold == fold[r.argmin(axis=1)])

    assert shared(fold) > 0.7
    assert shared(random) < 0.35


@pytest.mark.filterwarnings("ignore:the best score lies at an end of the grid")
def test_blocked_search_and_splitter(field):
    X, y = field
    clf = search(CrossValidation(GRID, block_size=0.25, coordinates=(0, 1))).fit(X, y)
    assert len(np.unique(clf.trace_.fold)) == 5
    auto = search(CrossValidation(GRID, block_size="auto")).fit(X, y).trace_
    assert len(np.unique(auto.fold)) == 5
    splits = list(SpatialBlocks(4, 0.3, columns=(0,), random_state=1).split(X, y))
    assert SpatialBlocks(4).get_n_splits() == len(splits) == 4
    np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in splits])), np.arange(len(X)))
    again = list(SpatialBlocks(4, 0.3, columns=(0,), random_state=1).split(X, y))
    np.testing.assert_array_equal(again[0][1], splits[0][1])


# ---- errors and warnings -------------------------------------------------------------------------------


def test_an_end_of_the_grid_is_told(field):
    X, y = field
    with pytest.warns(UserWarning, match="end of the grid: length_scale=0.06"):
        search(CrossValidation({"length_scale": [0.01, 0.03, 0.06]})).fit(X, y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (lambda: CrossValidation({"lenght": [1.0]}), "does not name one parameter"),
        (lambda: CrossValidation({"inference__no": [1.0]}), "no setting 'no'"),
        (lambda: CrossValidation(ranges={"length_scale": (0.0, 1.0)}), "0 < low"),
        (lambda: CrossValidation(ranges={"length_scale": (1.0, 2.0, 3.0)}), "0 < low"),
        (lambda: CrossValidation({"length_scale": []}), "one value at least"),
        (lambda: CrossValidation({"length_scale": 0.3}), "one value at least"),
        (lambda: CrossValidation({"length_scale": [-0.3, 0.3]}), "must be positive"),
        (lambda: CrossValidation(block_size=0.3, coordinates=(0, 5)), "2 columns"),
        (lambda: CrossValidation(block_size=50.0), "fewer than the 5 folds"),
        (lambda: CrossValidation(block_size=-1.0), "positive"),
        (lambda: CrossValidation(block_size="big"), "'auto'"),
        (lambda: CrossValidation(scoring="auc"), "scoring"),
        (lambda: CrossValidation(search="sobol"), "search"),
        (lambda: CrossValidation(folds=1), "at least 2"),
        (lambda: CrossValidation(GRID, ranges={}), "not both"),
    ],
)
def test_bad_settings(field, settings, message):
    with pytest.raises(ValueError, match=message):
        search(settings()).fit(*field)


def test_an_ambiguous_name_is_refused(field):
    kernel = C(1.0) * RBF(0.3) + C(1.0) * RBF(1.0)
    with pytest.raises(ValueError, match="could be any of"):
        search(CrossValidation({"length_scale": [0.1]}), kernel).fit(*field)


def test_coincident_sites_have_no_blocks():
    with pytest.raises(ValueError, match="coincide"):
        spatial_folds(np.zeros((4, 2)), 2, None, np.random.default_rng(0))


def test_settings_that_are_no_numbers_have_no_ends():
    grid = {"inference__tol": [1e-6, 1e-8], "inference__max_iter": [None, 50, 60]}
    settings = CrossValidation(grid)
    assert settings._at_an_end({"inference__tol": 1e-6, "inference__max_iter": 50}) == ()
    assert CrossValidation({"a": ["x", "y", "z"]})._at_an_end({"a": "x"}) == ()
    assert "a=1.0" in CrossValidation({"a": [1.0, 2.0, 3.0]})._at_an_end({"a": 1.0})[0]


@pytest.mark.filterwarnings("ignore:the best score lies at an end of the grid")
def test_scores_shown_are_the_weighted_ones_that_chose(field):
    X, y = field
    weight = np.where(np.arange(len(y)) < 10, 50.0, 1.0)
    clf = search(CrossValidation(GRID)).fit(X, y, sample_weight=weight)
    pooled = clf.trace_.losses @ weight / weight.sum()
    assert not np.allclose(pooled, clf.trace_.losses.mean(axis=1), rtol=1e-2)  # the weights matter here
    np.testing.assert_allclose(clf.trace_.scores, pooled)
    assert clf.fit_report_.details["cv_score"] == pytest.approx(pooled.min())
    assert clf.trace_.rows()[0]["score"] == pytest.approx(pooled.min())
    fold = clf.trace_.fold
    means = [np.average(clf.trace_.losses[0, fold == k], weights=weight[fold == k]) for k in range(5)]
    assert clf.trace_.errors[0] == pytest.approx(np.std(means, ddof=1) / np.sqrt(5))


@pytest.mark.filterwarnings("ignore:the best score lies at an end of the grid")
@pytest.mark.filterwarnings("ignore:the log evidence")
def test_labels_of_one_place_are_left_out_together(field):
    """Y of N as two weighted rows a site: the fit to the other folds must not have seen the site."""
    X, y = field
    both, labels = np.repeat(X, 2, axis=0), np.tile([1, 0], len(X))
    weight = np.column_stack([1 + 3 * y, 4 - 3 * y]).ravel().astype(float)
    found = search(CrossValidation(GRID)).fit(both, labels, sample_weight=weight).trace_
    np.testing.assert_array_equal(found.fold[::2], found.fold[1::2])
    assert len(np.unique(found.fold)) == 5
    shares = [y[found.fold[::2] == k].mean() for k in range(5)]
    assert np.ptp(shares) < 0.15  # stratified by the class most seen at the place
    # a place of many rows, and fewer places than folds
    few = np.repeat([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]], 6, axis=0)
    fold = search(CrossValidation(GRID)).fit(few, np.tile([0, 1, 1], 6)).trace_.fold
    assert [len(np.unique(fold[k : k + 6])) for k in (0, 6, 12)] == [1, 1, 1]
    assert fold.max() == 2
