"""The number of draws for a tolerance: sure enough where errors are noisy, and no pilot more than needed."""

import numpy as np
import pytest

from gpclass.numerics.groups import group_error
from gpclass.orthant.enough import SPARE, Falling, RootLaw, enough, how_many

GROUPS = 25


def stated(M, rng, spread=1.0):
    """The error of the mean of M draws, from few groups with long tails."""
    means = spread * np.sqrt(GROUPS / M) * rng.standard_t(8, GROUPS) / np.sqrt(8 / 6)
    return float(group_error((means - means.mean()) / GROUPS))


def run(tol, seed, most=10**7, first=2000, spread=1.0):
    made = []

    def pilot(M, rng):
        made.append(M)
        return RootLaw(stated(M, rng, spread), M, GROUPS)

    got = enough(lambda M, rng: (M, stated(M, rng, spread)), pilot, np.random.default_rng(seed), tol=tol, first=first,
                 most=most)  # fmt: skip
    return *got.drawn, made


@pytest.mark.parametrize("needed", [1000, 4000, 30_000, 10**6])
def test_final_draws_nearly_always_meet_the_tolerance(needed):
    tol = needed**-0.5
    found = [run(tol, seed)[:2] for seed in range(300)]
    M, error = np.array(found).T
    assert np.mean(error > tol) < 0.05
    assert np.quantile(error, 0.99) < 1.2 * tol
    assert np.median(M) < 3.2 * max(needed, 750)


def test_one_pilot_where_its_own_number_is_enough():
    M, _, made = run(0.1, seed=0)
    assert made == [2000]
    assert M == 2000
    assert run(1e-9, seed=0, most=5000)[::2] == (5000, [2000])


def test_a_lucky_pilot_does_not_decide_alone():
    """The variances per draw of all pilots are pooled."""
    lucky, second = RootLaw(0.1, 1000, GROUPS), RootLaw(0.4, 3000, GROUPS)
    pooled = second.after(lucky)
    assert pooled.stated**2 * pooled.M == pytest.approx((0.1**2 * 1000 * 1000 + 0.4**2 * 3000 * 3000) / 4000)
    assert lucky.error(9000) < pooled.error(9000) < second.error(9000)
    assert lucky.reach < pooled.reach
    assert RootLaw(np.nan, 1000, 1).error(10**9) == np.inf


class Steps(Falling):
    """An error that falls where another whole set of draws is complete, and not between."""

    def error(self, M):
        return (M // 400 * 400) ** -0.5


def test_draws_that_come_in_steps_are_no_more_than_the_spare_variance_needs():
    """Of 11 sets or fewer the error is too large; 12 leave a tenth to spare, and a share beyond them adds nothing."""
    tol = (4800 / SPARE) ** -0.5
    assert Steps().wanted(tol, 1000, 10**5) == 4800
    assert Steps().wanted(0.999 * tol, 1000, 10**5) == 5200
    assert Steps().wanted(1e-9, 1000, 5000) == 5000


def test_the_number_alone_is_that_of_the_draws():
    def pilot(M, rng):
        return RootLaw(0.01, M, 25)

    settings = {"tol": 0.008, "first": 1000, "most": 50_000}
    drawn = enough(lambda M, rng: M, pilot, np.random.default_rng(0), **settings)
    found = how_many(pilot, np.random.default_rng(0), **settings)
    assert (found.M, found.expected, found.met) == (drawn.drawn, drawn.expected, drawn.met)
    known = how_many(no_pilot, np.random.default_rng(0), **settings | {"tol": 0.1}, known=RootLaw(0.01, 1000, 25))
    assert known.M == 1000


def no_pilot(M, rng):
    raise AssertionError("a pilot was made")
