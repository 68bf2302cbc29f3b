"""The state of chains or particles that samplers of latent values share."""

from __future__ import annotations

from dataclasses import dataclass

from gpclass._typing import Array, Generator
from gpclass.latent.coordinates import Target


@dataclass
class Particles:
    """M chains or particles: where they are, and the log ratio there."""

    xi: Array  # (M, dimension)
    f: Array  # (M, len(target.m))
    r: Array  # (M,)

    @classmethod
    def draw(cls, target: Target, size: int, rng: Generator) -> Particles:
        """Independent draws from q."""
        return cls.at(target, rng.standard_normal((size, target.dimension)))

    @classmethod
    def at(cls, target: Target, xi: Array) -> Particles:
        """The state of given ξ."""
        f = target.latents(xi)
        return cls(xi, f, target.log_ratio(f))
