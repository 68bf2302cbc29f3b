"""Draws in batches that fit into memory, side by side in threads.

A batch consists of a few whole randomisations, each with its own random numbers. The draws therefore depend neither
on the batch size nor on the number of workers: by default as many threads as linear algebra may use (the work is matrix
products and special functions, which release the GIL), under ``joblib.parallel_config(n_jobs=4)``, or with
``GPClassifier(n_jobs=4)``, so many, or those of a configured backend such as Dask's.
Cost: ``ROOM`` numbers per array and worker, or twice that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import pairwise

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from gpclass._typing import Array, IntArray
from gpclass.numerics.threads import allowed_threads, one_thread
from gpclass.orthant.plan import Plan
from gpclass.orthant.uniforms import PointSet, replicate_sizes

ROOM = 1_000_000  # numbers in one array of draws, where matrices are large
LARGE = 1200  # coordinates up to which there are twice as many: wide arrays take fewer calls
WIDE = 1500  # draws of a batch, from which on two threads gain: with fewer they wait for each other


def batches(
    plan: Plan, kind: PointSet, M: int, rng: np.random.Generator, duals: bool = False
) -> Iterator[tuple[Array, Array, IntArray]]:
    """M draws in independent randomisations: batches of x (n, k), log weights (k,) and randomisations (k,).

    The rows of x are in the plan's order and units; the randomisations are numbered across all batches. With ``duals``,
    S⁻¹x instead of x.
    """
    sizes = replicate_sizes(M, kind, plan.box.n, plan.shares[0])
    asked = effective_n_jobs(None)  # of joblib's configuration; 1 if there is none
    n_jobs = allowed_threads() if asked == 1 else asked
    streams, parts = plan.streams(sizes, rng), _parts(sizes, plan.box.n, n_jobs)
    bounds = np.cumsum([0, *map(len, parts)])
    own = [[share[a:b] for share in streams] for a, b in pairwise(bounds)]
    if len(parts) == 1:
        yield plan.draw_from(kind, parts[0], own[0], duals)
        return
    with one_thread() if n_jobs > 1 else nullcontext():
        drawn = _jobs(n_jobs)(delayed(plan.draw_from)(kind, *part, duals) for part in zip(parts, own, strict=True))
        for first, (x, log_w, group) in zip(bounds, drawn, strict=False):
            yield x, log_w, group + first


def _jobs(n_jobs: int) -> Parallel:
    """Yield one batch after another on demand, if the backend supports it."""
    try:
        return Parallel(n_jobs, prefer="threads", return_as="generator")
    except ValueError:  # such as multiprocessing
        return Parallel(n_jobs, prefer="threads")


def _parts(sizes: list[int], n: int, workers: int) -> list[list[int]]:
    """Randomisations that are drawn together: parts alike that fit into memory, as many for every worker."""
    M = sum(sizes)
    least = -(-n * M // (2 * ROOM if n <= LARGE else ROOM))
    if workers > 1:
        least = max(least, min(workers, M // WIDE))
        least = least if least <= 1 else -(-least // workers) * workers
    bounds = np.linspace(0, len(sizes), min(max(least, 1), len(sizes)) + 1).round().astype(int)
    return [sizes[a:b] for a, b in pairwise(bounds)]
