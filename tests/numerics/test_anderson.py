"""Anderson's mixing on a map whose fixed point is known."""

import numpy as np
import pytest

from gpclass.numerics.anderson import Mixing


def linear_map(n, seed=0):
    """x -> A x + b with a spectral radius of 0.95, and its fixed point."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, n))
    A *= 0.95 / np.abs(np.linalg.eigvals(A)).max()
    b = rng.standard_normal(n)
    return lambda x: A @ x + b, np.linalg.solve(np.eye(n) - A, b)


@pytest.mark.parametrize("step", [1.0, 0.5])
@pytest.mark.parametrize("scale", [1.0, np.array([1.0, 10.0, 0.1, 3.0])])
def test_a_linear_map_is_solved_when_the_past_spans_the_space(step, scale):
    apply, fixed = linear_map(4)
    history, x = Mixing(depth=4), np.zeros(4)
    for _ in range(6):
        residual = apply(x) - x
        mixed = history.propose(x, residual, scale=scale, step=step)
        x = x + step * residual if mixed is None else mixed
    np.testing.assert_allclose(x, fixed, rtol=1e-8)
    plain = np.zeros(4)
    for _ in range(6):
        plain = apply(plain)
    assert np.abs(plain - fixed).max() > 1e-3  # without mixing it is far off


def test_too_few_points_give_nothing_and_the_past_is_bounded():
    history = Mixing(depth=2, least=3)
    rng = np.random.default_rng(1)
    found = [history.propose(rng.standard_normal(5), rng.standard_normal(5)) for _ in range(6)]
    assert [x is None for x in found] == [True, True, False, False, False, False]
    assert len(history.points) == len(history.residuals) == 3
    history.clear()
    assert history.propose(np.zeros(5), np.ones(5)) is None
