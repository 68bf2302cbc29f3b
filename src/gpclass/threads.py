"""How many threads linear algebra should use.

A factorisation of a few hundred rows takes less time than two threads need to meet, and where the processor is shared
with other work waiting threads cost ten times what they gain. Large problems use what the user's settings allow.
"""

from __future__ import annotations

from typing import Any

from threadpoolctl import threadpool_limits

ONE_THREAD = 500  # rows up to which one thread is used


def few_threads(n: int) -> Any:
    """A context in which linear algebra on n rows uses the number of threads that is fastest."""
    return threadpool_limits(1 if n <= ONE_THREAD else None)
