"""The crabs of Campbell & Mahon, with the split of the benchmark data.

The papers' own splits are unknown. Within a group of one colour and sex the crabs are ordered by size, so "the first
20" would all be small; the split is drawn in each group with a fixed seed: 20 of each for 80 training crabs, then,
from the same stream, 25 of each for 100.
"""

from __future__ import annotations

from typing import Any

import numpy as np

SEED = 19980
GROUPS = ((0, 0), (0, 1), (1, 0), (1, 1))  # colour and sex: BF, BM, OF, OM
SIZES = (20, 25)  # training crabs per group, in drawing order


def crabs_split(colour: Any, sex: Any, each: int, seed: int = SEED) -> Any:
    """True for the ``each`` (20 or 25) training crabs of every group."""
    rng = np.random.default_rng(seed)
    for size in SIZES:
        train = np.zeros(len(sex), dtype=bool)
        for group in GROUPS:
            train[rng.permutation(np.flatnonzero((colour == group[0]) & (sex == group[1])))[:size]] = True
        if size == each:
            return train
    raise ValueError(f"the crabs are split with {SIZES} of each group, not {each}")
