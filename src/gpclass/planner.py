"""What a fit will cost, before it is begun: seconds and memory, from a short calibration on this machine.

The method itself is run on a few small subsets of the rows, with the strategy that was asked for, and its
calls of the inference are counted and timed. A call is then taken to cost

    a n² + b n³ e(n₀)/e(n),

a and b from the subsets, e the speed of a Cholesky factorisation of that size: small matrices are slower a
flop than large ones, which an extrapolation by n³ alone would carry along. The peak of memory is a n + b n²,
from allocations that were traced. So a new method needs no cost model of its own.

Cost: about ``budget`` seconds. Fails when: the number of calls at n is far from that at the subset (a harder
search), or a sampler needs many more draws there; expect a factor of two, and be glad of it.
"""

from __future__ import annotations

import time
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lapack
from scipy.optimize import nnls
from sklearn.base import clone

from gpclass import checks
from gpclass._typing import Array, IntArray
from gpclass.registry import get_inference, get_strategy

SMALLEST = 60  # rows of the first subset
LARGEST = 800
SPEED_SIZE = 1000  # Cholesky factorisations are about as fast as they get from here on


@dataclass(frozen=True)
class Plan:
    """What a fit is expected to cost; prints as a sentence."""

    n: int
    d: int
    inference: str
    hyperparameters: str
    seconds: float  # the whole fit, one process
    memory: float  # bytes at the peak
    inferences: int  # calls of the inference
    seconds_each: float
    sizes: tuple[int, ...]  # rows of the subsets that were timed
    available_memory: float

    @property
    def fits(self) -> bool:
        """Whether the memory is there."""
        return self.memory < self.available_memory

    def __str__(self) -> str:
        text = (
            f"{self.inference} with {self.hyperparameters} on {self.n} rows of {self.d} features: about "
            f"{_duration(self.seconds)} ({self.inferences} × {_duration(self.seconds_each)}) and "
            f"{_bytes(self.memory)} of memory"
        )
        text += "" if self.fits else f", of which {_bytes(self.available_memory)} are free: it would fail"
        return f"{text}; judged from {', '.join(map(str, self.sizes))} rows, good to a factor of two or so"


class _Counted:
    """An inference that counts and times its calls."""

    def __init__(self, inference: Any) -> None:
        self.inference = inference
        self.seconds: list[float] = []
        self.last: Any = None
        self.wants_gradient = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inference, name)

    def __call__(self, problem: Any, noise: Any = None, **options: Any) -> Any:
        began = time.perf_counter()
        posterior = self.inference(problem, noise, **options)
        self.seconds.append(time.perf_counter() - began)
        self.last = (problem, posterior)
        self.wants_gradient |= bool(options.get("gradient", False))
        return posterior


def plan_fit(clf: Any, X: Any, y: Any, *, budget: float = 2.0) -> Plan:
    """Expected cost of ``clf.fit(X, y)``.

    Parameters
    ----------
    clf : GPClassifier
        It is not changed.
    X : array or data frame of shape (n, d)
    y : labels of shape (n,)
    budget : float
        Seconds that the calibration may take, about.

    Returns
    -------
    Plan
    """
    X, y = np.asarray(X, dtype=float), np.asarray(y)
    if X.ndim != 2 or len(X) != len(y):
        raise ValueError(f"X must be (n, d) and y (n,), not {X.shape} and {y.shape}")
    n = len(y)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the subset, not about the data
        counted = _run_small(clf, X, y, min(n, SMALLEST))
        calls = len(counted.seconds)
        sizes, seconds = [len(counted.last[0].y)], [float(np.median(counted.seconds))]
        memory = [_traced(lambda: _call(counted, *counted.last))]
        while sizes[-1] < min(n, LARGEST) and time.perf_counter() - began < budget / 3:
            size = min(n, 2 * sizes[-1])
            problem, posterior = _problem(clf, X, y, size)
            sizes.append(len(problem.y))
            seconds.append(_timed(lambda p=problem, q=posterior: _call(counted, p, q)))  # type: ignore[misc]
            memory.append(_traced(lambda p=problem, q=posterior: _call(counted, p, q)))  # type: ignore[misc]
    each = _extrapolate(np.array(sizes), np.array(seconds), n)
    return Plan(
        n=n,
        d=X.shape[1],
        inference=str(get_inference(clf.inference).name),
        hyperparameters=str(get_strategy(clf.hyperparameters).name),
        seconds=calls * each,
        memory=_memory(np.array(sizes), np.array(memory), n),
        inferences=calls,
        seconds_each=each,
        sizes=tuple(sizes),
        available_memory=checks.available_memory(),
    )


def _subset(y: Any, size: int) -> IntArray:
    """Rows of a subset with every class in its share (at least two of each), the same at every call."""
    rng = np.random.default_rng(0)
    chosen = []
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        take = min(len(rows), max(2, round(size * len(rows) / len(y))))
        chosen.append(rng.permutation(rows)[:take])
    return np.sort(np.concatenate(chosen))


def _run_small(clf: Any, X: Array, y: Any, size: int) -> _Counted:
    """The whole fit on a small subset, its inferences counted."""
    rows = _subset(y, size)
    counted = _Counted(get_inference(clf.inference))
    small = clone(clf).set_params(inference=counted, n_jobs=None, verbose=0)
    small.fit(X[rows], y[rows])
    return counted


def _problem(clf: Any, X: Array, y: Any, size: int) -> Any:
    """The problem on a subset at the starting parameters, and a posterior to start from."""
    rows = _subset(y, size)
    counted = _Counted(get_inference(clf.inference))
    clone(clf).set_params(inference=counted, hyperparameters="fixed", verbose=0).fit(X[rows], y[rows])
    return counted.last


def _call(counted: _Counted, problem: Any, start: Any) -> Any:
    """One call as the strategy makes it, warm-started, at parameters that moved a little."""
    theta = problem.theta
    moved = problem.at(theta + 0.1 * (-1.0) ** np.arange(len(theta)))
    options = {"start": start, "gradient": True} if counted.wants_gradient else {}
    return counted.inference(moved, np.random.default_rng(0), **options)


def _timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _traced(work: Callable[[], Any]) -> float:
    """Peak of the bytes allocated."""
    if tracemalloc.is_tracing():
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        work()
        return float(tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.start()
    try:
        work()
        return float(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


def _extrapolate(sizes: Array, seconds: Array, n: int) -> float:
    """Seconds of a call at n rows."""
    if sizes[-1] == n:
        return float(seconds[-1])
    slowness = {int(k): _cholesky_slowness(int(k)) for k in {*sizes.tolist(), min(n, SPEED_SIZE)}}
    terms = np.column_stack([sizes**2.0, [k**3.0 * slowness[int(k)] for k in sizes]])
    # Relative errors, the largest size counting most: it is nearest to n.
    weight = sizes / sizes[-1] / seconds
    (a, b), _ = nnls(terms * weight[:, None], seconds * weight)
    return float(a * n**2 + b * n**3 * slowness[min(n, SPEED_SIZE)])


def _cholesky_slowness(n: int) -> float:
    """Seconds a flop of a factorisation of size n, the best of three."""
    A = np.eye(n, order="F") + 0.5 / n
    best = min(_timed(lambda: lapack.dpotrf(A, lower=1, overwrite_a=0)) for _ in range(3))
    return 3.0 * best / n**3


def _memory(sizes: Array, peaks: Array, n: int) -> float:
    terms = np.column_stack([sizes, sizes**2.0])
    (a, b), _ = nnls(terms / peaks[:, None], np.ones(len(peaks)))
    return float(max(a * n + b * n**2, 0.0))


def _duration(seconds: float) -> str:
    for limit, unit, name in ((1.0, 1e-3, "ms"), (120.0, 1.0, "s"), (7200.0, 60.0, "min")):
        if seconds < limit:
            return f"{seconds / unit:.2g} {name}"
    return f"{seconds / 3600:.2g} h"


def _bytes(count: float) -> str:
    return f"{count / 2**20:.0f} MiB" if count < 2**30 else f"{count / 2**30:.1f} GiB"
