"""Available memory."""

from __future__ import annotations

import numpy as np


def available_memory() -> float:
    """Bytes of available memory; infinity if unknown."""
    limits = []
    try:
        with open("/proc/meminfo") as lines:
            found = [line.split()[1] for line in lines if line.startswith("MemAvailable")]
        limits += [1024.0 * float(size) for size in found]
        with open("/sys/fs/cgroup/memory.max") as limit, open("/sys/fs/cgroup/memory.current") as used:
            most = limit.read().strip()
            if most != "max":
                limits.append(float(most) - float(used.read()))
    except (OSError, ValueError, IndexError):
        pass  # not Linux, or no limit
    return min(limits, default=np.inf)
