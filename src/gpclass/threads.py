"""How many threads linear algebra should use, and how many workers everything else.

A factorisation of a few hundred rows takes less time than two threads need to meet, and where the processor is shared
with other work waiting threads cost ten times what they gain; NumPy and SciPy often bring a library each, whose threads
wait for work on the same cores. Large problems use what the user's settings allow.
Measured with two threads against one: a fit of 1,000 rows takes 1.5 to 2 times as long, of 2,000 as long, of 3,000 the
.7th to .9th part.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from joblib import parallel_config
from threadpoolctl import ThreadpoolController, threadpool_limits

ONE_THREAD = 1500  # rows up to which one thread is used


def few_threads(n: int) -> Any:
    """A context in which linear algebra on n rows uses the number of threads that is fastest."""
    return threadpool_limits(1 if n <= ONE_THREAD else None)


@cache
def _libraries() -> ThreadpoolController:
    """The libraries that are loaded: looking for them takes longer than telling them."""
    return ThreadpoolController()


def linear_algebra_threads() -> int:
    """How many threads linear algebra may use now."""
    return max((library["num_threads"] for library in _libraries().info()), default=1)


def one_thread() -> Any:
    """A context in which linear algebra uses one thread."""
    return _libraries().limit(limits=1)


def workers(n_jobs: int | None) -> AbstractContextManager[Any]:
    """A context in which joblib uses so many workers where it is not told; None leaves what the user has set."""
    return nullcontext() if n_jobs is None else parallel_config(n_jobs=n_jobs)
