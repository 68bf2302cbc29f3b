"""Standard errors of few groups."""

import numpy as np
import pytest

from gpclass.numerics.groups import group_error, group_starts, summed
from gpclass.orthant.weights import log_mean, relative_error
from tests.predict.test_two import wider


@pytest.mark.parametrize("groups", [3, 6])
def test_two_errors_of_the_log_evidence_cover_the_truth_with_few_groups(groups):
    """Weights of mean one in dependent groups: ±2 of the stated error holds zero as often as ±2 sd would."""
    rng, draws = np.random.default_rng(4), 40
    group = np.repeat(np.arange(groups), draws)
    found, stated = [], []
    for _ in range(1500):
        log_w = np.log1p(0.2 * np.repeat(rng.uniform(-1, 1, groups), draws) + 0.1 * rng.uniform(-1, 1, len(group)))
        found.append(log_mean(log_w))
        stated.append(relative_error(log_w, group))
    covered = np.mean(np.abs(found) < 2 * np.array(stated))
    assert 0.93 < covered < 0.97
    plain = np.array(stated) / wider(groups)  # negative control: without Student's factor
    assert np.mean(np.abs(found) < 2 * plain) < 0.92


def test_groups_are_added_up_in_any_order_and_one_has_no_error():
    group, off = np.array([4, 1, 4, 7, 1]), np.array([[1.0], [2.0], [3.0], [4.0], [5.0]])
    np.testing.assert_array_equal(summed(off, *group_starts(group)), [[7.0], [4.0], [4.0]])
    assert np.isnan(group_error(np.ones((1, 2)))).all()
