"""What is stored of the calibration of stated errors meets its goals, and a spoiled problem would be noticed."""

import json

import numpy as np
from benchmarks import effective_share
from benchmarks.calibration import KEPT, KEPT_UNBIASED
from benchmarks.calibration_page import bias, holm, low_at_the_median, new, rejected, silent


def test_holm_against_the_definition():
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]).max() == 1.0


def test_no_problem_misses_too_often_without_a_warning():
    kept = json.loads(KEPT.read_text())
    assert len(kept) > 90
    assert not rejected(kept)


def test_errors_hold_at_the_median_point_too():
    kept = json.loads(KEPT.read_text())
    assert new(kept["probit / 200 / 1000 / separable"])  # 0.35 once, of probabilities close to 0 and 1
    assert not low_at_the_median(kept)
    name = next(name for name, figures in kept.items() if new(figures))
    kept[name] = kept[name] | {"median": 0.8}
    assert low_at_the_median(kept) == [name]


def test_a_spoiled_problem_is_noticed():
    """Errors stated a third too small cover 0.82."""
    kept = json.loads(KEPT.read_text())
    name = next(iter(kept))
    kept[name] = kept[name] | {"missed without warning": 0.18}
    assert silent(kept[name]) == 36
    assert rejected(kept) == [name]


def test_the_evidence_has_no_bias():
    found = json.loads(KEPT_UNBIASED.read_text())
    ratio = [off / error for off, error in map(bias, found.values())]
    assert len(ratio) >= 4
    assert np.max(np.abs(ratio)) < 2.7  # four to six normal errors, with probability 0.96


def test_draws_under_the_logit_link_are_even():
    for row in json.loads(effective_share.KEPT.read_text()):
        new, old = row["guided"], row["reweighted"]
        assert new["share"] > 0.3
        assert new["smallest"] > 0.1
        assert old["smallest"] > 0.1 or old["sd"] > 5 * new["sd"]
