"""The table of local exactness in docs/scale.md."""

import pytest

local = pytest.importorskip("benchmarks.local")


def kept(truth_mcse):
    dense = {f"magic dense {k}": {"p": [0.5, 0.5 + 1e-3 * k], "mcse": [1e-3, 1e-3], "seconds": 5.0} for k in range(3)}
    row = {"mean": 1e-3, "largest": 2e-3, "mcse": 3e-3, "truncation": 4e-3, "within": [0.7, 0.95], "seconds": 9.0}
    return {**dense, f"magic {local.LOCAL}": {**row, "truth_mcse": truth_mcse}}


@pytest.mark.parametrize(("truth_mcse", "shares"), [(4.9e-3, "0.700, 0.950"), (5.1e-3, "–")])
def test_shares_are_not_shown_where_they_judge_the_reference(truth_mcse, shares):
    (line,) = [line for line in local.table(kept(truth_mcse)) if local.LOCAL in line]
    assert line.split(" | ")[-2] == shares


def test_the_dearer_of_the_two_is_named():
    assert "5 s against 9 s" in local.times(kept(1e-3))
    slower = {key: {**row, "seconds": 1.0 if local.LOCAL in key else 5.0} for key, row in kept(1e-3).items()}
    assert local.times(slower) == ""
