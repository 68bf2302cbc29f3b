"""The shape of a Pareto tail, against known shapes and against another implementation."""

import numpy as np
import pytest
from arviz_stats import base

from gpclass.numerics.pareto import shape, tail_shape, tail_size


def excesses(k, n, rng):
    u = rng.random(n)
    return np.sort(np.expm1(-k * np.log1p(-u)) / k)


@pytest.mark.parametrize("k", [-0.3, 0.2, 0.7, 1.5])
def test_shapes_of_pareto_tails_are_found(k):
    n, rng = 3000, np.random.default_rng(0)
    found = [shape(excesses(k, n, rng)) for _ in range(50)]
    sd = (1 + k) / np.sqrt(n)  # asymptotically that of the maximum likelihood estimate
    assert abs(np.mean(found) - k) < 4 * sd / np.sqrt(50) + 15 / n  # and the prior's pull
    assert 0.7 * sd < np.std(found) < 1.4 * sd


@pytest.mark.parametrize("n", [60, 225, 226, 1000, 10_000])
@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0])
def test_it_is_what_arviz_computes(n, spread):
    w = np.exp(spread * np.random.default_rng(n).standard_normal(n))
    other = base.array_stats.pareto_khat(w, chain_axis=None, draw_axis=-1, r_eff=1.0, tail="right")
    assert tail_shape(w) == pytest.approx(float(other), abs=1e-10)


def test_the_tail_is_a_fifth_of_few_values():
    assert [tail_size(n) for n in (25, 225, 226, 10_000)] == [5, 45, 45, 300]


def test_ties_where_the_tail_begins_have_no_shape():
    assert np.isnan(tail_shape(np.repeat([0.1, 0.5, 1.0], [50, 40, 10])))
