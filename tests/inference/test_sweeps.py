"""Sweeps to the fixed point of the sites."""

from types import SimpleNamespace

import numpy as np

from gpclass.inference import sweeps
from gpclass.inference.sweeps import _Mixing, fixed_point
from gpclass.latent.sites import Swept


class Turning:
    """A number that full steps throw to and fro; shorter ones lead to zero, and close to it so do all."""

    begun, finest = False, 0.0

    def __init__(self, x):
        self.x = x

    def responds(self, rule):
        return False

    def roughly(self, tol, rule):
        return self

    def sweep(self, held, rule, step, remember):
        x = self.x
        far_out = -100.0 if abs(x) <= 1.0 else -0.01
        moved = Turning(x * (far_out if step == 1.0 and abs(x) > 0.1 else 1.0 - 0.9 * step))
        return SimpleNamespace(held=held, gaussian=moved, value=0.0, ahead=False)

    def distance(self, other):
        return abs(self.x - other.x) / max(abs(other.x), 1.0)


RULE = SimpleNamespace(careful=False, bound=False, step=lambda likelihood: 1.0)


def problem_of(q):
    prior = SimpleNamespace(begin=lambda rule, near: ((), q), roughly=lambda tol, rule, near: prior)
    return SimpleNamespace(prior=prior, likelihood=SimpleNamespace(average_error=0.0), rows=SimpleNamespace(count=1.0))


def test_sites_that_go_to_and_fro_are_damped(monkeypatch):
    """Changes of 1, 100, 1, 100, ... never rise twice in a row."""
    monkeypatch.setattr(_Mixing, "shares", lambda *_: None)
    found = fixed_point(problem_of(Turning(1.0)), RULE, None, 100, 1e-3)
    assert found.converged
    assert sweeps.PATIENCE < found.sweeps < 40
    assert np.isclose(found.gaussian.x, 0.0, atol=2e-3)


def test_slow_but_steady_sweeps_are_not_damped(monkeypatch):
    monkeypatch.setattr(_Mixing, "shares", lambda *_: None)
    steps = []

    class Slow(Turning):
        def sweep(self, held, rule, step, remember):
            steps.append(step)
            return SimpleNamespace(held=held, gaussian=Slow(self.x * (1.0 - 0.05 * step)), value=0.0, ahead=False)

    assert fixed_point(problem_of(Slow(1.0)), RULE, None, 200, 1e-3).converged
    assert set(steps) == {1.0}


def test_sweeps_end_at_the_gaussians_own_error_and_ask_for_its_value_once(monkeypatch):
    monkeypatch.setattr(_Mixing, "shares", lambda *_: None)
    asked = []

    class Halving(Turning):
        finest = 0.01

        def sweep(self, held, rule, step, remember):
            return Swept(held, Halving(0.5 * self.x), lambda: asked.append(self.x) or 7.0)

    found = fixed_point(problem_of(Halving(1.0)), RULE, None, 200, 1e-9)
    assert found.converged
    assert found.value == 7.0
    assert asked == [found.gaussian.x]
    assert 0.005 < 0.5 * found.gaussian.x <= 0.01
