"""How many threads linear algebra uses, whoever asks."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from gpclass.numerics.threads import allowed_threads, few_threads, one_thread


def blas():
    return max(library["num_threads"] for library in ThreadpoolController().select(user_api="blas").info())


@pytest.fixture(autouse=True)
def two():
    with threadpool_limits(2):
        yield


def test_one_thread_and_back():
    assert allowed_threads() == 2
    with one_thread(), one_thread():
        assert blas() == 1
        assert allowed_threads() == 2
    assert blas() == 2
    with few_threads(100):
        assert blas() == 1
    with few_threads(100_000):
        assert blas() == 2


def test_only_linear_algebra_counts():
    with threadpool_limits(1, user_api="blas"):
        assert allowed_threads() == 1


def test_fits_that_overlap_leave_what_they_found():
    entered, left = Barrier(2), Barrier(2)

    def overlapping(enter_late):
        with one_thread():
            entered.wait()
            if enter_late:
                left.wait()  # the other has gone
        if not enter_late:
            left.wait()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(overlapping, (False, True)))
    assert blas() == 2
    assert allowed_threads() == 2
