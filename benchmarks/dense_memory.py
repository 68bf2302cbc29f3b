"""Peak memory of a dense fit, in n² numbers of eight bytes: ``python -m benchmarks.dense_memory [n] [method ...]``.

The problem is that of :mod:`benchmarks.default_speed`. Only arrays count (tracemalloc), not what the C library keeps of
freed memory.
"""

import argparse
import os
import tracemalloc
import warnings

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402

from benchmarks.default_speed import INFERENCES, problem  # noqa: E402


def peak(n, method):
    """Of one fit; and the draws that it keeps, in the same units: those in single precision count half."""
    from gpclass import GPClassifier

    X, y, kernel = problem(n)
    GPClassifier(kernel, inference=method, random_state=0).fit(X[:100], y[:100])  # imports
    tracemalloc.start()
    fitted = GPClassifier(kernel, inference=method, random_state=0).fit(X, y)
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    kept = getattr(fitted.posterior_, "A", np.empty(0))
    return found / (8.0 * n**2), getattr(kept, "off", kept).nbytes / (8.0 * n**2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n", type=int, nargs="?", default=2000)
    parser.add_argument("methods", nargs="*", default=list(INFERENCES))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for method in given.methods:
        whole, draws = peak(given.n, method)
        print(f"{method}, n = {given.n}: {whole:.1f} n² numbers, {draws:.1f} of them draws", flush=True)
