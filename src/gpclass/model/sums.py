"""Sums that passes over shards return, and the one order in which they are added.

In this process and on workers the last bits are the same: single precision and an ascent would make more of them.
Cost: an addition per shard; as many sums are held as there are levels of the tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

FAN = 8  # sums added at once

Sums: TypeAlias = "dict[str, Any]"  # arrays and numbers, which add; lists, which are joined


def add(left: Mapping[str, Any], right: Mapping[str, Any]) -> Sums:
    """The sum of two results: arrays and numbers add, lists are joined, ``max_*`` takes the larger."""
    if left.keys() != right.keys():
        raise ValueError(f"two shards gave different sums: {sorted(left)} and {sorted(right)}")
    return {key: max(left[key], right[key]) if key.startswith("max_") else left[key] + right[key] for key in left}


def added(sums: Iterable[Sums]) -> Sums:
    """All of them, in their order: each ``FAN`` together, then each ``FAN`` of these sums, and so on."""
    levels: list[list[Any]] = []  # count and sum of what each has so far
    for one in sums:
        _add_to(levels, 0, one)
    for k in range(len(levels) - 1):
        if levels[k][0]:
            _add_to(levels, k + 1, levels[k][1])
    total: Sums = levels[-1][1]
    return total


def _add_to(levels: list[list[Any]], k: int, one: Sums) -> None:
    """Add to level k; a full level goes to the next."""
    if k == len(levels):
        levels.append([0, None])
    count, total = levels[k]
    levels[k] = [count + 1, one if count == 0 else add(total, one)]
    if count + 1 == FAN:
        full, levels[k] = levels[k][1], [0, None]
        _add_to(levels, k + 1, full)
