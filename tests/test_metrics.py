"""Scores against scikit-learn, hand-made sums and simulation."""

import io

import numpy as np
import pytest
from sklearn import metrics as skm

from gpclass import metrics
from gpclass.progress import progress


def simulate(n, C, seed, sharpen=1.0):
    """Labels drawn from known probabilities; ``sharpen`` distorts what is claimed."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.ones(C), size=n)
    y = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, C - 1)
    claimed = truth**sharpen
    return y, claimed / claimed.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("C", [2, 4])
def test_agrees_with_scikit_learn(C):
    y, p = simulate(300, C, seed=1)
    s = metrics.scores(y, p, n_bootstrap=20)
    assert s.log_loss == pytest.approx(skm.log_loss(y, p, labels=range(C)))
    assert s.accuracy == skm.accuracy_score(y, p.argmax(axis=1))
    if C == 2:
        assert s.auc == pytest.approx(skm.roc_auc_score(y, p[:, 1]))
        assert s.brier == pytest.approx(skm.brier_score_loss(y, p[:, 1]))
    else:
        assert s.auc == pytest.approx(skm.roc_auc_score(y, p, multi_class="ovr"))
        assert s.brier == pytest.approx(np.mean(np.sum((p - np.eye(C)[y]) ** 2, axis=1)))


@pytest.mark.parametrize("C", [2, 3])
def test_brier_parts_add_up_to_the_within_bin_sums(C):
    """The remainder equals its own definition, summed point by point."""
    y, p = simulate(250, C, seed=2)
    d = metrics.brier_decomposition(y, p, bins=7)
    within = 0.0
    for c in range(C):
        q, o = p[:, c], (y == c).astype(float)
        edges = np.quantile(q, np.linspace(0, 1, 8)[1:-1])
        bins = [[i for i in range(len(q)) if np.sum(edges <= q[i]) == k] for k in range(7)]
        for idx in bins:
            dq, do = q[idx] - q[idx].mean(), o[idx] - o[idx].mean()
            within += np.sum(dq**2) - 2 * np.sum(dq * do)
    within *= (0.5 if C == 2 else 1.0) / len(y)
    assert d.within == pytest.approx(within, abs=1e-12)
    assert d.brier == pytest.approx(d.reliability - d.resolution + d.uncertainty + d.within, abs=1e-14)
    assert d.reliability >= 0
    assert d.resolution >= 0


def test_log_loss_is_finite_and_says_what_it_clipped():
    s = metrics.scores([0, 1, 1], [0.0, 0.0, 1.0], n_bootstrap=10)
    assert s.log_loss == pytest.approx(-np.log(metrics.LOG_LOSS_CLIP) / 3)
    assert s.n_clipped == 1


def test_order_of_classes_is_that_of_the_columns():
    y = np.array(["b", "a", "b"])
    p = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])  # columns b, a
    assert metrics.accuracy(y, p, classes=["b", "a"]) == 1.0
    assert metrics.accuracy(y, p, classes=["a", "b"]) == 0.0


@pytest.mark.slow
def test_calibration_error_tells_calibrated_from_overconfident():
    """Perfect forecasts stay below their own level in 95 % of data sets; overconfident ones do not."""
    below = []
    for seed in range(60):
        y, p = simulate(400, 2, seed)
        e = metrics.calibration_error(y, p, n_bootstrap=200)
        below.append(e.value <= e.perfect_upper)
        assert e.lower <= e.value <= e.upper
    se = np.sqrt(0.95 * 0.05 / 60)
    assert abs(np.mean(below) - 0.95) < 4 * se
    y, p = simulate(400, 2, seed=0, sharpen=3.0)  # negative control
    e = metrics.calibration_error(y, p, n_bootstrap=200)
    assert e.value > e.perfect_upper
    assert e.lower > e.perfect_mean


def test_calibration_error_by_hand():
    y = np.array([0, 0, 1, 1, 1, 0])
    p = np.array([0.1, 0.1, 0.1, 0.8, 0.8, 0.8])
    e = metrics.calibration_error(y, p, bins=2, n_bootstrap=10)
    assert e.value == pytest.approx(0.5 * abs(0.1 - 1 / 3) + 0.5 * abs(0.8 - 2 / 3))


def test_chunked_resampling_has_the_same_spread(monkeypatch):
    y, p = simulate(200, 2, seed=5)
    whole = metrics.calibration_error(y, p, n_bootstrap=2000)
    monkeypatch.setattr(metrics, "_CHUNK", 200 * 7)
    parts = metrics.calibration_error(y, p, n_bootstrap=2000)
    assert parts.perfect_mean == pytest.approx(whole.perfect_mean, rel=0.03)
    assert parts.upper - parts.lower == pytest.approx(whole.upper - whole.lower, rel=0.1)


@pytest.mark.parametrize("band", ["consistency", "confidence"])
@pytest.mark.parametrize("C", [2, 3])
def test_bands_hold_what_they_promise(band, C):
    """At least the level for calibrated forecasts (bands are conservative); far less for sharpened ones."""

    def share_inside(sharpen):
        inside = []
        for seed in range(40):
            y, p = simulate(1000, C, seed, sharpen)
            c = metrics.reliability_curve(y, p, bins=8, band=band, level=0.9)
            target = c.observed if band == "consistency" else c.predicted
            inside += list((c.lower <= target) & (target <= c.upper))
            assert c.count.sum() == 1000
        return np.mean(inside), np.sqrt(0.9 * 0.1 / len(inside))

    share, se = share_inside(1.0)
    assert share > 0.9 - 4 * se
    assert share_inside(2.5)[0] < 0.6


def test_curve_of_one_class_of_many():
    y, p = simulate(500, 3, seed=3)
    c = metrics.reliability_curve(y, p, label=2, strategy="uniform", bins=5)
    k = (p[:, 2] >= 0.2) & (p[:, 2] < 0.4)
    assert c.event == "class 2"
    assert c.count[1] == k.sum()
    assert c.observed[1] == pytest.approx(np.mean(y[k] == 2))


def test_bins_share_equal_probabilities_and_empty_ones_vanish():
    c = metrics.reliability_curve([0, 1, 1, 0], [0.5, 0.5, 0.5, 0.5], bins=4)
    assert len(c.count) == 1
    c = metrics.reliability_curve([0, 1], [0.05, 0.95], bins=10, strategy="uniform")
    assert len(c.count) == 2


def test_auc_without_a_class_is_nan():
    assert np.isnan(metrics.auc([1, 1], [0.4, 0.6]))


@pytest.mark.parametrize(
    ("y", "p", "match"),
    [
        ([], [], "non-empty"),
        ([0, 1], [0.5], "one row per label"),
        ([0, 1], [0.5, np.nan], "finite"),
        ([0, 1], [0.5, 1.2], r"\[0, 1\]"),
        ([0, 1], [[0.5, 0.6], [0.5, 0.5]], "sum to one"),
        (["a", "a"], [[0.5, 0.5], [0.5, 0.5]], "pass classes="),
        ([0, 1, 2], [[0.5, 0.5]] * 3, "classes for"),
    ],
)
def test_bad_input_is_named(y, p, match):
    with pytest.raises(ValueError, match=match):
        metrics.scores(y, p)


def test_unknown_labels_and_options():
    with pytest.raises(ValueError, match="not among the classes"):
        metrics.accuracy(["a", "c"], [0.2, 0.3], classes=["a", "b"])
    with pytest.raises(ValueError, match="strategy"):
        metrics.reliability_curve([0, 1], [0.2, 0.3], strategy="other")
    with pytest.raises(ValueError, match="band"):
        metrics.reliability_curve([0, 1], [0.2, 0.3], band="other")
    with pytest.raises(ValueError, match="level"):
        metrics.calibration_error([0, 1], [0.2, 0.3], level=90)


def test_a_step_that_is_not_counted_is_shown_and_cleared(monkeypatch):
    """Stages that come before the one whose steps are counted take most of the time of many classes."""
    stream = io.StringIO()
    monkeypatch.setattr("gpclass.progress.DELAY", 1e-9)
    with progress(4, "ascent", verbose=1, stream=stream) as bar:
        bar.doing("ascent, 2,000 rows")
        assert "2,000 rows" in stream.getvalue()
        bar.note(log_evidence=-1.23456789)
        assert "log_evidence=-1.235" in stream.getvalue()
    assert stream.getvalue().endswith("\r")


def test_progress_is_silent_or_tells_acceptance():
    stream = io.StringIO()
    with progress(4, "chain", verbose=2, stream=stream) as bar:
        for k in range(4):
            bar.update(accepted=k % 2, ll=-1.23456789)
    assert bar.acceptance == 0.5
    assert "accepted=50%" in stream.getvalue()
    assert "-1.235" in stream.getvalue()
    for verbose in (0, 1):  # 1: a bar appears after two seconds
        silent = io.StringIO()
        with progress(4, "chain", verbose=verbose, stream=silent) as bar:
            bar.doing("another chain")
            bar.more(2)
            bar.update()
        assert silent.getvalue() == ""
        assert bar.acceptance is None
