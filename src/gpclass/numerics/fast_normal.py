"""The normal distribution function for millions of numbers, to 2e-7 and to 1e-3 of itself, in single precision.

Φ(x) = 1/(1 + exp(−x P(x²))) with P fitted to logit Φ(x)/x for |x| < 5.6, beyond which Φ is 0 or 1 to 1e-8; the fit
minimises the largest of the absolute error over 2e-7 and the relative error over 2e-3. It is four times faster than a
double-precision Φ, and its error is far below the Monte Carlo error of what is averaged.
Cost: some twenty passes over parts that fit the cache. The test compares it with SciPy's function.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

LIMIT = np.float32(5.6)
P = [  # from the highest power down
    -5.09522874e-11,
    6.26832353e-09,
    -3.16599073e-07,
    8.35907696e-06,
    -1.12195814e-04,
    -6.28792605e-05,
    7.26654155e-02,
    1.59576962e00,
]
COEFFICIENTS = np.array(P, dtype=np.float32)
CHUNK = 2**15  # numbers at a time, which stay in a processor's own cache through all passes


def normal_cdf(x: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    """Φ(x), in place if x is contiguous."""
    x = x if x.flags.forc else x.copy(order="K")
    flat = x.ravel(order="K")  # a view
    scratch = np.empty((2, min(CHUNK, flat.size)), dtype=np.float32)
    for begin in range(0, flat.size, CHUNK):
        part = flat[begin : begin + CHUNK]
        _in_place(part, scratch[:, : len(part)])
    return x


def normal_cdf_scaled(x: npt.NDArray[Any], scale: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    """Φ(s_j x_ij) for x (S, r) and one scale per column, (r,); best with columns that are contiguous."""
    S, r = x.shape
    found, step = np.empty((r, S), dtype=np.float32), max(1, CHUNK // max(1, S))
    scratch = np.empty((2, min(step, r), S), dtype=np.float32)
    for begin in range(0, r, step):
        part = found[begin : begin + step]
        np.multiply(x.T[begin : begin + step], scale[begin : begin + step, None], out=part)
        _in_place(part, scratch[:, : len(part)])
    return found.T


def _in_place(part: npt.NDArray[Any], scratch: npt.NDArray[Any]) -> None:
    """Φ of numbers that fit the cache, with two arrays of their shape."""
    square, total = scratch
    np.clip(part, -LIMIT, LIMIT, out=part)
    np.multiply(part, part, out=square)
    np.multiply(square, -COEFFICIENTS[0], out=total)
    for coefficient in COEFFICIENTS[1:-1]:
        total -= coefficient
        total *= square
    total -= COEFFICIENTS[-1]
    total *= part
    np.exp(total, out=total)
    total += np.float32(1.0)
    np.reciprocal(total, out=part)
