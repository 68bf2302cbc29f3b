"""The tree of histories against whole histories."""

from __future__ import annotations

import numpy as np
import pytest

from gpclass.orthant.histories import WORTH, Histories


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.95])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_products_with_the_tree(share, kind):
    rng, M = np.random.default_rng(0), 300
    whole, first, tree = np.empty((0, M), kind), np.arange(M), Histories()
    for r in (4, 4, 4, 1, 3, 4, 4, 4, 4, 4, 7, 4, 4, 4, 4, 4):
        parent = np.where(rng.random(M) < share, rng.integers(M, size=M), np.arange(M))
        z = rng.standard_normal((r, M)).astype(kind)
        whole, first = np.vstack([whole[:, parent], z]), first[parent]
        tree.append(z, parent)
        W = rng.standard_normal((3, len(whole))).astype(kind)
        found = tree.product(W)
        assert found.dtype == kind
        np.testing.assert_array_equal(tree.first(), first)
        np.testing.assert_allclose(found, W @ whole, atol=1e-4 if kind == np.float32 else 1e-12)
    if share == 0.0:
        assert len(tree.levels) <= 6  # merged as in a binary counter
    if share >= 0.5:  # not much more than the distinct ancestors, though merged levels repeat some
        distinct = sum(len(np.unique(row)) for row in whole)
        assert sum(level.z.size for level in tree.levels) < 2 / WORTH * distinct
