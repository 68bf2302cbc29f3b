"""The normal distribution function for millions of numbers, to 1e-7, in single precision.

Φ(x) = ½ + ½ tanh(x P(x²)) with P fitted to artanh(2Φ(x) − 1)/x: of all polynomials of degree 6 it has the least
absolute error, 3e-8, for all x, since x P(x²) rises beyond where the tanh is ±1. It is several times faster than a
double-precision Φ, and its error is far below the Monte Carlo error of what is averaged. A single value of 1e-5 may be
off by a hundredth of itself, but averages of many have three digits down to 1e-5, below which they are summed in logs.
Cost: some fifteen passes over parts that fit the cache. The test compares it with SciPy's function.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

P = [  # from the highest power down
    1.75627671e-09,
    -1.32266255e-07,
    3.96477289e-06,
    -5.53063156e-05,
    -3.25947470e-05,
    3.63330844e-02,
    7.97884941e-01,
]
STRETCH = np.float32(P[0] ** (1.0 / 13.0))  # of x, so that the highest power has the coefficient 1
COEFFICIENTS = (np.array(P[1:]) / P[0] ** (np.arange(11.0, 0.0, -2.0) / 13.0)).astype(np.float32)
HALF = np.float32(0.5)
CHUNK = 2**15  # numbers at a time, which stay in a processor's own cache through all passes


@np.errstate(over="ignore")  # the tanh of infinity is 1
def normal_cdf(x: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    """Φ(x), in place if x is contiguous."""
    x = x if x.flags.forc else x.copy(order="K")
    flat = x.ravel(order="K")  # a view
    scratch = np.empty((2, min(CHUNK, flat.size)), dtype=np.float32)
    for begin in range(0, flat.size, CHUNK):
        part = flat[begin : begin + CHUNK]
        part *= STRETCH
        _in_place(part, scratch[:, : len(part)])
    return x


@np.errstate(over="ignore")
def normal_cdf_scaled(x: npt.NDArray[Any], scale: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    """Φ(s_j x_ij) for x (S, r) and one scale per column, (r,); best with columns that are contiguous."""
    S, r = x.shape
    found, step = np.empty((r, S), dtype=np.float32), max(1, CHUNK // max(1, S))
    scratch, scale = np.empty((2, min(step, r), S), dtype=np.float32), STRETCH * scale
    for begin in range(0, r, step):
        part = found[begin : begin + step]
        np.multiply(x.T[begin : begin + step], scale[begin : begin + step, None], out=part)
        _in_place(part, scratch[:, : len(part)])
    return found.T


def _in_place(part: npt.NDArray[Any], scratch: npt.NDArray[Any]) -> None:
    """Φ(x) of numbers x that fit the cache, given STRETCH times x, with two arrays of their shape."""
    square, total = scratch
    np.multiply(part, part, out=square)
    np.add(square, COEFFICIENTS[0], out=total)
    for coefficient in COEFFICIENTS[1:]:
        total *= square
        total += coefficient
    total *= part
    np.tanh(total, out=part)
    part *= HALF
    part += HALF
