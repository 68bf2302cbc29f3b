"""The logistic function averaged over Gaussians, for millions of them, to 3e-7; sums of many above 1e-5 to 1e-3.

σ(x) = Σ_j w_j Φ(s_j x) for eight probits, fitted to 1.4e-7 (and 1e-5 of itself down to 1e-5), so that an average over
N(m, v) is Σ_j w_j Φ(s_j m/√(1 + s_j² v)), in single precision.
Cost: eight normal distribution functions each. Reference: Monahan & Stefanski (1992) for such mixtures; our own fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpclass._typing import Array
from gpclass.numerics.fast_normal import normal_cdf

SLOPES = (0.2310162, 0.29504015, 0.37199252, 0.46859434, 0.59169089, 0.75012488, 0.95866577, 1.2500968)
WEIGHTS = (0.00083733, 0.01727403, 0.08977199, 0.215664, 0.30398788, 0.25606916, 0.10480819, 0.01158742)


def logistic_average(mean: Array, var: Array) -> npt.NDArray[Any]:
    """E σ(f) for f ~ N(mean, var); the shapes broadcast."""
    total = np.float32(0.0)
    for slope, weight in zip(SLOPES, WEIGHTS, strict=True):
        stretch = np.float32(slope / np.sqrt(1.0 + slope**2 * var))
        part = normal_cdf(np.multiply(mean, stretch, dtype=np.float32, casting="same_kind"))
        part *= np.float32(weight)
        total = np.add(total, part, out=part)
    return np.asarray(total)
