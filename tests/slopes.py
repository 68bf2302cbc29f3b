"""Directions for differences: a slope along two of them tells every wrong component, at the price of two."""

import numpy as np


def directions(p, count=2):
    """Unit vectors (count, p) in which no component is small; all axes if there are no more of them."""
    if p <= count:
        return np.eye(p)
    rng = np.random.default_rng(p)
    found = rng.uniform(0.5, 1.0, (count, p)) * rng.choice([-1.0, 1.0], (count, p))
    return found / np.linalg.norm(found, axis=1, keepdims=True)
