"""The number of threads for linear algebra, and of workers for everything else.

A factorisation of a few hundred rows takes less time than synchronising two threads, and on a shared processor waiting
threads cost ten times what they gain. NumPy and SciPy often load one library each, whose threads compete for the same
cores. Large problems use what the user's settings allow.
Measured with two threads of linear algebra against one: the time of a fit with 1,000 rows is 1.5 to 2 times as long,
with 2,000 rows up to a tenth longer, with 3,000 rows 0.7 to 0.9 times as long.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from typing import Any

from joblib import parallel_config
from threadpoolctl import ThreadpoolController

ONE_THREAD = 2500  # rows up to which one thread is used


@dataclass
class _Held:
    """How many contexts hold linear algebra to one thread, and the number to restore: one state per process."""

    lock: Lock = field(default_factory=Lock)
    depth: int = 0
    allowed: int = 1
    limiter: Any = None


_held = _Held()


@cache
def _libraries() -> ThreadpoolController:
    """The loaded linear algebra libraries, cached: finding them takes longer than setting their threads."""
    return ThreadpoolController().select(user_api="blas")


def allowed_threads() -> int:
    """The number of threads that linear algebra may use outside :func:`one_thread`."""
    with _held.lock:
        if _held.depth:
            return _held.allowed
        return max((library["num_threads"] for library in _libraries().info()), default=1)


@contextmanager
def one_thread() -> Iterator[None]:
    """A context in which linear algebra uses one thread.

    The libraries have one setting for all threads of the process: the first to enter sets it, the last to leave
    restores it.
    """
    allowed = allowed_threads()
    with _held.lock:
        if _held.depth == 0:
            _held.allowed, _held.limiter = allowed, _libraries().limit(limits=1)
        _held.depth += 1
    try:
        yield
    finally:
        with _held.lock:
            _held.depth -= 1
            if _held.depth == 0:
                _held.limiter.restore_original_limits()


def few_threads(n: int) -> AbstractContextManager[None]:
    """A context in which linear algebra on n rows uses the fastest number of threads."""
    return one_thread() if n <= ONE_THREAD else nullcontext()


@cache
def pool(threads: int) -> ThreadPoolExecutor:
    """A pool of threads, cached: starting threads takes as long as a small task."""
    return ThreadPoolExecutor(threads, thread_name_prefix="gpclass")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.cache_clear)  # a forked process does not inherit the threads


def workers(n_jobs: int | None) -> AbstractContextManager[Any]:
    """A context that sets joblib's default number of workers; None keeps the user's setting."""
    return nullcontext() if n_jobs is None else parallel_config(n_jobs=n_jobs)
