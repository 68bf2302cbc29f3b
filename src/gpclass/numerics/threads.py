"""How many threads linear algebra should use, and how many workers everything else.

A factorisation of a few hundred rows takes less time than two threads need to meet, and where the processor is shared
with other work waiting threads cost ten times what they gain; NumPy and SciPy often bring a library each, whose threads
wait for work on the same cores. Large problems use what the user's settings allow.
Measured with two threads against one: a fit of 1,000 rows takes 1.5 to 2 times as long, of 2,000 as long, of 3,000 the
.7th to .9th part.
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

ONE_THREAD = 1500  # rows up to which one thread is used


@dataclass
class _Held:
    """How often linear algebra is held to one thread now, and what it may use otherwise: one for the whole process."""

    lock: Lock = field(default_factory=Lock)
    depth: int = 0
    allowed: int = 1
    limiter: Any = None


_held = _Held()


@cache
def _libraries() -> ThreadpoolController:
    """The libraries of linear algebra that are loaded: looking for them takes longer than telling them."""
    return ThreadpoolController().select(user_api="blas")


def allowed_threads() -> int:
    """How many threads linear algebra may use, or may have used outside :func:`one_thread`."""
    with _held.lock:
        if _held.depth:
            return _held.allowed
        return max((library["num_threads"] for library in _libraries().info()), default=1)


@contextmanager
def one_thread() -> Iterator[None]:
    """Linear algebra in one thread: the others are for something else, and those of a library do not stand idle.

    The libraries know one number for all threads of the process: the first to enter sets it, the last to leave sets it
    back.
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
    """A context in which linear algebra on n rows uses the number of threads that is fastest."""
    return one_thread() if n <= ONE_THREAD else nullcontext()


@cache
def pool(threads: int) -> ThreadPoolExecutor:
    """So many threads, kept for the next time: to start some takes as long as a small piece of work."""
    return ThreadPoolExecutor(threads, thread_name_prefix="gpclass")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.cache_clear)  # a forked process has none of the threads


def workers(n_jobs: int | None) -> AbstractContextManager[Any]:
    """A context in which joblib uses so many workers where it is not told; None leaves what the user has set."""
    return nullcontext() if n_jobs is None else parallel_config(n_jobs=n_jobs)
