r"""Factors raised to a power, Λ(u)^w, for rows with a fractional weight: their logarithm and their moments.

The log of N(u; a, b) Λ(u)^w is concave and curved by at most 1/b + w. Between the points where it has fallen by
``DROP`` from its mode, equally spaced nodes a fraction ``SPACING`` of 1/√(1/b + max(w, 1)) apart integrate it to about
1e-10 (the trapezoidal rule of an analytic function). If that takes more than ``MOST`` nodes, because √b is far wider
than the kink of width one at zero, three Gauss-Legendre panels meet on either side of the kink: each holds a
smooth function. Cost: some ten evaluations for the range, and 20 to 96 nodes per row, 192 in panels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpclass._typing import Array
from gpclass.numerics.tilted import tilted_range

DROP = 36.0  # in nats below the mode: e^-36 of the mass is excluded
SPACING, MOST = 0.8, 96
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
        count = np.ceil((right - left) * np.sqrt(1.0 / b + np.maximum(w, 1.0)) / SPACING)
        moments = np.empty((3, len(a)))
        for rule, rows in ((_equal, count <= MOST), (_panels, count > MOST)):
            if rows.any():
                nodes, weight = rule(left[rows], right[rows], int(count[rows].max()))
                moments[:, rows] = self._moments(nodes, weight, a[rows, None], b[rows, None], w[rows, None])
        return moments[0], moments[1], moments[2]

    def _moments(self, nodes: Array, weight: Array, a: Array, b: Array, w: Array) -> Array:
        """Log Z, mean and variance (3, n) by a rule with (n, q) nodes; a, b, w are (n, 1)."""
        log_f = self.log(nodes, w) - 0.5 * (nodes - a) ** 2 / b
        top = log_f.max(axis=1)
        mass = weight * np.exp(log_f - top[:, None])
        total = mass.sum(axis=1)
        centre = np.einsum("nq,nq->n", mass, nodes) / total
        spread = np.einsum("nq,nq->n", mass, (nodes - centre[:, None]) ** 2) / total
        return np.stack([top + np.log(total) - 0.5 * np.log(2.0 * np.pi * b[:, 0]), centre, spread])


def _equal(left: Array, right: Array, count: int) -> tuple[Array, Array]:
    """Nodes (n, count) at equal distances and their weights (n, 1)."""
    step = ((right - left) / count)[:, None]
    return left[:, None] + step * (np.arange(count) + 0.5), step


def _panels(left: Array, right: Array, _: int) -> tuple[Array, Array]:
    """Nodes of three Gauss-Legendre panels that meet at ±KINK, and their weights, (n, 192) each."""
    edges = np.stack([left, np.clip(-KINK, left, right), np.clip(KINK, left, right), right], axis=1)
    x, weight = LEGENDRE
    half = 0.5 * np.diff(edges, axis=1)[:, :, None]  # (n, 3, 1)
    nodes = edges[:, :-1, None] + half * (x + 1.0)
    return nodes.reshape(len(left), -1), (half * weight).reshape(len(left), -1)
