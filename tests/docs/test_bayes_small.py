"""What the page on few rows says of differences: errors between sets, not between runs."""

import json

import numpy as np
import pytest
from benchmarks.bayes_small import KEPT, PAGE, SETS, is_clear, keyed, over_sets, said


def test_the_error_over_sets_is_between_them():
    sets = {"a": np.array([-0.011, -0.010, -0.009, -0.010]), "b": np.array([-0.3, 0.2, -0.2, -0.1])}
    sets |= {"c": np.array([0.019, 0.020, 0.020, 0.021]), "d": np.array([0.05])}
    mean, lower, higher = over_sets(sets)
    means = np.array([-0.01, -0.1, 0.02, 0.05])
    assert mean == f"{means.mean():+.3f} ± {means.std(ddof=1) / 2:.3f}"
    assert (lower, higher) == ("**a**, b", "**c**, d")
    assert over_sets({"d": np.array([0.05])}) == ("+0.050", "none", "d")


@pytest.mark.parametrize(("centre", "clear"), [(0.9 * 3.182, False), (1.1 * 3.182, True)])
def test_differences_are_bold_outside_the_interval_of_students_t(centre, clear):
    gaps = np.array([-1.0, 1.0, -1.0, 1.0]) * np.sqrt(3) + centre  # a standard error of one, three degrees of freedom
    assert is_clear(gaps) == clear
    assert said(gaps).startswith("**") == clear
    assert not is_clear(gaps[:3] * 0 + 1.0)  # three runs have no error


def test_the_page_has_the_stored_differences():
    stored, page = json.loads(KEPT.read_text()), PAGE.read_text()
    for n, covariance in ((25, "isotropic"), (25, "ard"), (100, "isotropic"), (100, "ard")):
        runs = {name: stored.get(keyed(name, n, covariance), []) for name in SETS}
        gaps = {name: np.array([one["bayes"][0] - one["maximize"][0] for one in each]) for name, each in runs.items()}
        assert " | ".join(over_sets({name: each for name, each in gaps.items() if len(each)})) in page
