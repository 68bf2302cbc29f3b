"""Standard normal numbers in single precision, by Box and Muller's transformation.

Two uniforms make two normals: z = √(−2 log u) (cos θ, sin θ). NumPy's ziggurat makes one at a time, whatever the
precision; logarithms, sines and cosines of single numbers are vectorised, so that an array takes a third of the time.
The radius comes from 32 random bits with a rounding relative to u, so that tails reach 6.7 standard deviations; angles
are multiples of 2π/2³², rounded to 24 bits. No probability is off by more than about 1e-7.
Not for values that are the result themselves, but for numbers that are compared with a limit or averaged.
Reference: Box & Muller (1958), A note on the generation of random normal deviates.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpclass._typing import Generator

Single = npt.NDArray[np.float32]
_TURN = np.float32(np.pi / 2**31)
_BIT = np.float32(2.0**-32)


def single_normals(rng: Generator, out: Single) -> Single:
    """Fill ``out`` (M,) with independent standard normal numbers."""
    half = -(-len(out) // 2)
    bits = rng.integers(2**32, size=2 * half, dtype=np.uint32)
    radius, angle = bits[:half].astype(np.float32), bits[half:].view(np.int32).astype(np.float32)
    radius += np.float32(0.5)
    radius *= _BIT
    np.log(radius, out=radius)
    radius *= np.float32(-2.0)
    np.sqrt(radius, out=radius)
    angle *= _TURN
    rest = len(out) - half
    np.cos(angle, out=out[:half])
    np.sin(angle[:rest], out=out[half:])
    out[:half] *= radius
    out[half:] *= radius[:rest]
    return out
