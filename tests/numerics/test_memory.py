"""Memory that the C library keeps for the next arrays."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

COUNT = """
import resource, sys
import numpy as np
from gpclass.numerics.memory import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for begin in range(2):  # the first round makes the heap as large as it needs to be
    before = faults()
    for _ in range(5):
        arrays = [np.ones(2**16) for _ in range(40)]
        del arrays
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc alone")
def test_freed_memory_is_used_again():
    """Without limits that the environment sets, as Dask does for its workers."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    runs = (
        subprocess.run([sys.executable, "-c", COUNT, how], capture_output=True, text=True, check=True, env=own)
        for how in ("kept", "given back")
    )
    kept, given_back = (int(run.stdout) for run in runs)
    assert kept < 100
    assert given_back > 1000  # otherwise there is nothing to keep
