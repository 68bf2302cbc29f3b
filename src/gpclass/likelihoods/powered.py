r"""Factors raised to a power, Λ(u)^w, for rows with a fractional weight: their logarithm and their moments.

The log of N(u; a, b) Λ(u)^w is concave, with a kink of width one at zero: three Gauss-Legendre panels meet on either
side of it and end where it has fallen by ``DROP`` from its mode, so each holds a smooth function.
Cost: some ten evaluations for the panels, and 192 nodes per row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpclass._typing import Array
from gpclass.numerics.tilted import tilted_range

DROP = 40.0  # in nats below the mode: e^-40 of the mass is excluded
LEGENDRE = np.polynomial.legendre.leggauss(64)
KINK = 8.0  # beyond this the links are straight lines (logit) or parabolas (probit) in logs


@dataclass(frozen=True)
class Power:
    """Λ^w."""

    log_link: Callable[[Array], Array]
    derivatives: Callable[[Array], tuple[Array, Array, Array]]  # of its logarithm

    def log(self, u: Array, w: Array | float) -> Array:
        """The log of the factor."""
        return np.asarray(w * self.log_link(u))

    def slopes(self, u: Array, w: Array | float) -> tuple[Array, Array]:
        """Its first two derivatives."""
        d1, d2, _ = self.derivatives(u)
        return w * d1, w * d2

    def tilt(self, a: Array, b: Array, w: Array) -> tuple[Array, Array, Array]:
        """The log Z, mean and variance of N(u; a, b) Λ(u)^w/Z for (n,) arrays."""
        _, left, right = tilted_range(self, a, np.sqrt(b), w, DROP)
        edges = [left, np.clip(-KINK, left, right), np.clip(KINK, left, right), right]
        x, weight = LEGENDRE
        half = 0.5 * np.diff(edges, axis=0)[:, :, None]  # (3, n, 1)
        nodes = np.asarray(edges[:-1])[:, :, None] + half * (x + 1.0)
        log_f = self.log(nodes, w[:, None]) - 0.5 * (nodes - a[:, None]) ** 2 / b[:, None]
        top = log_f.max(axis=(0, 2))
        mass = half * weight * np.exp(log_f - top[:, None])
        total = mass.sum(axis=(0, 2))
        centre = (mass * nodes).sum(axis=(0, 2)) / total
        spread = (mass * (nodes - centre[:, None]) ** 2).sum(axis=(0, 2)) / total
        return top + np.log(total) - 0.5 * np.log(2.0 * np.pi * b), centre, spread
