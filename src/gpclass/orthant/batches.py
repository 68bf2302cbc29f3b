"""Draws in batches that fit into memory, side by side where joblib is told to.

A batch is a few whole randomisations, each with random numbers of its own, so that neither the size of the batches nor
the number of workers changes a draw. By default the batches follow one another; under
``joblib.parallel_config(n_jobs=2)``, or with ``GPClassifier(n_jobs=2)``, threads share them (the work is matrix
products and special functions, which let other threads run), and a backend that was set, such as Dask's, is used.
Cost: ``ROOM`` numbers an array and worker.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from joblib import Parallel, delayed

from gpclass._typing import Array, IntArray
from gpclass.orthant.plan import Plan
from gpclass.orthant.uniforms import PointSet, replicate_sizes

ROOM = 4_000_000  # numbers in one array of draws


def batches(
    plan: Plan, kind: PointSet, M: int, rng: np.random.Generator
) -> Iterator[tuple[Array, Array, IntArray]]:
    """M draws in independent randomisations: batches of x (n, k), log weights (k,) and randomisations (k,).

    The rows of x are in the plan's order and units; the randomisations are counted through all batches.
    """
    parts = list(_parts(replicate_sizes(M), plan.box.n))
    streams = [plan.streams(sizes, rng) for sizes in parts]
    if len(parts) == 1:
        yield plan.draw_from(kind, parts[0], streams[0])
        return
    jobs = Parallel(prefer="threads", return_as="generator")
    first = 0
    drawn = jobs(delayed(plan.draw_from)(kind, *part) for part in zip(parts, streams, strict=True))
    for sizes, (x, log_w, group) in zip(parts, drawn, strict=True):
        yield x, log_w, group + first
        first += len(sizes)


def _parts(sizes: list[int], n: int) -> Iterator[list[int]]:
    """Randomisations that fit into memory together."""
    part: list[int] = []
    for size in sizes:
        if part and n * (sum(part) + size) > ROOM:
            yield part
            part = []
        part.append(size)
    yield part
