r"""A factor of f as noise and a factor of the noisy value: p(y|f)^w = ∫ N(v; f, 1/λ) g(y v) dv.

The exact engine draws v: noise of its own per row keeps the covariance of v well conditioned and the weights of the
draws even. A probit is noise of variance 1/s² and a step; for the logit see :mod:`gpclass.likelihoods.noisy_logit`. A
power of a link has no such form of its own. It gets noise of a small variance ε², with g = Λ^w corrected for it,

    log g = ℓ − ½ log c − ½ ε² ℓ′²/c,   c = 1 + ε² ℓ″,   ℓ = w log Λ,

exactly if ℓ were a parabola. The relative error is of order ε⁴: 10⁻⁶ for ε² = 0.003.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpclass._typing import Array, IntArray
from gpclass.likelihoods.powered import Power
from gpclass.numerics.tilted import Link

SHARP = 0.003  # ε², for a weight of at most one
STEP = -1  # the kind of a row whose factor is a step


@dataclass(frozen=True)
class Split:
    """Noise and factors of some rows."""

    precision: Array  # (r,), λ
    kind: IntArray  # (r,), index of the link of each row; ``STEP`` for 1(y v > 0)
    links: tuple[Link, ...]  # functions of s y v
    power: Array  # (r,)


class PowerLink(Power):
    """Λ^w, corrected for the noise."""

    def log(self, u: Array, w: Array | float) -> Array:
        """The log of the factor of the noisy value."""
        d1, d2, _ = self.derivatives(u)
        left = 1.0 + noise(w) * w * d2
        return np.asarray(w * self.log_link(u) - 0.5 * np.log(left) - 0.5 * noise(w) * (w * d1) ** 2 / left)


def noise(w: Array | float) -> Array:
    """Variance of the noise in units of s f, smaller for a sharper factor."""
    return np.asarray(SHARP / np.maximum(1.0, w))
