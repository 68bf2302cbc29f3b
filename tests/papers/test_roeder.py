"""The runs of Röder et al. (2011): scores against scikit-learn, tuning on small problems, figures without data."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from papers.common import Setting
from papers.roeder2011 import diagrams, figures, ladder, repeats, table1
from papers.roeder2011.sea import simulate_sea
from papers.roeder2011.table1 import PAPER
from sklearn.metrics import brier_score_loss, log_loss

from gpclass.datasets import roeder_field

QUICK = ladder.Effort(n_points=3, draws=50, tol=0.02)


def test_published_ratio_is_the_papers():
    seconds = {row["method"]: row["seconds"] for row in PAPER.rows}
    assert seconds["DSGQ"] / seconds["CIK"] == pytest.approx(708, abs=1)


def test_scores_are_scikit_learns():
    rng = np.random.default_rng(0)
    y, p = rng.integers(2, size=40), rng.uniform(0.05, 0.95, 40)
    mine = {name: values.mean() for name, values in ladder.pointwise(y, p).items()}
    assert mine["log loss"] == pytest.approx(log_loss(y, p))
    assert mine["Brier"] == pytest.approx(brier_score_loss(y, p))
    assert mine["accuracy"] == pytest.approx(np.mean((p > 0.5) == y))


@pytest.mark.slow
def test_paired_interval_has_the_width_of_the_standard_error():
    rng = np.random.default_rng(1)
    gap = rng.normal(0.3, 1.0, 500)
    low, high = ladder.paired_interval(gap, np.arange(500), rng)
    wanted = gap.mean() + np.array([-1.96, 1.96]) * gap.std() / np.sqrt(500)
    np.testing.assert_allclose([low, high], wanted, atol=0.015)
    # points that only repeat each other tell nothing new: resampled in their groups, the interval is as wide
    again = ladder.paired_interval(np.repeat(gap, 9), np.repeat(np.arange(500), 9), np.random.default_rng(2))
    alone = ladder.paired_interval(np.repeat(gap, 9), np.arange(4500), np.random.default_rng(2))
    assert np.diff(again) == pytest.approx(high - low, rel=0.1)
    assert np.diff(alone) < 0.5 * (high - low)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*ladder.CORE, "DSGQ, no nugget", "CIK, declustered mean"])
def test_every_rung_is_tuned_and_answers(name):
    data = roeder_field(60, random_state=2)
    p, tuning, spent, estimator = ladder.answer(name, data.X[:45], data.y[:45], data.X[45:], 0, QUICK)
    assert np.all((p >= 0) & (p <= 1))
    assert tuning > 0
    assert spent >= 0
    again = ladder.answer(name, data.X[:45], data.y[:45], data.X[45:], 0, QUICK)[0]
    np.testing.assert_array_equal(p, again)
    if name == "DSGQ, no nugget":
        assert "WhiteKernel" not in str(estimator.kernel_)


def test_kriging_follows_lone_samples_and_the_doubly_stochastic_model_does_not():
    fitted = figures.six_maps(Setting())
    found = figures.dissenting(fitted)
    assert found["CIK"] == found["SIK"]
    wrong, lone, followed = found["CIK"]
    assert (wrong, followed) == (0, lone)
    assert lone > 0
    for name in ("AMP", "DSGQ"):
        assert found[name][0] > 0
        assert found[name][2] < lone


def test_figures_that_need_no_data():
    for draw in (figures.figure2, figures.figure3, figures.figure4):
        assert len(draw().axes) == 2
    for rho, published in figures.FIGURE_4:
        above, below = figures.orthants(rho)
        assert above / (above + below) == pytest.approx(published, abs=5e-4)


def test_the_sea_has_the_probability_it_says():
    """Labels in bins of the true probability have its frequency; the features have similar variances."""
    sea = simulate_sea(6000, 0)
    p = sea.probability
    for low in np.arange(0.0, 1.0, 0.2):
        of = (p > low) & (p < low + 0.2)
        error = np.sqrt(np.mean(p[of] * (1 - p[of])) / of.sum())
        assert abs(sea.y[of].mean() - p[of].mean()) < 4 * error
    variance = sea.features.var(axis=0)
    assert variance.max() < 2 * variance.min()
    assert sea.maps[:, :, :6].var() > sea.maps[:, :, -6:].var()  # more in the west, as in R Figure 5


def test_diagrams():
    assert len(diagrams.figure1().axes) == 1
    assert len(diagrams.figure5(0).axes) == 2  # the map and its colours


def test_storms_with_the_covariance_of_the_papers_first_experiment():
    assert (repeats.FIRST.smoothness, repeats.FIRST.length_scale, repeats.FIRST.sill, repeats.FIRST.nugget) == (
        *(10.0, 0.4, 0.17),
        0.0,
    )
    X, y, _ = repeats.stormy_sea(0)
    effort = ladder.Effort(n_points=3, draws=50, tol=0.02, given=repeats.FIRST)
    for name in ("CIK", "DSGQ"):
        *_, fitted = ladder.answer(name, X[:60], y[:60], X[60:], 0, effort)
        matern = fitted.kernel_.k2
        assert matern.nu == 10.0
        assert fitted.kernel_.k1.constant_value == pytest.approx(0.17)
        assert name != "CIK" or matern.length_scale == 0.4  # DSGQ's by cross-validation


def test_only_sets_of_the_papers_size_are_timed():
    found = {"CIK": np.array([0.2, 0.8]), "SIK": np.array([0.4, 0.6])}
    slow = {"CIK": 0.01, "DSGQ": 1.58}
    assert [one.claim for one in table1._judge("waves", 203, found, slow)] == [
        "waves: CIK and SIK share their decisions"
    ]
    timed, same = table1._judge("simulated", table1.SIZE, found, slow)
    assert not timed.met
    assert "708 ×" in timed.measured
    assert same.met
    assert table1._judge("simulated", table1.SIZE, found, {"CIK": 0.01, "DSGQ": 0.3})[0].met
