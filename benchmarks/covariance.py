"""Value and gradient of the covariance, compared with scikit-learn in the same run.

Both compute K and the vector Σ_ij G_ij dK_ij/dθ, the kernel's part of an evidence gradient. The two alternate and the
best of several turns counts; only the ratios are meaningful on a shared machine.

    OMP_NUM_THREADS=1 python benchmarks/covariance.py [n] [d]
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from sklearn.gaussian_process import kernels as sk

from gpclass.covariance import compile_kernel
from gpclass.kernels import on


def theirs(kernel: sk.Kernel, X: np.ndarray, G: np.ndarray) -> np.ndarray:
    _, dK = kernel(X, eval_gradient=True)
    return np.einsum("ij,ijk->k", G, dK)


def ours(kernel: sk.Kernel, X: np.ndarray, G: np.ndarray) -> np.ndarray:
    _, pullback = compile_kernel(kernel).value_and_vjp(X)
    return pullback(G)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def matrices(work: Callable[[], object], n: int) -> float:
    """Peak of the allocated memory, in n×n matrices."""
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / (8 * n * n)


def main(n: int = 1000, d: int = 8, turns: int = 9) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    G = rng.normal(size=(n, n))
    G += G.T
    scales = np.full(d, np.sqrt(d))
    rows = {
        "constant * RBF + constant": sk.ConstantKernel(2.0) * sk.RBF(2.0) + sk.ConstantKernel(1.0),
        "constant * RBF, ARD": sk.ConstantKernel(2.0) * sk.RBF(scales),
        "constant * Matern 1/2, ARD": sk.ConstantKernel(2.0) * sk.Matern(scales, nu=0.5),
        "constant * Matern 3/2, ARD": sk.ConstantKernel(2.0) * sk.Matern(scales, nu=1.5),
        "constant * Matern 5/2, ARD": sk.ConstantKernel(2.0) * sk.Matern(scales, nu=2.5),
        "rational quadratic": sk.RationalQuadratic(2.0, 1.0),
        "RBF + linear, squared": (sk.RBF(2.0) + sk.DotProduct(1.0)) ** 2,
        "sum over columns": sum((on(sk.RBF(1.0), j) for j in range(1, d)), on(sk.RBF(1.0), 0)),
        "short ARD, differences": sk.ConstantKernel(2.0) * sk.RBF(scales / 100),
        "periodic * RBF (generic)": sk.ExpSineSquared(1.0, 3.0) * sk.RBF(2.0),
    }
    print(f"n={n} d={d}: value and contracted gradient, best of {turns} turns; memory in n×n matrices")
    print(f"{'kernel':30s} {'scikit-learn':>13s} {'gpclass':>9s} {'speed':>7s} {'memory':>15s} {'differ':>11s}")
    for name, kernel in rows.items():
        a, b = theirs(kernel, X, G), ours(kernel, X, G)
        pairs = [
            (seconds(lambda k=kernel: theirs(k, X, G)), seconds(lambda k=kernel: ours(k, X, G))) for _ in range(turns)
        ]
        t, o = (min(column) for column in zip(*pairs, strict=True))
        memory = matrices(lambda k=kernel: theirs(k, X, G), n), matrices(lambda k=kernel: ours(k, X, G), n)
        difference = np.abs(a - b).max() / np.abs(a).max()
        print(
            f"{name:30s} {1e3 * t:10.1f} ms {1e3 * o:6.1f} ms {t / o:6.1f}x {memory[0]:7.1f} -> "
            f"{memory[1]:4.1f} {difference:11.0e}"
        )


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:]))
