"""Simulation-based calibration: the tests of uniformity, a short run, and the stored result."""

import numpy as np
import pytest
from benchmarks.sbc import Case, block, cases, stored
from benchmarks.sbc_page import judged
from benchmarks.uniformity import chi_square, envelope, gaps, holm, largest_gap


@pytest.mark.slow
def test_p_values_of_uniform_ranks_are_uniform_and_others_are_small():
    rng = np.random.default_rng(0)
    sets = rng.multinomial(500, np.full(20, 0.05), 300)
    for test in (chi_square, largest_gap):
        p = np.array([test(counts) for counts in sets])
        assert 0.01 < np.mean(p < 0.05) < 0.10
    inside = np.all(np.abs(gaps(sets)) <= envelope(20, 500), axis=1)
    assert 0.90 < inside.mean() < 0.99
    middle = np.interp(np.arange(20), [0, 9.5, 19], [0.02, 0.08, 0.02])
    narrow = rng.multinomial(500, middle / middle.sum())
    assert max(chi_square(narrow), largest_gap(narrow)) < 1e-3


def test_holm_corrects_for_the_number_of_tests():
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03]), [0.03, 0.06, 0.06])
    np.testing.assert_allclose(holm([0.5, 0.9]), [1.0, 1.0])


@pytest.mark.slow
def test_a_short_run_passes_exact_draws_and_finds_draws_of_the_prior():
    sound = block(Case("exact", "fixed", "two", "dense", "probit"), 0, 60)
    assert min(largest_gap(counts) for counts in sound["counts"].values()) > 1e-3
    prior = block(Case("the prior", "fixed", "two", "dense", "probit", "spoiled"), 0, 60)["counts"]
    assert largest_gap(prior["log p"]) < 1e-3
    assert largest_gap(prior["f at a new point"]) > 1e-3  # which does not depend on the labels


def test_every_exact_inference_and_strategy_is_a_case():
    from gpclass.registry import INFERENCES, STRATEGIES

    found = cases()
    assert {c.inference for c in found} >= {name for name, row in INFERENCES.items() if row.exact}
    assert {c.strategy for c in found} >= {name for name, row in STRATEGIES.items() if row.exact}
    assert len({c.key for c in found}) == len(found)


@pytest.mark.parametrize("kind", ["exact", "approximate", "spoiled"])
def test_the_stored_ranks_are_uniform_but_for_spoiled_methods(kind):
    rows = [row for row in judged(stored()) if row["case"].kind == kind]
    assert rows
    for row in rows:
        assert row["p"] < 1e-3 if kind == "spoiled" else row["p"] > 0.01, row["case"].key
