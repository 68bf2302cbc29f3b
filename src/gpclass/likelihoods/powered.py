r"""Moments of a factor raised to a power: N(u; a, b) Λ(u)^w, 0 < w <= 1, for a row with a fractional weight.

The log integrand g is concave, with a kink of width one at zero: three Gauss-Legendre panels meet on either side of it
and end where g has fallen by ``DROP`` from its mode, so each holds a smooth function.
Cost: a few Newton steps, and 192 nodes per row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpclass._typing import Array

DROP = 40.0  # in nats below the mode: e^-40 of the mass is excluded
LEGENDRE = np.polynomial.legendre.leggauss(64)
KINK = 8.0  # beyond this the links are straight lines (logit) or parabolas (probit) in logs


def powered_tilt(
    log_link: Callable[[Array], Array],
    slopes: Callable[[Array], tuple[Array, Array, Array]],
    a: Array,
    b: Array,
    w: Array,
) -> tuple[Array, Array, Array]:
    """The log Z, mean and variance of N(u; a, b) Λ(u)^w/Z for (n,) arrays, from log Λ and its derivatives."""

    def g(u: Array) -> Array:
        return np.asarray(w * log_link(u) - 0.5 * (u - a) ** 2 / b)

    def slope(u: Array) -> Array:
        return np.asarray(w * slopes(u)[0] - (u - a) / b)

    mode = a.copy()
    for _ in range(100):  # g' is convex and falls, positive at a: Newton's steps rise to its zero
        step = slope(mode) / (1.0 / b - w * slopes(mode)[1])
        mode = mode + step
        if np.all(np.abs(step) <= 1e-10 * np.sqrt(b)):
            break
    top = g(mode)
    ends = []
    for side in (-1.0, 1.0):  # from outside, Newton's steps on a concave g come inwards and stop at the drop
        end = mode + side * np.sqrt(2.0 * DROP * b)
        for _ in range(30):
            step = (g(end) - top + DROP) / slope(end)
            end = end - step
            if np.all(np.abs(step) <= 0.01 * np.abs(end - mode)):
                break
        ends.append(end)
    left, right = ends
    edges = [left, np.clip(-KINK, left, right), np.clip(KINK, left, right), right]
    x, weight = LEGENDRE
    half = 0.5 * np.diff(edges, axis=0)[:, :, None]  # (3, n, 1)
    nodes = np.asarray(edges[:-1])[:, :, None] + half * (x + 1.0)
    log_mass = w[:, None] * log_link(nodes) - 0.5 * (nodes - a[:, None]) ** 2 / b[:, None] - top[:, None]
    mass = half * weight * np.exp(log_mass)
    total = mass.sum(axis=(0, 2))
    centre = (mass * nodes).sum(axis=(0, 2)) / total
    spread = (mass * (nodes - centre[:, None]) ** 2).sum(axis=(0, 2)) / total
    return top + np.log(total) - 0.5 * np.log(2.0 * np.pi * b), centre, spread
