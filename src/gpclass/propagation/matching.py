"""Moment matching: one update of expectation propagation.

The cavity is N(v; c/p, 1/p), with precision p and shift c; the tilted distribution is the cavity times the true factor.
The site (t, h) is the one whose product with the cavity has the tilted mean m and variance s²:

    t = 1/s² − p,   h = m (p + t) − c.

A factor may occur w times. Its copies share one site, and each is matched against a cavity that contains the others:
a fixed point in two numbers, solved here so that copies need no additional sweeps.

Cost: one tilted moment per site; about ten with copies.
Fails when: a factor is not log-concave, so that its tilted variance exceeds the cavity's: the site then has t = 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from scipy.optimize import root

from gpclass._typing import Array
from gpclass.propagation.factors import SHARPEST

ROUNDING = 1e-12  # of a tilted moment: as many copies multiply it
TiltedOne: TypeAlias = Callable[[int, float, float], tuple[float, float, float]]


def match(tilted_one: TiltedOne, k: int, precision: float, shift: float) -> tuple[float, float] | None:
    """The site whose product with the cavity has the tilted moments; None if these are invalid."""
    cavity = 1 / precision
    _, mean, var = tilted_one(k, shift * cavity, cavity)
    var = max(var, SHARPEST * cavity)
    t = max(1 / var - precision, 0.0)  # negative only by rounding, or if the factor is not log-concave
    s = mean * (precision + t) - shift
    return (t, s) if math.isfinite(t) and math.isfinite(s) else None


def match_copies(
    tilted_one: TiltedOne, k: int, w: float, rest: float, rest_shift: float, t: float, s: float
) -> tuple[float, float] | None:
    """The total of w copies of one site, each matched against a cavity that contains the w − 1 others.

    A fixed point p = rest + (w − 1) t(p, c), c = rest_shift + (w − 1) s(p, c) in the cavity (p, c) of one
    copy, solved here so that copies need no additional sweeps: by plain iteration from the current site or, if that
    does not converge, by Powell's hybrid method from there or from the Gaussian without the site. None if all fail.
    """
    p, c = begin = rest + (w - 1) / w * t, rest_shift + (w - 1) / w * s
    change = math.inf
    for _ in range(40):
        new = match(tilted_one, k, p, c)
        if new is None:
            break
        dp, dc = rest + (w - 1) * new[0] - p, rest_shift + (w - 1) * new[1] - c
        last, change = change, abs(dp) / p + abs(dc) / (abs(c) + math.sqrt(p))
        if change < 1e-11 or (change > 0.5 * last and change < ROUNDING * w):
            return w * new[0], w * new[1]
        if change > 3 * last:  # the fixed point repels
            break
        p, c = p + dp, c + dc

    def cavity(x: Array) -> tuple[float, float]:
        p = math.exp(min(max(float(x[0]), -500.0), 500.0))
        return p, float(x[1]) * p / math.sqrt(rest)

    def residual(x: Array) -> tuple[float, float]:
        p, c = cavity(x)
        t, s = match(tilted_one, k, p, c) or (math.inf, math.inf)
        return (rest + (w - 1) * t) / p - 1, (rest_shift + (w - 1) * s - c) / p * math.sqrt(min(p, rest))

    for p, c in (begin, (rest, rest_shift)):
        found = root(residual, [math.log(p), c / p * math.sqrt(rest)], method="hybr", tol=1e-12)
        new = match(tilted_one, k, *cavity(found.x))
        if new is not None and max(map(abs, residual(found.x))) <= max(1e-8, ROUNDING * w):
            return w * new[0], w * new[1]
    return None
