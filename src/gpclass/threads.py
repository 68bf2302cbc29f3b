"""How many threads linear algebra should use, and how many workers everything else.

A factorisation of a few hundred rows takes less time than two threads need to meet, and where the processor is shared
with other work waiting threads cost ten times what they gain. Large problems use what the user's settings allow.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from joblib import parallel_config
from threadpoolctl import threadpool_limits

ONE_THREAD = 500  # rows up to which one thread is used


def few_threads(n: int) -> Any:
    """A context in which linear algebra on n rows uses the number of threads that is fastest."""
    return threadpool_limits(1 if n <= ONE_THREAD else None)


def workers(n_jobs: int | None) -> AbstractContextManager[Any]:
    """A context in which joblib uses so many workers where it is not told; None leaves what the user has set."""
    return nullcontext() if n_jobs is None else parallel_config(n_jobs=n_jobs)
