r"""Draws from a normal times a smooth factor, as a smooth function of a standard normal.

The guided sampler needs x from the tilted density N(x; m, c²) g(x)/Z for many means m, with one factor g per
coordinate. For a step (a box) that is a truncated normal. For any other log-concave factor the quantile function
X(ζ; m), ζ standard normal, is tabulated: exact quantiles and slopes at nodes in ζ and m, cubic between them. The draw
is weighted by the density that it really has,

    log w = log N(X; m, c²) + log g(X) + log X′(ζ) − log φ(ζ),

so interpolation errors make weights a little less even and never wrong. The nodes in m are multiples of a step that
depends on c alone: a draw does not depend on the other draws.

Cost: per coordinate one table, some 40 means × 96 points; then four reads of four numbers per draw.
Fails when: log g is not concave.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri

from gpclass._typing import Array, IntArray
from gpclass.numerics.tilted import Link, tilted_range

NODE = 0.5  # spacing of the means, in widths of the tilted density
ZETA = np.linspace(-5.0, 5.0, 41)
GAP = ZETA[1] - ZETA[0]
DROP = 22.0  # nats below the mode: beyond the last node in ζ
UP = np.linspace(0.0, 1.0, 49)  # points of the quadrature behind the quantiles, from the mode on
DOWN = UP[:0:-1]
KEPT = 4000  # tables
MOST_NODES = 400  # between the means, before nodes without neighbours are left out
FAR = 80.0  # separates rows in one sorted array
HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)


@dataclass(frozen=True, eq=False)
class SmoothFactors:
    """Factors g_i(x) = link(stretch_i x + shift_i)^power_i of some coordinates of a box; the others are intervals."""

    links: tuple[Link, ...]
    kind: IntArray  # (n,), index of the link; −1 for an interval
    stretch: Array  # (n,)
    power: Array  # (n,)
    shift: Array  # (n,)
    tables: dict[tuple[int, float, float], Table] = field(default_factory=dict, repr=False)  # made so far, by any order

    def take(self, order: IntArray) -> SmoothFactors:
        """Those of the coordinates in another order."""
        stretch, power, shift = (part[order] for part in (self.stretch, self.power, self.shift))
        return SmoothFactors(self.links, self.kind[order], stretch, power, shift, self.tables)

    def log(self, i: int, x: Array) -> Array:
        """Log g_i(x)."""
        return np.asarray(self.links[self.kind[i]].log(self.stretch[i] * x + self.shift[i], self.power[i]))

    def draw(self, i: int, m: Array, c: float, u: Array, out: Array) -> Array:
        """Draw coordinate i into ``out`` from uniforms u (M,), given means m (M,); returns log w (M,)."""
        s, w, link = self.stretch[i], float(self.power[i]), self.links[self.kind[i]]
        zeta = ndtri(u)
        a = s * m + self.shift[i]
        u_, slope = self._table(i, s * c).quantile(a, zeta)
        gap = (u_ - a) / (s * c)
        np.divide(u_ - self.shift[i], s, out=out)
        with np.errstate(divide="ignore"):  # where quantiles do not rise, weights are zero
            rise = np.log(slope / (s * c))
        return np.asarray(link.log(u_, w) - 0.5 * gap * gap + rise + 0.5 * zeta * zeta)

    def log_mass(self, i: int, m: Array, c: float) -> Array:
        """Log ∫ N(x; m, c²) g_i(x) dx for means m (M,), interpolated."""
        return self._table(i, self.stretch[i] * c).log_mass(self.stretch[i] * m + self.shift[i])

    def _table(self, i: int, b: float) -> Table:
        """The table of coordinate i, kept for further draws of proposals with the same spread."""
        kind, power = self.kind.item(i), self.power.item(i)
        found = self.tables.get((kind, power, b))
        if found is None:
            found = Table(self.links[kind], b, power)
            if len(self.tables) < KEPT:
                self.tables[kind, power, b] = found
        return found


class Table:
    """Quantiles of N(u; a, b²) link(u)^w, for means a as they are needed."""

    def __init__(self, link: Link, b: float, w: float) -> None:
        self.link, self.b, self.w = link, b, w
        self.step = NODE * float(np.hypot(b, 1.0 / np.sqrt(max(1.0, w))))  # between the means that are nodes
        self.known: tuple[float, Tilted] | None = None  # the first node, and what was computed from there on

    def quantile(self, a: Array, zeta: Array) -> tuple[Array, Array]:
        """Quantiles U(ζ; a), interpolated, and the interpolant's slope in ζ, (M,) each."""
        tilted, where, x = self._cells(a)
        at = np.clip((zeta - ZETA[0]) / GAP, 0.0, len(ZETA) - 1 - 1e-9)
        j = at.astype(np.intp)
        t = at - j
        place = where * (len(ZETA) - 1) + j
        weights = _weights(x, tilted.smooth[where])
        corner = np.zeros((len(a), 4))
        for r, weight in enumerate(weights):
            part = tilted.cells.take(place + r * (len(ZETA) - 1), axis=0)
            part *= weight[:, None]
            corner += part
        U = np.einsum("mi,im->m", corner, _hermite(t))
        dU = np.einsum("mi,im->m", corner, _hermite_slope(t)) / GAP
        beyond = zeta - np.clip(zeta, ZETA[0], ZETA[-1])  # straight lines beyond the last nodes
        return U + beyond * dU, dU

    def log_mass(self, a: Array) -> Array:
        """Log ∫ N(u; a, b²) link(u)^w du, interpolated, (M,)."""
        tilted, where, x = self._cells(a)
        return np.asarray(sum(weight * tilted.log_z[where + r] for r, weight in enumerate(_lagrange(x))))

    def _cells(self, a: Array) -> tuple[Tilted, IntArray, Array]:
        """Tables at nodes, the index of the first of four nodes about each mean, and its position from the second."""
        at = a / self.step
        below = np.floor(at)
        x = at - below
        low, high = float(below.min() - 1), float(below.max() + 2)
        if self.known is not None:
            first, tilted = self.known
            if first <= low and high < first + len(tilted.log_z):
                return tilted, (below - (first + 1)).astype(np.intp), x
            if max(high, first + len(tilted.log_z)) - min(low, first) < MOST_NODES:
                low, high = min(low, first), max(high, first + len(tilted.log_z) - 1)
        if high - low < MOST_NODES:
            tilted = Tilted.of(self.link, self.step * np.arange(low, high + 1, dtype=np.float64), self.b, self.w)
            self.known = low, tilted
            return tilted, (below - (low + 1)).astype(np.intp), x
        used, place = np.unique(below, return_inverse=True)  # a few means are far away
        nodes = np.unique(used[:, None] + np.arange(-1, 3))
        tilted = Tilted.of(self.link, np.asarray(nodes * self.step), self.b, self.w)
        return tilted, (np.searchsorted(nodes, used) - 1)[place], x


def _lagrange(x: Any) -> tuple[Any, Any, Any, Any]:
    """Weights of the four nodes about a cell, at x in [0, 1]."""
    first, second, last = x + 1, x - 1, x - 2
    around = first * x
    return -x * second * last / 6, first * second * last / 2, -around * last / 2, around * second / 6


def _weights(x: Array, smooth: Array) -> list[Array]:
    """Cubic weights of the four nodes, or linear ones of the inner two."""
    cubic = _lagrange(x)
    if smooth.all():
        return list(cubic)
    none = np.zeros_like(x)
    return [np.where(smooth, one, line) for one, line in zip(cubic, (none, 1.0 - x, x, none), strict=True)]


def _hermite(t: Array) -> Array:
    rest = 1.0 - t
    return np.stack([(1 + 2 * t) * rest * rest, t * rest * rest, t * t * (3 - 2 * t), -t * t * rest])


def _hermite_slope(t: Array) -> Array:
    return np.stack([6 * t * (t - 1), (1 - t) * (1 - 3 * t), 6 * t * (1 - t), t * (3 * t - 2)])


@dataclass(frozen=True)
class Tilted:
    """N(u; a, b²) link(u)^w for means a (P,): log masses, and quantiles with their slopes at the nodes in ζ."""

    log_z: Array  # (P,)
    value: Array  # (P, nodes)
    slope: Array  # (P, nodes)

    @classmethod
    def of(cls, link: Link, a: Array, b: float, w: float) -> Tilted:
        """By quadrature between the points where the density has fallen by ``DROP`` nats."""
        mode, left, right = tilted_range(link, a, b, w, DROP)
        u = np.hstack([mode[:, None] + (left - mode)[:, None] * DOWN, mode[:, None] + (right - mode)[:, None] * UP])
        h = np.diff(u, axis=1)
        top = link.log(mode, w) - 0.5 * ((mode - a) / b) ** 2
        f = np.exp(link.log(u, w) - 0.5 * ((u - a[:, None]) / b) ** 2 - top[:, None])
        df = f * (link.slopes(u, w)[0] - (u - a[:, None]) / b**2)
        part = h * (0.5 * (f[:, 1:] + f[:, :-1]) + h / 12 * (df[:, :-1] - df[:, 1:]))
        np.maximum(part, 1e-300, out=part)
        mass = np.cumsum(part, axis=1)
        total = mass[:, -1:]
        lower = mass[:, :-1] / total
        upper = np.cumsum(part[:, ::-1], axis=1)[:, -2::-1] / total  # 1 − lower, accurate where that is small
        inner = np.where(lower < 0.5, ndtri(lower), -ndtri(upper))  # ζ at u[:, 1:-1]
        density = f[:, 1:-1] / total
        value, slope = _inverse(u[:, 1:-1], inner, density)
        return cls(top + np.log(total[:, 0]) - np.log(b) - HALF_LOG_2PI, value, slope)

    @cached_property
    def smooth(self) -> Array:
        """Whether cubics in the mean keep the quantiles increasing, by the first of four nodes, (P − 3,)."""
        slope = self.slope
        least = 0.2 * np.minimum(slope[1:-2], slope[2:-1])
        found = np.ones(len(slope) - 3, dtype=bool)
        for x in (0.25, 0.5, 0.75):
            mixed = sum(c * slope[r : len(slope) - 3 + r] for r, c in enumerate(_lagrange(x)))
            found &= np.all(mixed > least, axis=1)
        return found

    @cached_property
    def cells(self) -> Array:
        """Value and slope at both ends of every cell in ζ, (P·cells, 4)."""
        ends = np.stack([self.value, GAP * self.slope], axis=2)
        return np.concatenate([ends[:, :-1], ends[:, 1:]], axis=2).reshape(-1, 4)


def _inverse(u: Array, zeta: Array, density: Array) -> tuple[Array, Array]:
    """Quantiles (P, nodes) and their slopes at ``ZETA``, from ζ (P, k) and densities (P, k) at points u (P, k)."""
    rows, k = u.shape
    slope = np.exp(-0.5 * zeta**2 - HALF_LOG_2PI) / density  # du/dζ
    key = (zeta + FAR * np.arange(rows)[:, None]).ravel()
    goal = (ZETA + FAR * np.arange(rows)[:, None]).ravel()
    i = np.searchsorted(key, goal)
    first = np.repeat(np.arange(rows) * k, len(ZETA))
    i = np.clip(i, first + 1, first + k - 1)
    gap = key[i] - key[i - 1]
    t = np.clip((goal - key[i - 1]) / gap, 0.0, 1.0)
    flat, d = u.ravel(), slope.ravel()
    corner = np.stack([flat[i - 1], gap * d[i - 1], flat[i], gap * d[i]])
    value = np.einsum("im,im->m", corner, _hermite(t))
    steep = np.einsum("im,im->m", corner, _hermite_slope(t)) / gap
    value, steep = value.reshape(rows, -1), steep.reshape(rows, -1)
    rise = np.diff(value, axis=1) / GAP
    limit = 3.0 * np.minimum(np.hstack([rise[:, :1], rise]), np.hstack([rise, rise[:, -1:]]))
    return value, np.minimum(steep, limit)  # below three times the rise on either side a cubic rises throughout
