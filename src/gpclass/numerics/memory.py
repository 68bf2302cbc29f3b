"""Available memory, and memory that a process keeps."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

import numpy as np

KEPT = 31 * 2**20  # bytes of the largest blocks whose memory is used again; glibc's limit is 32 MB
AT_THE_END, SPARE = -1, 128 * 2**20  # glibc's M_TRIM_THRESHOLD: freed bytes at the end of its memory that it keeps


@cache
def keep_freed_memory() -> None:
    """Let the C library keep the memory of freed arrays for the next ones, once per process.

    glibc gives blocks back to the system beyond twice the largest that was freed so far, 128 kB at first, and each page
    of 4 kB takes some microseconds when it returns: up to a fifth of a fit of some hundred rows. Freeing one large
    block, of which no page was used, raises that limit to 62 MB; 128 MB are kept for the predictions that follow a fit.
    Other systems are left as they are.
    """
    if sys.platform != "linux":
        return
    library = ctypes.CDLL(None)
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    library.free.restype, library.free.argtypes = None, (ctypes.c_void_p,)
    library.free(library.malloc(KEPT))  # no array, which a tracer of memory would see
    if hasattr(library, "mallopt"):  # other C libraries lack it
        library.mallopt(AT_THE_END, SPARE)


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
