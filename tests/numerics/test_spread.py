"""Standard deviations of columns."""

import numpy as np

from gpclass.covariance._generic import STEP_INPUT, input_steps
from gpclass.numerics.spread import is_constant, spreads

SPREAD = np.random.default_rng(0).uniform(size=(50, 2))


def test_a_column_that_is_constant_but_for_rounding_has_the_unit_one():
    X = np.c_[SPREAD, np.full(50, -0.0437) + np.r_[4e-17, np.zeros(49)], np.full(50, 1e-30) * np.arange(50)]
    found = spreads(X)
    assert found[2] == 1.0
    np.testing.assert_array_equal(found[[0, 1, 3]], X.std(axis=0)[[0, 1, 3]])  # small numbers are no rounding
    np.testing.assert_array_equal(is_constant(X), [False, False, True, False])


def test_steps_of_numerical_slopes_are_no_rounding_errors():
    X = np.c_[SPREAD, np.full(50, 0.1), np.zeros(50)]
    assert X[:, 2].std() > 0  # but it is rounding
    np.testing.assert_allclose(input_steps(X) / STEP_INPUT, [*X[:, :2].std(axis=0), 0.1, 1.0])
